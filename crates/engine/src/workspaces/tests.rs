//! Real directories, real kills, real attacks.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use clawpen_rules::config::own::OwnConfig;
use clawpen_rules::timestamp::Timestamp;
use clawpen_rules::workspace::Directories;
use clawpen_rules::workspace::removal::Removed;
use clawpen_rules::workspace::skills::{Reading, SourceKind};

use super::trash::{Occupied, TrashError};
use super::*;

mod attacks;
mod host_skills;
mod kills;
mod settled;

const DAY_MS: u64 = 86_400_000;
const NOW: Timestamp = Timestamp::from_millis(1_000 * DAY_MS);

/// A state directory, an agent's workspace with three of the seven files, and two skills.
struct World {
    _keep: Option<tempfile::TempDir>,
    base: PathBuf,
}

impl World {
    fn new() -> Self {
        let keep = tempfile::tempdir().unwrap();
        let world = Self { base: keep.path().to_owned(), _keep: Some(keep) };
        // Somebody else's process may have to get through.
        fs::set_permissions(&world.base, fs::Permissions::from_mode(0o711)).unwrap();
        for (path, text) in [
            ("agent/AGENTS.md", "agents 1"),
            ("agent/SOUL.md", "soul 1"),
            ("agent/USER.md", "user 1"),
            ("agent/MEMORY.md", "never copied"),
            ("agent/skills/git/SKILL.md", "---\nname: git\n---\ngit 1"),
            ("agent/skills/git/run.sh", "#!/bin/sh\n"),
            ("agent/skills/web/SKILL.md", "web 1"),
            ("state/media/in/photo.png", "pixels"),
        ] {
            world.write(path, text);
        }
        let program = world.base.join("agent/skills/git/run.sh");
        fs::set_permissions(program, fs::Permissions::from_mode(0o700)).unwrap();
        world
    }

    fn at(base: &Path) -> Self {
        Self { _keep: None, base: base.to_owned() }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.base.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.base.join(path)).ok()
    }

    fn state(&self) -> String {
        self.base.join("state").to_str().unwrap().to_owned()
    }

    fn copy(&self) -> PathBuf {
        self.base.join("state/sandboxes/main-1")
    }

    fn workspaces(&self) -> Workspaces {
        Workspaces::new(&self.state())
    }

    fn wanted(&self, access: WorkspaceAccess) -> Wanted {
        let agent = self.base.join("agent").to_str().unwrap().to_owned();
        let directories = Directories {
            sandbox: self.copy().to_str().unwrap().to_owned(),
            agent: agent.clone(),
            workdir: "/workspace".to_owned(),
        };
        let policy =
            SkillPolicy { reading: Reading::Allowed, only: None, off: BTreeMap::default() };
        let source =
            |kind, below: &str| SkillSource { root: agent.clone(), below: below.to_owned(), kind };
        Wanted {
            layout: Layout::plan(access, &directories),
            scope_key: "agent:main".to_owned(),
            agent: "main".to_owned(),
            owner: None,
            skills: policy,
            sources: vec![
                source(SourceKind::AgentPersonal, ".agents/skills"),
                source(SourceKind::Workspace, "skills"),
            ],
        }
    }

    fn prepare(&self) -> Ready {
        self.workspaces().prepare(&self.wanted(WorkspaceAccess::None), NOW).unwrap()
    }

    fn reseed(&self, extent: Extent) -> Reseeded {
        let wanted = self.wanted(WorkspaceAccess::None);
        self.workspaces().reseed(&wanted, extent, NOW).unwrap()
    }

    fn standings(&self) -> Vec<(&'static str, &'static str)> {
        let compared = self.workspaces().compare(&self.wanted(WorkspaceAccess::None)).unwrap();
        let there = compared.iter().filter(|file| file.standing != Standing::Absent);
        there.map(|file| (file.name, file.standing.as_str())).collect()
    }

    /// Every file below the copy with its text, for whole comparisons.
    fn copied(&self) -> BTreeMap<String, String> {
        tree_text(&self.copy())
    }

    fn trash(&self) -> Vec<trash::Trashed> {
        self.workspaces().trash().list().unwrap()
    }

    fn release(&self, removed: Removed) -> Fate {
        let mut policy = RemovalPolicy::built_in();
        policy.removed.value = removed;
        let copy = self.copy();
        let released = Released { directory: &copy, scope_key: "agent:main", agent: "main" };
        self.workspaces().release(&released, &policy, NOW).unwrap()
    }
}

/// Every file below a directory with its text; links with their targets.
fn tree_text(top: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut todo = vec![top.to_owned()];
    while let Some(directory) = todo.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let name = path.strip_prefix(top).unwrap().to_str().unwrap().to_owned();
            if kind.is_dir() {
                todo.push(path);
            } else if kind.is_symlink() {
                found.insert(name, format!("-> {}", fs::read_link(path).unwrap().display()));
            } else if kind.is_file() {
                found.insert(name, fs::read_to_string(path).unwrap_or_default());
            } else {
                found.insert(name, "special".to_owned());
            }
        }
    }
    found
}

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

const SEEDED: &[(&str, &str)] = &[
    ("AGENTS.md", "agents 1"),
    ("SOUL.md", "soul 1"),
    ("USER.md", "user 1"),
    ("skills/git/SKILL.md", "---\nname: git\n---\ngit 1"),
    ("skills/git/run.sh", "#!/bin/sh\n"),
    ("skills/web/SKILL.md", "web 1"),
];

#[test]
fn a_private_copy_is_seeded_once_and_then_its_own() {
    let world = World::new();
    let ready = world.prepare();
    assert_eq!(ready.seeded, ["AGENTS.md", "SOUL.md", "USER.md"]);
    assert_eq!((ready.skills, ready.notes), (SkillsDone::Replaced(2), vec![]));
    assert_eq!(world.copied(), texts(SEEDED));
    let mode = |path: &str| fs::metadata(world.copy().join(path)).unwrap().mode() & 0o7777;
    assert_eq!((mode(""), mode("AGENTS.md")), (0o700, 0o644));
    assert_eq!((mode("skills/git/run.sh"), mode("skills")), (0o755, 0o755));

    fs::write(world.copy().join("SOUL.md"), "evolved").unwrap();
    fs::remove_file(world.copy().join("USER.md")).unwrap();
    symlink("/nowhere", world.copy().join("TOOLS.md")).unwrap();
    world.write("agent/AGENTS.md", "agents 2");
    world.write("agent/TOOLS.md", "tools 1");
    let ready = world.prepare();
    assert_eq!((ready.seeded, ready.skills), (vec!["USER.md"], SkillsDone::Unchanged));
    let mut expected = texts(SEEDED);
    expected.insert("SOUL.md".to_owned(), "evolved".to_owned());
    expected.insert("TOOLS.md".to_owned(), "-> /nowhere".to_owned());
    assert_eq!(world.copied(), expected);
    assert_eq!(
        world.standings(),
        [
            ("AGENTS.md", "behind"),
            ("SOUL.md", "evolved"),
            ("TOOLS.md", "copy-occupied"),
            ("USER.md", "in-step"),
        ]
    );
}

#[test]
fn an_agents_own_workspace_is_made_and_nothing_else() {
    let world = World::new();
    fs::remove_dir_all(world.base.join("agent")).unwrap();
    let wanted = world.wanted(WorkspaceAccess::ReadWrite);
    assert_eq!(world.workspaces().prepare(&wanted, NOW).unwrap(), Ready::default());
    assert_eq!(tree_text(&world.base.join("agent")), texts(&[]));
    assert!(!world.copy().exists());
    let refused = world.workspaces().reseed(&wanted, Extent::Whole, NOW).unwrap_err();
    assert!(matches!(refused, WorkspaceError::NotPrivate { .. }));
}

#[test]
fn only_plain_files_are_copied_out_of_an_agents_workspace() {
    let world = World::new();
    world.write("secret", "secret");
    for name in ["AGENTS.md", "SOUL.md", "USER.md"] {
        fs::remove_file(world.base.join("agent").join(name)).unwrap();
    }
    let agent = world.base.join("agent");
    symlink("../secret", agent.join("AGENTS.md")).unwrap();
    fs::hard_link(world.base.join("secret"), agent.join("SOUL.md")).unwrap();
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        agent.join("USER.md"),
        rustix::fs::Mode::from_raw_mode(0o600),
    )
    .unwrap();
    fs::create_dir(agent.join("TOOLS.md")).unwrap();
    fs::write(agent.join("IDENTITY.md"), vec![b'x'; 2 * 1024 * 1024 + 1]).unwrap();
    symlink("../../secret", agent.join("skills/git/leak")).unwrap();
    symlink("../../", agent.join("skills/up")).unwrap();
    fs::hard_link(world.base.join("secret"), agent.join("skills/web/leak")).unwrap();
    let ready = world.prepare();
    assert_eq!(ready.seeded, [] as [&str; 0]);
    assert_eq!(ready.skills, SkillsDone::Replaced(2));
    let copied = world.copied();
    let names: Vec<&str> = copied.keys().map(String::as_str).collect();
    assert_eq!(names, ["skills/git/SKILL.md", "skills/git/run.sh", "skills/web/SKILL.md"]);
    let told = |name: &str| ready.notes.iter().any(|note| note.contains(name));
    for name in ["AGENTS.md", "SOUL.md", "USER.md", "TOOLS.md", "IDENTITY.md", "`git`", "`web`"] {
        assert!(told(name), "{name}: {:?}", ready.notes);
    }
}

#[test]
fn a_workspace_that_is_a_link_is_refused() {
    let world = World::new();
    fs::create_dir_all(world.base.join("elsewhere")).unwrap();
    fs::create_dir_all(world.copy().parent().unwrap()).unwrap();
    symlink(world.base.join("elsewhere"), world.copy()).unwrap();
    let refused =
        world.workspaces().prepare(&world.wanted(WorkspaceAccess::None), NOW).unwrap_err();
    assert!(matches!(refused, WorkspaceError::Link { .. }), "{refused}");
    assert_eq!(tree_text(&world.base.join("elsewhere")), texts(&[]));
}

#[test]
fn skills_follow_the_host_and_edits_go_to_the_trash() {
    let world = World::new();
    world.prepare();
    world.write("agent/skills/web/SKILL.md", "web 2 now");
    assert_eq!(world.prepare().skills, SkillsDone::Replaced(2));
    assert_eq!(world.trash(), []);
    assert_eq!(world.read("state/sandboxes/main-1/skills/web/SKILL.md").unwrap(), "web 2 now");

    fs::write(world.copy().join("skills/mine.md"), "the agent's own").unwrap();
    let ready = world.prepare();
    assert_eq!(ready.skills, SkillsDone::Replaced(2));
    let [trashed] = world.trash().try_into().unwrap();
    assert!(ready.notes.iter().any(|note| note.contains(trashed.id.as_str())), "{:?}", ready.notes);
    assert_eq!((trashed.kind.as_str(), &trashed.origin), ("skills", &world.copy().join("skills")));
    assert_eq!(tree_text(&trashed.content)["mine.md"], "the agent's own");
    assert_eq!(world.copied().get("skills/mine.md"), None);

    // Brought back they stay, until the originals change again; and are kept then.
    let trash = world.workspaces().trash();
    trash.restore(&trashed.id, Occupied::Swap, NOW).unwrap();
    assert_eq!(world.prepare().skills, SkillsDone::Unchanged);
    assert_eq!(world.copied()["skills/mine.md"], "the agent's own");
    for thing in world.trash() {
        trash.delete(&thing.id).unwrap();
    }
    world.write("agent/skills/web/SKILL.md", "web 3 at last");
    assert_eq!(world.prepare().skills, SkillsDone::Replaced(2));
    let [trashed] = world.trash().try_into().unwrap();
    assert_eq!(tree_text(&trashed.content)["mine.md"], "the agent's own");
}

#[test]
fn without_reading_the_skills_are_taken_away() {
    let world = World::new();
    world.prepare();
    let mut wanted = world.wanted(WorkspaceAccess::None);
    wanted.skills.reading = Reading::Refused("denied".to_owned());
    let ready = world.workspaces().prepare(&wanted, NOW).unwrap();
    assert_eq!(ready.skills, SkillsDone::Replaced(0));
    assert!(world.copied().keys().all(|name| !name.starts_with("skills/")));
    // Nothing to take away, nothing of ours there: an agent's own stays.
    let other = World::new();
    fs::create_dir_all(other.copy().join("skills/own")).unwrap();
    let mut wanted = other.wanted(WorkspaceAccess::None);
    wanted.skills.reading = Reading::Refused("denied".to_owned());
    other.workspaces().prepare(&wanted, NOW).unwrap();
    assert!(other.copy().join("skills/own").exists());
}

#[test]
fn a_renewed_file_is_new_and_the_old_one_can_come_back() {
    let world = World::new();
    world.prepare();
    fs::write(world.copy().join("SOUL.md"), "evolved").unwrap();
    fs::write(world.copy().join("work.txt"), "work").unwrap();
    world.write("agent/SOUL.md", "soul 2");
    world.write("agent/HEARTBEAT.md", "beat 1");
    let done = world.reseed(Extent::Files);
    assert_eq!(done.renewed, ["SOUL.md", "HEARTBEAT.md"]);
    assert_eq!(world.copied()["SOUL.md"], "soul 2");
    assert_eq!(world.copied()["work.txt"], "work");
    assert_eq!(world.copied()["HEARTBEAT.md"], "beat 1");
    assert!(world.standings().iter().all(|(_, standing)| *standing == "in-step"));
    let [trashed] = world.trash().try_into().unwrap();
    assert_eq!(
        (Some(&trashed.id), trashed.files.as_slice()),
        (done.trashed.as_ref(), &["SOUL.md".to_owned()][..])
    );

    let trash = world.workspaces().trash();
    let refused = trash.restore(&trashed.id, Occupied::Refuse, NOW).unwrap_err();
    assert!(matches!(refused, TrashError::Occupied { .. }), "{refused}");
    assert_eq!(world.copied()["SOUL.md"], "soul 2");
    trash.restore(&trashed.id, Occupied::Swap, NOW).unwrap();
    assert_eq!(world.copied()["SOUL.md"], "evolved");
    let [trashed] = world.trash().try_into().unwrap();
    assert_eq!(tree_text(&trashed.content), texts(&[("SOUL.md", "soul 2")]));
    trash.delete(&trashed.id).unwrap();
    assert_eq!(world.trash(), []);
    assert_eq!(world.reseed(Extent::Files).renewed, ["SOUL.md"]);
}

#[test]
fn nothing_to_renew_leaves_no_trace() {
    let world = World::new();
    world.prepare();
    let done = world.reseed(Extent::Files);
    assert_eq!((done.renewed.as_slice(), done.trashed, world.trash()), (&[][..], None, vec![]));
    fs::remove_file(world.copy().join("SOUL.md")).unwrap();
    let done = world.reseed(Extent::Files);
    assert_eq!((done.renewed, done.trashed, world.trash()), (vec!["SOUL.md"], None, vec![]));
}

#[test]
fn a_whole_copy_is_renewed_and_can_come_back() {
    let world = World::new();
    world.prepare();
    fs::write(world.copy().join("SOUL.md"), "evolved").unwrap();
    fs::write(world.copy().join("work.txt"), "work").unwrap();
    let old = world.copied();
    let id = world.reseed(Extent::Whole).trashed.unwrap();
    assert_eq!(world.copied(), texts(SEEDED));
    assert_eq!(world.prepare().skills, SkillsDone::Unchanged);
    let trash = world.workspaces().trash();
    let trashed = trash.get(&id).unwrap();
    assert_eq!((tree_text(&trashed.content), trashed.kind.as_str()), (old.clone(), "workspace"));
    let refused = trash.restore(&id, Occupied::Refuse, NOW).unwrap_err();
    assert!(matches!(refused, TrashError::Occupied { .. }), "{refused}");
    trash.restore(&id, Occupied::Swap, NOW).unwrap();
    assert_eq!(world.copied(), old);
    assert_eq!(world.prepare().skills, SkillsDone::Unchanged, "its skills are known");
    fs::remove_dir_all(world.copy()).unwrap();
    trash.restore(&id, Occupied::Refuse, NOW).unwrap();
    assert_eq!((world.copied(), world.trash()), (texts(SEEDED), vec![]));
    let gone = trash.restore(&id, Occupied::Refuse, NOW).unwrap_err();
    assert!(matches!(gone, TrashError::Unknown(_)), "{gone}");
}

#[test]
fn issue_43797_a_released_workspace_is_kept_ages_or_goes_by_policy() {
    let world = World::new();
    world.prepare();
    let own = OwnConfig::default();
    let free = |_: &Path| false;
    let later = |days: u64| Timestamp::from_millis(NOW.as_millis() + days * DAY_MS);
    assert!(matches!(world.release(Removed::Age), Fate::Keep(KeepReason::Young { .. })));
    let sweep = |is_in_use: &dyn Fn(&Path) -> bool, now| {
        world.workspaces().sweep(&own, is_in_use, now).unwrap().len()
    };
    assert_eq!(sweep(&free, later(30)), 0);
    assert_eq!(sweep(&|path| path == world.copy(), later(31)), 0);
    world.prepare();
    assert_eq!(sweep(&free, later(31)), 0, "it is in use again");
    world.release(Removed::Age);
    assert_eq!(sweep(&free, later(31)), 1);
    assert!(!world.copy().exists());
    assert_eq!(sweep(&free, later(900)), 0, "the trash is not emptied by itself");
    let [trashed] = world.trash().try_into().unwrap();
    assert_eq!(tree_text(&trashed.content), texts(SEEDED));

    world.prepare();
    assert!(matches!(world.release(Removed::Trash), Fate::Trash(_)));
    assert_eq!((world.copy().exists(), world.trash().len()), (false, 2));
    assert!(matches!(world.release(Removed::Trash), Fate::Keep(KeepReason::Missing)));
}

#[test]
fn media_lands_once_under_a_plain_name() {
    let world = World::new();
    world.prepare();
    let store = world.base.join("state/media");
    world.write("state/media/b/photo.png", "other pixels");
    world.write("secret", "secret");
    symlink(world.base.join("secret"), store.join("leak.png")).unwrap();
    let large = fs::File::create(store.join("large.bin")).unwrap();
    large.set_len(5 * 1024 * 1024 + 1).unwrap();
    let paths =
        ["in/photo.png", "b/photo.png", "leak.png", "large.bin", "gone.png", "../../secret"]
            .map(|name| store.join(name).to_str().unwrap().to_owned());
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let wanted = world.wanted(WorkspaceAccess::None);
    let stage = || {
        let staged = world.workspaces().stage_media(&wanted, store.to_str().unwrap(), &paths);
        staged.unwrap().into_iter().map(|one| one.outcome.ok()).collect::<Vec<_>>()
    };
    let first = Some("media/inbound/photo.png".to_owned());
    let second = Some("media/inbound/photo-1.png".to_owned());
    let expected = vec![first, second, None, None, None, None];
    assert_eq!(stage(), expected);
    assert_eq!(stage(), expected, "the same again");
    let inbound = tree_text(&world.copy().join("media/inbound"));
    assert_eq!(inbound, texts(&[("photo.png", "pixels"), ("photo-1.png", "other pixels")]));
}

#[test]
fn a_broken_record_is_kept_and_a_newer_one_is_not_touched() {
    let world = World::new();
    world.prepare();
    let path = record::path(&world.base.join("state/clawpen"), &world.copy());
    fs::write(&path, "{broken").unwrap();
    let ready = world.prepare();
    assert!(ready.notes.iter().any(|note| note.contains("could not be read")), "{:?}", ready.notes);
    fs::write(&path, "{\"version\": 99}").unwrap();
    let refused =
        world.workspaces().prepare(&world.wanted(WorkspaceAccess::None), NOW).unwrap_err();
    assert!(refused.to_string().contains("newer clawpen (version 99"), "{refused}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"version\": 99}");
}

#[test]
fn one_broken_manifest_hides_nothing_else_and_is_never_deleted() {
    let world = World::new();
    world.prepare();
    let id = world.reseed(Extent::Whole).trashed.unwrap();
    let other = world.reseed(Extent::Whole).trashed.unwrap();
    let manifest = world.base.join("state/clawpen/trash").join(id.as_str()).join("manifest.json");
    fs::write(&manifest, "{broken").unwrap();
    let listed: Vec<_> = world.trash().into_iter().map(|thing| thing.id).collect();
    assert_eq!(listed, [other]);
    assert_eq!(world.workspaces().trash().unreadable().unwrap().len(), 1);
    world.workspaces().sweep(&OwnConfig::default(), &|_| false, NOW).unwrap();
    assert!(manifest.parent().unwrap().join("content/SOUL.md").exists());
}

#[test]
fn a_trash_on_another_mount_keeps_things_beside_the_workspaces() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
    let world = World::new();
    let sandbox = memory.path().join("boxes/main-1");
    let mut wanted = world.wanted(WorkspaceAccess::None);
    wanted.layout = Layout::plan(
        WorkspaceAccess::None,
        &Directories {
            sandbox: sandbox.to_str().unwrap().to_owned(),
            agent: wanted.layout.agent().to_owned(),
            workdir: "/workspace".to_owned(),
        },
    );
    let workspaces = world.workspaces();
    workspaces.prepare(&wanted, NOW).unwrap();
    fs::write(sandbox.join("work"), "work").unwrap();
    let id = workspaces.reseed(&wanted, Extent::Whole, NOW).unwrap().trashed.unwrap();
    let trashed = workspaces.trash().get(&id).unwrap();
    assert!(trashed.content.starts_with(memory.path()), "{}", trashed.content.display());
    assert_eq!(tree_text(&trashed.content)["work"], "work");
    workspaces.trash().restore(&id, Occupied::Swap, NOW).unwrap();
    assert_eq!(fs::read_to_string(sandbox.join("work")).unwrap(), "work");
    workspaces.trash().delete(&id).unwrap();
    assert!(!trashed.content.parent().unwrap().exists());
}

#[test]
fn a_closed_workspace_is_opened_up_and_moved() {
    let world = World::new();
    world.prepare();
    fs::create_dir(world.copy().join("closed")).unwrap();
    let close = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o0)).unwrap();
    close(&world.copy().join("closed"));
    close(&world.copy().join("skills"));
    close(&world.copy());
    let id = world.reseed(Extent::Whole).trashed.unwrap();
    world.workspaces().trash().delete(&id).unwrap();
    assert_eq!((world.trash(), world.copied()), (vec![], texts(SEEDED)));
}

#[test]
fn fifty_first_uses_at_once_seed_one_copy() {
    let world = World::new();
    std::thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| world.prepare());
        }
    });
    assert_eq!((world.copied(), world.trash()), (texts(SEEDED), vec![]));
}
