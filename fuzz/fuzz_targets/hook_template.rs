//! Any text as a template of a webhook, filled with any text, and any text as a path and as a session's name: what comes
//! out is no larger than it may be, is not read again, and no name of a caller is a main session.
#![no_main]

use clawpen_rules::config::Config;
use clawpen_rules::config::json5;
use clawpen_rules::config::tree::FileId;
use clawpen_rules::hooks::session::{KeyFrom, Wanted};
use clawpen_rules::hooks::template::{MOST_RENDERED, Template};
use clawpen_rules::hooks::{self, Route};
use clawpen_rules::session::{Session, SessionKind};
use libfuzzer_sys::fuzz_target;

const CONFIG: &str = "{agents: {list: [{id: 'main'}, {id: 'bot'}]}, \
                      hooks: {enabled: true, token: 't', allowRequestSessionKey: true}}";

fuzz_target!(|input: &str| {
    let (template, value) = input.split_once('\n').unwrap_or((input, ""));
    if let Ok(read) = Template::parse(template)
        && let Ok(filled) = read.render(|_| Some(value.to_owned()))
    {
        assert!(filled.len() <= MOST_RENDERED);
        assert!(!read.is_fixed() || filled == template);
    }
    let Ok(parsed) = json5::parse(CONFIG, FileId(0)) else { return };
    let config = Config::from_tree(parsed.root, Vec::new());
    let Ok(Some(found)) = hooks::resolve(&config) else { return };
    if let Route::Mapped(name) = found.route(template) {
        assert!(!name.contains("..") || !name.split('/').any(|part| part == ".."));
        assert!(!name.contains('%') && !name.contains("//"));
    }
    for agent in [None, Some("bot")] {
        let wanted = Wanted { agent, key: Some((template, KeyFrom::Request)), fresh: "1" };
        if let Ok(session) = found.decide_session(&config, &wanted) {
            let again = Session::resolve(&config, &session.key);
            assert_eq!(again.agent(), &session.agent);
            assert!(session.key.ends_with(":1") || again.kind() == SessionKind::Other);
        }
    }
});
