//! Sees every program that is started below a process, and compares it with the plan.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::{TRACED, generate::Commands, traced::DONE};

/// A program that was started: its file and its words.
type Started = (String, Vec<String>);

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Tally {
    commands: u64,
    allowed: u64,
    started: u64,
    /// How often each program was, by name.
    programs: BTreeMap<String, u64>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { commands, allowed, started, programs } = self;
        write!(
            f,
            "{commands} commands, {allowed} allowed, {started} programs started, none other;"
        )?;
        write!(f, " {} different programs", programs.len())
    }
}

/// Makes up commands for so long.
pub(super) fn run(time: Duration, seed: u64) -> Result<Tally> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().canonicalize()?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&path, mode)?;
    let path = path.to_str().context("the directory's name is no text")?;
    let mut traced = Traced::start(path)?;
    let end = Instant::now() + time;
    let mut tally = Tally::default();
    for text in Commands::new(seed) {
        if Instant::now() >= end {
            break;
        }
        clean(path)?;
        let (plan, started) = traced.command(&text)?;
        tally.commands += 1;
        tally.started += started.len() as u64;
        for (file, _) in &started {
            let name = file.rsplit('/').next().unwrap_or(file);
            *tally.programs.entry(name.to_owned()).or_default() += 1;
        }
        if plan.is_null() && started.is_empty() {
            continue;
        }
        tally.allowed += 1;
        check(&plan, &started).with_context(|| format!("the command was: {text:?}"))?;
    }
    traced.stop()?;
    Ok(tally)
}

/// Starts each command in the same directory: two files, a script, a repository's settings.
fn clean(path: &str) -> Result<()> {
    for entry in std::fs::read_dir(path)? {
        let entry = entry?.path();
        if entry.is_dir() {
            std::fs::remove_dir_all(&entry)?;
        } else {
            std::fs::remove_file(&entry)?;
        }
    }
    std::fs::write(format!("{path}/a"), "a b\nc d\n")?;
    std::fs::write(format!("{path}/b.txt"), "b\n")?;
    std::fs::write(format!("{path}/run.sh"), "exit 0\n")?;
    Ok(())
}

/// Compares what ran with what the plan lists.
fn check(plan: &Value, started: &[Started]) -> Result<()> {
    let steps = plan.as_array().map_or(&[][..], Vec::as_slice);
    let mut listed: Vec<Started> = steps.iter().flat_map(programs_of).collect();
    for program in started {
        match listed.iter().position(|known| known == program) {
            Some(index) => drop(listed.swap_remove(index)),
            None => bail!("{program:?} was started, and the plan lists {plan}"),
        }
    }
    // A chain may skip what comes later; the first pipeline always starts.
    let is_first = |step: &&Value| step["joint"] == "" || step["joint"] == "|";
    for step in steps.iter().take_while(is_first) {
        let first = programs_of(step).into_iter().next().context("a step without a program")?;
        if !started.contains(&first) {
            bail!("{first:?} was not started, although the plan lists it: {plan}");
        }
    }
    Ok(())
}

/// The programs of a step: its file with its words, and what each wrapper starts, with the rest.
fn programs_of(step: &Value) -> Vec<Started> {
    let texts = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        items.map(str::to_owned).collect()
    };
    let argv = texts(&step["argv"]);
    let mut programs = vec![(step["file"].as_str().unwrap_or_default().to_owned(), argv.clone())];
    let mut start = 1;
    for other in texts(&step["others"]) {
        let found = argv.iter().skip(start).position(|word| *word == other);
        let Some(found) = found else { continue };
        start += found;
        programs.push((other, argv[start..].to_vec()));
        start += 1;
    }
    programs
}

/// The process that runs plans, and its pipes.
struct Traced {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    pid: Pid,
}

impl Traced {
    fn start(directory: &str) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([TRACED, directory])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().context("no pipe")?);
        let pid = Pid::from_raw(i32::try_from(child.id())?);
        match waitpid(pid, None)? {
            WaitStatus::Stopped(_, Signal::SIGSTOP) => {}
            other => bail!("the traced process did not come up: {other:?}"),
        }
        let options = Options::PTRACE_O_TRACEEXEC
            | Options::PTRACE_O_TRACEFORK
            | Options::PTRACE_O_TRACEVFORK
            | Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_EXITKILL;
        ptrace::setoptions(pid, options)?;
        ptrace::cont(pid, None)?;
        Ok(Self { child, input, output, pid })
    }

    /// Has one command judged and, if it is allowed, run. Gives its plan and what was started.
    fn command(&mut self, text: &str) -> Result<(Value, Vec<Started>)> {
        let input = self.input.as_mut().context("no pipe")?;
        writeln!(input, "{}", json!(text))?;
        let mut started = Vec::new();
        loop {
            let status = waitpid(None, Some(WaitPidFlag::__WALL))?;
            match status {
                WaitStatus::Stopped(pid, signal) if pid == self.pid && signal == DONE => break,
                WaitStatus::PtraceEvent(pid, _, event) => {
                    if event == nix::libc::PTRACE_EVENT_EXEC {
                        started
                            .extend(Some(program_of(pid)?).filter(|started| !is_keeper(started)));
                    }
                    go_on(pid, None)?;
                }
                // A new process begins with a stop of its own.
                WaitStatus::Stopped(pid, Signal::SIGSTOP) => go_on(pid, None)?,
                WaitStatus::Stopped(pid, signal) => go_on(pid, Some(signal))?,
                WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, _, _) if pid == self.pid => {
                    bail!("the traced process ended ({status:?}) at {text:?}");
                }
                _ => {}
            }
        }
        let plan: Value = self.line()?;
        if !plan.is_null() {
            let _ended: Value = self.line()?;
        }
        go_on(self.pid, None)?;
        Ok((plan, started))
    }

    fn line(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("an odd line: {line:?}"))
    }

    fn stop(mut self) -> Result<()> {
        drop(self.input.take());
        self.child.kill()?;
        Ok(())
    }
}

/// Our own process between the runner and a program. It is no file of the machine.
fn is_keeper((file, words): &Started) -> bool {
    file.starts_with("/memfd:clawpen-supervisor")
        && matches!(words.as_slice(), [_, mode, ..] if mode == "keep")
}

/// Lets a process go on; it may be gone.
fn go_on(pid: Pid, signal: Option<Signal>) -> Result<()> {
    match ptrace::cont(pid, signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What a process has just become.
fn program_of(pid: Pid) -> Result<Started> {
    let file = std::fs::read_link(format!("/proc/{pid}/exe"))?;
    let words = std::fs::read(format!("/proc/{pid}/cmdline"))?;
    let words = words.strip_suffix(b"\0").unwrap_or(&words).split(|byte| *byte == 0);
    let words = words.map(|word| String::from_utf8_lossy(word).into_owned());
    Ok((file.to_string_lossy().into_owned(), words.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(file: &str, words: &[&str]) -> Started {
        (file.to_owned(), words.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn a_program_that_is_not_listed_is_noticed() {
        let plan = json!([
            {"joint": "", "file": "/b/nice", "argv": ["nice", "/b/ls", "a"], "others": ["/b/ls"]},
            {"joint": "&&", "file": "/b/id", "argv": ["id"], "others": []},
        ]);
        let nice = started("/b/nice", &["nice", "/b/ls", "a"]);
        let ls = started("/b/ls", &["/b/ls", "a"]);
        let fine = [nice.clone(), ls.clone()];
        assert!(check(&plan, &fine).is_ok());
        assert!(check(&plan, &[nice.clone(), ls.clone(), started("/b/id", &["id"])]).is_ok());
        assert!(check(&plan, &[nice.clone(), ls, started("/b/rm", &["rm"])]).is_err());
        assert!(check(&plan, &[nice.clone(), started("/b/ls", &["/b/ls", "b"])]).is_err());
        assert!(check(&plan, &[nice.clone(), nice]).is_err());
        assert!(check(&plan, &[]).is_err());
    }
}
