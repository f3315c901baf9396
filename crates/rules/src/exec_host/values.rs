//! The words of exec policy, ordered so that "the stricter one" is `min` or `max`.

use std::fmt;

/// What may run on the host. Smaller is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Security {
    /// Nothing.
    Deny,
    /// What the allowlist, the safe filters or a person let through.
    Allowlist,
    /// Anything.
    Full,
}

/// When a person is asked. Larger is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ask {
    Off,
    /// When the allowlist does not cover the command.
    OnMiss,
    Always,
}

/// Where exec is wished to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HostWish {
    /// In the session's sandbox if it has one, else on the gateway's machine.
    Auto,
    Sandbox,
    Gateway,
    Node,
}

/// Where exec runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExecHost {
    Sandbox,
    /// The machine that the gateway runs on.
    Gateway,
    /// Another machine.
    Node,
}

impl Security {
    pub const ALL: [Self; 3] = [Self::Deny, Self::Allowlist, Self::Full];
    /// What a text that is none of the words means: the strictest.
    pub const STRICTEST: Self = Self::Deny;

    /// Exact spelling only: the reference does not trim or fold either.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|value| value.as_str() == text)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Allowlist => "allowlist",
            Self::Full => "full",
        }
    }
}

impl Ask {
    pub const ALL: [Self; 3] = [Self::Off, Self::OnMiss, Self::Always];
    /// What a text that is none of the words means: the strictest.
    pub const STRICTEST: Self = Self::Always;

    /// Exact spelling only.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|value| value.as_str() == text)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::OnMiss => "on-miss",
            Self::Always => "always",
        }
    }
}

impl HostWish {
    pub const ALL: [Self; 4] = [Self::Auto, Self::Sandbox, Self::Gateway, Self::Node];

    /// Exact spelling only.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|value| value.as_str() == text)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Sandbox => "sandbox",
            Self::Gateway => "gateway",
            Self::Node => "node",
        }
    }
}

impl ExecHost {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Gateway => "gateway",
            Self::Node => "node",
        }
    }
}

impl fmt::Display for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for HostWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for ExecHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
