//! Whether what a skill needs may be installed on this machine, and by which words exactly.
//!
//! Takes what a skill's `SKILL.md` says, who could have written that, and what the owner prefers; gives an [`Install`],
//! which only [`decide`] makes, or why not. A `SKILL.md` is a file that others wrote: of it only names count, each
//! checked, and the words around them are ours. Nothing here reaches a shell, and no package's own scripts run where
//! the installer lets us say so.

use std::fmt;

use crate::config::Config;

/// A skill with more is listed up to here.
pub const MAX_SPECS: usize = 20;

const MAX_NAME: usize = 200;

/// Which installer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Brew,
    Node,
    Go,
    Uv,
    Download,
}

impl Kind {
    pub const ALL: [Self; 5] = [Self::Brew, Self::Node, Self::Go, Self::Uv, Self::Download];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Brew => "brew",
            Self::Node => "node",
            Self::Go => "go",
            Self::Uv => "uv",
            Self::Download => "download",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// The key of `SKILL.md` that names what is installed.
    pub const fn subject_key(self) -> &'static str {
        match self {
            Self::Brew => "formula",
            Self::Node | Self::Uv => "package",
            Self::Go => "module",
            Self::Download => "url",
        }
    }
}

/// Which program installs packages of Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeManager {
    Npm,
    Pnpm,
    Yarn,
    Bun,
}

impl NodeManager {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pnpm => "pnpm",
            Self::Yarn => "yarn",
            Self::Bun => "bun",
        }
    }
}

/// What the owner prefers: `skills.install`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preferences {
    pub prefers_brew: bool,
    pub node_manager: NodeManager,
}

impl Preferences {
    /// A word that is no manager means npm, which every Node brings along.
    pub fn of(config: &Config) -> Self {
        let at = |key: &str| config.at(&["skills", "install", key]);
        let word = at("nodeManager").and_then(|at| at.node.as_str().map(str::to_lowercase));
        let known = [NodeManager::Pnpm, NodeManager::Yarn, NodeManager::Bun];
        let named = known.into_iter().find(|one| Some(one.as_str()) == word.as_deref());
        Self {
            prefers_brew: at("preferBrew").and_then(|at| at.node.as_bool()) != Some(false),
            node_manager: named.unwrap_or(NodeManager::Npm),
        }
    }
}

/// One way to install, as `SKILL.md` says it; nothing of it is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    pub id: String,
    pub kind: Kind,
    pub label: Option<String>,
    pub bins: Vec<String>,
    /// Systems; all if there are none.
    pub systems: Vec<String>,
    /// Formula, package, module or address.
    pub subject: String,
}

impl Spec {
    pub fn is_for_linux(&self) -> bool {
        self.systems.is_empty() || self.systems.iter().any(|system| system == "linux")
    }

    /// For a button.
    pub fn label(&self, preferences: Preferences) -> String {
        if let Some(label) = &self.label {
            return label.clone();
        }
        let subject = &self.subject;
        match self.kind {
            Kind::Node => format!("Install {subject} ({})", preferences.node_manager.as_str()),
            Kind::Brew | Kind::Go | Kind::Uv => {
                format!("Install {subject} ({})", self.kind.as_str())
            }
            Kind::Download => {
                format!("Download {}", subject.rsplit('/').next().unwrap_or(subject))
            }
        }
    }
}

/// The way that is offered, or all of them where each brings a part.
pub fn offered(specs: &[Spec], preferences: Preferences, has_brew: HasBrew) -> Vec<&Spec> {
    let here: Vec<&Spec> = specs.iter().filter(|spec| spec.is_for_linux()).collect();
    if here.iter().all(|spec| spec.kind == Kind::Download) {
        return here;
    }
    let of = |kind: Kind| here.iter().find(|spec| spec.kind == kind).copied();
    let first = || of(Kind::Brew).filter(|_| preferences.prefers_brew && has_brew == HasBrew::Yes);
    let found = first()
        .or_else(|| of(Kind::Uv))
        .or_else(|| of(Kind::Node))
        .or_else(|| of(Kind::Go))
        .or_else(|| of(Kind::Brew));
    found.or_else(|| of(Kind::Download)).into_iter().collect()
}

/// Whether this machine has Homebrew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HasBrew {
    Yes,
    No,
}

/// Who could have written what a skill says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Author {
    /// Only the owner of this machine's account, and the system.
    Owner,
    /// An agent: it lies where one may write.
    Agent { place: String },
    /// Other users of this machine.
    Others,
}

/// Words that may be run, as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Install {
    argv: Vec<String>,
}

impl Install {
    pub fn argv(&self) -> &[String] {
        &self.argv
    }

    pub fn program(&self) -> &str {
        self.argv.first().map_or("", String::as_str)
    }

    /// As one line. No word of it means anything to a shell.
    pub fn line(&self) -> String {
        self.argv.join(" ")
    }
}

/// Why nothing is installed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InstallRefusal {
    #[error(
        "the skill lies in `{place}`, where an agent may write, so an agent could have chosen what is installed on this \
         machine; look it through and copy it into the managed skills directory"
    )]
    AgentsSkill { place: String },
    #[error(
        "other users of this machine may write the skill's SKILL.md; take the right from them first"
    )]
    OthersSkill,
    #[error("`{subject}` is no plain name of {what}; install it by hand if you trust it")]
    BadName { what: What, subject: String },
    #[error("this way to install is not for linux")]
    OtherSystem,
    #[error("downloads are not part of this build; fetch `{url}` by hand if you trust it")]
    Download { url: String },
}

/// What a name should have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct What(Kind);

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Brew => "a formula",
            Kind::Node => "a package of npm",
            Kind::Go => "a module of Go",
            Kind::Uv => "a package of Python",
            Kind::Download => "a file",
        })
    }
}

/// Decides whether, and by which words.
pub fn decide(
    spec: &Spec,
    author: &Author,
    preferences: Preferences,
) -> Result<Install, InstallRefusal> {
    match author {
        Author::Owner => {}
        Author::Agent { place } => {
            return Err(InstallRefusal::AgentsSkill { place: place.clone() });
        }
        Author::Others => return Err(InstallRefusal::OthersSkill),
    }
    if !spec.is_for_linux() {
        return Err(InstallRefusal::OtherSystem);
    }
    let subject = spec.subject.as_str();
    let is_sound = subject.len() <= MAX_NAME
        && match spec.kind {
            Kind::Brew => is_formula(subject),
            Kind::Node => is_npm_package(subject),
            Kind::Go => is_go_module(subject),
            Kind::Uv => is_python_package(subject),
            Kind::Download => {
                return Err(InstallRefusal::Download { url: shown(subject) });
            }
        };
    if !is_sound {
        return Err(InstallRefusal::BadName { what: What(spec.kind), subject: shown(subject) });
    }
    let words: &[&str] = match (spec.kind, preferences.node_manager) {
        (Kind::Brew, _) => &["brew", "install"],
        (Kind::Go, _) => &["go", "install"],
        (Kind::Uv, _) => &["uv", "tool", "install"],
        (Kind::Node | Kind::Download, NodeManager::Npm) => {
            &["npm", "install", "-g", "--ignore-scripts"]
        }
        (Kind::Node | Kind::Download, NodeManager::Pnpm) => {
            &["pnpm", "add", "-g", "--ignore-scripts"]
        }
        (Kind::Node | Kind::Download, NodeManager::Yarn) => {
            &["yarn", "global", "add", "--ignore-scripts"]
        }
        (Kind::Node | Kind::Download, NodeManager::Bun) => {
            &["bun", "add", "-g", "--ignore-scripts"]
        }
    };
    let words = words.iter().copied().chain([subject]);
    Ok(Install { argv: words.map(str::to_owned).collect() })
}

/// A hostile text, short and in one line.
fn shown(text: &str) -> String {
    text.chars().take(80).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// One part of a name: begins with a letter or a digit, and holds nothing that means something to anybody.
fn is_part(text: &str, more: &str) -> bool {
    let is_start = |c: char| c.is_ascii_alphanumeric();
    let is_fine = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
    text.chars().next().is_some_and(is_start) && text.chars().all(is_fine) && !text.contains("..")
}

/// `name`, or `user/tap/name`.
fn is_formula(text: &str) -> bool {
    let parts: Vec<&str> = text.split('/').collect();
    let is_sound = |part: &&str| {
        let (name, version) = match part.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (*part, None),
        };
        is_part(name, "-_.+") && version.is_none_or(|version| is_part(version, "-_."))
    };
    matches!(parts.len(), 1 | 3) && parts.iter().all(is_sound)
}

/// `name` or `@scope/name`, perhaps with `@version`: from the registry, and from nowhere else.
fn is_npm_package(text: &str) -> bool {
    let (scope, rest) = match text.strip_prefix('@') {
        Some(scoped) => match scoped.split_once('/') {
            Some((scope, rest)) => (Some(scope), rest),
            None => return false,
        },
        None => (None, text),
    };
    let (name, version) = match rest.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (rest, None),
    };
    scope.is_none_or(|scope| is_part(scope, "-_."))
        && is_part(name, "-_.")
        && version.is_none_or(|version| is_part(version, "-.+"))
}

/// `host.name/path@version`.
fn is_go_module(text: &str) -> bool {
    let (path, version) = match text.split_once('@') {
        Some((path, version)) => (path, Some(version)),
        None => (text, None),
    };
    let mut parts = path.split('/');
    let host = parts.next().unwrap_or_default();
    let rest: Vec<&str> = parts.collect();
    host.contains('.')
        && is_part(host, "-.")
        && !rest.is_empty()
        && rest.iter().all(|part| is_part(part, "-_.~"))
        && version.is_none_or(|version| is_part(version, "-.+"))
}

/// `name`, perhaps with `==version`.
fn is_python_package(text: &str) -> bool {
    let (name, version) = match text.split_once("==") {
        Some((name, version)) => (name, Some(version)),
        None => (text, None),
    };
    is_part(name, "-_.") && version.is_none_or(|version| is_part(version, "-.+"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::json5;
    use crate::config::tree::FileId;

    const PLAIN: Preferences = Preferences { prefers_brew: true, node_manager: NodeManager::Npm };

    fn spec(kind: Kind, subject: &str) -> Spec {
        Spec {
            id: kind.as_str().to_owned(),
            kind,
            label: None,
            bins: Vec::new(),
            systems: Vec::new(),
            subject: subject.to_owned(),
        }
    }

    #[track_caller]
    fn check(kind: Kind, subject: &str, expected: Result<&str, &str>) {
        let found = decide(&spec(kind, subject), &Author::Owner, PLAIN);
        let found = found.map(|install| install.line()).map_err(|refusal| refusal.to_string());
        match (found, expected) {
            (Ok(line), Ok(expected)) => assert_eq!(line, expected, "{subject}"),
            (Err(why), Err(part)) => assert!(why.contains(part), "{subject}: {why}"),
            (found, expected) => panic!("{subject}: {found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn a_plain_name_becomes_these_words_and_no_others() {
        check(Kind::Node, "clawhub", Ok("npm install -g --ignore-scripts clawhub"));
        check(
            Kind::Node,
            "@steipete/oracle@1.2.3",
            Ok("npm install -g --ignore-scripts @steipete/oracle@1.2.3"),
        );
        check(Kind::Brew, "steipete/tap/imsg", Ok("brew install steipete/tap/imsg"));
        check(Kind::Brew, "python@3.12", Ok("brew install python@3.12"));
        check(
            Kind::Go,
            "github.com/Hyaxia/blogwatcher/cmd/blogwatcher@latest",
            Ok("go install github.com/Hyaxia/blogwatcher/cmd/blogwatcher@latest"),
        );
        check(Kind::Uv, "nano-pdf", Ok("uv tool install nano-pdf"));
        check(Kind::Uv, "nano_pdf==1.0", Ok("uv tool install nano_pdf==1.0"));
    }

    #[test]
    fn a_hostile_name_becomes_nothing() {
        let plain = Err("is no plain name of");
        for kind in [Kind::Node, Kind::Brew, Kind::Go, Kind::Uv] {
            for subject in [
                "",
                "-g",
                "--prefix=/etc",
                "x; touch /tmp/canary",
                "x && id",
                "$(id)",
                "`id`",
                "x\nid",
                "x y",
                "../x",
                "/etc/passwd",
                "./x",
                "file:../x",
                "git+ssh://host/x",
                "https://host/x.tgz",
                "http://host/x",
                "npm:other@1",
                "x@file:../y",
                "x@https://host/y",
                "@/x",
                "@a/",
                "a/../b",
                "a..b/c",
                "x@-g",
                "пакет",
                "x\u{202e}y",
            ] {
                check(kind, subject, plain);
            }
            check(kind, &"a".repeat(MAX_NAME + 1), plain);
        }
        check(Kind::Node, "owner/repo", plain);
        check(Kind::Brew, "user/tap", plain);
        check(Kind::Go, "module", plain);
        check(Kind::Uv, "x[extra]", plain);
        check(Kind::Uv, "x>=1", plain);
        check(Kind::Download, "https://host/x", Err("downloads are not part of this build"));
    }

    #[test]
    fn what_others_could_have_written_is_not_followed() {
        let spec = spec(Kind::Node, "clawhub");
        let place = "/home/x/workspace".to_owned();
        assert_eq!(
            decide(&spec, &Author::Agent { place: place.clone() }, PLAIN),
            Err(InstallRefusal::AgentsSkill { place })
        );
        assert_eq!(decide(&spec, &Author::Others, PLAIN), Err(InstallRefusal::OthersSkill));
        let other = Spec { systems: vec!["darwin".to_owned()], ..spec };
        assert_eq!(decide(&other, &Author::Owner, PLAIN), Err(InstallRefusal::OtherSystem));
    }

    #[test]
    fn the_owner_chooses_the_installer() {
        let read = |text: &str| {
            let root = json5::parse(text, FileId(0)).unwrap().root;
            Preferences::of(&Config::from_tree(root, Vec::new()))
        };
        assert_eq!(read("{}"), PLAIN);
        let chosen = read("{skills: {install: {preferBrew: false, nodeManager: 'pnpm'}}}");
        let expected = Preferences { prefers_brew: false, node_manager: NodeManager::Pnpm };
        assert_eq!(chosen, expected);
        assert_eq!(read("{skills: {install: {nodeManager: '/bin/sh'}}}"), PLAIN);
        let install = decide(&spec(Kind::Node, "x"), &Author::Owner, chosen).unwrap();
        assert_eq!(install.line(), "pnpm add -g --ignore-scripts x");
        let both = [spec(Kind::Brew, "a"), spec(Kind::Node, "b")];
        let names = |preferences, has_brew| {
            let found = offered(&both, preferences, has_brew);
            found.into_iter().map(|spec| spec.label(preferences)).collect::<Vec<_>>()
        };
        assert_eq!(names(PLAIN, HasBrew::Yes), ["Install a (brew)"]);
        assert_eq!(names(PLAIN, HasBrew::No), ["Install b (npm)"]);
        assert_eq!(names(chosen, HasBrew::Yes), ["Install b (pnpm)"]);
    }
}
