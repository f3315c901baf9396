//! The arguments of `image`.

use super::commands::reader_of;
use super::{BadArguments, Value};
use crate::tools::image::LARGEST;
use crate::tools::schema::IMAGE;

/// Images of one call.
const MOST_IMAGES: usize = 20;
const MIB: f64 = 1024.0 * 1024.0;

/// Images that a model is to be asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageCall {
    pub prompt: String,
    /// At least one; each only once.
    pub paths: Vec<String>,
    pub model: Option<String>,
    /// Bytes of one image; a call makes it less, never more.
    pub most: u64,
}

/// Reads the arguments of `image`.
pub fn parse_image(arguments: &Value) -> Result<ImageCall, BadArguments> {
    let reader = reader_of(&IMAGE, arguments)?;
    let mut paths = Vec::new();
    let single = reader.optional("image")?.into_iter().map(|path| ("image", path));
    let several = reader.words("images")?.into_iter().map(|path| ("images", path));
    for (name, path) in single.chain(several) {
        if is_address(&path) {
            let expected = "the path of a file in the workspace or the sandbox: no URL, no data: URI, no path of the host";
            return Err(reader.wrong(name, expected));
        }
        if !path.trim().is_empty() && !paths.contains(&path) {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(BadArguments::Missing { tool: IMAGE.name, names: vec!["image"] });
    }
    if paths.len() > MOST_IMAGES {
        return Err(reader.wrong("images", format!("a list of {MOST_IMAGES} paths at most")));
    }
    let most = match reader.number("maxBytesMb")? {
        None => LARGEST,
        Some(size) if size > 0.0 => bytes(size).min(LARGEST),
        Some(_) => return Err(reader.wrong("maxBytesMb", "a number above 0")),
    };
    let model = reader.optional("model")?;
    let asked = reader.optional("prompt")?;
    let usual = if paths.len() == 1 { "Describe the image." } else { "Describe the images." };
    Ok(ImageCall { prompt: asked.unwrap_or_else(|| usual.to_owned()), paths, model, most })
}

/// `https://…`, `data:…` and the like; `file://` is a way to write a path, here as for `read`.
fn is_address(given: &str) -> bool {
    let text = given.trim();
    let text = text.strip_prefix('@').unwrap_or(text);
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let scheme = scheme.to_ascii_lowercase();
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_scheme && (rest.starts_with("//") || scheme == "data") && scheme != "file"
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "above 0, and what is too much is cut to what is allowed"
)]
const fn bytes(size: f64) -> u64 {
    (size * MIB) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(members: &[(&str, Value)]) -> Result<ImageCall, String> {
        let members = members.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        parse_image(&Value::Map(members.collect())).map_err(|bad| bad.to_string())
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn a_call_names_images_and_may_say_what_to_find_out() {
        let plain = ImageCall {
            prompt: "Describe the image.".into(),
            paths: vec!["a.png".into()],
            model: None,
            most: LARGEST,
        };
        assert_eq!(parse(&[("image", text("a.png"))]), Ok(plain.clone()));
        let list = Value::List(vec![text("a.png"), text("b.png")]);
        let full = [
            ("image", text("a.png")),
            ("images", list),
            ("prompt", text("count")),
            ("model", text("p/eye")),
            ("maxBytesMb", Value::Number(0.5)),
        ];
        let expected = ImageCall {
            prompt: "count".into(),
            paths: vec!["a.png".into(), "b.png".into()],
            model: Some("p/eye".into()),
            most: 512 * 1024,
        };
        assert_eq!(parse(&full), Ok(expected));
        let more = [("image", text("a.png")), ("maxBytesMb", Value::Number(1e9))];
        assert_eq!(parse(&more), Ok(plain));
    }

    #[test]
    fn what_is_no_path_of_the_sandbox_is_refused() {
        for given in [
            "https://example.com/a.png",
            "@HTTP://x/a.png",
            " ftp://x",
            "data:image/png;base64,AA",
            "media://x",
        ] {
            let said = parse(&[("image", text(given))]).unwrap_err();
            assert!(said.contains("no URL, no data: URI, no path of the host"), "{given}: {said}");
        }
        for given in ["a:b.png", "./data:x", "file:///workspace/a.png", "C:\\a.png"] {
            assert!(parse(&[("image", text(given))]).is_ok(), "{given}");
        }
    }

    #[test]
    fn too_few_and_too_many_are_named() {
        let many = (0..21).map(|at| text(&format!("{at}.png"))).collect();
        for (members, expected) in [
            (vec![], "`image` lacks `image`; call it again with every required parameter"),
            (
                vec![("images", Value::List(many))],
                "`images` of `image` must be a list of 20 paths at most",
            ),
            (
                vec![("image", text("a")), ("maxBytesMb", Value::Number(0.0))],
                "`maxBytesMb` of `image` must be a number above 0",
            ),
        ] {
            assert_eq!(parse(&members).unwrap_err(), expected);
        }
    }
}
