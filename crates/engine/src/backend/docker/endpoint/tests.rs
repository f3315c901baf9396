//! The ways to say where an engine is, and the ways to say it wrong.

use super::*;

fn found(variables: &[(&str, &str)]) -> Result<Endpoint, DockerFailure> {
    locate(|name| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    })
}

/// An address, or what is wrong with the one that was given.
#[track_caller]
fn check(variables: &[(&str, &str)], expected: &str) {
    let answer = match found(variables) {
        Ok(endpoint) => endpoint.text(),
        Err(DockerFailure::Remote { host, .. }) => format!("remote {host}"),
        Err(DockerFailure::Unprotected { host, .. }) => format!("unprotected {host}"),
        Err(DockerFailure::NoContext { name, .. }) => format!("no context {name}"),
        Err(other) => other.to_string(),
    };
    assert_eq!(answer, expected, "{variables:?}");
}

#[test]
fn only_an_engine_of_this_machine_will_do() {
    check(&[], "unix:///var/run/docker.sock");
    check(&[("DOCKER_HOST", "")], "unix:///var/run/docker.sock");
    check(&[("DOCKER_HOST", "unix:///run/x.sock"), ("DOCKER_CONTEXT", "y")], "unix:///run/x.sock");
    for host in ["unix://x.sock", "ssh://me@there", "tcp://10.0.0.1:2376", "npipe:////./pipe/x"] {
        check(&[("DOCKER_HOST", host), ("DOCKER_TLS_VERIFY", "1")], &format!("remote {host}"));
    }
    let named = "tcp://localhost.example.org:2376";
    check(&[("DOCKER_HOST", named)], &format!("remote {named}"));
}

#[test]
fn a_port_of_this_machine_needs_certificates_on_both_sides() {
    for host in ["tcp://127.0.0.1:2376", "tcp://localhost:2376", "tcp://[::1]:2376"] {
        check(&[("DOCKER_HOST", host)], &format!("unprotected {host}"));
        check(&[("DOCKER_HOST", host), ("DOCKER_TLS_VERIFY", "1"), ("HOME", "/h")], host);
    }
    let variables = [
        ("DOCKER_HOST", "tcp://127.0.0.1:2376/"),
        ("DOCKER_TLS_VERIFY", "1"),
        ("DOCKER_CERT_PATH", "/c"),
        ("HOME", "/h"),
    ];
    let Ok(Endpoint::Tls { address, files }) = found(&variables) else { panic!() };
    assert_eq!((address.as_str(), files), ("127.0.0.1:2376", TlsFiles::below(Path::new("/c"))));
}

/// Lays out a context as `docker context create` does.
fn lay_out(home: &Path, name: &str, endpoint: &str) -> PathBuf {
    let id = id(name);
    let meta = home.join("contexts/meta").join(&id);
    std::fs::create_dir_all(&meta).unwrap();
    let text = format!("{{\"Name\": \"{name}\", \"Endpoints\": {{\"docker\": {endpoint}}}}}");
    std::fs::write(meta.join("meta.json"), text).unwrap();
    home.join("contexts/tls").join(&id).join("docker")
}

#[test]
fn a_context_leads_to_its_engine() {
    let home = tempfile::tempdir().unwrap();
    let config = home.path().to_str().unwrap();
    lay_out(home.path(), "rootless", "{\"Host\": \"unix:///run/user/1000/docker.sock\"}");
    lay_out(home.path(), "far", "{\"Host\": \"ssh://me@there\"}");
    lay_out(home.path(), "odd", "{}");
    lay_out(home.path(), "trusting", "{\"Host\": \"tcp://[::1]:1\", \"SkipTLSVerify\": true}");
    let tls = lay_out(home.path(), "tls", "{\"Host\": \"tcp://127.0.0.1:2376\"}");
    check(
        &[("DOCKER_CONFIG", config), ("DOCKER_CONTEXT", "tls")],
        "unprotected tcp://127.0.0.1:2376",
    );
    std::fs::create_dir_all(&tls).unwrap();
    for (name, expected) in [
        ("default", "unix:///var/run/docker.sock"),
        ("rootless", "unix:///run/user/1000/docker.sock"),
        ("far", "remote ssh://me@there"),
        ("odd", "no context odd"),
        ("trusting", "unprotected tcp://[::1]:1"),
        ("tls", "tcp://127.0.0.1:2376"),
        ("nowhere", "no context nowhere"),
    ] {
        check(&[("DOCKER_CONFIG", config), ("DOCKER_CONTEXT", name)], expected);
    }
    std::fs::write(home.path().join("config.json"), "{\"currentContext\": \"rootless\"}").unwrap();
    check(&[("DOCKER_CONFIG", config)], "unix:///run/user/1000/docker.sock");
    check(&[("DOCKER_CONFIG", config), ("DOCKER_HOST", "unix:///x")], "unix:///x");
    std::fs::write(home.path().join("config.json"), "{").unwrap();
    let refused = found(&[("DOCKER_CONFIG", config)]).unwrap_err();
    assert!(matches!(refused, DockerFailure::Local { what: "read", .. }), "{refused}");
}

#[track_caller]
fn comes_back(endpoint: &Endpoint) {
    let text = endpoint.record().unwrap();
    assert_eq!(Endpoint::recorded(&text).unwrap(), *endpoint, "{text}");
}

#[test]
fn an_engine_that_was_written_down_is_found_again() {
    comes_back(&Endpoint::Unix("/run/x.sock".into()));
    comes_back(&Endpoint::Unix("/run/a \"b\" {c}.sock".into()));
    let files = TlsFiles::below(Path::new("/home/me/\"certs\""));
    comes_back(&Endpoint::Tls { address: "127.0.0.1:2376".to_owned(), files });
    let relative = TlsFiles::below(Path::new("certs"));
    comes_back(&Endpoint::Tls { address: "localhost:2376".to_owned(), files: relative });
    let old = Endpoint::recorded("/run/docker.sock").unwrap();
    assert_eq!(old, Endpoint::Unix("/run/docker.sock".into()));
}

#[test]
fn what_would_not_be_found_again_is_not_written_down() {
    use std::os::unix::ffi::OsStrExt as _;
    assert!(Endpoint::Unix("x.sock".into()).record().is_err());
    let odd = std::ffi::OsStr::from_bytes(b"/run/\xff.sock");
    assert!(Endpoint::Unix(odd.into()).record().is_err());
}

#[test]
fn a_record_that_leads_elsewhere_is_refused() {
    let files = r#""ca":"/c","certificate":"/c","key":"/k""#;
    for text in [
        String::new(),
        "unix://x.sock".to_owned(),
        "tcp://127.0.0.1:2376".to_owned(),
        format!(r#"{{"tls":"10.0.0.1:2376",{files}}}"#),
        r#"{"tls":"127.0.0.1:2376","ca":"c","certificate":"/c","key":"/k"}"#.to_owned(),
        r#"{"tls":"127.0.0.1:2376","ca":"/c"}"#.to_owned(),
    ] {
        let found = Endpoint::recorded(&text);
        assert!(matches!(found, Err(DockerFailure::Recorded { .. })), "{text}: {found:?}");
    }
}
