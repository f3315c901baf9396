//! Why nothing was fetched. No text of these holds more of an address than its host.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use clawpen_rules::web::address::Refused;
use clawpen_rules::web::target::TargetRefused;

/// A fetch was refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("not fetched: {0}")]
    Target(#[from] TargetRefused),
    #[error("not fetched: `{host}` sent on to an address that is refused: {reason}")]
    Redirect { host: String, reason: TargetRefused },
    #[error(
        "not fetched: `{host}` leads to {address}, and {reason}; only the public internet is fetched from"
    )]
    Address { host: String, address: IpAddr, reason: Refused },
    #[error("not fetched: `{host}` sends on more than {most} times")]
    Redirects { host: String, most: usize },
    #[error("cannot look `{host}` up")]
    Resolve {
        host: String,
        #[source]
        cause: io::Error,
    },
    #[error("`{host}` has no address")]
    NoAddress { host: String },
    #[error("cannot connect to `{host}`")]
    Connect {
        host: String,
        #[source]
        cause: io::Error,
    },
    #[error("`{host}` is not who it says it is, or TLS failed")]
    Tls {
        host: String,
        #[source]
        cause: io::Error,
    },
    #[error(
        "this machine believes no certificate authority, so no https page can be checked; install `ca-certificates`"
    )]
    NoAuthorities,
    #[error("cannot make a TLS client")]
    TlsSetup(#[source] rustls::Error),
    #[error("`{host}` did not answer as HTTP says")]
    Http {
        host: String,
        #[source]
        cause: hyper::Error,
    },
    #[error("`{host}` was too slow: {what} took longer than {} s", .limit.as_secs())]
    Slow { host: String, what: &'static str, limit: Duration },
    #[error("`{host}` packed its answer as `{encoding}`, which was not asked for")]
    Encoding { host: String, encoding: String },
    #[error("the answer of `{host}` cannot be unpacked")]
    Unpack {
        host: String,
        #[source]
        cause: io::Error,
    },
    #[error("the answer of `{host}` is no text but `{essence}`; only text is fetched")]
    NoText { host: String, essence: String },
    #[error("`{host}` answered {status}\n{body}")]
    Status { host: String, status: u16, body: String },
    #[error("the request cannot be made")]
    Request(#[source] hyper::http::Error),
    #[error("cannot make a mark that a page cannot guess")]
    Random(#[source] io::Error),
    #[error("cannot start what waits for the page")]
    Runtime(#[source] io::Error),
    #[error("the call was cancelled")]
    Stopped,
}

impl FetchError {
    /// Whether a rule said no, rather than that something failed.
    pub const fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Target(_)
                | Self::Redirect { .. }
                | Self::Address { .. }
                | Self::Redirects { .. }
                | Self::NoText { .. }
        )
    }

    /// For records: what strangers wrote stays out.
    pub fn for_record(&self) -> String {
        match self {
            Self::Status { host, status, .. } => format!("`{host}` answered {status}"),
            other => crate::error_text::chain(other),
        }
    }
}
