//! Why nothing was fetched. No text of these holds more of an address than the host that was asked, and nothing that a
//! stranger wrote: no name in a certificate, no place that an answer sends on to, no header. The body of a refusal is
//! the one exception, and stands between marks.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use clawpen_rules::web::address::Refused;
use clawpen_rules::web::target::TargetRefused;
use rustls::CertificateError;

/// A fetch was refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("not fetched: {0}")]
    Target(#[from] TargetRefused),
    #[error("not fetched: `{host}` sent on to an address that is refused: {why}")]
    Redirect { host: String, why: &'static str },
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
    #[error("`{host}` is not who it says it is, or TLS failed: {why}")]
    Tls { host: String, why: &'static str },
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
    #[error("`{host}` packed its answer in a way that was not asked for")]
    Encoding { host: String },
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

/// Why an address that an answer sends on to is refused, without a word of it.
pub(super) const fn refusal_words(reason: &TargetRefused) -> &'static str {
    match reason {
        TargetRefused::NoUrl => "it is no web address",
        TargetRefused::TooLong => "it is too long",
        TargetRefused::Scheme { .. } => "only http and https are fetched",
        TargetRefused::NoHost => "it has no host",
        TargetRefused::Credentials { .. } => "it holds a user name or a password",
        TargetRefused::InnerName { .. } => {
            "it has a name of inner networks; only the public internet is fetched from"
        }
        TargetRefused::Port { .. } => "other services than the web live at its port",
    }
}

/// Why TLS failed, without a word of the certificate.
pub(super) fn tls_words(cause: &io::Error) -> &'static str {
    let inner = cause.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(problem)) => match problem {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not yet valid"
            }
            CertificateError::Revoked => "its certificate was revoked",
            CertificateError::UnknownIssuer => {
                "its certificate is from nobody whom this machine believes"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another name"
            }
            // More kinds come with newer versions of the library.
            _ => "its certificate is not valid",
        },
        Some(_) => "it does not speak TLS as it should",
        None => "the connection ended",
    }
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
