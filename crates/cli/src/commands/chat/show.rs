//! What a person sees of a run: the answer on standard output, what tools do beside it on standard error.

use clawpen_engine::models::talk::{Part, Success};
use clawpen_engine::runner::{AbortReason, Ended, RunEvent, What};
use clawpen_rules::config::print::steers_text;
use serde_json::{Map, Value, json};

use crate::args::Format;
use crate::commands::CommandError;
use crate::output::{Output, safe};

/// Characters of a call or a result on one line.
const LINE: usize = 160;

/// Shows one run.
pub(super) struct Screen<'a> {
    output: &'a Output,
    format: Format,
    /// Whether the last thing on standard output was the end of a line.
    at_start: bool,
    tools: Vec<Value>,
    /// Calls that have begun and not ended.
    open: usize,
}

/// Whether a person saw something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Something,
    Nothing,
}

impl<'a> Screen<'a> {
    pub(super) const fn new(output: &'a Output, format: Format) -> Self {
        Self { output, format, at_start: true, tools: Vec::new(), open: 0 }
    }

    /// The calls of the run, for programs.
    pub(super) fn tools(&self) -> &[Value] {
        &self.tools
    }

    pub(super) fn show(&mut self, what: &What) -> Result<(), CommandError> {
        match what {
            What::Text(text) => self.text(text)?,
            What::ToolStarted { tool, arguments, .. } => {
                self.open += 1;
                self.note(&format!("[{}] {}", safe(tool), short(&arguments_text(arguments))))?;
            }
            What::ToolEnded { call, tool, success, content, details, .. } => {
                self.tools.push(json!({
                    "id": call,
                    "name": tool,
                    "isError": *success == Success::No,
                    "status": details["status"],
                    "exitCode": details["exitCode"],
                }));
                let sign = match success {
                    Success::Yes => "ok",
                    Success::No => "failed",
                };
                // Of several at once it must be said whose end this is.
                let whose =
                    if self.open > 1 { format!("[{}] ", safe(tool)) } else { String::new() };
                self.open = self.open.saturating_sub(1);
                self.note(&format!("  {whose}{sign}: {}", short(&Part::texts(content))))?;
            }
            What::Compacting => self.note("[summing up what was said before]")?,
            What::Started
            | What::Thinking(_)
            | What::ToolOutput { .. }
            | What::Compacted { .. }
            | What::Ended(_) => {}
        }
        Ok(())
    }

    /// Something stands before the cursor, such as a prompt.
    pub(super) const fn mid_line(&mut self) {
        self.at_start = false;
    }

    /// Something of another run: a sub-agent's, or a follow-up's.
    pub(super) fn beside(
        &mut self,
        event: &RunEvent,
        session: &str,
    ) -> Result<Shown, CommandError> {
        let What::Ended(ended) = &event.what else { return Ok(Shown::Nothing) };
        if self.format == Format::Json {
            return Ok(Shown::Nothing);
        }
        match ended {
            Ended::Done { text, .. } | Ended::Replied { text } if event.session == session => {
                self.fresh_line()?;
                self.text(text)?;
                self.fresh_line()?;
            }
            Ended::Failed { error } if event.session == session => {
                self.note(&format!("[failed] {}", short(error)))?;
            }
            Ended::Done { .. }
            | Ended::Replied { .. }
            | Ended::Failed { .. }
            | Ended::Aborted { .. } => {
                self.note(&format!("[{}] has ended", safe(&event.session)))?;
            }
        }
        Ok(Shown::Something)
    }

    pub(super) fn ended(&mut self, ended: &Ended) -> Result<(), CommandError> {
        match ended {
            Ended::Replied { text } => self.text(text)?,
            Ended::Aborted { why: AbortReason::Timeout, .. } => {
                self.note("[stopped: its time was over]")?;
            }
            Ended::Aborted { why: AbortReason::Rpc | AbortReason::Stop, .. } => {
                self.note("[stopped]")?;
            }
            Ended::Done { .. } | Ended::Failed { .. } => {}
        }
        self.fresh_line()
    }

    fn text(&mut self, text: &str) -> Result<(), CommandError> {
        if self.format == Format::Json || text.is_empty() {
            return Ok(());
        }
        self.at_start = text.ends_with('\n');
        // Whether anybody still reads is seen when the run is over; what tools did counts either way.
        let _reader = self.output.stream(&harmless(text))?;
        Ok(())
    }

    fn note(&mut self, text: &str) -> Result<(), CommandError> {
        if self.format == Format::Text {
            self.fresh_line()?;
            self.output.note(&self.output.dim(text));
        }
        Ok(())
    }

    fn fresh_line(&mut self) -> Result<(), CommandError> {
        if !self.at_start {
            self.at_start = true;
            self.output.text("\n")?;
        }
        Ok(())
    }
}

/// A text of several lines that cannot steer a terminal.
fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\n' | '\t') || !steers_text(c) {
            shown.push(c);
        } else {
            shown.extend(c.escape_unicode());
        }
    }
    shown
}

/// The first line, cut.
fn short(text: &str) -> String {
    let first = text.trim().lines().next().unwrap_or_default();
    let is_cut = first.chars().count() > LINE || text.trim().lines().count() > 1;
    let mut shown = safe(&first.chars().take(LINE).collect::<String>());
    if is_cut {
        shown.push_str(" …");
    }
    shown
}

/// What a call is about, in few words.
fn arguments_text(arguments: &Value) -> String {
    let telling = ["command", "path", "file_path", "task", "message", "sessionKey", "action"];
    let found = telling.iter().find_map(|key| arguments[*key].as_str());
    found.map_or_else(|| arguments.to_string(), str::to_owned)
}

/// A message of a transcript on one line.
pub(super) fn line(message: &Map<String, Value>) -> Option<String> {
    let who = match message.get("role").and_then(Value::as_str)? {
        "user" => "you",
        "assistant" => "agent",
        "toolResult" => "tool",
        _ => return None,
    };
    let text = match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            let one = |block: &Value| match block["type"].as_str()? {
                "text" => block["text"].as_str().map(str::to_owned),
                "toolCall" => {
                    let name = block["name"].as_str().unwrap_or_default();
                    Some(format!("[{name}] {}", arguments_text(&block["arguments"])))
                }
                _ => None,
            };
            blocks.iter().filter_map(one).collect::<Vec<_>>().join(" ")
        }
        _ => return None,
    };
    Some(format!("{who}: {}", short(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_model_says_steers_the_terminal() {
        assert_eq!(harmless("a\n\tb\x1b[2J\u{202e}"), "a\n\tb\\u{1b}[2J\\u{202e}");
        assert_eq!(short("one\x07\ntwo"), "one\\u{7} …");
    }

    #[test]
    fn a_message_is_shown_on_one_line() {
        let message = json!({ "role": "assistant", "content": [
            { "type": "text", "text": "I look." },
            { "type": "toolCall", "name": "exec", "arguments": { "command": "ls -la" } },
        ] });
        assert_eq!(line(message.as_object().unwrap()).unwrap(), "agent: I look. [exec] ls -la");
    }
}
