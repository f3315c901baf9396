//! A hostile workspace, while we work in it: names change between files, links, directories and pipes
//! all the time, by us (as root, mostly) and by another user. Nothing may be read from or written to
//! anywhere else.

use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;

const ATTACK: &str = "CLAWPEN_TEST_ATTACK";
const ROUNDS: usize = 40;

/// Names that the host touches in the workspace.
const NAMES: [&str; 5] = ["AGENTS.md", "SOUL.md", "USER.md", "skills", "media"];

/// Plants one thing after the other at every name, until the flag is set.
fn plant(copy: &Path, outside: &Path, stop: &AtomicBool) {
    let mut round = 0_usize;
    while !stop.load(Ordering::Relaxed) {
        for name in NAMES {
            let path = copy.join(name);
            let aside = copy.join(format!("x{}", round % 7));
            let _ = fs::rename(&path, &aside);
            let _ = fs::remove_dir_all(&aside);
            let _ = fs::remove_file(&aside);
            round += 1;
            let _ = match round % 5 {
                0 => symlink(outside, &path),
                1 => symlink(outside.join("secret"), &path),
                2 => symlink(outside.join("planted"), &path),
                3 => fs::create_dir(&path)
                    .and_then(|()| symlink(outside, path.join("git")))
                    .and_then(|()| symlink(outside, path.join("inbound"))),
                _ => rustix::fs::mkfifoat(
                    rustix::fs::CWD,
                    &path,
                    rustix::fs::Mode::from_raw_mode(0o666),
                )
                .map_err(Into::into),
            };
        }
    }
}

/// The other user's process: plants until it is killed.
#[test]
fn attacker() {
    if let Ok(base) = std::env::var(ATTACK) {
        let world = World::at(Path::new(&base));
        plant(&world.copy(), &world.base.join("outside"), &AtomicBool::new(false));
    }
}

fn attacked() -> World {
    let world = World::new();
    world.prepare();
    world.write("outside/secret", "secret");
    world
}

/// Does everything we do, over and over.
fn work(world: &World) {
    let wanted = world.wanted(WorkspaceAccess::None);
    let workspaces = world.workspaces();
    let store = world.base.join("state/media");
    let photo = store.join("in/photo.png");
    for round in 0..ROUNDS {
        world.write("agent/skills/web/SKILL.md", &format!("web {round} {}", "x".repeat(round)));
        world.write("agent/SOUL.md", &format!("soul {round}"));
        // Each may fail because of what was planted; none may leave the workspace.
        let _ = workspaces.prepare(&wanted, NOW);
        let paths = [photo.to_str().unwrap()];
        let _ = workspaces.stage_media(&wanted, store.to_str().unwrap(), &paths);
        let _ = workspaces.reseed(&wanted, Extent::Files, NOW);
        for thing in workspaces.trash().list().unwrap() {
            let _ = workspaces.trash().delete(&thing.id);
        }
    }
}

#[track_caller]
fn check_untouched(world: &World) {
    let outside = tree_text(&world.base.join("outside"));
    assert_eq!(outside, texts(&[("secret", "secret")]), "something was written outside");
    let texts = world.copied().into_values();
    assert!(texts.into_iter().all(|text| text != "secret"), "the secret was copied in");
}

/// Once the attack is over everything works again.
#[track_caller]
fn check_recovers(world: &World) {
    for name in NAMES {
        let path = world.copy().join(name);
        let _ = fs::remove_file(&path);
        let _ = fs::remove_dir_all(&path);
    }
    world.write("agent/skills/web/SKILL.md", "web at last");
    let ready = world.prepare();
    assert_eq!(ready.seeded, ["AGENTS.md", "SOUL.md", "USER.md"], "{:?}", ready.notes);
    assert_eq!(world.copied()["skills/web/SKILL.md"], "web at last");
}

#[test]
fn a_race_by_the_same_user_leads_nowhere() {
    let world = attacked();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| plant(&world.copy(), &world.base.join("outside"), &stop));
        work(&world);
        stop.store(true, Ordering::Relaxed);
    });
    check_untouched(&world);
    check_recovers(&world);
}

/// Ended with the test.
struct Attacker(Child);

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// As root only: an ordinary user has no second one.
#[test]
fn a_race_by_the_sandboxes_user_leads_nowhere() {
    use std::os::unix::fs::chown;
    use std::os::unix::process::CommandExt as _;
    const OTHER: u32 = 54_321;
    if clawpen_os::process::identity().unwrap().uid != 0 {
        return;
    }
    let world = attacked();
    chown(world.copy(), Some(OTHER), Some(OTHER)).unwrap();
    for path in ["state", "state/sandboxes", "outside"] {
        fs::set_permissions(world.base.join(path), fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::set_permissions(world.base.join("outside/secret"), fs::Permissions::from_mode(0o600))
        .unwrap();
    // The test program may lie where the other user cannot look.
    let program = world.base.join("attacker");
    let mut made = Command::new("install");
    made.arg("-m755").arg(std::env::current_exe().unwrap());
    assert!(made.arg(&program).status().unwrap().success());
    let attacker = Command::new(&program)
        .args(["workspaces::tests::attacks::attacker", "--exact", "--test-threads=1"])
        .env(ATTACK, &world.base)
        .uid(OTHER)
        .gid(OTHER)
        .current_dir("/")
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut attacker = Attacker(attacker);
    work(&world);
    assert_eq!(attacker.0.try_wait().unwrap(), None, "the attack ended early");
    drop(attacker);
    check_untouched(&world);
    check_recovers(&world);
    let owner = |path: &str| fs::metadata(world.copy().join(path)).unwrap().uid();
    assert_eq!(["SOUL.md", "skills", "skills/web/SKILL.md"].map(owner), [OTHER; 3]);
}

#[test]
fn huge_and_deep_trees_in_the_workspace_do_not_hold_us_up() {
    let world = attacked();
    let mut deep = world.copy().join("skills/deep");
    for _ in 0..60 {
        deep.push("d");
    }
    fs::create_dir_all(&deep).unwrap();
    world.write("agent/skills/web/SKILL.md", "web 2 now");
    let ready = world.prepare();
    assert_eq!(ready.skills, SkillsDone::Replaced(2), "{:?}", ready.notes);
    assert_eq!(world.trash().len(), 1, "what we cannot look through is kept");
    // A skill without end is left out, the others come.
    let mut deep = world.base.join("agent/skills/git");
    for _ in 0..30 {
        deep.push("d");
    }
    fs::create_dir_all(&deep).unwrap();
    let ready = world.prepare();
    assert!(ready.notes.iter().any(|note| note.contains("left as they are")), "{:?}", ready.notes);
}

#[test]
fn issue_122554_readers_see_the_old_skills_or_the_new_ones() {
    let world = World::new();
    world.prepare();
    let stop = AtomicBool::new(false);
    let rounds = AtomicUsize::new(0);
    let skills = world.copy().join("skills");
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = 0;
            while !stop.load(Ordering::Relaxed) {
                // One descriptor, one generation: both files must be there, whole. It is put away
                // when it is replaced, and removed when the next one is.
                let before = rounds.load(Ordering::SeqCst);
                let Ok(directory) = clawpen_os::beneath::open_root(&skills) else { panic!("gone") };
                for name in ["git/SKILL.md", "web/SKILL.md"] {
                    match plain::read(directory.as_fd(), Path::new(name), 1_000_000) {
                        Ok(read) => assert!(!read.is_empty(), "{name}"),
                        Err(_) => assert!(rounds.load(Ordering::SeqCst) > before, "{name}"),
                    }
                }
                seen += 1;
            }
            seen
        });
        for round in 0..40 {
            world.write("agent/skills/web/SKILL.md", &format!("web {}", "y".repeat(round + 1)));
            assert_eq!(world.prepare().skills, SkillsDone::Replaced(2));
            rounds.fetch_add(1, Ordering::SeqCst);
        }
        stop.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 0);
    });
    assert_eq!(world.trash(), []);
}
