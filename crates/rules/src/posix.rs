//! POSIX paths as text: normalise, join, compare. Never touches a file system.
//!
//! Comparisons are by whole components: `/ws` does not contain `/wsx`, and a file called `..x` is
//! no step upwards.

/// Resolves `.`, `..` and repeated slashes; drops a trailing slash. An absolute path never rises
/// above `/`; a relative one keeps leading `..`. The empty path becomes `.`.
pub fn normalize(path: &str) -> String {
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                Some(&last) if last != ".." => {
                    parts.pop();
                }
                _ if absolute => {}
                _ => parts.push(".."),
            },
            other => parts.push(other),
        }
    }
    let mut normal = String::with_capacity(path.len() + 1);
    for part in parts {
        if absolute || !normal.is_empty() {
            normal.push('/');
        }
        normal.push_str(part);
    }
    match (absolute, normal.is_empty()) {
        (true, true) => "/".to_owned(),
        (false, true) => ".".to_owned(),
        (_, false) => normal,
    }
}

/// `path` if it is absolute, else `base/path`; normalised.
pub fn resolve(base: &str, path: &str) -> String {
    if path.starts_with('/') { normalize(path) } else { normalize(&format!("{base}/{path}")) }
}

/// Says whether `path` is `root` or lies below it. Both must be normalised and absolute.
pub fn is_inside(root: &str, path: &str) -> bool {
    relative(root, path).is_some()
}

/// The part of `path` below `root`: empty if they are equal, `None` if `path` lies elsewhere.
/// Both must be normalised and absolute.
pub fn relative<'a>(root: &str, path: &'a str) -> Option<&'a str> {
    if root == "/" {
        return path.strip_prefix('/');
    }
    match path.strip_prefix(root)? {
        "" => Some(""),
        rest => rest.strip_prefix('/'),
    }
}

/// `root/rest`, or `root` if `rest` is empty. `rest` must be relative.
pub fn join(root: &str, rest: &str) -> String {
    let root = match (root, rest) {
        (root, "") => return root.to_owned(),
        ("/", _) => "",
        (root, _) => root,
    };
    // Hundreds of paths for one decision: room is made once.
    let mut joined = String::with_capacity(root.len() + 1 + rest.len());
    joined.push_str(root);
    joined.push('/');
    joined.push_str(rest);
    joined
}

/// The directory that holds `path`; `/` holds itself.
pub fn parent(path: &str) -> &str {
    match path.rfind('/') {
        None => ".",
        Some(0) => "/",
        Some(end) => &path[..end],
    }
}

/// The last component.
pub fn basename(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalises_like_a_kernel_without_links() {
        for (path, expected) in [
            ("/", "/"),
            ("//", "/"),
            ("/../", "/"),
            ("/a/../..", "/"),
            ("/a//b/./c/", "/a/b/c"),
            ("a/../..", ".."),
            ("../x", "../x"),
            ("", "."),
            ("/..x", "/..x"),
        ] {
            assert_eq!(normalize(path), expected, "{path}");
        }
    }

    #[test]
    fn containment_is_by_components() {
        assert_eq!(relative("/ws", "/ws"), Some(""));
        assert_eq!(relative("/ws", "/ws/a"), Some("a"));
        assert_eq!(relative("/ws", "/wsx"), None);
        assert_eq!(relative("/", "/a/b"), Some("a/b"));
        assert_eq!(relative("/", "/"), Some(""));
        assert_eq!(relative("/ws", "/"), None);
    }

    #[test]
    fn parents_and_names() {
        assert_eq!((parent("/a/b"), basename("/a/b")), ("/a", "b"));
        assert_eq!((parent("/a"), basename("/a")), ("/", "a"));
        assert_eq!(join("/", "a"), "/a");
    }
}
