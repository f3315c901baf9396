//! Whether a file is an image that a model can look at, by its first bytes and never by its name alone.

use super::size;

/// The largest image that is handed on: with base64 it is 5 MiB, which is what model interfaces take.
///
/// A larger one is refused and not scaled down: that would run a decoder over hostile bytes on the host.
pub const LARGEST: u64 = 5 * 1024 * 1024 / 4 * 3;

/// The kinds that models take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Image {
    Jpeg,
    Png,
    Gif,
    WebP,
}

impl Image {
    /// What starts like this.
    pub fn sniff(start: &[u8]) -> Option<Self> {
        if start.starts_with(b"\xff\xd8\xff") {
            Some(Self::Jpeg)
        } else if start.starts_with(b"\x89PNG\r\n\x1a\n") {
            Some(Self::Png)
        } else if start.starts_with(b"GIF87a") || start.starts_with(b"GIF89a") {
            Some(Self::Gif)
        } else if start.starts_with(b"RIFF") && start.get(8..12) == Some(b"WEBP") {
            Some(Self::WebP)
        } else {
            None
        }
    }

    /// What a path says it is.
    pub fn of_name(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next()?;
        let (_, extension) = name.rsplit_once('.')?;
        match extension.to_ascii_lowercase().as_str() {
            "jpg" | "jpeg" => Some(Self::Jpeg),
            "png" => Some(Self::Png),
            "gif" => Some(Self::Gif),
            "webp" => Some(Self::WebP),
            _ => None,
        }
    }

    pub const fn mime_type(self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
            Self::Gif => "image/gif",
            Self::WebP => "image/webp",
        }
    }
}

/// Images of one call to a model that looks at them, together: what servers take, and what the host holds of them.
pub const LARGEST_IN_ALL: u64 = 20 * 1024 * 1024;

/// A file that no model is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImageRefused {
    #[error("its contents are no png, jpeg, gif or webp")]
    NoImage,
    #[error("the image has more than {}; make it smaller with a command", size(*.most))]
    TooLarge { most: u64 },
    #[error(
        "with it, the images of this call have more than {}; call again with fewer",
        size(LARGEST_IN_ALL)
    )]
    TooMuch,
}

/// Decides whether a file is shown to a model, of which `most` bytes and one more were read, after others of `before`
/// bytes.
pub fn decide(contents: &[u8], most: u64, before: u64) -> Result<Image, ImageRefused> {
    let length = contents.len() as u64;
    let image = Image::sniff(contents).ok_or(ImageRefused::NoImage)?;
    if length > most {
        Err(ImageRefused::TooLarge { most })
    } else if before.saturating_add(length) > LARGEST_IN_ALL {
        Err(ImageRefused::TooMuch)
    } else {
        Ok(image)
    }
}

/// Bytes that are enough for [`Image::sniff`].
pub const SNIFFED: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_say_what_an_image_is() {
        for (start, expected) in [
            (&b"\xff\xd8\xff\xe0"[..], Some(Image::Jpeg)),
            (b"\x89PNG\r\n\x1a\nxx", Some(Image::Png)),
            (b"GIF89a", Some(Image::Gif)),
            (b"RIFF\0\0\0\0WEBP", Some(Image::WebP)),
            (b"RIFF\0\0\0\0WAVE", None),
            (b"\x89PN", None),
            (b"", None),
        ] {
            assert_eq!(Image::sniff(start), expected);
        }
    }

    #[test]
    fn a_file_is_shown_if_it_is_an_image_and_small_enough() {
        let png = b"\x89PNG\r\n\x1a\n1234";
        for (contents, most, before, expected) in [
            (&png[..], 12, 0, Ok(Image::Png)),
            (png, 11, 0, Err(ImageRefused::TooLarge { most: 11 })),
            (png, 12, LARGEST_IN_ALL - 12, Ok(Image::Png)),
            (png, 12, LARGEST_IN_ALL - 11, Err(ImageRefused::TooMuch)),
            (b"root:x:0:0", 1, 0, Err(ImageRefused::NoImage)),
            (b"", 1, 0, Err(ImageRefused::NoImage)),
        ] {
            assert_eq!(decide(contents, most, before), expected);
        }
    }

    #[test]
    fn a_name_says_what_it_claims_to_be() {
        for (path, expected) in [
            ("a/b.PNG", Some(Image::Png)),
            ("x.jpeg", Some(Image::Jpeg)),
            ("png", None),
            ("a.png/b", None),
            (".webp", Some(Image::WebP)),
            ("x.svg", None),
        ] {
            assert_eq!(Image::of_name(path), expected, "{path}");
        }
    }
}
