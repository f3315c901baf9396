//! A session's browser: its container, the program that runs in it, and the way to its control port.
//!
//! ```text
//! prepare ─► network ─► call::run: container, proven and leased ─► program started ─► it answers ─► job
//!    └ enabled? tool allowed? Docker? any refusal stops here, by name
//! ```
//!
//! The container is made, found, replaced and removed like every other ([`crate::lifecycle`]): our supervisor
//! is its first process, and what is in force is compared before the browser is started as one of its
//! commands. What the program is told (the viewer's password) comes with that command and not with the
//! container, so that whoever may ask the engine does not learn it. What may be driven is decided in
//! `rules::browser`; the port itself is spoken to by [`cdp`].

pub mod cdp;

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawpen_rules::browser::{
    BrowserDecision, BrowserSpec, ControlToken, NetworkNeed, Told, ViewerPassword, decide_network,
};
use clawpen_rules::config::setting::Origin;
use clawpen_wire::supervisor::{
    End, EnvVar, ProcessEntry, ProcessState, Reach, StderrMode, StdinMode,
};

use self::cdp::{Cdp, CdpError};
use crate::audit::AuditError;
use crate::backend::docker::{self, DockerBackend, DockerFailure, Published, Secret};
use crate::backend::{self, Plan};
use crate::call::{self, About, Done, Open, OpenError, Prepared, Target};
use crate::channel::{AttachEnd, CallError, Captured, Channel, Command};
use crate::config_store::Store;
use crate::random;
use crate::registry::Identity;
use crate::yard::Yard;

/// Output of the browser's program that is kept.
const KEPT_BYTES: u32 = 64 * 1024;
/// What of it an error shows, from its end.
const SHOWN: usize = 600;
/// The pause between two looks whether a browser answers.
const PAUSE: Duration = Duration::from_millis(150);
const SIGKILL: i32 = 9;

/// A browser that may be had: everything is decided, nothing is done yet.
#[derive(Debug)]
pub struct PreparedBrowser {
    prepared: Prepared,
    spec: BrowserSpec,
    network: NetworkNeed,
    start: Start,
}

/// What the config says about starting it.
#[derive(Debug, Clone)]
struct Start {
    when: When,
    within: Duration,
    /// The key that sets how long.
    key: String,
}

/// `browser.autoStart`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// With the first use.
    AtOnce,
    /// When somebody says so.
    OnRequest,
}

/// A browser's container, as long as a call holds it.
#[derive(Debug)]
pub struct Browser<'a> {
    channel: &'a mut Channel,
    engine: Arc<DockerBackend>,
    id: String,
    of: &'a PreparedBrowser,
    published: Published,
    token: ControlToken,
    cdp: Cdp,
}

/// How its screen is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Viewer {
    /// On the loopback address of this machine.
    pub port: u16,
    pub password: ViewerPassword,
}

/// The browser cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BrowserError {
    #[error(transparent)]
    Engine(#[from] DockerFailure),
    #[error("cannot {what}")]
    Call {
        what: &'static str,
        #[source]
        cause: CallError,
    },
    #[error(
        "the control port of `{image}` answers whoever asks; build an image that wants a token with `clawpen image \
         build browser`"
    )]
    Unguarded { image: String },
    #[error(transparent)]
    Control(#[from] CdpError),
    /// What is not recorded is not done.
    #[error("the use of the browser cannot be recorded")]
    Record(#[source] AuditError),
    #[error("cannot make up a password for its viewer")]
    Random(#[source] io::Error),
    #[error("cannot start the thread that talks to the browser")]
    Runtime(#[source] io::Error),
    #[error(
        "the browser did not answer at 127.0.0.1:{port} within {ms} ms; give it longer with `{key}`, or begin \
         anew with `clawpen sandbox recreate --browser --all`"
    )]
    TimedOut { port: u16, ms: u128, key: String },
    #[error("the browser's program ended at once: {how}{}", quoted(.said))]
    Ended { how: String, said: String },
}

fn quoted(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!("; it said: {said}") }
}

/// Decides on the browser of a session.
pub fn prepare(store: &Store, target: &Target<'_>) -> Result<PreparedBrowser, OpenError> {
    let prepared = call::prepare(store, target)?;
    let refused = |text: String| OpenError::Refused(vec![text]);
    let explanation = &prepared.explanation;
    match explanation.browser() {
        BrowserDecision::Start => {}
        BrowserDecision::NotEnabled(origin) => return Err(refused(not_enabled(&origin))),
        BrowserDecision::ToolDenied => {
            let text = "the session's sandbox has no browser, because its tool policy closes `browser`; \
                        see `clawpen why tool browser`";
            return Err(refused(text.to_owned()));
        }
    }
    match &prepared.plan {
        Plan::Docker(_) => {}
        Plan::Native(_) => {
            let text = "a browser's sandbox needs the backend `docker`";
            return Err(refused(text.to_owned()));
        }
    }
    let spec = match &explanation.runtime.browser {
        Some(Ok(spec)) => spec.clone(),
        Some(Err(problem)) => return Err(refused(problem.to_string())),
        None => return Err(refused("the session's sandbox has no browser".to_owned())),
    };
    let config = &explanation.sandbox.browser;
    let network = decide_network(&explanation.sandbox);
    let network = network.map_err(|problem| refused(problem.to_string()))?;
    // The schema lets whole positive numbers through; what is beyond a day is a day.
    let seconds = (config.auto_start_timeout_ms.value / 1000.0).clamp(0.001, 86_400.0);
    let start = Start {
        when: if config.auto_start.value { When::AtOnce } else { When::OnRequest },
        within: Duration::from_secs_f64(seconds),
        key: config.auto_start_timeout_ms.origin.key.clone(),
    };
    Ok(PreparedBrowser { prepared: prepared.for_browser(&spec), spec, network, start })
}

fn not_enabled(origin: &Origin) -> String {
    format!("the session's sandbox has no browser; set `{}` to true", origin.key)
}

impl PreparedBrowser {
    /// What its container is called.
    pub fn name(&self) -> &str {
        self.prepared.name()
    }

    pub const fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    pub const fn spec(&self) -> &BrowserSpec {
        &self.spec
    }

    pub const fn when(&self) -> When {
        self.start.when
    }

    /// Does something with the browser: found or made, started unless the config says otherwise. Nobody
    /// removes it meanwhile, and the call is recorded.
    pub fn run<T>(
        &self,
        yard: &Yard,
        about: &About<'_>,
        job: impl FnOnce(&mut Browser<'_>) -> T,
    ) -> Result<Done<Result<T, BrowserError>>, OpenError> {
        self.ready_engine(yard)?;
        call::run(yard, &self.prepared, about, |open, _tally| {
            let mut browser = self.reach(yard, open)?;
            match self.start.when {
                When::AtOnce => browser.start()?,
                When::OnRequest => {}
            }
            let begun =
                call::record_begun(yard, &self.prepared, about, "a browser is used from here on");
            begun.map_err(BrowserError::Record)?;
            Ok(job(&mut browser))
        })
    }

    /// Makes sure of its network.
    fn ready_engine(&self, yard: &Yard) -> Result<(), OpenError> {
        let ready = || {
            let engine = yard.engines.docker(&yard.state_dir)?;
            engine.check_browser()?;
            match &self.network {
                NetworkNeed::Nothing => Ok(()),
                NetworkNeed::Bridge(name) => engine.ensure_bridge(name),
            }
        };
        ready().map_err(|cause| {
            let name = self.name().to_owned();
            OpenError::Start(backend::StartError::Docker(docker::StartError { name, cause }))
        })
    }

    fn reach<'a>(
        &'a self,
        yard: &Yard,
        open: &'a mut Open<'_>,
    ) -> Result<Browser<'a>, BrowserError> {
        let gone = || DockerFailure::Ended { code: None, said: String::new() };
        let Some(Identity::Docker(identity)) = open.identity().cloned() else {
            return Err(gone().into());
        };
        let engine = yard.engines.docker_of(&identity, &yard.state_dir)?;
        let published = engine.published(&identity.container_id, self.spec.container().ports())?;
        let port = published.at(self.spec.cdp_port()).ok_or_else(gone)?;
        let id = identity.container_id;
        let token = control_token(&engine, &id)?;
        let cdp = Cdp::guarded(port, &token);
        let channel = open.sandbox().channel();
        let channel =
            channel.map_err(|cause| BrowserError::Call { what: "reach its sandbox", cause })?;
        Ok(Browser { channel, engine, id, of: self, published, token, cdp })
    }
}

/// The token of a container's control port: the one that is kept, or a new one.
fn control_token(engine: &DockerBackend, id: &str) -> Result<ControlToken, BrowserError> {
    let _alone = engine.alone_with(id)?;
    let kept = engine.secret(id, Secret::Control)?;
    if let Some(token) = kept.as_deref().and_then(ControlToken::parse) {
        return Ok(token);
    }
    let token = ControlToken::of(random::bytes().map_err(BrowserError::Random)?);
    engine.keep_secret(id, Secret::Control, token.expose())?;
    Ok(token)
}

impl Browser<'_> {
    /// The way to its control port.
    pub fn cdp(&self) -> Cdp {
        self.cdp.clone()
    }

    pub const fn is_headless(&self) -> bool {
        self.of.spec.is_headless()
    }

    /// The engine's name for its container.
    pub fn container_id(&self) -> &str {
        &self.id
    }

    /// How its screen is watched now; `None` if it is not running or cannot be.
    pub fn viewer(&self) -> Result<Option<Viewer>, BrowserError> {
        let port = self.of.spec.viewer_port().and_then(|port| self.published.at(port));
        let kept = self.engine.secret(&self.id, Secret::Viewer)?;
        let password = kept.as_deref().and_then(ViewerPassword::parse);
        Ok(port.zip(password).map(|(port, password)| Viewer { port, password }))
    }

    /// Whether its program runs.
    pub fn is_running(&mut self) -> Result<bool, BrowserError> {
        Ok(self.program()?.is_some_and(|entry| entry.state == ProcessState::Running))
    }

    /// Starts the browser unless it runs, and waits until it answers.
    pub fn start(&mut self) -> Result<(), BrowserError> {
        let alone = self.engine.alone_with(&self.id)?;
        let needs_password = self.of.spec.viewer_port().is_some();
        let is_watchable = !needs_password || self.viewer()?.is_some();
        if !self.is_running()? {
            self.launch()?;
        } else if !is_watchable {
            // Whoever started it died before the password was kept: nobody could ever watch it.
            self.end()?;
            self.launch()?;
        }
        drop(alone);
        self.wait()
    }

    /// Ends the browser. Its container stays; the profile in its memory goes.
    pub fn stop(&mut self) -> Result<(), BrowserError> {
        let _alone = self.engine.alone_with(&self.id)?;
        self.end()
    }

    fn program(&mut self) -> Result<Option<ProcessEntry>, BrowserError> {
        let all = self.channel.processes();
        let all = all.map_err(|cause| BrowserError::Call { what: "look at its program", cause })?;
        // Nothing else is ever started there; of several, the last one counts.
        Ok(all.into_iter().rfind(|entry| entry.background))
    }

    fn launch(&mut self) -> Result<(), BrowserError> {
        self.forget()?;
        let random: [u8; 64] = random::bytes().map_err(BrowserError::Random)?;
        let password = self.of.spec.viewer_port().and_then(|_| ViewerPassword::of(&random));
        // Kept before anybody needs it: a start that is cut off leaves a password that opens nothing.
        let kept = password.as_ref().map_or("", ViewerPassword::expose);
        self.engine.keep_secret(&self.id, Secret::Viewer, kept)?;
        let range = self.published.gateway.map(|gateway| format!("{gateway}/32"));
        let told = Told {
            viewer: password.as_ref(),
            token: Some(&self.token),
            source_range: range.as_deref(),
        };
        let settings = self.of.spec.settings(&told).into_iter();
        let words = self.engine.program(self.of.spec.container().image())?;
        let mut command = Command::new(words.into_iter().map(OsString::from));
        command.stderr = StderrMode::Merged;
        command.env = settings
            .map(|(name, value)| EnvVar {
                name: OsString::from(name),
                value: OsString::from(value),
            })
            .collect();
        let started = self.channel.start(&command, KEPT_BYTES);
        started.map_err(|cause| BrowserError::Call { what: "start its program", cause })?;
        Ok(())
    }

    fn end(&mut self) -> Result<(), BrowserError> {
        let call = |cause| BrowserError::Call { what: "end its program", cause };
        if let Some(ProcessEntry { process, state: ProcessState::Running, .. }) = self.program()? {
            self.channel.kill(process, SIGKILL, Reach::Tree).map_err(call)?;
            let mut last = Captured::new(0);
            self.channel.attach(process, 0, StdinMode::Null, &mut last).map_err(call)?;
        }
        self.forget()
    }

    /// Drops what is kept of programs that are over.
    fn forget(&mut self) -> Result<(), BrowserError> {
        let call = |cause| BrowserError::Call { what: "clear its program", cause };
        for entry in self.channel.processes().map_err(call)? {
            if entry.background && entry.state != ProcessState::Running {
                self.channel.forget(entry.process).map_err(call)?;
            }
        }
        Ok(())
    }

    /// Waits until the browser answers, or has ended, or its time is over.
    fn wait(&mut self) -> Result<(), BrowserError> {
        let Start { within, key, .. } = self.of.start.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(BrowserError::Runtime)?;
        let deadline = Instant::now() + within;
        loop {
            if runtime.block_on(self.cdp.version()).is_ok() {
                return self.check_guard(&runtime);
            }
            if !self.is_running()? {
                return Err(self.ended()?);
            }
            if Instant::now() >= deadline {
                let (port, ms) = (self.cdp.port(), within.as_millis());
                return Err(BrowserError::TimedOut { port, ms, key });
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Seen, not believed: without the token the control port must not answer.
    fn check_guard(&self, runtime: &tokio::runtime::Runtime) -> Result<(), BrowserError> {
        let open = Cdp::open_to_all(self.cdp.port());
        match runtime.block_on(open.version()) {
            Err(CdpError::Refused { .. }) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => {
                let image = self.of.spec.container().image().to_owned();
                Err(BrowserError::Unguarded { image })
            }
        }
    }

    /// How the program ended, and its last words.
    fn ended(&mut self) -> Result<BrowserError, BrowserError> {
        let Some(entry) = self.program()? else {
            return Ok(BrowserError::Ended {
                how: "nothing of it is left".into(),
                said: String::new(),
            });
        };
        let call = |cause| BrowserError::Call { what: "look at its program", cause };
        let mut output = Captured::new(KEPT_BYTES as usize);
        let end = self.channel.attach(entry.process, entry.kept_from, StdinMode::Null, &mut output);
        let how = match end.map_err(call)? {
            AttachEnd::Exited(exited) => match exited.end {
                End::Code(code) => format!("exit code {code}"),
                End::Signal(signal) => format!("signal {signal} killed it"),
            },
            AttachEnd::Detached => "nobody saw how".to_owned(),
        };
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let skipped = said.chars().count().saturating_sub(SHOWN);
        let said = said.chars().skip(skipped).collect();
        Ok(BrowserError::Ended { how, said })
    }
}
