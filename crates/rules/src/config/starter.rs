//! The config that `clawpen up` writes where there is none: short, commented, and locked down.
//!
//! Takes the chosen backend, the token and the port; gives the text. Writes nothing. What is in force is written
//! down in it, so that nobody has to know what is built in.

use super::print::quoted;
use crate::backend::choose::Choice;

/// What the text depends on.
#[derive(Debug)]
pub struct Starter<'a> {
    pub choice: &'a Choice,
    pub token: Token<'a>,
    /// Only one that was asked for is written down.
    pub port: Option<u16>,
}

/// Where clients' token comes from.
#[derive(Clone, Copy)]
pub enum Token<'a> {
    Written(&'a str),
    /// `OPENCLAW_GATEWAY_TOKEN` is set; a written one would win over it.
    Variable,
}

impl std::fmt::Debug for Token<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Written(_) => "Written(***)",
            Self::Variable => "Variable",
        })
    }
}

/// The text.
pub fn text(starter: &Starter<'_>) -> String {
    let Starter { choice, token, port } = starter;
    let backend = quoted(choice.backend().as_str());
    // A comment is one line: nothing that was found on the machine may end it.
    let reason: String =
        choice.reason().chars().filter(|c| !super::print::steers_text(*c)).collect();
    let token = match token {
        Token::Written(token) => format!("token: {},", quoted(token)),
        Token::Variable => "// token: comes from OPENCLAW_GATEWAY_TOKEN".to_owned(),
    };
    let port = match port {
        Some(port) => format!("port: {port},"),
        None => "// port: 18789,".to_owned(),
    };
    format!(
        r#"// Written by `clawpen up`, once; from here on it is yours. JSON5: comments stay when settings are changed by a client.
// `clawpen sandbox explain` shows what is in force, `clawpen config validate` checks this file.
{{
  agents: {{
    defaults: {{
      // The model that agents use, as provider/name; without one `clawpen chat` says what is missing.
      // model: "ollama/llama3.2",

      sandbox: {{
        // Which sessions work in a sandbox: "all", "non-main" (all but an agent's own main session) or "off".
        mode: "all",
        // {reason}
        backend: {backend},
        // Who shares a sandbox: "session" (nobody), "agent" (the sessions of one agent) or "shared" (everybody).
        scope: "agent",
        // What the sandbox sees of the agent's workspace: "none" (a private copy), "ro" or "rw".
        workspaceAccess: "none",
      }},
    }},
  }},

  gateway: {{
    mode: "local",
    // Only this machine can reach it.
    bind: "loopback",
    {port}
    auth: {{
      mode: "token",
      // Whoever knows it may connect: keep this file to yourself.
      {token}
    }},
  }},
}}
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::listen::{self, Bind, Said, Secret};
    use crate::config::{Config, json5, tree::FileId};

    #[track_caller]
    fn config(starter: &Starter<'_>) -> Config {
        let parsed = json5::parse(&text(starter), FileId(0)).unwrap();
        Config::from_tree(parsed.root, Vec::new())
    }

    fn word(config: &Config, keys: &[&str]) -> String {
        config.at(keys).unwrap().node.as_str().unwrap().to_owned()
    }

    #[test]
    fn every_session_is_penned_and_only_this_machine_gets_in_with_the_token() {
        let starter =
            Starter { choice: &Choice::Native, token: Token::Written("secret"), port: Some(7000) };
        let config = config(&starter);
        assert_eq!(word(&config, &["agents", "defaults", "sandbox", "mode"]), "all");
        assert_eq!(word(&config, &["agents", "defaults", "sandbox", "backend"]), "native");
        let listen = listen::decide(&config, &Said::default()).unwrap();
        assert_eq!((listen.port, listen.bind), (7000, Bind::Loopback));
        assert_eq!(listen.secret, Secret::Token(Some("secret".to_owned())));
        assert_eq!(format!("{starter:?}").matches("secret").count(), 0);
    }

    #[test]
    fn what_the_machine_says_ends_no_comment() {
        let engine = "/run/x\n\"}} evil: 1,\u{2028}evil: 2".to_owned();
        let choice = Choice::Docker { engine, why_not_native: "no\u{85}evil: 3".to_owned() };
        let config = config(&Starter { choice: &choice, token: Token::Variable, port: None });
        assert!(config.at(&["evil"]).is_none());
        assert_eq!(word(&config, &["agents", "defaults", "sandbox", "backend"]), "docker");
        let listen = listen::decide(&config, &Said::default()).unwrap();
        assert_eq!((listen.port, listen.secret), (listen::DEFAULT_PORT, Secret::Token(None)));
    }
}
