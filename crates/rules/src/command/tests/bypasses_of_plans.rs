//! B20, B21 and B36: what was agreed to is what runs.

use super::Answer::{Allowed, Changed, Missed, Writable};
use super::*;

#[test]
fn b20_the_plan_holds_the_words_as_they_are() {
    let plan = Machine::new().plan("ls '' ' a ' \"b\\\"c\" | wc -l");
    let argv: Vec<&[String]> = plan.steps().iter().map(|step| step.argv.as_slice()).collect();
    assert_eq!(argv, [words(&["ls", "", " a ", "b\"c"]).as_slice(), &words(&["wc", "-l"])]);
    assert_eq!(plan.command_line(), "'/usr/bin/ls' '' ' a ' 'b\"c' | '/usr/bin/wc' '-l'");
}

#[test]
fn b20_every_difference_gives_another_name() {
    let machine = Machine::new();
    let hash = |text: &str| machine.plan(text).hash();
    let texts = [
        "ls",
        "ls ''",
        "ls a b",
        "ls 'a b'",
        "ls a; ls b",
        "ls a && ls b",
        "ls a | ls b",
        "nice ls",
        "ls <<E\na\nE",
        "ls <<E\nb\nE",
    ];
    for (index, left) in texts.iter().enumerate() {
        for right in &texts[index + 1..] {
            assert_ne!(hash(left), hash(right), "{left:?} {right:?}");
        }
        assert_eq!(hash(left), hash(left));
    }
}

#[test]
fn b20_directory_environment_and_content_are_part_of_the_name() {
    let machine = Machine::new();
    let here = machine.plan("ls");
    let there = machine.analyse_in("ls", "/").expect("analysable").freeze(&machine).expect("found");
    assert_ne!(here.hash(), there.hash());
    assert_ne!(here.hash(), machine.clone().rewrite("/usr/bin/ls").plan("ls").hash());
    assert_ne!(here.hash(), machine.clone().file(CWD).plan("ls").hash());
    let mut other = machine.clone();
    other.path = "/usr/bin";
    assert_ne!(here.hash(), other.plan("ls").hash());
}

#[test]
fn b20_the_name_a_program_is_called_by_is_kept_apart_from_its_file() {
    let machine = Machine::new().file("/home/u/ws/x.py").allow("*");
    let plan = machine.plan("python x.py");
    assert_eq!(plan.steps()[0].argv, words(&["python", "x.py"]));
    assert_eq!(plan.steps()[0].file.path, "/usr/bin/python");
    assert_eq!(plan.steps()[0].file.real_path, "/usr/bin/python3.11");
}

#[test]
fn b21_every_file_that_runs_is_pinned() {
    let machine = Machine::new().file("/home/u/ws/run.sh");
    let files = |text: &str| -> Vec<String> {
        machine.plan(text).files().map(|file| file.path.clone()).collect()
    };
    assert_eq!(files("ls | wc"), ["/usr/bin/ls", "/usr/bin/wc"]);
    assert_eq!(files("timeout 5 nice ls"), ["/usr/bin/timeout", "/usr/bin/nice", "/usr/bin/ls"]);
    assert_eq!(files("bash ./run.sh x"), ["/usr/bin/bash", "/home/u/ws/run.sh"]);
    assert_eq!(files("sh -c '\"$0\"' ls"), ["/usr/bin/ls"]);
}

#[test]
fn b21_what_cannot_be_pinned_has_no_plan() {
    let machine = Machine::new();
    let plan = |text: &str| machine.analyse(text).expect("analysable").freeze(&machine);
    let missing = |word: &str| Err(Unplannable::NotFound { word: word.into() });
    assert_eq!(plan("missing"), missing("missing"));
    assert_eq!(plan("ls && ./x"), missing("./x"));
    assert_eq!(plan("bash x.sh"), missing("x.sh"));
    assert_eq!(plan("FOO=1 ls"), missing("FOO=1"));
    assert_eq!(plan("sudo ls"), Err(Unplannable::Blocked { wrapper: "sudo".into() }));
}

#[test]
fn b21_a_rewritten_script_is_not_the_one_that_was_allowed() {
    let machine = Machine::new().own_file("/home/u/ws/run.sh").always("bash run.sh");
    machine.check(Allowed, &["bash run.sh"]);
    machine.clone().rewrite("/home/u/ws/run.sh").check(Changed, &["bash run.sh"]);
    machine.check(Missed, &["bash run.sh x"]);
}

#[test]
fn b36_a_listed_file_that_the_agent_can_change_is_refused() {
    let machine = Machine::new().own_file("/home/u/ws/tool").file("/home/u/bin/tool");
    let machine = machine.allow("/home/u/ws/tool").allow("~/**/tool");
    machine.check(Writable, &["./tool", "/home/u/ws/tool x"]);
    machine.check(Allowed, &["~/bin/tool"]);
}

#[test]
fn b36_a_listed_interpreter_does_not_admit_the_agents_script() {
    let machine = Machine::new().own_file("/home/u/ws/x.py").own_file("/home/u/ws/x.sh");
    let machine = machine.allow("/usr/bin/python").allow("/usr/bin/bash").allow("/home/u/ws/x.sh");
    machine.check(Writable, &["python x.py", "bash x.sh"]);
    let machine = machine.file("/opt/x.py").file("/opt/x.sh");
    machine.check(Allowed, &["python /opt/x.py", "bash /opt/x.sh"]);
}

#[test]
fn b36_a_pinned_file_is_admitted_until_it_changes() {
    let mut machine = Machine::new().own_file("/home/u/ws/tool");
    let pin = machine.hash("/home/u/ws/tool");
    let pattern = Pattern::compile("/home/u/ws/*", None);
    machine.entries.push(Entry { pattern, binding: None, pin });
    machine.check(Allowed, &["./tool", "./tool x"]);
    machine.clone().rewrite("/home/u/ws/tool").check(Changed, &["./tool"]);
}

#[test]
fn b36_safe_bins_and_skills_of_the_agent_are_refused() {
    let mut machine = Machine::new().own_file("/usr/bin/head").own_file("/opt/tool");
    machine.skills = vec![SkillProgram { name: "tool".into(), path: "/opt/tool".into() }];
    machine.path = "/usr/bin:/opt";
    machine.check(Missed, &["head -n 1", "tool"]);
}
