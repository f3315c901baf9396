//! Raw system calls and small helpers of the attacks.

use std::ffi::CString;
use std::io;

use crate::Outcome;

/// Six registers.
pub(crate) type Args = [usize; 6];

/// Any system call by number.
pub(crate) fn call(number: libc::c_long, args: Args) -> io::Result<usize> {
    let [first, second, third, fourth, fifth, sixth] = args;
    // SAFETY: the arguments are integers or pointers to live values of the caller; whatever the
    // kernel does to this process is the point of the attack.
    let result = unsafe { libc::syscall(number, first, second, third, fourth, fifth, sixth) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(usize::try_from(result).unwrap_or(0))
    }
}

/// The same with fewer arguments; the rest are zero.
pub(crate) fn call3(number: libc::c_long, a: usize, b: usize, c: usize) -> io::Result<usize> {
    call(number, [a, b, c, 0, 0, 0])
}

/// Turns a result into an outcome: success is the escape.
pub(crate) fn judge<T>(what: &str, result: io::Result<T>) -> Outcome {
    match result {
        Ok(_) => Outcome::Escaped(what.to_owned()),
        // Outside any pen only the kernel itself can lack a call.
        Err(error) if is_control() && error.raw_os_error() == Some(libc::ENOSYS) => {
            Outcome::CannotTry(format!("{what}: not in this kernel"))
        }
        Err(error) => Outcome::Blocked(format!("{what}: {error}")),
    }
}

/// Says whether this run is the control, outside any pen.
pub(crate) fn is_control() -> bool {
    std::env::var_os("CONTROL").is_some()
}

/// A C string; the attacks' texts hold no NUL.
pub(crate) fn text(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

/// The address of a C string, for a raw call.
pub(crate) fn address(text: &CString) -> usize {
    text.as_ptr() as usize
}

/// Tries to read a file; its first line is the evidence.
pub(crate) fn read(path: &str) -> Outcome {
    match std::fs::read(path) {
        Ok(bytes) if bytes.is_empty() => Outcome::Blocked(format!("{path} is empty here")),
        Ok(bytes) => {
            let start = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).replace('\n', " ");
            Outcome::Escaped(format!("read {path}: {start}"))
        }
        Err(error) => Outcome::Blocked(format!("{path}: {error}")),
    }
}

/// Tries to open a file for writing, and writes nothing.
pub(crate) fn open_for_writing(path: &str) -> Outcome {
    judge(&format!("opened {path} for writing"), std::fs::OpenOptions::new().write(true).open(path))
}

/// A value that the harness hands in by the environment.
pub(crate) fn given(name: &str) -> Result<String, Outcome> {
    std::env::var(name).map_err(|_unset| Outcome::CannotTry(format!("{name} is not set")))
}
