//! Which processors a thread may use: so that two that work for one another do it at once.
//!
//! A kernel that wakes a thread likes to put it where the one who wakes it runs, and leaves it waiting there for a
//! millisecond and more while the next processor is idle. Where that is the whole time that something takes, we
//! say for that moment where to go on. Only a wish: whatever fails here changes speed and nothing else.

use std::ptr;

use crate::process::Pid;
use crate::syscall::check;

/// A processor, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processor(usize);

impl Processor {
    /// The one that this thread runs on just now.
    pub fn here() -> Option<Self> {
        // SAFETY: takes nothing and reads what the kernel keeps for every program.
        let number = usize::try_from(unsafe { libc::sched_getcpu() }).ok()?;
        let room = usize::try_from(libc::CPU_SETSIZE).ok()?;
        (number < room).then_some(Self(number))
    }
}

/// The processors that a thread may use. Allocates nothing, so it can be used in a child that shares our memory.
#[derive(Clone, Copy)]
pub(crate) struct Allowed {
    thread: libc::pid_t,
    set: libc::cpu_set_t,
}

impl Allowed {
    /// Those of the caller. Nothing if the kernel does not say.
    pub(crate) fn to_this_thread() -> Option<Self> {
        // SAFETY: takes nothing.
        let thread = unsafe { libc::gettid() };
        // SAFETY: the structure is bits only, and none set is a value of it.
        let mut set = unsafe { std::mem::zeroed::<libc::cpu_set_t>() };
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: the kernel writes at most `size` bytes, for which there is room.
        let ret = unsafe { libc::sched_getaffinity(thread, size, &raw mut set) };
        check(ret.into()).ok().map(|_| Self { thread, set })
    }

    /// The same but one. With nothing left the kernel refuses to let it be so.
    pub(crate) fn but(mut self, processor: Processor) -> Self {
        // SAFETY: changes one bit, for which there is room: a `Processor` is below the size of the set.
        unsafe { libc::CPU_CLR(processor.0, &mut self.set) };
        self
    }

    /// Lets it be so.
    pub(crate) fn apply(&self) {
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: the kernel reads `size` bytes of a structure of that size.
        unsafe { libc::sched_setaffinity(self.thread, size, ptr::from_ref(&self.set)) };
    }
}

/// While this lives, the thread that made it stays away from a processor. What it starts meanwhile does too.
#[derive(Default)]
pub struct Apart(Option<Allowed>);

impl Apart {
    /// Leaves `processor` to whoever is at work there.
    pub fn from(processor: Option<Processor>) -> Self {
        let Some((allowed, processor)) = Allowed::to_this_thread().zip(processor) else {
            return Self(None);
        };
        allowed.but(processor).apply();
        Self(Some(allowed))
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        if let Some(allowed) = &self.0 {
            allowed.apply();
        }
    }
}

impl std::fmt::Debug for Apart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Apart").field(&self.0.map(|allowed| Pid::new(allowed.thread))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed() -> Vec<usize> {
        let Allowed { set, .. } = Allowed::to_this_thread().unwrap();
        // SAFETY: reads a bit that there is room for.
        (0..1024).filter(|number| unsafe { libc::CPU_ISSET(*number, &set) }).collect()
    }

    #[test]
    fn a_thread_keeps_away_from_a_processor_for_a_while_only() {
        let before = allowed();
        let here = Processor::here();
        let apart = Apart::from(here);
        let meanwhile = allowed();
        if before.len() > 1 {
            let others = before.iter().copied().filter(|other| Some(Processor(*other)) != here);
            assert_eq!(meanwhile, others.collect::<Vec<_>>());
        } else {
            assert_eq!(meanwhile, before);
        }
        drop(apart);
        assert_eq!(allowed(), before);
        drop(Apart::from(None));
        assert_eq!(allowed(), before);
    }
}
