//! An engine behind TLS: a relay that only lets in whoever has the right certificate.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use clawpen_engine::backend::docker::{DockerFailure, Endpoint, locate};
use clawpen_engine::images::Images;
use clawpen_tests::docker::Place;
use clawpen_tests::home::{Home, Run};

/// Certificates as an administrator would make them: an authority, an engine's, a client's.
const CERTIFICATES: &str = r#"set -e
req() { openssl req -newkey rsa:2048 -nodes -subj "/CN=$1" -keyout "$2" -out "$3" 2>/dev/null; }
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca-key.pem -out ca.pem 2>/dev/null
echo "subjectAltName=IP:127.0.0.1" > names
sign() { openssl x509 -req -days 2 -CA ca.pem -CAkey ca-key.pem -CAcreateserial -in "$1" -out "$2" -extfile "$3" 2>/dev/null; }
req engine server-key.pem server.csr
sign server.csr server.pem names
req client key.pem client.csr
echo "extendedKeyUsage=clientAuth" > usage
sign client.csr cert.pem usage
mkdir other
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=other -keyout other/key.pem -out other/cert.pem 2>/dev/null
cp ca.pem other/ca.pem
mkdir misnamed
echo "subjectAltName=IP:127.0.0.2" > names
req engine misnamed/server-key.pem server.csr
sign server.csr misnamed/server.pem names
cp ca.pem misnamed/ca.pem
mkdir foreign
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=foreign -keyout foreign-key.pem -out foreign/ca.pem 2>/dev/null
echo "subjectAltName=IP:127.0.0.1" > names
req engine foreign/server-key.pem server.csr
openssl x509 -req -days 2 -CA foreign/ca.pem -CAkey foreign-key.pem -CAcreateserial -in server.csr -out foreign/server.pem -extfile names 2>/dev/null
"#;
/// Between the certificates and the engine's socket.
const RELAY: &str = r"
import socket, ssl, sys, threading
directory, engine = sys.argv[1:3]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(directory + '/server.pem', directory + '/server-key.pem')
context.load_verify_locations(directory + '/ca.pem')
context.verify_mode = ssl.CERT_REQUIRED
listener = socket.create_server(('127.0.0.1', 0))
print(listener.getsockname()[1], flush=True)
def pump(a, b):
    try:
        while data := a.recv(65536):
            b.sendall(data)
    except OSError:
        pass
    finally:
        for end in (a, b):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
def serve(raw):
    try:
        client = context.wrap_socket(raw, server_side=True)
    except OSError:
        return
    server = socket.socket(socket.AF_UNIX)
    server.connect(engine)
    threading.Thread(target=pump, args=(client, server), daemon=True).start()
    pump(server, client)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
";

/// A process that ends with the test.
struct Relay(Child);

impl Drop for Relay {
    fn drop(&mut self) {
        // It may have ended by itself; the test says what went wrong then.
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

fn certificates(place: &Place) -> Result<PathBuf> {
    let directory = place.path("certificates");
    std::fs::create_dir(&directory)?;
    let made = Command::new("sh").args(["-c", CERTIFICATES]).current_dir(&directory).status()?;
    ensure!(made.success(), "openssl made no certificates");
    Ok(directory)
}

fn relay(directory: &Path, engine: &Path) -> Result<(Relay, u16)> {
    let mut relay = Command::new("python3");
    relay.args(["-c", RELAY]).arg(directory).arg(engine).stdout(Stdio::piped());
    let mut relay = Relay(relay.spawn().context("python3")?);
    let mut port = String::new();
    let stdout = relay.0.stdout.take().context("the relay's output")?;
    BufReader::new(stdout).read_line(&mut port)?;
    Ok((relay, port.trim().parse()?))
}

fn endpoint(port: u16, certificates: &Path) -> Result<Endpoint, DockerFailure> {
    locate(|name| match name {
        "DOCKER_HOST" => Some(format!("tcp://127.0.0.1:{port}")),
        "DOCKER_TLS_VERIFY" => Some("1".to_owned()),
        "DOCKER_CERT_PATH" => Some(certificates.display().to_string()),
        _ => None,
    })
}

#[test]
fn an_engine_behind_tls_answers_who_it_trusts_and_nobody_else() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let certificates = certificates(&place)?;
    let (_relay, port) = relay(&certificates, &place.socket)?;
    let state = place.path("state").display().to_string();
    let images = Images::at(&endpoint(port, &certificates)?, &state)?;
    assert_eq!(images.engine().0, "docker");
    assert_eq!(images.engine().2, format!("tcp://127.0.0.1:{port}"));
    let stranger = Images::at(&endpoint(port, &certificates.join("other"))?, &state);
    assert!(matches!(stranger, Err(DockerFailure::Talk { .. })), "{stranger:?}");
    let missing = Images::at(&endpoint(port, &place.path("nothing"))?, &state);
    assert!(matches!(missing, Err(DockerFailure::Local { .. })), "{missing:?}");
    Ok(())
}

#[test]
fn an_engine_with_the_right_authority_and_another_name_is_refused() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let certificates = certificates(&place)?;
    let (_relay, port) = relay(&certificates.join("misnamed"), &place.socket)?;
    let state = place.path("state").display().to_string();
    let refused = Images::at(&endpoint(port, &certificates)?, &state).unwrap_err();
    assert!(format!("{refused:?}").contains("NotValidForName"), "{refused:?}");
    Ok(())
}

/// Whatever this machine believes elsewhere: only the authority of the endpoint counts. A process of its
/// own, because the variable is read by whoever looks for the machine's authorities.
#[test]
fn an_engine_of_another_authority_is_refused_even_if_the_machine_believes_it() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    let certificates = certificates(&place)?;
    let (_relay, port) = relay(&certificates.join("foreign"), &place.socket)?;
    let home = Home::new();
    let mut list = home.command(&["image", "list"]);
    list.env("DOCKER_HOST", format!("tcp://127.0.0.1:{port}"))
        .env("DOCKER_TLS_VERIFY", "1")
        .env("DOCKER_CERT_PATH", &certificates)
        .env("SSL_CERT_FILE", certificates.join("foreign/ca.pem"));
    let run = Run::of(&mut list);
    assert_ne!(run.code, Some(0), "{}", run.stdout);
    assert!(run.stderr.contains("UnknownIssuer"), "{}", run.stderr);
    Ok(())
}
