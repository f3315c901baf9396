//! Where whole gateway decisions differ on purpose: the file, the asking, and what a command is.
//!
//! The recorded answer says whether the reference found the command covered. From that, and from
//! the model of the single commands, ours is worked out and the decision is made again.

use serde_json::{Value, json};

use super::super::Rule;
use super::super::exec_approvals::{ASK, SECURITY, nearest, problem_of, strictest};
use super::carriers::{Role, role};
use super::text::{name, words};
use super::{RULES as COMMANDS, has_safe_bin, refused, segments};

pub(in super::super) const RULES: &[Rule] = &[
    Rule {
        name: "approvals-file-that-cannot-be-used",
        category: "gateway-decision",
        applies: |input| !input["approvals"].is_null() && problem_of(&input["approvals"]).is_some(),
        transform: |input, _| {
            let message = problem_of(&input["approvals"]).unwrap_or_default();
            json!({ "decision": "deny", "message": message, "warnings": [] })
        },
    },
    Rule {
        name: "approvals-file-cannot-silence",
        category: "gateway-decision",
        applies: |input| is_usable(input) && nearest(&as_context(input), "ask") == "off",
        transform: |input, expected| {
            let covered = expected["execCommand"].as_str().map(str::to_owned);
            decide(input, &expected, covered)
        },
    },
    Rule {
        name: "approvals-unknown-word-is-the-strictest",
        category: "gateway-decision",
        applies: |input| {
            let context = as_context(input);
            let is_odd = |key: &str| strictest(key, &nearest(&context, key)).is_some();
            is_usable(input) && (is_odd("security") || is_odd("ask"))
        },
        transform: |input, expected| {
            let covered = expected["execCommand"].as_str().map(str::to_owned);
            decide(input, &expected, covered)
        },
    },
    Rule {
        name: "code-in-every-form",
        category: "gateway-decision",
        applies: |input| {
            is_usable(input) && input["strictInlineEval"] == true && policy(input).0 != "deny"
        },
        transform: |input, mut expected| {
            let is_warned = expected["warnings"].to_string().contains("inline-eval");
            if let Some(code) = inline_code(input).filter(|_| !is_warned) {
                let mut warnings = vec![json!(code)];
                warnings.extend(expected["warnings"].as_array().cloned().unwrap_or_default());
                expected = json!({ "decision": "ask", "warnings": warnings });
            }
            expected
        },
    },
    Rule {
        name: "decisions-follow-the-analysis",
        category: "gateway-decision",
        applies: |input| is_usable(input) && policy(input).0 == "allowlist",
        transform: |input, expected| {
            let line = expected["execCommand"].as_str();
            let covered = match line {
                Some(line) => covered_now(input, Recorded::As(line)),
                // The reference warns of here-documents where it found the command covered.
                None if warns_of_document(&expected) => {
                    if covered_now(input, Recorded::Covered).is_some() {
                        return expected;
                    }
                    let others = |warning: &&Value| !is_about_document(warning);
                    let warnings = expected["warnings"].as_array().into_iter().flatten();
                    let warnings: Vec<&Value> = warnings.filter(others).collect();
                    return decide(input, &json!({ "warnings": warnings }), None);
                }
                // A miss may be a filter with a harmless flag, which is none for us.
                None if has_safe_bin(&as_row(input)) => covered_now(input, Recorded::Missed),
                None => None,
            };
            if covered.as_deref() == line {
                return expected;
            }
            decide(input, &expected, covered)
        },
    },
];

fn is_about_document(warning: &Value) -> bool {
    warning.as_str().is_some_and(|text| text.contains("heredoc"))
}

fn warns_of_document(expected: &Value) -> bool {
    expected["warnings"].as_array().into_iter().flatten().any(is_about_document)
}

/// The first program of a command that has code in its words, as a warning names it.
fn inline_code(input: &Value) -> Option<String> {
    segments(&as_row(input)).into_iter().find_map(|(_, words)| match role(&words) {
        Role::Carrier(flag) => {
            let name = name(words.first()?);
            (flag != name || words.len() > 1).then(|| format!("inline-eval: {name} {flag}"))
        }
        Role::Plain | Role::ShellScript(_) | Role::Script(_) | Role::PassesOn(_) => None,
    })
}

fn is_usable(input: &Value) -> bool {
    input["approvals"].is_null() || problem_of(&input["approvals"]).is_none()
}

/// The row in the shape of those about the file alone.
fn as_context(input: &Value) -> Value {
    json!({ "agentId": input["agentId"], "file": input["approvals"] })
}

/// The stricter of call and file.
fn policy(input: &Value) -> (&'static str, &'static str) {
    let context = as_context(input);
    let rank = |words: [&str; 3], value: &Value| words.iter().position(|word| value == word);
    let file = |key: &str| {
        let written = nearest(&context, key);
        strictest(key, &written).unwrap_or(written)
    };
    let security = rank(SECURITY, &input["security"]).unwrap_or(0);
    let security = security.min(rank(SECURITY, &file("security")).unwrap_or(2));
    let ask = rank(ASK, &input["ask"]).unwrap_or(2).max(rank(ASK, &file("ask")).unwrap_or(0));
    (SECURITY[security], ASK[ask])
}

/// The decision for a command that is covered as this line, or not covered.
fn decide(input: &Value, recorded: &Value, covered: Option<String>) -> Value {
    let (security, ask) = policy(input);
    if security == "deny" {
        return json!({ "decision": "deny", "message": "host=gateway security=deny", "warnings": [] });
    }
    let misses = security == "allowlist" && covered.is_none();
    let warnings = recorded["warnings"].as_array().cloned().unwrap_or_default();
    if ask == "always" || ask == "on-miss" && misses || !warnings.is_empty() {
        return json!({ "decision": "ask", "warnings": warnings });
    }
    if misses {
        return json!({ "decision": "deny", "message": "", "warnings": [] });
    }
    let line = if security == "allowlist" { json!(covered) } else { Value::Null };
    json!({ "decision": "run", "execCommand": line, "warnings": [] })
}

/// What the reference made of a command.
#[derive(Clone, Copy)]
enum Recorded<'a> {
    /// It was covered, and ran as this line.
    As(&'a str),
    /// It was covered, and asked about all the same.
    Covered,
    Missed,
}

/// The row of the command alone.
fn as_row(input: &Value) -> Value {
    let agents = &input["approvals"]["agents"];
    let agent = input["agentId"].as_str().unwrap_or("main");
    let list = |key: &str| agents[key]["allowlist"].as_array().cloned().unwrap_or_default();
    let allowlist: Vec<Value> = list("*").into_iter().chain(list(agent)).collect();
    let mut row = input.clone();
    row["allowlist"] = allowlist.into();
    if row["safeBins"].is_null() {
        row["safeBins"] = json!(["cut", "uniq", "head", "tail", "tr", "wc"]);
    }
    row
}

/// The plan of a command, if what we trust covers it.
fn covered_now(input: &Value, recorded: Recorded<'_>) -> Option<String> {
    let row = as_row(input);
    let expected = as_recorded(&row, recorded);
    let mut answer = expected.clone();
    for rule in COMMANDS.iter().filter(|rule| rule.category == super::ANY) {
        if (rule.applies)(&row) {
            answer = (rule.transform)(&row, answer);
        }
    }
    if answer == expected && matches!(recorded, Recorded::Missed) {
        return None;
    }
    let is_covered = answer != refused() && answer["allowlistSatisfied"] == true;
    is_covered.then(|| answer["enforcedCommand"].as_str().unwrap_or_default().to_owned())
}

/// The answer that the reference would record for the command alone.
fn as_recorded(row: &Value, recorded: Recorded<'_>) -> Value {
    let wrappers = ["env", "nice", "nohup", "stdbuf", "time", "timeout", "busybox", "toybox"];
    let line = match recorded {
        Recorded::As(line) => line,
        Recorded::Covered | Recorded::Missed => "",
    };
    let ran: Vec<usize> = words(line)
        .split(|word| matches!(word.as_str(), "|" | "&&" | "||" | ";"))
        .map(<[String]>::len)
        .collect();
    let texts = |key: &str, of: fn(&Value) -> &Value| -> Vec<String> {
        let items = row[key].as_array().into_iter().flatten();
        items.filter_map(|item| of(item).as_str()).map(str::to_owned).collect()
    };
    let safe = texts("safeBins", |item| item);
    let listed = texts("allowlist", |item| &item["pattern"]);
    let mut by = Vec::new();
    let mut shown = Vec::new();
    for (index, (raw, argv)) in segments(row).into_iter().enumerate() {
        // The line has lost its empty words.
        let empty = argv.iter().filter(|word| word.is_empty()).count();
        let ran = ran.get(index).copied().unwrap_or_default() + empty;
        let count = if line.is_empty() { argv.len() } else { ran };
        let (before, effective) = argv.split_at(argv.len().saturating_sub(count));
        let chain: Vec<String> = before.iter().map(|word| name(word)).collect();
        let chain: Vec<&String> =
            chain.iter().filter(|word| wrappers.contains(&word.as_str())).collect();
        let program = effective.first().map(|word| name(word)).unwrap_or_default();
        let is_listed = listed.iter().any(|path| path.ends_with(&format!("/{program}")));
        by.push(match recorded {
            _ if is_listed => Some("allowlist"),
            Recorded::As(_) | Recorded::Covered if safe.contains(&program) => Some("safeBins"),
            Recorded::As(_) | Recorded::Covered => Some("allowlist"),
            Recorded::Missed => None,
        });
        shown.push(json!({
            "raw": raw,
            "argv": argv,
            "effectiveArgv": effective,
            "wrapperChain": chain,
            "blockedWrapper": null,
        }));
    }
    json!({
        "analysisOk": true,
        "allowlistSatisfied": !matches!(recorded, Recorded::Missed),
        "segments": shown,
        "segmentSatisfiedBy": by,
        "enforcedCommand": line,
    })
}
