//! Proxies: whom they name, what is believed of them, and who only pretends to be one.

use std::net::Ipv4Addr;

use clawpen_tests::replay::gateway_frames::client::{Headers, http};
use serde_json::{Value, json};

use super::{ALL, Ground, TOKEN, call, connect, device, knock, page};

const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 8);

fn from(source: Ipv4Addr, more: &[(&'static str, &str)]) -> Headers {
    let more = more.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    Headers { more, source: Some(source), ..Headers::default() }
}

fn with_device(scopes: &[&str]) -> Value {
    let mut frame = connect(scopes, TOKEN);
    frame["params"]["device"] = device();
    frame
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_becomes_a_neighbour_by_a_header() {
    let ground = Ground::gateway(&format!(
        "auth: {{token: '{TOKEN}'}}, trustedProxies: ['127.0.0.9'], allowRealIpFallback: true"
    ))
    .await;
    let trusted = Ipv4Addr::new(127, 0, 0, 9);
    for headers in [
        from(STRANGER, &[("x-forwarded-for", "127.0.0.1")]),
        from(STRANGER, &[("x-real-ip", "127.0.0.1")]),
        from(STRANGER, &[("forwarded", "for=127.0.0.1")]),
        from(STRANGER, &[("x-forwarded-proto", "https")]),
        from(STRANGER, &[("via", "1.1 somebody")]),
        // Believed, and still no neighbour.
        from(trusted, &[("x-forwarded-for", "127.0.0.1")]),
        from(trusted, &[("x-forwarded-for", "127.0.0.1"), ("x-forwarded-for", "127.0.0.2")]),
        from(trusted, &[("x-real-ip", "127.0.0.1")]),
    ] {
        let (_, answer) = knock(ground.address(), &headers, with_device(&["operator.read"])).await;
        let code = &answer["error"]["details"]["code"];
        assert_eq!(code, "PAIRING_REQUIRED", "{headers:?} {answer}");
    }
    let (_, answer) = knock(ground.address(), &from(STRANGER, &[]), with_device(&[])).await;
    assert_eq!(answer["ok"], true, "{answer}");
}

/// Asks for the metrics as whoever a proxy on this machine says, and gives the status.
async fn metrics(ground: &Ground, forwarded_for: &str, token: &str) -> Value {
    let request = json!({ "method": "GET", "path": "/metrics", "headers": {
        "Authorization": format!("Bearer {token}"), "X-Forwarded-For": forwarded_for } });
    http(ground.address(), &request).await.unwrap()["status"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_from_ever_new_addresses_ends_all_the_same() {
    // Nobody believes this one: all his addresses are one.
    let lying = Ground::new().await;
    for number in 0..10 {
        assert_eq!(metrics(&lying, &format!("198.51.100.{number}"), "guess").await, 401);
    }
    assert_eq!(metrics(&lying, "198.51.100.99", TOKEN).await, 429);

    // A proxy that is believed, and a botnet behind it.
    let ground = Ground::gateway(&format!(
        "auth: {{token: '{TOKEN}', rateLimit: {{maxAttempts: 2}}}}, trustedProxies: ['127.0.0.1']"
    ))
    .await;
    assert_eq!(metrics(&ground, "192.0.2.1", TOKEN).await, 200);
    for number in 0..100 {
        assert_eq!(metrics(&ground, &format!("198.51.100.{number}"), "guess").await, 401);
    }
    assert_eq!(metrics(&ground, "203.0.113.1", TOKEN).await, 429);
    assert_eq!(metrics(&ground, "192.0.2.1", TOKEN).await, 200);
}

async fn behind_a_proxy() -> Ground {
    Ground::gateway(
        "auth: {mode: 'trusted-proxy', trustedProxy: {userHeader: 'X-Auth-User', \
         requiredHeaders: ['X-Auth-Proof'], allowUsers: ['ada@example.org']}}, \
         trustedProxies: ['127.0.0.1'], controlUi: {allowedOrigins: ['https://gw.example']}",
    )
    .await
}

fn proxied(more: &[(&'static str, &str)]) -> Headers {
    let mut headers = from(Ipv4Addr::LOCALHOST, more);
    headers.more.push(("host", "gw.example".to_owned()));
    headers.more.push(("x-forwarded-for", "198.51.100.7".to_owned()));
    headers.origin = Some("https://gw.example".to_owned());
    headers
}

#[tokio::test(flavor = "multi_thread")]
async fn whom_the_proxy_names_comes_in() {
    let ground = behind_a_proxy().await;
    let ada = [("x-auth-user", "ada@example.org"), ("x-auth-proof", "1")];
    let asked = page(ALL, json!({}), device());
    let (mut client, answer) = knock(ground.address(), &proxied(&ada), asked).await;
    assert_eq!(answer["payload"]["snapshot"]["authMode"], "trusted-proxy", "{answer}");
    // Nothing is written down about the device: the proxy asks every time.
    let auth = &answer["payload"]["auth"];
    let expected = json!({ "method": "trusted-proxy", "role": "operator", "scopes": ALL });
    assert_eq!(auth, &expected, "{answer}");
    assert_eq!(call(&mut client, "config.get", json!({})).await["ok"], true);
    // Without a device nobody has scopes, whatever he asks for.
    let asked = page(ALL, json!({}), Value::Null);
    let (mut client, answer) = knock(ground.address(), &proxied(&ada), asked).await;
    assert_eq!(answer["ok"], true, "{answer}");
    let refused = call(&mut client, "config.get", json!({})).await;
    assert_eq!(refused["error"]["message"], "missing scope: operator.read", "{refused}");
    let over_http = |user: &str| {
        json!({ "method": "GET", "path": "/metrics", "headers": {
            "X-Auth-User": user, "X-Auth-Proof": "1" } })
    };
    let answer = http(ground.address(), &over_http("ada@example.org")).await.unwrap();
    assert_eq!(answer["status"], 200, "{answer}");
    let answer = http(ground.address(), &over_http("eve@example.org")).await.unwrap();
    assert_eq!(answer["status"], 401, "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_cannot_be_smuggled_past_the_proxy() {
    let ground = behind_a_proxy().await;
    let (ada, eve, proof) = (
        ("x-auth-user", "ada@example.org"),
        ("x-auth-user", "eve@example.org"),
        ("x-auth-proof", "1"),
    );
    let missing = "trusted_proxy_user_missing";
    for (more, reason) in [
        (vec![eve, proof], "trusted_proxy_user_not_allowed"),
        (vec![ada, eve, proof], missing),
        (vec![eve, ada, proof], missing),
        (
            vec![("x-auth-user", "eve@example.org, ada@example.org"), proof],
            "trusted_proxy_user_not_allowed",
        ),
        (vec![("x-auth-user", "ADA@example.org"), proof], "trusted_proxy_user_not_allowed"),
        (vec![("x_auth_user", "ada@example.org"), proof], missing),
        (vec![proof], missing),
        (vec![ada], "trusted_proxy_missing_header_x-auth-proof"),
    ] {
        for shown in [device(), Value::Null] {
            let asked = page(ALL, json!({ "token": "ada@example.org" }), shown);
            let (_, answer) = knock(ground.address(), &proxied(&more), asked).await;
            let details = &answer["error"]["details"];
            assert_eq!(details["authReason"], reason, "{more:?} {answer}");
            assert_eq!(details["code"], "AUTH_UNAUTHORIZED", "{answer}");
        }
    }
    // The same headers from somebody who is no proxy.
    let mut stranger = proxied(&[ada, proof]);
    stranger.source = Some(STRANGER);
    let (_, answer) = knock(ground.address(), &stranger, page(ALL, json!({}), device())).await;
    let reason = &answer["error"]["details"]["authReason"];
    assert_eq!(reason, "trusted_proxy_untrusted_source", "{answer}");
}
