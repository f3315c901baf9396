//! The only place that prints. Results go to standard output, everything else to standard error.

use std::io::{self, IsTerminal as _, Write as _};

use clawpen_rules::config::print::{harmless_json, steers_text};

/// Where results and messages go.
#[derive(Debug)]
pub(crate) struct Output {
    stdout: io::Stdout,
    stderr: io::Stderr,
    colour: bool,
}

impl Output {
    /// Colours only for a person: on a terminal, and unless `NO_COLOR` says no.
    pub(crate) fn new() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let stdout = io::stdout();
        Self { colour: wanted && stdout.is_terminal(), stdout, stderr: io::stderr() }
    }

    /// Prints a result. A reader that went away (`| head`) is no error.
    pub(crate) fn text(&self, text: &str) -> io::Result<()> {
        let mut stdout = self.stdout.lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }

    /// Prints a part of a result that goes on; says whether anybody still reads.
    pub(crate) fn stream(&self, text: &str) -> io::Result<Reader> {
        let mut stdout = self.stdout.lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Ok(()) => Ok(Reader::There),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
            Err(error) => Err(error),
        }
    }

    /// Asks a person; whatever is not a clear yes is no, and so is nobody.
    pub(crate) fn confirm(&self, question: &str) -> io::Result<Answer> {
        if !io::stdin().is_terminal() {
            return Ok(Answer::Nobody);
        }
        {
            let mut stderr = self.stderr.lock();
            write!(stderr, "{question} [y/N] ")?;
            stderr.flush()?;
        }
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        let yes = ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str());
        Ok(if yes { Answer::Yes } else { Answer::No })
    }

    /// Prints a result of several lines.
    pub(crate) fn lines(&self, lines: &[String]) -> io::Result<()> {
        self.text(&(lines.join("\n") + "\n"))
    }

    /// Prints a JSON result, indented.
    pub(crate) fn json(&self, value: &impl serde::Serialize) -> io::Result<()> {
        let text = serde_json::to_string_pretty(value).map_err(io::Error::other)?;
        let mut text = harmless_json(&text);
        text.push('\n');
        self.text(&text)
    }

    /// Prints a message beside the result.
    pub(crate) fn note(&self, text: &str) {
        // If the message cannot be printed there is nobody left to tell.
        let _ = writeln!(self.stderr.lock(), "{text}");
    }

    /// Redraws the one line that says how far something is, on a terminal; a blank one clears it.
    pub(crate) fn status(&self, text: &str) {
        if !self.stderr.is_terminal() {
            return;
        }
        // Progress that cannot be shown is no loss.
        let mut stderr = self.stderr.lock();
        let _ = write!(stderr, "\r\x1b[K{text}").and_then(|()| stderr.flush());
    }

    /// A heading.
    pub(crate) fn bold(&self, text: &str) -> String {
        if self.colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Something beside the point, such as an origin.
    pub(crate) fn dim(&self, text: &str) -> String {
        if self.colour { format!("\x1b[2m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Whether somebody still reads what we print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    There,
    Gone,
}

/// What a person said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    No,
    /// There is no terminal to ask at.
    Nobody,
}

/// Makes text from outside safe to show: no control characters, nothing that changes direction or
/// hides, so that a hostile key cannot repaint the terminal or fake a line.
pub(crate) fn safe(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if steers_text(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// The same for a text of several lines, whose line ends are ours.
pub(crate) fn safe_lines(text: &str) -> String {
    text.split('\n').map(safe).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::safe;

    #[test]
    fn text_from_outside_cannot_steer_the_terminal() {
        assert_eq!(safe("a\x1b[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(safe("a\u{202e}b\nc"), "a\\u{202e}b\\u{a}c");
        assert_eq!(safe("plain ünï"), "plain ünï");
    }
}
