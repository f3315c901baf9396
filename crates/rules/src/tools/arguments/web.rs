//! The arguments of `web_fetch`.

use super::commands::reader;
use super::{BadArguments, Value};
use crate::tools::BuiltTool;
use crate::web::html::Mode;

/// A page that is to be fetched.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FetchCall {
    pub url: String,
    pub mode: Mode,
    /// Characters to show.
    pub most: Option<u64>,
}

/// Reads the arguments of `web_fetch`.
pub fn parse_fetch(arguments: &Value) -> Result<FetchCall, BadArguments> {
    let mut reader = reader(BuiltTool::WebFetch, arguments)?;
    let call = FetchCall {
        url: reader.word("url")?,
        mode: reader.choice("extractMode", Mode::parse)?.unwrap_or(Mode::Markdown),
        most: reader.whole("maxChars")?,
    };
    reader.finish(call)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn a_call_names_an_address_and_may_name_mode_and_size() {
        let parse = |members: &[(&str, Value)]| {
            let members = members.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
            parse_fetch(&Value::Map(members.collect()))
        };
        let url = ("url", text("https://example.com"));
        let plain =
            FetchCall { url: "https://example.com".into(), mode: Mode::Markdown, most: None };
        assert_eq!(parse(std::slice::from_ref(&url)), Ok(plain.clone()));
        let full = [url.clone(), ("extractMode", text("text")), ("maxChars", Value::Number(100.0))];
        assert_eq!(parse(&full), Ok(FetchCall { mode: Mode::Text, most: Some(100), ..plain }));
        for (bad, expected) in [
            (vec![], "`web_fetch` lacks `url`; call it again with every required parameter"),
            (
                vec![url.clone(), ("extractMode", text("pdf"))],
                "`extractMode` of `web_fetch` must be one of markdown, text",
            ),
            (
                vec![url.clone(), ("maxChars", Value::Number(99.0))],
                "`maxChars` of `web_fetch` must be a whole number, at least 100",
            ),
        ] {
            assert_eq!(parse(&bad).unwrap_err().to_string(), expected);
        }
    }
}
