//! Where `fs-path` rows are answered differently on purpose.

pub(super) mod bridge;
mod model;

use serde_json::{Value, json};

use super::Rule;
use model::{Asked, inside, normal};

/// In the order they are applied: first what a path means, then how it is written, then what may
/// be done with it.
pub(super) const RULES: &[Rule] = &[
    LAST_BIND.of("mounts"),
    LAST_BIND.of("binds"),
    ABSOLUTE_SOURCES.of("mounts"),
    TIDY_ROOTS.of("mounts"),
    DOTS.of("resolve"),
    DOTS.of("binds"),
    DOTS.of("lexical"),
    DOTS.of("guard"),
    DOTS.of("media"),
    WORKING_DIRECTORY.of("resolve"),
    WORKING_DIRECTORY.of("binds"),
    LINKS.of("resolve"),
    LINKS.of("binds"),
    NORMAL.of("resolve"),
    NORMAL.of("binds"),
    NORMAL.of("lexical"),
    NORMAL.of("guard"),
    NORMAL.of("media"),
    HIDDEN.of("resolve"),
    HIDDEN.of("binds"),
    UNREADABLE.of("resolve"),
    UNREADABLE.of("binds"),
    UNREADABLE.of("lexical"),
    UNREADABLE.of("guard"),
    UNREADABLE.of("media"),
    REMOTE_URLS.of("media"),
    NONE_IS_WRITABLE.of("mounts"),
    NONE_IS_WRITABLE.of("resolve"),
    NONE_IS_WRITABLE.of("binds"),
];

/// One difference, whatever the category.
struct Difference {
    name: &'static str,
    applies: fn(&Value) -> bool,
    transform: fn(&Value, Value) -> Value,
}

impl Difference {
    const fn of(&self, category: &'static str) -> Rule {
        Rule { name: self.name, category, applies: self.applies, transform: self.transform }
    }
}

fn is_error(expected: &Value) -> bool {
    expected["error"].is_string()
}

/// The recorded sentence for a path outside, as our answer to other paths too.
fn escape(asked: &Asked) -> Value {
    json!({ "error": format!("Path escapes sandbox root ({}): {}", asked.root, asked.given) })
}

const NONE_IS_WRITABLE: Difference = Difference {
    name: "workspace-none-is-writable",
    applies: |input| input["sandbox"]["workspaceAccess"] == "none",
    transform: |input, mut expected| {
        for mount in expected["mounts"].as_array_mut().into_iter().flatten() {
            if mount["source"] == "workspace" {
                mount["writable"] = true.into();
            }
        }
        if let Some(path) = expected["containerPath"].as_str() {
            let mounts = model::mounts(input);
            if model::owner(&mounts, path).is_some_and(|mount| mount.kind == "workspace") {
                expected["writable"] = true.into();
            }
        }
        expected
    },
};

const LAST_BIND: Difference = Difference {
    name: "last-bind-of-a-target-counts",
    applies: |input| model::all_binds(input).len() != model::binds(input).len(),
    transform: |input, mut expected| {
        let kept = model::binds(input);
        if let Some(mounts) = expected["mounts"].as_array_mut() {
            mounts.retain(|mount| mount["source"] != "bind");
            mounts.extend(kept.iter().map(model::Mount::json));
            return expected;
        }
        let Some(path) = expected["containerPath"].as_str().map(str::to_owned) else {
            return expected;
        };
        let Some(bind) = kept.iter().find(|bind| inside(&bind.target, &path).is_some()) else {
            return expected;
        };
        let host = model::tidy(expected["hostPath"].as_str().unwrap_or_default());
        if inside(&bind.host, &host).is_some() {
            return expected;
        }
        let asked = Asked::new(input);
        if asked.is_container_path() { bind.answer(input, &path) } else { escape(&asked) }
    },
};

const ABSOLUTE_SOURCES: Difference = Difference {
    name: "binds-come-from-absolute-paths",
    applies: |input| {
        let binds = input["sandbox"]["binds"].as_array().into_iter().flatten();
        binds.filter_map(Value::as_str).any(|bind| !model::is_absolute(bind.trim()))
    },
    transform: |input, mut expected| {
        let known = model::all_binds(input);
        if let Some(mounts) = expected["mounts"].as_array_mut() {
            mounts.retain(|mount| {
                let host = model::tidy(mount["hostRoot"].as_str().unwrap_or_default());
                mount["source"] != "bind" || known.iter().any(|bind| bind.host == host)
            });
        }
        expected
    },
};

const TIDY_ROOTS: Difference = Difference {
    name: "container-roots-have-no-trailing-slash",
    applies: |input| {
        let sandbox = &input["sandbox"];
        let binds = sandbox["binds"].as_array().into_iter().flatten();
        let targets = binds.filter_map(|bind| bind.as_str()?.split(':').nth(1));
        let workdir = sandbox["containerWorkdir"].as_str().unwrap_or_default();
        targets.chain([workdir]).any(|root| root.trim().ends_with('/'))
    },
    transform: |_, mut expected| {
        for mount in expected["mounts"].as_array_mut().into_iter().flatten() {
            let root = mount["containerRoot"].as_str().unwrap_or_default();
            if root.len() > 1 && root.ends_with('/') {
                mount["containerRoot"] = root.trim_end_matches('/').into();
            }
        }
        expected
    },
};

const DOTS: Difference = Difference {
    name: "names-that-start-with-dots",
    applies: |input| {
        let asked = Asked::new(input);
        asked.names_dots() && !asked.steps_between_backslashes()
    },
    transform: |input, mut expected| {
        let asked = Asked::new(input);
        let Some(rest) = inside(&asked.root, &asked.path) else { return expected };
        if input["sandbox"].is_null() {
            let resolved = asked.path.clone();
            return if input["media"].is_null() {
                json!({ "resolved": resolved, "relative": rest })
            } else {
                json!({ "resolved": resolved })
            };
        }
        if is_error(&expected) {
            let mounts = model::mounts(input);
            let found = mounts.iter().find(|mount| inside(&mount.host, &asked.path).is_some());
            return found.map_or(expected, |mount| mount.answer_for_host(input, &asked.path));
        }
        expected["relativePath"] = rest.into();
        expected
    },
};

const WORKING_DIRECTORY: Difference = Difference {
    name: "working-directory-in-the-sandbox",
    applies: |input| {
        let cwd = input["cwd"].as_str().unwrap_or_default();
        let given = input["filePath"].as_str().unwrap_or_default();
        let relative = !model::is_absolute(&Asked::expand(given));
        relative && cwd.starts_with('/') && model::owner(&model::mounts(input), cwd).is_some()
    },
    transform: |input, expected| {
        let cwd = input["cwd"].as_str().unwrap_or_default();
        let given = Asked::expand(input["filePath"].as_str().unwrap_or_default());
        let path = normal(&format!("{cwd}/{given}"));
        match model::owner(&model::mounts(input), &path) {
            Some(mount) => mount.answer(input, &path),
            None => expected,
        }
    },
};

const LINKS: Difference = Difference {
    name: "links-that-lead-into-another-mount",
    applies: |input| {
        let asked = Asked::new(input);
        let rooted_in_link = model::mounts(input).iter().any(|m| model::follow(&m.host) != m.host);
        rooted_in_link || model::follow_parent(&asked.path) != asked.path
    },
    transform: |input, expected| {
        let mounts = model::mounts(input);
        let Some(path) = expected["containerPath"].as_str() else {
            // The mounted directory itself, named by the link that the mount names.
            let asked = Asked::new(input);
            let named = mounts.iter().find(|mount| mount.host == asked.path);
            return named.map_or(expected, |mount| mount.answer(input, &mount.target));
        };
        if model::owner(&mounts, path).is_some() {
            return expected;
        }
        let real = model::follow_parent(&Asked::new(input).path);
        let holds = |mount: &&model::Mount| inside(&model::follow(&mount.host), &real).is_some();
        match mounts.iter().filter(holds).max_by_key(|mount| model::follow(&mount.host).len()) {
            None => escape(&Asked::new(input)),
            Some(mount) => {
                let rest = inside(&model::follow(&mount.host), &real).unwrap_or_default();
                mount.answer(input, &normal(&format!("{}/{rest}", mount.target)))
            }
        }
    },
};

const NORMAL: Difference = Difference {
    name: "host-paths-are-normalised",
    applies: |input| {
        let given = [&input["filePath"], &input["media"], &input["cwd"], &input["root"]];
        given.iter().filter_map(|path| path.as_str()).any(|path| {
            let is_odd = |name: &str| matches!(name, "" | "." | "..");
            path.split('/').skip(1).any(is_odd)
        })
    },
    transform: |_, mut expected| {
        for key in ["hostPath", "resolved", "containerPath"] {
            let Some(path) = expected[key].as_str() else { continue };
            let steps = path.split('/').any(|name| matches!(name, "." | ".."));
            let trailing = path.len() > 1 && path.ends_with('/');
            if model::is_absolute(path) && (steps || trailing) {
                expected[key] = model::tidy(path).into();
            }
        }
        expected
    },
};

const HIDDEN: Difference = Difference {
    name: "paths-hidden-by-another-mount",
    applies: |input| model::mounts(input).len() > 1 && !Asked::new(input).is_container_path(),
    transform: |input, expected| {
        let Some(path) = expected["containerPath"].as_str() else { return expected };
        let host = model::tidy(expected["hostPath"].as_str().unwrap_or_default());
        match model::owner(&model::mounts(input), path) {
            Some(mount) if inside(&mount.host, &host).is_none() => escape(&Asked::new(input)),
            _ => expected,
        }
    },
};

const UNREADABLE: Difference = Difference {
    name: "names-that-two-readers-read-differently",
    applies: |input| {
        let asked = Asked::new(input);
        asked.given.contains('\0') || asked.steps_between_backslashes()
    },
    transform: |input, expected| {
        let asked = Asked::new(input);
        if asked.given.contains('\0') {
            return json!({ "error": format!("({})", asked.root) });
        }
        if is_error(&expected) { expected } else { escape(&asked) }
    },
};

const REMOTE_URLS: Difference = Difference {
    name: "file-urls-of-other-machines",
    applies: |input| {
        let media = input["media"].as_str().unwrap_or_default().trim().to_lowercase();
        let host = media.strip_prefix("file://").and_then(|rest| rest.split(['/', '\\']).next());
        host.is_some_and(|host| !matches!(host, "" | "localhost") && !host.starts_with("${"))
    },
    transform: |input, _| {
        let media = input["media"].as_str().unwrap_or_default().trim();
        json!({ "error": format!("\"{media}\" is on another machine") })
    },
};
