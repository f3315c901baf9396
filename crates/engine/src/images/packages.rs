//! An image's content from Debian packages alone: no registry, no image below, only the package
//! sources that this machine has.
//!
//! `mmdebstrap` unpacks the packages, then runs the image's own `setup.sh` in them: the same steps
//! that the Dockerfile takes. What it says goes to a log; progress is told line by line.

use std::env;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Uid;

use super::build::BuildError;
use super::recipe::{Kind, Recipe};

const SUITE: &str = "bookworm";
/// What the image is left with, wherever its packages came from: a mirror's name may hold a password.
const SOURCES: &str = "deb http://deb.debian.org/debian bookworm main\n\
     deb http://deb.debian.org/debian bookworm-updates main\n\
     deb http://deb.debian.org/debian-security bookworm-security main\n";
/// What Debian's own slim images leave out too.
const SLIM: &[&str] = &[
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-include=/usr/share/locale/locale.alias",
    "path-exclude=/usr/share/man/*",
    // Packages with alternatives link from here.
    "path-include=/usr/share/man/man1",
];

/// Variables that a build needs of the user's.
const PASSED_ON: &[&str] = &[
    "PATH",
    "HOME",
    "TMPDIR",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "NPM_CONFIG_REGISTRY",
];

/// Why packages cannot make this image for that user; the Dockerfile may still do it.
pub(super) fn refusal(recipe: &Recipe, user: Uid) -> Option<BuildError> {
    let from = recipe.kind().from();
    let below = recipe.parameter(from);
    if below != Recipe::plain(recipe.kind()).parameter(from) {
        return Some(BuildError::OtherImageBelow { name: from, value: below.to_owned() });
    }
    let parts: Vec<&str> = recipe.parts().iter().map(|part| part.name).collect();
    (user.is_root() && !parts.is_empty())
        .then(|| BuildError::InstallersAsRoot { parts: parts.join(", ") })
}

/// Makes `archive`, a whole root file system. Files that are needed for it go to `work`.
pub(super) fn make(
    recipe: &Recipe,
    work: &Path,
    archive: &Path,
    log: &mut Log<'_>,
) -> Result<(), BuildError> {
    if !has("mmdebstrap") {
        return Err(BuildError::NoTool { tool: "mmdebstrap" });
    }
    let local = |path: &Path| {
        let path = path.to_owned();
        move |cause| BuildError::Local { what: "write", path, cause }
    };
    let mut command = Command::new("mmdebstrap");
    // Scripts of packages run as we do, so they get nothing of ours but the way to the network.
    command.env_clear().envs(PASSED_ON.iter().filter_map(|name| Some((name, env::var_os(name)?))));
    if !recipe.parts().is_empty() {
        // Others' installers run too; only here they are somebody else than the user.
        command.arg("--mode=unshare");
    }
    command.args(["--variant=minbase", "--skip=output/dev"]);
    command.arg(format!("--include={}", recipe.packages().join(",")));
    command.args(SLIM.iter().map(|option| format!("--dpkgopt={option}")));
    for (number, recipe) in steps(recipe).iter().enumerate() {
        let parameters = work.join(format!("parameters-{number}"));
        fs::write(&parameters, exports(recipe)).map_err(local(&parameters))?;
        command.arg(upload(&parameters, "/tmp/parameters"));
        for (name, contents, place) in recipe.kind().files() {
            let file = work.join(format!("{number}-{name}"));
            fs::write(&file, contents).map_err(local(&file))?;
            command.arg(upload(&file, place));
        }
        command.arg("--customize-hook=chroot \"$1\" sh -c '. /tmp/parameters && sh /tmp/setup.sh'");
        command.arg("--customize-hook=rm \"$1/tmp/parameters\" \"$1/tmp/setup.sh\"");
    }
    let sources = work.join("sources.list");
    fs::write(&sources, SOURCES).map_err(local(&sources))?;
    command.arg(upload(&sources, "/etc/apt/sources.list"));
    command.arg("--customize-hook=rm -rf \"$1\"/etc/apt/sources.list.d/0*");
    command.arg(SUITE).arg(archive).args(mirrors());
    run(&mut command, log)
}

/// Every recipe whose steps are taken, the lowest image's first.
fn steps(recipe: &Recipe) -> Vec<Recipe> {
    match recipe.kind() {
        Kind::Base | Kind::Browser => vec![recipe.clone()],
        Kind::Common => vec![Recipe::plain(Kind::Base), recipe.clone()],
    }
}

fn upload(file: &Path, place: &str) -> String {
    format!("--customize-hook=upload {} {place}", quoted(&file.to_string_lossy()))
}

fn exports(recipe: &Recipe) -> String {
    let line = |(name, value): &(String, String)| format!("export {name}={}\n", quoted(value));
    recipe.parameters().iter().map(line).collect()
}

/// One word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// This machine's own sources of the same Debian; none if it is another system.
fn mirrors() -> Vec<PathBuf> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    let more = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten();
    let mut more: Vec<PathBuf> = more.map(|entry| entry.path()).collect();
    more.sort();
    files.extend(more);
    let is_ours = |path: &PathBuf| {
        let kind = path.extension().and_then(|extension| extension.to_str());
        matches!(kind, Some("list" | "sources"))
            && fs::read_to_string(path).is_ok_and(|text| is_debian(&text))
    };
    files.retain(is_ours);
    files
}

/// Says whether a file lists the suite's main part, which no other archive is called.
fn is_debian(text: &str) -> bool {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    words.contains(&SUITE) && words.contains(&"main")
}

fn has(tool: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| directory.join(tool).is_file())
}

/// Everything that is said while an image is made: all of it into a file, the gist to the caller.
pub(super) struct Log<'a> {
    file: File,
    path: PathBuf,
    last: Vec<String>,
    tell: &'a mut dyn FnMut(&str),
}

/// Lines that an error shows.
const SHOWN: usize = 12;

impl<'a> Log<'a> {
    pub(super) fn new(path: PathBuf, tell: &'a mut dyn FnMut(&str)) -> io::Result<Self> {
        Ok(Self { file: File::create(&path)?, path, last: Vec::new(), tell })
    }

    /// A line of a program's.
    pub(super) fn line(&mut self, line: &str) {
        // A log that cannot be written must not stop the work.
        let _unwritten = writeln!(self.file, "{line}");
        self.last.push(line.to_owned());
        if self.last.len() > SHOWN {
            self.last.remove(0);
        }
        (self.tell)(line);
    }

    /// What went wrong, for a person; the part that could not be fetched, if that was it.
    pub(super) fn failed(&self, what: &'static str) -> BuildError {
        let part = self.last.iter().find_map(|line| line.split_once("clawpen: part "));
        if let Some((_, said)) = part {
            return BuildError::Part { said: format!("part {said}") };
        }
        BuildError::Failed { what, log: self.path.clone(), last: self.last.join("\n") }
    }
}

fn run(command: &mut Command, log: &mut Log<'_>) -> Result<(), BuildError> {
    let failed = |cause| BuildError::Local { what: "run", path: "mmdebstrap".into(), cause };
    let (reader, writer) = io::pipe().map_err(failed)?;
    command.stdin(Stdio::null()).stdout(writer.try_clone().map_err(failed)?).stderr(writer);
    let mut child = command.spawn().map_err(failed)?;
    // The command holds the other ends; with them open there would be no end of it.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    for line in BufReader::new(reader).split(b'\n') {
        log.line(String::from_utf8_lossy(&line.map_err(failed)?).trim_end());
    }
    if child.wait().map_err(failed)?.success() {
        return Ok(());
    }
    Err(log.failed("make the image from Debian packages"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_make_what_they_say_and_run_no_installers_as_root() {
        let (root, user) = (Uid::ROOT, Uid::from_raw(1000));
        let refused = |recipe: &Recipe, user| refusal(recipe, user).map(|error| error.to_string());
        let common = Recipe::plain(Kind::Common);
        assert!(refused(&common, root).unwrap().contains("pnpm, bun, brew"));
        assert_eq!(refused(&common, user), None);
        let offline = common.offline();
        assert_eq!(refused(&offline, root), None);
        let other = offline.with("BASE_IMAGE", "my/base").unwrap();
        assert!(refused(&other, user).unwrap().contains("`BASE_IMAGE=my/base`"));
    }

    #[test]
    fn only_debians_own_sources_are_taken() {
        for (text, expected) in [
            ("deb http://mirror/debian bookworm main contrib\n", true),
            (
                "Types: deb\nURIs: http://x\nSuites: bookworm bookworm-updates\nComponents: main\n",
                true,
            ),
            ("# deb http://mirror/debian bookworm main\n", false),
            ("deb https://download.example/linux/debian bookworm stable\n", false),
            ("deb http://mirror/debian trixie main\n", false),
        ] {
            assert_eq!(is_debian(text), expected, "{text}");
        }
    }

    #[test]
    fn parameters_reach_the_script_as_they_are() {
        let recipe = Recipe::plain(Kind::Common).with("PACKAGES", "it's $(a) trap").unwrap();
        let script = format!("{}printf %s \"$PACKAGES\"", exports(&recipe));
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "it's $(a) trap");
    }

    #[test]
    fn a_part_that_cannot_be_fetched_is_the_error() {
        let directory = tempfile::tempdir().unwrap();
        let mut heard = Vec::new();
        let mut tell = |line: &str| heard.push(line.to_owned());
        let mut log = Log::new(directory.path().join("log"), &mut tell).unwrap();
        log.line("E: something");
        assert!(matches!(log.failed("x"), BuildError::Failed { .. }));
        log.line("clawpen: part bun needs https://bun.sh/install; leave it out");
        let BuildError::Part { said } = log.failed("x") else { panic!() };
        assert_eq!(said, "part bun needs https://bun.sh/install; leave it out");
        assert_eq!(heard.len(), 2);
        assert!(fs::read_to_string(directory.path().join("log")).unwrap().contains("something"));
    }
}
