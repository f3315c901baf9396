//! `OpenAI`'s `responses`, which its newest models speak only.
//!
//! Nothing is kept at the server (`store: false`): what was said goes with every request, as everywhere else. Items go back
//! without the server's numbers, so that it does not look for what it did not keep.

use clawpen_rules::models::Model;
use serde_json::{Value, json};

use super::dialect::{Draft, Position, StreamError, Wanted, count, object, words};
use super::lines::Framing;
use super::talk::{Delta, Part, Piece, Said, StopReason, Talk, Tool, ToolResult};

pub(super) fn request(model: &Model, talk: &Talk) -> Wanted {
    let mut input = Vec::new();
    for said in &talk.messages {
        match said {
            Said::User(parts) => input.push(user(parts)),
            Said::Assistant(pieces) => input.extend(pieces.iter().filter_map(piece)),
            Said::Result(result) => input.extend(tool_result(result)),
        }
    }
    let mut body = json!({
        "model": model.name.id,
        "input": input,
        "stream": true,
        "store": false,
        "max_output_tokens": model.max_tokens,
    });
    if !talk.system.is_empty() {
        body["instructions"] = json!(talk.system);
    }
    if !talk.tools.is_empty() {
        body["tools"] = talk.tools.iter().map(tool).collect();
    }
    Wanted {
        path: "/responses".to_owned(),
        body,
        key_header: ("authorization", "Bearer "),
        headers: &[],
        framing: Framing::Events,
    }
}

fn tool(tool: &Tool) -> Value {
    let Tool { name, description, schema } = tool;
    // Strict shapes would have every argument be there.
    json!({ "type": "function", "name": name, "description": description, "parameters": schema, "strict": false })
}

fn user(parts: &[Part]) -> Value {
    let block = |part: &Part| match part {
        Part::Text(text) => json!({ "type": "input_text", "text": text }),
        Part::Image { mime_type, data } => {
            let url = format!("data:{mime_type};base64,{data}");
            json!({ "type": "input_image", "detail": "auto", "image_url": url })
        }
    };
    let content: Vec<Value> = parts.iter().map(block).collect();
    json!({ "type": "message", "role": "user", "content": content })
}

fn piece(piece: &Piece) -> Option<Value> {
    match piece {
        Piece::Text(text) if text.is_empty() => None,
        Piece::Text(text) => {
            let content = json!([{ "type": "output_text", "text": text }]);
            Some(json!({ "type": "message", "role": "assistant", "content": content }))
        }
        // It goes back only in the server's own wrapping, which is asked for by nobody here.
        Piece::Thinking(_) => None,
        Piece::Call(call) => Some(json!({
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": object(&call.arguments).to_string(),
        })),
    }
}

fn tool_result(result: &ToolResult) -> Vec<Value> {
    let text = Part::texts(&result.content);
    let mut items =
        vec![json!({ "type": "function_call_output", "call_id": result.call, "output": text })];
    let images = Part::images(&result.content);
    // Not every model takes an image for an output, so images follow as if they were shown.
    if !images.is_empty() {
        items.push(user(&images));
    }
    items
}

/// Reads an answer.
#[derive(Debug, Default)]
pub(super) struct Reader {
    draft: Draft,
    /// What has begun, by the server's number for it.
    items: Vec<(u64, Item)>,
}

#[derive(Debug, Clone, Copy)]
enum Item {
    /// Some of its text came already.
    Text,
    Call {
        at: Position,
        arguments: Arguments,
    },
}

/// Whether anything of a call's arguments came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arguments {
    Missing,
    Begun,
}

impl Reader {
    pub(super) fn feed(
        &mut self,
        data: &Value,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), StreamError> {
        let response = &data["response"];
        if self.draft.id.is_none() {
            self.draft.id = response["id"].as_str().map(str::to_owned);
        }
        let index = count(&data["output_index"]);
        let delta = data["delta"].as_str().unwrap_or_default();
        match data["type"].as_str().unwrap_or_default() {
            // A refusal is what the model has to say.
            "response.output_text.delta" | "response.refusal.delta" => {
                self.draft.text(delta, deltas);
                if !self.has_text(index) {
                    self.items.push((index, Item::Text));
                }
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.draft.thinking(delta, deltas);
            }
            "response.output_item.added" if data["item"]["type"] == "function_call" => {
                self.call(index, &data["item"])?;
            }
            "response.function_call_arguments.delta" => self.arguments(index, delta)?,
            "response.output_item.done" => self.whole(index, &data["item"], deltas)?,
            "response.completed" => self.end(response, StopReason::Stop),
            "response.incomplete" => match response["incomplete_details"]["reason"].as_str() {
                Some("content_filter") => {
                    return Err(StreamError::Server("the answer was filtered".to_owned()));
                }
                Some(_) | None => self.end(response, StopReason::Length),
            },
            "response.failed" | "response.cancelled" => {
                return Err(StreamError::Server(words(&response["error"])));
            }
            "error" => return Err(StreamError::Server(words(data))),
            _ => {}
        }
        Ok(())
    }

    fn has_text(&self, index: u64) -> bool {
        self.items.iter().any(|(known, item)| *known == index && matches!(item, Item::Text))
    }

    fn call(&mut self, index: u64, item: &Value) -> Result<Position, StreamError> {
        let text = |key: &str| item[key].as_str().unwrap_or_default();
        let at = self.draft.call(text("call_id"), text("name"))?;
        self.items.push((index, Item::Call { at, arguments: Arguments::Missing }));
        Ok(at)
    }

    fn arguments(&mut self, index: u64, more: &str) -> Result<(), StreamError> {
        let known = self.items.iter_mut().rfind(|(known, _)| *known == index);
        let Some((_, Item::Call { at, arguments })) = known else {
            return Err(StreamError::Malformed { what: "arguments of a call that never began" });
        };
        *arguments = Arguments::Begun;
        self.draft.extend(*at, "", more)
    }

    /// An item at its end: what came of it in pieces is known, and what did not is taken from here.
    fn whole(
        &mut self,
        index: u64,
        item: &Value,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), StreamError> {
        match item["type"].as_str().unwrap_or_default() {
            "message" if !self.has_text(index) => {
                for part in item["content"].as_array().into_iter().flatten() {
                    let text = part["text"].as_str().or_else(|| part["refusal"].as_str());
                    self.draft.text(text.unwrap_or_default(), deltas);
                }
            }
            "function_call" => {
                let known = self.items.iter().rfind(|(known, _)| *known == index);
                let at = match known {
                    Some((_, Item::Call { arguments: Arguments::Begun, .. })) => return Ok(()),
                    Some((_, Item::Call { at, arguments: Arguments::Missing })) => *at,
                    Some((_, Item::Text)) | None => self.call(index, item)?,
                };
                self.draft.extend(at, "", item["arguments"].as_str().unwrap_or_default())?;
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, response: &Value, stop: StopReason) {
        let usage = &response["usage"];
        let cached = count(&usage["input_tokens_details"]["cached_tokens"]);
        self.draft.usage.cache_read = cached;
        self.draft.usage.input = count(&usage["input_tokens"]).saturating_sub(cached);
        self.draft.usage.output = count(&usage["output_tokens"]);
        self.draft.stop = Some(stop);
    }

    pub(super) fn finish(self) -> Draft {
        self.draft
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(events: &[Value]) -> Result<Draft, StreamError> {
        let mut reader = Reader::default();
        for event in events {
            reader.feed(event, &mut Vec::new())?;
        }
        Ok(reader.finish())
    }

    #[test]
    fn what_came_in_no_pieces_is_taken_from_the_whole_items() {
        let message =
            json!({ "type": "message", "content": [{ "type": "output_text", "text": "hi" }] });
        let call = json!({ "type": "function_call", "call_id": "c", "name": "exec", "arguments": "{\"a\":1}" });
        let mut begun = call.clone();
        begun["arguments"] = json!("");
        let events = [
            json!({ "type": "response.output_item.done", "output_index": 0, "item": message }),
            json!({ "type": "response.output_item.added", "output_index": 1, "item": begun }),
            json!({ "type": "response.output_item.done", "output_index": 1, "item": call }),
            json!({ "type": "response.output_item.done", "output_index": 2, "item": call }),
            json!({ "type": "response.completed", "response": {} }),
        ];
        let turn = read(&events).unwrap().turn().unwrap();
        let arguments: Vec<Value> = turn.calls().map(|call| call.arguments.clone()).collect();
        assert_eq!(arguments, [json!({ "a": 1 }), json!({ "a": 1 })]);
        assert!(matches!(&turn.pieces[0], Piece::Text(text) if text == "hi"));
    }

    #[test]
    fn only_what_the_server_ended_is_an_answer() {
        let text = json!({ "type": "response.output_text.delta", "output_index": 0, "delta": "x" });
        assert_eq!(read(std::slice::from_ref(&text)).unwrap().turn(), Err(StreamError::Broken));
        let full = json!({ "type": "response.incomplete", "response": { "incomplete_details": { "reason": "max_output_tokens" } } });
        let turn = read(&[text.clone(), full]).unwrap().turn().unwrap();
        assert_eq!(turn.stop, StopReason::Length);
        for (event, said) in [
            (
                json!({ "type": "response.failed", "response": { "error": { "message": "no room" } } }),
                "no room",
            ),
            (json!({ "type": "error", "code": "x", "message": "broken" }), "broken"),
            (
                json!({ "type": "response.incomplete", "response": { "incomplete_details": { "reason": "content_filter" } } }),
                "the answer was filtered",
            ),
        ] {
            let error = read(&[text.clone(), event]).unwrap_err();
            assert_eq!(error, StreamError::Server(said.to_owned()));
        }
        let stray = json!({ "type": "response.function_call_arguments.delta", "output_index": 4, "delta": "{" });
        assert!(matches!(read(&[stray]), Err(StreamError::Malformed { .. })));
    }
}
