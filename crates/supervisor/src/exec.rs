//! Turns an `Exec` request into a command that is ready to start, or says why it cannot be.
//!
//! Everything that can be checked or made beforehand is: the environment, the places where the program may
//! be, pipes or a terminal, the working directory. After the fork nothing is left but system calls.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use clawpen_os::beneath;
use clawpen_os::events;
use clawpen_os::pty::{self, Size};
use clawpen_os::spawn::{Session, Step};
use clawpen_wire::pen::ServePlan;
use clawpen_wire::supervisor::{
    EnvVar, EnvironmentBase, ErrorCode, Exec, ExecOutput, Failed, StderrMode, StdinMode, TtySize,
    limits,
};

use crate::confine::{Executable, Prepared, Telling};

/// Where commands are looked for if the environment does not say.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Our ends of a command's streams; none of them blocks.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) input: Option<OwnedFd>,
    pub(crate) output: OwnedFd,
    pub(crate) error: Option<OwnedFd>,
    pub(crate) is_terminal: bool,
}

/// Where a command's program is.
#[derive(Debug)]
pub(crate) enum From {
    /// In the sandbox, where its first word says.
    Sandbox,
    /// In memory that no process of the sandbox reaches.
    Memory(OwnedFd),
}

/// Gets `exec` ready to start.
pub(crate) fn prepare(
    plan: &ServePlan,
    exec: &Exec,
    from: From,
) -> Result<(Prepared, Ends), Failed> {
    let environment = environment(plan, exec)?;
    let [program, ..] = exec.argv.as_slice() else {
        return Err(failed(ErrorCode::Invalid, "the command is empty"));
    };
    if program.is_empty() {
        return Err(failed(ErrorCode::Invalid, "the command's name is empty"));
    }
    let program = match from {
        From::Sandbox => {
            let path = environment.get(OsStr::new("PATH")).map(OsString::as_os_str);
            Executable::Places(places(program, path)?)
        }
        From::Memory(program) => Executable::Held(program),
    };
    let argv = exec.argv.iter().map(c_string).collect::<Result<_, _>>()?;
    let environment = environment
        .into_iter()
        .map(|(name, value)| {
            let mut line = name.into_vec();
            line.push(b'=');
            line.extend_from_slice(value.as_bytes());
            c_string(OsString::from_vec(line))
        })
        .collect::<Result<_, _>>()?;
    let directory = working_directory(exec.cwd.as_deref().unwrap_or(&plan.workdir))?;
    let (streams, ends) = streams(exec)?;
    let session = if exec.tty.is_some() { Session::NewWithTerminal } else { Session::New };
    let telling = match (&exec.output, exec.tty) {
        (ExecOutput::Stream { .. }, None) => Telling::Gathered,
        (ExecOutput::Stream { .. }, Some(_)) | (ExecOutput::Background { .. }, _) => {
            Telling::AtOnce
        }
    };
    Ok((Prepared { program, argv, environment, directory, session, streams, telling }, ends))
}

/// What a failed start means to the host. `command` is what was asked for.
pub(crate) fn start_failure(step: Step, errno: i32, command: &OsStr) -> Failed {
    let cause = io::Error::from_raw_os_error(errno);
    let command = command.to_string_lossy();
    let (code, what) = match (step, cause.kind()) {
        (Step::Exec, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            (ErrorCode::CommandNotFound, format!("`{command}` does not exist"))
        }
        (Step::Exec, io::ErrorKind::OutOfMemory | io::ErrorKind::WouldBlock) | (Step::Clone, _) => {
            (ErrorCode::CannotStart, "no process can be started, a limit is reached".to_owned())
        }
        (Step::Exec, io::ErrorKind::ArgumentListTooLong) => {
            (ErrorCode::Invalid, format!("the arguments and variables of `{command}` are too long"))
        }
        (Step::Exec, _) => (ErrorCode::NotExecutable, format!("`{command}` cannot be executed")),
        (Step::Directory, _) => {
            (ErrorCode::WorkingDirectory, "the working directory cannot be entered".to_owned())
        }
        (step, _) => {
            (ErrorCode::Unconfined, format!("`{command}` was not started: {step:?} failed"))
        }
    };
    Failed { code, errno, message: cut(format!("{what}: {cause}")) }
}

fn environment(plan: &ServePlan, exec: &Exec) -> Result<BTreeMap<OsString, OsString>, Failed> {
    let base: &[EnvVar] = match exec.base {
        EnvironmentBase::Sandbox => &plan.env,
        EnvironmentBase::Empty => &[],
    };
    let mut variables = BTreeMap::new();
    for EnvVar { name, value } in base.iter().chain(&exec.env) {
        if name.is_empty() || name.as_bytes().contains(&b'=') {
            let what = format!("`{}` cannot be the name of a variable", name.to_string_lossy());
            return Err(failed(ErrorCode::Invalid, what));
        }
        variables.insert(name.clone(), value.clone());
    }
    Ok(variables)
}

/// The files that `program` may mean, in the order of `PATH`.
fn places(program: &OsStr, path: Option<&OsStr>) -> Result<Vec<CString>, Failed> {
    if program.as_bytes().contains(&b'/') {
        return Ok(vec![c_string(program)?]);
    }
    let path = path.unwrap_or_else(|| OsStr::new(DEFAULT_PATH));
    path.as_bytes()
        .split(|byte| *byte == b':')
        .take(64)
        .map(|directory| {
            // An empty part means the working directory, as everywhere.
            let directory = if directory.is_empty() { b"." } else { directory };
            c_string(Path::new(OsStr::from_bytes(directory)).join(program).as_os_str())
        })
        .collect()
}

fn working_directory(path: &Path) -> Result<OwnedFd, Failed> {
    let fail = |cause: &io::Error| Failed {
        code: ErrorCode::WorkingDirectory,
        errno: cause.raw_os_error().unwrap_or_default(),
        message: cut(format!(
            "the working directory `{}` cannot be entered: {cause}",
            path.display()
        )),
    };
    if !path.is_absolute() {
        return Err(failed(ErrorCode::Invalid, "the working directory must be an absolute path"));
    }
    beneath::open_root(path).map_err(|cause| fail(&cause))
}

fn streams(exec: &Exec) -> Result<([OwnedFd; 3], Ends), Failed> {
    let made = match exec.tty {
        Some(size) => terminal(size),
        None => pipes(exec),
    };
    let (streams, ends) = made.map_err(|cause| Failed {
        code: ErrorCode::CannotStart,
        errno: cause.raw_os_error().unwrap_or_default(),
        message: cut(format!("no streams can be made for the command: {cause}")),
    })?;
    Ok((streams, ends))
}

fn pipes(exec: &Exec) -> io::Result<([OwnedFd; 3], Ends)> {
    let (stdin, input) = match exec.stdin {
        StdinMode::Null => (events::open_null()?, None),
        StdinMode::Pipe => {
            let (theirs, ours) = events::pipe()?;
            events::set_nonblocking(ours.as_fd())?;
            (theirs, Some(ours))
        }
    };
    let (output, stdout) = events::pipe()?;
    events::set_nonblocking(output.as_fd())?;
    let (error, stderr) = match exec.stderr {
        StderrMode::Merged => (None, stdout.try_clone()?),
        StderrMode::Separate => {
            let (ours, theirs) = events::pipe()?;
            events::set_nonblocking(ours.as_fd())?;
            (Some(ours), theirs)
        }
    };
    Ok(([stdin, stdout, stderr], Ends { input, output, error, is_terminal: false }))
}

fn terminal(size: TtySize) -> io::Result<([OwnedFd; 3], Ends)> {
    let pair = pty::open(Size { rows: size.rows, columns: size.columns })?;
    events::set_nonblocking(pair.primary.as_fd())?;
    let streams = [pair.secondary.try_clone()?, pair.secondary.try_clone()?, pair.secondary];
    // A second descriptor, so that reading and writing can be waited for apart.
    let input = Some(pair.primary.try_clone()?);
    Ok((streams, Ends { input, output: pair.primary, error: None, is_terminal: true }))
}

fn c_string(word: impl AsRef<OsStr>) -> Result<CString, Failed> {
    CString::new(word.as_ref().as_bytes())
        .map_err(|_zero| failed(ErrorCode::Invalid, "a word of the command holds a zero byte"))
}

pub(crate) fn failed(code: ErrorCode, message: impl Into<String>) -> Failed {
    Failed { code, errno: 0, message: cut(message.into()) }
}

/// Cuts a message to what the frame takes.
pub(crate) fn cut(mut message: String) -> String {
    let mut end = message.len().min(limits::TEXT);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message.truncate(end);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_up_in_path_and_a_path_is_not() {
        check("ls", Some("/bin:/usr/bin"), &["/bin/ls", "/usr/bin/ls"]);
        check("ls", Some("/bin::x"), &["/bin/ls", "./ls", "x/ls"]);
        check("./ls", Some("/bin"), &["./ls"]);
        check("/bin/ls", None, &["/bin/ls"]);
        let found = places(OsStr::new("ls"), None).unwrap();
        assert_eq!(found.len(), 6);
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let cut = cut("ä".repeat(600));
        assert_eq!(cut, "ä".repeat(512));
    }

    #[track_caller]
    fn check(program: &str, path: Option<&str>, expected: &[&str]) {
        let found = places(OsStr::new(program), path.map(OsStr::new)).unwrap();
        let found: Vec<_> = found.iter().map(|place| place.to_str().unwrap()).collect();
        assert_eq!(found, expected);
    }
}
