//! What `exec` and `process` take.

use super::{Kind, Parameter, Schema};

pub(super) const EXEC: Schema = Schema {
    name: "exec",
    description: "Runs a command in the sandbox, read by its shell. Output and exit code come back; a command that takes \
                  longer than `yieldMs` goes on in the background and is followed with `process`. Whatever a command \
                  leaves running ends with it, so start servers with `background`.",
    parameters: &[
        Parameter::required("command", Kind::Word, "The command, as a shell reads it").or(&["cmd"]),
        Parameter::optional(
            "workdir",
            Kind::Word,
            "Directory to start in; the workspace, if left out",
        )
        .or(&["cwd"]),
        Parameter::optional("env", Kind::Variables, "Variables to set for this command"),
        Parameter::optional(
            "timeout",
            Kind::Number,
            "Seconds after which the command and all it started are killed; 0 for never",
        ),
        Parameter::optional(
            "yieldMs",
            Kind::Whole { least: 0 },
            "Milliseconds to wait before the command goes on in the background (10000)",
        ),
        Parameter::optional("background", Kind::Switch, "Go on in the background at once"),
        Parameter::optional("pty", Kind::Switch, "Give the command a terminal of 120 by 30"),
        Parameter::optional(
            "elevated",
            Kind::Switch,
            "Run on the host instead, where that is allowed",
        ),
        Parameter::optional(
            "host",
            Kind::Choice(&["sandbox", "gateway", "node", "auto"]),
            "Where to run; must be what is configured",
        ),
        Parameter::optional(
            "security",
            Kind::Choice(&["deny", "allowlist", "full"]),
            "A stricter rule for this command on the host",
        ),
        Parameter::optional(
            "ask",
            Kind::Choice(&["off", "on-miss", "always"]),
            "Ask a person more often about this command on the host",
        ),
        Parameter::optional("node", Kind::Word, "The node to run on, for host=node"),
    ],
};

pub(super) const PROCESS: Schema = Schema {
    name: "process",
    description: "Follows commands that `exec` left in the background: list them, wait for one, read its output, type \
                  into its terminal, end it.",
    parameters: &[
        Parameter::required(
            "action",
            Kind::Choice(&[
                "list",
                "poll",
                "log",
                "write",
                "send-keys",
                "submit",
                "paste",
                "kill",
                "clear",
                "remove",
            ]),
            "What to do",
        ),
        Parameter::optional(
            "sessionId",
            Kind::Word,
            "The command, as `exec` or `list` named it; needed for all but `list`",
        )
        .or(&["session_id", "id"]),
        Parameter::optional(
            "timeout",
            Kind::Whole { least: 0 },
            "For poll: milliseconds to wait for the end (0, at most 120000)",
        ),
        Parameter::optional(
            "offset",
            Kind::Whole { least: 0 },
            "For log: first line, counted from 0",
        ),
        Parameter::optional("limit", Kind::Whole { least: 1 }, "For log: lines at most (200)"),
        Parameter::optional("data", Kind::Text, "For write: what to type"),
        Parameter::optional("eof", Kind::Switch, "For write: then end the input"),
        Parameter::optional(
            "keys",
            Kind::Words,
            "For send-keys: key names such as Enter, C-c, M-x, Up, F1",
        ),
        Parameter::optional("hex", Kind::Words, "For send-keys: bytes, each as two digits"),
        Parameter::optional("literal", Kind::Text, "For send-keys: text as it stands"),
        Parameter::optional("text", Kind::Text, "For paste: the text"),
        Parameter::optional(
            "bracketed",
            Kind::Switch,
            "For paste: mark it as pasted (true, if left out)",
        ),
    ],
};
