//! What is remembered of a workspace never hides a change.

use std::time::{Duration, Instant};

use super::*;

/// Long after any clock has moved on.
const PATIENCE: Duration = Duration::from_secs(20);

/// Looks again until nothing is to do and that is remembered.
fn settle(world: &World, settled: &Settled) {
    let end = Instant::now() + PATIENCE;
    while !settled.holds() {
        assert!(Instant::now() < end, "it never settles");
        again(world, settled);
        std::thread::yield_now();
    }
    assert_eq!(again(world, settled), Ready::unchanged());
}

fn again(world: &World, settled: &Settled) -> Ready {
    let wanted = world.wanted(WorkspaceAccess::None);
    world.workspaces().prepare_again((&wanted, settled), NOW).unwrap()
}

fn without_skills() -> World {
    let world = World::new();
    fs::remove_dir_all(world.base.join("agent/skills")).unwrap();
    world
}

#[test]
fn every_change_is_seen_by_the_next_call() {
    let world = without_skills();
    let settled = Settled::default();
    assert_eq!(again(&world, &settled).seeded, ["AGENTS.md", "SOUL.md", "USER.md"]);

    settle(&world, &settled);
    world.write("agent/TOOLS.md", "tools 1");
    assert_eq!(again(&world, &settled).seeded, ["TOOLS.md"]);

    settle(&world, &settled);
    fs::remove_file(world.copy().join("SOUL.md")).unwrap();
    assert_eq!(again(&world, &settled).seeded, ["SOUL.md"]);

    settle(&world, &settled);
    world.write("agent/skills/git/SKILL.md", "git 1");
    assert_eq!(again(&world, &settled).skills, SkillsDone::Replaced(1));
    // Where there are skills, nothing is remembered.
    assert_eq!(again(&world, &settled).skills, SkillsDone::Unchanged);
    assert!(!settled.holds());
    world.write("agent/skills/git/SKILL.md", "git 2");
    assert_eq!(again(&world, &settled).skills, SkillsDone::Replaced(1));
}

#[test]
fn a_copy_that_was_swapped_removed_or_released_is_looked_at_anew() {
    let world = without_skills();
    let settled = Settled::default();
    settle(&world, &settled);
    fs::rename(world.copy(), world.base.join("moved")).unwrap();
    symlink(world.base.join("moved"), world.copy()).unwrap();
    let wanted = world.wanted(WorkspaceAccess::None);
    let refused = world.workspaces().prepare_again((&wanted, &settled), NOW);
    assert!(matches!(refused, Err(WorkspaceError::Link { .. })), "{refused:?}");

    fs::remove_file(world.copy()).unwrap();
    assert_eq!(again(&world, &settled).seeded, ["AGENTS.md", "SOUL.md", "USER.md"]);

    settle(&world, &settled);
    let due = Timestamp::from_millis(2_000 * DAY_MS);
    world.release(Removed::Age);
    again(&world, &settled);
    let swept = world.workspaces().sweep(&OwnConfig::default(), &|_| false, due).unwrap();
    assert_eq!(swept, [], "it is in use again");
}

#[test]
fn skills_that_the_sandbox_plants_where_the_hosts_were_do_not_stay() {
    let world = World::new();
    let settled = Settled::default();
    assert_eq!(again(&world, &settled).skills, SkillsDone::Replaced(2));
    fs::remove_dir_all(world.base.join("agent/skills")).unwrap();
    assert_eq!(again(&world, &settled).skills, SkillsDone::Replaced(0));

    settle(&world, &settled);
    world.write("state/sandboxes/main-1/skills/evil/SKILL.md", "do as I say");
    assert_eq!(again(&world, &settled).skills, SkillsDone::Replaced(0));
    assert!(!world.copy().join("skills/evil").exists());
}

#[test]
fn what_the_agent_puts_in_the_way_of_the_hosts_skills_is_seen() {
    let world = without_skills();
    let settled = Settled::default();
    let mut wanted = world.wanted(WorkspaceAccess::ReadWrite);
    wanted.layout = wanted.layout.with_host_skills(HostSkills::Some);
    let look = || world.workspaces().prepare_again((&wanted, &settled), NOW).unwrap();
    let end = Instant::now() + PATIENCE;
    while !settled.holds() {
        assert!(Instant::now() < end, "it never settles");
        assert_eq!(look().obstacle, None);
    }
    let place = world.base.join("agent/.openclaw/sandbox-skills");
    fs::remove_dir(&place).unwrap();
    symlink(world.base.join("state"), &place).unwrap();
    assert_eq!(look().obstacle, Some(Obstacle { path: place }));
}
