//! Pages of other sites, however they dress up, with the right token in their hands.

use clawpen_tests::replay::gateway_frames::client::{Headers, http};
use serde_json::{Value, json};

use super::{ALL, Ground, TOKEN, call, device, knock, page};

fn token() -> Value {
    json!({ "token": TOKEN })
}

fn headers(origin: &str, host: Option<&str>) -> Headers {
    let more = host.map(|host| ("host", host.to_owned())).into_iter().collect();
    Headers { origin: Some(origin.to_owned()), more, ..Headers::default() }
}

#[track_caller]
fn is_foreign(answer: &Value, reason: &str) {
    let details = &answer["error"]["details"];
    let expected = json!({ "code": "CONTROL_UI_ORIGIN_NOT_ALLOWED", "reason": reason });
    assert_eq!(details, &expected, "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_looks_like_an_allowed_one_gets_nowhere_with_the_right_token() {
    let ground = Ground::gateway(&format!(
        "auth: {{token: '{TOKEN}'}}, controlUi: {{allowedOrigins: ['https://ok.example:8443']}}"
    ))
    .await;
    for (origin, reason) in [
        ("https://evil.example", "origin not allowed"),
        ("https://ok.example", "origin not allowed"),
        ("https://ok.example:8444", "origin not allowed"),
        ("http://ok.example:8443", "origin not allowed"),
        ("https://ok.example.:8443", "origin not allowed"),
        ("https://ok.example.evil.example:8443", "origin not allowed"),
        ("http://localhost.", "origin not allowed"),
        ("http://127.0.0.1.evil.example", "origin not allowed"),
        ("null", "origin missing or invalid"),
        ("https://ok.example:8443/", "origin missing or invalid"),
        ("https://ok.example:8443@evil.example", "origin missing or invalid"),
    ] {
        let asked = page(ALL, token(), device());
        let (_, answer) = knock(ground.address(), &headers(origin, None), asked).await;
        is_foreign(&answer, reason);
    }
    let asked = page(ALL, token(), device());
    let allowed = headers("HTTPS://OK.example:8443", None);
    let (mut client, answer) = knock(ground.address(), &allowed, asked).await;
    assert_eq!(answer["ok"], true, "{answer}");
    assert_eq!(call(&mut client, "config.get", json!({})).await["ok"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_was_made_to_point_here_opens_nothing() {
    let ground = Ground::new().await;
    let port = ground.address().port();
    let (host, origin) = (format!("evil.example:{port}"), format!("http://evil.example:{port}"));
    let asked = page(ALL, token(), device());
    let (_, answer) = knock(ground.address(), &headers(&origin, Some(&host)), asked).await;
    is_foreign(&answer, "origin not allowed");
    // A loopback page under a foreign name is none of this machine, either.
    let asked = page(ALL, token(), device());
    let local = headers("http://localhost:1", Some(&host));
    let (_, answer) = knock(ground.address(), &local, asked).await;
    is_foreign(&answer, "origin not allowed");

    let daring = Ground::gateway(&format!(
        "auth: {{token: '{TOKEN}'}}, controlUi: {{dangerouslyAllowHostHeaderOriginFallback: true}}"
    ))
    .await;
    let port = daring.address().port();
    let (host, origin) = (format!("gw.example:{port}"), format!("http://gw.example:{port}"));
    let asked = page(&["operator.read"], token(), device());
    let (_, answer) = knock(daring.address(), &headers(&origin, Some(&host)), asked).await;
    // The page may talk; it is not of this machine, so somebody must agree to its device.
    assert_eq!(answer["error"]["details"]["code"], "PAIRING_REQUIRED", "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_page_reads_nothing_over_http() {
    let ground = Ground::new().await;
    let ask = |path: &str, more: Value| {
        let mut request = json!({ "method": "GET", "path": path, "headers": {
            "Authorization": format!("Bearer {TOKEN}") } });
        for (name, value) in more.as_object().into_iter().flatten() {
            request["headers"][name] = value.clone();
        }
        request
    };
    for origin in ["https://evil.example", "null", "http://localhost.evil.example"] {
        let answer =
            http(ground.address(), &ask("/metrics", json!({ "Origin": origin }))).await.unwrap();
        assert_eq!(answer["status"], 403, "{answer}");
        let ready =
            http(ground.address(), &ask("/ready", json!({ "Origin": origin }))).await.unwrap();
        assert_eq!(ready["body"], json!({ "ready": true }), "{ready}");
    }
    let own = json!({ "Origin": "http://localhost:3000" });
    assert_eq!(http(ground.address(), &ask("/metrics", own)).await.unwrap()["status"], 200);

    // Where no secret is asked, the name must be one of this machine.
    let open = Ground::gateway("auth: {mode: 'none'}").await;
    for (more, status) in [
        (json!({}), 200),
        (json!({ "Host": "evil.example" }), 401),
        (json!({ "X-Forwarded-For": "127.0.0.1" }), 401),
        (json!({ "Origin": "http://evil.example", "Host": "evil.example" }), 403),
    ] {
        let answer = http(open.address(), &ask("/metrics", more.clone())).await.unwrap();
        assert_eq!(answer["status"], status, "{more} {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_others_reach_writes_down_which_pages_may_talk_to_it() {
    let config = format!(
        "{{\n  // ours\n  gateway: {{mode: 'local', bind: 'lan', auth: {{token: '{TOKEN}'}}}},\n}}\n"
    );
    let ground = Ground::of(&config).await;
    let port = ground.address().port();
    let written = ground.config();
    for part in
        ["// ours", &format!("http://localhost:{port}"), &format!("http://127.0.0.1:{port}")]
    {
        assert!(written.contains(part), "{part}: {written}");
    }
    let hidden = config.replace("bind: 'lan'", "bind: 'lan', controlUi: {enabled: false}");
    assert!(!Ground::of(&hidden).await.config().contains("allowedOrigins"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_page_needs_its_device_unless_the_config_dares() {
    let own = headers("http://localhost:3000", None);
    let strict = Ground::new().await;
    let (_, answer) = knock(strict.address(), &own, page(ALL, token(), Value::Null)).await;
    let code = &answer["error"]["details"]["code"];
    assert_eq!(code, "CONTROL_UI_DEVICE_IDENTITY_REQUIRED", "{answer}");

    let rule = |flag: &str| format!("auth: {{token: '{TOKEN}'}}, controlUi: {{{flag}: true}}");
    let local = Ground::gateway(&rule("allowInsecureAuth")).await;
    let (mut client, answer) = knock(local.address(), &own, page(ALL, token(), Value::Null)).await;
    assert_eq!(answer["ok"], true, "{answer}");
    assert_eq!(call(&mut client, "config.get", json!({})).await["ok"], true);
    let forwarded = Headers {
        more: vec![("x-forwarded-for", "127.0.0.1".to_owned())],
        ..headers("http://localhost:3000", None)
    };
    let (_, answer) = knock(local.address(), &forwarded, page(ALL, token(), Value::Null)).await;
    assert_eq!(answer["ok"], false, "{answer}");

    let daring = Ground::gateway(&rule("dangerouslyDisableDeviceAuth")).await;
    let wrong = json!({ "token": "wrong" });
    let (_, answer) = knock(daring.address(), &own, page(ALL, wrong, Value::Null)).await;
    assert_eq!(answer["error"]["details"]["code"], "AUTH_TOKEN_MISMATCH", "{answer}");
    let (mut client, answer) = knock(daring.address(), &own, page(ALL, token(), device())).await;
    assert_eq!(answer["payload"]["auth"]["deviceToken"], Value::Null, "{answer}");
    assert_eq!(call(&mut client, "config.get", json!({})).await["ok"], true);
}
