//! Where the rows about containers and commands in them are answered differently on purpose.

mod asked;
mod names;
mod variables;
mod words;

use asked::{Asked, strings};
use serde_json::{Value, json};

use crate::compat::Rule;

pub(super) const RULES: &[Rule] = &[
    variables::NAMES,
    variables::COMMANDS,
    variables::OPTIONS,
    Rule {
        name: "binds-are-checked-in-full",
        category: "create-args",
        applies: |input| input["cfg"]["binds"].is_array(),
        transform: create_args_binds,
    },
    Rule {
        name: "words-an-engine-could-misread",
        category: "create-args",
        applies: |input| words::of_options(&input["cfg"]).is_some(),
        transform: |input, expected| match words::of_options(&input["cfg"]) {
            Some(word) if expected["error"].is_null() => json!({ "error": quoted(&word) }),
            _ => expected,
        },
    },
    Rule {
        name: "blanks-around-values-count-for-nothing",
        category: "create-args",
        applies: |_| true,
        transform: |_, mut expected| {
            if let Some(argv) = expected.get_mut("argv") {
                tidy(argv);
            }
            expected
        },
    },
    no_session("flow"),
    names::owner("flow"),
    names::owner("browser"),
    names::reserved("flow"),
    names::reserved("browser"),
    names::long("flow"),
    names::long("browser"),
    variables::of_first_use("flow"),
    variables::of_first_use("browser"),
    blanks("flow"),
    blanks("browser"),
    missing_image("flow"),
    missing_image("browser"),
    binds("flow"),
    binds("browser"),
    shell_words("flow"),
    shell_words("browser"),
    BROWSER_NETWORK,
    BROWSER_WORDS,
    writable_copy("flow"),
    writable_copy("browser"),
    own_directory("flow"),
    own_directory("browser"),
];

/// The shared sandbox does not get the directory that holds all others.
const fn own_directory(category: &'static str) -> Rule {
    Rule {
        name: "a-shared-sandbox-has-its-own-directory",
        category,
        applies: |input| {
            let asked = Asked::new(input);
            asked.scope() == "shared" && asked.access() != "rw"
        },
        transform: |_, mut expected| {
            let Some(root) = expected["context"]["workspaceDir"].as_str().map(str::to_owned) else {
                return expected;
            };
            let own = format!("{root}/shared");
            for call in expected["calls"].as_array_mut().into_iter().flatten() {
                move_workspace(call, &root, &own);
            }
            expected["context"]["workspaceDir"] = json!(own);
            expected
        },
    }
}

/// The workspace is the first mount of a `create` call.
fn move_workspace(call: &mut Value, from: &str, to: &str) {
    let Some(args) = call.as_array_mut().filter(|args| args.first() == Some(&json!("create")))
    else {
        return;
    };
    let Some(flag) = args.iter().position(|arg| arg == "-v") else { return };
    let mount = args[flag + 1].as_str().and_then(|mount| mount.strip_prefix(from));
    if let Some(rest) = mount.filter(|rest| rest.starts_with(':')) {
        args[flag + 1] = json!(format!("{to}{rest}"));
    }
}

/// A private copy is writable. Last, because it looks at calls that other rules leave.
const fn writable_copy(category: &'static str) -> Rule {
    Rule {
        name: "workspace-none-is-writable",
        category,
        applies: |input| Asked::new(input).access() == "none",
        transform: |_, mut expected| {
            for call in expected["calls"].as_array_mut().into_iter().flatten() {
                writable_workspace(call);
            }
            expected
        },
    }
}

/// The workspace is the first mount of a `create` call.
fn writable_workspace(call: &mut Value) {
    let Some(args) = call.as_array_mut().filter(|args| args.first() == Some(&json!("create")))
    else {
        return;
    };
    let Some(flag) = args.iter().position(|arg| arg == "-v") else { return };
    if let Some(mount) = args[flag + 1].as_str().and_then(|mount| mount.strip_suffix(":ro")) {
        args[flag + 1] = json!(mount);
    }
}

/// A call without a session is sandboxed like any other that is not the main session. Knows
/// configs that say nothing but the mode.
const fn no_session(category: &'static str) -> Rule {
    Rule {
        name: "no-session-is-not-main",
        category,
        applies: |input| {
            let agents = &input["config"]["agents"];
            let sandbox = agents["defaults"]["sandbox"].as_object();
            let is_plain = sandbox.is_some_and(|sandbox| sandbox.len() == 1)
                && agents["list"].is_null()
                && input["docker"].is_null();
            let mode = Asked::new(input).own("mode").as_str().unwrap_or("off");
            input["sessionKey"].as_str().is_some_and(|key| key.trim().is_empty())
                && is_plain
                && mode != "off"
        },
        transform: |input, _| plain_first_use(&input["workspaceOwner"]),
    }
}

/// What a first use of the main agent's sandbox is recorded as, with nothing configured.
fn plain_first_use(owner: &Value) -> Value {
    let name = "openclaw-sbx-agent-main-f331f052";
    let image = "openclaw-sandbox:bookworm-slim";
    let copy = "${STATE_DIR}/sandboxes/agent-main-f331f052";
    let user = format!("{}:{}", owner["uid"], owner["gid"]);
    let mount = format!("{copy}:/workspace:ro");
    let create = [
        ["create", "--name", name].as_slice(),
        &["--label", "openclaw.sandbox=1", "--label", "openclaw.sessionKey=agent:main"],
        &["--label", "openclaw.createdAtMs=${NOW_MS}"],
        &["--label", "openclaw.configHash=${CONFIG_HASH}"],
        &["--read-only", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp", "--tmpfs", "/run"],
        &["--network", "none", "--user", &user],
        &["--env", "LANG=C.UTF-8", "--env", "OPENCLAW_CLI=1"],
        &["--cap-drop", "ALL", "--security-opt", "no-new-privileges"],
        &["--workdir", "/workspace", "-v", &mount, image, "sleep", "infinity"],
    ]
    .concat();
    json!({
        "calls": [
            ["inspect", "-f", "{{.State.Running}}", name],
            ["image", "inspect", image],
            create,
            ["start", name],
        ],
        "context": {
            "backendId": "docker", "containerName": name, "workspaceDir": copy,
            "agentWorkspaceDir": "${AGENT_WORKSPACE}", "workspaceAccess": "none",
            "containerWorkdir": "/workspace", "user": user, "browser": null,
        },
    })
}

/// A missing image is an error, the default one too: a bare system under its name is not it.
const fn missing_image(category: &'static str) -> Rule {
    Rule {
        name: "a-missing-image-is-not-replaced",
        category,
        applies: |input| !input["docker"]["image"].is_null(),
        transform: |_, expected| {
            let Some(pull) = position(&expected, |call| call[0] == "pull") else { return expected };
            let image = expected["calls"][pull - 1][2].as_str().map(quoted).unwrap_or_default();
            stopped(expected, pull, &image)
        },
    }
}

/// Refusals of binds that the recorded release does not know; the rules are those of `validate`.
const fn binds(category: &'static str) -> Rule {
    Rule {
        name: "binds-are-checked-in-full",
        category,
        applies: |_| true,
        transform: |input, expected| {
            let asked = Asked::new(input);
            let shell = asked.joined("docker", "binds");
            let browser = match (asked.of("browser", "binds").is_array(), &shell) {
                (true, _) => asked.joined("browser", "binds"),
                (false, shell) => shell.clone(),
            };
            let is_create = |call: &Value| call[0] == "create";
            let is_browser = |call: &Value| is_create(call) && is_browser_call(call);
            let expected = match refused_bind(&asked, &shell, &expected) {
                Some(error) => stopped_before(expected, is_create, &error),
                None => expected,
            };
            match refused_bind(&asked, &browser, &expected) {
                Some(error) => stopped_before(expected, is_browser, &error),
                None => expected,
            }
        },
    }
}

fn refused_bind(asked: &Asked<'_>, binds: &[&str], expected: &Value) -> Option<String> {
    if binds.iter().any(|bind| bind.trim().is_empty()) {
        return Some(String::new());
    }
    // What is mounted at a workdir of the user's choice must not be hidden either.
    let workdir = asked.workdir();
    let hides = |bind: &&&str| {
        let target = bind.split(':').nth(1).unwrap_or_default();
        target.strip_prefix(workdir).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let may_hide = asked.of("docker", "dangerouslyAllowReservedContainerTargets") == &json!(true);
    if let Some(bind) = binds.iter().find(hides).filter(|_| !may_hide && workdir != "/workspace") {
        return Some(quoted(bind));
    }
    let roots = ["${AGENT_WORKSPACE}"];
    let external = asked.of("docker", "dangerouslyAllowExternalBindSources");
    let cfg = json!({
        "binds": binds, "allowedSourceRoots": roots, "allowSourcesOutsideAllowedRoots": external,
    });
    validate(&cfg, expected)
}

/// The refusal that `validate` rows get for these binds, if it is not the recorded one.
fn validate(cfg: &Value, recorded: &Value) -> Option<String> {
    let input = json!({ "cfg": cfg });
    let before = match recorded["error"].as_str() {
        Some(error) if error.contains("bind mount") => json!({ "error": error }),
        _ => json!({ "ok": true }),
    };
    let mut after = before.clone();
    for rule in super::validate::RULES.iter().filter(|rule| (rule.applies)(&input)) {
        after = (rule.transform)(&input, after);
    }
    if after == before { None } else { after["error"].as_str().map(str::to_owned) }
}

fn create_args_binds(input: &Value, expected: Value) -> Value {
    let mut cfg = json!({ "binds": input["cfg"]["binds"] });
    for (ours, theirs) in [
        ("allowedSourceRoots", "bindSourceRoots"),
        ("allowSourcesOutsideAllowedRoots", "allowSourcesOutsideAllowedRoots"),
    ] {
        if !input[theirs].is_null() {
            cfg[ours] = input[theirs].clone();
        }
    }
    if let Some(error) = validate(&cfg, &expected) {
        return json!({ "error": error });
    }
    if !expected["error"].is_null() {
        return expected;
    }
    if strings(&input["cfg"]["binds"]).any(|bind| bind.trim().is_empty()) {
        return json!({ "error": "a blank bind" });
    }
    expected
}

const fn shell_words(category: &'static str) -> Rule {
    Rule {
        name: "words-an-engine-could-misread",
        category,
        applies: |input| words::of_shell(&Asked::new(input)).is_some(),
        transform: |input, expected| match words::of_shell(&Asked::new(input)) {
            Some(word) => stopped_before(expected, |call| call[0] == "create", &quoted(&word)),
            None => expected,
        },
    }
}

/// A browser that cannot publish its ports is refused before anything is made for it.
const BROWSER_NETWORK: Rule = Rule {
    name: "a-browser-needs-a-network",
    category: "browser",
    applies: |input| {
        let asked = Asked::new(input);
        let network = asked.text("browser", "network").unwrap_or_default().trim().to_lowercase();
        network == "none" || network.starts_with("container:") || network.starts_with("ns:")
    },
    transform: |input, expected| {
        let network = Asked::new(input).text("browser", "network").unwrap_or_default();
        let Some(create) = position(&expected, is_browser_call) else { return expected };
        let inspect = expected["calls"].as_array().into_iter().flatten().take(create);
        let looks = |call: &Value| call[0] == "inspect";
        let last = inspect.enumerate().filter(|(_, call)| looks(call)).last();
        match last.map(|(index, _)| index) {
            Some(index) => stopped(expected, index + 1, &quoted(network)),
            None => expected,
        }
    },
};

const BROWSER_WORDS: Rule = Rule {
    name: "words-an-engine-could-misread",
    category: "browser",
    applies: |input| words::of_browser(&Asked::new(input)).is_some(),
    transform: |input, expected| match words::of_browser(&Asked::new(input)) {
        Some(word) => stopped_before(expected, is_browser_call, &quoted(&word)),
        None => expected,
    },
};

/// Blanks around a value mean nothing, and a blank value means none.
const fn blanks(category: &'static str) -> Rule {
    Rule {
        name: "blanks-around-values-count-for-nothing",
        category,
        applies: |_| true,
        transform: |_, mut expected| {
            for call in expected["calls"].as_array_mut().into_iter().flatten() {
                tidy(call);
            }
            if let Some(user) = expected["context"]["user"].as_str().map(str::trim) {
                expected["context"]["user"] =
                    if user.is_empty() { Value::Null } else { json!(user) };
            }
            expected
        },
    }
}

/// Trims the values of a `create` call that may be padded; drops a flag whose value is blank.
fn tidy(call: &mut Value) {
    let Some(args) = call.as_array_mut().filter(|args| args.first() == Some(&json!("create")))
    else {
        return;
    };
    let mut kept: Vec<Value> = Vec::with_capacity(args.len());
    for arg in std::mem::take(args) {
        let text = arg.as_str().unwrap_or_default();
        let trimmed = match kept.last().and_then(Value::as_str) {
            Some("--user" | "-v") => text.trim().to_owned(),
            Some("--network") if text.trim().is_empty() => String::new(),
            Some("--ulimit" | "--security-opt") => match text.split_once('=') {
                Some((_, value)) if value.trim().is_empty() => String::new(),
                Some((name, value)) => format!("{}={}", name.trim(), value.trim()),
                None => text.to_owned(),
            },
            Some(_) | None => {
                kept.push(arg);
                continue;
            }
        };
        if trimmed.is_empty() {
            kept.pop();
        } else {
            kept.push(json!(trimmed));
        }
    }
    *args = kept;
}

fn is_browser_call(call: &Value) -> bool {
    let args = call.as_array();
    args.is_some_and(|args| args.contains(&json!("openclaw.sandboxBrowser=1")))
}

fn position(expected: &Value, is_meant: impl Fn(&Value) -> bool) -> Option<usize> {
    expected["calls"].as_array()?.iter().position(is_meant)
}

/// The recorded calls up to the first of a kind, then our refusal; unchanged if there is none.
fn stopped_before(expected: Value, is_meant: impl Fn(&Value) -> bool, error: &str) -> Value {
    match position(&expected, is_meant) {
        Some(index) => stopped(expected, index, error),
        None => expected,
    }
}

fn stopped(mut expected: Value, calls: usize, error: &str) -> Value {
    let kept: Vec<Value> = expected["calls"].as_array_mut().map(std::mem::take).unwrap_or_default();
    json!({ "error": error, "calls": kept.into_iter().take(calls).collect::<Vec<_>>() })
}

fn quoted(word: &str) -> String {
    format!("\"{word}\" is refused")
}
