//! Where gateways listen, what they ask for, and all that stops a start.

use super::*;
use crate::access::tls::{TlsFiles, WhenMissing};
use crate::access::trusted_user::{LoopbackProxies, TrustedUsers};
use crate::config::{json5, tree::FileId};

fn ask(gateway: &str, said: Said<'_>) -> Result<Listen, ListenRefusal> {
    let text = format!("{{gateway: {gateway}}}");
    let config = Config::from_tree(json5::parse(&text, FileId(0)).unwrap().root, Vec::new());
    decide(&config, &said)
}

/// The rest of a gateway that is `mode: "local"`.
fn local(rest: &str) -> Result<Listen, ListenRefusal> {
    ask(&format!("{{mode: 'local', {rest}}}"), Said::default())
}

#[track_caller]
fn refused(rest: &str, expected: ListenRefusal) {
    assert_eq!(local(rest), Err(expected), "{rest}");
}

fn plain() -> Listen {
    Listen {
        port: 18_789,
        bind: Bind::Loopback,
        secret: Secret::Token(Some("t".to_owned())),
        proxies: TrustedProxies::default(),
        tls: None,
        origins: OriginRules::default(),
        seed: Seed::No,
        devices: DeviceRule::Always,
        strict_transport: None,
    }
}

#[test]
fn a_plain_gateway_listens_on_this_machine_only() {
    assert_eq!(local("auth: {token: 't'}"), Ok(plain()));
    // What is there and switched off changes nothing.
    let off = "auth: {token: 't', allowTailscale: false}, tailscale: {mode: 'off'}, \
               tls: {enabled: false, certPath: '/x'}, controlUi: {allowInsecureAuth: false}";
    assert_eq!(local(off), Ok(plain()));
}

#[test]
fn every_bind_mode_has_one_meaning() {
    let tailnet = Ipv4Addr::new(100, 64, 1, 2);
    let there = Said { tailnet: Some(tailnet), ..Said::default() };
    for (bind, said, expected) in [
        ("", there, Ok(Bind::Loopback)),
        ("bind: 'loopback',", there, Ok(Bind::Loopback)),
        ("bind: 'auto',", there, Ok(Bind::Loopback)),
        ("bind: 'lan',", there, Ok(Bind::Lan)),
        ("bind: 'tailnet',", there, Ok(Bind::Custom(tailnet))),
        ("bind: 'tailnet',", Said::default(), Ok(Bind::Loopback)),
        (
            "bind: 'custom', customBindHost: '10.0.0.1',",
            there,
            Ok(Bind::Custom(Ipv4Addr::new(10, 0, 0, 1))),
        ),
        (
            "bind: 'custom', customBindHost: ' 127.0.0.2 ',",
            there,
            Ok(Bind::Custom(Ipv4Addr::new(127, 0, 0, 2))),
        ),
        ("bind: 'custom',", there, Err(ListenRefusal::CustomHost { found: String::new() })),
        (
            "bind: 'custom', customBindHost: '::1',",
            there,
            Err(ListenRefusal::CustomHost { found: "::1".to_owned() }),
        ),
        ("bind: 'wide',", there, Err(ListenRefusal::UnknownBind { found: "wide".to_owned() })),
        ("bind: 'loopback',", Said { bind: Some("lan"), ..there }, Ok(Bind::Lan)),
    ] {
        let gateway = format!("{{mode: 'local', {bind} auth: {{token: 't'}}}}");
        assert_eq!(ask(&gateway, said).map(|listen| listen.bind), expected, "{bind}");
    }
}

#[test]
fn nobody_else_reaches_a_gateway_without_a_secret() {
    let lan = ListenRefusal::OpenToOthers { bind: "lan" };
    let custom = ListenRefusal::OpenToOthers { bind: "custom" };
    refused("bind: 'lan'", lan.clone());
    refused("bind: 'lan', auth: {mode: 'none', token: 't'}", lan.clone());
    refused("bind: 'lan', auth: {mode: 'token', password: 'p'}", lan);
    refused("bind: 'custom', customBindHost: '10.0.0.1', auth: {token: ' '}", custom.clone());
    refused("bind: 'custom', customBindHost: '0.0.0.0'", custom);
    let tailnet = Some(Ipv4Addr::new(100, 64, 1, 2));
    let found = ask("{mode: 'local', bind: 'tailnet'}", Said { tailnet, ..Said::default() });
    assert_eq!(found, Err(ListenRefusal::OpenToOthers { bind: "custom" }));
    for fine in [
        "bind: 'lan', auth: {token: 't'}",
        "bind: 'lan', auth: {password: 'p'}",
        "bind: 'custom', customBindHost: '127.0.0.1', auth: {mode: 'none'}",
        "bind: 'lan', trustedProxies: ['10.0.0.1'], auth: {mode: 'trusted-proxy', \
         trustedProxy: {userHeader: 'x-user'}}",
    ] {
        assert!(local(fine).is_ok(), "{fine}");
    }
}

#[test]
fn what_is_unclear_or_not_enforced_does_not_start() {
    assert_eq!(ask("{}", Said::default()), Err(ListenRefusal::NotConfigured));
    assert_eq!(ask("{mode: 'remote'}", Said::default()), Err(ListenRefusal::NotConfigured));
    let start = Said { unconfigured: Unconfigured::Start, ..Said::default() };
    assert!(ask("{}", start).is_ok());
    refused("port: 70000", ListenRefusal::Port { found: "70000".to_owned() });
    refused("port: 1.5", ListenRefusal::Port { found: "1.5".to_owned() });
    refused("auth: {token: 'a', password: 'b'}", ListenRefusal::TwoSecrets);
    refused("auth: {mode: 'password'}", ListenRefusal::NoPassword);
    refused("auth: {mode: 'x'}", ListenRefusal::UnknownMode { found: "x".to_owned() });
    refused("trustedProxies: ['proxy']", ListenRefusal::Proxy { found: "proxy".to_owned() });
    refused(
        "auth: {token: {source: 'env', id: 'X'}}",
        ListenRefusal::Reference { key: "gateway.auth.token" },
    );
    for (rest, key) in [
        ("auth: {token: 't', allowTailscale: true}", "gateway.auth.allowTailscale"),
        ("auth: {token: 't', identityScopes: {}}", "gateway.auth.identityScopes"),
        ("tailscale: {mode: 'funnel'}", "gateway.tailscale.mode"),
        ("roles: {default: 'x'}", "gateway.roles"),
    ] {
        refused(rest, ListenRefusal::NotEnforced { key });
    }
}

#[test]
fn a_proxy_that_vouches_is_named_and_can_be_told_apart() {
    let proxied = |proxies: &str, rest: &str| {
        format!(
            "trustedProxies: [{proxies}], auth: {{mode: 'trusted-proxy', trustedProxy: {{{rest}}}}}"
        )
    };
    let user = "userHeader: 'X-Forwarded-User'";
    refused(&proxied("", user), ListenRefusal::NoProxies);
    refused(&proxied("'10.0.0.1'", user), ListenRefusal::NoProxyHere);
    refused(&proxied("'0.0.0.0/0'", user), ListenRefusal::EverybodyIsProxy);
    refused(&proxied("'127.0.0.1', '::/0'", user), ListenRefusal::EverybodyIsProxy);
    refused(&proxied("'127.0.0.1'", ""), ListenRefusal::NoUserHeader);
    refused(&proxied("'127.0.0.1'", "userHeader: ' '"), ListenRefusal::NoUserHeader);
    for (found, rest) in [
        ("Host", "userHeader: 'Host'"),
        ("X-Forwarded-For", "userHeader: 'X-Forwarded-For'"),
        ("x user", "userHeader: 'x user'"),
    ] {
        let key = "gateway.auth.trustedProxy.userHeader";
        let found = found.to_owned();
        refused(&proxied("'127.0.0.1'", rest), ListenRefusal::BadHeader { key, found });
    }
    let whole = "userHeader: 'X-Forwarded-User', requiredHeaders: ['X-Forwarded-Proto'], \
                 allowUsers: ['ada'], allowLoopback: true";
    let listen = local(&proxied("'127.0.0.0/8'", whole)).unwrap();
    let expected = TrustedUsers {
        user_header: "x-forwarded-user".to_owned(),
        required_headers: vec!["x-forwarded-proto".to_owned()],
        allow_users: vec!["ada".to_owned()],
        loopback: LoopbackProxies::Believed,
    };
    assert_eq!((listen.secret.mode(), listen.secret), ("trusted-proxy", Secret::Proxy(expected)));
}

#[test]
fn pages_are_seeded_where_others_can_reach_them_and_nothing_is_said() {
    let seed = |rest: &str| local(&format!("auth: {{token: 't'}}, {rest}")).unwrap().seed;
    assert_eq!(seed(""), Seed::No);
    assert_eq!(seed("bind: 'lan'"), Seed::Yes);
    assert_eq!(seed("bind: 'lan', controlUi: {allowedOrigins: [' ']}"), Seed::Yes);
    assert_eq!(seed("bind: 'lan', controlUi: {allowedOrigins: ['https://a']}"), Seed::No);
    assert_eq!(seed("bind: 'lan', controlUi: {enabled: false}"), Seed::No);
    let flag = "bind: 'lan', controlUi: {dangerouslyAllowHostHeaderOriginFallback: true}";
    assert_eq!(seed(flag), Seed::No);
    let custom = Bind::Custom(Ipv4Addr::new(10, 0, 0, 1));
    assert_eq!(
        seeded_origins(7000, custom, None),
        ["http://localhost:7000", "http://127.0.0.1:7000", "http://10.0.0.1:7000"]
    );
    let tls = local("tls: {enabled: true}").unwrap().tls;
    assert_eq!(
        seeded_origins(7000, Bind::Lan, tls.as_ref()),
        ["https://localhost:7000", "https://127.0.0.1:7000"]
    );
}

#[test]
fn a_certificate_is_ours_or_named_whole() {
    let tls = |rest: &str| local(&format!("tls: {{{rest}}}")).map(|listen| listen.tls);
    assert_eq!(tls("certPath: '/c', keyPath: '/k'"), Ok(None));
    let ours = TlsWanted { files: TlsFiles::Ours, authorities: None, missing: WhenMissing::Make };
    assert_eq!(tls("enabled: true"), Ok(Some(ours)));
    let named = TlsWanted {
        files: TlsFiles::At { certificate: "/c".to_owned(), key: "/k".to_owned() },
        authorities: Some("/a".to_owned()),
        missing: WhenMissing::Refuse,
    };
    let whole = "enabled: true, autoGenerate: false, certPath: '/c', keyPath: '/k', caPath: '/a'";
    assert_eq!(tls(whole), Ok(Some(named)));
    let half = |missing| Err(ListenRefusal::HalfTls { missing });
    assert_eq!(tls("enabled: true, certPath: '/c'"), half("gateway.tls.keyPath"));
    assert_eq!(tls("enabled: true, keyPath: '/k'"), half("gateway.tls.certPath"));
}

#[test]
fn control_pages_need_a_device_unless_the_config_dares() {
    let rule = |rest: &str| local(&format!("controlUi: {{{rest}}}")).unwrap().devices;
    assert_eq!(rule(""), DeviceRule::Always);
    assert_eq!(rule("allowInsecureAuth: true"), DeviceRule::NotLocally);
    assert_eq!(rule("dangerouslyDisableDeviceAuth: true"), DeviceRule::Never);
}

#[test]
fn flags_win_over_variables_and_variables_over_the_built_in_port() {
    let said = Said { port_variable: Some("7000"), ..Said::default() };
    assert_eq!(ask("{mode: 'local', port: 8000}", said).unwrap().port, 7000);
    let said = Said { port: Some(0), ..said };
    assert_eq!(ask("{mode: 'local', port: 8000}", said).unwrap().port, 0);
    let said = Said { token_variable: Some("v"), ..Said::default() };
    let secret = |gateway, said| ask(gateway, said).map(|listen| listen.secret);
    let token = |text: &str| Ok(Secret::Token(Some(text.to_owned())));
    let password = |text: &str| Ok(Secret::Password(text.to_owned()));
    assert_eq!(secret("{mode: 'local'}", said), token("v"));
    assert_eq!(secret("{mode: 'local', auth: {token: 'c'}}", said), token("c"));
    let flag = Said { token: Some("f"), ..said };
    assert_eq!(secret("{mode: 'local', auth: {token: 'c', password: 'p'}}", flag), token("f"));
    let flag = Said { password: Some("f"), ..said };
    assert_eq!(secret("{mode: 'local', auth: {mode: 'token', token: 'c'}}", flag), password("f"));
    let flag = Said { mode: Some("password"), ..said };
    assert_eq!(secret("{mode: 'local', auth: {token: 'c', password: 'p'}}", flag), password("p"));
    let flag = Said { mode: Some("token"), ..Said::default() };
    assert_eq!(secret("{mode: 'local'}", flag), Err(ListenRefusal::NoToken));
    assert_eq!(secret("{mode: 'local'}", Said::default()), Ok(Secret::Token(None)));
    assert_eq!(format!("{:?}", secret("{mode: 'local'}", said).unwrap()), "Token(***)");
}
