//! Anthropic's `v1/messages`.

use clawpen_rules::models::Model;
use serde_json::{Value, json};

use super::dialect::{Draft, Position, StreamError, Wanted, count, object};
use super::lines::Framing;
use super::talk::{Delta, Part, Piece, Said, StopReason, Success, Talk, Tool};

pub(super) fn request(model: &Model, talk: &Talk) -> Wanted {
    let mut messages: Vec<(&str, Vec<Value>)> = Vec::new();
    for said in &talk.messages {
        let (role, blocks) = match said {
            Said::User(parts) => ("user", parts.iter().map(part).collect::<Vec<_>>()),
            Said::Assistant(pieces) => ("assistant", pieces.iter().filter_map(piece).collect()),
            Said::Result(result) => {
                let content: Vec<Value> = result.content.iter().map(part).collect();
                let block = json!({
                    "type": "tool_result",
                    "tool_use_id": result.call,
                    "content": content,
                    "is_error": result.success == Success::No,
                });
                ("user", vec![block])
            }
        };
        // Roles must take turns, and all results of one answer belong into one message.
        match messages.last_mut() {
            Some((last, open)) if *last == role => open.extend(blocks),
            _ if blocks.is_empty() => {}
            _ => messages.push((role, blocks)),
        }
    }
    let messages: Vec<Value> = messages
        .into_iter()
        .map(|(role, content)| json!({ "role": role, "content": content }))
        .collect();
    let mut body = json!({
        "model": model.name.id,
        "max_tokens": model.max_tokens,
        "messages": messages,
        "stream": true,
    });
    if !talk.system.is_empty() {
        let cached = json!({ "type": "ephemeral" });
        body["system"] = json!([{ "type": "text", "text": talk.system, "cache_control": cached }]);
    }
    if !talk.tools.is_empty() {
        let tool = |Tool { name, description, schema }: &Tool| json!({ "name": name, "description": description, "input_schema": schema });
        body["tools"] = talk.tools.iter().map(tool).collect();
    }
    let path = if model.base_url.ends_with("/v1") { "/messages" } else { "/v1/messages" };
    Wanted {
        path: path.to_owned(),
        body,
        key_header: ("x-api-key", ""),
        headers: &[("anthropic-version", "2023-06-01")],
        framing: Framing::Events,
    }
}

fn part(part: &Part) -> Value {
    match part {
        // An empty text is refused.
        Part::Text(text) if text.is_empty() => json!({ "type": "text", "text": "(empty)" }),
        Part::Text(text) => json!({ "type": "text", "text": text }),
        Part::Image { mime_type, data } => {
            json!({ "type": "image", "source": { "type": "base64", "media_type": mime_type, "data": data } })
        }
    }
}

fn piece(piece: &Piece) -> Option<Value> {
    match piece {
        Piece::Text(text) if text.trim().is_empty() => None,
        Piece::Text(text) => Some(json!({ "type": "text", "text": text })),
        // Thinking goes back only with its signature, which is asked for by nobody here.
        Piece::Thinking(_) => None,
        Piece::Call(call) => Some(
            json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": object(&call.arguments) }),
        ),
    }
}

/// Reads an answer.
#[derive(Debug, Default)]
pub(super) struct Reader {
    draft: Draft,
    calls: Vec<(u64, Position)>,
    reason: Option<StopReason>,
}

impl Reader {
    pub(super) fn feed(
        &mut self,
        data: &Value,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), StreamError> {
        match data["type"].as_str().unwrap_or_default() {
            "message_start" => {
                self.draft.id = data["message"]["id"].as_str().map(str::to_owned);
                self.usage(&data["message"]["usage"]);
            }
            "content_block_start" => {
                let block = &data["content_block"];
                match block["type"].as_str().unwrap_or_default() {
                    "text" => self.draft.text(block["text"].as_str().unwrap_or_default(), deltas),
                    "tool_use" => {
                        let id = block["id"].as_str().unwrap_or_default();
                        let at = self.draft.call(id, block["name"].as_str().unwrap_or_default())?;
                        self.calls.push((count(&data["index"]), at));
                        // Usually empty here; what follows in pieces would be a second object.
                        if block["input"].as_object().is_some_and(|input| !input.is_empty()) {
                            self.draft.extend(at, "", &block["input"].to_string())?;
                        }
                    }
                    _ => {}
                }
            }
            "content_block_delta" => self.delta(data, deltas)?,
            "message_delta" => {
                self.usage(&data["usage"]);
                self.reason = match data["delta"]["stop_reason"].as_str() {
                    None => self.reason,
                    Some("max_tokens" | "model_context_window_exceeded") => {
                        Some(StopReason::Length)
                    }
                    Some("refusal") => {
                        return Err(StreamError::Server("the model refused to answer".to_owned()));
                    }
                    Some(_) => Some(StopReason::Stop),
                };
            }
            "message_stop" => self.draft.stop = Some(self.reason.unwrap_or(StopReason::Stop)),
            _ => {}
        }
        Ok(())
    }

    fn delta(&mut self, data: &Value, deltas: &mut Vec<Delta>) -> Result<(), StreamError> {
        let delta = &data["delta"];
        if let Some(text) = delta["text"].as_str() {
            self.draft.text(text, deltas);
        } else if let Some(text) = delta["thinking"].as_str() {
            self.draft.thinking(text, deltas);
        } else if let Some(more) = delta["partial_json"].as_str() {
            let index = count(&data["index"]);
            let known = self.calls.iter().rfind(|(known, _)| *known == index);
            let (_, at) = known
                .ok_or(StreamError::Malformed { what: "arguments of a call that never began" })?;
            self.draft.extend(*at, "", more)?;
        }
        Ok(())
    }

    fn usage(&mut self, usage: &Value) {
        let draft = &mut self.draft.usage;
        for (key, place) in [
            ("input_tokens", &mut draft.input),
            ("output_tokens", &mut draft.output),
            ("cache_read_input_tokens", &mut draft.cache_read),
            ("cache_creation_input_tokens", &mut draft.cache_write),
        ] {
            if let Some(count) = usage[key].as_u64() {
                *place = count;
            }
        }
    }

    pub(super) fn finish(self) -> Draft {
        self.draft
    }
}
