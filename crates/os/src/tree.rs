//! Kills whole process trees, for those who are a subreaper or process 1.
//!
//! A tree is stopped before it is killed, so that it cannot fork away from under the walk.

use std::io;
use std::time::Duration;

use crate::process::{Ended, Pid};

/// The children of a process (of all its threads), from `/proc`.
pub fn children_of(pid: Pid) -> io::Result<Vec<Pid>> { todo!() }

/// Kills and reaps every descendant of this process, which must be a subreaper or process 1.
///
/// Stops when there are no children left, or with `TimedOut` after `limit` (a process stuck in the
/// kernel cannot be killed). `ended` sees every reaped child.
pub fn kill_descendants(limit: Duration, ended: &mut dyn FnMut(Ended)) -> io::Result<()> { todo!() }
