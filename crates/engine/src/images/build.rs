//! Makes one of our images: by its Dockerfile, or from Debian packages.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::packages::{self, Log};
use super::recipe::{Kind, Part, Recipe};
use super::{Images, KIND_LABEL, METHOD_LABEL, PARAMETERS_LABEL, RECIPE_LABEL, short};
use crate::backend::docker::DockerFailure;
use crate::backend::docker::engine::{Build, Import};

/// Long enough for a far host, short enough for a person.
const REACHED_WITHIN: Duration = Duration::from_secs(5);

/// How the directories of what is in the making are called.
const WORK: &str = "work-";
/// Under this name the engine has an image's files before it has the image.
const CONTENT: &str = "clawpen-content";

/// What to make, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    pub recipe: Recipe,
    /// The name that it gets.
    pub image: String,
    pub method: Method,
}

/// The ways to make an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The Dockerfile if the image below is there or can be had, else packages.
    Auto,
    Dockerfile,
    Packages,
}

impl Method {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Dockerfile => "dockerfile",
            Self::Packages => "packages",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Auto, Self::Dockerfile, Self::Packages].into_iter().find(|way| way.as_str() == text)
    }
}

/// An image that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    pub image: String,
    pub id: String,
    pub size: u64,
    pub recipe: String,
    /// The way that worked.
    pub method: Method,
    pub took: Duration,
    pub log: PathBuf,
}

/// There is no image.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error(transparent)]
    Engine(#[from] DockerFailure),
    #[error(
        "`{tool}` is missing, and the image below cannot be had either; install it with `apt-get install {tool}`, or pull the image where there is a network"
    )]
    NoTool { tool: &'static str },
    #[error("cannot {what}; all that was said is in `{}`:\n{last}", .log.display())]
    Failed { what: &'static str, log: PathBuf, last: String },
    #[error("{}; or leave out all of them with `--offline`", .0.join("; "))]
    Parts(Vec<String>),
    #[error("{said}; or build with `--offline`")]
    Part { said: String },
    #[error(
        "`{name}={value}` names an image to start from, and packages start from none; build with `--method dockerfile` where the engine has or can pull it"
    )]
    OtherImageBelow { name: &'static str, value: String },
    #[error(
        "the parts {parts} run installers of others, which root must not do outside a container; leave them out with `--offline`, build with `--method dockerfile`, or build as an ordinary user"
    )]
    InstallersAsRoot { parts: String },
    #[error("not by its Dockerfile: {dockerfile}\nnor from Debian packages")]
    NeitherWay {
        dockerfile: String,
        #[source]
        packages: Box<Self>,
    },
    #[error("cannot {what} `{}`", .path.display())]
    Local {
        what: &'static str,
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
}

/// A directory for what is in the making; gone with the value.
struct Work(PathBuf);

impl Work {
    fn new(home: &Path) -> Result<Self, BuildError> {
        let path = home.join(format!("{WORK}{}", std::process::id()));
        let failed = |cause| BuildError::Local { what: "make", path: path.clone(), cause };
        DirBuilder::new().recursive(true).mode(0o755).create(&path).map_err(failed)?;
        Ok(Self(path))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // What stays is taken away by the next build.
        let _unremoved = fs::remove_dir_all(&self.0);
    }
}

impl Images {
    /// Makes an image and tells what is being done. One at a time: another build is waited for.
    pub fn build(&self, order: &Order, tell: &mut dyn FnMut(&str)) -> Result<Built, BuildError> {
        let start = Instant::now();
        let _lock = lock(&self.home, tell)?;
        self.clear_up()?;
        let path = self.home.join(format!("{}.log", order.recipe.kind()));
        let local = |cause| BuildError::Local { what: "write", path: path.clone(), cause };
        let mut log = Log::new(path.clone(), tell).map_err(local)?;
        let method = self.make(order, &mut log)?;
        let made = self.engine.image(&order.image)?;
        Ok(Built {
            image: order.image.clone(),
            id: made.id.unwrap_or_default(),
            size: made.size.and_then(|size| u64::try_from(size).ok()).unwrap_or_default(),
            recipe: order.recipe.hash(),
            method,
            took: start.elapsed(),
            log: path,
        })
    }

    /// Takes away what a build or an unpacking that was killed has left in the engine. With the lock.
    pub(super) fn clear_up(&self) -> Result<(), DockerFailure> {
        self.engine.remove_exports(&self.export_mark())?;
        for tag in self.engine.images()?.iter().flat_map(|image| &image.repo_tags) {
            if short(tag).split_once(':').is_some_and(|(name, _)| name == CONTENT) {
                self.engine.remove_image(tag)?;
            }
        }
        Ok(())
    }

    /// Gives the way that worked.
    fn make(&self, order: &Order, log: &mut Log<'_>) -> Result<Method, BuildError> {
        match order.method {
            Method::Packages => self.by_packages(order, log).map(|()| Method::Packages),
            Method::Dockerfile => {
                self.have_below(order, log)?;
                self.by_dockerfile(order, log).map(|()| Method::Dockerfile)
            }
            Method::Auto => {
                let built =
                    self.have_below(order, log).and_then(|()| self.by_dockerfile(order, log));
                let error = match built {
                    Ok(()) => return Ok(Method::Dockerfile),
                    Err(part @ BuildError::Part { .. }) => return Err(part),
                    Err(error) => error.to_string(),
                };
                log.line(&format!("not by its Dockerfile: {error}"));
                log.line("making it from Debian packages instead");
                match self.by_packages(order, log) {
                    Ok(()) => Ok(Method::Packages),
                    Err(
                        refused @ (BuildError::OtherImageBelow { .. }
                        | BuildError::InstallersAsRoot { .. }),
                    ) => {
                        let packages = Box::new(refused);
                        Err(BuildError::NeitherWay { dockerfile: error, packages })
                    }
                    Err(failed) => Err(failed),
                }
            }
        }
    }

    /// Makes sure of the image that the Dockerfile starts from.
    fn have_below(&self, order: &Order, log: &mut Log<'_>) -> Result<(), BuildError> {
        let below = order.recipe.parameter(order.recipe.kind().from());
        match self.engine.image(below) {
            Ok(_) => return Ok(()),
            Err(DockerFailure::ImageMissing { .. }) => {}
            Err(failure) => return Err(failure.into()),
        }
        if below == Kind::Base.image() {
            log.line(&format!("{below} is missing and made first"));
            let base = Order {
                recipe: Recipe::plain(Kind::Base),
                image: below.to_owned(),
                method: order.method,
            };
            return self.make(&base, log).map(|_way| ());
        }
        log.line(&format!("pulling {below}"));
        Ok(self.engine.pull(below, &mut |line| log.line(line))?)
    }

    fn by_dockerfile(&self, order: &Order, log: &mut Log<'_>) -> Result<(), BuildError> {
        let recipe = &order.recipe;
        let build = Build {
            image: &order.image,
            context: &recipe.context(),
            arguments: recipe.parameters(),
            labels: &labels(recipe, Method::Dockerfile),
        };
        let done = self.engine.build(build, &mut |line| log.line(line));
        done.map_err(|failure| {
            log.line(&failure.to_string());
            log.failed("build the image by its Dockerfile")
        })
    }

    fn by_packages(&self, order: &Order, log: &mut Log<'_>) -> Result<(), BuildError> {
        let recipe = &order.recipe;
        check(recipe)?;
        let work = Work::new(&self.home)?;
        let archive = work.0.join("root.tar");
        packages::make(recipe, &work.0, &archive, log)?;
        let content = format!("{CONTENT}:{}", recipe.hash());
        log.line("handing the files to the engine");
        let import = Import { archive: &archive, image: &content };
        let imported = self.engine.import(import, &mut |line| log.line(line));
        imported.map_err(|failure| {
            log.line(&failure.to_string());
            log.failed("hand the image's files to the engine")
        })?;
        let build = Build {
            image: &order.image,
            context: &recipe.config_context(&content),
            arguments: &config_parameters(recipe),
            labels: &labels(recipe, Method::Packages),
        };
        let configured = self.engine.build(build, &mut |line| log.line(line));
        // Its layers stay as long as the image does; only this name goes.
        self.engine.remove_image(&content)?;
        configured.map_err(|failure| {
            log.line(&failure.to_string());
            log.failed("configure the image")
        })
    }

    /// Makes an image's files without any engine; for [`Images::export`]'s place.
    pub fn unpack(
        recipe: &Recipe,
        state_dir: &str,
        directory: &Path,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), BuildError> {
        check(recipe)?;
        let home = Path::new(state_dir).join("clawpen/images");
        let _lock = lock(&home, tell)?;
        let work = Work::new(&home)?;
        let path = home.join(format!("{}.log", recipe.kind()));
        let local = |cause| BuildError::Local { what: "write", path: path.clone(), cause };
        let mut log = Log::new(path.clone(), tell).map_err(local)?;
        let archive = work.0.join("root.tar");
        packages::make(recipe, &work.0, &archive, &mut log)?;
        let local = |cause| BuildError::Local { what: "read", path: archive.clone(), cause };
        let mut file = File::open(&archive).map_err(local)?;
        super::export::unpack(directory, |sink| io::copy(&mut file, sink).map(drop))
            .map_err(|cause| BuildError::Local { what: "unpack to", path: directory.into(), cause })
    }
}

fn labels(recipe: &Recipe, method: Method) -> Vec<(String, String)> {
    let label = |name: &str, value: String| (name.to_owned(), value);
    vec![
        label(KIND_LABEL, recipe.kind().as_str().to_owned()),
        label(RECIPE_LABEL, recipe.hash()),
        label(PARAMETERS_LABEL, recipe.changes().join(";")),
        label(METHOD_LABEL, method.as_str().to_owned()),
    ]
}

/// Only the parameters that stand in the config: an engine complains about others.
fn config_parameters(recipe: &Recipe) -> Vec<(String, String)> {
    let from = recipe.kind().from();
    recipe.parameters().iter().filter(|(name, _)| name != from).cloned().collect()
}

/// One build at a time below a state directory.
pub(super) fn lock(home: &Path, tell: &mut dyn FnMut(&str)) -> Result<File, BuildError> {
    let path = home.join("lock");
    let failed = |cause| BuildError::Local { what: "lock", path: path.clone(), cause };
    DirBuilder::new().recursive(true).mode(0o700).create(home).map_err(failed)?;
    let file = File::create(&path).map_err(failed)?;
    if file.try_lock().is_err() {
        tell("waiting for another build");
        file.lock().map_err(failed)?;
    }
    // Whoever made these was killed: nobody else builds now.
    for left in fs::read_dir(home).map_err(failed)?.flatten() {
        if left.file_name().as_encoded_bytes().starts_with(WORK.as_bytes()) {
            fs::remove_dir_all(left.path()).map_err(failed)?;
        }
    }
    Ok(file)
}

/// Says what would fail before anything is made.
fn check(recipe: &Recipe) -> Result<(), BuildError> {
    check_parts(&recipe.parts())?;
    packages::refusal(recipe, rustix::process::geteuid()).map_or(Ok(()), Err)
}

/// Names every part whose host cannot be reached, before anything is fetched. Through a proxy nothing
/// can be said ahead; the script says it then.
fn check_parts(parts: &[Part]) -> Result<(), BuildError> {
    let has_proxy = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "NPM_CONFIG_REGISTRY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    if has_proxy {
        return Ok(());
    }
    let missing: Vec<String> = parts
        .iter()
        .filter(|part| !answers(part.host))
        .map(|part| {
            let Part { name, parameter, host } = part;
            format!(
                "part `{name}` needs `{host}`, which cannot be reached from here; leave it out with `--set {parameter}=0`"
            )
        })
        .collect();
    if missing.is_empty() { Ok(()) } else { Err(BuildError::Parts(missing)) }
}

/// Looking a name up has no deadline of its own, so somebody else does it.
fn answers(host: &str) -> bool {
    let (sender, receiver) = mpsc::channel();
    let host = host.to_owned();
    std::thread::spawn(move || {
        let found = (host.as_str(), 443).to_socket_addrs().into_iter().flatten();
        let reached =
            found.take(2).any(|at| TcpStream::connect_timeout(&at, REACHED_WITHIN).is_ok());
        // Nobody waits any more if this comes too late.
        let _late = sender.send(reached);
    });
    receiver.recv_timeout(REACHED_WITHIN * 2).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_that_cannot_be_had_is_named_with_its_switch() {
        let part = |name, parameter| Part { name, parameter, host: "nowhere.invalid" };
        let parts = [part("bun", "INSTALL_BUN"), part("brew", "INSTALL_BREW")];
        // Through a proxy nothing is known ahead.
        if std::env::var_os("https_proxy").is_some() || std::env::var_os("HTTPS_PROXY").is_some() {
            assert!(check_parts(&parts).is_ok());
            return;
        }
        let said = check_parts(&parts).unwrap_err().to_string();
        for word in ["`bun`", "INSTALL_BUN=0", "`brew`", "INSTALL_BREW=0", "--offline"] {
            assert!(said.contains(word), "{said}");
        }
        assert!(check_parts(&[]).is_ok());
    }
}
