//! `clawpen sandbox browser`: the session's browser, and a bridge to it for as long as this runs.
//!
//! The bridge's token and the link for watching go to standard output and nowhere else: no file keeps them, and they
//! are over with this command.

use clawpen_engine::audit::Door;
use clawpen_engine::browser::{self, PreparedBrowser, When};
use clawpen_engine::call::{self, About, Keeping, Target};
use clawpen_engine::config_store;
use clawpen_engine::yard::Yard;
use clawpen_gateway::bridge::run::{Opened, until_told};
use serde_json::json;

use super::CommandError;
use crate::args::Format;
use crate::args::lifecycle::BrowserArgs;
use crate::config_report::warning_text;
use crate::exit::Outcome;
use crate::output::{Output, safe};

pub(crate) fn run(args: &BrowserArgs, output: &Output) -> Result<Outcome, CommandError> {
    let store = config_store::open()?;
    for warning in store.warnings() {
        let text = warning_text(warning, store.loaded.config.files(), &store.locations);
        output.note(&format!("warning: {text}"));
    }
    let target = Target {
        session: args.subject.session.as_deref(),
        agent: args.subject.agent.as_deref(),
        backend: None,
    };
    let about = About { door: Door::Cli, tool: "browser", keeping: Keeping::Scope };
    let yard = Yard::open(&store.locations.state_dir)?;
    let prepared = match browser::prepare(&store, &target) {
        Ok(prepared) => prepared,
        Err(error) => {
            call::record_refusal(&yard, &target, &about, &error)?;
            return Err(error.into());
        }
    };
    let done = prepared.run(&yard, &about, |browser| {
        let id = browser.container_id().to_owned();
        until_told(browser, |opened| tell(&prepared, (&id, opened), args.format.format(), output))
    })?;
    for note in done.notes.iter().chain(&call::tidy_now_and_then(&yard, &store)) {
        output.note(&format!("warning: {}", safe(note)));
    }
    done.value??;
    Ok(Outcome::Done)
}

fn tell(
    prepared: &PreparedBrowser,
    (id, opened): (&str, &Opened),
    format: Format,
    output: &Output,
) {
    let bridge = format!("http://{}", opened.address);
    let shown = match format {
        Format::Json => output.json(&json!({
            "browser": prepared.name(),
            "container": id,
            "bridge": bridge,
            "token": opened.token,
            "observerUrl": opened.observer_url,
        })),
        Format::Text => {
            let name = safe(prepared.name());
            let mut lines = vec![
                match prepared.when() {
                    When::AtOnce => format!("Browser {name} runs."),
                    When::OnRequest => format!("Browser {name} starts with `POST /start`."),
                },
                format!("  Bridge:  {bridge}"),
                format!("  Token:   {}", opened.token),
            ];
            lines.extend(opened.observer_url.as_ref().map(|url| format!("  Watch:   {url}")));
            lines.push("The link works once and for a minute. Ctrl-C closes the bridge; the browser stays.".to_owned());
            output.lines(&lines)
        }
    };
    if shown.is_err() {
        output.note("warning: where the bridge is could not be printed");
    }
}
