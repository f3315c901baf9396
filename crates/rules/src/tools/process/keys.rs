//! Key names as the bytes that a terminal sends for them.

/// What the program asked cursor keys to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CursorKeys {
    /// It has not said.
    Unknown,
    Normal,
    Application,
}

/// Keys that cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    #[error("`{0}` is no key; write names such as Enter, C-c, M-x, Up or F1")]
    Unknown(String),
    #[error("`{0}` is no byte; write two hex digits such as 1b")]
    Hex(String),
    #[error(
        "the program has not said what cursor keys send, so `{0}` would be a guess; poll until it has drawn its screen, or \
         send the bytes with `hex`"
    )]
    CursorMode(String),
}

/// What the last of `ESC[?1h` and `ESC[?1l` in a terminal's output says.
pub fn cursor_keys(output: &[u8]) -> CursorKeys {
    let mut found = CursorKeys::Unknown;
    for window in output.windows(5) {
        match window {
            b"\x1b[?1h" => found = CursorKeys::Application,
            b"\x1b[?1l" => found = CursorKeys::Normal,
            _ => {}
        }
    }
    found
}

/// Bytes written as hex digits.
pub fn hex_bytes(words: &[String]) -> Result<Vec<u8>, BadKey> {
    let mut bytes = Vec::new();
    for word in words {
        let bad = || BadKey::Hex(word.clone());
        let digits = word.trim().trim_start_matches("0x");
        if digits.len() != 2 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(bad());
        }
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_odd| bad())?);
    }
    Ok(bytes)
}

/// What `Ctrl`, `Alt` and `Shift` add to a key.
#[derive(Clone, Copy, Default)]
struct Modifiers {
    shift: bool,
    alt: bool,
    control: bool,
}

impl Modifiers {
    /// As xterm counts them.
    fn parameter(self) -> u8 {
        1 + u8::from(self.shift) + 2 * u8::from(self.alt) + 4 * u8::from(self.control)
    }
}

/// The bytes of one key.
pub fn key_bytes(token: &str, mode: CursorKeys) -> Result<Vec<u8>, BadKey> {
    let unknown = || BadKey::Unknown(token.to_owned());
    let mut modifiers = Modifiers::default();
    let mut rest = token;
    if let Some(key) = token.strip_prefix('^').filter(|key| key.chars().count() == 1) {
        modifiers.control = true;
        rest = key;
    }
    loop {
        let (prefix, after) = match rest.split_once('-') {
            Some((prefix, after)) if prefix.len() == 1 && !after.is_empty() => (prefix, after),
            _ => break,
        };
        match prefix.to_ascii_uppercase().as_str() {
            "C" => modifiers.control = true,
            "M" => modifiers.alt = true,
            "S" => modifiers.shift = true,
            _ => break,
        }
        rest = after;
    }
    let name = rest.to_ascii_lowercase();
    if let Some(letter) = cursor_letter(&name) {
        return cursor(token, letter, modifiers, mode);
    }
    if let Some((number, end)) = editing(&name) {
        return Ok(match modifiers.parameter() {
            1 if end == b'~' => format!("\x1b[{number}~").into_bytes(),
            1 => vec![0x1b, b'O', end],
            parameter if end == b'~' => format!("\x1b[{number};{parameter}~").into_bytes(),
            parameter => format!("\x1b[1;{parameter}{}", char::from(end)).into_bytes(),
        });
    }
    let mut bytes =
        plain(&name, modifiers).or_else(|| character(rest, modifiers)).ok_or_else(unknown)?;
    if modifiers.alt {
        bytes.insert(0, 0x1b);
    }
    Ok(bytes)
}

fn cursor_letter(name: &str) -> Option<u8> {
    Some(match name {
        "up" => b'A',
        "down" => b'B',
        "right" => b'C',
        "left" => b'D',
        "home" => b'H',
        "end" => b'F',
        _ => return None,
    })
}

fn cursor(
    token: &str,
    letter: u8,
    modifiers: Modifiers,
    mode: CursorKeys,
) -> Result<Vec<u8>, BadKey> {
    match (modifiers.parameter(), mode) {
        (1, CursorKeys::Unknown) => Err(BadKey::CursorMode(token.to_owned())),
        (1, CursorKeys::Normal) => Ok(vec![0x1b, b'[', letter]),
        (1, CursorKeys::Application) => Ok(vec![0x1b, b'O', letter]),
        (parameter, _) => Ok(format!("\x1b[1;{parameter}{}", char::from(letter)).into_bytes()),
    }
}

/// Keys that send a number, or a letter for the first function keys.
fn editing(name: &str) -> Option<(u8, u8)> {
    Some(match name {
        "insert" | "ic" => (2, b'~'),
        "delete" | "del" | "dc" => (3, b'~'),
        "pageup" | "pgup" | "ppage" => (5, b'~'),
        "pagedown" | "pgdn" | "npage" => (6, b'~'),
        "f1" => (11, b'P'),
        "f2" => (12, b'Q'),
        "f3" => (13, b'R'),
        "f4" => (14, b'S'),
        "f5" => (15, b'~'),
        "f6" => (17, b'~'),
        "f7" => (18, b'~'),
        "f8" => (19, b'~'),
        "f9" => (20, b'~'),
        "f10" => (21, b'~'),
        "f11" => (23, b'~'),
        "f12" => (24, b'~'),
        _ => return None,
    })
}

fn plain(name: &str, modifiers: Modifiers) -> Option<Vec<u8>> {
    if let Some(key) = name.strip_prefix("kp") {
        return match key {
            "enter" => Some(vec![b'\r']),
            "/" | "*" | "-" | "+" | "." => Some(key.as_bytes().to_vec()),
            digit if digit.len() == 1 && digit.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digit.as_bytes().to_vec())
            }
            _ => None,
        };
    }
    Some(match name {
        "enter" | "return" => vec![b'\r'],
        "tab" if modifiers.shift => b"\x1b[Z".to_vec(),
        "tab" => vec![b'\t'],
        "btab" => b"\x1b[Z".to_vec(),
        "escape" | "esc" => vec![0x1b],
        "space" if modifiers.control => vec![0],
        "space" => vec![b' '],
        "bspace" | "backspace" => vec![0x7f],
        _ => return None,
    })
}

/// A single character, with its control code if that was asked for.
fn character(text: &str, modifiers: Modifiers) -> Option<Vec<u8>> {
    let mut characters = text.chars();
    let (Some(character), None) = (characters.next(), characters.next()) else { return None };
    if modifiers.control {
        let upper = u8::try_from(character.to_ascii_uppercase()).ok()?;
        return match upper {
            b'@'..=b'_' => Some(vec![upper & 0x1f]),
            b'?' => Some(vec![0x7f]),
            _ => None,
        };
    }
    let character = if modifiers.shift { character.to_ascii_uppercase() } else { character };
    Some(character.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_send_what_a_terminal_sends() {
        for (token, expected) in [
            ("Enter", &b"\r"[..]),
            ("return", b"\r"),
            ("C-c", b"\x03"),
            ("^c", b"\x03"),
            ("M-x", b"\x1bx"),
            ("C-M-a", b"\x1b\x01"),
            ("S-Tab", b"\x1b[Z"),
            ("BTab", b"\x1b[Z"),
            ("Up", b"\x1b[A"),
            ("C-Up", b"\x1b[1;5A"),
            ("S-M-Left", b"\x1b[1;4D"),
            ("F1", b"\x1bOP"),
            ("C-F1", b"\x1b[1;5P"),
            ("F12", b"\x1b[24~"),
            ("S-F5", b"\x1b[15;2~"),
            ("PgDn", b"\x1b[6~"),
            ("kpenter", b"\r"),
            ("kp7", b"7"),
            ("C-Space", b"\0"),
            ("BSpace", b"\x7f"),
            ("a", b"a"),
            ("S-a", b"A"),
            ("ä", "ä".as_bytes()),
            ("-", b"-"),
            ("C--", b""),
        ] {
            let bytes = key_bytes(token, CursorKeys::Normal);
            if expected.is_empty() {
                assert_eq!(bytes, Err(BadKey::Unknown(token.to_owned())));
            } else {
                assert_eq!(bytes.as_deref(), Ok(expected), "{token}");
            }
        }
    }

    #[test]
    fn cursor_keys_follow_the_program_and_are_never_guessed() {
        assert_eq!(key_bytes("Up", CursorKeys::Application).unwrap(), b"\x1bOA");
        let guess = key_bytes("Up", CursorKeys::Unknown);
        assert_eq!(guess, Err(BadKey::CursorMode("Up".to_owned())));
        assert_eq!(key_bytes("C-Up", CursorKeys::Unknown).unwrap(), b"\x1b[1;5A");
        assert_eq!(cursor_keys(b"x"), CursorKeys::Unknown);
        assert_eq!(cursor_keys(b"\x1b[?1h..\x1b[?1l"), CursorKeys::Normal);
        assert_eq!(cursor_keys(b"\x1b[?1l\x1b[?1h"), CursorKeys::Application);
    }

    #[test]
    fn hex_is_two_digits_a_byte() {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(hex_bytes(&words(&["1b", "0x5B", "41"])).unwrap(), b"\x1b[A");
        assert!(hex_bytes(&words(&["1"])).is_err());
        assert!(hex_bytes(&words(&["+1"])).is_err());
        assert!(hex_bytes(&words(&["zz"])).is_err());
    }
}
