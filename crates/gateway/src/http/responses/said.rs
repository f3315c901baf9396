//! What a request to `/v1/responses` says: its items as one message, its files, and what the developer adds.

use serde_json::{Value, json};

/// Items of one request; more are no talk.
const MOST_ITEMS: usize = 500;

/// What the items of a request say.
pub(super) struct Said {
    pub(super) message: String,
    pub(super) attachments: Vec<Value>,
    /// What the developer says, for the instructions.
    pub(super) system: Vec<String>,
}

/// The talk as one message: the last thing that was said, after what came before it.
pub(super) fn said(input: &Value) -> Result<Said, String> {
    let missing = || "Missing user message in `input`.".to_owned();
    let items = match input {
        Value::String(text) if !text.trim().is_empty() => {
            let (attachments, system) = (Vec::new(), Vec::new());
            return Ok(Said { message: text.clone(), attachments, system });
        }
        Value::Array(items) if !items.is_empty() => items,
        _ => return Err(missing()),
    };
    if items.len() > MOST_ITEMS {
        return Err(format!("more than {MOST_ITEMS} items"));
    }
    let (mut spoken, mut system, mut attachments) = (Vec::new(), Vec::new(), Vec::new());
    for (index, item) in items.iter().enumerate() {
        match item["type"].as_str() {
            None | Some("message") => {}
            // What a model thought, and what is only pointed at, says nothing here.
            Some("reasoning" | "item_reference") => continue,
            Some(other) => {
                let other: String = other.chars().take(50).collect();
                return Err(format!(
                    "`input[{index}]`: items of type `{other}` are not taken here"
                ));
            }
        }
        let text = content(&item["content"], index, &mut attachments)?;
        let text = text.trim();
        match item["role"].as_str().unwrap_or("user") {
            _ if text.is_empty() => {}
            "system" | "developer" => system.push(text.to_owned()),
            role => spoken
                .push((if role == "assistant" { "assistant" } else { "user" }, text.to_owned())),
        }
    }
    let newest = spoken.iter().rposition(|(role, _)| *role == "user");
    let newest = newest.or_else(|| spoken.len().checked_sub(1));
    let message = match newest {
        None if attachments.is_empty() => return Err(missing()),
        None => String::new(),
        Some(at) => {
            spoken.truncate(at + 1);
            let newest = spoken.pop().map(|(_, text)| text).unwrap_or_default();
            if spoken.is_empty() {
                newest
            } else {
                let before: Vec<String> =
                    spoken.iter().map(|(role, text)| format!("{role}: {text}")).collect();
                format!("[What was said before]\n{}\n\n[Now]\n{newest}", before.join("\n"))
            }
        }
    };
    Ok(Said { message, attachments, system })
}

/// The text of an item; its files are added to the others.
fn content(content: &Value, item: usize, files: &mut Vec<Value>) -> Result<String, String> {
    let parts = match content {
        Value::String(text) => return Ok(text.clone()),
        Value::Array(parts) => parts,
        _ => return Ok(String::new()),
    };
    let mut texts = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let here = format!("`input[{item}].content[{index}]`");
        match part["type"].as_str().unwrap_or_default() {
            "input_text" | "output_text" | "text" => {
                texts.push(part["text"].as_str().unwrap_or_default());
            }
            "input_image" | "input_file" => files.push(file(part, &here)?),
            other => {
                let other: String = other.chars().take(50).collect();
                return Err(format!("{here}: parts of type `{other}` are not taken here"));
            }
        }
    }
    Ok(texts.join("\n"))
}

/// A file that comes with a request. Nothing is fetched for anybody.
fn file(part: &Value, here: &str) -> Result<Value, String> {
    let source = &part["source"];
    let data = [
        &part["image_url"],
        &part["file_data"],
        &source["data"],
        &source["url"],
        &part["file_url"],
    ];
    let data = data.into_iter().find_map(Value::as_str);
    let name = part["filename"].as_str().or_else(|| source["filename"].as_str());
    let is_address = |text: &str| text.starts_with("http:") || text.starts_with("https:");
    match data {
        Some(text) if is_address(text) || source["type"] == "url" => {
            Err(format!("{here}: files by address are not fetched here; send the bytes as base64"))
        }
        Some(data) => Ok(json!({
            "content": data, "mimeType": source["media_type"], "fileName": name,
        })),
        None => Err(format!(
            "{here}: a file needs its bytes as base64; ids of files are not known here"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(input: Value, expected: Result<(&str, usize, &str), &str>) {
        let found = said(&input);
        let found = found
            .as_ref()
            .map(|said| (said.message.as_str(), said.attachments.len(), said.system.join("|")));
        let found = found.as_ref().map(|(text, files, system)| (*text, *files, system.as_str()));
        assert_eq!(found.map_err(|why| why.as_str()), expected, "{input}");
    }

    #[test]
    fn what_is_put_in_becomes_one_message() {
        check(json!("hi"), Ok(("hi", 0, "")));
        check(json!([{ "role": "user", "content": "hi" }]), Ok(("hi", 0, "")));
        check(
            json!([{ "type": "message", "role": "developer", "content": "kind" },
                   { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "a" }] },
                   { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "b" }] },
                   { "type": "message", "role": "user", "content": "c" }]),
            Ok(("[What was said before]\nuser: a\nassistant: b\n\n[Now]\nc", 0, "kind")),
        );
        check(
            json!([{ "role": "user", "content": [{ "type": "input_text", "text": "look" },
                { "type": "input_image", "image_url": "data:image/png;base64,aGk=" },
                { "type": "input_file", "filename": "a.txt",
                  "source": { "type": "base64", "media_type": "text/plain", "data": "aGk=" } }] }]),
            Ok(("look", 2, "")),
        );
    }

    #[test]
    fn what_is_not_taken_is_refused_by_its_place() {
        for empty in
            [json!(null), json!([]), json!(" "), json!([{ "role": "user", "content": " " }])]
        {
            check(empty, Err("Missing user message in `input`."));
        }
        check(
            json!([{ "type": "function_call_output", "call_id": "c", "output": "x" }]),
            Err("`input[0]`: items of type `function_call_output` are not taken here"),
        );
        check(
            json!([{ "role": "user", "content": [{ "type": "input_image", "image_url": "https://a/b.png" }] }]),
            Err(
                "`input[0].content[0]`: files by address are not fetched here; send the bytes as base64",
            ),
        );
        check(
            json!([{ "role": "user", "content": [{ "type": "input_file", "source": { "type": "url", "url": "file:///etc/passwd" } }] }]),
            Err(
                "`input[0].content[0]`: files by address are not fetched here; send the bytes as base64",
            ),
        );
        check(
            json!([{ "role": "user", "content": [{ "type": "input_file", "file_id": "f" }] }]),
            Err(
                "`input[0].content[0]`: a file needs its bytes as base64; ids of files are not known here",
            ),
        );
    }
}
