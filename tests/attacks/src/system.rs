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

/// "Relative to the working directory", for calls that take a directory.
pub(crate) const HERE: usize = (libc::AT_FDCWD as isize).cast_unsigned();

/// A small number as a register holds it.
pub(crate) fn number_of(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// Puts something in place that a pen has and the control has not. It goes with the control's mounts.
pub(crate) fn mount_for_control(source: &str, target: &str, kind: &str, flags: libc::c_ulong) {
    if is_control() {
        let (source, target, kind) = (text(source), text(target), text(kind));
        let flags = usize::try_from(flags).unwrap_or(0);
        let args = [address(&source), address(&target), address(&kind), flags, 0, 0];
        // The attack that needs it says so if this fails.
        let _ = call(libc::SYS_mount, args);
    }
}

/// Outside any pen, what is not there is not in this kernel or on this machine.
fn missing(path: &str, error: io::Error) -> Outcome {
    if is_control() && error.kind() == io::ErrorKind::NotFound {
        return Outcome::CannotTry(format!("{path} does not exist here"));
    }
    Outcome::Blocked(format!("{path}: {error}"))
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
        Err(error) => missing(path, error),
    }
}

/// Tries to open a file for writing, and writes nothing.
pub(crate) fn open_for_writing(path: &str) -> Outcome {
    match std::fs::OpenOptions::new().write(true).open(path) {
        Ok(_) => Outcome::Escaped(format!("opened {path} for writing")),
        Err(error) => missing(path, error),
    }
}

/// Tries to open a file for reading.
pub(crate) fn open_for_reading(path: &str) -> Outcome {
    match std::fs::File::open(path) {
        Ok(_) => Outcome::Escaped(format!("opened {path}")),
        Err(error) => missing(path, error),
    }
}

/// Tries to read the first bytes of a file, without waiting for more.
pub(crate) fn read_some(path: &str) -> Outcome {
    use std::io::Read as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    match file.and_then(|mut file| file.read(&mut [0; 64])) {
        Ok(0) => Outcome::Blocked(format!("{path} is empty here")),
        Ok(count) => Outcome::Escaped(format!("read {count} bytes of {path}")),
        Err(error) => missing(path, error),
    }
}

/// A value that the harness hands in by the environment.
pub(crate) fn given(name: &str) -> Result<String, Outcome> {
    std::env::var(name).map_err(|_unset| Outcome::CannotTry(format!("{name} is not set")))
}
