//! A state directory, a home and programs of their own, with a clock that is told when to go on.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use clawpen_rules::approval::Coverage;
use clawpen_rules::approval::always::Kept;
use clawpen_rules::approval::answer::Looks;
use clawpen_rules::approval::file::NewEntry;
use clawpen_rules::approval::resolver::{Place, Resolver, Speaker};
use clawpen_rules::approval::run_form::{Form, Frozen};
use clawpen_rules::command::{Request, analyse};
use clawpen_rules::exec_host::{self, Security};
use clawpen_rules::ids::AgentId;
use clawpen_rules::timestamp::{Moment, SinceBoot, Timestamp};

use crate::approvals_file::ApprovalsStore;
use crate::audit::Door;
use crate::broker::{Ask, Asker, Bound, Broker, Id, Means, Ran};
use crate::clock::{Clock, SystemClock};
use crate::database::Database;
use crate::host_exec::{Errors, Limits, Unseen};
use crate::program_files::{RealPrograms, Writers};

/// The value of a variable that must be nowhere.
pub(super) const SECRET: &str = "v4lue-of-a-variable";
const LIMITS: Limits =
    Limits { time: Duration::from_secs(60), output_bytes: 1 << 16, errors: Errors::Apart };

/// A clock that stands still until it is told to go on.
pub(super) struct TestClock(Mutex<(u64, u64)>);

impl TestClock {
    pub(super) const START: u64 = 1_700_000_000_000;

    pub(super) fn pass(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap();
        let mut now = self.0.lock().unwrap();
        *now = (now.0 + millis, now.1 + millis);
    }

    pub(super) fn set_wall(&self, wall: u64) {
        self.0.lock().unwrap().0 = wall;
    }
}

impl Clock for TestClock {
    fn now(&self) -> Moment {
        let (wall, millis) = *self.0.lock().unwrap();
        let boot = Some(SinceBoot { id: "boot".to_owned(), millis });
        Moment { wall: Timestamp::from_millis(wall), boot }
    }
}

enum Time {
    Told,
    Real,
}

pub(super) struct World {
    pub(super) base: PathBuf,
    pub(super) database: Database,
    approvals: ApprovalsStore,
    pub(super) clock: TestClock,
    time: Time,
    agent: AgentId,
    _directory: Option<tempfile::TempDir>,
}

impl World {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        Self { _directory: Some(directory), ..Self::at(&base) }
    }

    /// A world that is there already, or whose directory is.
    pub(super) fn at(base: &Path) -> Self {
        let home = base.join("home");
        std::fs::create_dir_all(home.join(".openclaw")).unwrap();
        Self {
            base: base.to_owned(),
            database: Database::open(&base.join("state")).unwrap(),
            approvals: ApprovalsStore::of_home(home.to_str().unwrap()),
            clock: TestClock(Mutex::new((TestClock::START, 1))),
            time: Time::Told,
            agent: AgentId::main(),
            _directory: None,
        }
    }

    pub(super) fn with_real_clock(self) -> Self {
        Self { time: Time::Real, ..self }
    }

    /// One that is there already, as another process sees it.
    pub(super) fn again(base: &Path) -> Self {
        Self::at(base).with_real_clock()
    }

    pub(super) fn broker(&self) -> Broker<'_> {
        let clock: &dyn Clock = match self.time {
            Time::Told => &self.clock,
            Time::Real => &SystemClock,
        };
        Broker { database: &self.database, approvals: &self.approvals, clock }
    }

    /// A question with a policy that says no to silence.
    pub(super) fn ask<'a>(&'a self, command: &'a str) -> Ask<'a> {
        Ask {
            command,
            cwd: self.base.to_str().unwrap(),
            session: Some("agent:main:main"),
            agent: &self.agent,
            plan: None,
            variables: &[],
            reasons: vec!["it is asked about".to_owned()],
            security: Security::Allowlist,
            ask: exec_host::Ask::OnMiss,
            fallback: Security::Deny,
            looks: Looks::Plain,
            coverage: Coverage::Missed,
            entries: &[],
            asker: Asker { door: Door::Cli, client: None, agent_process: None },
            timeout: Duration::from_secs(120),
        }
    }

    /// What the answer to [`World::ask`] is bound to.
    pub(super) fn bound<'a>(&'a self, command: &'a str) -> Bound<'a> {
        Bound::Call { command, cwd: self.base.to_str().unwrap(), variables: &[] }
    }

    pub(super) fn programs(&self) -> RealPrograms {
        RealPrograms::new(Writers::of_process(vec![self.base.to_str().unwrap().to_owned()]))
    }

    pub(super) fn frozen(&self, text: &str) -> Frozen {
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let environment =
            BTreeMap::from([variable("PATH", "/usr/bin:/bin"), variable("SECRET", SECRET)]);
        let cwd = self.base.to_str().unwrap();
        let request = Request { text, cwd, home: None, environment: &environment };
        let programs = self.programs();
        let plan = analyse(&request, &programs).unwrap().freeze(&programs).unwrap();
        Frozen { form: Form::Words, plan }
    }

    /// What "always" would remember of a command.
    pub(super) fn entries(&self, text: &str) -> Vec<NewEntry> {
        let frozen = self.frozen(text);
        let kept = frozen.plan.steps().iter().map(|step| Kept {
            executable: step.file.path.clone(),
            argv: step.argv.clone(),
            cwd: self.base.to_str().unwrap().to_owned(),
            pin: step.file.hash,
        });
        kept.map(Kept::entry).collect()
    }

    #[track_caller]
    pub(super) fn run(&self, id: &Id, frozen: &Frozen) -> Ran {
        let files = &self.programs();
        let means = Means { files, limits: LIMITS, observer: &mut Unseen };
        self.broker().run(id, frozen, means).unwrap()
    }

    /// The patterns in the approvals file.
    pub(super) fn listed(&self) -> Vec<String> {
        let file = self.approvals.read().unwrap().file;
        let entries = file.all_entries().flat_map(|(_, entries)| entries.to_vec());
        entries.map(|entry| entry.pattern).collect()
    }

    pub(super) fn script(&self, name: &str, line: &str) {
        let path = self.base.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{line}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.base.join(name), text).unwrap();
    }

    pub(super) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.base.join(name)).unwrap()
    }

    pub(super) fn exists(&self, name: &str) -> bool {
        self.base.join(name).exists()
    }
}

/// A person at a terminal of this machine.
pub(super) fn person() -> Resolver {
    Resolver { speaker: Speaker::CliUser { uid: 0 }, place: Place::Host }
}
