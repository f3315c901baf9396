//! Between a transcript and a talk: what was said before is what the model is shown.

use clawpen_rules::compaction::{self, Joint, Size};
use clawpen_rules::models::Model;
use clawpen_rules::timestamp::Timestamp;
use serde_json::{Map, Value, json};

use crate::models::talk::{Call, Part, Piece, Said, StopReason, Success, ToolResult, Turn, Usage};
use crate::transcript::{Body, Line};

/// A message, and the line it stands in.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Kept {
    pub(super) id: String,
    pub(super) said: Said,
}

/// What is still said, after everything that was summed up.
pub(super) fn load(lines: Vec<Line>) -> Vec<Kept> {
    let last = lines.iter().rposition(|line| matches!(line.body, Body::Compaction { .. }));
    let mut kept = Vec::new();
    let mut from = 0;
    if let Some(at) = last
        && let Some(Line { id, body: Body::Compaction { summary, first_kept } }) = lines.get(at)
    {
        from = lines.iter().position(|line| line.id == *first_kept).unwrap_or(at);
        kept.push(Kept { id: id.clone(), said: summed_up(summary) });
    }
    let messages = lines.into_iter().skip(from).filter_map(|line| match line.body {
        Body::Message(message) => Some(Kept { id: line.id, said: said(&message)? }),
        Body::Compaction { .. } | Body::Other => None,
    });
    kept.extend(messages);
    kept
}

/// What the last answer took that said so.
pub(super) fn last_usage(lines: &[Line]) -> Option<Usage> {
    let usage = lines.iter().rev().filter_map(|line| match &line.body {
        Body::Message(message) => message.get("usage"),
        Body::Compaction { .. } | Body::Other => None,
    });
    let usage = usage.map(|usage| {
        let number = |key: &str| usage[key].as_u64().unwrap_or_default();
        Usage {
            input: number("input"),
            output: number("output"),
            cache_read: number("cacheRead"),
            cache_write: number("cacheWrite"),
        }
    });
    usage.into_iter().find(|usage| *usage != Usage::default())
}

pub(super) fn summed_up(summary: &str) -> Said {
    Said::User(vec![Part::Text(format!("[What was said before, summed up]\n{summary}"))])
}

fn said(message: &Map<String, Value>) -> Option<Said> {
    let text = |key: &str| message.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    match text("role").as_str() {
        "user" => Some(Said::User(parts(message.get("content")))),
        "assistant" => {
            let pieces = pieces(message.get("content"));
            (!pieces.is_empty()).then_some(Said::Assistant(pieces))
        }
        "toolResult" => Some(Said::Result(ToolResult {
            call: text("toolCallId"),
            tool: text("toolName"),
            content: parts(message.get("content")),
            success: match message.get("isError") {
                Some(Value::Bool(true)) => Success::No,
                _ => Success::Yes,
            },
        })),
        _ => None,
    }
}

fn parts(content: Option<&Value>) -> Vec<Part> {
    match content {
        Some(Value::String(text)) => vec![Part::Text(text.clone())],
        Some(Value::Array(blocks)) => blocks.iter().filter_map(part).collect(),
        _ => Vec::new(),
    }
}

fn part(block: &Value) -> Option<Part> {
    let text = |key: &str| block[key].as_str().map(str::to_owned);
    match block["type"].as_str()? {
        "text" => Some(Part::Text(text("text")?)),
        "image" => Some(Part::Image { mime_type: text("mimeType")?, data: text("data")? }),
        _ => None,
    }
}

fn pieces(content: Option<&Value>) -> Vec<Piece> {
    let blocks = content.and_then(Value::as_array).into_iter().flatten();
    let piece = |block: &Value| {
        let text = |key: &str| block[key].as_str().map(str::to_owned);
        match block["type"].as_str()? {
            "text" => Some(Piece::Text(text("text")?)),
            "thinking" => Some(Piece::Thinking(text("thinking")?)),
            "toolCall" => Some(Piece::Call(Call {
                id: text("id")?,
                name: text("name")?,
                arguments: block["arguments"].clone(),
                signature: text("thoughtSignature"),
            })),
            _ => None,
        }
    };
    blocks.filter_map(piece).collect()
}

/// The messages as servers take them: every call has its result right after it, and no result is without its call. A
/// process that was killed leaves calls of which nobody knows what became.
pub(super) fn complete(kept: &[Kept]) -> Vec<Said> {
    let mut messages = Vec::with_capacity(kept.len());
    let mut open: Vec<(String, String)> = Vec::new();
    for Kept { said, .. } in kept {
        match said {
            Said::Result(result) => {
                let Some(at) = open.iter().position(|(id, _)| *id == result.call) else { continue };
                open.remove(at);
            }
            Said::User(_) => close(&mut open, &mut messages),
            Said::Assistant(pieces) => {
                close(&mut open, &mut messages);
                let calls = pieces.iter().filter_map(|piece| match piece {
                    Piece::Call(call) => Some((call.id.clone(), call.name.clone())),
                    Piece::Text(_) | Piece::Thinking(_) => None,
                });
                open.extend(calls);
            }
        }
        messages.push(said.clone());
    }
    close(&mut open, &mut messages);
    messages
}

fn close(open: &mut Vec<(String, String)>, messages: &mut Vec<Said>) {
    for (call, tool) in open.drain(..) {
        let text = "The call was interrupted; whether it did anything is not known.".to_owned();
        let content = vec![Part::Text(text)];
        messages.push(Said::Result(ToolResult { call, tool, content, success: Success::No }));
    }
}

/// How long messages are.
pub(super) fn sizes(kept: &[Kept]) -> Vec<Size> {
    let of = |kept: &Kept| {
        let (tokens, joint) = match &kept.said {
            Said::User(parts) => (of_parts(parts), Joint::May),
            Said::Result(result) => (of_parts(&result.content), Joint::MayNot),
            Said::Assistant(pieces) => {
                let one = |piece: &Piece| match piece {
                    Piece::Text(text) | Piece::Thinking(text) => compaction::tokens(text),
                    Piece::Call(call) => compaction::tokens(&call.arguments.to_string()) + 20,
                };
                (pieces.iter().map(one).sum(), Joint::May)
            }
        };
        Size { tokens, joint }
    };
    kept.iter().map(of).collect()
}

fn of_parts(parts: &[Part]) -> u64 {
    let one = |part: &Part| match part {
        Part::Text(text) => compaction::tokens(text),
        Part::Image { .. } => compaction::IMAGE_TOKENS,
    };
    parts.iter().map(one).sum()
}

/// The talk as one text, to be summed up.
pub(super) fn told(kept: &[Kept]) -> String {
    let one = |kept: &Kept| match &kept.said {
        Said::User(parts) => format!("User: {}", Part::texts(parts)),
        Said::Assistant(pieces) => {
            let piece = |piece: &Piece| match piece {
                Piece::Text(text) => text.clone(),
                Piece::Thinking(_) => String::new(),
                Piece::Call(call) => format!("[calls {} {}]", call.name, call.arguments),
            };
            format!("Agent: {}", pieces.iter().map(piece).collect::<Vec<_>>().join("\n"))
        }
        Said::Result(result) => {
            let text = Part::texts(&result.content);
            let text = compaction::fit_result(&text, 4_000).unwrap_or(text);
            format!("Result of {}: {text}", result.tool)
        }
    };
    kept.iter().map(one).collect::<Vec<_>>().join("\n\n")
}

fn blocks(parts: &[Part]) -> Vec<Value> {
    let block = |part: &Part| match part {
        Part::Text(text) => json!({ "type": "text", "text": text }),
        Part::Image { mime_type, data } => {
            json!({ "type": "image", "data": data, "mimeType": mime_type })
        }
    };
    parts.iter().map(block).collect()
}

pub(super) fn user_line(parts: &[Part], label: Option<&str>, now: Timestamp) -> Value {
    let mut line =
        json!({ "role": "user", "content": blocks(parts), "timestamp": now.as_millis() });
    if let Some(label) = label {
        line["senderLabel"] = json!(label);
    }
    line
}

pub(super) fn assistant_line(turn: &Turn, model: &Model, now: Timestamp) -> Value {
    let block = |piece: &Piece| match piece {
        Piece::Text(text) => json!({ "type": "text", "text": text }),
        Piece::Thinking(text) => json!({ "type": "thinking", "thinking": text }),
        Piece::Call(call) => {
            let arguments =
                if call.arguments.is_object() { call.arguments.clone() } else { json!({}) };
            let mut block = json!({ "type": "toolCall", "id": call.id, "name": call.name, "arguments": arguments });
            if let Some(signature) = &call.signature {
                block["thoughtSignature"] = json!(signature);
            }
            block
        }
    };
    let stop = match turn.stop {
        StopReason::Stop => "stop",
        StopReason::ToolUse => "toolUse",
        StopReason::Length => "length",
    };
    let mut line = json!({
        "role": "assistant",
        "content": turn.pieces.iter().map(block).collect::<Vec<_>>(),
        "api": model.api.as_str(),
        "provider": model.name.provider,
        "model": model.name.id,
        "usage": usage(turn.usage, model),
        "stopReason": stop,
        "timestamp": now.as_millis(),
    });
    if let Some(id) = &turn.id {
        line["responseId"] = json!(id);
    }
    line
}

/// What tokens cost by the config's prices: read, written, from the cache, into it.
pub(super) fn dollars(usage: Usage, model: &Model) -> [f64; 4] {
    let Usage { input, output, cache_read, cache_write } = usage;
    // Dollars and tokens are small enough for a float.
    #[expect(clippy::cast_precision_loss, reason = "a price for people")]
    let price = |tokens: u64, million: f64| tokens as f64 * million / 1e6;
    [
        price(input, model.cost.input),
        price(output, model.cost.output),
        price(cache_read, model.cost.cache_read),
        price(cache_write, model.cost.cache_write),
    ]
}

fn usage(usage: Usage, model: &Model) -> Value {
    let Usage { input, output, cache_read, cache_write } = usage;
    let cost = dollars(usage, model);
    json!({
        "input": input,
        "output": output,
        "cacheRead": cache_read,
        "cacheWrite": cache_write,
        "totalTokens": usage.total(),
        "cost": {
            "input": cost[0], "output": cost[1], "cacheRead": cost[2], "cacheWrite": cost[3],
            "total": cost.iter().sum::<f64>(),
        },
    })
}

/// How a model's failure, or an abort, is kept.
pub(super) enum Cut<'a> {
    Failed { error: &'a str },
    Aborted { run: &'a str, origin: &'a str },
}

/// What was said before it was cut off.
pub(super) fn cut_line(text: &str, model: &Model, cut: &Cut<'_>, now: Timestamp) -> Value {
    let content: Vec<Value> =
        if text.is_empty() { Vec::new() } else { vec![json!({ "type": "text", "text": text })] };
    let mut line = json!({
        "role": "assistant",
        "content": content,
        "api": model.api.as_str(),
        "provider": model.name.provider,
        "model": model.name.id,
        "usage": usage(Usage::default(), model),
        "stopReason": "error",
        "timestamp": now.as_millis(),
    });
    match cut {
        Cut::Failed { error } => line["errorMessage"] = json!(error),
        Cut::Aborted { run, origin } => {
            line["provider"] = json!("openclaw");
            line["model"] = json!("gateway-injected");
            line["api"] = json!("openai-responses");
            line["stopReason"] = json!("stop");
            line["idempotencyKey"] = json!(format!("{run}:assistant"));
            line["openclawAbort"] = json!({ "aborted": true, "origin": origin, "runId": run });
        }
    }
    line
}

pub(super) fn result_line(result: &ToolResult, details: &Value, now: Timestamp) -> Value {
    json!({
        "role": "toolResult",
        "toolCallId": result.call,
        "toolName": result.tool,
        "content": blocks(&result.content),
        "details": details,
        "isError": result.success == Success::No,
        "timestamp": now.as_millis(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> Piece {
        Piece::Call(Call {
            id: id.into(),
            name: "exec".into(),
            arguments: json!({}),
            signature: None,
        })
    }

    fn kept(said: Said) -> Kept {
        Kept { id: String::new(), said }
    }

    fn result(id: &str) -> Said {
        let content = vec![Part::Text("ok".into())];
        Said::Result(ToolResult {
            call: id.into(),
            tool: "exec".into(),
            content,
            success: Success::Yes,
        })
    }

    #[test]
    fn a_call_whose_process_died_gets_a_result_and_a_stray_result_goes() {
        let user = || Said::User(vec![Part::Text("go on".into())]);
        let talk = [
            kept(result("stray")),
            kept(Said::Assistant(vec![call("a"), call("b")])),
            kept(result("b")),
            kept(user()),
            kept(Said::Assistant(vec![call("c")])),
        ];
        let ids: Vec<String> = complete(&talk)
            .iter()
            .map(|said| match said {
                Said::User(_) => "user".to_owned(),
                Said::Assistant(_) => "assistant".to_owned(),
                Said::Result(result) => format!("{}:{:?}", result.call, result.success),
            })
            .collect();
        assert_eq!(ids, ["assistant", "b:Yes", "a:No", "user", "assistant", "c:No"]);
    }

    #[test]
    fn what_was_summed_up_is_not_said_again() {
        let message = |id: &str, text: &str| Line {
            id: id.into(),
            body: Body::Message(
                json!({ "role": "user", "content": text }).as_object().unwrap().clone(),
            ),
        };
        let compaction = Line {
            id: "c".into(),
            body: Body::Compaction { summary: "short".into(), first_kept: "2".into() },
        };
        let lines =
            vec![message("1", "one"), message("2", "two"), compaction, message("3", "three")];
        let texts: Vec<String> = load(lines)
            .into_iter()
            .map(|kept| match kept.said {
                Said::User(parts) => Part::texts(&parts),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(texts, ["[What was said before, summed up]\nshort", "two", "three"]);
    }
}
