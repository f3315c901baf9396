//! Which system calls a command in a sandbox may make: data with a reason per group, and the
//! program for the kernel made from it.
//!
//! The list is closed. What nobody wrote down answers "no such call" (ENOSYS), because programs
//! know how to live without a call that is too new for their kernel; what is known and refused on
//! purpose answers EPERM. Entries of another architecture end the process: their numbers mean
//! other calls. `clone3` hides its flags behind a pointer no filter can follow, so it does not
//! exist here; `clone` does the same and shows them.
//!
//! Arguments are compared as 32 bits, as the kernel reads them: the upper half of a register is
//! whatever a caller left there.

mod program;
mod table;

use std::sync::LazyLock;

pub use program::{Instruction, Program};
pub use table::{GROUPS, Group};

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    /// It fails with this number.
    Errno(u16),
    /// The whole process ends.
    Kill,
}

/// What a group says about its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    Always(Verdict),
    /// The first case whose tests all hold decides.
    Cases {
        cases: &'static [Case],
        otherwise: Verdict,
    },
}

/// One case of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    pub when: &'static [Test],
    pub then: Verdict,
}

/// The lower half of an argument, masked, equals a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Test {
    pub argument: u8,
    pub mask: u32,
    pub equals: u32,
}

/// A call by its name and its number here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    pub name: &'static str,
    pub number: u32,
}

/// What a call that no group names comes to.
pub const UNKNOWN: Verdict = Verdict::Errno(table::ENOSYS);

/// The filter of every command, as the kernel takes it. Compiled once per process.
pub fn workload() -> &'static Program {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| Program::compile(GROUPS));
    &PROGRAM
}

#[cfg(test)]
mod tests;
