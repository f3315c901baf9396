//! What a process hands down to all that it starts and that others of its user may change: its limits and
//! its share of the machine.
//!
//! The kernel lets every process of a user lower the limits of the others, pin them to a processor and take
//! their turn away, even of those whose memory is closed. Whoever starts something from a process that has
//! waited beside others compares first.

use std::io;

use crate::process::Pid;
use crate::rlimits::{self, Limit, Resource};
use crate::syscall::check;

/// `struct sched_attr` as of its second version, in words: 56 bytes.
const ATTRIBUTES: usize = 14;
/// Processors that are compared: more than the kernel can be built for.
const PROCESSORS: usize = 8192 / 64;

/// Limits, turn, processors and disk turn of a process. What a filter does not let us ask is `None`, for all
/// processes alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    limits: [Limit; Resource::ALL.len()],
    turn: Option<[u32; ATTRIBUTES]>,
    processors: Option<[u64; PROCESSORS]>,
    disk: Option<libc::c_long>,
}

impl Standing {
    /// Of a process.
    ///
    /// # Errors
    /// If its limits cannot be read: it is gone.
    pub fn of(pid: Pid) -> io::Result<Self> {
        let mut limits = [Limit { soft: None, hard: None }; Resource::ALL.len()];
        for (limit, resource) in limits.iter_mut().zip(Resource::ALL) {
            *limit = rlimits::get_of(pid, resource)?;
        }
        Ok(Self { limits, turn: turn(pid), processors: processors(pid), disk: disk(pid) })
    }

    /// The same with another limit.
    #[must_use]
    pub fn with(mut self, resource: Resource, limit: Limit) -> Self {
        let place = Resource::ALL.iter().position(|known| *known == resource);
        if let Some(place) = place.and_then(|place| self.limits.get_mut(place)) {
            *place = limit;
        }
        self
    }
}

fn turn(pid: Pid) -> Option<[u32; ATTRIBUTES]> {
    let mut attributes = [0_u32; ATTRIBUTES];
    let (place, size) = (attributes.as_mut_ptr(), size_of_val(&attributes));
    // SAFETY: the kernel writes at most `size` bytes, for which there is room; it outlives the call.
    let ret = unsafe { libc::syscall(libc::SYS_sched_getattr, pid.get(), place, size, 0) };
    check(ret).ok().map(|_| attributes)
}

fn processors(pid: Pid) -> Option<[u64; PROCESSORS]> {
    let mut mask = [0_u64; PROCESSORS];
    let (size, place) = (size_of_val(&mask), mask.as_mut_ptr());
    // SAFETY: the kernel writes at most `size` bytes, for which there is room; it outlives the call.
    let ret = unsafe { libc::syscall(libc::SYS_sched_getaffinity, pid.get(), size, place) };
    check(ret).ok().map(|_| mask)
}

fn disk(pid: Pid) -> Option<libc::c_long> {
    const IOPRIO_WHO_PROCESS: libc::c_int = 1;
    // SAFETY: ioprio_get takes two integers.
    check(unsafe { libc::syscall(libc::SYS_ioprio_get, IOPRIO_WHO_PROCESS, pid.get()) }).ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    #[test]
    fn a_child_stands_as_its_parent_until_somebody_changes_that() {
        check("prlimit --pid $1 --nofile=7:7");
        check("renice -n 19 -p $1");
        check("chrt -b -p 0 $1");
        if std::thread::available_parallelism().unwrap().get() > 1 {
            check("taskset -cp $(taskset -cp $1 | sed 's/.*: //; s/[-,].*//') $1");
        }
        check("ionice -c 3 -p $1");
    }

    /// Somebody who has the number of a child uses it for `tamper`.
    #[track_caller]
    fn check(tamper: &str) {
        let mut sleeping = Reaped(Command::new("sleep").arg("1000").spawn().unwrap());
        let pid = Pid::new(i32::try_from(sleeping.0.id()).unwrap()).unwrap();
        let before = Standing::of(pid).unwrap();
        assert_eq!(before, Standing::of(Pid::this()).unwrap(), "{tamper}");
        let ran = Command::new("sh")
            .args(["-c", tamper, "sh", &pid.to_string()])
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(ran.success(), "{tamper}");
        assert_ne!(Standing::of(pid).unwrap(), before, "{tamper}");
        assert_eq!(sleeping.0.try_wait().unwrap(), None);
    }

    struct Reaped(Child);

    impl Drop for Reaped {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }
}
