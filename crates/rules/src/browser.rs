//! The browser's sandbox: whether there is one, which network it needs, and its container.
//!
//! Takes the sandbox's config, its layout and whether the `browser` tool is allowed; gives a
//! [`BrowserDecision`], a [`NetworkNeed`] and a [`BrowserSpec`]. The container is the shell's, with
//! an image, network and binds of its own, and is checked by the same builder. Its ports are
//! published on the loopback address only.
//!
//! Who may speak to its bridge is in [`bridge`]. Nothing here starts a browser or makes up its password.

pub mod bridge;

use std::fmt;

use crate::config::defaults::BROWSER_SECURITY_EPOCH;
use crate::config::sandbox::{BrowserConfig, SandboxConfig};
use crate::config::setting::{Origin, Setting};
use crate::container::{ContainerRefused, ContainerSpec, Identity};
use crate::environment::Filter;
use crate::host_files::HostFiles;
use crate::mounts::{self, BindPolicy, NamespaceJoin, NetworkRefusal};
use crate::tool_policy::Verdict;
use crate::workspace::Layout;

/// Whether a session gets a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BrowserDecision {
    Start,
    /// `browser.enabled` is not set.
    NotEnabled(Origin),
    /// It is enabled, but the tool is denied: nobody could use it.
    ToolDenied,
}

/// Decides whether a sandbox gets a browser. `tool` is the sandbox policy's verdict on the tool
/// `browser`.
#[must_use]
pub fn decide(browser: &BrowserConfig, tool: &Verdict<'_>) -> BrowserDecision {
    if !browser.enabled.value {
        return BrowserDecision::NotEnabled(browser.enabled.origin.clone());
    }
    match tool {
        Verdict::Allowed(_) => BrowserDecision::Start,
        Verdict::Blocked(_) => BrowserDecision::ToolDenied,
    }
}

/// What must be there before the container can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkNeed {
    /// The engine always has it.
    Nothing,
    /// A bridge of this name, made if it is missing.
    Bridge(String),
}

/// A browser may not be made like this.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BrowserRefused {
    #[error("{0}")]
    Network(NetworkRefusal),
    /// Ports cannot be published there.
    #[error(
        "nobody could reach a browser on the network `{network}`; set `{key}` to `bridge` or to a \
         network of its own"
    )]
    Unreachable { network: String, key: String },
    #[error("`{key}` is {port}, which is no port; use a whole number from 1 to 65535")]
    Port { key: String, port: f64 },
    #[error("`{range}` in `{key}` is no address range; write it like `172.21.0.1/32`")]
    SourceRange { range: String, key: String },
    #[error(transparent)]
    Container(Box<ContainerRefused>),
}

/// Lets whoever knows it watch the screen. Eight letters and digits, new for every container.
#[derive(Clone, PartialEq, Eq)]
pub struct ViewerPassword(String);

/// Lets whoever knows it drive the browser past any bridge: 24 random bytes in hexadecimal digits, one for each
/// container.
#[derive(Clone, PartialEq, Eq)]
pub struct ControlToken(String);

/// What the start program is told besides the config.
#[derive(Debug, Clone, Copy, Default)]
pub struct Told<'a> {
    pub viewer: Option<&'a ViewerPassword>,
    pub token: Option<&'a ControlToken>,
    /// Who may reach the browser's ports where the config does not say.
    pub source_range: Option<&'a str>,
}

/// A browser's container, checked and ready to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct BrowserSpec {
    container: ContainerSpec,
    /// In the container.
    ports: Ports,
    headless: bool,
    enable_no_vnc: bool,
    cdp_source_range: Option<String>,
    viewer: Option<ViewerPassword>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ports {
    cdp: u16,
    vnc: u16,
    no_vnc: u16,
}

/// What a browser's container is made from.
#[derive(Debug)]
pub struct BrowserPlan<'a> {
    pub identity: Identity,
    pub layout: &'a Layout,
    /// With the derived user already in it.
    pub config: &'a SandboxConfig,
    pub filter: &'a Filter,
    /// Used if the screen can be watched at all. Without one nobody can: enough to explain it.
    pub password: Option<ViewerPassword>,
}

/// Decides which network the browser needs, or refuses the configured one.
pub fn decide_network(config: &SandboxConfig) -> Result<NetworkNeed, BrowserRefused> {
    let network = config.browser_docker().network.value;
    let join = match &config.docker.allow_container_namespace_join {
        Some(allowed) if allowed.value => NamespaceJoin::Allowed,
        Some(_) | None => NamespaceJoin::Refused,
    };
    mounts::decide_browser_network(&network, join).map_err(BrowserRefused::Network)?;
    let mode = network.trim().to_lowercase();
    // Neither has ports of its own to publish: without a network there are none, and in another
    // container's network they are that container's.
    if mode == "none" || mode.contains(':') {
        let key = config.browser.network.origin.key.clone();
        return Err(BrowserRefused::Unreachable { network, key });
    }
    Ok(match mode.as_str() {
        "" | "bridge" => NetworkNeed::Nothing,
        _ => NetworkNeed::Bridge(network),
    })
}

impl BrowserSpec {
    /// Builds the container of a sandbox's browser.
    pub fn build(
        plan: BrowserPlan<'_>,
        policy: &BindPolicy,
        files: &impl HostFiles,
    ) -> Result<Self, BrowserRefused> {
        decide_network(plan.config)?;
        let browser = &plan.config.browser;
        let ports = Ports {
            cdp: port(&browser.cdp_port)?,
            vnc: port(&browser.vnc_port)?,
            no_vnc: port(&browser.no_vnc_port)?,
        };
        let cdp_source_range = source_range(browser)?;
        let docker = plan.config.browser_docker();
        let (headless, enable_no_vnc) = (browser.headless.value, browser.enable_no_vnc.value);
        let is_watchable = enable_no_vnc && !headless;
        let published = std::iter::once(ports.cdp).chain(is_watchable.then_some(ports.no_vnc));
        let container =
            ContainerSpec::locked_down(plan.identity, plan.layout, docker.image.clone())
                .configured(&docker, plan.filter)
                // The setup command is the shell's: it would run where its tools are not.
                .setup("")
                .publish(published.collect())
                .label("openclaw.sandboxBrowser", "1")
                .label("openclaw.browserConfigEpoch", BROWSER_SECURITY_EPOCH)
                .build(policy, files)
                .map_err(|refused| BrowserRefused::Container(Box::new(refused)))?;
        let viewer = plan.password.filter(|_| is_watchable);
        Ok(Self { container, ports, headless, enable_no_vnc, cdp_source_range, viewer })
    }

    pub const fn container(&self) -> &ContainerSpec {
        &self.container
    }

    /// The container's ports that are published, each on a free loopback port of the host: the
    /// debugging one, then the viewer's if the screen can be watched.
    pub fn published_ports(&self) -> Vec<u16> {
        let viewer = self.viewer.as_ref().map(|_| self.ports.no_vnc);
        std::iter::once(self.ports.cdp).chain(viewer).collect()
    }

    /// The port in the container that the browser is driven by.
    pub const fn cdp_port(&self) -> u16 {
        self.ports.cdp
    }

    /// The port in the container that its screen is watched by; `None` if it cannot be.
    pub fn viewer_port(&self) -> Option<u16> {
        (self.enable_no_vnc && !self.headless).then_some(self.ports.no_vnc)
    }

    pub const fn is_headless(&self) -> bool {
        self.headless
    }

    /// Set if the screen can be watched.
    pub const fn viewer(&self) -> Option<&ViewerPassword> {
        self.viewer.as_ref()
    }

    /// The whole `docker create` call, without the word `docker`.
    pub fn docker_args(&self) -> Vec<String> {
        let mut args = self.container.option_args();
        args.extend(self.container.mount_args());
        args.extend(self.container.bind_args());
        for port in self.published_ports() {
            args.extend(["-p".to_owned(), format!("127.0.0.1::{port}")]);
        }
        let told = Told { viewer: self.viewer.as_ref(), ..Told::default() };
        for (name, value) in self.settings(&told) {
            args.extend(["-e".to_owned(), format!("{name}={value}")]);
        }
        args.push(self.container.image().to_owned());
        args
    }

    /// The variables of the image's start program.
    pub fn settings(&self, told: &Told<'_>) -> Vec<(String, String)> {
        let flag = |on: bool| u8::from(on).to_string();
        let mut settings = vec![
            ("HEADLESS", flag(self.headless)),
            ("ENABLE_NOVNC", flag(self.enable_no_vnc)),
            ("CDP_PORT", self.ports.cdp.to_string()),
        ];
        if let Some(range) = self.cdp_source_range.as_deref().or(told.source_range) {
            settings.push(("CDP_SOURCE_RANGE", range.to_owned()));
        }
        settings.push(("VNC_PORT", self.ports.vnc.to_string()));
        settings.push(("NOVNC_PORT", self.ports.no_vnc.to_string()));
        // Chromium's own sandbox needs privileges that the container does not have.
        settings.push(("NO_SANDBOX", flag(true)));
        if let Some(password) = told.viewer {
            settings.push(("NOVNC_PASSWORD", password.0.clone()));
        }
        if let Some(token) = told.token {
            settings.push(("CDP_AUTH_TOKEN", token.0.clone()));
        }
        let named = |(name, value)| (format!("OPENCLAW_BROWSER_{name}"), value);
        settings.into_iter().map(named).collect()
    }
}

fn port(setting: &Setting<f64>) -> Result<u16, BrowserRefused> {
    let port = setting.value;
    // Whole and in range, so that the conversion below loses nothing.
    if port.fract() == 0.0 && (1.0..=f64::from(u16::MAX)).contains(&port) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked in the line above"
        )]
        return Ok(port as u16);
    }
    Err(BrowserRefused::Port { key: setting.origin.key.clone(), port })
}

/// The configured range, if it can be nothing else: it ends up in a start script.
fn source_range(browser: &BrowserConfig) -> Result<Option<String>, BrowserRefused> {
    let (Some(range), Some(setting)) = (browser.cdp_source(), &browser.cdp_source_range) else {
        return Ok(None);
    };
    if range.chars().all(|c| c.is_ascii_hexdigit() || matches!(c, '.' | ':' | '/')) {
        return Ok(Some(range.to_owned()));
    }
    let key = setting.origin.key.clone();
    Err(BrowserRefused::SourceRange { range: range.to_owned(), key })
}

impl BrowserRefused {
    /// What set the refused value, if known.
    pub fn origin<'a>(&'a self, config: &'a SandboxConfig) -> Option<&'a Origin> {
        let browser = &config.browser;
        match self {
            Self::Network(_) | Self::Unreachable { .. } => Some(&browser.network.origin),
            Self::Port { key, .. } => [&browser.cdp_port, &browser.vnc_port, &browser.no_vnc_port]
                .into_iter()
                .map(|port| &port.origin)
                .find(|origin| origin.key == *key),
            Self::SourceRange { .. } => {
                browser.cdp_source_range.as_ref().map(|range| &range.origin)
            }
            Self::Container(refused) => refused.origin.as_ref(),
        }
    }
}

impl ViewerPassword {
    const LENGTH: usize = 8;

    /// Makes one up: `random` comes from the kernel, and bytes that would make some letters more likely
    /// than others are passed over. `None` if too few are left.
    pub fn of(random: &[u8]) -> Option<Self> {
        const LETTERS: &[u8; 62] =
            b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let fair = random.iter().filter(|byte| **byte < 248);
        let letters = fair.filter_map(|byte| LETTERS.get(usize::from(byte % 62)));
        let text: String = letters.take(Self::LENGTH).map(|byte| char::from(*byte)).collect();
        Self::parse(&text)
    }

    /// Takes eight letters or digits; anything else is no password of ours.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = text.len() == Self::LENGTH && text.bytes().all(|b| b.is_ascii_alphanumeric());
        fits.then(|| Self(text.to_owned()))
    }

    /// The password itself, for the link that opens the viewer.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl ControlToken {
    /// `random` comes from the kernel.
    pub fn of(random: [u8; 24]) -> Self {
        Self(hex(random))
    }

    /// Takes what [`ControlToken::of`] made; anything else is no token of ours.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = text.len() == 48 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        fits.then(|| Self(text.to_owned()))
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ControlToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ControlToken(***)")
    }
}

fn hex(bytes: [u8; 24]) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

impl fmt::Debug for ViewerPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ViewerPassword(***)")
    }
}

#[cfg(test)]
mod tests;
