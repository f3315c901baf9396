//! `clawpen service`: has systemd start the gateway. Writes files and prints what to tell systemctl; runs nothing.
//!
//! What stood there before is kept beside it; a link in its place is refused, not followed.

mod unit;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::CommandError;
use super::mcp::own_user;
use crate::args::Format;
use crate::args::up::{ServiceArgs, ServiceCommand};
use crate::exit::Outcome;
use crate::file_change;
use crate::output::{Output, safe};
use unit::{Groups, Owner, Unit};

const UNIT_MODE: u32 = 0o644;
/// Keys of models stand there.
const VARIABLES_MODE: u32 = 0o600;

pub(crate) fn run(command: &ServiceCommand, output: &Output) -> Result<Outcome, CommandError> {
    match command {
        ServiceCommand::Install(args) => install(args, output),
        ServiceCommand::Uninstall(args) => uninstall(args, output),
    }
}

/// The files of a service, and what is in them.
struct Service {
    owner: Owner,
    unit: PathBuf,
    unit_text: String,
    variables: PathBuf,
    /// What a person should know.
    notes: Vec<String>,
}

fn install(args: &ServiceArgs, output: &Output) -> Result<Outcome, CommandError> {
    let service = service(args)?;
    let old = read(&service.unit)?;
    let has_variables = read(&service.variables)?.is_some();
    let is_new = old.as_deref() != Some(service.unit_text.as_str());
    let mut written = Vec::new();
    let mut backup = None;
    if !args.dry_run {
        if is_new {
            let text = (service.unit_text.as_str(), UNIT_MODE);
            backup = file_change::write(&service.unit, old.as_deref(), text)?;
            written.push(shown(&service.unit));
        }
        if !has_variables {
            let text = (unit::VARIABLES, VARIABLES_MODE);
            file_change::write(&service.variables, None, text)?;
            written.push(shown(&service.variables));
        }
    }
    let commands = unit::after_install(&service.owner);
    match args.format.format() {
        Format::Json => output.json(&json!({
            "unit": shown(&service.unit),
            "environmentFile": shown(&service.variables),
            "written": written,
            "backup": backup.as_deref().map(shown),
            "text": service.unit_text,
            "notes": service.notes,
            "run": commands,
        }))?,
        Format::Text => {
            let mut lines = Vec::new();
            if args.dry_run {
                lines.push(format!("# Would be written to {}", safe(&shown(&service.unit))));
                lines.push(service.unit_text.trim_end().to_owned());
                lines.push(String::new());
            } else if written.is_empty() {
                lines.push(format!("Already there: {}", safe(&shown(&service.unit))));
            }
            lines.extend(written.iter().map(|path| format!("Written: {}", safe(path))));
            lines.extend(
                backup.iter().map(|path| format!("What was there: {}", safe(&shown(path)))),
            );
            lines.extend(service.notes.iter().map(|note| format!("Note: {}", safe(note))));
            lines.push("Now run:".to_owned());
            lines.extend(commands.iter().map(|command| format!("  {command}")));
            output.lines(&lines)?;
        }
    }
    Ok(Outcome::Done)
}

fn uninstall(args: &ServiceArgs, output: &Output) -> Result<Outcome, CommandError> {
    let service = service(args)?;
    let old = read(&service.unit)?;
    if let Some(text) = &old
        && !text.starts_with(unit::MARK)
    {
        let what =
            format!("`{}` was not written by clawpen; it was left as it is", shown(&service.unit));
        return Err(CommandError::Question { what });
    }
    let is_changed = old.as_deref().is_some_and(|text| text != service.unit_text);
    let kept = is_changed.then(|| file_change::free_name(&service.unit));
    if old.is_some() && !args.dry_run {
        let done = match &kept {
            Some(kept) => fs::rename(&service.unit, kept),
            None => fs::remove_file(&service.unit),
        };
        done.map_err(|cause| CommandError::Write { path: shown(&service.unit), cause })?;
    }
    let commands = unit::after_uninstall(&service.owner);
    match args.format.format() {
        Format::Json => output.json(&json!({
            "unit": shown(&service.unit),
            "removed": old.is_some() && !args.dry_run,
            "backup": kept.as_deref().filter(|_| !args.dry_run).map(shown),
            "run": commands,
        }))?,
        Format::Text => {
            let unit = safe(&shown(&service.unit));
            let mut lines = vec![match (&old, args.dry_run) {
                (None, _) => format!("Not there: {unit}"),
                (Some(_), true) => format!("Would be removed: {unit}"),
                (Some(_), false) => format!("Removed: {unit}"),
            }];
            lines.extend(
                kept.iter()
                    .map(|path| format!("It had been changed; kept as {}", safe(&shown(path)))),
            );
            lines.push(format!("Variables stay: {}", safe(&shown(&service.variables))));
            lines.push("Now run:".to_owned());
            lines.extend(commands.iter().map(|command| format!("  {command}")));
            output.lines(&lines)?;
        }
    }
    Ok(Outcome::Done)
}

fn service(args: &ServiceArgs) -> Result<Service, CommandError> {
    let question = |what: &str| CommandError::Question { what: what.to_owned() };
    let program = std::env::current_exe()?;
    let program = program.to_str().ok_or_else(|| question("our own path is no UTF-8"))?.to_owned();
    let root = args.shape.root.as_deref();
    let below = |path: &Path| match root {
        Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
        None => path.to_owned(),
    };
    let is_system = args.system || (!args.user && own_user() == 0);
    let (owner, unit, variables) = if is_system {
        let name = unit::user_name(&args.shape.run_as).ok_or_else(|| {
            question("--run-as takes the name of a user: letters, digits, - and _ only")
        })?;
        let groups = if args.shape.no_docker {
            Groups::None
        } else if lists(&below(Path::new("/etc/group")), "docker") {
            Groups::Docker
        } else {
            Groups::DockerLater
        };
        let owner = Owner::System { name: name.to_owned(), groups };
        (
            owner,
            PathBuf::from("/etc/systemd/system/clawpen.service"),
            PathBuf::from("/etc/clawpen/gateway.env"),
        )
    } else {
        let home = std::env::home_dir().ok_or_else(|| question("there is no home directory"))?;
        let config = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
        let config =
            config.filter(|path| path.is_absolute()).unwrap_or_else(|| home.join(".config"));
        (
            Owner::User,
            config.join("systemd/user/clawpen.service"),
            config.join("clawpen/gateway.env"),
        )
    };
    let notes = notes(&program, &owner, &below(Path::new("/etc/passwd")));
    let text = unit::text(&Unit { program: &program, variables: &variables, owner: &owner });
    let unit_text =
        text.ok_or_else(|| question("a path here has characters that no unit file can hold"))?;
    Ok(Service { owner, unit: below(&unit), unit_text, variables: below(&variables), notes })
}

fn notes(program: &str, owner: &Owner, users: &Path) -> Vec<String> {
    let mut notes = Vec::new();
    if program.contains("/target/debug/") || program.contains("/target/release/") {
        notes.push(format!(
            "the service runs `{program}`, which the next build replaces; `cargo install --path crates/cli`, then install again from there"
        ));
    }
    if let Owner::System { name, groups } = owner {
        if let Some(open) = replaceable(Path::new(program)) {
            notes.push(format!(
                "others than root may replace `{}`, and with it what the service runs: install the program elsewhere, for \
                 example in /usr/local/bin, then install again from there",
                shown(&open)
            ));
        }
        if !lists(users, name) {
            notes.push(format!(
                "there is no user `{name}` yet: useradd --system --home-dir /var/lib/clawpen --shell /usr/sbin/nologin {name}; \
                 for more than one id in its pens also: usermod --add-subuids 300000-365535 --add-subgids 300000-365535 {name}"
            ));
        }
        match groups {
            Groups::Docker => notes.push(
                "the service is in the group `docker`, whose members are as good as root; --no-docker leaves it out".to_owned(),
            ),
            Groups::DockerLater => notes.push(
                "there is no group `docker` here; its line in the unit is a comment".to_owned(),
            ),
            Groups::None => {}
        }
    }
    notes
}

/// The first of a file and the directories above it that somebody else than root may change, or put another in the place
/// of.
fn replaceable(program: &Path) -> Option<PathBuf> {
    const OTHERS_MAY_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let is_open = |path: &&Path| {
        fs::symlink_metadata(path).map_or(true, |found| {
            let is_sticky = found.is_dir() && found.mode() & STICKY != 0;
            found.uid() != 0 || (found.mode() & OTHERS_MAY_WRITE != 0 && !is_sticky)
        })
    };
    program.ancestors().find(is_open).map(Path::to_owned)
}

/// Whether a file such as `/etc/passwd` has an entry of that name.
fn lists(path: &Path, name: &str) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().any(|line| line.split(':').next() == Some(name))
}

/// A file's text; `None` if there is none. `systemctl mask` puts a link there, and writing through it would reach elsewhere.
fn read(path: &Path) -> Result<Option<String>, CommandError> {
    if let Ok(target) = fs::read_link(path) {
        let what = format!(
            "`{}` is a link to `{}`; remove it first (`systemctl unmask`, if it is masked)",
            shown(path),
            target.display()
        );
        return Err(CommandError::Question { what });
    }
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(CommandError::Read { path: shown(path), cause }),
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_program_that_others_may_replace_is_named() {
        assert_eq!(replaceable(Path::new("/usr/bin/env")), None);
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().canonicalize().unwrap();
        let program = directory.join("clawpen");
        fs::write(&program, "").unwrap();
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        set(&program, 0o775);
        assert_eq!(replaceable(&program), Some(program.clone()));
        set(&program, 0o755);
        set(&directory, 0o777);
        let found = replaceable(&program);
        // Whoever is not root may replace it in any case.
        let expected = if own_user() == 0 { &directory } else { &program };
        assert_eq!(found.as_ref(), Some(expected));
    }
}
