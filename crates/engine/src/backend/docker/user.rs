//! Which numbers an engine's `user[:group]` comes to in an image.
//!
//! The supervisor is told who it must be, in numbers, and refuses to serve as anyone else; the spec
//! may say it in names, and then the image's own `/etc/passwd` and `/etc/group` decide. The rules
//! are the engine's: a user without a group gets the one of his entry, or 0 if he has none.

/// The ids, or what is unknown.
pub(super) fn resolve(user: &str, files: &UserFiles) -> Result<(u32, u32), String> {
    let (name, group) = user.split_once(':').unwrap_or((user, ""));
    let name = if name.is_empty() { "0" } else { name };
    let mut entries = files.passwd.lines().filter_map(Entry::parse);
    let number = name.parse::<u32>().ok();
    let entry = entries.find(|entry| match number {
        Some(number) => entry.id == number,
        None => entry.name == name,
    });
    let uid = number.or(entry.as_ref().map(|entry| entry.id)).ok_or_else(|| name.to_owned())?;
    if group.is_empty() {
        return Ok((uid, entry.and_then(|entry| entry.group).unwrap_or(0)));
    }
    if let Ok(gid) = group.parse() {
        return Ok((uid, gid));
    }
    let mut groups = files.group.lines().filter_map(Entry::parse);
    let found = groups.find(|entry| entry.name == group);
    Ok((uid, found.ok_or_else(|| group.to_owned())?.id))
}

/// Says whether nothing has to be looked up.
pub(super) fn is_plain(user: &str) -> bool {
    let number = |text: &str| text.parse::<u32>().is_ok();
    user.is_empty() || user.split_once(':').is_some_and(|(uid, gid)| number(uid) && number(gid))
}

/// The two files, as far as the image has them.
#[derive(Debug, Default)]
pub(super) struct UserFiles {
    pub passwd: String,
    pub group: String,
}

/// A line of either file: both have a name first and a number third.
struct Entry<'a> {
    name: &'a str,
    id: u32,
    group: Option<u32>,
}

impl<'a> Entry<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let id = fields.nth(1)?.parse().ok()?;
        Some(Self { name, id, group: fields.next().and_then(|field| field.parse().ok()) })
    }
}

/// The first file of an archive as the engine sends it; `None` if it holds no plain file.
pub(super) fn first_file(archive: &[u8]) -> Option<&[u8]> {
    let (header, rest) = archive.split_at_checked(512)?;
    // 0 and NUL are plain files; a link would have to be followed, and not by us.
    if !matches!(header.get(156), Some(b'0' | 0)) {
        return None;
    }
    let size = std::str::from_utf8(header.get(124..136)?).ok()?;
    let size = usize::from_str_radix(size.trim_matches(['\0', ' ']), 8).ok()?;
    rest.get(..size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_comes_to_the_numbers_that_the_engine_gives_him() {
        for (user, expected) in [
            ("", Ok((0, 0))),
            ("0", Ok((0, 0))),
            ("1000:1001", Ok((1000, 1001))),
            ("node", Ok((1000, 1005))),
            ("1000", Ok((1000, 1005))),
            ("77", Ok((77, 0))),
            ("node:audio", Ok((1000, 29))),
            ("node:7", Ok((1000, 7))),
            ("77:audio", Ok((77, 29))),
            ("nobody", Err("nobody")),
            ("node:video", Err("video")),
        ] {
            let files = UserFiles {
                passwd: "root:x:0:0:root:/root:/bin/sh\nbroken\nnode:x:1000:1005::/:\n".to_owned(),
                group: "root:x:0:\naudio:x:29:node\n".to_owned(),
            };
            assert_eq!(resolve(user, &files), expected.map_err(str::to_owned), "{user:?}");
        }
        assert_eq!(resolve("1000", &UserFiles::default()), Ok((1000, 0)));
    }

    #[test]
    fn only_a_plain_file_is_read_from_an_archive() {
        let archive = |kind: u8, size: &str, body: &[u8]| {
            let mut bytes = vec![0; 512];
            bytes[124..124 + size.len()].copy_from_slice(size.as_bytes());
            bytes[156] = kind;
            bytes.extend_from_slice(body);
            bytes
        };
        let plain = archive(b'0', "00000000003\0", b"abc-----");
        assert_eq!(first_file(&plain), Some(&b"abc"[..]));
        assert_eq!(first_file(&archive(b'2', "00000000000\0", b"")), None);
        assert_eq!(first_file(&archive(b'0', "77777777777\0", b"abc")), None);
        assert_eq!(first_file(&archive(b'0', "x", b"abc")), None);
        assert_eq!(first_file(b"short"), None);
    }
}
