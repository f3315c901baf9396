//! `--open`: shows the gateway's page in a browser. The address holds no secret, because others see it in the list of processes.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::note;
use crate::output::Output;

/// Starts a browser and does not wait for it; without one, says so.
pub(super) fn open(url: &str, output: &Output) {
    let named = std::env::var("BROWSER").unwrap_or_default();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let find = |name: &str| {
        let places = std::env::split_paths(&path).map(|directory| directory.join(name));
        // A name with a slash is a path already.
        let own = name.contains('/').then(|| PathBuf::from(name));
        own.into_iter().chain(places).find(|path| path.is_file())
    };
    let Some((program, arguments)) = browser(&named, url, find) else {
        output.note(&format!("note: no browser found (`BROWSER`, xdg-open); open {url} yourself"));
        return;
    };
    let started = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Err(error) = started {
        note(output, &error);
    }
}

/// The first that is there: those of `BROWSER` (commands with a colon between them, `%s` for the address), then `xdg-open`.
fn browser(
    named: &str,
    url: &str,
    find: impl Fn(&str) -> Option<PathBuf>,
) -> Option<(PathBuf, Vec<String>)> {
    named.split(':').chain(["xdg-open"]).find_map(|command| {
        let mut words = command.split_whitespace();
        let program = find(words.next()?)?;
        let mut arguments: Vec<String> = words.map(|word| word.replace("%s", url)).collect();
        if !command.contains("%s") {
            arguments.push(url.to_owned());
        }
        Some((program, arguments))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[track_caller]
    fn check(named: &str, there: &[&str], expected: Option<(&str, &[&str])>) {
        let find = |name: &str| there.contains(&name).then(|| Path::new("/bin").join(name));
        let found = browser(named, "http://h:1", find);
        let expected = expected.map(|(program, words)| {
            (Path::new("/bin").join(program), words.iter().map(ToString::to_string).collect())
        });
        assert_eq!(found, expected, "{named}");
    }

    #[test]
    fn the_first_browser_that_is_there_gets_the_address() {
        check("", &["xdg-open"], Some(("xdg-open", &["http://h:1"])));
        check("", &[], None);
        check("a:b --new %s:c", &["b", "xdg-open"], Some(("b", &["--new", "http://h:1"])));
        check("a -x", &["a"], Some(("a", &["-x", "http://h:1"])));
        check("gone", &["xdg-open"], Some(("xdg-open", &["http://h:1"])));
    }
}
