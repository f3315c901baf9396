//! `chat/completions`, as `OpenAI`, llama.cpp, vLLM, Ollama, LM Studio and most hosts speak it.

use clawpen_rules::models::Model;
use serde_json::{Value, json};

use super::dialect::{Draft, Position, StreamError, Wanted, count};
use super::lines::Framing;
use super::talk::{Delta, Part, Piece, Said, StopReason, Talk, Tool, ToolResult};

pub(super) fn request(model: &Model, talk: &Talk) -> Wanted {
    let mut messages = Vec::new();
    if !talk.system.is_empty() {
        messages.push(json!({ "role": "system", "content": talk.system }));
    }
    for said in &talk.messages {
        match said {
            Said::User(parts) => {
                messages.push(json!({ "role": "user", "content": content(parts) }));
            }
            Said::Assistant(pieces) => messages.extend(assistant(pieces)),
            Said::Result(result) => messages.extend(tool_result(result)),
        }
    }
    let mut body = json!({
        "model": model.name.id,
        "messages": messages,
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    // OpenAI itself has renamed it; most others know the old name only.
    let limit = if model.base_url.contains("api.openai.com") {
        "max_completion_tokens"
    } else {
        "max_tokens"
    };
    body[limit] = json!(model.max_tokens);
    if !talk.tools.is_empty() {
        body["tools"] = talk.tools.iter().map(tool).collect();
    }
    Wanted {
        path: "/chat/completions".to_owned(),
        body,
        key_header: ("authorization", "Bearer "),
        headers: &[],
        framing: Framing::Events,
    }
}

pub(super) fn tool(tool: &Tool) -> Value {
    let Tool { name, description, schema } = tool;
    json!({ "type": "function", "function": { "name": name, "description": description, "parameters": schema } })
}

fn content(parts: &[Part]) -> Value {
    let has_image = parts.iter().any(|part| matches!(part, Part::Image { .. }));
    if !has_image {
        return json!(Part::texts(parts));
    }
    let block = |part: &Part| match part {
        Part::Text(text) => json!({ "type": "text", "text": text }),
        Part::Image { mime_type, data } => {
            json!({ "type": "image_url", "image_url": { "url": format!("data:{mime_type};base64,{data}") } })
        }
    };
    parts.iter().map(block).collect()
}

fn assistant(pieces: &[Piece]) -> Option<Value> {
    let mut text = String::new();
    let mut calls = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Text(more) => text.push_str(more),
            Piece::Thinking(_) => {}
            Piece::Call(call) => calls.push(json!({
                "id": call.id,
                "type": "function",
                "function": { "name": call.name, "arguments": super::dialect::object(&call.arguments).to_string() },
            })),
        }
    }
    if text.is_empty() && calls.is_empty() {
        return None;
    }
    let mut message = json!({ "role": "assistant", "content": text });
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    Some(message)
}

fn tool_result(result: &ToolResult) -> Vec<Value> {
    let text = Part::texts(&result.content);
    let mut messages =
        vec![json!({ "role": "tool", "tool_call_id": result.call, "content": text })];
    let images = Part::images(&result.content);
    // A tool's message is text only, so its images follow as if they were shown.
    if !images.is_empty() {
        messages.push(json!({ "role": "user", "content": content(&images) }));
    }
    messages
}

/// Reads an answer.
#[derive(Debug, Default)]
pub(super) struct Reader {
    draft: Draft,
    /// The calls by the server's number for them.
    calls: Vec<(u64, String, Position)>,
}

impl Reader {
    pub(super) fn feed(
        &mut self,
        data: &Value,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), StreamError> {
        if self.draft.id.is_none() {
            self.draft.id = data["id"].as_str().map(str::to_owned);
        }
        let usage = &data["usage"];
        if usage.is_object() {
            let cached = count(&usage["prompt_tokens_details"]["cached_tokens"]);
            self.draft.usage.cache_read = cached;
            self.draft.usage.input = count(&usage["prompt_tokens"]).saturating_sub(cached);
            self.draft.usage.output = count(&usage["completion_tokens"]);
        }
        let choice = &data["choices"][0];
        let delta = &choice["delta"];
        for key in ["reasoning_content", "reasoning"] {
            if let Some(text) = delta[key].as_str() {
                self.draft.thinking(text, deltas);
                break;
            }
        }
        if let Some(text) = delta["content"].as_str() {
            self.draft.text(text, deltas);
        }
        for part in delta["tool_calls"].as_array().into_iter().flatten() {
            self.call(part)?;
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.draft.stop = Some(match reason {
                "length" => StopReason::Length,
                "content_filter" => {
                    return Err(StreamError::Server("the answer was filtered".to_owned()));
                }
                _ => StopReason::Stop,
            });
        }
        Ok(())
    }

    fn call(&mut self, part: &Value) -> Result<(), StreamError> {
        let id = part["id"].as_str().unwrap_or_default();
        let function = &part["function"];
        let name = function["name"].as_str().unwrap_or_default();
        let arguments = match &function["arguments"] {
            Value::String(text) => text.clone(),
            Value::Object(_) => function["arguments"].to_string(),
            _ => String::new(),
        };
        let index = part["index"].as_u64();
        let known = match index {
            // Some servers give every call the same number and only the ids differ.
            Some(index) => self
                .calls
                .iter()
                .rfind(|(known, known_id, _)| *known == index && (id.is_empty() || known_id == id)),
            None if id.is_empty() => self.calls.last(),
            None => self.calls.iter().rfind(|(_, known_id, _)| known_id == id),
        };
        if let Some((_, _, at)) = known {
            return self.draft.extend(*at, name, &arguments);
        }
        let at = self.draft.call(id, name)?;
        let number = index.unwrap_or(self.calls.len() as u64);
        self.calls.push((number, id.to_owned(), at));
        self.draft.extend(at, "", &arguments)
    }

    pub(super) fn finish(self) -> Draft {
        self.draft
    }
}
