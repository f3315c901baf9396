//! Certificates that are made, kept, completed and refused.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn ours(missing: WhenMissing) -> TlsWanted {
    TlsWanted { files: TlsFiles::Ours, authorities: None, missing }
}

fn names() -> Vec<String> {
    vec!["localhost".to_owned(), "127.0.0.1".to_owned()]
}

struct Pair {
    home: tempfile::TempDir,
}

impl Pair {
    /// A certificate that is valid from `start` to `end`, in years.
    fn new(start: i32, end: i32) -> Self {
        let home = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(names()).unwrap();
        params.not_before = rcgen::date_time_ymd(start, 1, 1);
        params.not_after = rcgen::date_time_ymd(end, 1, 1);
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(home.path().join("cert.pem"), certificate.pem()).unwrap();
        std::fs::write(home.path().join("key.pem"), key.serialize_pem()).unwrap();
        Self { home }
    }

    fn wanted(&self) -> TlsWanted {
        let path = |name: &str| self.home.path().join(name).to_string_lossy().into_owned();
        TlsWanted {
            files: TlsFiles::At { certificate: path("cert.pem"), key: path("key.pem") },
            authorities: None,
            missing: WhenMissing::Make,
        }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.home.path().join(name), text).unwrap();
    }

    #[track_caller]
    fn refused(&self, wanted: &TlsWanted, words: &[&str]) {
        let error = load(wanted, self.home.path(), &names()).err().unwrap().to_string();
        for word in words {
            assert!(error.contains(word), "{error}");
        }
    }
}

#[test]
fn a_certificate_is_made_once_and_its_key_is_its_owners() {
    let state = tempfile::tempdir().unwrap();
    let first = load(&ours(WhenMissing::Make), state.path(), &names()).unwrap();
    let place = state.path().join("gateway/tls");
    for name in ["gateway-cert.pem", "gateway-key.pem"] {
        let mode = std::fs::metadata(place.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(std::fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o700);
    let again = load(&ours(WhenMissing::Refuse), state.path(), &names()).unwrap();
    assert_eq!(first.fingerprint, again.fingerprint);
    assert_eq!(first.fingerprint.split(':').count(), 32);
    assert!(!first.is_key_open);
}

#[test]
fn a_start_that_ended_between_key_and_certificate_is_continued() {
    let state = tempfile::tempdir().unwrap();
    load(&ours(WhenMissing::Make), state.path(), &names()).unwrap();
    let place = state.path().join("gateway/tls");
    let key = std::fs::read_to_string(place.join("gateway-key.pem")).unwrap();
    std::fs::remove_file(place.join("gateway-cert.pem")).unwrap();
    load(&ours(WhenMissing::Make), state.path(), &names()).unwrap();
    assert_eq!(std::fs::read_to_string(place.join("gateway-key.pem")).unwrap(), key);
}

#[test]
fn a_missing_certificate_is_not_made_where_the_config_forbids_it_or_half_is_there() {
    let state = tempfile::tempdir().unwrap();
    let refused = load(&ours(WhenMissing::Refuse), state.path(), &names()).err().unwrap();
    assert!(refused.to_string().contains("gateway-cert.pem"), "{refused}");
    assert!(!state.path().join("gateway").exists());
    let pair = Pair::new(2020, 2120);
    std::fs::remove_file(pair.home.path().join("cert.pem")).unwrap();
    pair.refused(&pair.wanted(), &["cert.pem", "gateway.tls.certPath"]);
}

#[test]
fn a_certificate_that_clients_would_refuse_stops_the_start_with_its_place() {
    Pair::new(1999, 2000).refused(&Pair::new(1999, 2000).wanted(), &["has run out", "renew"]);
    let early = Pair::new(2100, 2120);
    early.refused(&early.wanted(), &["cert.pem", "not valid yet"]);
    let pair = Pair::new(2020, 2120);
    assert!(load(&pair.wanted(), pair.home.path(), &names()).is_ok());
    pair.write("key.pem", &KeyPair::generate().unwrap().serialize_pem());
    pair.refused(&pair.wanted(), &["cert.pem", "key.pem", "do not belong together"]);
    pair.write("key.pem", "no key");
    pair.refused(&pair.wanted(), &["key.pem", "gateway.tls.keyPath"]);
    pair.write("cert.pem", "no certificate");
    pair.refused(&pair.wanted(), &["cert.pem", "gateway.tls.certPath"]);
    let pair = Pair::new(2020, 2120);
    pair.write("cert.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    pair.refused(&pair.wanted(), &["cert.pem", "cannot be used"]);
}

#[test]
fn a_certificate_of_other_authorities_than_the_named_ones_is_refused() {
    let pair = Pair::new(2020, 2120);
    let path = pair.home.path().join("ca.pem").to_string_lossy().into_owned();
    let wanted = TlsWanted { authorities: Some(path), ..pair.wanted() };
    pair.refused(&wanted, &["ca.pem", "gateway.tls.caPath"]);
    let other = Pair::new(2020, 2120);
    pair.write("ca.pem", &std::fs::read_to_string(other.home.path().join("cert.pem")).unwrap());
    pair.refused(&wanted, &["cert.pem", "ca.pem", "not signed by"]);
    pair.write("ca.pem", &std::fs::read_to_string(pair.home.path().join("cert.pem")).unwrap());
    assert!(load(&wanted, pair.home.path(), &names()).is_ok());
}

#[test]
fn a_chain_is_completed_from_the_authorities_up_to_the_root() {
    let authority = |name: &str| {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        (params, KeyPair::generate().unwrap())
    };
    let (root, root_key) = authority("root");
    let (middle, middle_key) = authority("middle");
    let root_certificate = root.self_signed(&root_key).unwrap();
    let root_issuer = rcgen::Issuer::new(root, root_key);
    let middle_certificate = middle.signed_by(&middle_key, &root_issuer).unwrap();
    let middle_issuer = rcgen::Issuer::new(middle, middle_key);
    let key = KeyPair::generate().unwrap();
    let leaf = params(&names()).unwrap().signed_by(&key, &middle_issuer).unwrap();
    let authorities = [root_certificate.der().clone(), middle_certificate.der().clone()];
    let chain = vec![leaf.der().clone()];
    assert!(check(&chain, &authorities, ("leaf", Some("authorities"))).is_ok());
    let whole = completed(chain, &authorities);
    let expected =
        [leaf.der().clone(), middle_certificate.der().clone(), root_certificate.der().clone()];
    assert_eq!(whole, expected);
}
