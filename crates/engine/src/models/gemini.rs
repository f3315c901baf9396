//! Google's `streamGenerateContent`.

use clawpen_rules::models::Model;
use serde_json::{Value, json};

use super::dialect::{Draft, StreamError, Wanted, count, object};
use super::lines::Framing;
use super::talk::{Delta, Part, Piece, Said, StopReason, Success, Talk, Tool, ToolResult};

pub(super) fn request(model: &Model, talk: &Talk) -> Wanted {
    let mut contents: Vec<(&str, Vec<Value>)> = Vec::new();
    for said in &talk.messages {
        let (role, parts) = match said {
            Said::User(parts) => ("user", parts.iter().map(part).collect::<Vec<_>>()),
            Said::Assistant(pieces) => ("model", pieces.iter().filter_map(piece).collect()),
            Said::Result(result) => ("user", tool_result(result)),
        };
        match contents.last_mut() {
            Some((last, open)) if *last == role => open.extend(parts),
            _ if parts.is_empty() => {}
            _ => contents.push((role, parts)),
        }
    }
    let contents: Vec<Value> =
        contents.into_iter().map(|(role, parts)| json!({ "role": role, "parts": parts })).collect();
    let mut body = json!({
        "contents": contents,
        "generationConfig": { "maxOutputTokens": model.max_tokens },
    });
    if !talk.system.is_empty() {
        body["systemInstruction"] = json!({ "parts": [{ "text": talk.system }] });
    }
    if !talk.tools.is_empty() {
        let tool = |Tool { name, description, schema }: &Tool| json!({ "name": name, "description": description, "parametersJsonSchema": schema });
        let tools: Vec<Value> = talk.tools.iter().map(tool).collect();
        body["tools"] = json!([{ "functionDeclarations": tools }]);
    }
    Wanted {
        path: format!("/models/{}:streamGenerateContent?alt=sse", model.name.id),
        body,
        key_header: ("x-goog-api-key", ""),
        headers: &[],
        framing: Framing::Events,
    }
}

fn part(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({ "text": text }),
        Part::Image { mime_type, data } => {
            json!({ "inlineData": { "mimeType": mime_type, "data": data } })
        }
    }
}

fn piece(piece: &Piece) -> Option<Value> {
    match piece {
        Piece::Text(text) if text.is_empty() => None,
        Piece::Text(text) => Some(json!({ "text": text })),
        Piece::Thinking(_) => None,
        Piece::Call(call) => {
            let mut part =
                json!({ "functionCall": { "name": call.name, "args": object(&call.arguments) } });
            if let Some(signature) = &call.signature {
                part["thoughtSignature"] = json!(signature);
            }
            Some(part)
        }
    }
}

fn tool_result(result: &ToolResult) -> Vec<Value> {
    let key = match result.success {
        Success::Yes => "output",
        Success::No => "error",
    };
    let answer = json!({ "functionResponse": { "name": result.tool, "response": { key: Part::texts(&result.content) } } });
    let images = result.content.iter().filter(|part| matches!(part, Part::Image { .. }));
    std::iter::once(answer).chain(images.map(part)).collect()
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
        if let Some(reason) = data["promptFeedback"]["blockReason"].as_str() {
            return Err(StreamError::Server(format!("the request was blocked ({reason})")));
        }
        if self.draft.id.is_none() {
            self.draft.id = data["responseId"].as_str().map(str::to_owned);
        }
        let usage = &data["usageMetadata"];
        if usage.is_object() {
            let cached = count(&usage["cachedContentTokenCount"]);
            self.draft.usage.cache_read = cached;
            self.draft.usage.input = count(&usage["promptTokenCount"]).saturating_sub(cached);
            let thoughts = count(&usage["thoughtsTokenCount"]);
            self.draft.usage.output =
                count(&usage["candidatesTokenCount"]).saturating_add(thoughts);
        }
        let candidate = &data["candidates"][0];
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            self.part(part, deltas)?;
        }
        match candidate["finishReason"].as_str() {
            None => {}
            Some("STOP") => self.draft.stop = Some(StopReason::Stop),
            Some("MAX_TOKENS") => self.draft.stop = Some(StopReason::Length),
            Some(other) => {
                return Err(StreamError::Server(format!("the answer ended with {other}")));
            }
        }
        Ok(())
    }

    fn part(&mut self, part: &Value, deltas: &mut Vec<Delta>) -> Result<(), StreamError> {
        let call = &part["functionCall"];
        if call.is_object() {
            // Its own ids are optional and its results go by name, so ours serve as well.
            let id = call["id"].as_str().unwrap_or_default();
            let at = self.draft.call(id, call["name"].as_str().unwrap_or_default())?;
            if call["args"].is_object() {
                self.draft.extend(at, "", &call["args"].to_string())?;
            }
            if let Some(signature) = part["thoughtSignature"].as_str() {
                self.draft.sign(at, signature);
            }
        } else if let Some(text) = part["text"].as_str() {
            if part["thought"] == true {
                self.draft.thinking(text, deltas);
            } else {
                self.draft.text(text, deltas);
            }
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Draft {
        self.draft
    }
}
