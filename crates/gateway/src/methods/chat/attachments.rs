//! The files of a message: out of base64, with a name and a kind. What they hold is believed by nobody.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clawpen_engine::call::Attachment;
use clawpen_wire::gateway::ErrorShape;
use serde_json::Value;

/// Files of one message, and the size of each.
const MOST: usize = 20;
const MOST_BYTES: usize = 5_000_000;
const UNKNOWN: &str = "application/octet-stream";

/// Reads the attachments of a message.
pub(super) fn read(list: &Value) -> Result<Vec<Attachment>, ErrorShape> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    if list.len() > MOST {
        return Err(ErrorShape::invalid(format!("at most {MOST} attachments fit in a message")));
    }
    list.iter().enumerate().map(|(index, one)| attachment(index, one)).collect()
}

fn attachment(index: usize, one: &Value) -> Result<Attachment, ErrorShape> {
    let text = |key: &str| one[key].as_str().map(str::trim).filter(|text| !text.is_empty());
    let name = text("fileName").map_or_else(|| format!("attachment-{}", index + 1), str::to_owned);
    let shown: String = name.chars().filter(|letter| !letter.is_control()).take(100).collect();
    let bad = |why: &str| ErrorShape::invalid(format!("attachment {shown}: {why}"));
    let source = &one["source"];
    let (content, kind) = match (one["content"].as_str(), source["data"].as_str()) {
        (Some(content), _) => (content, text("mimeType")),
        (None, Some(data)) if source["type"] == "base64" => (data, source["media_type"].as_str()),
        (None, _) => return Err(bad("content must be base64 text")),
    };
    let (content, own_kind) = match content.strip_prefix("data:").map(|url| url.split_once(',')) {
        Some(Some((head, data))) => match head.strip_suffix(";base64") {
            Some(kind) => (data, Some(kind).filter(|kind| !kind.is_empty())),
            None => return Err(bad("content must be base64 text")),
        },
        Some(None) => return Err(bad("content must be base64 text")),
        None => (content, None),
    };
    // Four letters hold three bytes; what is too long is not even read.
    if content.len() / 4 * 3 > MOST_BYTES + 3 {
        return Err(bad(&format!("exceeds the size limit of {MOST_BYTES} bytes")));
    }
    let bytes = STANDARD.decode(content.trim()).map_err(|_broken| bad("invalid base64 content"))?;
    if bytes.len() > MOST_BYTES {
        return Err(bad(&format!("exceeds the size limit of {MOST_BYTES} bytes")));
    }
    let kind = kind.or(own_kind).map_or(UNKNOWN, plain_kind);
    Ok(Attachment { name, mime_type: kind.to_ascii_lowercase(), bytes })
}

/// A kind of file is a short word with a stroke; it stands in texts.
fn plain_kind(kind: &str) -> &str {
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '+' | '-');
    let is_plain = kind.len() <= 100 && kind.contains('/') && kind.chars().all(is_letter);
    if is_plain { kind } else { UNKNOWN }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn files_come_in_every_spelling_that_clients_use() {
        check(json!({ "content": "aGk=" }), Ok(("attachment-1", UNKNOWN)));
        check(
            json!({ "content": "aGk=", "mimeType": "Image/PNG; x=1", "fileName": "a.png" }),
            Ok(("a.png", "image/png")),
        );
        check(
            json!({ "content": "data:image/gif;base64,aGk=" }),
            Ok(("attachment-1", "image/gif")),
        );
        let source =
            json!({ "source": { "type": "base64", "media_type": "image/webp", "data": "aGk=" } });
        check(source, Ok(("attachment-1", "image/webp")));
        check(json!({ "content": "aGk=", "mimeType": "x\ny/z" }), Ok(("attachment-1", UNKNOWN)));
    }

    #[test]
    fn what_is_no_file_is_refused() {
        check(json!({}), Err("attachment attachment-1: content must be base64 text"));
        check(json!({ "content": "%%" }), Err("attachment attachment-1: invalid base64 content"));
        check(
            json!({ "content": "data:text/plain,hi" }),
            Err("attachment attachment-1: content must be base64 text"),
        );
        let large = json!({ "content": "A".repeat(8_000_000) });
        check(large, Err("attachment attachment-1: exceeds the size limit of 5000000 bytes"));
        assert!(read(&json!(vec![json!({ "content": "aGk=" }); 21])).is_err());
    }

    #[track_caller]
    fn check(one: Value, expected: Result<(&str, &str), &str>) {
        let given = read(&json!([one])).map(|files| files[0].clone());
        let given = given.as_ref().map(|file| (file.name.as_str(), file.mime_type.as_str()));
        assert_eq!(given.map_err(|error| error.message.as_str()), expected);
    }
}
