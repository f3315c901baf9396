//! The body of an answer: never more of it than the cap, packed or not.

use std::io::{self, Read, Write};
use std::time::Duration;

use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http_body_util::BodyExt as _;
use hyper::Response;
use hyper::body::Incoming;
use hyper::header::CONTENT_ENCODING;

use super::error::FetchError;

/// Time in which something must come.
const PAUSE: Duration = Duration::from_secs(10);

/// What was read of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    /// There was more.
    pub(super) is_cut: bool,
}

/// How an answer is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    None,
    Gzip,
    Deflate,
}

/// Reads and unpacks a body, as far as `most` bytes of each.
pub(super) async fn collect(
    response: Response<Incoming>,
    host: &str,
    most: usize,
) -> Result<Body, FetchError> {
    let packing = packing(&response, host)?;
    let mut body = response.into_body();
    let mut packed = Body { bytes: Vec::new(), is_cut: false };
    while !packed.is_cut {
        let frame = tokio::time::timeout(PAUSE, body.frame()).await;
        let late = |_late| FetchError::Slow {
            host: host.to_owned(),
            what: "the next part of its answer",
            limit: PAUSE,
        };
        let Some(frame) = frame.map_err(late)? else { break };
        let frame = frame.map_err(|cause| FetchError::Http { host: host.to_owned(), cause })?;
        let Ok(data) = frame.into_data() else { continue };
        let room = most.saturating_sub(packed.bytes.len());
        packed.bytes.extend_from_slice(data.get(..room.min(data.len())).unwrap_or_default());
        packed.is_cut = data.len() > room;
    }
    match packing {
        Packing::None => Ok(packed),
        Packing::Gzip => unpack(MultiGzDecoder::new(packed.bytes.as_slice()), (&packed, most)),
        // Some servers leave the frame out that the standard asks for.
        Packing::Deflate if packed.bytes.first().is_some_and(|byte| byte & 0x0f == 8) => {
            unpack(ZlibDecoder::new(packed.bytes.as_slice()), (&packed, most))
        }
        Packing::Deflate => unpack(DeflateDecoder::new(packed.bytes.as_slice()), (&packed, most)),
    }
    .map_err(|cause| FetchError::Unpack { host: host.to_owned(), cause })
}

fn packing(response: &Response<Incoming>, host: &str) -> Result<Packing, FetchError> {
    let mut named = response.headers().get_all(CONTENT_ENCODING).iter();
    let one = named
        .next()
        .map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_ascii_lowercase());
    let refused = || FetchError::Encoding { host: host.to_owned() };
    // Several ways at once.
    if named.next().is_some() {
        return Err(refused());
    }
    match one.as_deref() {
        None | Some("" | "identity") => Ok(Packing::None),
        Some("gzip" | "x-gzip") => Ok(Packing::Gzip),
        Some("deflate") => Ok(Packing::Deflate),
        Some(_) => Err(refused()),
    }
}

/// Unpacks until the cap; what comes after it is never made.
fn unpack(packed: impl Read, (source, most): (&Body, usize)) -> io::Result<Body> {
    let mut bytes = Vec::new();
    let mut reader = packed.take(most as u64 + 1);
    let read = reader.read_to_end(&mut bytes);
    let is_cut = bytes.len() > most || source.is_cut;
    bytes.truncate(most);
    match read {
        Ok(_) => Ok(Body { bytes, is_cut }),
        // Where we stopped reading, the end is missing.
        Err(_) if source.is_cut => Ok(Body { bytes, is_cut }),
        Err(error) => Err(error),
    }
}

/// JSON on lines of its own; `None` if it is none. Blanks before deep lines can outgrow the text a hundred times, so
/// only `most` bytes of them are made.
pub(super) fn pretty(text: &str, most: usize) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    // Four bytes are the longest character, and the one after the last is to be seen by whoever cuts.
    let mut room = Room { bytes: Vec::new(), most: most.saturating_mul(4).saturating_add(4) };
    // Full is not wrong: what fits is shown.
    let _full = serde_json::to_writer_pretty(&mut room, &value);
    Some(String::from_utf8_lossy(&room.bytes).into_owned())
}

struct Room {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.most {
            return Err(io::Error::other("full"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    }

    /// What comes out of these bytes, if the answer was `Whole` or had more.
    #[track_caller]
    fn check(packed: &[u8], source: Source, expected: Option<(&[u8], Source)>) {
        let source = Body { bytes: packed.to_vec(), is_cut: source == Source::Cut };
        let body = unpack(MultiGzDecoder::new(packed), (&source, 8)).ok();
        let expected =
            expected.map(|(bytes, end)| Body { bytes: bytes.to_vec(), is_cut: end == Source::Cut });
        assert_eq!(body, expected);
    }

    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Source {
        Whole,
        Cut,
    }

    #[test]
    fn unpacking_stops_at_the_cap() {
        use Source::{Cut, Whole};
        check(&gzip(b"short"), Whole, Some((b"short", Whole)));
        check(&gzip(b"exactly8"), Whole, Some((b"exactly8", Whole)));
        check(&gzip("x".repeat(100_000).as_bytes()), Whole, Some((b"xxxxxxxx", Cut)));
        let mut two = gzip(b"ab");
        two.extend(gzip(b"cd"));
        check(&two, Whole, Some((b"abcd", Whole)));
        check(b"no gzip", Whole, None);
        let half = gzip(b"short");
        check(&half[..half.len() - 4], Whole, None);
        check(&half[..half.len() - 4], Cut, Some((b"short", Cut)));
    }

    #[test]
    fn json_is_shown_on_lines_and_never_blown_up() {
        assert_eq!(pretty("{\"a\":[1]}", 100).unwrap(), "{\n  \"a\": [\n    1\n  ]\n}");
        assert_eq!(pretty("{a", 100), None);
        let deep = format!("{}{}1{}", "[".repeat(120), "1,".repeat(50_000), "]".repeat(120));
        assert!(pretty(&deep, 1000).unwrap().len() <= 4004);
    }
}
