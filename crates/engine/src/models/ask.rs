//! Asks a model, again if that may help, and gives its answer as it comes.

use std::time::Duration;

use clawpen_rules::models::retry::{self, Failed, Retry, Shown};
use clawpen_rules::models::{Api, Model};
use http::header::{HeaderName, HeaderValue};
use secrecy::ExposeSecret as _;

use super::dialect::{self, Reader, StreamError, Wanted};
use super::http::{self as transport, HttpError, Post, Times};
use super::key::{KeyError, Keys};
use super::lines::Cutter;
use super::talk::{Delta, Talk, Turn};
use crate::random;

/// So much of an error's text is read.
const ERROR_BYTES: usize = 16 * 1024;
/// And so much of it is told.
const ERROR_SHOWN: usize = 500;

/// Talks to servers.
#[derive(Debug, Clone, Default)]
pub struct Client {
    pub times: Times,
}

/// A model that did not answer.
#[derive(Debug, thiserror::Error)]
#[error("the model `{model}` did not answer")]
pub struct AskError {
    pub model: String,
    #[source]
    pub cause: AskFailure,
}

/// The ways that goes wrong.
#[derive(Debug, thiserror::Error)]
pub enum AskFailure {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("the server refused with status {code}: {words}")]
    Status { code: u16, words: String, wait: Option<Duration> },
    #[error(transparent)]
    Stream(#[from] StreamError),
}

impl AskFailure {
    /// Whether more was sent than the model takes: a shorter talk would do.
    pub fn is_overflow(&self) -> bool {
        let words = match self {
            // Some say so only once they have begun to answer.
            Self::Status { code: 400 | 413 | 422, words, .. }
            | Self::Stream(StreamError::Server(words)) => words.to_lowercase(),
            Self::Status { .. } | Self::Key(_) | Self::Http(_) | Self::Stream(_) => return false,
        };
        words.contains("context length")
            || words.contains("context window")
            || words.contains("context_length")
            || words.contains("too long")
            || words.contains("maximum context")
            || words.contains("exceeds the maximum number of tokens")
    }

    fn failed(&self) -> Option<Failed> {
        match self {
            Self::Status { code, wait, .. } => Some(Failed::Status { code: *code, wait: *wait }),
            Self::Http(
                HttpError::Connect { .. } | HttpError::Late { .. } | HttpError::Broke { .. },
            ) => Some(Failed::Unreachable),
            Self::Stream(StreamError::Server(_)) if self.is_overflow() => None,
            Self::Stream(StreamError::Broken | StreamError::Server(_)) => Some(Failed::Broken),
            Self::Http(HttpError::Proxy { code, .. }) => {
                Some(Failed::Status { code: *code, wait: None })
            }
            Self::Key(_)
            | Self::Http(
                HttpError::Address { .. }
                | HttpError::Header
                | HttpError::NoAuthorities
                | HttpError::NoProxy { .. },
            )
            | Self::Stream(StreamError::Malformed { .. } | StreamError::TooLarge { .. }) => None,
        }
    }
}

impl Client {
    /// Asks until there is a whole answer, or until asking again does not help. To be dropped when nobody wants to know:
    /// the connection goes with it.
    pub async fn ask(
        &self,
        model: &Model,
        keys: &Keys,
        talk: &Talk,
        on: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Turn, AskError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let mut shown = Shown::Nothing;
            let mut seen = |delta: Delta| {
                shown = Shown::Something;
                on(delta);
            };
            let cause = match self.once(model, keys, talk, &mut seen).await {
                Ok(turn) => return Ok(turn),
                Err(cause) => cause,
            };
            let verdict = cause.failed().map_or(Retry::No, |failed| {
                retry::decide(failed, attempts, shown, random::number() % 1000)
            });
            match verdict {
                Retry::After(pause) => tokio::time::sleep(pause).await,
                Retry::No => return Err(AskError { model: model.name.to_string(), cause }),
            }
        }
    }

    async fn once(
        &self,
        model: &Model,
        keys: &Keys,
        talk: &Talk,
        on: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Turn, AskFailure> {
        let wanted = dialect::request(model, talk);
        let framing = wanted.framing;
        let mut answer = transport::post(post(model, keys, wanted)?, &self.times).await?;
        if answer.status != 200 {
            let words = words(&answer.beginning(ERROR_BYTES).await);
            let words = keys.scrub(&words).chars().take(ERROR_SHOWN).collect();
            return Err(AskFailure::Status { code: answer.status, words, wait: answer.wait });
        }
        let mut cutter = Cutter::new(framing);
        let mut reader = Reader::new(model.api);
        let scrubbed = |error: StreamError| match error {
            StreamError::Server(words) => StreamError::Server(keys.scrub(&words)),
            other => other,
        };
        let (mut events, mut deltas) = (Vec::new(), Vec::new());
        while let Some(chunk) = answer.chunk().await? {
            cutter.feed(&chunk, &mut events)?;
            for event in events.drain(..) {
                reader.feed(&event, &mut deltas).map_err(scrubbed)?;
            }
            deltas.drain(..).for_each(&mut *on);
        }
        cutter.finish(&mut events)?;
        for event in events.drain(..) {
            reader.feed(&event, &mut deltas).map_err(scrubbed)?;
        }
        deltas.drain(..).for_each(&mut *on);
        Ok(reader.finish()?)
    }
}

fn post(model: &Model, keys: &Keys, wanted: Wanted) -> Result<Post, HttpError> {
    let base = match model.api {
        // Its own interface is beside the compatible one.
        Api::Ollama => model.base_url.trim_end_matches("/v1"),
        Api::OpenAiCompletions
        | Api::OpenAiResponses
        | Api::AnthropicMessages
        | Api::GoogleGenerativeAi => &model.base_url,
    };
    let mut headers = Vec::new();
    let mut add = |name: &str, value: &str| {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_error| HttpError::Header)?;
        // The cause would show the value.
        let mut value = HeaderValue::from_str(value).map_err(|_error| HttpError::Header)?;
        value.set_sensitive(true);
        headers.push((name, value));
        Ok::<_, HttpError>(())
    };
    for (name, value) in wanted.headers {
        add(name, value)?;
    }
    if let Some(key) = &keys.key {
        let (name, before) = wanted.key_header;
        let value = secrecy::zeroize::Zeroizing::new(format!("{before}{}", key.expose_secret()));
        add(name, &value)?;
    }
    for (name, value) in &keys.headers {
        add(name, value.expose_secret())?;
    }
    let body = wanted.body.to_string().into();
    let address = format!("{base}{}", wanted.path);
    Ok(Post { address, headers, body, route: keys.route.clone() })
}

/// The message of an error's JSON, or its text.
fn words(body: &str) -> String {
    let parsed = serde_json::from_str::<serde_json::Value>(body).ok();
    let of = |value: &serde_json::Value| {
        // Google wraps its error in a list.
        let value = if value.is_array() { &value[0] } else { value };
        let error = &value["error"];
        (!error.is_null()).then(|| dialect::words(error))
    };
    parsed.as_ref().and_then(of).unwrap_or_else(|| body.trim().to_owned())
}
