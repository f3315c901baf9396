//! The command line: what can be said, and the help a newcomer reads.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Keeps AI agents in a pen.
///
/// Clawpen decides which tools of an agent may run, where, and in what kind of sandbox, and shows
/// why. This version decides and explains; it does not run anything yet. It reads the config of the reference, openclaw.json, as it is.
#[derive(Debug, Parser)]
#[command(name = "clawpen", version, propagate_version = true, args_override_self = true)]
#[command(after_help = "Start here:\n  \
    clawpen sandbox explain            what is in force, and where it comes from\n  \
    clawpen why tool exec              may a tool be called, and what would change that\n  \
    clawpen why command \"git status\"   may a command run, or must a person be asked\n  \
    clawpen config validate            is the config sound\n\n\
    Exit codes: 0 done (or allowed), 1 error (usage, config, system), 3 `why` says no, 4 a person must be asked.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Sandboxes: what is in force for a session
    #[command(subcommand, arg_required_else_help = true)]
    Sandbox(SandboxCommand),
    /// Ask before doing: may this be, which rule says so, and what would change it
    #[command(subcommand, arg_required_else_help = true)]
    Why(WhyCommand),
    /// Approvals: what may run on the host without asking
    #[command(subcommand, arg_required_else_help = true)]
    Approvals(ApprovalsCommand),
    /// The config files: where they are, whether they are sound, what they say
    #[command(subcommand, arg_required_else_help = true)]
    Config(ConfigCommand),
    /// Print the completion script of a shell
    Completions {
        /// The shell to complete for
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one page per command into a directory
    Man {
        /// Where to write the pages
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SandboxCommand {
    /// Show what is in force for a session: sandboxed or not, its shape, its tools, and the origin of each value
    #[command(args_override_self = true)]
    Explain(ExplainArgs),
}

/// Whom a question is about.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Subject {
    /// A session key, such as agent:main:telegram:group:1, or a short name such as main
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub session: Option<String>,
    /// An agent's id; without it the session's agent, else the default agent
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub agent: Option<String>,
}

/// How a result is printed.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct FormatFlag {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl FormatFlag {
    pub(crate) const fn format(self) -> Format {
        if self.json { Format::Json } else { Format::Text }
    }
}

/// The two ways to print a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub subject: Subject,
    /// Print JSON: the reference's shape, with our own findings under the key `clawpen`
    #[arg(long)]
    pub json: bool,
    /// Print the arguments of the `docker create` that this session's sandbox stands for
    #[arg(long)]
    pub docker_args: bool,
    /// Channel plugins to treat as registered, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', hide = true)]
    pub channels: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WhyCommand {
    /// May a tool be called in a session?
    #[command(args_override_self = true)]
    Tool {
        /// The tool's name, such as exec or browser
        name: String,
        #[command(flatten)]
        subject: Subject,
        #[command(flatten)]
        format: FormatFlag,
    },
    /// Where does a path lead in a session's sandbox, and may it be written?
    #[command(args_override_self = true)]
    Path {
        /// A path as a tool would give it: inside the sandbox, or on the host
        path: String,
        #[command(flatten)]
        subject: Subject,
        #[command(flatten)]
        format: FormatFlag,
    },
    /// May a bind be mounted into a session's sandbox?
    #[command(args_override_self = true)]
    Bind {
        /// host:container[:options], as in sandbox.docker.binds
        spec: String,
        #[command(flatten)]
        subject: Subject,
        #[command(flatten)]
        format: FormatFlag,
    },
    /// May a command run, must a person be asked, or is it refused?
    #[command(args_override_self = true)]
    Command(CommandQuestion),
}

/// A command text, and where it would run.
#[derive(Debug, Args)]
pub(crate) struct CommandQuestion {
    /// The whole command as one text, such as "git status | head -n 5"
    #[arg(allow_hyphen_values = true)]
    pub text: String,
    #[command(flatten)]
    pub subject: Subject,
    /// The directory it would run in; without it the agent's workspace
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<String>,
    #[command(flatten)]
    pub format: FormatFlag,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// Print the approvals file; its token is left out
    Get(FormatFlag),
    /// Replace the approvals file
    Set(SetArgs),
    /// Check the approvals file: can it be used, and does it say what its author may think
    Check(FormatFlag),
    /// The commands that need no asking
    #[command(subcommand, arg_required_else_help = true)]
    Allowlist(AllowlistCommand),
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// Read the new content from this file
    #[arg(long, value_name = "FILE", conflicts_with = "stdin", required_unless_present = "stdin")]
    pub file: Option<PathBuf>,
    /// Read the new content from standard input
    #[arg(long)]
    pub stdin: bool,
    /// Replace only the version with this hash; without it, the one that is there now
    #[arg(long, value_name = "HASH")]
    pub base_hash: Option<String>,
    #[command(flatten)]
    pub format: FormatFlag,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AllowlistCommand {
    /// Let a program run without asking
    Add(PatternArgs),
    /// Take a program off the list
    Remove(PatternArgs),
    /// Is a command covered by the list, and by which entries?
    #[command(args_override_self = true)]
    Check(CommandQuestion),
}

#[derive(Debug, Args)]
pub(crate) struct PatternArgs {
    /// The path of a program, or a pattern: `*` within one directory, `**` across, `?` one character
    pub pattern: String,
    /// The agent it is for; without it, every agent
    #[arg(long, value_name = "ID", default_value = "*")]
    pub agent: String,
    #[command(flatten)]
    pub format: FormatFlag,
}

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// The schema of clawpen.json instead
    #[arg(long)]
    pub own: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print where config and state live
    Path(FormatFlag),
    /// Check the config and list everything that is wrong with it
    Validate(FormatFlag),
    /// Print the JSON Schema of openclaw.json, or of clawpen.json
    Schema(SchemaArgs),
    /// Print the config after includes and variables, as JSON; secrets are hidden
    Show {
        /// Only the value at this key path, such as agents.defaults.sandbox
        key: Option<String>,
    },
}
