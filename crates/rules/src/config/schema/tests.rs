//! What the schema says about configs, by key and words.

use super::*;
use crate::config::json5;
use crate::config::tree::FileId;

fn issues(text: &str) -> Vec<(String, String)> {
    let root = json5::parse(text, FileId(0)).unwrap().root;
    check(&root).into_iter().map(|issue| (issue.key, issue.problem.to_string())).collect()
}

#[track_caller]
fn check_one(text: &str, key: &str, words: &str) {
    assert_eq!(issues(text), [(key.to_owned(), words.to_owned())], "{text}");
}

#[track_caller]
fn check_valid(text: &str) {
    assert_eq!(issues(text), [], "{text}");
}

fn sandbox(body: &str) -> String {
    format!("{{agents: {{defaults: {{sandbox: {{{body}}}}}}}}}")
}

#[test]
fn types_words_and_numbers() {
    check_one("42", "", "needs type object, found number");
    check_one(
        &sandbox("docker: {image: 5}"),
        "agents.defaults.sandbox.docker.image",
        "needs type string, found number",
    );
    check_one(
        &sandbox("mode: 'ALL'"),
        "agents.defaults.sandbox.mode",
        "must be one of \"off\", \"non-main\", \"all\"; found \"ALL\"",
    );
    check_one(
        &sandbox("docker: {cpus: 0}"),
        "agents.defaults.sandbox.docker.cpus",
        "the number must be >0",
    );
    check_one(
        &sandbox("docker: {cpus: NaN}"),
        "agents.defaults.sandbox.docker.cpus",
        "needs type number, found NaN",
    );
    check_one(
        &sandbox("prune: {idleHours: 1.5}"),
        "agents.defaults.sandbox.prune.idleHours",
        "needs a whole number (int), found a number with a fraction",
    );
    check_one(
        &sandbox("docker: {env: ['A=1']}"),
        "agents.defaults.sandbox.docker.env",
        "needs type record, found array",
    );
    check_one(
        &sandbox("backend: ''"),
        "agents.defaults.sandbox.backend",
        "the string needs >=1 characters",
    );
    check_one("{agents: {list: [{}]}}", "agents.list.0.id", "needs type string, found undefined");
}

#[test]
fn alternatives_are_judged_by_the_one_that_fits() {
    check_valid(&sandbox(
        "docker: {setupCommand: ['a', 'b'], memory: 5, ulimits: {nofile: {soft: 1}, core: 0}}",
    ));
    check_one(
        &sandbox("docker: {memory: true}"),
        "agents.defaults.sandbox.docker.memory",
        "none of the accepted forms fits this value",
    );
    check_one(
        &sandbox("docker: {ulimits: {nofile: {soft: 1, medium: 2}}}"),
        "agents.defaults.sandbox.docker.ulimits.nofile",
        "unknown key \"medium\"",
    );
    check_one(
        &sandbox("docker: {ulimits: {nofile: {soft: -1}}}"),
        "agents.defaults.sandbox.docker.ulimits.nofile.soft",
        "the number must be >=0",
    );
}

#[test]
fn unknown_keys_come_last_and_with_a_guess() {
    let text = sandbox("moed: 'all', scop: 'x', mode: 'bad'");
    let root = json5::parse(&text, FileId(0)).unwrap().root;
    let found = check(&root);
    assert_eq!(found.len(), 2);
    assert!(matches!(found[0].problem, Problem::NotOneOf { .. }));
    let Problem::UnknownKeys(keys) = &found[1].problem else { panic!("{found:?}") };
    let guesses: Vec<(&str, Option<&str>)> =
        keys.iter().map(|key| (key.name.as_str(), key.nearest)).collect();
    assert_eq!(guesses, [("moed", Some("mode")), ("scop", Some("scope"))]);
    check_one("{sandbox: {}}", "", "unknown key \"sandbox\"");
}

#[test]
fn one_scope_may_not_set_both_allow_lists() {
    let words = "this tool policy sets both allow and alsoAllow; move the alsoAllow entries into allow, or drop \
                 allow and combine a profile with alsoAllow";
    check_one(
        "{tools: {sandbox: {tools: {allow: ['a'], alsoAllow: ['b']}}}}",
        "tools.sandbox.tools",
        words,
    );
    check_valid("{tools: {sandbox: {tools: {allow: [], alsoAllow: ['b']}}}}");
    check_valid("{tools: {allow: ['a'], alsoAllow: []}}");
    // A list of the wrong type is reported; what it would mean is not guessed.
    check_one(
        "{tools: {allow: ['a', 1], alsoAllow: ['b']}}",
        "tools.allow.1",
        "needs type string, found number",
    );
}

#[test]
fn unsafe_values_are_refused_before_anything_is_made() {
    for (body, key) in [
        ("docker: {network: 'host'}", "docker.network"),
        ("docker: {network: ' Container:x'}", "docker.network"),
        ("docker: {seccompProfile: ' Unconfined'}", "docker.seccompProfile"),
        ("docker: {apparmorProfile: 'unconfined'}", "docker.apparmorProfile"),
        ("docker: {binds: ['relative:/x']}", "docker.binds.0"),
        ("docker: {binds: ['/ok:/x', '  ']}", "docker.binds.1"),
        ("browser: {network: 'host'}", "browser.network"),
        ("browser: {network: 'container:x'}", "browser.network"),
        ("browser: {binds: ['vol:/x']}", "browser.binds.0"),
    ] {
        let keys: Vec<String> = issues(&sandbox(body)).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [format!("agents.defaults.sandbox.{key}")], "{body}");
    }
    check_valid(&sandbox(
        "docker: {network: 'container:x', dangerouslyAllowContainerNamespaceJoin: true}",
    ));
}

#[test]
fn names_are_guessed_within_a_third_of_their_length() {
    let known = ["sandbox", "scope", "mode"];
    for (written, expected) in [
        ("sanbdox", Some("sandbox")),
        ("Sandbox", Some("sandbox")),
        ("scop", Some("scope")),
        ("xyz", None),
        ("", None),
    ] {
        assert_eq!(nearest(written, known.into_iter()), expected, "{written}");
    }
}

#[test]
fn the_gateway_and_the_web_tools_are_checked_like_the_rest() {
    check_one("{gateway: {tls: {enable: true}}}", "gateway.tls", "unknown key \"enable\"");
    check_one("{gateway: {controlUI: {}}}", "gateway", "unknown key \"controlUI\"");
    check_one(
        "{tools: {web: {fetch: {maxChar: 1}}}}",
        "tools.web.fetch",
        "unknown key \"maxChar\"",
    );
    check_one(
        "{gateway: {auth: {mode: 'proxy'}}}",
        "gateway.auth.mode",
        "must be one of \"none\", \"token\", \"password\", \"trusted-proxy\"; found \"proxy\"",
    );
    check_one(
        "{gateway: {auth: {trustedProxy: {allowUsers: []}}}}",
        "gateway.auth.trustedProxy.userHeader",
        "needs type string, found undefined",
    );
    check_one("{gateway: {port: 0}}", "gateway.port", "the number must be >0");
    let root = json5::parse("{gateway: {tls: {enable: true}}}", FileId(0)).unwrap().root;
    let Problem::UnknownKeys(keys) = &check(&root)[0].problem else { panic!("no unknown key") };
    assert_eq!(keys[0].nearest, Some("enabled"));
    assert_eq!((keys[0].place.line, keys[0].place.column), (1, 18));
}

#[test]
fn every_gateway_key_of_the_reference_is_known() {
    check_valid(
        "{gateway: {port: 1, mode: 'local', bind: 'lan', customBindHost: 'x', \
         controlUi: {enabled: true, basePath: '', root: '', allowedOrigins: [], \
         dangerouslyAllowHostHeaderOriginFallback: true, allowInsecureAuth: true, \
         dangerouslyDisableDeviceAuth: true}, \
         auth: {mode: 'token', token: {source: 'env', id: 'A'}, password: 'p', allowTailscale: true, \
         rateLimit: {maxAttempts: 1, windowMs: 1, lockoutMs: 1, exemptLoopback: false}, \
         trustedProxy: {userHeader: 'x', requiredHeaders: [], allowUsers: []}}, \
         trustedProxies: [], allowRealIpFallback: true, tools: {deny: [], allow: []}, \
         channelHealthCheckMinutes: 0, channelStaleEventThresholdMinutes: 30, \
         channelMaxRestartsPerHour: 1, tailscale: {mode: 'off', resetOnExit: false}, \
         remote: {url: '', transport: 'ssh', token: '', password: '', tlsFingerprint: '', sshTarget: '', \
         sshIdentity: ''}, reload: {mode: 'hot', debounceMs: 0, deferralTimeoutMs: 0}, \
         tls: {enabled: true, autoGenerate: true, certPath: '', keyPath: '', caPath: ''}, \
         http: {endpoints: {chatCompletions: {enabled: true, maxBodyBytes: 1, maxImageParts: 0, \
         maxTotalImageBytes: 1, images: {allowUrl: true, urlAllowlist: [], allowedMimes: [], maxBytes: 1, \
         maxRedirects: 0, timeoutMs: 1}}, responses: {enabled: true, maxBodyBytes: 1, maxUrlParts: 0, \
         files: {maxChars: 1, pdf: {maxPages: 1, maxPixels: 1, minTextChars: 0}}, images: {}}}, \
         securityHeaders: {strictTransportSecurity: false}}, \
         push: {apns: {relay: {baseUrl: '', timeoutMs: 1}}}, \
         nodes: {browser: {mode: 'auto', node: ''}, allowCommands: [], denyCommands: []}}}",
    );
    check_valid(
        "{tools: {web: {search: {enabled: true, provider: 'brave', maxResults: 1, timeoutSeconds: 1, \
         cacheTtlMinutes: 0, apiKey: '', brave: {mode: ''}, grok: {inlineCitations: true}, \
         kimi: {model: ''}, gemini: {apiKey: ''}, perplexity: {baseUrl: ''}, firecrawl: {}}, \
         fetch: {enabled: true, maxChars: 1, maxCharsCap: 1, maxResponseBytes: 1, timeoutSeconds: 1, \
         cacheTtlMinutes: 0, maxRedirects: 0, userAgent: '', readability: true, \
         firecrawl: {enabled: true, apiKey: '', baseUrl: '', onlyMainContent: true, maxAgeMs: 0, \
         timeoutSeconds: 1}}, x_search: {enabled: true, maxTurns: 1}}}}",
    );
}
