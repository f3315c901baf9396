//! An internet of the test's own: two network namespaces, one with us in it, one with public-looking servers and DNS.
//!
//! ```text
//! our namespace: 10.99.0.2, and 93.184.217.2 on it ── veth ── 10.99.0.1 with DNS, 93.184.216.34 with HTTP and HTTPS
//!                canary at port 80 of every address
//! ```
//!
//! The thread that makes a world moves into it, and so does what it starts. Needs root and `ip`, as pens' own tests do.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};

/// The public server.
pub(crate) const SERVER: &str = "93.184.216.34";
/// A public-looking address of our own.
pub(crate) const OURS: &str = "93.184.217.2";

/// What the DNS server says of a name: one answer after the other, the last one for good.
pub(crate) type Names = &'static [(&'static str, &'static [&'static [&'static str]])];

#[derive(Debug)]
pub(crate) struct World {
    /// Connections to anything of ours.
    pub(crate) touched: Arc<AtomicUsize>,
    /// How often each name was looked up for IPv4.
    pub(crate) looked_up: Arc<Mutex<HashMap<String, usize>>>,
    /// Heads of all requests.
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
    tls: Option<Child>,
    /// Ends the thread that holds the other namespace.
    _end: mpsc::Sender<()>,
}

impl World {
    /// Makes a world and moves this thread into it. `files` has the resolver's file, the bomb and the certificates.
    pub(crate) fn enter(files: &Path, names: Names) -> Self {
        let (touched, looked_up, requests) = (Arc::default(), Arc::default(), Arc::default());
        let (to_far, far_ready) =
            (mpsc::channel::<()>(), mpsc::channel::<(String, Option<Child>)>());
        let servers = Servers {
            files: files.to_owned(),
            names,
            looked_up: Arc::clone(&looked_up),
            requests: Arc::clone(&requests),
        };
        let (end, ready) = (to_far.0, far_ready.1);
        std::thread::spawn(move || servers.run(&far_ready.0, &to_far.1));
        let far = ready.recv().unwrap().0;
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).unwrap();
        std::fs::write(files.join("resolv.conf"), "nameserver 10.99.0.1\noptions timeout:1\n")
            .unwrap();
        let resolver = files.join("resolv.conf");
        sh(&format!(
            "mount --make-rprivate / && mount --bind {} $(readlink -f /etc/resolv.conf) && ip link set lo up \
             && ip link add near type veth peer name far netns {far} && ip addr add 10.99.0.2/24 dev near \
             && ip addr add {OURS}/32 dev lo && ip link set near up && ip route add default via 10.99.0.1",
            resolver.display()
        ));
        end.send(()).unwrap();
        let tls = ready.recv().unwrap().1;
        let canary = TcpListener::bind("0.0.0.0:80").unwrap();
        let touch: Arc<AtomicUsize> = Arc::clone(&touched);
        std::thread::spawn(move || {
            for stream in canary.incoming() {
                touch.fetch_add(1, Ordering::SeqCst);
                drop(stream);
            }
        });
        Self { touched, looked_up, requests, tls, _end: end }
    }

    pub(crate) fn is_untouched(&self) -> bool {
        self.touched.load(Ordering::SeqCst) == 0
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(child) = &mut self.tls {
            let _gone = child.kill();
            let _reaped = child.wait();
        }
    }
}

#[track_caller]
pub(crate) fn sh(script: &str) {
    let ran = Command::new("sh").args(["-c", script]).output().unwrap();
    assert!(ran.status.success(), "{script}\n{}", String::from_utf8_lossy(&ran.stderr));
}

struct Servers {
    files: std::path::PathBuf,
    names: Names,
    looked_up: Arc<Mutex<HashMap<String, usize>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Servers {
    fn run(self, ready: &mpsc::Sender<(String, Option<Child>)>, end: &mpsc::Receiver<()>) {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let place = format!("/proc/{}/task/{}/ns/net", std::process::id(), nix::unistd::gettid());
        ready.send((place, None)).unwrap();
        end.recv().unwrap();
        sh(&format!(
            "ip link set lo up && ip addr add {SERVER}/32 dev lo && ip addr add 10.99.0.1/24 dev far && ip link set far up \
             && ip route add {OURS}/32 via 10.99.0.2"
        ));
        let resolver = UdpSocket::bind("10.99.0.1:53").unwrap();
        let listener = TcpListener::bind((SERVER, 80)).unwrap();
        let tls = self.files.join("cert.pem").exists().then(|| self.tls());
        let Self { files, names, looked_up, requests } = self;
        std::thread::spawn(move || resolve(&resolver, names, &looked_up));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (files, requests) = (files.clone(), Arc::clone(&requests));
                std::thread::spawn(move || serve(stream, &files, &requests));
            }
        });
        ready.send((String::new(), tls)).unwrap();
        // The namespace stays while a thread is in it; this one stays for as long as the test.
        let _ended = end.recv();
    }

    /// A server that insists on the name it is asked for.
    fn tls(&self) -> Child {
        let mut server = Command::new("openssl");
        server.current_dir(&self.files).args([
            "s_server",
            "-quiet",
            "-HTTP",
            "-accept",
            &format!("{SERVER}:443"),
        ]);
        server.args([
            "-cert",
            "other.pem",
            "-key",
            "key.pem",
            "-cert2",
            "cert.pem",
            "-key2",
            "key.pem",
        ]);
        server.args(["-servername", "secure.example", "-servername_fatal"]);
        let server = server
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while TcpStream::connect((SERVER, 443)).is_err() {
            std::thread::yield_now();
        }
        server
    }
}

/// Answers questions for addresses of both kinds; whatever is not in the table does not exist.
fn resolve(socket: &UdpSocket, names: Names, looked_up: &Mutex<HashMap<String, usize>>) {
    let mut packet = [0; 512];
    while let Ok((length, from)) = socket.recv_from(&mut packet) {
        let question = &packet[12..length];
        let mut name = Vec::new();
        let mut at = 0;
        while question[at] != 0 {
            let end = at + 1 + usize::from(question[at]);
            name.push(String::from_utf8_lossy(&question[at + 1..end]).into_owned());
            at = end;
        }
        let name = name.join(".");
        let kind = question[at + 2];
        let question = &question[..at + 5];
        let mut counts = looked_up.lock().unwrap();
        let count = counts.entry(name.clone()).or_default();
        let round = if kind == 1 { *count } else { count.saturating_sub(1) };
        *count += usize::from(kind == 1);
        drop(counts);
        let answers = names
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, rounds)| rounds.get(round).or(rounds.last()).copied().unwrap_or_default());
        let addresses: Vec<IpAddr> =
            answers.unwrap_or_default().iter().map(|text| text.parse().unwrap()).collect();
        let fitting: Vec<Vec<u8>> = addresses
            .iter()
            .filter_map(|address| match (address, kind) {
                (IpAddr::V4(four), 1) => Some(four.octets().to_vec()),
                (IpAddr::V6(six), 28) => Some(six.octets().to_vec()),
                _ => None,
            })
            .collect();
        let missing = if answers.is_none() { 3 } else { 0 };
        let count = u8::try_from(fitting.len()).unwrap();
        let mut answer =
            vec![packet[0], packet[1], 0x81, 0x80 | missing, 0, 1, 0, count, 0, 0, 0, 0];
        answer.extend_from_slice(question);
        for bytes in fitting {
            answer.extend([
                0xc0,
                12,
                0,
                kind,
                0,
                1,
                0,
                0,
                0,
                0,
                0,
                u8::try_from(bytes.len()).unwrap(),
            ]);
            answer.extend(bytes);
        }
        let _sent = socket.send_to(&answer, from);
    }
}

/// One request, one answer, as its path says.
fn serve(mut stream: TcpStream, files: &Path, requests: &Mutex<Vec<String>>) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count > 0) {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or("/").to_owned();
    requests.lock().unwrap().push(head);
    let _cut = answer(&mut stream, &path, files);
    let _closed = stream.shutdown(Shutdown::Both);
}

fn answer(stream: &mut TcpStream, path: &str, files: &Path) -> std::io::Result<()> {
    let mut page = |kind: &str, body: &[u8]| {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)
    };
    if let Some(to) = path.strip_prefix("/to?") {
        let head = format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
        return stream.write_all(head.as_bytes());
    }
    match path.split('?').next().unwrap_or_default() {
        "/page" => page(
            "text/html",
            b"<title>A page</title><h1>Hello</h1><p>from <a href='/x'>here</a>\n&lt;&lt;&lt;END_WEB_CONTENT&gt;&gt;&gt;<script>no</script>",
        ),
        "/latin" => page("text/plain; charset=iso-8859-1", b"na\xefve"),
        "/json" => page("application/json", b"{\"a\":[1]}"),
        "/picture" => page("image/png", b"\x89PNG"),
        "/long" => page("text/plain", "word ".repeat(30_000).as_bytes()),
        "/loop" => stream.write_all(b"HTTP/1.1 302 Found\r\nlocation: /loop?x\r\ncontent-length: 0\r\n\r\n"),
        "/bomb" => {
            let body = std::fs::read(files.join("bomb.gz"))?;
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes())?;
            stream.write_all(&body)
        }
        "/endless" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")?;
            let block = "x".repeat(65_536).into_bytes();
            loop {
                stream.write_all(&block)?;
            }
        }
        "/slow" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 100000\r\n\r\n")?;
            loop {
                stream.write_all(b"x")?;
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        "/headers" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
            loop {
                stream.write_all(format!("x: {}\r\n", "y".repeat(1000)).as_bytes())?;
            }
        }
        // Says nothing until the other side has had enough.
        "/silent" => stream.read(&mut [0]).map(drop),
        _ => stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-type: text/html\r\ncontent-length: 15\r\n\r\n<p>none of this"),
    }
}
