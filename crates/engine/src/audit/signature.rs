//! Exports that are signed, and what a signed one proves.
//!
//! The chain finds every change, except one by somebody who may write the whole of it. An export that
//! was signed with a key that he does not have, and that is kept elsewhere, finds that too. Signing is
//! left to the OpenSSH client (`ssh-keygen -Y`), which people have, with keys that they have, also in
//! an agent or on a token: nothing here knows a secret.
//!
//! ```text
//! export ──► ssh-keygen -Y sign ──► FILE.sig        over all bytes of FILE, for nothing but this
//! FILE, FILE.sig, a public key ──► its head, if the signature is that key's ──► `Audit::verify`
//! ```

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use clawpen_os::memfd;
use clawpen_wire::audit::FORMAT;
use serde_json::Value;

use super::record::Head;

/// A signature made for anything else is none of an export, and the other way round.
const NAMESPACE: &str = "clawpen-audit";
/// Whom the signature must be of: the only line in the list that the OpenSSH client gets.
const SIGNER: &str = "clawpen";
/// What public keys are called that may sign.
const KEY_KINDS: &[&str] = &[
    "ssh-ed25519",
    "sk-ssh-ed25519@openssh.com",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "ssh-rsa",
];
/// What is shown of what the OpenSSH client says.
const SHOWN: usize = 500;

/// An export cannot be signed, or proves nothing.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    #[error("cannot run `ssh-keygen`; install the OpenSSH client (Debian: `openssh-client`)")]
    NoClient(#[source] io::Error),
    #[error("cannot sign with `{}`: {said}", .key.display())]
    NotSigned { key: PathBuf, said: String },
    #[error("cannot read `{}`", .path.display())]
    Read {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("`{}` holds no public key; give the `.pub` file of the key that signed", .path.display())]
    NoKey { path: PathBuf },
    #[error("`{}` is no whole export of an audit chain", .path.display())]
    NoExport { path: PathBuf },
    #[error("the signature of `{}` is not that of the given key over this file: {said}", .path.display())]
    NotTheirs { path: PathBuf, said: String },
}

/// Where the signature of an export stands.
pub fn signature_of(export: &Path) -> PathBuf {
    let mut name = export.as_os_str().to_owned();
    name.push(".sig");
    PathBuf::from(name)
}

/// Signs all bytes of an export. `key` is a private key's file, or the public one of a key that an agent
/// holds; a passphrase is asked for at the terminal.
pub fn sign(export: &Path, key: &Path) -> Result<Vec<u8>, SignatureError> {
    let read = |cause| SignatureError::Read { path: export.to_owned(), cause };
    let file = File::open(export).map_err(read)?;
    let mut command = Command::new("ssh-keygen");
    command.args(["-Y", "sign", "-n", NAMESPACE, "-f"]).arg(key);
    let output = command.stdin(file).output().map_err(SignatureError::NoClient)?;
    if output.status.success() && !output.stdout.is_empty() {
        return Ok(output.stdout);
    }
    Err(SignatureError::NotSigned { key: key.to_owned(), said: said(&output) })
}

/// The head that an export ends with. Without a key it is only what the file says; with one, the
/// signature beside the file is that key's over exactly the bytes that were read.
pub fn exported_head(export: &Path, key: Option<&Path>) -> Result<Head, SignatureError> {
    let read = |path: &Path| {
        fs::read(path).map_err(|cause| SignatureError::Read { path: path.to_owned(), cause })
    };
    let bytes = read(export)?;
    if let Some(key) = key {
        let listed = signer(&String::from_utf8_lossy(&read(key)?))
            .ok_or_else(|| SignatureError::NoKey { path: key.to_owned() })?;
        check(export, &bytes, &listed)?;
    }
    head_in(&bytes).ok_or_else(|| SignatureError::NoExport { path: export.to_owned() })
}

/// One line for the list of those who may sign. Whatever else the file says, such as options of its
/// own, is left out.
fn signer(public: &str) -> Option<String> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let kind = words.next().filter(|kind| KEY_KINDS.contains(kind))?;
        let is_key = |key: &&str| {
            key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
        };
        let key = words.next().filter(is_key)?;
        Some(format!("{SIGNER} namespaces=\"{NAMESPACE}\" {kind} {key}\n"))
    };
    public.lines().find_map(line)
}

fn check(export: &Path, bytes: &[u8], listed: &str) -> Result<(), SignatureError> {
    let started = || {
        let list = memfd::sealed("clawpen-signers", listed.as_bytes(), memfd::Use::Read)?;
        let mut command = Command::new("ssh-keygen");
        command.args(["-Y", "verify", "-n", NAMESPACE, "-I", SIGNER, "-f"]);
        // By way of us: the file has no name, and the child does not inherit it.
        command.arg(format!("/proc/{}/fd/{}", std::process::id(), list.as_raw_fd()));
        command.arg("-s").arg(signature_of(export));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            match stdin.write_all(bytes) {
                // It has made up its mind before it read all.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                written => written?,
            }
        }
        child.wait_with_output()
    };
    let output = started().map_err(SignatureError::NoClient)?;
    if output.status.success() {
        return Ok(());
    }
    Err(SignatureError::NotTheirs { path: export.to_owned(), said: said(&output) })
}

/// The head in the last line, if the file has as many lines as that line says.
fn head_in(bytes: &[u8]) -> Option<Head> {
    let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
    let (before, last) = text.rsplit_once('\n')?;
    let end: Value = serde_json::from_str(last).ok()?;
    let records = u64::try_from(before.lines().count()).ok()?.checked_sub(1)?;
    if end.get("format")?.as_str()? != FORMAT || end.get("records")?.as_u64()? != records {
        return None;
    }
    let head = end.get("head")?;
    Head::parse(&format!("{}:{}", head.get("seq")?.as_u64()?, head.get("hash")?.as_str()?))
}

fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let text = lines.collect::<Vec<_>>().join("; ");
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_key_is_taken_from_a_public_key_file() {
        let listed = Some("clawpen namespaces=\"clawpen-audit\" ssh-ed25519 AAAA\n".to_owned());
        for (text, expected) in [
            ("ssh-ed25519 AAAA me@host\n", &listed),
            ("# mine\n\nssh-ed25519 AAAA", &listed),
            ("cert-authority ssh-ed25519 AAAA", &None),
            ("* ssh-ed25519 AAAA", &None),
            ("ssh-ed25519 AA\"AA", &None),
            ("ssh-dss AAAA", &None),
            ("", &None),
        ] {
            assert_eq!(&signer(text), expected, "{text:?}");
        }
    }

    #[test]
    fn an_export_without_its_end_or_with_a_line_too_few_is_none() {
        let hash = "ab".repeat(32);
        let end = |records: u32| {
            format!(
                r#"{{"format":"clawpen-audit-1","records":{records},"base":{{}},"head":{{"seq":7,"hash":"{hash}"}}}}"#
            )
        };
        let start = r#"{"format":"clawpen-audit-1"}"#;
        let whole = format!("{start}\n{{}}\n{}\n", end(1));
        assert_eq!(head_in(whole.as_bytes()), Head::parse(&format!("7:{hash}")));
        for text in [
            String::new(),
            format!("{start}\n{{}}\n"),
            format!("{start}\n{}\n", end(1)),
            format!("{start}\n{{}}\n{}", end(1)),
            format!("{start}\n{{}}\n{{}}\n{}\n", end(1)),
            whole.replace("clawpen-audit-1", "clawpen-audit-2"),
        ] {
            assert_eq!(head_in(text.as_bytes()), None, "{text}");
        }
    }
}
