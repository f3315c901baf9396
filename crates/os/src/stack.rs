//! Memory for the stack of a child that shares ours.

use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Far more than a few system calls need, also in a debug build.
const SIZE: usize = 64 * 1024;

/// One stack, aligned to 16 bytes as the processor's calling convention wants.
#[derive(Debug)]
pub(crate) struct Stack(Box<[MaybeUninit<u128>]>);

impl Stack {
    pub(crate) fn new() -> Self {
        Self(Box::new_uninit_slice(SIZE / size_of::<u128>()))
    }

    /// Where a stack that grows downwards begins.
    pub(crate) fn top(&self) -> *mut c_void {
        self.0.as_ptr_range().end.cast_mut().cast()
    }
}
