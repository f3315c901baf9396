//! An agent comes with its directories, and goes into the trash.

use super::*;

struct Ground {
    home: tempfile::TempDir,
}

impl Ground {
    fn new(config: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join(".openclaw")).unwrap();
        fs::write(home.path().join(".openclaw/openclaw.json"), config).unwrap();
        Self { home }
    }

    fn around(&self) -> Surroundings {
        Surroundings::of_home(self.home.path().to_str().unwrap())
    }

    fn sound(&self) -> std::sync::Arc<Sound> {
        config_file::view(&self.around()).unwrap().state.unwrap()
    }

    fn create(&self, name: &str, workspace: &str) -> Result<Made, AgentError> {
        let wanted = NewAgent { name, workspace, emoji: Some("🤖"), avatar: None };
        create(&self.around(), &self.sound(), wanted, Timestamp::from_millis(0))
    }

    fn ids(&self) -> Vec<String> {
        let agents = self.sound();
        agents.store.loaded.config.agents().iter().map(|(id, _)| id.to_string()).collect()
    }
}

#[test]
fn a_new_agent_has_a_workspace_a_name_and_a_config_entry() {
    let ground = Ground::new("{}");
    let made = ground.create("Research Bot", "~/w").unwrap();
    assert_eq!(made.id.as_str(), "research-bot");
    assert_eq!(ground.ids(), ["main", "research-bot"]);
    let identity = fs::read_to_string(ground.home.path().join("w/IDENTITY.md")).unwrap();
    assert!(identity.ends_with("\n- Name: Research Bot\n- Emoji: 🤖\n"), "{identity}");
    assert!(!identity.contains("## "));
    assert!(ground.home.path().join(".openclaw/agents/research-bot/sessions").is_dir());
    assert!(ground.home.path().join("w/BOOTSTRAP.md").is_file());
}

#[test]
fn a_workspace_that_would_own_everything_is_refused() {
    let ground = Ground::new("{}");
    for place in ["/", "~", "~/.openclaw", "w", "~/.openclaw/../"] {
        let refused = ground.create("bot", place);
        assert!(matches!(refused, Err(AgentError::Refused(_))), "{place}: {refused:?}");
    }
    assert_eq!(ground.ids(), Vec::<String>::new());
}

#[test]
fn a_removed_agent_is_in_the_trash_and_its_bindings_are_gone() {
    let ground = Ground::new("{bindings: [{agentId: 'bot', match: {channel: 'x'}}]}");
    ground.create("bot", "~/w").unwrap();
    let gone =
        delete(&ground.around(), &ground.sound(), ("bot", Files::Trash), Timestamp::from_millis(0))
            .unwrap();
    assert_eq!((gone.0.as_str(), gone.1), ("bot", 1));
    assert_eq!(ground.ids(), ["main"]);
    assert!(!ground.home.path().join("w").exists());
    let trash = fs::read_dir(ground.home.path().join(".openclaw/trash")).unwrap().count();
    assert_eq!(trash, 2, "the workspace and the state");
}

#[test]
fn renaming_touches_the_config_only() {
    let ground = Ground::new("{agents: {list: [{id: 'bot', /* mine */ name: 'Bot'}]}}");
    let changes = Changes { name: Some("Prime"), ..Changes::default() };
    update(&ground.around(), &ground.sound(), ("bot", changes), Timestamp::from_millis(0)).unwrap();
    let text = fs::read_to_string(ground.home.path().join(".openclaw/openclaw.json")).unwrap();
    assert!(text.contains("{id: 'bot', /* mine */ name: \"Prime\"}"), "{text}");
}
