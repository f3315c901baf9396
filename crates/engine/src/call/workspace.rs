//! The directories that a sandbox mounts, made before it is.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, chown};
use std::path::Path;

use super::{OpenError, Prepared};
use crate::backend::Plan;

impl Prepared {
    /// Makes the directories that are mounted: private, and the container's user's if that is
    /// another one.
    pub(super) fn ensure_workspace(&self) -> Result<(), OpenError> {
        for mount in self.explanation.runtime.layout.mounts() {
            let path = Path::new(&mount.source);
            let failed = |cause| OpenError::Workspace { path: path.to_owned(), cause };
            match fs::metadata(path) {
                Ok(found) if found.is_dir() => continue,
                Ok(_) => return Err(failed(io::ErrorKind::NotADirectory.into())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
            DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
            if let Some((uid, gid)) = self.foreign_user() {
                chown(path, Some(uid), Some(gid)).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// The user of a container whose ids are the host's own. A native pen maps ids, so there the
    /// directory belongs to whoever makes it.
    fn foreign_user(&self) -> Option<(u32, u32)> {
        let Plan::Docker(spec) = &self.plan else { return None };
        let (uid, gid) = spec.user()?.split_once(':')?;
        let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
        let own = fs::metadata("/proc/self").ok()?;
        (own.uid() == 0 && uid != 0).then_some((uid, gid))
    }
}
