//! What is expected of an engine before it is believed or waited for.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clawpen_engine::backend::docker::{DockerBackend, DockerFailure, Endpoint};
use clawpen_engine::supervisor_image;
use clawpen_tests::home::{Home, Run};

use crate::fake::{Answer, Fake, address};

/// Far below what a call to an engine may take, far above what a command on a busy machine takes.
const PROMPT: Duration = Duration::from_secs(20);
/// Listens as whoever runs it, and writes down what it is sent.
const LISTENER: &str = r"
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1] + '/s')
os.chmod(sys.argv[1] + '/s', 0o777)
listener.listen()
print('ready', flush=True)
while True:
    client = listener.accept()[0]
    print(len(client.recv(65536)), flush=True)
    client.close()
";

/// A process that ends with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        // It may have ended by itself; the test says what went wrong then.
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[test]
fn an_engine_of_another_user_is_sent_nothing() -> Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    // Nobody else can be two users.
    if std::fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    std::os::unix::fs::chown(directory.path(), Some(1000), Some(1000))?;
    let mut listener = Command::new("/usr/bin/python3");
    listener.args(["-c", LISTENER]).arg(directory.path()).stdout(Stdio::piped());
    let mut listener = Ends(listener.uid(1000).gid(1000).spawn().context("python3")?);
    let mut said = BufReader::new(listener.0.stdout.take().context("its output")?).lines();
    ensure!(said.next().context("a word")?? == "ready", "the listener did not start");
    let endpoint = Endpoint::Unix(directory.path().join("s"));
    let home = tempfile::tempdir()?;
    let refused = DockerBackend::connect(&endpoint, home.path(), supervisor_image::IMAGE);
    let Err(DockerFailure::OfAnotherUser { uid: 1000, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(said.next().context("what it was sent")??, "0");
    Ok(())
}

/// A native call, in a home where containers were made once, with an engine that hangs.
#[track_caller]
fn check_native_call(answer: fn(&str) -> Answer) -> Result<()> {
    let engine = Fake::start(answer)?;
    let home = Home::with_config("{agents: {defaults: {sandbox: {backend: 'native'}}}}");
    std::fs::create_dir_all(home.path(".openclaw/clawpen/docker/run"))?;
    let start = Instant::now();
    let mut call = home.command(&["exec", "--", "echo", "there"]);
    let run = Run::of(call.env("DOCKER_HOST", address(&engine.socket())).stdin(Stdio::null()));
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "there\n"), "{}", run.stderr);
    assert!(start.elapsed() < PROMPT, "{:?}", start.elapsed());
    assert!(run.stderr.contains("the engine does not answer"), "{}", run.stderr);
    assert!(!engine.heard().is_empty());
    Ok(())
}

#[test]
fn an_engine_that_hangs_does_not_hold_up_a_native_call() -> Result<()> {
    check_native_call(|_| Answer::Begun(""))
}

#[test]
fn an_engine_that_begins_an_answer_and_hangs_does_not_hold_up_a_native_call() -> Result<()> {
    check_native_call(|_| Answer::Begun("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"))
}
