//! Every row of the bridge's table, and what holds for any request.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::BridgeRefusal::{
    InvalidToken, MissingToken, OtherHost, OtherPage, TooLarge, Unauthorized,
};
use super::*;

const OWN: &str = "127.0.0.1:4321";

fn asked<'a>(method: &'a str, target: &'a str, credential: Credential) -> Asked<'a> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Asked {
        method,
        path,
        query,
        hosts: vec![OWN],
        origins: Vec::new(),
        referers: Vec::new(),
        fetch_sites: Vec::new(),
        body: 0,
        credential,
    }
}

#[track_caller]
fn refused(asked: &Asked<'_>, refusal: BridgeRefusal, status: u16) {
    assert_eq!(decide(asked), BridgeVerdict::Refused(refusal), "{asked:?}");
    assert_eq!(refusal.status(), status);
}

#[test]
fn only_the_right_secret_opens_a_route() {
    for target in ["/", "/tabs", "/nowhere", "/sandbox/novnc/", "//sandbox/novnc"] {
        assert_eq!(decide(&asked("GET", target, Credential::Right)), BridgeVerdict::Allowed);
        refused(&asked("GET", target, Credential::Missing), Unauthorized, 401);
        refused(&asked("GET", target, Credential::Wrong), Unauthorized, 401);
    }
    // The viewer's path is open to a link and to nothing else.
    refused(&asked("POST", "/sandbox/novnc?token=x", Credential::Missing), Unauthorized, 401);
    refused(&asked("HEAD", "/sandbox/novnc?token=x", Credential::Missing), Unauthorized, 401);
}

#[test]
fn a_viewer_needs_a_token() {
    let right = Credential::Right;
    for target in ["/sandbox/novnc", "/sandbox/novnc?token=", "/sandbox/novnc?token=%20&a=b"] {
        refused(&asked("GET", target, right), MissingToken, 400);
    }
    let watch = decide(&asked("GET", "/sandbox/novnc?a=b&token=ab%63", Credential::Missing));
    assert_eq!(watch, BridgeVerdict::Watch { token: "abc".to_owned() });
}

#[test]
fn a_page_of_another_site_changes_nothing() {
    let right = Credential::Right;
    for method in ["POST", "PUT", "PATCH", "DELETE", "post", "BREW"] {
        let plain = asked(method, "/tabs/open", right);
        assert_eq!(decide(&plain), BridgeVerdict::Allowed);
        let local = Asked { origins: vec!["http://localhost:9"], ..plain.clone() };
        assert_eq!(decide(&local), BridgeVerdict::Allowed);
        let same = Asked { fetch_sites: vec!["same-origin"], ..plain.clone() };
        assert_eq!(decide(&same), BridgeVerdict::Allowed);
        let referred = Asked { referers: vec!["http://127.0.0.1:9/a?b"], ..plain.clone() };
        assert_eq!(decide(&referred), BridgeVerdict::Allowed);
        for origin in ["https://evil.example", "null", "", "http://127.0.0.1.evil.example"] {
            refused(&Asked { origins: vec![origin], ..plain.clone() }, OtherPage, 403);
            refused(
                &Asked { origins: vec!["http://[::1]", origin], ..plain.clone() },
                OtherPage,
                403,
            );
        }
        refused(
            &Asked { referers: vec!["https://evil.example/x"], ..plain.clone() },
            OtherPage,
            403,
        );
        refused(&Asked { referers: vec!["file:///etc/passwd"], ..plain.clone() }, OtherPage, 403);
        for site in ["cross-site", "Cross-Site "] {
            let origins = vec!["http://localhost"];
            refused(&Asked { fetch_sites: vec![site], origins, ..plain.clone() }, OtherPage, 403);
        }
    }
    // A page that only looks is stopped by the secret, which it cannot send.
    let looks =
        Asked { origins: vec!["https://evil.example"], ..asked("GET", "/", Credential::Missing) };
    refused(&looks, Unauthorized, 401);
}

#[test]
fn a_name_that_was_made_to_point_here_and_a_large_body_are_refused_first() {
    let right = asked("GET", "/sandbox/novnc?token=x", Credential::Right);
    for host in ["evil.example", "evil.example:4321", "127.0.0.1@evil.example", "", "127.0.0.1:x"] {
        refused(&Asked { hosts: vec![host], ..right.clone() }, OtherHost, 403);
    }
    refused(&Asked { hosts: Vec::new(), ..right.clone() }, OtherHost, 403);
    refused(&Asked { hosts: vec![OWN, OWN], ..right.clone() }, OtherHost, 403);
    for host in ["localhost", "LOCALHOST:1", "[::1]:4321"] {
        let fine = Asked { hosts: vec![host], ..asked("GET", "/", Credential::Right) };
        assert_eq!(decide(&fine), BridgeVerdict::Allowed);
    }
    refused(&Asked { body: MAX_BODY + 1, ..right.clone() }, TooLarge, 413);
    let full = Asked { body: MAX_BODY, ..asked("POST", "/navigate", Credential::Right) };
    assert_eq!(decide(&full), BridgeVerdict::Allowed);
}

fn token(byte: u8) -> ObserverToken {
    ObserverToken::of([byte; 24])
}

#[test]
fn a_link_works_once_and_for_a_minute() {
    let at = Duration::from_secs;
    let mut tokens = ObserverTokens::default();
    tokens.issue(token(0xab), at(100));
    let shown = "ab".repeat(24);
    assert_eq!(token(0xab).expose(), shown);
    for wrong in ["", "ab", &shown[1..], &format!("{shown}a"), &shown.to_uppercase()] {
        assert_eq!(tokens.redeem(wrong, at(101)), Err(InvalidToken), "{wrong}");
    }
    assert_eq!(tokens.redeem(&shown, at(159)), Ok(()));
    assert_eq!(tokens.redeem(&shown, at(159)), Err(InvalidToken));
    tokens.issue(token(1), at(200));
    assert_eq!(tokens.redeem(&"01".repeat(24), at(260)), Err(InvalidToken));
    assert_eq!(InvalidToken.status(), 404);
}

#[test]
fn there_are_never_more_links_than_a_few() {
    let mut tokens = ObserverTokens::default();
    for byte in 0..=u8::try_from(MAX_TOKENS).unwrap() {
        tokens.issue(token(byte), Duration::ZERO);
    }
    assert_eq!(tokens.issued.len(), MAX_TOKENS);
    assert_eq!(tokens.redeem(token(0).expose(), Duration::ZERO), Err(InvalidToken));
    assert_eq!(tokens.redeem(token(1).expose(), Duration::ZERO), Ok(()));
}

#[test]
fn the_password_is_behind_the_number_sign_and_nowhere_else() {
    let password = ViewerPassword::parse("aB3dE6gH").unwrap();
    let url = viewer_url(6080, &password);
    let (sent, kept) = url.split_once('#').unwrap();
    assert_eq!(sent, "http://127.0.0.1:6080/vnc.html");
    assert_eq!(kept, "autoconnect=1&resize=remote&password=aB3dE6gH");
    let page = viewer_page(6080, &password, &token(7));
    assert_eq!(page.matches("aB3dE6gH").count(), 1);
    assert!(page.contains(&format!("location.replace(\"{url}\")")), "{page}");
    let link = observer_url(([127, 0, 0, 1], 9).into(), &token(7));
    assert_eq!(link, format!("http://127.0.0.1:9/sandbox/novnc?token={}", "07".repeat(24)));
    assert_eq!(format!("{:?}", token(7)), "ObserverToken(***)");
}

#[test]
fn a_browser_is_sent_to_pages_only() {
    let to = |url: &str| Navigation::To(url.to_owned());
    let scheme =
        |scheme: &str| Navigation::Refused(NavigationRefusal::Scheme { scheme: scheme.to_owned() });
    for (address, expected) in [
        ("https://example.com", to("https://example.com/")),
        (" HTTP://Example.com/a b", to("http://example.com/a%20b")),
        ("data:text/html,<p>x", to("data:text/html,<p>x")),
        ("about:blank", to("about:blank")),
        ("about:blank#x", to("about:blank")),
        ("about:gpu", scheme("about")),
        ("file:///etc/passwd", scheme("file")),
        ("FiLe:/etc/passwd", scheme("file")),
        ("fi\tle:///etc/passwd", scheme("file")),
        ("view-source:file:///etc", scheme("view-source")),
        ("javascript:alert(1)", scheme("javascript")),
        ("chrome://version", scheme("chrome")),
        ("devtools://devtools", scheme("devtools")),
        ("blob:https://a/b", scheme("blob")),
        ("ws://127.0.0.1:9223/", scheme("ws")),
        ("https://a:b@example.com", Navigation::Refused(NavigationRefusal::Credentials)),
        ("example.com", Navigation::Refused(NavigationRefusal::NoAddress)),
        ("", Navigation::Refused(NavigationRefusal::NoAddress)),
    ] {
        assert_eq!(decide_navigation(address), expected, "{address}");
    }
}

proptest! {
    #[test]
    fn no_request_without_the_secret_gets_to_a_route(
        method in select(vec!["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "X"]),
        path in "/[a-z/%.]{0,20}|/sandbox/novnc|/sandbox/novnc/",
        query in "(token=[a-z0-9]{0,50})?(&[a-z=]{0,9})?",
        hosts in vec(select(vec![OWN, "localhost", "evil.example", ""]), 0..3),
        pages in vec(select(vec!["http://localhost", "https://evil.example", "null", ""]), 0..3),
        sites in vec(select(vec!["cross-site", "same-origin", "none", ""]), 0..3),
        body in 0..2 * MAX_BODY,
        credential in select(vec![Credential::Wrong, Credential::Missing]),
    ) {
        let asked = Asked {
            method,
            path: &path,
            query: &query,
            hosts,
            origins: pages.clone(),
            referers: pages,
            fetch_sites: sites,
            body,
            credential,
        };
        let verdict = decide(&asked);
        prop_assert_ne!(&verdict, &BridgeVerdict::Allowed);
        // Not even the secret helps a page of another site.
        let changed = Asked { credential: Credential::Right, ..asked.clone() };
        if asked.origins.contains(&"https://evil.example") && changes(method) {
            prop_assert!(matches!(decide(&changed), BridgeVerdict::Refused(_)));
        }
    }

    #[test]
    fn a_link_opens_the_viewer_at_most_once(
        steps in vec((0_u8..6, 0_u64..50, any::<bool>()), 1..60),
    ) {
        let mut tokens = ObserverTokens::default();
        let (mut now, mut given, mut opened) = (Duration::ZERO, [0_u32; 6], [0_u32; 6]);
        for (byte, passed, issues) in steps {
            now += Duration::from_secs(passed);
            let place = usize::from(byte);
            // Each link is new, as random ones are.
            if issues && given[place] == 0 {
                tokens.issue(token(byte), now);
                given[place] += 1;
            } else if tokens.redeem(token(byte).expose(), now).is_ok() {
                opened[place] += 1;
            }
        }
        for (given, opened) in given.iter().zip(opened) {
            prop_assert!(opened <= *given);
        }
    }
}
