//! The only program in the scratch image: shows what a process sees in an image that holds nothing.
//!
//! `probe echo WORD… | exit N | read PATH | write PATH TEXT | list PATH | env | cat`
#![forbid(unsafe_code)]

use std::fs;
use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match answer(&words) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("probe: {error}");
            ExitCode::FAILURE
        }
    }
}

fn answer(words: &[&str]) -> io::Result<ExitCode> {
    match words {
        [] | ["true"] => {}
        ["echo", rest @ ..] => println!("{}", rest.join(" ")),
        ["exit", code] => return Ok(ExitCode::from(code.parse::<u8>().map_err(io::Error::other)?)),
        ["read", path] => print!("{}", String::from_utf8_lossy(&fs::read(path)?)),
        ["write", path, text] => fs::write(path, text)?,
        ["list", path] => {
            let mut names = Vec::new();
            for entry in fs::read_dir(path)? {
                names.push(entry?.file_name().to_string_lossy().into_owned());
            }
            names.sort();
            println!("{}", names.join("\n"));
        }
        ["env"] => {
            for (name, value) in std::env::vars_os() {
                println!("{}={}", name.to_string_lossy(), value.to_string_lossy());
            }
        }
        ["cat"] => {
            io::copy(&mut io::stdin().lock(), &mut io::stdout().lock())?;
        }
        other => return Err(io::Error::other(format!("unknown: {}", other.join(" ")))),
    }
    Ok(ExitCode::SUCCESS)
}
