//! Any head of a request at the HTTP door: who comes in has shown the token, a name of this machine and no foreign page.
//!
//! The first line is the target, each further one a header.
#![no_main]

use clawpen_gateway::mcp::http::Guard;
use http::Request;
use libfuzzer_sys::fuzz_target;

const TOKEN: &str = "0123456789abcdef";

fuzz_target!(|input: &[u8]| {
    let mut lines = input.split(|byte| *byte == b'\n');
    let target = lines.next().unwrap_or_default();
    let Ok(mut request) = Request::builder().uri(target).body(()) else { return };
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = http::HeaderName::from_bytes(&line[..colon]);
        let value = http::HeaderValue::from_bytes(&line[colon + 1..]);
        if let (Ok(name), Ok(value)) = (name, value) {
            request.headers_mut().append(name, value);
        }
    }
    let hosts = vec!["pen.example".to_owned()];
    let guard =
        Guard::new(TOKEN, hosts, vec!["https://app.example".to_owned()]).expect("a good token");
    if guard.check(&request).is_err() {
        return;
    }
    let one = |name: &str| {
        let values: Vec<_> = request.headers().get_all(name).iter().collect();
        assert_eq!(values.len(), 1, "{name}");
        String::from_utf8_lossy(values[0].as_bytes()).to_lowercase()
    };
    assert!(one("authorization").ends_with(TOKEN));
    let host = one("host");
    let name = host
        .rsplit_once(':')
        .filter(|(_, port)| port.parse::<u16>().is_ok())
        .map_or(host.as_str(), |(name, _)| name);
    let name = name.rsplit_once('@').map_or(name, |(_, name)| name);
    assert!(
        ["localhost", "127.0.0.1", "[::1]", "pen.example"].contains(&name.trim_end_matches(':')),
        "{host}"
    );
    for origin in request.headers().get_all("origin") {
        assert_eq!(origin.as_bytes(), b"https://app.example");
    }
    assert_eq!(request.uri().path(), "/mcp");
});
