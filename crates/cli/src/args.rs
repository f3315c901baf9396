//! The command line: what can be said, and the help a newcomer reads.

pub(crate) mod approvals;
mod audit;
pub(crate) mod chat;
mod gateway;
pub(crate) mod lifecycle;
pub(crate) mod mcp;
pub(crate) mod up;

pub(crate) use audit::AuditArgs;
pub(crate) use gateway::GatewayArgs;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clawpen_wire::supervisor::Parents;

/// Keeps AI agents in a pen.
///
/// Clawpen decides which tools of an agent may run, where, and in what kind of sandbox, and shows
/// why. It runs commands in sandboxes and proves what is in force there. It reads the config of the
/// reference, openclaw.json, as it is.
#[derive(Debug, Parser)]
#[command(name = "clawpen", version, propagate_version = true, args_override_self = true)]
#[command(after_help = "Start here:\n  \
    clawpen up                         write a config, start the gateway, say what is next\n  \
    clawpen exec -- sh -c 'id; ls /'   run something in a sandbox\n  \
    clawpen chat                       talk to an agent that works in one\n  \
    clawpen sandbox explain            what is in force, and where it comes from\n  \
    clawpen mcp install claude         let Claude Code use it (or codex, cursor, vscode)\n  \
    clawpen doctor                     what this machine offers, and what is missing\n  \
    clawpen why tool exec              may a tool be called, and what would change that\n  \
    clawpen why command \"git status\"   may a command run, or must a person be asked\n  \
    clawpen config validate            is the config sound\n\n\
    Exit codes: 0 done (or allowed), 1 error (usage, config, system), 3 `why` says no, 4 a person must be asked.\n\
    exec and shell: that of the command; 124 timed out, 125 no sandbox, 126 not executable,\n\
    127 not found, 128+n killed by signal n.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Bring it all up: a config if there is none, the gateway in the background, and what to do next
    Up(up::UpArgs),
    /// What is there: gateway, backend, sandboxes, what waits for an answer, versions
    Status(FormatFlag),
    /// End the gateway; sandboxes stay
    Down(up::DownArgs),
    /// Have systemd start the gateway: write or remove its unit file
    #[command(subcommand, arg_required_else_help = true)]
    Service(up::ServiceCommand),
    /// Talk to an agent whose every tool call runs in a sandbox
    #[command(args_override_self = true)]
    Chat(chat::ChatArgs),
    /// Run a command in a sandbox
    Exec(ExecArgs),
    /// Open a shell in a sandbox
    Shell(ShellArgs),
    /// Files of a sandbox: read, write, list, move, copy
    #[command(subcommand, arg_required_else_help = true)]
    Fs(FsCommand),
    #[command(flatten)]
    Process(lifecycle::ProcessCommand),
    /// Images of sandboxes: build, list, check, remove, unpack
    #[command(subcommand, arg_required_else_help = true)]
    Image(ImageCommand),
    /// Serve WebSocket and HTTP for Studio and the reference's command line, until stopped
    Gateway(GatewayArgs),
    /// What this machine offers for sandboxes, what would be used, what is missing
    Doctor(DoctorArgs),
    /// What was called, decided and done: list, follow, verify and export the record
    Audit(AuditArgs),
    /// Measure sandboxes on this machine beside bwrap, docker and a plain process
    Bench(BenchArgs),
    /// Let an agent use the sandbox over MCP: on standard input and output, or over HTTP
    #[command(args_conflicts_with_subcommands = true)]
    Mcp(mcp::McpArgs),
    /// Sandboxes: what is in force for a session
    #[command(subcommand, arg_required_else_help = true)]
    Sandbox(SandboxCommand),
    /// Ask before doing: may this be, which rule says so, and what would change it
    #[command(subcommand, arg_required_else_help = true)]
    Why(WhyCommand),
    /// Approvals: what may run on the host without asking, and what waits for an answer
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
    /// List the sandboxes that there are, and how they are
    List(lifecycle::ListArgs),
    /// Replace sandboxes: removed now, made anew from today's config at their next use
    #[command(args_override_self = true)]
    Recreate(lifecycle::RecreateArgs),
    /// Start the session's browser, open a bridge to it and stay until Ctrl-C; the browser stays
    #[command(args_override_self = true)]
    Browser(lifecycle::BrowserArgs),
    /// Remove sandboxes; their workspaces stay
    #[command(args_override_self = true)]
    Remove(lifecycle::RemoveArgs),
    /// Remove sandboxes that are idle or old beyond their owner's limits, and what was left behind
    Prune(FormatFlag),
    /// Renew what was copied into a private workspace; what was there goes to the trash
    #[command(args_override_self = true)]
    Reseed(ReseedArgs),
    /// What was moved aside: list it, bring it back, delete it
    #[command(subcommand, arg_required_else_help = true)]
    Trash(TrashCommand),
}

#[derive(Debug, Args)]
pub(crate) struct ReseedArgs {
    #[command(flatten)]
    pub subject: Subject,
    /// Only show how the copies differ from the originals
    #[arg(long, conflicts_with = "whole")]
    pub diff: bool,
    /// Renew the whole copy, not only the seeded files; for a sandbox that is not running
    #[arg(long)]
    pub whole: bool,
    #[command(flatten)]
    pub format: FormatFlag,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TrashCommand {
    /// Show what is in the trash
    List(FormatFlag),
    /// Put something back where it was; never overwrites
    Restore {
        /// Its id, as shown by list
        id: String,
        /// If something stands there by now, let the two change places
        #[arg(long)]
        swap: bool,
        #[command(flatten)]
        format: FormatFlag,
    },
    /// Delete for good: the things named, or everything
    #[command(override_usage = "clawpen sandbox trash empty <IDS>... | --all")]
    Empty {
        /// Ids, as shown by list
        #[arg(required_unless_present = "all")]
        ids: Vec<String>,
        /// Everything in the trash
        #[arg(long, conflicts_with = "ids")]
        all: bool,
        #[command(flatten)]
        format: FormatFlag,
    },
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

/// Whose sandbox, and on which backend.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TargetArgs {
    #[command(flatten)]
    pub subject: Subject,
    /// Use this backend instead of the configured one: native or docker
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,
    /// Make a sandbox for this call only, and remove it afterwards
    #[arg(long)]
    pub fresh: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Pass our input to the command
    #[arg(short, long)]
    pub interactive: bool,
    /// Give the command a terminal
    #[arg(short, long)]
    pub tty: bool,
    /// Set a variable; those that look like credentials stay outside
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// Start in this directory of the sandbox; relative to its working directory
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Kill the command and all it started after so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<f64>,
    /// Print the result as JSON: code, output, usage
    #[arg(long, conflicts_with = "tty")]
    pub json: bool,
    #[command(flatten)]
    pub background: lifecycle::BackgroundFlag,
    #[command(flatten)]
    pub build: BuildFlag,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Set a variable; those that look like credentials stay outside
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// Start in this directory of the sandbox
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    #[command(flatten)]
    pub build: BuildFlag,
}

/// What to do about an image that is missing.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct BuildFlag {
    /// Make the sandbox's image first if it is missing and one of ours
    #[arg(long)]
    build: bool,
}

impl BuildFlag {
    pub(crate) const fn on_missing(self) -> OnMissingImage {
        if self.build { OnMissingImage::Build } else { OnMissingImage::Fail }
    }
}

/// What to do about an image that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnMissingImage {
    Fail,
    Build,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Make an image: by its Dockerfile, or from Debian packages where nothing can be pulled
    Build(ImageBuildArgs),
    /// List our images and those that configs use by default
    List(FormatFlag),
    /// Is an image there, for this machine, current, and not root's?
    Check {
        /// base, common, browser or the name of an image; without it, all three
        image: Option<String>,
        #[command(flatten)]
        format: FormatFlag,
    },
    /// Remove an image
    Rm {
        /// base, common, browser or the name of an image
        image: String,
        #[command(flatten)]
        format: FormatFlag,
    },
    /// Unpack an image into a new directory, for native.rootfs in clawpen.json
    Export(ImageExportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ImageBuildArgs {
    /// Which one
    #[arg(value_parser = ["base", "common", "browser"])]
    pub kind: String,
    /// Set a parameter of its Dockerfile, such as `INSTALL_BREW=0` or `PACKAGES="git nodejs"`
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Leave out what Debian does not bring (node, pnpm, bun, brew)
    #[arg(long)]
    pub offline: bool,
    /// How: auto, dockerfile or packages
    #[arg(long, default_value = "auto", value_parser = ["auto", "dockerfile", "packages"])]
    pub method: String,
    /// Call it this instead of the name that configs use
    #[arg(long, value_name = "NAME:TAG")]
    pub tag: Option<String>,
    #[command(flatten)]
    pub format: FormatFlag,
}

#[derive(Debug, Args)]
pub(crate) struct ImageExportArgs {
    /// base, common, browser or the name of an image
    pub image: String,
    /// The directory to make
    pub directory: PathBuf,
    /// Make the files from Debian packages, without any engine (base, common or browser)
    #[arg(long)]
    pub from_packages: bool,
    #[command(flatten)]
    pub format: FormatFlag,
}

/// Paths are those of the sandbox; a relative one begins at its working directory.
#[derive(Debug, Subcommand)]
pub(crate) enum FsCommand {
    /// Print a file
    Read {
        /// The file
        path: PathBuf,
        /// Begin at this byte
        #[arg(long, default_value_t = 0)]
        offset: u64,
        /// Print so many bytes at most
        #[arg(long)]
        length: Option<u64>,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// Write our input to a file; all of it or nothing
    Write {
        /// The file
        path: PathBuf,
        /// Add to its end instead
        #[arg(long)]
        append: bool,
        /// Fail if it exists
        #[arg(long, conflicts_with = "append")]
        new: bool,
        #[command(flatten)]
        parents: ParentsFlag,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// List a directory
    Ls {
        /// The directory; without it the working directory
        path: Option<PathBuf>,
        /// Modes, owners, sizes and times
        #[arg(short, long)]
        long: bool,
        #[command(flatten)]
        format: FormatFlag,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// Say what a path is; a link is itself the answer
    Stat {
        /// The path
        path: PathBuf,
        #[command(flatten)]
        format: FormatFlag,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// Remove a file or directory
    Rm {
        /// The path
        path: PathBuf,
        /// With all that is in it
        #[arg(short, long)]
        recursive: bool,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// Move a file or directory
    Mv {
        /// From here
        from: PathBuf,
        /// To there
        to: PathBuf,
        /// Replace what is there
        #[arg(short, long)]
        force: bool,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// Make a directory
    Mkdir {
        /// The directory
        path: PathBuf,
        #[command(flatten)]
        parents: ParentsFlag,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// Copy between the host and the sandbox; paths that begin with pen: are the sandbox's
    Cp {
        /// From here, such as notes.txt or pen:out
        from: String,
        /// To there, such as pen:notes.txt or .
        to: String,
        /// Directories with all that is in them; links are passed over
        #[arg(short, long)]
        recursive: bool,
        #[command(flatten)]
        target: TargetArgs,
    },
}

/// What to do about directories that are missing.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ParentsFlag {
    /// Make missing directories; one that exists is fine
    #[arg(short, long)]
    parents: bool,
}

impl ParentsFlag {
    pub(crate) const fn wanted(self) -> Parents {
        if self.parents { Parents::Make } else { Parents::Required }
    }
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Look at the database of sandboxes and records; a corrupt one is kept under a new name, and a
    /// new one is made from what runs
    #[arg(long)]
    pub repair: bool,
    /// Repair without asking
    #[arg(long, requires = "repair")]
    pub yes: bool,
    #[command(flatten)]
    pub format: FormatFlag,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Only what this backend does: native or docker; without it, both
    #[arg(long, value_name = "NAME", value_parser = ["native", "docker"])]
    pub backend: Option<String>,
    /// Only these jobs: create, exec, files, pens, state, workspace, mcp, gateway (native), docker, containers
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Only the gateway: start, weight, answers, five hundred clients
    #[arg(long, conflicts_with_all = ["only", "mcp"])]
    pub gateway: bool,
    /// A directory in which the reference is installed from npm: its gateway is measured beside ours;
    /// otherwise `CLAWPEN_REFERENCE_CLI`
    #[arg(long, value_name = "DIRECTORY")]
    pub reference: Option<PathBuf>,
    /// Only tool calls over MCP, beside the same calls at the engine
    #[arg(long, conflicts_with = "only")]
    pub mcp: bool,
    /// How often each quick job is measured
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub rounds: usize,
    /// How many idle pens
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub pens: usize,
    /// How many live containers
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub containers: usize,
    /// How many files in the large workspace
    #[arg(long, value_name = "N", default_value_t = 300_000)]
    pub files: usize,
    /// The image that containers are measured with
    #[arg(long, value_name = "IMAGE", default_value = "openclaw-sandbox:bookworm-slim")]
    pub image: String,
    #[command(flatten)]
    pub format: FormatFlag,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub subject: Subject,
    /// Print JSON: the reference's shape, with our own findings under the key `clawpen`
    #[arg(long)]
    pub json: bool,
    /// Start the session's sandbox, and show what was asked beside what is found in it
    #[arg(long, conflicts_with = "docker_args")]
    pub live: bool,
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
    /// What waits for a person's answer, with the whole plan
    List(approvals::ListArgs),
    /// Answer one: allow-once, allow-always or deny
    Resolve(approvals::ResolveArgs),
    /// Watch what is asked, and answer by key
    Watch(approvals::WatchArgs),
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
