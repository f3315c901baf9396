//! What happens in the child: system calls on prepared memory, and nothing else.
//!
//! The child runs in our memory, on a stack of its own, while the thread that made it waits in the
//! kernel. So it allocates nothing, takes no lock, drops nothing, cannot unwind and calls no
//! function that is not async-signal-safe. It does have its own descriptor table, working
//! directory, signal actions, limits and credentials: changing those does not touch ours.

use std::cell::Cell;
use std::convert::Infallible;
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::ptr;

use super::{Actions, Image, Plan, Session, Step};
use crate::events::reset_signal_actions;
use crate::process::{Child, Pid, pointers};
use crate::processors::{Allowed, Processor};
use crate::seccomp::Program;
use crate::stack::Stack;
use crate::syscall::{check, errno};

/// All that the child reads and writes. It lives in the parent's frame for the whole time.
pub(super) struct Prepared<'a> {
    plan: &'a Plan<'a>,
    /// (number, source) pairs; the source is replaced by its lifted copy.
    descriptors: Vec<(RawFd, Cell<RawFd>)>,
    /// Numbers to be closed at exec.
    gaps: Vec<(u32, u32)>,
    /// Above every number given: sources are lifted to here before any number is overwritten.
    floor: RawFd,
    directory: Cell<Option<RawFd>>,
    landlock: Cell<Option<RawFd>>,
    file: Cell<Option<RawFd>>,
    paths: Vec<*const libc::c_char>,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    limits: Vec<(u32, libc::rlimit64)>,
    filter: Option<libc::sock_fprog>,
    stack: Stack,
    /// What the thread that waits may use, if it is to go on apart.
    waiting: Option<Allowed>,
    /// Written by the child: the step it is at, and why it failed there.
    step: Cell<Step>,
    failure: Cell<i32>,
}

impl<'a> Prepared<'a> {
    pub(super) fn new(
        plan: &'a Plan<'a>,
        descriptors: Vec<(RawFd, RawFd)>,
        gaps: Vec<(u32, u32)>,
        floor: RawFd,
    ) -> Self {
        let (paths, file) = match &plan.image {
            Image::Paths(paths) => (paths.iter().map(|path| path.as_ptr()).collect(), None),
            Image::File(file) => (Vec::new(), Some(file.as_raw_fd())),
        };
        let limits = plan.limits.iter().map(|(what, limit)| (what.number(), limit.to_kernel()));
        Self {
            plan,
            descriptors: descriptors.into_iter().map(|(to, from)| (to, Cell::new(from))).collect(),
            gaps,
            floor,
            directory: Cell::new(plan.directory.map(|fd| fd.as_raw_fd())),
            landlock: Cell::new(plan.landlock.map(|rules| rules.as_fd().as_raw_fd())),
            file: Cell::new(file),
            paths,
            argv: pointers(&plan.argv),
            envp: pointers(&plan.environment),
            limits: limits.collect(),
            filter: plan.seccomp.map(Program::descriptor),
            stack: Stack::new(),
            waiting: plan.apart.then(Allowed::to_this_thread).flatten(),
            step: Cell::new(Step::Clone),
            failure: Cell::new(0),
        }
    }

    /// In the parent: gives it its processors back.
    pub(super) fn come_back(&self) {
        if let Some(waiting) = &self.waiting {
            waiting.apply();
        }
    }

    /// What the child left behind, once the kernel has let its parent go on: it reached exec and
    /// did not come back, or the step it failed at (with 0 if it was killed there).
    pub(super) fn outcome(&self) -> Result<(), (Step, i32)> {
        match (self.step.get(), self.failure.get()) {
            (Step::Exec, 0) => Ok(()),
            failed => Err(failed),
        }
    }
}

/// Makes the child and waits until it has become the program or ended. All signals must be blocked.
pub(super) fn start(prepared: &Prepared<'_>) -> io::Result<Child> {
    let mut pidfd: RawFd = -1;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: the child runs `run` on `prepared.stack`. CLONE_VFORK keeps this thread here until the
    // child has left our memory, so `prepared`, its stack and `pidfd` outlive its use of them.
    let ret = unsafe {
        libc::clone(
            run,
            prepared.stack.top(),
            flags,
            ptr::from_ref(prepared).cast_mut().cast(),
            ptr::from_mut(&mut pidfd),
        )
    };
    let number = i32::try_from(check(ret.into())?).map_err(io::Error::other)?;
    let pid = Pid::new(number).ok_or_else(|| errno(libc::EINVAL))?;
    // SAFETY: clone succeeded with CLONE_PIDFD, so `pidfd` is a new descriptor of ours.
    Ok(Child::new(pid, unsafe { OwnedFd::from_raw_fd(pidfd) }))
}

extern "C" fn run(prepared: *mut c_void) -> libc::c_int {
    // SAFETY: `start` passes a `Prepared` that stays where it is until this process is gone, and
    // waits meanwhile, so nobody else looks at its cells.
    let prepared = unsafe { &*prepared.cast::<Prepared<'_>>() };
    let Err(Failed(number)) = prepared.become_program();
    prepared.failure.set(number);
    // SAFETY: ends this process only (it is a thread group of its own) and runs nothing of ours.
    unsafe { libc::_exit(127) }
}

/// A system call failed with this error number.
struct Failed(i32);

impl Failed {
    /// Reads `errno`; an error of the system is a number, so nothing is allocated for it.
    fn last() -> Self {
        Self(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }
}

/// The value, or why it failed.
fn done(ret: libc::c_long) -> Result<libc::c_long, Failed> {
    if ret < 0 { Err(Failed::last()) } else { Ok(ret) }
}

impl Prepared<'_> {
    fn become_program(&self) -> Result<Infallible, Failed> {
        self.take_steps()?;
        self.step.set(Step::Close);
        // Marked instead of closed: the program's own file must still be open at exec.
        self.close_others(libc::CLOSE_RANGE_CLOEXEC)?;
        // Before the filter, which need not allow it.
        if let Some((waiting, here)) = self.waiting.zip(Processor::here()) {
            // It sleeps in the kernel, so this decides only where it wakes up.
            waiting.but(here).apply();
        }
        self.step.set(Step::Seccomp);
        self.install_filter()?;
        self.step.set(Step::Exec);
        self.exec()
    }

    /// All of it in this very process, without becoming the program.
    pub(super) fn stay(&self) -> Result<(), (Step, i32)> {
        let at = |Failed(number)| (self.step.get(), number);
        self.take_steps().map_err(at)?;
        self.step.set(Step::Close);
        self.close_others(0).map_err(at)?;
        self.step.set(Step::Seccomp);
        self.install_filter().map_err(at)
    }

    fn take_steps(&self) -> Result<(), Failed> {
        self.step.set(Step::Signals);
        if self.plan.actions == Actions::Reset {
            reset_signal_actions().map_err(|_number| Failed::last())?;
        }
        unblock_signals()?;
        self.step.set(Step::DeathSignal);
        self.tie_to_parent()?;
        self.step.set(Step::Session);
        self.start_session()?;
        self.step.set(Step::Descriptors);
        self.place_descriptors()?;
        self.step.set(Step::Terminal);
        self.take_terminal()?;
        self.step.set(Step::Directory);
        self.enter_directory()?;
        self.step.set(Step::Limits);
        self.set_limits()?;
        self.step.set(Step::Identity);
        self.change_identity()?;
        self.step.set(Step::NoNewPrivs);
        self.set_no_new_privs()?;
        self.step.set(Step::Landlock);
        self.apply_landlock()
    }

    fn tie_to_parent(&self) -> Result<(), Failed> {
        let Some(signal) = self.plan.death_signal else { return Ok(()) };
        // SAFETY: this option of prctl takes an integer by value.
        done(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal.get()) }.into()).map(drop)
    }

    fn start_session(&self) -> Result<(), Failed> {
        match self.plan.session {
            Session::Inherit => Ok(()),
            Session::New | Session::NewWithTerminal => {
                // SAFETY: setsid takes nothing.
                done(unsafe { libc::setsid() }.into()).map(drop)
            }
        }
    }

    /// Two rounds: first everything that is still needed is copied above all numbers that will be
    /// given, then it is put in its place. So no source is overwritten before it was used.
    fn place_descriptors(&self) -> Result<(), Failed> {
        for (_, source) in &self.descriptors {
            source.set(self.lifted(source.get())?);
        }
        for needed in [&self.directory, &self.landlock, &self.file] {
            if let Some(fd) = needed.get() {
                needed.set(Some(self.lifted(fd)?));
            }
        }
        for (number, source) in &self.descriptors {
            // SAFETY: takes integers; acts on this process's own table. The copy has no
            // close-on-exec flag. The two differ, because every source is at or above the floor.
            done(unsafe { libc::dup2(source.get(), *number) }.into())?;
        }
        Ok(())
    }

    fn lifted(&self, fd: RawFd) -> Result<RawFd, Failed> {
        if fd >= self.floor {
            return Ok(fd);
        }
        // SAFETY: takes integers; makes a new descriptor in this process's own table.
        let ret = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, self.floor) };
        done(ret.into()).map(|_| ret)
    }

    fn take_terminal(&self) -> Result<(), Failed> {
        match self.plan.session {
            Session::Inherit | Session::New => Ok(()),
            Session::NewWithTerminal => {
                // SAFETY: this request takes an integer; 0 steals no terminal from another session.
                done(unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) }.into()).map(drop)
            }
        }
    }

    fn enter_directory(&self) -> Result<(), Failed> {
        let Some(directory) = self.directory.get() else { return Ok(()) };
        // SAFETY: takes an integer; the working directory is this process's own (no CLONE_FS).
        done(unsafe { libc::fchdir(directory) }.into()).map(drop)
    }

    fn set_limits(&self) -> Result<(), Failed> {
        for (resource, limit) in &self.limits {
            let not_asked = ptr::null_mut();
            // SAFETY: `limit` is a whole structure; process 0 is this one.
            let ret = unsafe { libc::prlimit64(0, *resource, ptr::from_ref(limit), not_asked) };
            done(ret.into())?;
        }
        Ok(())
    }

    /// The bare system calls: libc's functions would change every thread of our program.
    fn change_identity(&self) -> Result<(), Failed> {
        let Some(ids) = &self.plan.identity else { return Ok(()) };
        let (count, groups) = (ids.groups.len(), ids.groups.as_ptr());
        // SAFETY: `groups` holds `count` group numbers.
        done(unsafe { libc::syscall(libc::SYS_setgroups, count, groups) })?;
        // SAFETY: takes integers.
        done(unsafe { libc::syscall(libc::SYS_setresgid, ids.gid, ids.gid, ids.gid) })?;
        // SAFETY: takes integers.
        done(unsafe { libc::syscall(libc::SYS_setresuid, ids.uid, ids.uid, ids.uid) })?;
        Ok(())
    }

    fn set_no_new_privs(&self) -> Result<(), Failed> {
        if !self.plan.no_new_privs {
            return Ok(());
        }
        // SAFETY: this option of prctl takes integers by value.
        done(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into()).map(drop)
    }

    fn apply_landlock(&self) -> Result<(), Failed> {
        let Some(ruleset) = self.landlock.get() else { return Ok(()) };
        // SAFETY: takes integers.
        done(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0) }).map(drop)
    }

    fn close_others(&self, flags: libc::c_uint) -> Result<(), Failed> {
        for (first, last) in &self.gaps {
            // SAFETY: takes integers; acts on this process's own descriptor table.
            let ret = unsafe { libc::syscall(libc::SYS_close_range, *first, *last, flags) };
            done(ret)?;
        }
        Ok(())
    }

    fn install_filter(&self) -> Result<(), Failed> {
        let Some(filter) = &self.filter else { return Ok(()) };
        let filter = ptr::from_ref(filter);
        let operation = libc::SECCOMP_SET_MODE_FILTER;
        // SAFETY: `filter` points to instructions that the plan keeps.
        done(unsafe { libc::syscall(libc::SYS_seccomp, operation, 0, filter) }).map(drop)
    }

    fn exec(&self) -> Result<Infallible, Failed> {
        let (argv, envp) = (self.argv.as_ptr(), self.envp.as_ptr());
        if let Some(file) = self.file.get() {
            let empty = c"".as_ptr();
            let flags = libc::AT_EMPTY_PATH;
            // SAFETY: both arrays end with null and point to strings that the plan keeps.
            unsafe { libc::syscall(libc::SYS_execveat, file, empty, argv, envp, flags) };
            return Err(Failed::last());
        }
        let mut failure = libc::ENOENT;
        for path in &self.paths {
            // SAFETY: as above; `path` is a string that the plan keeps.
            unsafe { libc::execve(*path, argv, envp) };
            let Failed(number) = Failed::last();
            match number {
                // A file that may not be executed says more than one that is not there.
                libc::EACCES => failure = libc::EACCES,
                libc::ENOENT | libc::ENOTDIR => {}
                _ => {
                    failure = number;
                    break;
                }
            }
        }
        Err(Failed(failure))
    }
}

/// Lets signals through: one that waited now ends this process instead of running a handler in our memory.
fn unblock_signals() -> Result<(), Failed> {
    const NONE: u64 = 0;
    const SET_SIZE: usize = 8;
    let not_asked: *const u64 = ptr::null();
    // SAFETY: the kernel reads a mask of eight bytes.
    let ret = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            ptr::from_ref(&NONE),
            not_asked,
            SET_SIZE,
        )
    };
    done(ret).map(drop)
}
