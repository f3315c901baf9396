//! Says whether a `sed` command only edits text: its language can run programs and write files.
//!
//! A script is understood if it is one address (a line number, `$`, or `/…/`, or two of them) before
//! one of `p d q =`, or a substitution whose flags are `g p i I` and digits. Everything else counts
//! as carrying.

use std::iter::Peekable;
use std::str::Chars;

/// The word that carries, if the script is not understood or comes from a file.
pub(super) fn carries(words: &[String]) -> Option<String> {
    let mut words = words.iter();
    let mut scripts = Vec::new();
    let mut operand = None;
    while let Some(word) = words.next() {
        match word.as_str() {
            "-n" | "-E" | "-r" | "-s" | "-u" | "-z" | "--quiet" | "--silent"
            | "--regexp-extended" | "--posix" | "--null-data" | "--sandbox" | "--version"
            | "--help" => {}
            "-e" | "--expression" => scripts.extend(words.next()),
            word if word.starts_with('-') && word.len() > 1 => return Some(word.to_owned()),
            _ if operand.is_none() => operand = Some(word),
            _ => {}
        }
    }
    if scripts.is_empty() {
        scripts.extend(operand);
    }
    scripts.into_iter().any(|script| !is_understood(script)).then(|| "sed".to_owned())
}

fn is_understood(script: &str) -> bool {
    let mut characters = script.chars().peekable();
    address(&mut characters).is_some() && command(&mut characters).is_some()
}

/// Reads no, one or two addresses.
fn address(characters: &mut Peekable<Chars<'_>>) -> Option<()> {
    loop {
        match characters.peek() {
            Some('$') => {
                characters.next();
            }
            Some('/') => {
                characters.next();
                delimited(characters, '/')?;
            }
            Some(digit) if digit.is_ascii_digit() => {
                while characters.next_if(char::is_ascii_digit).is_some() {}
            }
            _ => return Some(()),
        }
        if characters.next_if_eq(&',').is_none() {
            return Some(());
        }
    }
}

fn command(characters: &mut Peekable<Chars<'_>>) -> Option<()> {
    match characters.next()? {
        'p' | 'd' | 'q' | '=' => {}
        's' => {
            let delimiter =
                characters.next().filter(|c| !c.is_alphanumeric() && !matches!(c, '\\' | '\n'))?;
            delimited(characters, delimiter)?;
            delimited(characters, delimiter)?;
            while characters.next_if(|flag| "gpiI0123456789".contains(*flag)).is_some() {}
        }
        _ => return None,
    }
    characters.next().is_none().then_some(())
}

/// Reads up to the delimiter; `None` if there is none, or where a line ends.
fn delimited(characters: &mut Peekable<Chars<'_>>, delimiter: char) -> Option<()> {
    loop {
        match characters.next()? {
            // In a class a delimiter is text for some versions and an end for others.
            '\n' | '[' => return None,
            '\\' => {
                characters.next().filter(|escaped| *escaped != '\n')?;
            }
            character if character == delimiter => return Some(()),
            _ => {}
        }
    }
}
