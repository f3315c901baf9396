//! The `clawpen` binary: reads the command line, asks, and renders. Decides nothing.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod config_report;
mod exit;
mod file_change;
mod output;

use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;

use args::{
    AllowlistCommand, ApprovalsCommand, Cli, Command, ConfigCommand, SandboxCommand, WhyCommand,
};
use commands::CommandError;
use exit::Outcome;
use output::{Output, safe_lines};

fn main() -> ExitCode {
    let output = Output::new();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error, &output),
    };
    match run(cli.command, &output) {
        Ok(outcome) => ExitCode::from(outcome.code()),
        Err(error) => {
            output.note(&error.report());
            ExitCode::from(exit::ERROR)
        }
    }
}

/// Help and version are results; everything else clap says is a mistake, with the reference's code.
fn usage(error: &clap::Error, output: &Output) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // If even the message cannot be printed, the code still tells.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        // A mistake repeats what was typed, or pasted.
        _ => {
            output.note(safe_lines(&error.render().to_string()).trim_end());
            ExitCode::from(if runs_a_command() { exit::NO_SANDBOX } else { exit::ERROR })
        }
    }
}

/// `exec` and `shell` end with the command's code, so ours must not look like one.
fn runs_a_command() -> bool {
    std::env::args_os().nth(1).is_some_and(|word| word == "exec" || word == "shell")
}

fn run(command: Command, output: &Output) -> Result<Outcome, CommandError> {
    match command {
        Command::Up(args) => commands::up::run(&args, output),
        Command::Status(format) => commands::status::run(format.format(), output),
        Command::Down(args) => commands::down::run(&args, output),
        Command::Service(command) => commands::service::run(&command, output),
        Command::Chat(args) => commands::chat::run(&args, output),
        Command::Exec(args) => Ok(commands::exec::run(&args, output)),
        Command::Shell(args) => Ok(commands::exec::shell(&args, output)),
        Command::Fs(command) => commands::fs::run(command, output),
        Command::Process(command) => commands::processes::run(command, output),
        Command::Doctor(args) if args.repair => commands::repair::run(&args, output),
        Command::Image(command) => commands::image::run(&command, output),
        Command::Gateway(args) => commands::gateway::run(&args, output),
        Command::Doctor(args) => commands::doctor::run(&args, output),
        Command::Mcp(args) => commands::mcp::run(&args, output),
        Command::Audit(args) => commands::audit::run(&args, output),
        Command::Bench(args) => commands::bench::run(&args, output),
        Command::Sandbox(SandboxCommand::Explain(args)) => commands::explain::run(&args, output),
        Command::Sandbox(SandboxCommand::List(args)) => commands::sandboxes::list(&args, output),
        Command::Sandbox(SandboxCommand::Browser(args)) => commands::browser::run(&args, output),
        Command::Sandbox(SandboxCommand::Recreate(args)) => {
            commands::sandboxes::recreate(&args, output)
        }
        Command::Sandbox(SandboxCommand::Remove(args)) => {
            commands::sandboxes::remove(&args, output)
        }
        Command::Sandbox(SandboxCommand::Prune(format)) => {
            commands::sandboxes::prune(format.format(), output)
        }
        Command::Sandbox(SandboxCommand::Reseed(args)) => commands::reseed::run(&args, output),
        Command::Sandbox(SandboxCommand::Trash(command)) => commands::trash::run(&command, output),
        Command::Why(WhyCommand::Tool { name, subject, format }) => {
            commands::why::tool(&name, &subject, format.format(), output)
        }
        Command::Why(WhyCommand::Path { path, subject, format }) => {
            commands::why::path(&path, &subject, format.format(), output)
        }
        Command::Why(WhyCommand::Bind { spec, subject, format }) => {
            commands::why::bind(&spec, &subject, format.format(), output)
        }
        Command::Why(WhyCommand::Command(question)) => {
            commands::why_command::run(&question, output)
        }
        Command::Approvals(command) => approvals(command, output),
        Command::Config(ConfigCommand::Path(format)) => {
            commands::config::path(format.format(), output)
        }
        Command::Config(ConfigCommand::Validate(format)) => {
            commands::config::validate(format.format(), output)
        }
        Command::Config(ConfigCommand::Schema(args)) => commands::config::schema(&args, output),
        Command::Config(ConfigCommand::Show { key }) => {
            commands::config::show(key.as_deref(), output)
        }
        Command::Completions { shell } => commands::manual::completions(shell, output),
        Command::Man { out } => commands::manual::pages(out.as_deref(), output),
    }
}

fn approvals(command: ApprovalsCommand, output: &Output) -> Result<Outcome, CommandError> {
    match command {
        ApprovalsCommand::Get(format) => commands::approvals::get(format.format(), output),
        ApprovalsCommand::Set(args) => commands::approvals::set(&args, output),
        ApprovalsCommand::Check(format) => commands::approvals::check(format.format(), output),
        ApprovalsCommand::Allowlist(AllowlistCommand::Add(args)) => {
            commands::approvals::add(&args, output)
        }
        ApprovalsCommand::Allowlist(AllowlistCommand::Remove(args)) => {
            commands::approvals::remove(&args, output)
        }
        ApprovalsCommand::Allowlist(AllowlistCommand::Check(question)) => {
            commands::why_command::coverage(&question, output)
        }
        ApprovalsCommand::List(args) => commands::approvals::pending::list(&args, output),
        ApprovalsCommand::Resolve(args) => commands::approvals::pending::resolve(&args, output),
        ApprovalsCommand::Watch(args) => commands::approvals::watch::run(&args, output),
    }
}
