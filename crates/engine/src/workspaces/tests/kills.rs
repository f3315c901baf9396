//! kill -9 in the middle of every step: all old or all new, and nothing lost.
//!
//! The test starts itself again as a child that does one thing and is killed at one named moment.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use super::*;

/// What the child shall do, and where.
const JOB: &str = "CLAWPEN_TEST_JOB";
const BASE: &str = "CLAWPEN_TEST_BASE";

/// What an agent made; wherever else it may be, it must be somewhere.
const PRECIOUS: [(&str, &str); 3] =
    [("SOUL.md", "evolved"), ("work/notes.txt", "work"), ("skills/mine.md", "own skill")];

fn job(world: &World, name: &str) {
    let trash = world.workspaces().trash();
    let first = || trash.list().unwrap().into_iter().next().map(|thing| thing.id);
    match name {
        "prepare" => {
            world.prepare();
        }
        "reseed" => {
            world.reseed(Extent::Files);
        }
        "whole" => {
            world.reseed(Extent::Whole);
        }
        "release" => {
            world.release(Removed::Trash);
        }
        "restore" => {
            if let Some(id) = first() {
                trash.restore(&id, Occupied::Swap, NOW).unwrap();
            }
        }
        "delete" => {
            for thing in trash.list().unwrap() {
                trash.delete(&thing.id).unwrap();
            }
        }
        "sweep" => {
            let later = Timestamp::from_millis(NOW.as_millis() + 31 * DAY_MS);
            world.workspaces().sweep(&OwnConfig::default(), &|_| false, later).unwrap();
        }
        "media" => {
            let store = world.base.join("state/media");
            let path = store.join("in/photo.png");
            let wanted = world.wanted(WorkspaceAccess::None);
            let paths = [path.to_str().unwrap()];
            world.workspaces().stage_media(&wanted, store.to_str().unwrap(), &paths).unwrap();
        }
        other => panic!("{other}"),
    }
}

/// Only when the tests below start it.
#[test]
fn child() {
    if let (Ok(name), Ok(base)) = (std::env::var(JOB), std::env::var(BASE)) {
        job(&World::at(Path::new(&base)), &name);
    }
}

/// Says whether the child got to the moment and died there.
fn is_killed(world: &World, name: &str, moment: &str) -> bool {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["workspaces::tests::kills::child", "--exact", "--test-threads=1"])
        .env(JOB, name)
        .env(BASE, &world.base)
        .env("CLAWPEN_FAULT", format!("kill:{moment}"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let signal = output.status.signal();
    assert!(output.status.success() || signal == Some(9), "{name} at {moment}: {said}");
    signal.is_some()
}

/// A copy that the agent worked in, and originals that changed since.
fn worked_in() -> World {
    let world = World::new();
    world.prepare();
    for (name, text) in PRECIOUS {
        world.write(&format!("state/sandboxes/main-1/{name}"), text);
    }
    world.write("agent/SOUL.md", "soul 2");
    world.write("agent/AGENTS.md", "agents 2");
    world.write("agent/HEARTBEAT.md", "beat");
    world.write("agent/skills/web/SKILL.md", "web 2 now");
    world
}

/// Every text that is in the copy or, as the list shows, in the trash.
fn reachable(world: &World) -> Vec<String> {
    let mut texts: Vec<String> = world.copied().into_values().collect();
    for thing in world.trash() {
        texts.extend(tree_text(&thing.content).into_values());
    }
    texts
}

#[track_caller]
fn check_nothing_lost(world: &World, at: &str) {
    let texts = reachable(world);
    for (name, text) in PRECIOUS {
        assert!(texts.iter().any(|found| found == text), "{at}: {name} is lost");
    }
}

/// Seeded files and skills are old or new, never in between.
#[track_caller]
fn check_nothing_torn(world: &World, at: &str) {
    let copied = world.copied();
    for (name, texts) in [
        ("AGENTS.md", ["agents 1", "agents 2"].as_slice()),
        ("SOUL.md", &["soul 1", "soul 2", "evolved"]),
        ("USER.md", &["user 1"]),
        ("HEARTBEAT.md", &["beat"]),
    ] {
        let found = copied.get(name);
        assert!(found.is_none_or(|text| texts.contains(&text.as_str())), "{at}: {name} {found:?}");
    }
    let skills: Vec<(&str, &str)> = copied
        .iter()
        .filter_map(|(name, text)| Some((name.strip_prefix("skills/")?, text.as_str())))
        .filter(|(name, _)| *name != "mine.md")
        .collect();
    let git = ("git/SKILL.md", "---\nname: git\n---\ngit 1");
    let program = ("git/run.sh", "#!/bin/sh\n");
    let whole = |web| vec![git, program, ("web/SKILL.md", web)];
    let is_whole = skills.is_empty() || skills == whole("web 1") || skills == whole("web 2 now");
    assert!(is_whole, "{at}: {skills:?}");
    let strange = copied.keys().find(|name| name.contains(".clawpen"));
    assert_eq!(strange, None, "{at}: something of ours is left in the workspace");
}

/// Kills `name` at every moment in a fresh world, checks, and does it again to the end.
fn check(name: &str, setup: fn(&World)) -> usize {
    let mut killed = 0;
    for moment in crate::faults::ALL {
        let world = worked_in();
        setup(&world);
        if !is_killed(&world, name, moment) {
            continue;
        }
        killed += 1;
        let at = format!("{name} killed at {moment}");
        check_nothing_torn(&world, &at);
        if name != "delete" {
            check_nothing_lost(&world, &at);
        }
        job(&world, name);
        let swept = world.workspaces().sweep(&OwnConfig::default(), &|_| false, NOW);
        assert_eq!(swept.unwrap(), [], "{at}");
        check_nothing_torn(&world, &at);
        if name != "delete" {
            check_nothing_lost(&world, &format!("{at}, and again"));
        }
        check_nothing_left_over(&world, &at);
    }
    killed
}

/// What is in the trash's directory is what the list shows.
#[track_caller]
fn check_nothing_left_over(world: &World, at: &str) {
    let listed: Vec<String> =
        world.trash().iter().map(|thing| thing.id.as_str().to_owned()).collect();
    let there = fs::read_dir(world.base.join("state/clawpen/trash")).into_iter().flatten();
    for entry in there.flatten() {
        let name = entry.file_name().into_string().unwrap();
        assert!(name == "trash.lock" || listed.contains(&name), "{at}: {name} is left over");
    }
}

#[test]
fn killed_while_seeding_and_copying_skills() {
    // Recorded, seeded; skills built, announced, reserved, moved, trashed, swapped, recorded.
    assert_eq!(check("prepare", |_| ()), 9);
    let without_skills: fn(&World) = |world| {
        let skills = world.copy().join("skills");
        fs::rename(skills.join("mine.md"), world.copy().join("mine.md")).unwrap();
        fs::remove_dir_all(skills).unwrap();
    };
    // The same without those of the trash.
    assert_eq!(check("prepare", without_skills), 6);
}

#[test]
fn killed_while_seeding_a_new_copy() {
    for moment in crate::faults::ALL {
        let world = World::new();
        if is_killed(&world, "prepare", moment) {
            check_nothing_torn(&world, moment);
            world.prepare();
        }
        assert_eq!((world.copied(), world.trash()), (texts(SEEDED), vec![]), "{moment}");
    }
}

#[test]
fn killed_while_renewing() {
    assert_eq!(check("reseed", |_| ()), 3);
    assert_eq!(check("whole", |_| ()), 5);
}

#[test]
fn killed_while_moving_aside() {
    assert_eq!(check("release", |_| ()), 3);
    assert_eq!(check("sweep", |world| drop(world.release(Removed::Age))), 2);
}

#[test]
fn killed_while_bringing_back_or_deleting() {
    let renewed: fn(&World) = |world| drop(world.reseed(Extent::Whole));
    assert_eq!(check("restore", renewed), 2);
    let files: fn(&World) = |world| drop(world.reseed(Extent::Files));
    assert_eq!(check("restore", files), 2);
    assert_eq!(check("restore", |world| drop(world.release(Removed::Trash))), 4);
    assert_eq!(check("delete", renewed), 2);
}

#[test]
fn killed_while_staging_media() {
    assert_eq!(check("media", |_| ()), 1);
}
