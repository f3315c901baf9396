//! Has an HTTP proxy make a connection for us. What goes through it afterwards is TLS, which it cannot read.

use base64::Engine as _;
use clawpen_rules::models::proxy::Proxy;
use http::header::HeaderValue;
use secrecy::zeroize::Zeroizing;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::http::HttpError;

/// The longest head of its answer.
const HEAD: usize = 16 * 1024;

/// What a proxy is told of who asks; marked so that nothing prints it.
pub(super) fn login(proxy: &Proxy) -> Option<HeaderValue> {
    let text = written(proxy)?;
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn written(proxy: &Proxy) -> Option<Zeroizing<String>> {
    let login = proxy.login.as_ref()?;
    let coded = Zeroizing::new(base64::engine::general_purpose::STANDARD.encode(login));
    Some(Zeroizing::new(format!("Basic {}", coded.as_str())))
}

/// Asks for a connection to a server; gives it once the proxy has made it.
pub(super) async fn tunnel(
    mut socket: TcpStream,
    proxy: &Proxy,
    (host, port): (&str, u16),
) -> Result<TcpStream, HttpError> {
    let failed = |cause| HttpError::Connect { host: proxy.to_string(), cause };
    let place =
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let login = written(proxy).map(|login| format!("Proxy-Authorization: {}\r\n", login.as_str()));
    let login = Zeroizing::new(login.unwrap_or_default());
    let asked = Zeroizing::new(format!(
        "CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{}\r\n",
        login.as_str()
    ));
    socket.write_all(asked.as_bytes()).await.map_err(failed)?;
    let mut head = Vec::new();
    // One byte at a time: what follows the head belongs to the server behind the proxy.
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= HEAD {
            return Err(HttpError::NoProxy { proxy: proxy.to_string() });
        }
        head.push(socket.read_u8().await.map_err(failed)?);
    }
    match status(&head) {
        Some(200..=299) => Ok(socket),
        Some(code) => {
            Err(HttpError::Proxy { proxy: proxy.to_string(), host: host.to_owned(), code })
        }
        None => Err(HttpError::NoProxy { proxy: proxy.to_string() }),
    }
}

fn status(head: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(head.split(|byte| *byte == b'\r').next()?).ok()?;
    let rest = line.strip_prefix("HTTP/1.")?;
    let code = rest.split(' ').nth(1)?;
    (code.len() == 3).then(|| code.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_status_of_an_http_answer_counts() {
        for (head, expected) in [
            ("HTTP/1.1 200 Connection established\r\n\r\n", Some(200)),
            ("HTTP/1.0 407 Proxy Authentication Required\r\n\r\n", Some(407)),
            ("HTTP/2 200 OK\r\n\r\n", None),
            ("HTTP/1.1 2000 OK\r\n\r\n", None),
            ("SSH-2.0-x 200\r\n\r\n", None),
            ("", None),
        ] {
            assert_eq!(status(head.as_bytes()), expected, "{head}");
        }
    }
}
