//! Where something is mounted on this machine, read again only when the kernel says that it has changed.
//!
//! The list is long on a machine with containers, and the kernel writes it anew for each reader. An open list
//! tells whoever polls it whether there was a change since it was opened or polled last.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clawpen_os::events::{self, Interest};
use clawpen_rules::facts::kernel;

use super::host::ViewError;
use crate::kernel_text;

const PLACE: &str = "/proc/self/mountinfo";

/// The list as it was read last, and what tells whether it still holds.
#[derive(Debug)]
struct Known {
    opened: File,
    mounts: Arc<[PathBuf]>,
}

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

/// The places of all mounts, as they are now.
pub(super) fn read() -> Result<Arc<[PathBuf]>, ViewError> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.as_ref()
        && !has_changed(&known.opened).map_err(ViewError::Mounts)?
    {
        return Ok(Arc::clone(&known.mounts));
    }
    // Opened before it is read: a change in between is told at the next look.
    *known = None;
    let opened = File::open(PLACE).map_err(ViewError::Mounts)?;
    let text = kernel_text::read(PLACE).map_err(ViewError::Mounts)?;
    let found = kernel::mounts(&text).map_err(ViewError::MountText)?;
    let mounts: Arc<[PathBuf]> = found.into_iter().map(|mount| mount.target.into()).collect();
    *known = Some(Known { opened, mounts: Arc::clone(&mounts) });
    Ok(mounts)
}

fn has_changed(opened: &File) -> io::Result<bool> {
    let told = events::poll(&[(opened.as_fd(), Interest::None)], Some(Duration::ZERO))?;
    Ok(told.iter().any(|event| event.hung_up))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The change is made in a mount namespace of our own, so this runs in a process of its own.
    #[test]
    fn a_mount_is_seen_at_the_next_look_and_gone_when_it_is_gone() {
        if std::env::var_os("CLAWPEN_TEST_MOUNTS").is_none() {
            let status = std::process::Command::new("unshare")
                .args(["--user", "--map-root-user", "--mount", "--"])
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", "pen_view::mount_list::tests::a_mount_is_seen_at_the_next_look_and_gone_when_it_is_gone"])
                .env("CLAWPEN_TEST_MOUNTS", "1")
                .status()
                .unwrap();
            assert!(status.success());
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let has = || read().unwrap().iter().any(|mount| mount == place.path());
        let run = |program: &str, arguments: &[&str]| {
            let status = std::process::Command::new(program)
                .args(arguments)
                .arg(place.path())
                .status()
                .unwrap();
            assert!(status.success());
        };
        for _ in 0..3 {
            assert_eq!((has(), has()), (false, false));
            run("mount", &["-t", "tmpfs", "none"]);
            assert_eq!((has(), has()), (true, true));
            run("umount", &[]);
        }
        assert!(Arc::ptr_eq(&read().unwrap(), &read().unwrap()));
    }
}
