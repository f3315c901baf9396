//! The gateway's certificate: read, or made the first time, and looked at before anything listens.
//!
//! Only TLS 1.3 is spoken. A certificate that clients would refuse (of another key, run out, not signed by
//! the authorities that the config names) stops the start, with the file and what to do. A key that we
//! make is written in one step, readable by its owner only, and never written over.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clawpen_engine::state_file::{self, StateFileError};
use clawpen_rules::access::tls::{TlsFiles, TlsWanted, WhenMissing};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, TrustAnchor, UnixTime};
use sha2::{Digest as _, Sha256};
use tokio_rustls::TlsAcceptor;
use webpki::{EndEntityCert, KeyUsage};

/// More is no certificate.
const MOST_BYTES: u64 = 1024 * 1024;
/// As long as the reference's own.
const LIFETIME: Duration = Duration::from_secs(3650 * 24 * 3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// How many certificates are added to complete a chain.
const LONGEST_CHAIN: usize = 8;

/// Why there is no certificate to show.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("no TLS without a certificate: {0}")]
    File(#[from] StateFileError),
    #[error(
        "`{path}` is missing, which `{key}` names; put it there, or remove `gateway.tls.certPath` and \
         `gateway.tls.keyPath` and let a certificate be made"
    )]
    Missing { key: &'static str, path: String },
    #[error("`{path}` holds no certificate in PEM; `{key}` must name one")]
    NoCertificate { key: &'static str, path: String },
    #[error(
        "`{path}` holds no private key in PEM that can be used ({why}); `gateway.tls.keyPath` must name one"
    )]
    NoKey { path: String, why: String },
    #[error(
        "the certificate in `{certificate}` and the key in `{key}` do not belong together; name a pair"
    )]
    NotAPair { certificate: String, key: String },
    #[error(
        "the certificate in `{path}` {what}; renew it, or remove certificate and key if they were made here"
    )]
    OutOfTime { path: String, what: &'static str },
    #[error(
        "the certificate in `{path}` is not signed by the authorities in `{authorities}` ({why}); mend `gateway.tls.caPath`"
    )]
    NotTheirs { path: String, authorities: String, why: String },
    #[error("the certificate in `{path}` cannot be used: {why}")]
    Broken { path: String, why: String },
    #[error("a certificate could not be made: {0}")]
    Make(String),
}

/// What the gateway shows.
pub(crate) struct Identity {
    pub(crate) acceptor: TlsAcceptor,
    /// The SHA-256 of the certificate, as browsers and the reference show it.
    pub(crate) fingerprint: String,
    /// Others than its owner can read the key.
    pub(crate) is_key_open: bool,
}

struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    fn of(wanted: &TlsWanted, state: &Path) -> Self {
        match &wanted.files {
            TlsFiles::At { certificate, key } => {
                Self { certificate: certificate.into(), key: key.into() }
            }
            TlsFiles::Ours => {
                let place = state.join("gateway/tls");
                Self {
                    certificate: place.join("gateway-cert.pem"),
                    key: place.join("gateway-key.pem"),
                }
            }
        }
    }
}

/// Reads the certificate, or makes one for these names.
pub(crate) fn load(
    wanted: &TlsWanted,
    state: &Path,
    names: &[String],
) -> Result<Identity, TlsError> {
    let files = Files::of(wanted, state);
    make_missing(wanted, &files, names)?;
    let shown = |path: &Path| path.to_string_lossy().into_owned();
    let certificate = read(&files.certificate, "gateway.tls.certPath")?;
    let key = read(&files.key, "gateway.tls.keyPath")?;
    let chain = certificates(&certificate).filter(|chain| !chain.is_empty()).ok_or_else(|| {
        TlsError::NoCertificate { key: "gateway.tls.certPath", path: shown(&files.certificate) }
    })?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|why| TlsError::NoKey { path: shown(&files.key), why: why.to_string() })?;
    let authorities = match &wanted.authorities {
        Some(path) => authorities(Path::new(path))?,
        None => Vec::new(),
    };
    check(&chain, &authorities, (&shown(&files.certificate), wanted.authorities.as_deref()))?;
    let fingerprint = fingerprint(chain.first().map(AsRef::as_ref).unwrap_or_default());
    let chain = completed(chain, &authorities);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let broken = |why: String| TlsError::Broken { path: shown(&files.certificate), why };
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|why| broken(why.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, key);
    let mut config = config.map_err(|why| match why {
        rustls::Error::InconsistentKeys(_) => {
            TlsError::NotAPair { certificate: shown(&files.certificate), key: shown(&files.key) }
        }
        other @ rustls::Error::General(_) => {
            TlsError::NoKey { path: shown(&files.key), why: other.to_string() }
        }
        other => broken(other.to_string()),
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let is_key_open = is_open(&files.key);
    Ok(Identity { acceptor: TlsAcceptor::from(Arc::new(config)), fingerprint, is_key_open })
}

fn is_open(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|facts| facts.permissions().mode() & 0o007 != 0)
}

fn read(path: &Path, key: &'static str) -> Result<String, TlsError> {
    let missing = || TlsError::Missing { key, path: path.to_string_lossy().into_owned() };
    state_file::read(path, MOST_BYTES)?.ok_or_else(missing)
}

fn certificates(text: &str) -> Option<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<_, _>>().ok()
}

fn authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let key = "gateway.tls.caPath";
    let text = read(path, key)?;
    let path = path.to_string_lossy().into_owned();
    let found = certificates(&text).filter(|found| !found.is_empty());
    found.ok_or(TlsError::NoCertificate { key, path })
}

/// Says whether clients could believe the certificate today.
fn check(
    chain: &[CertificateDer<'static>],
    authorities: &[CertificateDer<'static>],
    (path, authorities_path): (&str, Option<&str>),
) -> Result<(), TlsError> {
    let broken =
        |why: webpki::Error| TlsError::Broken { path: path.to_owned(), why: why.to_string() };
    let Some((first, rest)) = chain.split_first() else { return Ok(()) };
    let leaf = EndEntityCert::try_from(first).map_err(broken)?;
    let anchors: Result<Vec<TrustAnchor<'_>>, _> =
        authorities.iter().map(webpki::anchor_from_trusted_cert).collect();
    let anchors = anchors.map_err(|why| TlsError::NotTheirs {
        path: path.to_owned(),
        authorities: authorities_path.unwrap_or_default().to_owned(),
        why: why.to_string(),
    })?;
    let found = leaf.verify_for_usage(
        webpki::ALL_VERIFICATION_ALGS,
        &anchors,
        rest,
        UnixTime::now(),
        KeyUsage::server_auth(),
        None,
        None,
    );
    let out = |what| Err(TlsError::OutOfTime { path: path.to_owned(), what });
    match (found, authorities_path) {
        (Err(webpki::Error::CertExpired { .. }), _) => out("has run out"),
        (Err(webpki::Error::CertNotValidYet { .. }), _) => out("is not valid yet"),
        // A certificate that is its own authority needs no other.
        (Err(_), Some(_)) if authorities.contains(first) => Ok(()),
        (Err(why), Some(authorities)) => Err(TlsError::NotTheirs {
            path: path.to_owned(),
            authorities: authorities.to_owned(),
            why: why.to_string(),
        }),
        // Whom clients believe is their business.
        (Ok(_) | Err(_), _) => Ok(()),
    }
}

/// The chain with those authorities that lie between it and a root.
fn completed(
    mut chain: Vec<CertificateDer<'static>>,
    authorities: &[CertificateDer<'static>],
) -> Vec<CertificateDer<'static>> {
    while chain.len() < LONGEST_CHAIN {
        let next = chain.last().and_then(|last| {
            let last = EndEntityCert::try_from(last).ok()?;
            let is_root = last.issuer() == last.subject();
            let signer = authorities.iter().find(|signer| {
                EndEntityCert::try_from(*signer)
                    .is_ok_and(|signer| signer.subject() == last.issuer())
            });
            signer.filter(|signer| !is_root && !chain.contains(signer)).cloned()
        });
        let Some(next) = next else { break };
        chain.push(next);
    }
    chain
}

/// Makes what is missing, if it may be made. A key that is there is kept: a start that ended between key
/// and certificate is continued by the next.
fn make_missing(wanted: &TlsWanted, files: &Files, names: &[String]) -> Result<(), TlsError> {
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    let is_wanted = || {
        let (certificate, key) = (is_there(&files.certificate), is_there(&files.key));
        match (&wanted.files, wanted.missing) {
            (_, WhenMissing::Refuse) => false,
            (TlsFiles::Ours, WhenMissing::Make) => !certificate,
            (TlsFiles::At { .. }, WhenMissing::Make) => !certificate && !key,
        }
    };
    if !is_wanted() {
        return Ok(());
    }
    let _lock = state_file::lock(&files.certificate)?;
    // Somebody else may have made it while we waited.
    if !is_wanted() {
        return Ok(());
    }
    let fail = |error: rcgen::Error| TlsError::Make(error.to_string());
    let key = if let Some(text) = state_file::read(&files.key, MOST_BYTES)? {
        KeyPair::from_pem(&text).map_err(|why| TlsError::NoKey {
            path: files.key.to_string_lossy().into_owned(),
            why: why.to_string(),
        })?
    } else {
        let key = KeyPair::generate().map_err(fail)?;
        let _key_lock = state_file::lock(&files.key)?;
        state_file::replace(&files.key, &key.serialize_pem())?;
        key
    };
    let certificate = params(names).and_then(|params| params.self_signed(&key)).map_err(fail)?;
    state_file::replace(&files.certificate, &certificate.pem())?;
    Ok(())
}

fn params(names: &[String]) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name.push(DnType::CommonName, "clawpen-gateway");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let start = rcgen::date_time_ymd(1970, 1, 1);
    // Clocks differ.
    params.not_before = start + now.saturating_sub(DAY);
    params.not_after = start + (now + LIFETIME);
    Ok(params)
}

fn fingerprint(certificate: &[u8]) -> String {
    let digits: Vec<String> =
        Sha256::digest(certificate).iter().map(|byte| format!("{byte:02X}")).collect();
    digits.join(":")
}

#[cfg(test)]
mod tests;
