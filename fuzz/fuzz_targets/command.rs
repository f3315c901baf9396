//! Any text as a command: what is allowed has a plan, and the plan starts the programs it lists.
//!
//! The first line is the command's machine: which programs are there and listed. The rest is the
//! text. An allowed plan must name only files that are there; no word of the text may be lost; and
//! the plan's own line must be read back as the same words.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};

use clawpen_rules::command::{
    Admission, ContentHash, Entry, FileFacts, FileIdentity, Pattern, ProgramFiles, Request,
    SafeBins, SegmentVerdict, Trust, Writer, analyse, decide, detect_inline_code,
    detect_obfuscation, escape,
};
use libfuzzer_sys::fuzz_target;

const PROGRAMS: &[&str] = &[
    "ls", "echo", "cat", "env", "nice", "timeout", "sh", "bash", "head", "wc", "xargs", "find",
    "git",
];

struct Machine;

impl ProgramFiles for Machine {
    fn find(&self, path: &str) -> Option<FileFacts> {
        let name = path.strip_prefix("/usr/bin/")?;
        let inode = PROGRAMS.iter().position(|known| *known == name)? as u64;
        Some(FileFacts {
            real_path: path.to_owned(),
            identity: FileIdentity { device: 1, inode },
            is_regular: true,
            is_executable: true,
            writer: Writer::Nobody,
        })
    }

    fn hash(&self, real_path: &str) -> Option<ContentHash> {
        self.find(real_path).map(|facts| ContentHash([facts.identity.inode as u8; 32]))
    }
}

fuzz_target!(|input: &str| {
    let (list, text) = input.split_once('\n').unwrap_or(("ls", input));
    let environment = BTreeMap::from([("PATH".to_owned(), "/usr/bin".to_owned())]);
    let request = Request { text, cwd: "/work", home: Some("/home"), environment: &environment };
    assert!(!escape(text).chars().any(char::is_control));
    let _ = detect_obfuscation(text);
    let Ok(analysis) = analyse(&request, &Machine) else { return };
    let entry = |name: &str| {
        let pattern = if name == "*" { name.to_owned() } else { format!("/usr/bin/{name}") };
        Entry { pattern: Pattern::compile(&pattern, None), binding: None, pin: None }
    };
    let entries: Vec<Entry> = list.split(' ').map(entry).collect();
    let safe_bins = SafeBins::default();
    let trust = Trust { entries: &entries, safe_bins: &safe_bins, skills: &[] };
    let verdict = decide(&analysis, &trust, &Machine);
    assert_eq!(verdict.segments().count(), analysis.segments().count());
    for segment in analysis.segments() {
        let _ = detect_inline_code(&segment.argv);
    }
    if !verdict.is_satisfied() {
        return;
    }
    let plan = analysis.freeze(&Machine).expect("what is allowed can be frozen");
    assert_eq!(plan.steps().len(), analysis.segments().count());
    assert_eq!(plan.hash(), plan.clone().hash());
    for file in plan.files() {
        assert!(Machine.find(&file.path).is_some());
    }
    // Nothing that runs text of its own gets through by a path.
    for (segment, verdict) in analysis.segments().zip(verdict.segments()) {
        if let SegmentVerdict::Admitted(Admission::Entry(_)) = verdict {
            let carriers = BTreeSet::from(["xargs", "bash"]);
            assert!(!carriers.contains(segment.argv[0].as_str()) || segment.argv.len() > 1);
        }
    }
    let again = Request { text: &plan.command_line(), ..request };
    let again = analyse(&again, &Machine).expect("a quoted line is analysable");
    let again = again.freeze(&Machine).expect("of the same programs");
    for (step, again) in plan.steps().iter().zip(again.steps()) {
        assert_eq!(step.argv[1..], again.argv[1..]);
    }
});
