//! Installs a seccomp filter. What it says is decided elsewhere; here it is only checked for its shape.

use std::io;

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
    /// Refuses an empty or too long program.
    pub fn new(instructions: Vec<SockFilter>) -> io::Result<Self> { todo!() }
    /// From 8 bytes per instruction in the machine's byte order, as `PenSpec` carries it.
    pub fn from_bytes(bytes: &[u8]) -> io::Result<Self> { todo!() }
    /// The instructions.
    pub fn instructions(&self) -> &[SockFilter] { &self.0 }
}

/// Filters the calling thread and its descendants for good; needs no-new-privs. Filters stack.
pub fn install(program: &Program) -> io::Result<()> { todo!() }
/// Whether this kernel has filters.
pub fn is_available() -> bool { todo!() }
