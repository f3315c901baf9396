//! What an image is made from: its Dockerfile, the files beside it and its parameters.
//!
//! The Dockerfile is the only place that says what is in an image. Its `ARG` lines are the
//! parameters, with their defaults; `RUN` and `COPY` make content and are left to `setup.sh`, which
//! runs without an engine as well; the rest (`USER`, `ENV`, `CMD`, …) is config.

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::archive::Entry;

/// One of our images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Base,
    Common,
    Browser,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Base, Self::Common, Self::Browser];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Common => "common",
            Self::Browser => "browser",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// The name that configs use.
    pub const fn image(self) -> &'static str {
        match self {
            Self::Base => "openclaw-sandbox:bookworm-slim",
            Self::Common => "openclaw-sandbox-common:bookworm-slim",
            Self::Browser => "openclaw-sandbox-browser:bookworm-slim",
        }
    }

    /// The kind that configs call so.
    pub fn of_image(image: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.image() == image)
    }

    /// The parameter that names the image below it.
    pub(super) const fn from(self) -> &'static str {
        match self {
            Self::Base | Self::Browser => "DEBIAN_IMAGE",
            Self::Common => "BASE_IMAGE",
        }
    }

    const fn dockerfile(self) -> &'static str {
        match self {
            Self::Base => include_str!("../../../../images/base/Dockerfile"),
            Self::Common => include_str!("../../../../images/common/Dockerfile"),
            Self::Browser => include_str!("../../../../images/browser/Dockerfile"),
        }
    }

    /// Name in the context, contents, and where it ends up in an image made without an engine.
    pub(super) const fn files(self) -> &'static [(&'static str, &'static str, &'static str)] {
        match self {
            Self::Base => {
                &[("setup.sh", include_str!("../../../../images/base/setup.sh"), "/tmp/setup.sh")]
            }
            Self::Common => {
                &[("setup.sh", include_str!("../../../../images/common/setup.sh"), "/tmp/setup.sh")]
            }
            Self::Browser => &[
                (
                    "entrypoint.sh",
                    include_str!("../../../../images/browser/entrypoint.sh"),
                    "/usr/local/bin/openclaw-sandbox-browser",
                ),
                ("setup.sh", include_str!("../../../../images/browser/setup.sh"), "/tmp/setup.sh"),
            ],
        }
    }
}

/// Something that no Debian package brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) name: &'static str,
    /// Switches it.
    pub(super) parameter: &'static str,
    pub(super) host: &'static str,
}

/// The parts of the common image, in the order of its script.
const PARTS: [Part; 4] = [
    Part { name: "node", parameter: "INSTALL_NODE", host: "nodejs.org" },
    Part { name: "pnpm", parameter: "INSTALL_PNPM", host: "npmjs.com" },
    Part { name: "bun", parameter: "INSTALL_BUN", host: "bun.sh" },
    Part { name: "brew", parameter: "INSTALL_BREW", host: "github.com" },
];

/// A kind of image with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    kind: Kind,
    /// Every parameter, in the order of the Dockerfile.
    parameters: Vec<(String, String)>,
}

/// A parameter that the image does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the image `{}` has no parameter `{name}`; it has {}", .kind.as_str(), .known.join(", "))]
pub struct RecipeError {
    pub kind: Kind,
    pub name: String,
    pub known: Vec<String>,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Recipe {
    /// The recipe with every default.
    pub fn plain(kind: Kind) -> Self {
        let arguments = kind.dockerfile().lines().filter_map(|line| line.strip_prefix("ARG "));
        let parameters = arguments.filter_map(|argument| {
            let (name, value) = argument.split_once('=')?;
            Some((name.to_owned(), value.trim_matches('"').to_owned()))
        });
        Self { kind, parameters: parameters.collect() }
    }

    /// Sets one parameter.
    pub fn with(mut self, name: &str, value: &str) -> Result<Self, RecipeError> {
        let Some((_, known)) = self.parameters.iter_mut().find(|(known, _)| known == name) else {
            let known = self.parameters.into_iter().map(|(name, _)| name).collect();
            return Err(RecipeError { kind: self.kind, name: name.to_owned(), known });
        };
        value.clone_into(known);
        Ok(self)
    }

    /// Leaves out everything that Debian does not bring.
    #[must_use]
    pub fn offline(mut self) -> Self {
        for (name, value) in &mut self.parameters {
            if PARTS.iter().any(|part| part.parameter == name) {
                "0".clone_into(value);
            }
        }
        self
    }

    /// Every parameter that is not the default, as `NAME=VALUE`.
    pub(super) fn changes(&self) -> Vec<String> {
        let plain = Self::plain(self.kind);
        let changed = self.parameters.iter().filter(|pair| !plain.parameters.contains(pair));
        changed.map(|(name, value)| format!("{name}={value}")).collect()
    }

    /// The recipe with the parameters that an image names; `None` if this release has others.
    pub(super) fn changed(self, changes: &str) -> Option<Self> {
        let mut pairs = changes.split(';').filter(|change| !change.is_empty());
        pairs.try_fold(self, |recipe, change| {
            let (name, value) = change.split_once('=')?;
            recipe.with(name, value).ok()
        })
    }

    pub const fn kind(&self) -> Kind {
        self.kind
    }

    pub fn parameters(&self) -> &[(String, String)] {
        &self.parameters
    }

    pub(super) fn parameter(&self, name: &str) -> &str {
        let found = self.parameters.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    /// The parts that are switched on and need more than Debian.
    pub(super) fn parts(&self) -> Vec<Part> {
        PARTS.into_iter().filter(|part| self.parameter(part.parameter) == "1").collect()
    }

    /// The Debian packages of an image made without another one below it.
    pub(super) fn packages(&self) -> Vec<String> {
        let mut packages: Vec<String> = match self.kind {
            Kind::Base | Kind::Browser => Vec::new(),
            Kind::Common => Self::plain(Kind::Base).packages(),
        };
        packages.extend(self.parameter("PACKAGES").split_whitespace().map(str::to_owned));
        if self.parameter("INSTALL_GH") == "1" {
            packages.push("gh".to_owned());
        }
        let mut seen = Vec::new();
        packages.retain(|package| {
            let is_new = !seen.contains(package);
            seen.push(package.clone());
            is_new
        });
        packages
    }

    /// The context of a build that starts from the image below.
    pub(super) fn context(&self) -> Vec<u8> {
        let mut entries = vec![Entry {
            name: "Dockerfile",
            contents: self.kind.dockerfile().as_bytes(),
            mode: 0o644,
        }];
        entries.extend(self.kind.files().iter().map(|(name, contents, _)| Entry {
            name,
            contents: contents.as_bytes(),
            mode: 0o755,
        }));
        super::archive::write(&entries)
    }

    /// The context of a build that gives `content`, which has everything, the recipe's config.
    pub(super) fn config_context(&self, content: &str) -> Vec<u8> {
        let mut lines = vec![format!("FROM {content}")];
        let mut below = match self.kind {
            Kind::Base | Kind::Browser => Vec::new(),
            Kind::Common => config_lines(Kind::Base),
        };
        below.extend(config_lines(self.kind));
        lines.extend(below.into_iter().map(str::to_owned));
        let text = lines.join("\n") + "\n";
        let dockerfile = Entry { name: "Dockerfile", contents: text.as_bytes(), mode: 0o644 };
        super::archive::write(&[dockerfile])
    }

    /// A name for everything that goes into it.
    pub fn hash(&self) -> String {
        let mut hash = Sha256::new();
        let mut add = |text: &str| {
            // Length first: no two lists of texts give the same bytes.
            hash.update(text.len().to_le_bytes());
            hash.update(text.as_bytes());
        };
        add(self.kind.as_str());
        add(self.kind.dockerfile());
        for (name, contents, _) in self.kind.files() {
            add(name);
            add(contents);
        }
        for (name, value) in &self.parameters {
            add(name);
            add(value);
        }
        let digest = hash.finalize();
        let half = digest.iter().take(16).fold(0_u128, |sum, byte| (sum << 8) | u128::from(*byte));
        format!("{half:032x}")
    }
}

/// The lines that say how an image is used; its parameters may stand in them.
fn config_lines(kind: Kind) -> Vec<&'static str> {
    let after_from =
        kind.dockerfile().lines().skip_while(|line| !line.starts_with("FROM ")).skip(1);
    let is_config = |line: &&str| {
        let word = line.split(' ').next().unwrap_or_default();
        matches!(word, "ARG" | "USER" | "WORKDIR" | "ENV" | "EXPOSE" | "CMD" | "ENTRYPOINT")
    };
    after_from.filter(is_config).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameters_are_those_of_the_dockerfile() {
        let names = |kind| -> Vec<String> {
            Recipe::plain(kind).parameters.into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names(Kind::Base), ["DEBIAN_IMAGE", "PACKAGES"]);
        assert_eq!(names(Kind::Browser), ["DEBIAN_IMAGE", "PACKAGES"]);
        let expected = [
            "BASE_IMAGE",
            "PACKAGES",
            "INSTALL_GH",
            "INSTALL_NODE",
            "NODE_MAJOR",
            "INSTALL_PNPM",
            "INSTALL_BUN",
            "BUN_INSTALL_DIR",
            "INSTALL_BREW",
            "BREW_INSTALL_DIR",
            "FINAL_USER",
        ];
        assert_eq!(names(Kind::Common), expected);
        let base = Recipe::plain(Kind::Base);
        assert!(base.parameter("DEBIAN_IMAGE").contains("@sha256:"));
        assert_eq!(base.packages().join(" "), "bash ca-certificates curl git jq python3 ripgrep");
        let refused = base.with("INSTALL_BUN", "0").unwrap_err();
        assert!(refused.to_string().contains("DEBIAN_IMAGE, PACKAGES"), "{refused}");
    }

    #[test]
    fn every_change_of_a_recipe_changes_its_hash() {
        let plain = Recipe::plain(Kind::Common);
        let changed = plain.clone().with("PACKAGES", "git").unwrap();
        assert_ne!(plain.hash(), changed.hash());
        assert_ne!(plain.hash(), plain.clone().offline().hash());
        assert_ne!(Recipe::plain(Kind::Base).hash(), Recipe::plain(Kind::Browser).hash());
        assert_eq!(plain.hash(), Recipe::plain(Kind::Common).hash());
    }

    #[test]
    fn without_the_open_internet_only_debian_is_left() {
        let plain = Recipe::plain(Kind::Common);
        let names = |recipe: &Recipe| -> Vec<&str> {
            recipe.parts().iter().map(|part| part.name).collect()
        };
        assert_eq!(names(&plain), ["pnpm", "bun", "brew"]);
        assert_eq!(names(&plain.clone().offline()), Vec::<&str>::new());
        let with_gh = plain.with("INSTALL_GH", "1").unwrap();
        assert!(with_gh.packages().contains(&"gh".to_owned()));
        // The base image's own come first, and none twice.
        assert_eq!(with_gh.packages().iter().filter(|package| *package == "git").count(), 1);
        assert_eq!(with_gh.packages()[0], "bash");
    }

    #[test]
    fn the_config_of_an_image_is_the_same_however_it_is_made() {
        assert_eq!(
            config_lines(Kind::Base),
            [
                "USER root",
                "ARG PACKAGES=\"bash ca-certificates curl git jq python3 ripgrep\"",
                "USER sandbox",
                "WORKDIR /home/sandbox",
                "CMD [\"sleep\", \"infinity\"]",
            ]
        );
        let common = String::from_utf8(Recipe::plain(Kind::Common).config_context("x:1")).unwrap();
        assert!(common.contains("FROM x:1\n"), "{common}");
        assert!(common.contains("USER ${FINAL_USER}\n") && common.contains("CMD [\"sleep\""));
        assert!(!common.contains("RUN ") && !common.contains("COPY "));
    }
}
