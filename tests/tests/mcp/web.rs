//! `web_fetch` against an internet of the test's own: what is public is read, and no way leads inside.

mod world;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::door::{CONFIG, Ground, Pipes, peak};
use world::{Names, OURS, SERVER, World, sh};

/// Opens the tool; three seconds for everything.
const OPEN: &str = "{tools: {web: {fetch: {timeoutSeconds: 3, cacheTtlMinutes: 0}}, \
                    sandbox: {tools: {allow: ['web_fetch', 'exec']}}}, \
                    agents: {defaults: {sandbox: {mode: 'all', backend: 'native', workspaceAccess: 'rw'}}}}";

const NAMES: Names = &[
    ("site.example", &[&[SERVER]]),
    ("secure.example", &[&[SERVER]]),
    ("wrong.example", &[&[SERVER]]),
    ("inner.example", &[&["127.0.0.1"]]),
    ("private.example", &[&["10.99.0.2"]]),
    ("ours.example", &[&[OURS]]),
    ("metadata.example", &[&["169.254.169.254"]]),
    ("both.example", &[&[SERVER, "127.0.0.1"]]),
    ("six.example", &[&["::1"]]),
    ("mapped.example", &[&["::ffff:127.0.0.1", SERVER]]),
    ("rebind.example", &[&[SERVER], &["127.0.0.1"]]),
];

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

fn fetch(pipes: &mut Pipes, url: &str) -> Value {
    pipes.call("web_fetch", json!({ "url": url }))
}

#[test]
fn a_page_is_fetched_as_text_and_marked_as_foreign() {
    let ground = Ground::new(OPEN);
    let world = World::enter(&ground.0.path(""), NAMES);
    let mut pipes = Pipes::open(&ground, &[]);
    let page = fetch(&mut pipes, "http://site.example/page?token=hidden#part");
    let details = &page["structuredContent"];
    assert_eq!(page["isError"], false, "{page}");
    let expected = json!({
        "url": "http://site.example/page?token=hidden",
        "finalUrl": "http://site.example/page?token=hidden",
        "status": 200,
        "contentType": "text/html",
        "title": "A page",
        "extractMode": "markdown",
        "extractor": "html",
        "externalContent": { "untrusted": true, "source": "web_fetch", "wrapped": true },
        "truncated": false,
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&details[key], value, "{key}");
    }
    let body = "# Hello\n\nfrom [here](http://site.example/x) [mark removed]>>>";
    assert!(text(&page).contains(&format!("\n{body}\n<<<END_WEB_CONTENT id=")), "{page}");
    assert_eq!(details["length"], body.chars().count());

    let plain = pipes
        .call("web_fetch", json!({ "url": "http://site.example/page", "extractMode": "text" }));
    assert!(text(&plain).contains("Hello\n\nfrom here"), "{plain}");
    assert!(text(&fetch(&mut pipes, "http://site.example/latin")).contains("naïve"));
    assert!(
        text(&fetch(&mut pipes, "http://site.example/json"))
            .contains("{\n  \"a\": [\n    1\n  ]\n}")
    );
    let moved = fetch(&mut pipes, "http://site.example/to?http://93.184.216.34/latin");
    assert_eq!(moved["structuredContent"]["finalUrl"], "http://93.184.216.34/latin");
    let long =
        pipes.call("web_fetch", json!({ "url": "http://site.example/long", "maxChars": 100 }));
    assert_eq!(long["structuredContent"]["truncated"], true);
    assert!(text(&long).contains("[Showing 100 of 150000 characters."), "{long}");
    let missing = fetch(&mut pipes, "http://site.example/nothing");
    assert_eq!(missing["isError"], true);
    assert!(
        text(&missing).contains("`site.example` answered 404")
            && text(&missing).contains("none of this")
    );
    assert!(
        text(&fetch(&mut pipes, "http://site.example/picture"))
            .contains("is no text but `image/png`")
    );

    let requests = world.requests.lock().unwrap();
    let first = requests.first().unwrap().to_lowercase();
    assert!(
        first.starts_with("get /page?token=hidden http/1.1\r\nhost: site.example\r\n"),
        "{first}"
    );
    for never in ["cookie", "authorization", "referer", "origin"] {
        assert!(!first.contains(&format!("\n{never}:")), "{first}");
    }
    let audit = ground.0.run(&["audit", "--json"]).stdout;
    let before = audit.find("asks `site.example`").unwrap();
    assert!(before < audit.find("fetched: `site.example`").unwrap(), "{audit}");
    assert!(
        audit.contains("site.example") && !audit.contains("hidden") && !audit.contains("/page"),
        "{audit}"
    );
}

#[test]
fn no_way_leads_inside() {
    let ground = Ground::new(OPEN);
    let world = World::enter(&ground.0.path(""), NAMES);
    let mut pipes = Pipes::open(&ground, &[]);
    for (url, reason) in [
        ("http://127.0.0.1/", "leads back to this machine"),
        ("http://2130706433/", "leads back to this machine"),
        ("http://0x7f.1/", "leads back to this machine"),
        ("http://[::1]/", "leads back to this machine"),
        ("http://[::ffff:7f00:1]/", "carries an IPv4 address inside"),
        ("http://[64:ff9b::7f00:1]/", "carries an IPv4 address inside"),
        ("http://[2002:7f00:1::]/", "carries an IPv4 address inside"),
        ("http://0.0.0.0/", "stands for no machine"),
        ("http://10.99.0.2/", "private network"),
        ("http://100.64.0.1/", "carrier's inner network"),
        ("http://169.254.169.254/latest/meta-data/", "local link"),
        ("http://168.63.129.16/", "metadata service"),
        ("http://224.0.0.1/", "group of machines"),
        ("http://93.184.217.2/", "an address of this machine"),
        ("http://localhost/", "name of inner networks"),
        ("http://metadata.google.internal/", "name of inner networks"),
        ("http://inner.example/", "leads back to this machine"),
        ("http://private.example/", "private network"),
        ("http://ours.example/", "an address of this machine"),
        ("http://metadata.example/", "local link"),
        ("http://both.example/", "leads back to this machine"),
        ("http://six.example/", "leads back to this machine"),
        ("http://mapped.example/", ""),
        ("http://user:secret@site.example/", "user name or a password"),
        ("http://site.example:22/", "other services than the web"),
        ("file:///etc/passwd", "only http and https"),
        ("http://site.example/to?http://127.0.0.1/", "leads back to this machine"),
        ("http://site.example/to?http://inner.example/", "leads back to this machine"),
        ("http://site.example/to?//localhost/", "name of inner networks"),
        ("http://site.example/to?file:///etc/passwd", "only http and https"),
        ("http://site.example/to?http://u:p@site.example/", "user name or a password"),
        ("http://site.example/to?http://site.example/to?http://169.254.169.254/", "local link"),
    ] {
        let refused = fetch(&mut pipes, url);
        assert_eq!(refused["isError"], true, "{url}: {refused}");
        assert!(text(&refused).contains(reason), "{url}: {refused}");
        assert_eq!(refused["structuredContent"]["code"], "denied", "{url}: {refused}");
        assert!(!refused.to_string().contains("secret"), "{refused}");
    }
    assert!(world.is_untouched(), "something of ours was connected to");
    assert!(!ground.0.run(&["audit", "--json"]).stdout.contains("secret"));
}

#[test]
fn a_name_that_changes_its_mind_changes_nothing() {
    let ground = Ground::new(OPEN);
    let world = World::enter(&ground.0.path(""), NAMES);
    let mut pipes = Pipes::open(&ground, &[]);
    // Looked up once, and connected to what was looked at.
    let page = fetch(&mut pipes, "http://rebind.example/latin");
    assert!(text(&page).contains("naïve"), "{page}");
    assert_eq!(world.looked_up.lock().unwrap()["rebind.example"], 1);
    // By now it leads inside; a redirect to it is looked up anew.
    let refused = fetch(&mut pipes, "http://site.example/to?http://rebind.example/latin");
    assert!(text(&refused).contains("leads back to this machine"), "{refused}");
    assert!(world.is_untouched());
}

#[test]
fn answers_without_end_are_cut_or_given_up() {
    let ground = Ground::new(OPEN);
    sh(&format!("head -c 1000000000 /dev/zero | gzip -9 > {}", ground.0.path("bomb.gz").display()));
    let _world = World::enter(&ground.0.path(""), NAMES);
    let mut pipes = Pipes::open(&ground, &[]);
    for (path, is_error, expected) in [
        ("bomb", false, "only the first 2000000 bytes were read"),
        ("endless", false, "only the first 2000000 bytes were read"),
        ("slow", true, "too slow: everything took longer than 3 s"),
        ("silent", true, "too slow: everything took longer than 3 s"),
        ("headers", true, "did not answer as HTTP says"),
        ("loop", true, "sends on more than 3 times"),
    ] {
        let begun = Instant::now();
        let done = fetch(&mut pipes, &format!("http://site.example/{path}"));
        assert_eq!(done["isError"], is_error, "{path}: {done}");
        assert!(text(&done).contains(expected), "{path}: {done}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{path}: {:?}", begun.elapsed());
    }
    let peak = peak(pipes.child.id());
    assert!(peak < 150_000, "the door took {peak} KiB");
}

#[test]
fn a_fetch_that_nobody_waits_for_ends() {
    let config = OPEN.replace("timeoutSeconds: 3", "timeoutSeconds: 100");
    let ground = Ground::new(&config);
    let _world = World::enter(&ground.0.path(""), NAMES);
    let mut pipes = Pipes::open(&ground, &[]);
    let call = json!({ "name": "web_fetch", "arguments": { "url": "http://site.example/silent" } });
    pipes.line(
        &json!({ "jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": call }).to_string(),
    );
    pipes.line(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "x" } }).to_string(),
    );
    let begun = Instant::now();
    while !ground.0.run(&["audit", "--json"]).stdout.contains("cancelled") {
        assert!(begun.elapsed() < Duration::from_secs(20), "it still waits");
    }
}

#[test]
fn https_is_by_name_and_by_the_authorities_of_this_machine() {
    let ground = Ground::new(OPEN);
    let files = ground.0.path("");
    sh(&format!(
        "cd {} && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout key.pem -out ca.pem 2>/dev/null \
         && openssl req -new -key key.pem -subj /CN=server -out server.csr 2>/dev/null \
         && for name in secure other; do echo subjectAltName=DNS:$name.example > names \
         && openssl x509 -req -days 2 -CA ca.pem -CAkey key.pem -CAcreateserial -in server.csr -extfile names -out $name.pem 2>/dev/null; done \
         && mv secure.pem cert.pem && printf 'HTTP/1.0 200 OK\\r\\ncontent-type: text/plain\\r\\n\\r\\nover TLS' > page",
        files.display()
    ));
    let _world = World::enter(&files, NAMES);
    let mut door = ground.0.command(&["mcp"]);
    door.env("SSL_CERT_FILE", files.join("ca.pem"));
    let mut pipes = Pipes::start(door);
    let page = fetch(&mut pipes, "https://secure.example/page");
    assert!(text(&page).contains("over TLS"), "{page}");
    for bad in ["https://wrong.example/page", "https://93.184.216.34/page"] {
        let refused = fetch(&mut pipes, bad);
        assert!(text(&refused).contains("not who it says it is, or TLS failed"), "{refused}");
        // The certificate's own names are a stranger's words.
        assert!(!refused.to_string().contains("secure.example"), "{refused}");
    }
    drop(pipes);
    // Whom this machine does not believe is not believed.
    let mut pipes = Pipes::open(&ground, &[]);
    let refused = fetch(&mut pipes, "https://secure.example/page");
    assert_eq!(refused["isError"], true, "{refused}");
}

#[test]
fn only_a_policy_that_names_it_opens_it() {
    for (config, is_offered) in [
        (CONFIG.to_owned(), false),
        (OPEN.to_owned(), true),
        (OPEN.replace("timeoutSeconds: 3", "enabled: false"), false),
        (OPEN.replacen("{tools: {", "{tools: {deny: ['group:web'], ", 1), false),
    ] {
        let ground = Ground::new(&config);
        let mut pipes = Pipes::open(&ground, &[]);
        let listed = pipes.ask("tools/list", &json!({}));
        let tools = listed["result"]["tools"].as_array().unwrap();
        let found = tools.iter().find(|tool| tool["name"] == "web_fetch");
        assert_eq!(found.is_some(), is_offered, "{config}");
        if let Some(tool) = found {
            let schema = &tool["inputSchema"];
            assert_eq!(schema["required"], json!(["url"]));
            assert_eq!(schema["properties"]["maxChars"]["minimum"], 100);
            assert_eq!(schema["properties"]["extractMode"]["enum"], json!(["markdown", "text"]));
            assert_eq!(tool["annotations"]["openWorldHint"], true);
        } else {
            let refused = pipes.call("web_fetch", json!({ "url": "http://site.example/" }));
            assert_eq!(refused["structuredContent"]["code"], "policy", "{refused}");
        }
    }
}

#[test]
fn a_tool_that_needs_a_model_is_not_offered_and_says_so() {
    let config = OPEN.replace("'exec'", "'image'");
    let ground = Ground::new(&config);
    let mut pipes = Pipes::open(&ground, &[]);
    let listed = pipes.ask("tools/list", &json!({}));
    assert!(!listed.to_string().contains("\"image\""), "{listed}");
    let refused = pipes.call("image", json!({ "image": "a.png" }));
    assert_eq!(refused["structuredContent"]["code"], "no-tool", "{refused}");
    assert!(text(&refused).contains("`read` shows image files"), "{refused}");
}
