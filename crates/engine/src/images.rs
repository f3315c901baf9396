//! The images that sandboxes are made of: which there are, whether they are current, and how they are
//! made on a machine that may not be able to pull anything.
//!
//! ```text
//! recipe ─► base image there, or pulled? ─yes─► the engine runs the Dockerfile ─┐
//!                 │                                            │ fails          ├─► labelled image
//!                 └─no─► Debian packages (mmdebstrap) ─► import ─► config ◄─────┘
//! ```
//!
//! The Dockerfiles in `images/` are part of this program. Both ways run the same `setup.sh`, take the
//! same parameters and end in the same config, and carry the same label with the hash of the recipe:
//! [`Images::check`] tells by it whether an image is the one that this release would make.

mod archive;
mod build;
mod export;
mod packages;
mod recipe;

pub use self::build::{BuildError, Built, Method, Order};
pub use self::export::ExportError;
pub use self::recipe::{Kind, Recipe, RecipeError};
pub use crate::backend::docker::engine::Gone;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::backend::docker::engine::{Engine, Patience};
use crate::backend::docker::{self, DockerFailure, Endpoint};

/// Says which of our images it is.
const KIND_LABEL: &str = "clawpen.image";
/// The hash of what it was made from.
const RECIPE_LABEL: &str = "clawpen.recipe";
/// Every parameter that was not the default, as `NAME=VALUE` with `;` between them.
const PARAMETERS_LABEL: &str = "clawpen.parameters";
/// How it was made.
const METHOD_LABEL: &str = "clawpen.method";

/// The images of one engine.
#[derive(Debug)]
pub struct Images {
    engine: Arc<Engine>,
    endpoint: Endpoint,
    /// Logs, and what is in the making.
    home: PathBuf,
}

/// An image of the engine's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    pub name: String,
    pub id: String,
    pub size: u64,
    /// In seconds since 1970.
    pub created: i64,
    pub kind: Option<Kind>,
    pub method: Option<String>,
    pub state: State,
}

/// How an image stands to the recipe of this release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Made from the recipe of this release, with the parameters that it names.
    Current,
    /// Made by us from another recipe.
    Other,
    /// Not made by us.
    Foreign,
}

impl State {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Other => "other",
            Self::Foreign => "foreign",
        }
    }
}

/// What was looked at in one image, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    pub name: String,
    /// `None` if the image is missing.
    pub image: Option<Image>,
    pub user: String,
    pub platform: String,
    /// Each with what to do; without any the image is as it should be.
    pub problems: Vec<String>,
}

/// What to do about an image that is missing, as part of a sentence.
pub fn how_to_make(image: &str) -> String {
    match Kind::of_image(image) {
        Some(kind) => format!("make it with `clawpen image build {}`", kind.as_str()),
        None => format!("fetch or make it: `docker pull {image}`, `docker build -t {image} …`"),
    }
}

/// The name of an image; a kind stands for its own.
pub fn name_of(name: &str) -> &str {
    match Kind::parse(name) {
        Some(kind) => kind.image(),
        None => name,
    }
}

impl Images {
    /// Connects to the engine that the environment leads to.
    pub fn connect(state_dir: &str) -> Result<Self, DockerFailure> {
        Self::at(&docker::locate(|name| std::env::var(name).ok())?, state_dir)
    }

    /// Connects to one engine.
    pub fn at(endpoint: &Endpoint, state_dir: &str) -> Result<Self, DockerFailure> {
        let engine = Arc::new(Engine::connect(endpoint, Patience::Usual)?);
        let home = Path::new(state_dir).join("clawpen/images");
        Ok(Self { engine, endpoint: endpoint.clone(), home })
    }

    /// The engine: its make, its version and where it is.
    pub fn engine(&self) -> (&'static str, &str, String) {
        let about = self.engine.about();
        (about.make.as_str(), &about.version, self.endpoint.text())
    }

    /// Our own images, and those of the names that configs use.
    pub fn list(&self) -> Result<Vec<Image>, DockerFailure> {
        let mut found = Vec::new();
        for summary in self.engine.images()? {
            // What lost its name to a newer one has none to show.
            for tag in summary.repo_tags.iter().filter(|tag| !tag.starts_with("<none>")) {
                let name = short(tag);
                let label = |label: &str| summary.labels.get(label).map(String::as_str);
                let is_known = Kind::of_image(&name).is_some();
                if label(KIND_LABEL).is_none() && !is_known {
                    continue;
                }
                let kind = label(KIND_LABEL).and_then(Kind::parse);
                found.push(Image {
                    name,
                    id: summary.id.clone(),
                    size: u64::try_from(summary.size).unwrap_or_default(),
                    created: summary.created,
                    kind,
                    method: label(METHOD_LABEL).map(str::to_owned),
                    state: state(kind, label(RECIPE_LABEL), label(PARAMETERS_LABEL)),
                });
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Looks at one image: of a kind, or of any name.
    pub fn check(&self, name: &str) -> Result<Checked, DockerFailure> {
        let name = name_of(name).to_owned();
        let inspected = match self.engine.image(&name) {
            Err(DockerFailure::ImageMissing { build, .. }) => {
                let problems = vec![format!("it is missing; {build}")];
                let (user, platform) = (String::new(), String::new());
                return Ok(Checked { name, image: None, user, platform, problems });
            }
            inspected => inspected?,
        };
        let config = inspected.config.unwrap_or_default();
        let labels = config.labels.unwrap_or_default();
        let label = |label: &str| labels.get(label).map(String::as_str);
        let kind = label(KIND_LABEL).and_then(Kind::parse);
        let image = Image {
            name: name.clone(),
            id: inspected.id.unwrap_or_default(),
            size: inspected.size.and_then(|size| u64::try_from(size).ok()).unwrap_or_default(),
            created: 0,
            kind,
            method: label(METHOD_LABEL).map(str::to_owned),
            state: state(kind, label(RECIPE_LABEL), label(PARAMETERS_LABEL)),
        };
        let os = inspected.os.unwrap_or_else(|| "linux".to_owned());
        let architecture = inspected.architecture.unwrap_or_default();
        let platform = format!("{os}/{architecture}");
        let user = config.user.unwrap_or_default();
        let problems = problems(&image, &platform, &user);
        Ok(Checked { name, image: Some(image), user, platform, problems })
    }

    /// Removes an image.
    pub fn remove(&self, name: &str) -> Result<Gone, DockerFailure> {
        self.engine.remove_image(name_of(name))
    }
}

fn problems(image: &Image, platform: &str, user: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let ours = format!("linux/{}", docker::architecture());
    if platform != ours {
        problems.push(format!("it is for {platform}, this machine is {ours}; build it here"));
    }
    if image.state == State::Other {
        let kind = image.kind.map_or("base", Kind::as_str);
        problems.push(format!(
            "it was made from another recipe than this release has; `clawpen image build {kind}` renews it"
        ));
    }
    let name = user.split(':').next().unwrap_or_default();
    if matches!(name, "" | "root" | "0") {
        problems.push(
            "its user is root; set `docker.user`, or a user in the image (`USER`)".to_owned(),
        );
    }
    problems
}

fn state(kind: Option<Kind>, recipe: Option<&str>, parameters: Option<&str>) -> State {
    let (Some(kind), Some(recipe)) = (kind, recipe) else { return State::Foreign };
    match Recipe::plain(kind).changed(parameters.unwrap_or_default()) {
        Some(now) if now.hash() == recipe => State::Current,
        Some(_) | None => State::Other,
    }
}

/// Podman shows whole names, such as `docker.io/library/x:1` and `localhost/x:1`.
fn short(name: &str) -> String {
    let short = name.strip_prefix("docker.io/library/").or_else(|| name.strip_prefix("localhost/"));
    short.unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_image_is_named_with_what_makes_it() {
        let of = how_to_make;
        assert_eq!(of("openclaw-sandbox:bookworm-slim"), "make it with `clawpen image build base`");
        assert_eq!(
            of("openclaw-sandbox-browser:bookworm-slim"),
            "make it with `clawpen image build browser`"
        );
        assert!(of("my/own:1").contains("docker pull my/own:1"));
    }

    #[test]
    fn an_image_of_another_recipe_is_told_from_a_current_one() {
        let current = Recipe::plain(Kind::Base).hash();
        assert_eq!(state(Some(Kind::Base), Some(&current), None), State::Current);
        assert_eq!(state(Some(Kind::Common), Some(&current), None), State::Other);
        assert_eq!(state(Some(Kind::Base), None, None), State::Foreign);
        assert_eq!(state(None, Some(&current), None), State::Foreign);
        let changed = Recipe::plain(Kind::Base).with("PACKAGES", "git jq").unwrap();
        let (hash, written) = (changed.hash(), changed.changes().join(";"));
        assert_eq!(state(Some(Kind::Base), Some(&hash), Some(&written)), State::Current);
        assert_eq!(state(Some(Kind::Base), Some(&hash), Some("PACKAGES=git")), State::Other);
    }

    #[test]
    fn a_foreign_architecture_an_old_recipe_and_root_are_problems() {
        let image = |state| Image {
            name: "x".into(),
            id: "1".into(),
            size: 1,
            created: 1,
            kind: Some(Kind::Common),
            method: None,
            state,
        };
        let ours = format!("linux/{}", docker::architecture());
        assert_eq!(problems(&image(State::Current), &ours, "sandbox"), Vec::<String>::new());
        let found = problems(&image(State::Other), "linux/s390x", "0:0");
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[1].contains("clawpen image build common"), "{found:?}");
    }
}
