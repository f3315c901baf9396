//! The supervisor for real: pens made by root and by an ordinary user, driven frame by frame.

#[path = "pen/harness.rs"]
mod harness;

use clawpen_wire::supervisor::{End, ErrorCode, Request};
use harness::{Host, Maker, Pen, exec, sh};

fn makers() -> &'static [Maker] {
    if harness::is_root() { &[Maker::Root, Maker::Ordinary] } else { &[Maker::Ordinary] }
}

#[test]
fn a_command_runs_as_the_pens_user_and_says_how_it_ended() {
    for &maker in makers() {
        let mut pen = Pen::new(maker);
        assert_eq!(pen.host.shell("id -u; id -g; pwd; hostname"), "1000\n1000\n/work\npen\n");
        let ran = pen.host.run(sh("echo out; echo err >&2; exit 7")).unwrap();
        assert_eq!(
            (ran.text().as_str(), ran.err.as_slice(), ran.end()),
            ("out\n", &b"err\n"[..], End::Code(7))
        );
        let ran = pen.host.run(sh("kill -SEGV $$")).unwrap();
        assert_eq!(ran.end(), End::Signal(11));
    }
}
