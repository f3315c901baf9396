//! Where the `validate` rows are answered differently on purpose: refusals that the recorded
//! release does not know.

use serde_json::{Value, json};

use crate::compat::Rule;

pub(super) const RULES: &[Rule] = &[
    rule(
        "parents-of-blocked-paths",
        |input| concerns(input, parent),
        |input, expected| refuse(input, expected, parent),
    ),
    rule(
        "container-engines-own-files",
        |input| concerns(input, engine),
        |input, expected| refuse(input, expected, engine),
    ),
    rule(
        "credentials-in-homes",
        |input| concerns(input, credentials),
        |input, expected| refuse(input, expected, credentials),
    ),
    rule(
        "start-files-are-not-written",
        |input| concerns(input, start_file),
        |input, expected| refuse(input, expected, start_file),
    ),
    rule("no-roots-allow-nothing", has_no_roots, |input, expected| {
        refuse(input, expected, outside)
    }),
    rule(
        "binds-need-a-target",
        |input| concerns(input, target),
        |input, expected| refuse(input, expected, target),
    ),
    rule(
        "binds-in-plain-text",
        |input| concerns(input, plain_text),
        |input, expected| refuse(input, expected, plain_text),
    ),
    rule(
        "known-bind-options",
        |input| concerns(input, option),
        |input, expected| refuse(input, expected, option),
    ),
    rule("namespace-paths", joins_by_path, namespace_path),
];

const fn rule(
    name: &'static str,
    applies: fn(&Value) -> bool,
    transform: fn(&Value, Value) -> Value,
) -> Rule {
    Rule { name, category: "validate", applies, transform }
}

/// The checks of one bind in their order, as far as they tell refusals apart.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Stage {
    Source,
    Blocked,
    Reserved,
    Roots,
    Shape,
    Passed,
}

/// A refusal of ours: when it comes, and its facts in the recorded sentences' order.
type Refused = Option<(Stage, String)>;

fn binds(input: &Value) -> Vec<&str> {
    input["cfg"]["binds"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn concerns(input: &Value, check: fn(&Bind<'_>) -> Refused) -> bool {
    binds(input).into_iter().filter_map(Bind::parse).any(|bind| check(&bind).is_some())
}

/// Puts our refusal in place where it comes before the recorded one.
fn refuse(input: &Value, expected: Value, check: fn(&Bind<'_>) -> Refused) -> Value {
    let binds = binds(input);
    let recorded = expected["error"].as_str().unwrap_or_default();
    let is_about = |bind: &&str| recorded.contains(&format!("bind mount \"{}\"", bind.trim()));
    let recorded_at = binds.iter().position(is_about).unwrap_or(binds.len());
    for (index, text) in binds.iter().enumerate().take(recorded_at + 1) {
        let Some(bind) = Bind::parse(text) else { continue };
        let stage = if index < recorded_at { Stage::Passed } else { stage(recorded) };
        match check(&bind) {
            Some((ours, facts)) if ours < stage => {
                // Only text that forges lines is refused at this stage; we print it escaped.
                let text = match ours {
                    Stage::Source => bind.text.escape_debug().to_string(),
                    _ => bind.text.to_owned(),
                };
                return json!({ "error": format!("bind mount \"{text}\" {facts}") });
            }
            _ => {}
        }
    }
    expected
}

fn stage(recorded: &str) -> Stage {
    let has = |words| recorded.contains(words);
    if has("non-absolute") || has("plain text") {
        Stage::Source
    } else if has("blocked path") {
        Stage::Blocked
    } else if has("reserved container path") {
        Stage::Reserved
    } else if has("outside allowed roots") {
        Stage::Roots
    } else {
        Stage::Shape
    }
}

/// An entry with an absolute source, taken apart by text.
struct Bind<'a> {
    text: &'a str,
    /// Normalised; placeholders stay.
    source: String,
    target: &'a str,
    options: &'a str,
    is_padded: bool,
}

impl<'a> Bind<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim();
        let (source, rest) = text.split_once(':').unwrap_or((text, ""));
        let (target, options) = rest.split_once(':').unwrap_or((rest, ""));
        if !source.starts_with('/') && !source.starts_with("${") {
            return None;
        }
        let is_padded = [source, target, options].iter().any(|part| part.trim() != *part);
        Some(Self { text, source: normal(source), target: target.trim(), options, is_padded })
    }
}

fn normal(path: &str) -> String {
    let path = path.trim().replace('\\', "/").replace("${HOME}", "${BASE}/home");
    let path = path.replace("${STATE_DIR}", "${BASE}/home/.openclaw");
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/').filter(|name| !matches!(*name, "" | ".")) {
        match name {
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    let slash = if path.starts_with("${") { "" } else { "/" };
    format!("{slash}{}", names.join("/"))
}

fn is_inside(root: &str, path: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn parent(bind: &Bind<'_>) -> Refused {
    let held = ["/private/etc", "/var/run", "/private/var/run", "/home", "/Users"];
    let path = held.iter().find(|path| is_inside(&bind.source, path))?;
    // What is below `/run` and the like is recorded as refused; `/home/x` is fine.
    Some((Stage::Blocked, format!("covers blocked path \"{path}\"")))
}

fn engine(bind: &Bind<'_>) -> Refused {
    let stores =
        ["/var/lib/docker", "/var/lib/containerd", "/var/lib/containers", "/var/lib/kubelet"];
    let touches = |store: &&&str| is_inside(store, &bind.source) || is_inside(&bind.source, store);
    // A source that also holds a system path is told about that one.
    if let Some(store) = stores.iter().find(touches).filter(|_| parent(bind).is_none()) {
        return Some((Stage::Blocked, format!("targets blocked path \"{store}\"")));
    }
    let sockets = ["docker.sock", "podman.sock", "containerd.sock", "crio.sock"];
    let name = bind.source.rsplit('/').next().unwrap_or_default();
    let facts = format!("targets blocked path \"{}\"", bind.source);
    sockets.contains(&name).then_some((Stage::Shape, facts))
}

fn credentials(bind: &Bind<'_>) -> Refused {
    let names = [
        [".aws", ".cargo", ".claude", ".codex", ".config", ".docker", ".git-credentials"],
        [".gnupg", ".kube", ".netrc", ".npm", ".npmrc", ".pypirc", ".ssh"],
    ];
    let names = names.iter().flatten();
    let home = home(&bind.source)?;
    let touched = names.map(|name| format!("{home}/{name}")).find(|path| {
        is_inside(path, &bind.source) || is_inside(&bind.source, path) && bind.source != "/"
    })?;
    Some((Stage::Blocked, format!("targets blocked path \"{touched}\"")))
}

/// The home that a source lies in or holds: the world's, or any directory beside the homes.
fn home(source: &str) -> Option<String> {
    const WORLD: &str = "${BASE}/home";
    for homes in ["/home/", "/Users/"] {
        if let Some(rest) = source.strip_prefix(homes) {
            return Some(format!("{homes}{}", rest.split('/').next()?));
        }
    }
    (is_inside(WORLD, source) || is_inside(source, WORLD)).then(|| WORLD.to_owned())
}

fn start_file(bind: &Bind<'_>) -> Refused {
    let names = [
        [".bash_login", ".bash_logout", ".bash_profile", ".bashrc", ".gitconfig"],
        [".profile", ".zlogin", ".zprofile", ".zshenv", ".zshrc"],
    ];
    let (home, name) = (home(&bind.source)?, bind.source.rsplit('/').next()?);
    let is_start_file = names.iter().flatten().any(|known| *known == name)
        && bind.source == format!("{home}/{name}");
    let is_read_only = bind.options.split(',').any(|option| option == "ro");
    let is_last = target(bind).is_none() && option(bind).is_none() && !bind.is_padded;
    let facts = format!("\"{}\"", bind.source);
    (is_start_file && !is_read_only && is_last).then_some((Stage::Shape, facts))
}

fn has_no_roots(input: &Value) -> bool {
    let cfg = &input["cfg"];
    let roots = cfg["allowedSourceRoots"].as_array();
    let is_absolute = |root: &Value| {
        root.as_str().map(str::trim).is_some_and(|root| root.starts_with(['/', '$']))
    };
    cfg["allowSourcesOutsideAllowedRoots"] != true
        && roots.is_some_and(|roots| !roots.iter().any(is_absolute))
}

fn outside(bind: &Bind<'_>) -> Refused {
    let facts = format!("source \"{}\" is outside allowed roots", bind.source);
    bind.source.starts_with(['/', '$']).then_some((Stage::Roots, facts))
}

fn target(bind: &Bind<'_>) -> Refused {
    let facts = match bind.target {
        "" => String::new(),
        target if !target.starts_with('/') => format!("\"{target}\""),
        target => match normal(target).as_str() {
            "/" => "\"/\"".to_owned(),
            path if is_inside("/proc", path) || is_inside("/sys", path) => format!("\"{path}\""),
            _ => return None,
        },
    };
    Some((Stage::Shape, facts))
}

fn plain_text(bind: &Bind<'_>) -> Refused {
    let forges =
        |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if bind.text.contains(forges) {
        return Some((Stage::Source, "is not in plain text".to_owned()));
    }
    (bind.is_padded && target(bind).is_none()).then(|| (Stage::Shape, String::new()))
}

fn option(bind: &Bind<'_>) -> Refused {
    let known = [
        ["ro", "rw"].as_slice(),
        &["z", "Z"],
        &["private", "rprivate"],
        &["consistent", "cached", "delegated"],
    ];
    let mut seen = [false; 4];
    if bind.options.is_empty() || target(bind).is_some() || bind.is_padded {
        return None;
    }
    for option in bind.options.split(',') {
        match known.iter().position(|group| group.contains(&option)) {
            Some(group) if !seen[group] => seen[group] = true,
            _ => return Some((Stage::Shape, format!("\"{option}\""))),
        }
    }
    None
}

fn joins_by_path(input: &Value) -> bool {
    let network = input["cfg"]["network"].as_str().unwrap_or_default();
    network.trim().to_lowercase().starts_with("ns:")
        && input["cfg"]["dangerouslyAllowContainerNamespaceJoin"] != true
}

fn namespace_path(input: &Value, expected: Value) -> Value {
    if expected["error"].as_str().is_some_and(|text| text.contains("bind mount")) {
        return expected;
    }
    let network = input["cfg"]["network"].as_str().unwrap_or_default();
    json!({ "error": format!(
        "network mode \"{network}\" joins as \"container:*\" does; \
         dangerouslyAllowContainerNamespaceJoin=true"
    ) })
}
