//! A small machine to ask questions about, and one `check` per kind of question.

mod attacks;
mod bypasses_of_arguments;
mod bypasses_of_plans;
mod bypasses_of_programs;
mod bypasses_of_text;
mod corpus;
mod properties;

use std::collections::BTreeMap;

use super::*;

/// Files by path; links are followed by hand.
#[derive(Debug, Clone)]
struct Machine {
    files: BTreeMap<String, FileFacts>,
    contents: BTreeMap<String, u8>,
    entries: Vec<Entry>,
    safe_bins: SafeBins,
    skills: Vec<SkillProgram>,
    path: &'static str,
}

const HOME: &str = "/home/u";
const CWD: &str = "/home/u/ws";

/// What is installed. `sh` is a link to `dash`, `awk` to `mawk`, `python` to `python3.11`.
const PROGRAMS: &[&str] = &[
    "ls",
    "echo",
    "cat",
    "rm",
    "id",
    "env",
    "nice",
    "nohup",
    "stdbuf",
    "time",
    "timeout",
    "sudo",
    "doas",
    "setsid",
    "ionice",
    "chrt",
    "taskset",
    "script",
    "busybox",
    "toybox",
    "dash",
    "bash",
    "zsh",
    "fish",
    "pwsh",
    "cut",
    "uniq",
    "head",
    "tail",
    "tr",
    "wc",
    "sort",
    "grep",
    "jq",
    "sed",
    "find",
    "xargs",
    "git",
    "make",
    "tar",
    "mawk",
    "ssh",
    "node",
    "perl",
    "python3.11",
    "rg",
    "watch",
];

impl Machine {
    /// With `/usr/bin/ls` and `/usr/bin/echo` allowed, and the default safe bins.
    fn new() -> Self {
        let machine = Self {
            files: BTreeMap::new(),
            contents: BTreeMap::new(),
            entries: Vec::new(),
            safe_bins: SafeBins::default(),
            skills: Vec::new(),
            path: "/usr/bin:/bin",
        };
        let machine = PROGRAMS.iter().fold(machine, |m, name| m.file(&format!("/usr/bin/{name}")));
        let machine =
            machine.link("/usr/bin/sh", "/usr/bin/dash").link("/usr/bin/awk", "/usr/bin/mawk");
        let machine = machine.link("/usr/bin/python", "/usr/bin/python3.11");
        let machine = machine.link("/usr/bin/notashell", "/usr/bin/dash");
        machine.allow("/usr/bin/ls").allow("/usr/bin/echo")
    }

    fn file(mut self, path: &str) -> Self {
        let inode = self.files.len() as u64;
        let facts = FileFacts {
            real_path: path.to_owned(),
            identity: FileIdentity { device: 1, inode },
            is_regular: true,
            is_executable: true,
            writer: Writer::Nobody,
        };
        self.files.insert(path.to_owned(), facts);
        self.contents.insert(path.to_owned(), 0);
        self
    }

    /// A file that the agent can change.
    fn own_file(self, path: &str) -> Self {
        let mut machine = self.file(path);
        machine.files.get_mut(path).expect("just put there").writer = Writer::User;
        machine
    }

    fn link(mut self, path: &str, target: &str) -> Self {
        let facts = self.files.get(target).expect("the target is there").clone();
        self.files.insert(path.to_owned(), facts);
        self
    }

    /// The file's content is another.
    fn rewrite(mut self, path: &str) -> Self {
        *self.contents.get_mut(path).expect("the file is there") += 1;
        self
    }

    fn allow(mut self, pattern: &str) -> Self {
        let pattern = Pattern::compile(pattern, Some(HOME));
        self.entries.push(Entry { pattern, binding: None, pin: None });
        self
    }

    /// Stores what "always allow" would.
    fn always(mut self, text: &str) -> Self {
        let remembered = self.analyse(text).expect("analysable").remember(&self);
        for entry in remembered {
            self.entries.push(Entry {
                pattern: Pattern::compile(&entry.path, Some(HOME)),
                binding: Some(entry.binding),
                pin: Some(entry.pin),
            });
        }
        self
    }

    fn analyse(&self, text: &str) -> Result<Analysis, NotAnalysable> {
        self.analyse_in(text, CWD)
    }

    fn analyse_in(&self, text: &str, cwd: &str) -> Result<Analysis, NotAnalysable> {
        let environment = BTreeMap::from([("PATH".to_owned(), self.path.to_owned())]);
        analyse(&Request { text, cwd, home: Some(HOME), environment: &environment }, self)
    }

    fn decide(&self, analysis: &Analysis) -> Verdict {
        let trust =
            Trust { entries: &self.entries, safe_bins: &self.safe_bins, skills: &self.skills };
        decide(analysis, &trust, self)
    }

    /// One word for what happens to a text.
    fn answer(&self, text: &str) -> Answer {
        let Ok(analysis) = self.analyse(text) else { return Answer::NotAnalysed };
        match self.decide(&analysis).first_miss() {
            None => Answer::Allowed,
            Some(Miss::Blocked { .. }) => Answer::Blocked,
            Some(Miss::Carrier(_)) => Answer::Carries,
            Some(Miss::AgentWritable { .. }) => Answer::Writable,
            Some(Miss::Changed { .. }) => Answer::Changed,
            Some(_) => Answer::Missed,
        }
    }

    #[track_caller]
    fn check(&self, expected: Answer, texts: &[&str]) {
        for text in texts {
            assert_eq!(self.answer(text), expected, "{text:?}");
        }
    }

    fn plan(&self, text: &str) -> Plan {
        self.analyse(text).expect("analysable").freeze(self).expect("everything is found")
    }

    /// The plan of an allowed text, as a line.
    #[track_caller]
    fn check_plan(&self, text: &str, expected: &str) {
        assert_eq!(self.answer(text), Answer::Allowed, "{text:?}");
        assert_eq!(self.plan(text).command_line(), expected, "{text:?}");
    }

    fn remembered(&self, text: &str) -> Vec<String> {
        let entries = self.analyse(text).expect("analysable").remember(self);
        entries.into_iter().map(|entry| entry.path).collect()
    }
}

/// What happens to a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Allowed,
    Missed,
    Blocked,
    Carries,
    Writable,
    Changed,
    NotAnalysed,
}

impl ProgramFiles for Machine {
    fn find(&self, path: &str) -> Option<FileFacts> {
        self.files.get(path).cloned()
    }

    fn hash(&self, real_path: &str) -> Option<ContentHash> {
        let facts = self.files.get(real_path)?;
        let version = self.contents.get(real_path)?;
        let mut hash = [*version; 32];
        hash[..8].copy_from_slice(&facts.identity.inode.to_le_bytes());
        Some(ContentHash(hash))
    }
}

fn words(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}
