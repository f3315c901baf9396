//! Fetches a page of the public web, from the host.
//!
//! ```text
//! target ─► look the name up once ─► every address decided about ─► connect to one of those ─► TLS by name ─► GET
//!   ▲                                                                                                        │
//!   └──────────────────────────── redirect: decided from the start, so often and no more ────────────────────┤
//!                                                    body: capped, unpacked under the same cap ─► text ◄──────┘
//! ```
//!
//! What may be reached is decided in `rules/web.rs`. A name is looked up once for each request and the connection goes
//! to an address that was looked at, so a name that changes its mind changes nothing. No cookie, credential or proxy of
//! this process' environment takes part. Certificates are checked against what this machine believes
//! (`rustls-native-certs`), under the name in the address.

mod body;
mod cache;
mod connect;
mod error;

use std::time::{Duration, Instant};

use clawpen_rules::tools::arguments::FetchCall;
use clawpen_rules::web::html;
use clawpen_rules::web::limits::{ERROR_CHARACTERS, Limits};
use clawpen_rules::web::media::{ContentType, Media, charset_in_page};
use clawpen_rules::web::target::{self, Target};
use clawpen_rules::web::wrap::{self, Shown};
use hyper::header::{CONTENT_TYPE, HeaderMap, LOCATION};

use crate::random;
pub(crate) use cache::Cache;
pub use error::FetchError;

use body::Body;

/// A page, fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    pub url: String,
    pub final_url: String,
    /// Of the page that was shown in the end.
    pub host: String,
    pub status: u16,
    pub content_type: String,
    pub title: Option<String>,
    pub extractor: &'static str,
    /// Between its marks.
    pub text: String,
    /// Characters between the marks.
    pub length: usize,
    /// Characters there were before the cut.
    pub whole_length: usize,
    pub is_cut: bool,
    pub warning: Option<String>,
    pub took: Duration,
}

/// What came back at the end of all redirects.
struct Answer {
    target: Target,
    status: u16,
    headers: HeaderMap,
    body: Body,
}

/// Fetches one page. Ends early when `stopped` comes to its end.
pub async fn fetch(
    call: &FetchCall,
    limits: &Limits,
    stopped: impl Future<Output = ()>,
) -> Result<Fetched, FetchError> {
    let begun = Instant::now();
    let first = target::decide(&call.url)?;
    let (url, host) = (first.as_str().to_owned(), first.host_text().to_owned());
    let answer = tokio::select! {
        answer = follow(first, limits) => answer?,
        () = tokio::time::sleep(limits.time) => return Err(FetchError::Slow { host, what: "everything", limit: limits.time }),
        () = stopped => return Err(FetchError::Stopped),
    };
    let shown = read(&answer, call, limits)?;
    let fetched = Fetched {
        url,
        final_url: answer.target.as_str().to_owned(),
        host: answer.target.host_text().to_owned(),
        status: answer.status,
        content_type: shown.content_type,
        title: shown.title,
        extractor: shown.media.extractor(),
        text: wrapped(&shown.text.text, answer.target.host_text())?,
        length: shown.text.text.chars().count(),
        whole_length: shown.text.whole,
        is_cut: shown.text.is_cut,
        warning: shown.warning,
        took: begun.elapsed(),
    };
    Ok(fetched)
}

/// Asks, and asks where an answer sends us on to.
async fn follow(mut target: Target, limits: &Limits) -> Result<Answer, FetchError> {
    let mut hops = 0;
    loop {
        let response = connect::ask(&target, limits).await?;
        let status = response.status();
        let location = response.headers().get(LOCATION);
        if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) || location.is_none() {
            let headers = response.headers().clone();
            let host = target.host_text();
            let body = body::collect(response, host, limits.bytes).await?;
            return Ok(Answer { target, status: status.as_u16(), headers, body });
        }
        if hops == limits.redirects {
            let host = target.host_text().to_owned();
            return Err(FetchError::Redirects { host, most: limits.redirects });
        }
        hops += 1;
        let location = location.and_then(|value| value.to_str().ok()).unwrap_or_default();
        target = target.decide_redirect(location).map_err(|reason| FetchError::Redirect {
            host: target.host_text().to_owned(),
            why: error::refusal_words(&reason),
        })?;
    }
}

/// An answer as text.
struct Read {
    content_type: String,
    title: Option<String>,
    media: Media,
    text: Shown,
    warning: Option<String>,
}

fn read(answer: &Answer, call: &FetchCall, limits: &Limits) -> Result<Read, FetchError> {
    let host = || answer.target.host_text().to_owned();
    let header = answer.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = ContentType::parse(header.unwrap_or_default());
    let bytes = &answer.body.bytes;
    let media = content_type.media(bytes.get(..bytes.len().min(1024)).unwrap_or_default());
    let is_fine = (200..300).contains(&answer.status);
    let media = match media {
        Some(media) => media,
        // What a refusal shows beside its number is no matter.
        None if !is_fine => Media::Raw,
        None => return Err(FetchError::NoText { host: host(), essence: content_type.essence }),
    };
    let text = decode(bytes, &content_type, media);
    let (title, text) = match media {
        Media::Html => {
            let page = html::render(&text, &answer.target, call.mode);
            (page.title.as_deref().and_then(wrap::title), page.text)
        }
        Media::Json => (None, body::pretty(&text, limits.most_characters).unwrap_or(text)),
        Media::Raw => (None, text),
    };
    let text = wrap::clean(&text, if is_fine { limits.shown(call.most) } else { ERROR_CHARACTERS });
    if !is_fine {
        let body = wrapped(&text.text, answer.target.host_text())?;
        return Err(FetchError::Status { host: host(), status: answer.status, body });
    }
    let warning =
        answer.body.is_cut.then(|| format!("only the first {} bytes were read", limits.bytes));
    Ok(Read { content_type: content_type.essence, title, media, text, warning })
}

/// Bytes as text, by what the answer, the page or its first bytes say.
fn decode(bytes: &[u8], content_type: &ContentType, media: Media) -> String {
    let in_page = || (media == Media::Html).then(|| charset_in_page(bytes)).flatten();
    let label = content_type.charset.clone().or_else(in_page);
    let encoding = label.and_then(|label| encoding_rs::Encoding::for_label(label.as_bytes()));
    // A mark at the start wins over both.
    let (text, _, _) = encoding.unwrap_or(encoding_rs::UTF_8).decode(bytes);
    text.into_owned()
}

fn wrapped(text: &str, host: &str) -> Result<String, FetchError> {
    let id = random::token().map_err(FetchError::Random)?;
    let id: String = id.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
    Ok(wrap::wrap(text, (&id, host)))
}
