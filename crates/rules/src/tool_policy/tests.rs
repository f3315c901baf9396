//! Verdicts, layers, warnings and changes, by table and by property.

use super::chat::{Chat, ChatSender};
use super::subagent::{SpawnDepth, SubagentRole};
use super::*;
use crate::config::sandbox::{SandboxMode, WorkspaceAccess};
use crate::config::setting::{Layer, Origin, Setting};
use crate::config::tree::{FileId, Place};
use crate::config::{Config, json5};
use crate::ids::AgentId;

mod properties;

#[test]
fn without_layers_every_tool_is_allowed() {
    check("{}", host(), &[("exec", None), ("nodes", None), ("anything", None)]);
}

#[test]
fn a_profile_is_an_allow_list_that_also_allow_adds_to() {
    let minimal = Some("tools.profile (minimal)");
    check("{tools:{profile:'minimal'}}", host(), &[("exec", minimal), ("session_status", None)]);
    check(
        "{tools:{profile:'minimal',alsoAllow:['group:fs','lobster']}}",
        host(),
        &[("edit", None), ("lobster", None), ("exec", minimal)],
    );
    check("{tools:{alsoAllow:['lobster']}}", host(), &[("exec", None)]);
    check("{tools:{profile:'full',alsoAllow:['read']}}", host(), &[("exec", None)]);
    let agent = "agents:{list:[{id:'w',tools:";
    check(
        &format!("{{tools:{{profile:'coding'}},{agent}{{profile:'messaging'}}}}]}}}}"),
        host(),
        &[("exec", Some("tools.profile (messaging)")), ("message", None)],
    );
    check(
        &format!(
            "{{tools:{{profile:'minimal',alsoAllow:['read']}},{agent}{{alsoAllow:['exec']}}}}]}}}}"
        ),
        host(),
        &[("read", minimal), ("exec", None)],
    );
}

#[test]
fn an_unknown_profile_closes_everything() {
    check("{tools:{profile:'codign'}}", host(), &[("read", Some("tools.profile (codign)"))]);
}

#[test]
fn a_section_grants_its_tools_only_behind_the_compat_switch() {
    let config = "{tools:{profile:'minimal',exec:{host:'gateway'},fs:{workspaceOnly:true}}}";
    let blocked = Some("tools.profile (minimal)");
    check(config, host(), &[("exec", blocked), ("read", blocked)]);
    let compat = Compat { implicit_profile_widening: true };
    let session = Session { compat, ..host() };
    check(config, session, &[("exec", None), ("apply_patch", None), ("cron", blocked)]);
}

#[test]
fn deny_beats_allow_and_spelling_does_not_matter() {
    let blocked = Some("tools.allow");
    check("{tools:{allow:['exec','read'],deny:['exec']}}", host(), &[("exec", blocked)]);
    check("{tools:{deny:['bash']}}", host(), &[("exec", blocked), ("process", None)]);
    check(
        "{tools:{allow:[' BASH ','Apply-Patch','\u{feff}read']}}",
        host(),
        &[("exec", None), ("apply_patch", None), ("read", None), ("write", blocked)],
    );
    check("{tools:{allow:[]}}", host(), &[("exec", None)]);
    check("{tools:{deny:['*']}}", host(), &[("exec", blocked)]);
    check("{tools:{deny:['group:openclaw']}}", host(), &[("exec", None), ("cron", blocked)]);
}

#[test]
fn patching_goes_with_writing() {
    let blocked = Some("tools.allow");
    check("{tools:{allow:['write']}}", host(), &[("apply_patch", None), ("edit", blocked)]);
    check("{tools:{deny:['write']}}", host(), &[("apply_patch", blocked), ("edit", None)]);
    check("{tools:{allow:['apply_patch'],deny:['wr*']}}", host(), &[("apply_patch", blocked)]);
}

#[test]
fn listing_and_searching_go_with_reading() {
    let blocked = Some("tools.allow");
    for tool in ["ls", "grep", "find"] {
        check("{tools:{allow:['read']}}", host(), &[(tool, None), ("write", blocked)]);
        check("{tools:{deny:['read']}}", host(), &[(tool, blocked)]);
        check("{tools:{allow:['read'],deny:['grep','ls','find']}}", host(), &[(tool, blocked)]);
    }
}

#[test]
fn an_allow_list_of_unknown_names_closes_everything_else() {
    let blocked = Some("tools.allow");
    check("{tools:{allow:['nope']}}", host(), &[("exec", blocked)]);
    check("{tools:{allow:['sessions_*']}}", host(), &[("exec", blocked), ("sessions_list", None)]);
}

#[test]
fn layers_intersect() {
    check(
        "{tools:{allow:['read','exec']},agents:{list:[{id:'w',tools:{allow:['exec','write']}}]}}",
        host(),
        &[("exec", None), ("read", Some("agents.w.tools.allow")), ("write", Some("tools.allow"))],
    );
}

#[test]
fn the_most_specific_provider_key_counts_alone() {
    let config = "{tools:{byProvider:{'OpenAI/gpt-5.2':{allow:['read']},openai:{deny:['exec']}}}}";
    let with = |id: &str| Session { model: Some(model("openai", id)), ..host() };
    let blocked = Some("tools.byProvider.allow");
    check(config, with("gpt-5.2"), &[("write", blocked), ("read", None)]);
    check(config, with("gpt-4"), &[("exec", blocked), ("write", None)]);
    check(config, host(), &[("exec", None)]);
}

#[test]
fn sandboxed_sessions_pass_a_gate_of_their_own() {
    let blocked = Some("sandbox tools.allow");
    let tools = |lists: &str| format!("{{tools:{{sandbox:{{tools:{{{lists}}}}}}}}}");
    check("{}", sandboxed(), &[("web_fetch", blocked), ("browser", blocked), ("exec", None)]);
    check(&tools("alsoAllow:['browser']"), sandboxed(), &[("browser", None), ("cron", blocked)]);
    check(&tools("allow:['read']"), sandboxed(), &[("image", None), ("exec", blocked)]);
    check(&tools("allow:['read'],deny:['image']"), sandboxed(), &[("image", blocked)]);
    check(&tools("allow:[]"), sandboxed(), &[("web_fetch", None), ("cron", blocked)]);
    check(&tools("allow:[],alsoAllow:['browser']"), sandboxed(), &[("browser", None)]);
    check(&tools("allow:['*']"), sandboxed(), &[("gateway", None)]);
    check(&tools("deny:['exec']"), sandboxed(), &[("browser", blocked), ("exec", blocked)]);
    check(
        "{tools:{sandbox:{tools:{allow:['read','exec']}}},
          agents:{list:[{id:'w',tools:{sandbox:{tools:{deny:['exec']}}}}]}}",
        sandboxed(),
        &[("read", None), ("image", None), ("exec", blocked)],
    );
    check("{tools:{profile:'minimal'}}", sandboxed(), &[("exec", Some("tools.profile (minimal)"))]);
}

#[test]
fn b28_a_tool_that_a_door_switched_on_is_closed_by_what_a_person_wrote_alone() {
    let is_open = |text: &str| {
        let layers = Layers::resolve(&config(text), &sandboxed());
        decide_switched(&layers, &Tool::core("sandbox_list")).is_allowed()
    };
    assert!(is_open("{}"));
    assert!(is_open("{tools:{deny:['exec']}}"));
    assert!(is_open("{tools:{allow:['sandbox_*']}}"));
    for closed in [
        "{tools:{deny:['sandbox_list']}}",
        "{tools:{deny:['*']}}",
        "{tools:{allow:['exec']}}",
        "{tools:{profile:'minimal'}}",
        "{tools:{sandbox:{tools:{deny:['sandbox_list']}}}}",
        "{tools:{sandbox:{tools:{allow:['exec']}}}}",
        "{agents:{list:[{id:'w',tools:{deny:['sandbox_*']}}]}}",
    ] {
        assert!(!is_open(closed), "{closed}");
    }
}

#[test]
fn a_read_only_workspace_has_no_writing_tools() {
    let blocked = Some("sandbox.workspaceAccess");
    let session = Session { placement: sandbox(WorkspaceAccess::ReadOnly), ..host() };
    let tools = [("write", blocked), ("edit", blocked), ("apply_patch", blocked), ("read", None)];
    check("{}", session, &tools);
    let session = Session { placement: sandbox(WorkspaceAccess::None), ..host() };
    check("{}", session, &[("write", None), ("edit", None)]);
}

#[test]
fn apply_patch_is_for_the_models_that_know_it() {
    let blocked = Some("tools.exec.applyPatch");
    let with = |provider, id| Session { model: Some(model(provider, id)), ..host() };
    check("{}", with("openai", "gpt-5"), &[("apply_patch", None)]);
    check("{}", with("anthropic", "x"), &[("apply_patch", blocked)]);
    check("{}", host(), &[("apply_patch", None)]);
    let off = "{tools:{exec:{applyPatch:{enabled:false}}}}";
    check(off, with("openai", "gpt-5"), &[("apply_patch", blocked), ("write", None)]);
    let list = "{tools:{exec:{applyPatch:{allowModels:['openai/gpt-5']}}}}";
    check(list, with("openai", "gpt-5"), &[("apply_patch", None)]);
    check(list, with("openai", "gpt-4"), &[("apply_patch", blocked)]);
}

#[test]
fn some_tools_are_the_owners() {
    let blocked = Some("owner-only");
    let session = Session { sender: SenderStanding::Other, ..host() };
    let tools = [("cron", blocked), ("gateway", blocked), ("nodes", blocked), ("exec", None)];
    check("{tools:{allow:['*']}}", session.clone(), &tools);
    let layers = Layers::resolve(&config("{}"), &session);
    assert!(!decide(&layers, &Tool::core("weather").for_owner()).is_allowed());
    assert!(decide(&layers, &Tool::core("weather")).is_allowed());
}

#[test]
fn special_runs_have_special_layers() {
    let flush = Session { trigger: Trigger::MemoryFlush, ..host() };
    let blocked = Some("memory-flush");
    let tools = [("read", None), ("write", None), ("apply_patch", blocked), ("exec", blocked)];
    check("{}", flush, &tools);
    let voice = Session { message_provider: Some(" Voice ".to_owned()), ..host() };
    check("{}", voice, &[("tts", Some("message-provider")), ("exec", None)]);
    let direct = Session { door: Door::DirectInvoke, ..host() };
    let blocked = Some("gateway.tools");
    check("{}", direct.clone(), &[("cron", blocked), ("exec", None)]);
    let config = "{gateway:{tools:{allow:['cron'],deny:['exec']}}}";
    check(config, direct, &[("cron", None), ("exec", blocked), ("gateway", blocked)]);
}

#[test]
fn sub_agents_may_not_steer() {
    let blocked = Some("subagent tools.allow");
    let at = |role| Session { subagent: Some(role), ..host() };
    let (leaf, orchestrator) = (at(SubagentRole::Leaf), at(SubagentRole::Orchestrator));
    check("{}", leaf.clone(), &[("cron", blocked), ("sessions_spawn", blocked), ("exec", None)]);
    check("{}", orchestrator, &[("cron", blocked), ("sessions_spawn", None)]);
    let config = "{tools:{subagents:{tools:{alsoAllow:['Cron','group:memory'],deny:['exec']}}}}";
    check(config, leaf, &[("cron", None), ("memory_get", blocked), ("exec", blocked)]);
}

#[test]
fn the_depth_of_a_sub_agent_is_in_its_key() {
    let depth = |key| SpawnDepth::of_session_key(key);
    assert_eq!(depth("agent:main:main"), None);
    assert_eq!(depth("agent:main:telegram:group:1"), None);
    assert_eq!(depth("agent:main:subagent:x"), Some(SpawnDepth::recorded(1)));
    assert_eq!(depth("agent:main:subagent:x:subagent:y"), Some(SpawnDepth::recorded(2)));
    assert_eq!(depth("subagent:x"), Some(SpawnDepth::recorded(1)));
}

#[test]
fn plugins_are_named_by_tool_by_id_or_all_together() {
    let allowed = |lists: &str, tool: &Tool| {
        let layers = Layers::resolve(&config(&format!("{{tools:{{{lists}}}}}")), &host());
        decide(&layers, tool).is_allowed()
    };
    let search = Tool::of_plugin("jira_search", "Jira");
    assert!(allowed("allow:['jira_search']", &search));
    assert!(allowed("allow:['jira']", &search));
    assert!(allowed("allow:['group:plugins']", &search));
    assert!(!allowed("allow:['group:plugins']", &Tool::core("exec")));
    assert!(!allowed("deny:['jira']", &search));
    assert!(!allowed("deny:['group:plugin']", &search), "a misspelt group still denies");
    let sly = Tool::of_plugin("steal", "read");
    assert!(!allowed("allow:['read']", &sly), "a plugin's id cannot borrow a core tool's entry");
    assert!(!allowed("deny:['read']", &sly));
}

#[test]
fn a_chat_group_has_rules_for_senders_and_for_all() {
    let text = "{channels:{telegram:{
        groups:{'-100':{tools:{deny:['exec']},toolsBySender:{
          'id:7':{deny:['read']},'username:@Bob':{deny:['write']},'*':{allow:['message']}}},
          '*':{tools:{allow:['read']}}},
        accounts:{second:{groups:{'*':{tools:{deny:['tts']}}}}}}}}";
    let blocked = Some("group tools.allow");
    let chat = |group: &str, sender: ChatSender| {
        let chat =
            Chat { channel: "telegram".to_owned(), group: group.to_owned(), account: None, sender };
        Session { chat: Some(chat), ..host() }
    };
    let by_id = ChatSender { id: Some("7".to_owned()), ..ChatSender::default() };
    check(text, chat("-100", by_id), &[("read", blocked), ("exec", None)]);
    let by_name = ChatSender { username: Some("bob".to_owned()), ..ChatSender::default() };
    check(text, chat("-100", by_name), &[("write", blocked), ("exec", None)]);
    let other = ChatSender::default();
    check(text, chat("-100", other.clone()), &[("message", None), ("exec", blocked)]);
    check(text, chat("-200", other.clone()), &[("read", None), ("exec", blocked)]);
    let mut second = chat("-100", other);
    second.chat.as_mut().expect("it has a chat").account = Some("second".to_owned());
    check(text, second, &[("tts", blocked), ("exec", None)]);
}

#[test]
fn a_session_key_names_its_chat_group() {
    let group = |key| Chat::of_session_key(key).map(|chat| (chat.channel, chat.group));
    let is = |channel: &str, group: &str| Some((channel.to_owned(), group.to_owned()));
    assert_eq!(group("agent:main:telegram:group:-100:topic:5"), is("telegram", "-100"));
    assert_eq!(group("agent:main:subagent:discord:channel:9"), is("discord", "9"));
    assert_eq!(group("slack:channel:c0:thread:1.2"), is("slack", "c0"));
    assert_eq!(group("agent:main:signal:direct:+1"), None);
    assert_eq!(group("agent:main:main"), None);
}

#[test]
fn a_verdict_names_the_rule_and_its_place() {
    let config = config("{\n tools: { allow: ['read', 'ex*'],\n  deny: ['group:ui'] } }");
    let layers = Layers::resolve(&config, &host());
    let place = |line, column| Some(Place { file: FileId(0), line, column });
    let Verdict::Blocked(block) = decide(&layers, &Tool::core("browser")) else {
        panic!("browser is denied")
    };
    let BlockReason::Denied(entry) = block.reason else { panic!("by the deny list") };
    let expected =
        Origin { layer: Layer::Defaults, key: "tools.deny".to_owned(), place: place(3, 10) };
    assert_eq!((entry.text.as_str(), &entry.origin), ("group:ui", &expected));
    assert_eq!(block.to_string(), "denied by `group:ui` in `tools.deny`");
    let Verdict::Allowed(AllowReason::Listed { layer, entry }) =
        decide(&layers, &Tool::core("exec"))
    else {
        panic!("exec is listed")
    };
    assert_eq!((layer, entry.text.as_str()), (&LayerKind::Global, "ex*"));
    assert_eq!(entry.origin.place, place(2, 27));
}

#[test]
fn the_smallest_change_names_key_and_entry() {
    let add = |key: &str, entry: &str| Change::Add { key: key.to_owned(), entry: entry.to_owned() };
    let set = |key: &str, value: &str| Change::Set { key: key.to_owned(), value: value.to_owned() };
    check_change("{}", host(), "exec", &[]);
    check_change("{}", sandboxed(), "browser", &[add("tools.sandbox.tools.alsoAllow", "browser")]);
    check_change(
        "{tools:{sandbox:{tools:{allow:['read']}}}}",
        sandboxed(),
        "cron",
        &[add("tools.sandbox.tools.allow", "cron")],
    );
    check_change(
        "{tools:{profile:'minimal'}}",
        sandboxed(),
        "web_fetch",
        &[add("tools.alsoAllow", "web_fetch"), add("tools.sandbox.tools.alsoAllow", "web_fetch")],
    );
    check_change(
        "{tools:{profile:'minimal',allow:['exec']}}",
        host(),
        "exec",
        &[set("tools.profile", "coding")],
    );
    check_change(
        "{tools:{deny:['group:runtime']}}",
        host(),
        "exec",
        &[Change::Replace {
            key: "tools.deny".to_owned(),
            entry: "group:runtime".to_owned(),
            with: vec!["process".to_owned(), "code_execution".to_owned()],
            place: Some(Place { file: FileId(0), line: 1, column: 15 }),
        }],
    );
    let session = Session { subagent: Some(SubagentRole::Leaf), ..host() };
    check_change("{}", session, "cron", &[add("tools.subagents.tools.alsoAllow", "cron")]);
    let session = Session { sender: SenderStanding::Other, ..host() };
    check_change("{}", session, "cron", &[Change::OwnerSpeaks]);
    let session = Session { placement: sandbox(WorkspaceAccess::ReadOnly), ..host() };
    let key = "agents.defaults.sandbox.workspaceAccess";
    check_change("{}", session, "write", &[set(key, "rw")]);
}

#[test]
fn probable_mistakes_are_reported_with_the_nearest_name() {
    check_warnings("{tools:{allow:['group:fs','telegram','*']}}", host(), &[]);
    check_warnings(
        "{tools:{deny:['group:runtme','exce','zzzzzz','zz_*']}}",
        host(),
        &[
            "`group:runtme` in `tools.deny` is no group; did you mean `group:runtime`?",
            "`exce` in `tools.deny` is no known tool; `exec` is denied until the name is corrected",
            "`zzzzzz` in `tools.deny` is no known tool",
            "`zz_*` in `tools.deny` matches no known tool",
        ],
    );
    check_warnings(
        "{tools:{sandbox:{tools:{allow:['*a*s']}}}}",
        sandboxed(),
        &[
            "`*a*s` in `tools.sandbox.tools.allow` also lifts the sandbox's default deny of canvas; \
           name the tools you want, or set `deny` beside it",
        ],
    );
    check_warnings("{tools:{sandbox:{tools:{allow:['*'],deny:[]}}}}", sandboxed(), &[]);
    let offered = vec![Tool::of_plugin("zzzzzz", "zap")];
    check_warnings("{tools:{deny:['zzzzzz','zap']}}", Session { offered, ..host() }, &[]);
}

#[test]
fn a_deny_of_a_misspelt_group_denies_the_nearest_one() {
    let blocked = Some("tools.allow");
    check("{tools:{deny:['group:runtme']}}", host(), &[("exec", blocked), ("read", None)]);
    check("{tools:{deny:['group:nope']}}", host(), &[("nodes", None)]);
    check("{tools:{allow:['group:runtme']}}", host(), &[("exec", blocked)]);
}

#[test]
fn the_refusal_says_what_to_do_and_hides_the_chat() {
    let policy = SandboxPolicy::resolve(&config("{}"), &agent());
    let refusal = SandboxRefusal {
        asked: " Browser ",
        mode: SandboxMode::NonMain,
        session_key: "agent:w:o'brien:group:123456",
        agent: &agent(),
    };
    let expected = "The sandbox keeps the tool \"browser\" closed (mode=non-main).
Session: agent:…123456
Refused by: deny list
What would open it:
- agents.defaults.sandbox.mode=off (no sandbox at all)
- \"browser\" is closed by tools.sandbox.tools.deny: it stands there by default, so add \"browser\" to tools.sandbox.tools.alsoAllow
- ask in the agent's main session, which has no sandbox
- more: clawpen sandbox explain --session 'agent:w:o'\\''brien:group:123456'";
    assert_eq!(sandbox_refusal(&policy, refusal).as_deref(), Some(expected));
    let allowed = SandboxRefusal { asked: "exec", ..refusal };
    assert_eq!(sandbox_refusal(&policy, allowed), None);
    let hostile = SandboxRefusal { session_key: "agent:w:xyz\u{1b}[2Jab", ..refusal };
    let text = sandbox_refusal(&policy, hostile).expect("browser is refused");
    assert!(text.contains("Session: agent:…\\x1b[2Jab\n"), "{text}");
    assert!(text.ends_with("--agent w"), "{text}");
}

fn config(text: &str) -> Config {
    let parsed = json5::parse(text, FileId(0)).expect("the test's config parses");
    Config::from_tree(parsed.root, vec![])
}

fn agent() -> AgentId {
    AgentId::normalize("w")
}

fn host() -> Session {
    Session::host(agent())
}

fn sandbox(access: WorkspaceAccess) -> ToolPlacement {
    let origin = Origin::built_in("agents.defaults.sandbox.workspaceAccess");
    ToolPlacement::Sandbox { access: Setting::new(access, origin) }
}

fn sandboxed() -> Session {
    Session { placement: sandbox(WorkspaceAccess::ReadWrite), ..host() }
}

fn model(provider: &str, id: &str) -> Model {
    Model { provider: provider.to_owned(), id: Some(id.to_owned()) }
}

/// Compares the layer that blocks each tool; `None` means it is allowed.
#[track_caller]
fn check(text: &str, session: Session, expected: &[(&str, Option<&str>)]) {
    let layers = Layers::resolve(&config(text), &session);
    let given: Vec<(&str, Option<String>)> = expected
        .iter()
        .map(|(name, _)| match decide(&layers, &Tool::core(name)) {
            Verdict::Allowed(_) => (*name, None),
            Verdict::Blocked(block) => (*name, Some(block.layer.label())),
        })
        .collect();
    let expected: Vec<(&str, Option<String>)> =
        expected.iter().map(|(name, label)| (*name, label.map(str::to_owned))).collect();
    assert_eq!(given, expected, "{text}");
}

#[track_caller]
fn check_change(text: &str, session: Session, tool: &str, expected: &[Change]) {
    let layers = Layers::resolve(&config(text), &session);
    assert_eq!(smallest_change(&layers, &Tool::core(tool)), expected, "{text}");
}

#[track_caller]
fn check_warnings(text: &str, session: Session, expected: &[&str]) {
    let layers = Layers::resolve(&config(text), &session);
    let given: Vec<String> = layers.warnings().iter().map(Warning::to_string).collect();
    assert_eq!(given, expected, "{text}");
}

#[test]
fn a_tool_called_like_a_group_is_never_allowed() {
    let config = Config::empty();
    let layers = Layers::resolve(&config, &Session::host(AgentId::main()));
    for name in ["group:ui", "GROUP:x", " group: "] {
        let tool = Tool::of_plugin(name, "plugin");
        assert!(!decide(&layers, &tool).is_allowed(), "{name}");
        assert_eq!(
            smallest_change(&layers, &tool),
            [Change::NotConfigurable(LayerKind::GroupNames)]
        );
    }
}

#[test]
fn a_slip_in_a_deny_list_closes_what_was_meant() {
    let text = "{tools: {deny: ['exce', 'my_plugin_tool'], sandbox: {tools: {deny: ['proces']}}}}";
    let parsed = crate::config::json5::parse(text, crate::config::tree::FileId(0)).unwrap();
    let config = Config::from_tree(parsed.root, Vec::new());
    let layers = Layers::resolve(&config, &Session::host(AgentId::main()));
    assert!(!decide(&layers, &Tool::core("exec")).is_allowed());
    assert!(decide(&layers, &Tool::core("process")).is_allowed());
    let warnings: Vec<String> = layers.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "`exce` in `tools.deny` is no known tool; `exec` is denied until the name is corrected",
            "`my_plugin_tool` in `tools.deny` is no known tool",
        ]
    );
    let access = Setting::new(WorkspaceAccess::None, Origin::built_in("x"));
    let sandboxed =
        Session { placement: ToolPlacement::Sandbox { access }, ..Session::host(AgentId::main()) };
    let layers = Layers::resolve(&config, &sandboxed);
    assert!(!decide(&layers, &Tool::core("process")).is_allowed());
    // A tool that exists is no slip, however near it is.
    let offered =
        Session { offered: vec![Tool::of_plugin("exce", "p")], ..Session::host(AgentId::main()) };
    assert!(decide(&Layers::resolve(&config, &offered), &Tool::core("exec")).is_allowed());
}

#[test]
fn a_deny_entry_that_nobody_can_read_denies_everything() {
    let layers = Layers::of_policy(&[], &["${DENIED}"]);
    assert!(!decide(&layers, &Tool::core("exec")).is_allowed());
    let layers = Layers::of_policy(&["${ALLOWED}"], &[]);
    assert!(!decide(&layers, &Tool::core("exec")).is_allowed());
}
