//! Changes a file that is not ours: in one step, and what was there stays beside it.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::commands::CommandError;
use crate::output::safe;

/// Writes a file in one step, with what was there kept beside it; `mode` is that of a new one.
pub(crate) fn write(
    place: &Path,
    old: Option<&str>,
    (text, mode): (&str, u32),
) -> Result<Option<PathBuf>, CommandError> {
    let failed = |path: &Path| {
        let path = safe(&path.to_string_lossy());
        move |cause| CommandError::Write { path, cause }
    };
    if let Some(directory) = place.parent() {
        fs::create_dir_all(directory).map_err(failed(directory))?;
    }
    // Whoever keeps such files elsewhere has links here: the link stays, its file changes.
    let place = fs::canonicalize(place).unwrap_or_else(|_missing| place.to_owned());
    let backup = match old {
        None => None,
        Some(old) => {
            let backup = free_name(&place);
            let mode = fs::metadata(&place).map_err(failed(&place))?.permissions();
            put(&backup, old, mode.clone()).map_err(failed(&backup))?;
            Some((backup, mode))
        }
    };
    let mode = backup.as_ref().map_or(fs::Permissions::from_mode(mode), |(_, mode)| mode.clone());
    let mut fresh = place.clone().into_os_string();
    fresh.push(format!(".new-{}", std::process::id()));
    let fresh = PathBuf::from(fresh);
    put(&fresh, text, mode).map_err(failed(&fresh))?;
    fs::rename(&fresh, &place).map_err(failed(&place))?;
    Ok(backup.map(|(path, _)| path))
}

/// A name beside a file that nothing has.
pub(crate) fn free_name(place: &Path) -> PathBuf {
    let name = |number: u16| {
        let mut name = place.as_os_str().to_owned();
        name.push(format!(".bak{number}"));
        PathBuf::from(name)
    };
    (1..=u16::MAX).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(0))
}

fn put(path: &Path, text: &str, mode: fs::Permissions) -> io::Result<()> {
    // Nobody else may open it before it has the mode of what it stands for.
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(mode)?;
    file.sync_all()
}
