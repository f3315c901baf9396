//! Which ids a pen of an ordinary user has: of a range that was set aside for them, or their own alone.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use clawpen_tests::people::{NAME, Person, UID};

/// The map inside, and the owner of a file that a command made and one that it gave away.
fn maps(person: &Person) -> (Vec<String>, u32) {
    let script = "cat /proc/self/uid_map; echo x > /workspace/made";
    let run = person.run(&["exec", "--", "sh", "-c", script]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{}", run.stdout);
    let lines = run.stdout.lines();
    let lines = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let sandboxes = std::fs::read_dir(person.path(".openclaw/sandboxes")).unwrap();
    let workspace = sandboxes.flatten().next().unwrap().path();
    (lines.collect(), std::fs::metadata(workspace.join("made")).unwrap().uid())
}

#[test]
fn a_user_with_a_range_is_himself_among_many() {
    let person = Person::new(&format!("{NAME}:900000000:65536\n")).unwrap();
    // Inside he has the number that he has outside.
    let expected = ["0 900000000 54321", &format!("{UID} {UID} 1"), "54322 900054321 11214"];
    assert_eq!(maps(&person), (expected.map(str::to_owned).to_vec(), UID));
    // Groups that he has outside are gone inside.
    let groups = person.run(&["exec", "--", "id", "-G"]);
    assert_eq!((groups.code, groups.stdout.as_str()), (Some(0), "54321\n"));
}

#[test]
fn a_user_without_a_range_is_alone() {
    let person = Person::new("").unwrap();
    assert_eq!(maps(&person), (vec![format!("{UID} {UID} 1")], UID));
    // The kernel keeps his groups; they have no number inside and open nothing there.
    let groups = person.run(&["exec", "--", "id", "-G"]);
    assert_eq!((groups.code, groups.stdout.as_str()), (Some(0), "54321 65534\n"));
}

#[test]
fn lines_that_make_no_sense_set_nothing_aside() {
    for lines in [
        format!("{NAME}\n{NAME}:\n{NAME}:x:65536\n{NAME}:900000000:-1\n"),
        format!("{NAME}:900000000:0\n"),
        format!("{NAME}:4294967295:65536\n"),
        "somebody-else:900000000:65536\n".to_owned(),
        format!("#{NAME}:900000000:65536\n"),
    ] {
        let person = Person::new(&lines).unwrap();
        assert_eq!(maps(&person), (vec![format!("{UID} {UID} 1")], UID), "{lines}");
    }
}

#[test]
fn ranges_that_reach_the_hosts_users_are_refused_by_name() {
    for (lines, start) in
        [("0:65536", 0), ("1000:65536", 1000), ("54000:65536", 54_000), ("65535:1", 65_535)]
    {
        let person = Person::new(&format!("{NAME}:{lines}\n")).unwrap();
        let run = person.run(&["exec", "--", "true"]);
        assert_eq!(run.code, Some(125), "{}", run.stderr);
        let expected = format!("set aside for `{NAME}` in /etc/subuid start at {start}");
        assert!(run.stderr.contains(&expected), "{}", run.stderr);
    }
    // A good line after a bad one is used.
    let lines = format!("{NAME}:0:65536\n{NAME}:900000000:65536\n");
    let person = Person::new(&lines).unwrap();
    let (map, _) = maps(&person);
    assert_eq!(map.len(), 3, "{map:?}");
}

#[test]
fn helpers_without_their_power_are_none() {
    let mut person = Person::new(&format!("{NAME}:900000000:65536\n")).unwrap();
    person.without_power(Path::new("/usr/bin/newuidmap")).unwrap();
    assert_eq!(maps(&person), (vec![format!("{UID} {UID} 1")], UID));
    let config = "{defaults: {native: {require: ['subordinateIds']}}}";
    person.write(".openclaw/clawpen.json", config).unwrap();
    let run = person.run(&["exec", "--fresh", "--", "true"]);
    assert_eq!(run.code, Some(125), "{}", run.stderr);
    assert!(run.stderr.contains("`native.require` asks for subordinateIds"), "{}", run.stderr);
}
