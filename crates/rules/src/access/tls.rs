//! Decides whether the gateway speaks TLS, and where its certificate is: `gateway.tls`.
//!
//! Gives paths only; whether what lies there is any good is found out by whoever reads it.

use super::listen::ListenRefusal;
use crate::config::Config;

/// What the gateway shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsWanted {
    pub files: TlsFiles,
    /// `caPath`: the authorities that must have signed the certificate.
    pub authorities: Option<String>,
    /// `autoGenerate`.
    pub missing: WhenMissing,
}

/// Where certificate and key are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsFiles {
    /// Nothing is written: our own, in the state directory.
    Ours,
    At {
        certificate: String,
        key: String,
    },
}

/// What becomes of a certificate that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenMissing {
    Make,
    Refuse,
}

/// Decides whether to speak TLS. A section that is not enabled says nothing.
pub fn decide(config: &Config) -> Result<Option<TlsWanted>, ListenRefusal> {
    let flag = |key: &str| config.at(&["gateway", "tls", key]).and_then(|at| at.node.as_bool());
    if flag("enabled") != Some(true) {
        return Ok(None);
    }
    let path = |key: &str| {
        let at = config.at(&["gateway", "tls", key]);
        let text = at.and_then(|at| at.node.as_str().map(str::trim).map(str::to_owned));
        text.filter(|text| !text.is_empty())
    };
    let files = match (path("certPath"), path("keyPath")) {
        (None, None) => TlsFiles::Ours,
        (Some(certificate), Some(key)) => TlsFiles::At { certificate, key },
        (Some(_), None) => return Err(ListenRefusal::HalfTls { missing: "gateway.tls.keyPath" }),
        (None, Some(_)) => return Err(ListenRefusal::HalfTls { missing: "gateway.tls.certPath" }),
    };
    let missing =
        if flag("autoGenerate") == Some(false) { WhenMissing::Refuse } else { WhenMissing::Make };
    Ok(Some(TlsWanted { files, authorities: path("caPath"), missing }))
}
