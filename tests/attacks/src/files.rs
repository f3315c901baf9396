//! Files of the host, by name and by trick.

use crate::system::{given, judge, read};
use crate::{Attack, Outcome};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "etc-shadow", about: "read the password file", run: || read("/etc/shadow") },
    Attack { name: "root-home", about: "list root's home", run: || list("/root") },
    Attack { name: "homes", about: "list the users' homes", run: canary_home },
    Attack { name: "canary-file", about: "read a file of the host by its path", run: canary_file },
    Attack {
        name: "canary-by-dots",
        about: "the same by climbing out of the working directory",
        run: canary_by_dots,
    },
    Attack {
        name: "canary-by-link",
        about: "the same through a link in the workspace",
        run: canary_by_link,
    },
    Attack {
        name: "canary-hard-link",
        about: "link a file of the host into the workspace",
        run: canary_hard_link,
    },
    Attack {
        name: "canary-by-proc-cwd",
        about: "the same through another process' directories",
        run: canary_by_proc,
    },
    Attack { name: "canary-rename", about: "move a file of the host", run: canary_rename },
    Attack { name: "host-tmp", about: "see the host's /tmp", run: host_tmp },
    Attack {
        name: "host-config",
        about: "read the config that decides about this pen",
        run: host_config,
    },
    Attack {
        name: "write-outside",
        about: "write a file where the host would find it",
        run: write_outside,
    },
];

fn list(path: &str) -> Outcome {
    match std::fs::read_dir(path) {
        Ok(entries) => match entries.count() {
            0 => Outcome::Blocked(format!("{path} is empty here")),
            count => Outcome::Escaped(format!("{path} has {count} entries")),
        },
        Err(error) => Outcome::Blocked(format!("{path}: {error}")),
    }
}

fn with_canary(attack: fn(&str) -> Outcome) -> Outcome {
    match given("CANARY_FILE") {
        Ok(path) => attack(&path),
        Err(outcome) => outcome,
    }
}

fn canary_home() -> Outcome {
    with_canary(|path| list(path.rsplit_once('/').map_or("/", |(directory, _)| directory)))
}

fn canary_file() -> Outcome {
    with_canary(read)
}

fn canary_by_dots() -> Outcome {
    with_canary(|path| read(&format!("{}{path}", "../".repeat(20).trim_end_matches('/'))))
}

fn canary_by_link() -> Outcome {
    with_canary(|path| {
        let link = workspace("link");
        let _ = std::fs::remove_file(&link);
        if let Err(error) = std::os::unix::fs::symlink(path, &link) {
            return Outcome::CannotTry(format!("{link}: {error}"));
        }
        let outcome = read(&link);
        let _ = std::fs::remove_file(&link);
        outcome
    })
}

fn canary_hard_link() -> Outcome {
    with_canary(|path| {
        let link = workspace("hard");
        let _ = std::fs::remove_file(&link);
        let result = std::fs::hard_link(path, &link);
        let _ = std::fs::remove_file(&link);
        judge("linked the canary", result)
    })
}

fn canary_by_proc() -> Outcome {
    with_canary(|path| {
        for place in
            ["/proc/1/root", "/proc/1/cwd", "/proc/self/root", "/proc/self/cwd/../../../.."]
        {
            if let escaped @ Outcome::Escaped(_) = read(&format!("{place}{path}")) {
                return escaped;
            }
        }
        Outcome::Blocked("no way through /proc".to_owned())
    })
}

fn canary_rename() -> Outcome {
    with_canary(|path| judge("renamed the canary to itself", std::fs::rename(path, path)))
}

fn host_tmp() -> Outcome {
    match given("CANARY_TMP") {
        Ok(path) => read(&path),
        Err(outcome) => outcome,
    }
}

fn host_config() -> Outcome {
    match given("CANARY_CONFIG") {
        Ok(path) => read(&path),
        Err(outcome) => outcome,
    }
}

fn write_outside() -> Outcome {
    with_canary(|path| {
        let beside = format!("{path}.written");
        judge("wrote beside the canary", std::fs::write(beside, b"x"))
    })
}

fn workspace(name: &str) -> String {
    let directory = std::env::var("ATTACK_DIRECTORY").unwrap_or_else(|_unset| "/tmp".to_owned());
    format!("{directory}/clawpen-attack-{name}")
}
