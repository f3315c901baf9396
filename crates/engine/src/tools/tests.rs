//! The tools in a real pen, through the embedded supervisor.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use clawpen_wire::supervisor::frame::{self, Inbox};
use clawpen_wire::supervisor::{
    End, Event, Hello, OnExisting, Rename, Request, StdinMode, VERSION, WriteOpen,
};

use super::*;
use crate::channel::{Captured, Command};
use crate::supervisor_image::ProcessOne;
use crate::supervisor_image::sample::{listener, spec, start_pen};

#[test]
fn a_file_is_written_read_edited_and_listed() {
    let mut pen = Pen::start();
    let write = json!({ "file_path": "dir/f.txt", "content": "one\ntwo\n" });
    assert_eq!(pen.ok(FileTool::Write, write), "Wrote 8 bytes to dir/f.txt");
    assert_eq!(pen.ok(FileTool::Read, json!({ "path": "@dir/f.txt" })), "one\ntwo\n");
    let ranged = json!({ "path": "/pen/dir/f.txt", "limit": 1 });
    assert_eq!(
        pen.ok(FileTool::Read, ranged),
        "one\n\n[1 more lines. To go on, read with offset=2.]"
    );
    let edit = json!({ "path": "dir/f.txt", "old_string": "two", "new_string": "2" });
    assert_eq!(pen.ok(FileTool::Edit, edit), "Replaced text in dir/f.txt");
    let dry = json!({ "path": "dir/f.txt", "oldText": "2", "newText": "3", "dryRun": true });
    assert_eq!(pen.ok(FileTool::Edit, dry), "Would replace text in dir/f.txt\n 1 one\n-2 2\n+2 3");
    assert_eq!(pen.cat("dir/f.txt"), "one\n2\n");
    pen.sh("ln -s f.txt dir/link; mkdir dir/sub");
    assert_eq!(pen.ok(FileTool::List, json!({ "path": "dir" })), "f.txt\nlink@\nsub/");
}

#[test]
fn what_cannot_be_done_says_why_and_changes_nothing() {
    let mut pen = Pen::start();
    pen.sh("printf 'a\\nb\\na\\n' > f; printf 'a\\0' > bin; mkfifo pipe; ln -s /etc/passwd out; mkdir d");
    let no = |pen: &mut Pen, tool, arguments| pen.refused(tool, arguments);
    assert_eq!(
        no(&mut pen, FileTool::Edit, json!({ "path": "f", "oldText": "a", "newText": "x" })),
        "`f` was not edited: `oldText` is there more than once, on line 1 and again on line 3; add lines around it until \
         it is there once"
    );
    assert_eq!(pen.cat("f"), "a\nb\na\n");
    let read = |path: &str| json!({ "path": path });
    assert!(no(&mut pen, FileTool::Read, read("bin")).contains("it is binary (2 B)"));
    assert!(no(&mut pen, FileTool::Read, read("pipe")).contains("no regular file"));
    assert!(no(&mut pen, FileTool::Read, read("d")).contains("is a directory"));
    for way_out in ["out", "../etc/passwd", "d/../../etc/passwd"] {
        no(&mut pen, FileTool::Read, read(way_out));
        no(&mut pen, FileTool::Write, json!({ "path": way_out, "content": "x" }));
    }
    assert!(
        no(&mut pen, FileTool::Write, json!({ "path": "/etc/x", "content": "" }))
            .contains("cannot write `/etc/x`")
    );
    assert_eq!(
        no(&mut pen, FileTool::Read, json!({})),
        "`read` lacks `path`; call it again with every required parameter"
    );
}

#[test]
fn an_image_comes_as_an_image() {
    let mut pen = Pen::start();
    pen.sh("printf '\\211PNG\\r\\n\\032\\n----' > a.png");
    let answer = pen.tools().run(FileTool::Read, &json!({ "path": "a.png" })).unwrap();
    let bytes = b"\x89PNG\r\n\x1a\n----".to_vec();
    let expected = [
        Block::Text("Image file [image/png], 12 B".to_owned()),
        Block::Image { mime_type: "image/png", bytes },
    ];
    assert_eq!(answer.content, expected);
}

#[test]
fn a_patch_changes_all_its_files_and_keeps_modes_and_links() {
    let mut pen = Pen::start();
    pen.sh("printf 'a\\n' > f; chmod 775 f; ln -s f link; echo x > gone; echo m > old");
    let hunks = "*** Update File: link\n-a\n+b\n*** Delete File: gone\n*** Update File: old\n*** Move to: sub/new\n-m\n+n\n*** Add File: deep/er/x\n+1";
    let dry = json!({ "input": wrapped(hunks), "dryRun": true });
    assert!(
        pen.ok(FileTool::ApplyPatch, dry)
            .starts_with("The patch would change:\nA deep/er/x\nM link\nM sub/new\nD gone\n")
    );
    assert_eq!(pen.sh("ls -A"), "f\ngone\nlink\nold\n");
    let done = pen.ok(FileTool::ApplyPatch, json!({ "input": wrapped(hunks) }));
    assert_eq!(done, "The patch is applied to:\nA deep/er/x\nM link\nM sub/new\nD gone");
    assert_eq!(
        pen.sh("find . | sort; cat f sub/new deep/er/x; stat -c %a f; readlink link"),
        ".\n./deep\n./deep/er\n./deep/er/x\n./f\n./link\n./sub\n./sub/new\nb\nn\n1\n775\nf\n"
    );
}

#[test]
fn a_patch_that_cannot_be_applied_changes_nothing() {
    let mut pen = Pen::start();
    pen.sh("echo a > f; ln f twin; mkdir d; echo a > d/g; printf 'a\\0\\n' > bin; chmod 555 d");
    let before = pen.sh("find . | sort; cat f d/g");
    for hunks in [
        "*** Add File: new\n+1\n*** Update File: f\n-absent\n+x",
        "*** Add File: new\n+1\n*** Update File: d\n-absent\n+x",
        "*** Add File: new\n+1\n*** Update File: bin\n-a\n+x",
        "*** Update File: f\n-a\n+x\n*** Delete File: nowhere",
        "*** Update File: f\n-a\n+x\n*** Update File: twin\n-a\n+y",
        "*** Update File: f\n-a\n+x\n*** Add File: ../out\n+1",
        "*** Update File: f\n-a\n+x\n*** Add File: /run/out\n+1",
        // The directory takes no new file, which shows when the change is staged.
        "*** Update File: f\n-a\n+x\n*** Delete File: bin\n*** Add File: d/new\n+1",
        // Nor lets it go of one, which shows when all else is done.
        "*** Update File: f\n-a\n+x\n*** Add File: new\n+1\n*** Delete File: d/g",
    ] {
        pen.refused(FileTool::ApplyPatch, json!({ "input": wrapped(hunks) }));
        assert_eq!(pen.sh("find . | sort; cat f d/g"), before, "{hunks}");
    }
}

/// What `channel/batch.rs` sends, cut off at its two moments.
#[test]
fn a_host_that_dies_in_the_middle_leaves_all_old_or_all_new() {
    let mut pen = Pen::start();
    pen.sh("echo a > f; echo a > g; echo a > gone");
    let place = |name: &str| Place::Below { root: 0, path: name.into() };
    let open = |name: &str| {
        let WriteOptions { mode, parents, permissions } = new_file();
        Request::WriteOpen(WriteOpen { place: place(name), mode, parents, permissions })
    };
    let staged = [
        (1, open("f")),
        (1, Request::WriteChunk(b"b\n")),
        (2, open("g")),
        (2, Request::WriteChunk(b"b\n")),
        (3, Request::Ping),
    ];
    let aside = Rename { from: place("gone"), to: place("aside"), existing: OnExisting::Refuse };
    let put = [(1, Request::WriteCommit), (2, Request::WriteCommit), (4, Request::Rename(aside))];

    let mut dies = pen.connect_raw();
    dies.say(&staged);
    dies.hear(3);
    drop(dies);
    assert_eq!(pen.sh("ls -A; cat f g"), "f\ng\ngone\na\na\n");

    let mut dies = pen.connect_raw();
    dies.say(&staged);
    dies.hear(3);
    dies.say(&put);
    drop(dies);
    assert_eq!(pen.sh("ls -A; cat f g"), "aside\nf\ng\nb\nb\n");
}

#[test]
fn a_search_runs_in_the_sandbox() {
    let mut pen = Pen::start();
    pen.sh("mkdir src; printf 'fn main() {\\n    needle\\n}\\n' > src/a.rs; echo needle > b; ln -s / everything");
    assert_eq!(
        pen.ok(FileTool::Grep, json!({ "pattern": "need.e" })),
        "b:1: needle\nsrc/a.rs:2:     needle"
    );
    let around = json!({ "pattern": "needle", "glob": "*.rs", "context": 1 });
    assert_eq!(
        pen.ok(FileTool::Grep, around),
        "a.rs".replace("a.rs", "src/a.rs-1- fn main() {\nsrc/a.rs:2:     needle\nsrc/a.rs-3- }")
    );
    assert_eq!(pen.ok(FileTool::Find, json!({ "pattern": "*.rs" })), "src/a.rs");
    assert_eq!(
        pen.ok(FileTool::Find, json!({ "pattern": "*", "path": "src", "limit": 1 })),
        "src/a.rs"
    );
    assert_eq!(pen.ok(FileTool::Grep, json!({ "pattern": "absent" })), "(no line matches)");
    assert!(
        pen.refused(FileTool::Grep, json!({ "pattern": "(" }))
            .contains("the pattern cannot be used")
    );
    assert!(
        pen.refused(FileTool::Grep, json!({ "pattern": "x", "path": "nowhere" }))
            .starts_with("cannot search `nowhere`")
    );
}

#[test]
fn no_file_of_the_sandbox_stands_in_for_the_searching_program() {
    let mut pen = Pen::start();
    pen.ok(FileTool::Find, json!({ "pattern": "*" }));
    assert_eq!(pen.sh("find / -xdev -name '*clawpen-search*' 2>/dev/null; true"), "");
    pen.sh("for name in clawpen-search .clawpen-search find grep rg; do printf '#!/bin/sh\\necho lie > /pen/lie' > $name; chmod 755 $name; done");
    let found = pen.ok(FileTool::Find, json!({ "pattern": "*" }));
    assert_eq!(found, ".clawpen-search\nclawpen-search\nfind\ngrep\nrg");
    assert_eq!(pen.sh("ls lie 2>/dev/null; true"), "");
}

#[test]
fn a_search_ends_whatever_stands_in_its_way() {
    let mut pen = Pen::start();
    pen.sh("echo needle > z; mkfifo .gitignore a-pipe; mkdir -p d e/.git/info; mkfifo d/.ignore e/.git/info/exclude; \
            ln -s /dev/zero d/.gitignore; ln -s /dev/zero zero; ln -s / everything; ln -s .. d/up; \
            truncate -s 1G sparse; i=0; while [ $i -lt 300 ]; do mkdir deep; cd deep; i=$((i+1)); done; echo needle > bottom");
    let bottom = "deep/".repeat(300) + "bottom:1: needle";
    let found = pen.ok(FileTool::Grep, json!({ "pattern": "needle" }));
    assert_eq!(found, format!("{bottom}\nz:1: needle"));
    let found = pen.ok(FileTool::Find, json!({ "pattern": "z*" }));
    assert_eq!(found, "z\nzero");
    for odd in ["a-pipe", "zero", "everything", "d/up/../.."] {
        let arguments = json!({ "pattern": "root", "path": odd });
        let answer = pen.tools().run(FileTool::Grep, &arguments);
        let said = match answer {
            Err(error) => error.for_model(),
            Ok(answer) => format!("{:?}", answer.content),
        };
        assert!(!said.contains("root:x:0:0:root:/root"), "{odd}: {said}");
    }
}

#[test]
fn a_supervisor_of_an_older_release_is_not_asked_to_search() {
    let mut pen = Pen::start();
    pen.channel.pretend_version(clawpen_wire::supervisor::PROGRAM_VERSION - 1);
    let said = pen.refused(FileTool::Grep, json!({ "pattern": "x" }));
    assert_eq!(
        said,
        "cannot search `.`: the sandbox was made by an older release, which cannot search; recreate it (`clawpen sandbox \
         recreate`), or use exec with grep or find"
    );
}

fn wrapped(hunks: &str) -> String {
    format!("*** Begin Patch\n{hunks}\n*** End Patch")
}

/// A second connection that says just this, byte for byte, and what it is told.
struct Raw {
    stream: UnixStream,
    inbox: Inbox,
}

impl Raw {
    /// Says all of it at once.
    fn say(&mut self, requests: &[(u32, Request<'_>)]) {
        let mut bytes = Vec::new();
        for (channel, request) in requests {
            frame::append(&mut bytes, *channel, request).unwrap();
        }
        self.stream.write_all(&bytes).unwrap();
    }

    fn hear(&mut self, channel: u32) {
        loop {
            while let Some(frame) = self.inbox.next_frame().unwrap() {
                if frame.channel == channel {
                    assert!(matches!(frame.decode(), Ok(Event::Done)));
                    return;
                }
            }
            let count = self.stream.read(self.inbox.room()).unwrap();
            assert_ne!(count, 0, "the supervisor hung up");
            self.inbox.filled(count);
        }
    }
}

struct Pen {
    channel: Channel,
    directory: tempfile::TempDir,
    _process_one: ProcessOne,
}

impl Pen {
    fn start() -> Self {
        let (directory, listener) = listener();
        let process_one = start_pen(&spec(), listener.as_fd()).unwrap();
        let stream = UnixStream::connect(directory.path().join("s")).unwrap();
        let first_process = u32::try_from(process_one.pid.get()).unwrap();
        let mut channel = Channel::connect(stream, first_process).unwrap();
        channel.facts().unwrap();
        channel.seal().unwrap();
        Self { channel, directory, _process_one: process_one }
    }

    fn connect_raw(&self) -> Raw {
        let stream = UnixStream::connect(self.directory.path().join("s")).unwrap();
        let mut raw = Raw { stream, inbox: Inbox::of_events() };
        raw.say(&[(0, Request::Hello(Hello { oldest: VERSION, newest: VERSION }))]);
        raw
    }

    fn tools(&mut self) -> Tools<'_> {
        Tools::new(&mut self.channel, Settings::new("/pen"))
    }

    #[track_caller]
    fn ok(&mut self, tool: FileTool, arguments: Value) -> String {
        let answer = self.tools().run(tool, &arguments);
        let answer = answer.unwrap_or_else(|error| panic!("{}", error.for_model()));
        match answer.content.as_slice() {
            [Block::Text(text)] => text.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn refused(&mut self, tool: FileTool, arguments: Value) -> String {
        self.tools().run(tool, &arguments).unwrap_err().for_model()
    }

    fn sh(&mut self, script: &str) -> String {
        let mut captured = Captured::new(100_000);
        let command = Command { stdin: StdinMode::Null, ..Command::new(["sh", "-c", script]) };
        let exited = self.channel.exec(&command, &mut captured).unwrap();
        let error = String::from_utf8_lossy(&captured.stderr).into_owned();
        assert_eq!(exited.end, End::Code(0), "{error}");
        String::from_utf8(captured.stdout).unwrap()
    }

    fn cat(&mut self, path: &str) -> String {
        self.sh(&format!("cat {path}"))
    }
}
