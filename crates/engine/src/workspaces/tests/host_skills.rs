//! The host's skills beside an agent's own workspace (`rw`).

use clawpen_rules::workspace::HostSkills;

use super::*;

/// A world whose host has a skill that is not the agent's.
fn world() -> World {
    let world = World::new();
    world.write("state/skills/tidy/SKILL.md", "---\nname: tidy\n---\ntidy 1");
    world
}

fn wanted(world: &World) -> Wanted {
    let wanted = world.wanted(WorkspaceAccess::ReadWrite);
    let root = world.state();
    let managed = SkillSource { root, below: "skills".to_owned(), kind: SourceKind::Managed };
    let layout = wanted.layout.with_host_skills(HostSkills::Some);
    Wanted { layout, sources: vec![managed], ..wanted }
}

fn shown(world: &World) -> BTreeMap<String, String> {
    tree_text(&world.base.join("state/sandboxes/main-1.skills"))
}

fn one(path: &str, text: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(path.to_owned(), text.to_owned())])
}

#[test]
fn they_are_kept_beside_it_and_the_agent_gets_an_empty_place_alone() {
    let world = world();
    let before = tree_text(&world.base.join("agent"));
    let ready = world.workspaces().prepare(&wanted(&world), NOW).unwrap();
    assert_eq!(
        (ready.skills, ready.obstacle, ready.notes),
        (SkillsDone::Replaced(1), None, vec![])
    );
    assert_eq!(shown(&world), one("skills/tidy/SKILL.md", "---\nname: tidy\n---\ntidy 1"));
    assert_eq!(tree_text(&world.base.join("agent")), before);
    assert!(world.base.join("agent/.openclaw/sandbox-skills").is_dir());
    assert!(!world.copy().exists());
    let again = world.workspaces().prepare(&wanted(&world), NOW).unwrap();
    assert_eq!(again.skills, SkillsDone::Unchanged);
}

#[test]
fn the_mounted_directory_stays_while_what_is_in_it_changes_places() {
    let world = world();
    world.workspaces().prepare(&wanted(&world), NOW).unwrap();
    let holder = world.base.join("state/sandboxes/main-1.skills");
    let (mounted, inner) = (fs::metadata(&holder).unwrap().ino(), holder.join("skills"));
    // Whoever reads the old ones goes on reading them.
    let reader = fs::File::open(inner.join("tidy/SKILL.md")).unwrap();
    let old = fs::metadata(&inner).unwrap().ino();
    world.write("state/skills/tidy/SKILL.md", "---\nname: tidy\n---\ntidy 2");
    world.workspaces().prepare(&wanted(&world), NOW).unwrap();
    assert_eq!(fs::metadata(&holder).unwrap().ino(), mounted);
    assert_ne!(fs::metadata(&inner).unwrap().ino(), old);
    assert_eq!(std::io::read_to_string(reader).unwrap(), "---\nname: tidy\n---\ntidy 1");
    assert_eq!(shown(&world), one("skills/tidy/SKILL.md", "---\nname: tidy\n---\ntidy 2"));
}

#[test]
fn a_session_that_may_not_read_gets_none() {
    let world = world();
    let mut wanted = wanted(&world);
    wanted.skills.reading = Reading::Refused("denied".to_owned());
    let ready = world.workspaces().prepare(&wanted, NOW).unwrap();
    assert_eq!(ready.notes, ["skill `tidy` stays outside: the session may not read: denied"]);
    assert_eq!(shown(&world), BTreeMap::new());
}

#[test]
fn what_the_agent_put_in_the_way_is_named_and_neither_followed_nor_replaced() {
    for plant in ["a link", "a link below", "a file", "a pipe"] {
        let world = world();
        let place = world.base.join("agent/.openclaw");
        let outside = world.base.join("outside");
        fs::create_dir(&outside).unwrap();
        let named = match plant {
            "a link" => {
                symlink(&outside, &place).unwrap();
                place.clone()
            }
            "a link below" => {
                fs::create_dir(&place).unwrap();
                symlink(&outside, place.join("sandbox-skills")).unwrap();
                place.join("sandbox-skills")
            }
            "a file" => {
                fs::write(&place, "mine").unwrap();
                place.clone()
            }
            _ => {
                let mode = rustix::fs::Mode::from_raw_mode(0o600);
                rustix::fs::mkfifoat(rustix::fs::CWD, &place, mode).unwrap();
                place.clone()
            }
        };
        let ready = world.workspaces().prepare(&wanted(&world), NOW).unwrap();
        assert_eq!(ready.obstacle, Some(Obstacle { path: named }), "{plant}");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{plant}");
        assert!(fs::symlink_metadata(&place).is_ok(), "{plant}");
    }
}

#[test]
fn when_no_sandbox_shows_them_any_more_they_go_and_nothing_of_the_agents_does() {
    let world = world();
    world.workspaces().prepare(&wanted(&world), NOW).unwrap();
    let before = tree_text(&world.base.join("agent"));
    let directory = world.base.join("state/sandboxes/main-1.skills");
    let released = Released { directory: &directory, scope_key: "agent:main", agent: "main" };
    world.workspaces().forget_skills(&released).unwrap();
    assert!(!directory.exists());
    assert_eq!(tree_text(&world.base.join("agent")), before);
    // The next sandbox gets them anew.
    let ready = world.workspaces().prepare(&wanted(&world), NOW).unwrap();
    assert_eq!(ready.skills, SkillsDone::Replaced(1));
}
