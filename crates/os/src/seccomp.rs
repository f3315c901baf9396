//! Installs a seccomp filter. What it says is decided elsewhere; here only its shape is checked.

use std::io;
use std::ptr;

use crate::syscall::{check, errno};

/// The kernel takes no more (`BPF_MAXINSNS`).
const MAX_INSTRUCTIONS: usize = 4096;

/// One instruction, laid out as the kernel reads it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SockFilter {
    /// Operation.
    pub code: u16,
    /// Instructions to skip if true.
    pub jt: u8,
    /// Instructions to skip if false.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

/// A filter program of 1 to 4096 instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program(Vec<SockFilter>);

impl Program {
    /// Refuses an empty or too long program with `EINVAL`. The kernel checks the rest.
    pub fn new(instructions: Vec<SockFilter>) -> io::Result<Self> {
        if instructions.is_empty() || instructions.len() > MAX_INSTRUCTIONS {
            return Err(errno(libc::EINVAL));
        }
        Ok(Self(instructions))
    }

    /// From 8 bytes per instruction in the machine's byte order.
    pub fn from_bytes(bytes: &[u8]) -> io::Result<Self> {
        let (chunks, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() || chunks.len() > MAX_INSTRUCTIONS {
            return Err(errno(libc::EINVAL));
        }
        let instruction = |&[c0, c1, jt, jf, k0, k1, k2, k3]: &[u8; 8]| SockFilter {
            code: u16::from_ne_bytes([c0, c1]),
            jt,
            jf,
            k: u32::from_ne_bytes([k0, k1, k2, k3]),
        };
        Self::new(chunks.iter().map(instruction).collect())
    }

    /// The instructions.
    pub fn instructions(&self) -> &[SockFilter] {
        &self.0
    }

    /// The structure that points the kernel to the program; valid as long as `self`.
    pub(crate) fn descriptor(&self) -> libc::sock_fprog {
        // `new` has seen to it that the length fits.
        let len = u16::try_from(self.0.len()).unwrap_or(0);
        libc::sock_fprog { len, filter: self.0.as_ptr().cast_mut().cast() }
    }
}

/// Filters the calling thread and its descendants for good; needs no-new-privs. Filters stack, and
/// the strictest answer wins.
pub fn install(program: &Program) -> io::Result<()> {
    let descriptor = program.descriptor();
    // SAFETY: `descriptor` points to `len` instructions that `program` keeps; SockFilter has the
    // layout of the kernel's sock_filter, and the kernel copies them.
    let ret = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            ptr::from_ref(&descriptor),
        )
    };
    check(ret).map(drop)
}

/// Whether this kernel has filters.
pub fn is_available() -> bool {
    let action: u32 = libc::SECCOMP_RET_KILL_PROCESS;
    // SAFETY: this operation reads one u32, which outlives the call.
    let ret = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, ptr::from_ref(&action))
    };
    ret == 0
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Loads the call's number; answers `ESRCH` to getppid, allows the rest.
    fn without_getppid() -> Program {
        let load = SockFilter { code: 0x20, jt: 0, jf: 0, k: 0 };
        let number = u32::try_from(libc::SYS_getppid).unwrap();
        let compare = SockFilter { code: 0x15, jt: 0, jf: 1, k: number };
        let refuse = SockFilter {
            code: 0x06,
            jt: 0,
            jf: 0,
            k: libc::SECCOMP_RET_ERRNO | libc::ESRCH as u32,
        };
        let allow = SockFilter { code: 0x06, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW };
        Program::new(vec![load, compare, refuse, allow]).unwrap()
    }

    #[test]
    fn a_filter_answers_for_the_kernel() {
        assert!(is_available());
        let filtered = thread::spawn(|| {
            crate::process::set_no_new_privs().unwrap();
            install(&without_getppid()).unwrap();
            // SAFETY: getppid takes nothing and returns a number.
            let ret = unsafe { libc::syscall(libc::SYS_getppid) };
            (ret, io::Error::last_os_error().raw_os_error())
        });
        assert_eq!(filtered.join().unwrap(), (-1, Some(libc::ESRCH)));
    }

    #[test]
    fn the_shape_is_checked() {
        let bytes: Vec<u8> = without_getppid()
            .instructions()
            .iter()
            .flat_map(|SockFilter { code, jt, jf, k }| {
                [&code.to_ne_bytes()[..], &[*jt, *jf], &k.to_ne_bytes()].concat()
            })
            .collect();
        assert_eq!(Program::from_bytes(&bytes).unwrap(), without_getppid());
        let refused = |bytes: &[u8]| Program::from_bytes(bytes).unwrap_err().raw_os_error();
        assert_eq!(refused(&[]), Some(libc::EINVAL));
        assert_eq!(refused(&bytes[..9]), Some(libc::EINVAL));
        assert_eq!(refused(&vec![0; 8 * 4097]), Some(libc::EINVAL));
    }

    #[test]
    fn without_no_new_privs_an_ordinary_user_may_not() {
        let refused = thread::spawn(|| {
            if rustix::process::geteuid().is_root() {
                crate::process::set_uid(65534).unwrap();
            }
            install(&without_getppid()).unwrap_err().raw_os_error()
        });
        assert_eq!(refused.join().unwrap(), Some(libc::EACCES));
    }
}
