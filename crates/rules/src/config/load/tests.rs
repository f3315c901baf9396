//! The whole pipeline over a table of files.

use super::*;
use crate::container::WorkspaceLabel;
use crate::host_files::{Entry, EntryKind, FactProblem, FileTable, HostFiles};

struct Files(Vec<(String, String)>);

impl HostFiles for Files {
    fn entry(&self, path: &str) -> Result<Option<Entry>, FactError> {
        let mut table = FileTable::new();
        for (path, _) in &self.0 {
            table = table.with(path, EntryKind::File);
        }
        table.entry(path)
    }
}

impl ConfigFiles for Files {
    fn read(&self, path: &str) -> Result<String, FactError> {
        let found = self.0.iter().find(|(known, _)| known == path);
        found.map(|(_, text)| text.clone()).ok_or_else(|| FactError {
            path: path.to_owned(),
            problem: FactProblem::System("missing".to_owned()),
        })
    }
}

fn run(texts: &[(&str, &str)]) -> Result<Loaded, LoadError> {
    let locations = Locations {
        home: "/h".to_owned(),
        state_dir: "/h/.openclaw".to_owned(),
        config: "/h/.openclaw/openclaw.json".to_owned(),
        own_config: "/h/.openclaw/clawpen.json".to_owned(),
        profile: None,
    };
    let texts =
        texts.iter().map(|(name, text)| (format!("/h/.openclaw/{name}"), (*text).to_owned()));
    let files = Files(texts.collect());
    let mut environment = Environment::of_process([]);
    let mut warnings = read_variables(&mut environment, &locations, "/cwd", &files);
    let mut loaded = load(&locations, &mut environment, &files)?;
    warnings.append(&mut loaded.warnings);
    loaded.warnings = warnings;
    Ok(loaded)
}

fn text_at(loaded: &Loaded, keys: &[&str]) -> Option<String> {
    loaded.config.at(keys).and_then(|at| at.node.as_str().map(str::to_owned))
}

#[test]
fn a_missing_file_is_an_empty_config() {
    let loaded = run(&[]).unwrap();
    assert!(loaded.is_missing);
    assert_eq!(loaded.config.agents().len(), 0);
}

#[test]
fn the_steps_build_on_each_other() {
    let loaded = run(&[
        ("openclaw.json", "{$include: 'base.json', env: {vars: {ROOT: '/r'}}, session: {mainKey: 'x'}}"),
        ("base.json", "{agents: {defaults: {workspace: '~/w', sandbox: {workspaceRoot: '${ROOT}/s', mode: '${MODE}'}}}}"),
        (".env", "MODE=all"),
    ])
    .unwrap();
    assert_eq!(text_at(&loaded, &["agents", "defaults", "workspace"]).as_deref(), Some("/h/w"));
    assert_eq!(
        text_at(&loaded, &["agents", "defaults", "sandbox", "workspaceRoot"]).as_deref(),
        Some("/r/s")
    );
    assert_eq!(
        text_at(&loaded, &["agents", "defaults", "sandbox", "mode"]).as_deref(),
        Some("all")
    );
    assert_eq!(text_at(&loaded, &["session", "mainKey"]).as_deref(), Some("main"));
    assert!(
        matches!(&loaded.warnings[..], [Warning::MainKeyIgnored { .. }]),
        "{:?}",
        loaded.warnings
    );
    assert_eq!(loaded.config.files(), ["/h/.openclaw/openclaw.json", "/h/.openclaw/base.json"]);
}

#[test]
fn only_keys_that_name_paths_get_a_home() {
    let text = "{agents: {defaults: {sandbox: {docker: {seccompProfile: '~/s', workdir: '~'}, ssh: {identityFile: '~/k'}}}}, \
                tools: {exec: {pathPrepend: ['~/bin', '~x']}}, ui: {seamColor: '~'}}";
    let loaded = run(&[("openclaw.json", text)]).unwrap();
    let sandbox = ["agents", "defaults", "sandbox"];
    let at = |rest: &[&str]| text_at(&loaded, &[&sandbox[..], rest].concat());
    assert_eq!(at(&["docker", "seccompProfile"]).as_deref(), Some("~/s"));
    assert_eq!(at(&["docker", "workdir"]).as_deref(), Some("/h"));
    assert_eq!(at(&["ssh", "identityFile"]).as_deref(), Some("/h/k"));
    let prepend = loaded.config.at(&["tools", "exec", "pathPrepend"]).unwrap().strings().unwrap();
    assert_eq!(prepend, ["/h/bin", "~x"]);
    assert_eq!(text_at(&loaded, &["ui", "seamColor"]).as_deref(), Some("~"));
}

#[test]
fn every_problem_is_listed_with_its_place() {
    let Err(LoadError::Invalid(invalid)) = run(&[(
        "openclaw.json",
        "{\n  agents: {defaults: {sandbox: {mode: 'al', scoep: 1}}},\n  bogus: 1,\n}",
    )]) else {
        panic!("loaded")
    };
    let found: Vec<(&str, u32, Option<&str>)> = invalid
        .findings
        .iter()
        .map(|finding| {
            (finding.key.as_str(), finding.place.unwrap().column, finding.hint.as_deref())
        })
        .collect();
    assert_eq!(
        found,
        [
            ("agents.defaults.sandbox.mode", 39, Some("`all` may be meant")),
            ("agents.defaults.sandbox", 45, Some("`scoep` may be meant to be `scope`")),
            ("", 3, None),
        ]
    );
}

#[test]
fn agents_must_not_share_a_directory() {
    let shared = "{agents: {list: [{id: 'a', agentDir: '~/x'}, {id: 'b', agentDir: '/h/x/'}]}}";
    assert!(matches!(run(&[("openclaw.json", shared)]), Err(LoadError::Invalid(_))));
    let same_agent = "{agents: {list: [{id: 'a', agentDir: '~/x'}, {id: 'A', agentDir: '~/x'}]}}";
    assert!(run(&[("openclaw.json", same_agent)]).is_ok());
}

#[test]
fn our_own_file_has_the_same_layers_and_is_checked() {
    let own = "{defaults: {backend: 'native', docker: {workspaceLabel: 'shared'}}, \
               agents: {Work: {envAllow: ['MY_TOKEN']}}}";
    let loaded = run(&[("clawpen.json", own)]).unwrap();
    let settings = loaded.own.resolve(&AgentId::normalize("work"));
    assert_eq!(settings.backend.map(|setting| setting.value).as_deref(), Some("native"));
    assert_eq!(settings.env_allow.value, ["MY_TOKEN"]);
    assert_eq!(settings.docker.workspace_label.value, WorkspaceLabel::Shared);
    let odd = run(&[("clawpen.json", "{defaults: {docker: {workspaceLabel: 'z'}}}")]);
    assert!(matches!(odd, Err(LoadError::Invalid(_))));
    let Err(LoadError::Invalid(invalid)) = run(&[("clawpen.json", "{default: {}}")]) else {
        panic!("loaded")
    };
    assert_eq!(invalid.file, "/h/.openclaw/clawpen.json");
}
