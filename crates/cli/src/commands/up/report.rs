//! What `clawpen up` says when it is done: where the gateway is, what is in force, what to do next.

use std::path::{Path, PathBuf};

use clawpen_engine::config_store::Store;
use clawpen_engine::gateway_process::Running;
use clawpen_rules::config::locate::shorten_home;
use serde_json::json;

use super::super::status::{Backend, url};
use super::super::why_command::shown_word;
use super::first::First;
use crate::args::up::UpArgs;
use crate::output::{Output, safe};

/// How many characters of a token tell it from another, and how many more must stay unseen for that.
const SHOWN: usize = 4;
const UNSEEN: usize = 12;
/// A step and what it is for stand on one line if that is no longer.
const LINE: usize = 98;

/// What there is now.
pub(super) struct Report {
    pub(super) running: Running,
    pub(super) is_new: bool,
    pub(super) first: Option<First>,
    /// Facts that hold in a pen, or why there is none; `None` if it was not tried.
    pub(super) trial: Option<Result<usize, String>>,
    pub(super) backend: Backend,
    pub(super) token: Option<String>,
    pub(super) log: PathBuf,
    pub(super) store: Store,
}

impl Report {
    pub(super) fn json(&self, args: &UpArgs) -> serde_json::Value {
        let Self { running, backend, .. } = self;
        let record = &running.record;
        let url = url(record);
        let program = program(Path::new("/"));
        let mut shown = json!({
            "running": true,
            "started": self.is_new,
            "url": url,
            "ws": url.replacen("http", "ws", 1),
            "pid": record.pid,
            "log": self.log.to_string_lossy(),
            "config": self.store.locations.config,
            "configWritten": self.first.is_some(),
            "backend": backend.name,
            "mode": backend.mode,
            "backendReason": self.first.as_ref().map(|first| first.choice.reason()),
            "trial": self.trial.as_ref().map(|trial| match trial {
                Ok(facts) => json!({ "ok": true, "facts": facts }),
                Err(problem) => json!({ "ok": false, "problem": problem }),
            }),
            "model": backend.model.as_ref().ok(),
            "modelProblem": backend.model.as_ref().err(),
            "mcp": format!("{program} mcp install claude"),
            "next": next(&program, backend).map(|(command, what)| json!({ "command": command, "what": what })),
        });
        if let (true, Some(token)) = (args.show_token, &self.token) {
            shown["token"] = json!(token);
        }
        shown
    }

    pub(super) fn text(&self, args: &UpArgs, output: &Output) -> Vec<String> {
        let Self { running, store, backend, .. } = self;
        let short = |path: &str| safe(&shorten_home(path, &store.locations.home));
        let url = url(&running.record);
        let verb = if self.is_new { "Started" } else { "Runs already" };
        let mut lines = vec![
            output.bold(&format!("{verb}: {url}")),
            format!(
                "  clients   {} (process {})",
                url.replacen("http", "ws", 1),
                running.record.pid
            ),
        ];
        let config = short(&store.locations.config);
        let written =
            if self.first.is_some() { "  (written now; it is yours to change)" } else { "" };
        if let Some(token) = &self.token {
            let shown = if args.show_token {
                safe(token)
            } else {
                format!("{}…  (all of it: `clawpen up --show-token`)", safe(begin_of(token)))
            };
            lines.push(format!("  token     {shown}"));
        }
        lines.push(format!("  config    {config}{written}"));
        lines.push(format!("  log       {}  (`clawpen logs`)", short(&self.log.to_string_lossy())));
        lines.push(format!("  sandbox   {}, mode {}", safe(&backend.name), backend.mode));
        if let Some(first) = &self.first {
            lines.push(format!("            {}", safe(&first.choice.reason())));
        }
        lines.extend(self.sandbox_lines());
        lines.push(match &backend.model {
            Ok(name) => format!("  model     {}", safe(name)),
            Err(_) => "  model     none yet; everything else works without one".to_owned(),
        });
        lines.push(String::new());
        lines.push("Next:".to_owned());
        let here = std::env::current_dir().unwrap_or_else(|_gone| PathBuf::from("/"));
        lines.extend(next_lines(&next(&program(&here), backend)));
        lines
    }

    /// Whether a sandbox can be had.
    fn sandbox_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        match &self.trial {
            Some(Ok(facts)) => {
                lines.push(format!("            tried: a pen was made, {facts} facts hold in it"));
            }
            Some(Err(problem)) => {
                let problem = problem.strip_prefix("error: ").unwrap_or(problem);
                lines.push(format!(
                    "            WARNING, no sandbox can be had: {}",
                    safe(problem.lines().next().unwrap_or_default())
                ));
                lines.push(
                    "            see `clawpen doctor`; until then every call is refused".to_owned(),
                );
            }
            None => {}
        }
        if self.backend.mode == "off" {
            lines.push("            WARNING: nothing is sandboxed; set agents.defaults.sandbox.mode to \"all\"".to_owned());
        }
        lines
    }
}

type Step = (String, &'static str);

/// What to do next.
fn next(program: &str, backend: &Backend) -> [Step; 5] {
    let chat = match backend.model {
        Ok(_) => "talk to an agent in a sandbox",
        Err(_) => "talk to an agent, once the config names a model",
    };
    [
        (format!("{program} exec -- sh -c 'id; ls /'"), "run something in a sandbox"),
        (
            format!("{program} mcp install claude"),
            "let Claude Code use it (or codex, cursor, vscode)",
        ),
        (format!("{program} chat"), chat),
        (format!("{program} status"), "what is there; `logs --follow` shows what happens"),
        (format!("{program} down"), "end the gateway; sandboxes stay"),
    ]
}

/// As a table if it fits, else with each command on a line of its own.
fn next_lines(steps: &[Step]) -> Vec<String> {
    let width = steps.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    let what = steps.iter().map(|(_, what)| what.chars().count()).max().unwrap_or(0);
    let fits = width + what + 4 <= LINE;
    let lines = |(command, what): &Step| {
        if fits {
            vec![format!("  {command:width$}  {what}")]
        } else {
            vec![format!("  {what}:"), format!("    {command}")]
        }
    };
    steps.iter().flat_map(lines).collect()
}

/// How we are called: by name if that finds this very program, else by path, from `here` if it is below.
fn program(here: &Path) -> String {
    let own = std::env::current_exe().and_then(std::fs::canonicalize);
    let Ok(own) = own else { return "clawpen".to_owned() };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let first = std::env::split_paths(&path)
        .map(|directory| directory.join("clawpen"))
        .find(|path| path.is_file());
    let is_own =
        first.and_then(|path| std::fs::canonicalize(path).ok()).is_some_and(|path| path == own);
    if is_own {
        return "clawpen".to_owned();
    }
    let below = own.strip_prefix(here).ok().filter(|_| here != Path::new("/"));
    let own = below.map_or_else(|| own.clone(), |below| Path::new(".").join(below));
    shown_word(&own.to_string_lossy())
}

/// As much of a token as may be seen: nothing of one that somebody chose and that is short.
fn begin_of(token: &str) -> &str {
    let mut signs = token.char_indices();
    let begin = signs.nth(SHOWN).and_then(|(end, _)| token.get(..end));
    begin.filter(|_| signs.count() + 1 >= UNSEEN).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_next_fits_a_terminal() {
        let long = "/home/somebody/src/elsewhere/and/further/clawpen/target/release/clawpen";
        for (program, count) in [("clawpen", 5), (long, 10)] {
            let model = Err(String::new());
            let backend = Backend { name: "native".to_owned(), mode: "all", model };
            let lines = next_lines(&next(program, &backend));
            assert_eq!(lines.len(), count, "{lines:?}");
            let longest = lines.iter().map(|line| line.chars().count()).max();
            assert!(longest <= Some(100), "{lines:?}");
        }
    }

    #[test]
    fn a_short_token_is_not_shown_by_its_beginning() {
        for token in ["", "abcd", "hunter2", "é".repeat(15).as_str()] {
            assert_eq!(begin_of(token), "", "{token}");
        }
        assert_eq!(begin_of("0123456789abcdef"), "0123");
        assert_eq!(begin_of(&"é".repeat(16)), "éééé");
    }
}
