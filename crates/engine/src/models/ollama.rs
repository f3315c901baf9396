//! Ollama's own `api/chat`: a JSON text a line, calls whole.

use clawpen_rules::models::Model;
use serde_json::{Value, json};

use super::dialect::{Draft, StreamError, Wanted, count, object};
use super::lines::Framing;
use super::openai;
use super::talk::{Delta, Part, Piece, Said, StopReason, Talk};

pub(super) fn request(model: &Model, talk: &Talk) -> Wanted {
    let mut messages = Vec::new();
    if !talk.system.is_empty() {
        messages.push(json!({ "role": "system", "content": talk.system }));
    }
    for said in &talk.messages {
        messages.push(match said {
            Said::User(parts) => {
                with_images(json!({ "role": "user", "content": Part::texts(parts) }), parts)
            }
            Said::Assistant(pieces) => assistant(pieces),
            Said::Result(result) => {
                let text = Part::texts(&result.content);
                let message = json!({ "role": "tool", "tool_name": result.tool, "content": text });
                with_images(message, &result.content)
            }
        });
    }
    let mut body = json!({
        "model": model.name.id,
        "messages": messages,
        "stream": true,
        // Without it, what does not fit into a few thousand tokens is cut in silence.
        "options": { "num_ctx": model.context_window, "num_predict": model.max_tokens },
    });
    if !talk.tools.is_empty() {
        body["tools"] = talk.tools.iter().map(openai::tool).collect();
    }
    Wanted {
        path: "/api/chat".to_owned(),
        body,
        key_header: ("authorization", "Bearer "),
        headers: &[],
        framing: Framing::Lines,
    }
}

fn with_images(mut message: Value, parts: &[Part]) -> Value {
    let images: Vec<&str> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Image { data, .. } => Some(data.as_str()),
            Part::Text(_) => None,
        })
        .collect();
    if !images.is_empty() {
        message["images"] = json!(images);
    }
    message
}

fn assistant(pieces: &[Piece]) -> Value {
    let mut text = String::new();
    let mut calls = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Text(more) => text.push_str(more),
            Piece::Thinking(_) => {}
            Piece::Call(call) => calls.push(
                json!({ "function": { "name": call.name, "arguments": object(&call.arguments) } }),
            ),
        }
    }
    let mut message = json!({ "role": "assistant", "content": text });
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    message
}

/// Reads an answer.
#[derive(Debug, Default)]
pub(super) struct Reader {
    draft: Draft,
}

impl Reader {
    pub(super) fn feed(
        &mut self,
        data: &Value,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), StreamError> {
        let message = &data["message"];
        self.draft.thinking(message["thinking"].as_str().unwrap_or_default(), deltas);
        self.draft.text(message["content"].as_str().unwrap_or_default(), deltas);
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            let id = call["id"].as_str().unwrap_or_default();
            let at = self.draft.call(id, function["name"].as_str().unwrap_or_default())?;
            self.draft.extend(at, "", &function["arguments"].to_string())?;
        }
        if data["done"] == true {
            self.draft.usage.input = count(&data["prompt_eval_count"]);
            self.draft.usage.output = count(&data["eval_count"]);
            self.draft.stop = Some(match data["done_reason"].as_str() {
                Some("length") => StopReason::Length,
                _ => StopReason::Stop,
            });
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Draft {
        self.draft
    }
}
