//! B7 to B14: which program runs.

use super::Answer::{Allowed, Blocked, Carries, Missed};
use super::*;

#[test]
fn b07_a_wrapped_shell_is_a_shell() {
    let machine = Machine::new().allow("*");
    machine
        .check(Carries, &["env bash -c id", "timeout 5 sh -c id", "nice nohup sh", "env env bash"]);
    machine.check(Carries, &["time bash", "stdbuf -o L bash -c id", "env /usr/bin/sh -c id"]);
}

#[test]
fn b07_the_wrapped_program_must_be_listed() {
    let machine =
        Machine::new().allow("/usr/bin/nice").allow("/usr/bin/timeout").allow("/usr/bin/env");
    machine.check(Missed, &["nice rm x", "timeout 5 rm x", "env rm x", "nice env timeout 5 rm x"]);
    machine.check(Allowed, &["nice ls", "timeout 5 ls", "env ls", "nice env timeout 5 ls"]);
}

#[test]
fn b07_a_link_to_a_shell_or_a_wrapper_is_one() {
    let machine = Machine::new().link("/usr/bin/calm", "/usr/bin/sudo").allow("*");
    machine.check(Carries, &["notashell -c id", "notashell", "env notashell -c id"]);
    machine.check(Blocked, &["calm ls"]);
}

#[test]
fn b08_options_of_env_block() {
    let machine = Machine::new().allow("*");
    machine.check(Blocked, &["env -S 'ls'", "env -Sls", "env A=1 ls", "env -i ls", "env -u A ls"]);
    machine.check(
        Blocked,
        &["env --chdir=/ ls", "env - ls", "env -- A=1 ls", "env", "env -", "env --"],
    );
}

#[test]
fn b08_plain_env_is_dropped() {
    let machine = Machine::new();
    machine.check_plan("env ls A=1", "'/usr/bin/ls' 'A=1'");
    machine.check_plan("env -- ls", "'/usr/bin/ls'");
}

#[test]
fn b08_assignments_are_no_programs() {
    let machine = Machine::new().file("/usr/bin/A=1").file("/home/u/ws/A=/x").allow("*");
    machine.check(Missed, &["A=1 ls", "A=1", "PATH=/evil ls", "A+=1 ls", "A[0]=1 ls", "A=/x ls"]);
}

#[test]
fn b09_four_wrappers_are_taken_off_and_no_more() {
    let machine = Machine::new();
    machine.check(Allowed, &["nice nice nice nice ls", "env nice env nice ls"]);
    machine.check(Blocked, &["nice nice nice nice nice ls", "env env env env env ls"]);
}

#[test]
fn b09_the_cap_holds_for_stars_and_shells() {
    let machine = Machine::new().allow("*");
    machine.check(Blocked, &["env env env env env bash -c id", "nice env nice env nice rm x"]);
    machine.check(Carries, &["env env env env bash -c id"]);
}

#[test]
fn b09_what_hides_at_the_bottom_is_found() {
    let machine = Machine::new().allow("*");
    machine
        .check(Blocked, &["nice nice nice sudo ls", "env nice env setsid ls", "nice env A=1 ls"]);
}

#[test]
fn b10_every_wrapper_is_in_the_table() {
    let machine = Machine::new().allow("*");
    machine.check(Blocked, &["script -c ls", "script ls", "doas ls", "ionice ls", "chrt 1 ls"]);
    machine
        .check(Blocked, &["taskset 1 ls", "sudo -u x ls", "busybox ls", "toybox cat x", "busybox"]);
    machine.check(
        Carries,
        &["busybox sh -c id", "toybox ash", "busybox -- sh", "nice busybox sh -c id"],
    );
}

#[test]
fn b10_unknown_options_block() {
    let machine = Machine::new().allow("*");
    machine.check(Blocked, &["nice --bogus ls", "nohup -x ls", "stdbuf -oL ls", "time --bogus ls"]);
    machine
        .check(Blocked, &["timeout --bogus 5 ls", "timeout 5", "nice", "nice -n 5", "stdbuf -o"]);
    machine.check(Blocked, &["time -o out ls", "time --output=x ls", "time -a ls"]);
}

#[test]
fn b10_clusters_and_glued_values_are_read() {
    let machine = Machine::new().allow("*");
    machine
        .check(Carries, &["bash -xc id", "bash -ec id", "sh -lc id", "bash -cid", "bash -euxc id"]);
    machine.check(Allowed, &["nice -n5 ls", "nice -5 ls", "timeout -k 1 --signal=KILL 5 ls"]);
}

#[test]
fn b11_shells_wrappers_and_carriers_are_never_remembered() {
    let machine = Machine::new();
    for text in ["sh -c id", "bash", "env A=1 ls", "sudo ls", "xargs rm", "find . -exec rm {} ;"] {
        assert_eq!(machine.remembered(text.replace(" ;", " \\;").as_str()), [""; 0], "{text}");
    }
    for text in ["python -c x", "git -c a=b log", "make", "awk x", "missing x", "busybox sh x"] {
        assert_eq!(machine.remembered(text), [""; 0], "{text}");
    }
}

#[test]
fn b11_what_is_remembered_is_bound_to_words_and_directory() {
    let machine = Machine::new().always("rm x");
    machine.check(Allowed, &["rm x", "nice rm x"]);
    machine.check(Missed, &["rm y", "rm x y", "rm", "rm 'x '", "/usr/bin/rm x"]);
    let elsewhere = machine.analyse_in("rm x", "/home/u").expect("analysable");
    assert!(!machine.decide(&elsewhere).is_satisfied());
}

#[test]
fn b11_each_program_is_remembered_once_and_by_itself() {
    let machine = Machine::new();
    assert_eq!(machine.remembered("rm x | wc && rm x"), ["/usr/bin/rm", "/usr/bin/wc"]);
    assert_eq!(machine.remembered("nice rm x | xargs id"), ["/usr/bin/rm"]);
    assert_eq!(machine.remembered("sh -c '\"$0\" \"$@\"' rm x"), ["/usr/bin/rm"]);
}

#[test]
fn b12_globs_stay_in_their_directory_and_keep_case() {
    let listed = |pattern: &str| {
        let mut machine = Machine::new();
        machine.entries.clear();
        machine.allow(pattern)
    };
    listed("/usr/bin/*").check(Allowed, &["rm x"]);
    listed("/usr/*").check(Missed, &["rm x"]);
    listed("/USR/BIN/RM").check(Missed, &["rm x"]);
    listed("/usr?bin/rm").check(Missed, &["rm x"]);
    listed("/usr/**").check(Allowed, &["rm x"]);
}

#[test]
fn b12_other_signs_are_literal() {
    let machine =
        Machine::new().file("/opt/a.b").file("/opt/axb").file("/opt/c[d]").file("/opt/cd");
    machine.clone().allow("/opt/a.b").check(Missed, &["/opt/axb"]);
    machine.clone().allow("/opt/c[d]").check(Missed, &["/opt/cd"]);
    machine.clone().allow("/opt/c[d]").check(Allowed, &["/opt/c[d]"]);
    machine.allow("/opt/a.b$|/opt/axb").check(Missed, &["/opt/axb", "/opt/a.b"]);
}

#[test]
fn b12_backslashes_make_no_slash() {
    let machine = Machine::new().file("/home/u/bin\\\\evil").allow("/home/u/bin/*");
    machine.check(Missed, &["'/home/u/bin\\\\evil'"]);
    assert!(!Pattern::compile("/a\\\\b", None).matches("/a/b"));
}

#[test]
fn b13_a_bare_name_matches_nothing() {
    let mut machine = Machine::new().file("/home/u/ws/echo");
    machine.entries.clear();
    machine.clone().allow("rm").check(Missed, &["rm x", "/usr/bin/rm x"]);
    machine.allow("echo").check(Missed, &["echo", "./echo"]);
}

#[test]
fn b13_another_file_of_the_name_is_another_program() {
    let machine = Machine::new().file("/home/u/ws/ls").file("/opt/bin/ls");
    machine.check(Missed, &["./ls", "/home/u/ws/ls", "/opt/bin/ls"]);
    machine.check(Allowed, &["ls", "/usr/bin/ls", "/usr/bin/../bin/ls"]);
}

#[test]
fn b13_a_skill_is_known_by_name_and_path() {
    let mut machine = Machine::new().file("/opt/skill/tool").file("/opt/other/tool");
    machine.skills = vec![SkillProgram { name: "tool".into(), path: "/opt/skill/tool".into() }];
    machine.path = "/opt/skill:/usr/bin";
    machine.check(Allowed, &["tool x", "nice tool x", "tool | wc"]);
    machine.check(Missed, &["/opt/skill/tool x", "tool x | rm"]);
    machine.path = "/opt/other:/opt/skill";
    machine.check(Missed, &["tool x"]);
}

#[test]
fn b14_safe_bins_lie_in_trusted_directories() {
    let mut machine = Machine::new().file("/home/u/bin/head").file("/bin/wc");
    machine.path = "/home/u/bin:/usr/bin";
    machine.check(Missed, &["head -n 1", "/home/u/bin/head -n 1"]);
    machine.check(Allowed, &["/usr/bin/head -n 1", "/bin/wc -l", "wc -l"]);
}

#[test]
fn b14_relative_parts_of_the_path_are_not_searched() {
    let mut machine = Machine::new().file("/home/u/ws/tool").file("/home/u/ws/sub/tool").allow("*");
    for path in [".", "sub", "", ":/usr/bin", "./sub:/usr/bin", "~/ws"] {
        machine.path = path;
        machine.check(Missed, &["tool"]);
    }
    machine.check(Allowed, &["./tool", "sub/tool"]);
}

#[test]
fn b14_a_wrapper_from_elsewhere_is_not_trusted() {
    let mut machine = Machine::new().file("/home/u/bin/nice").file("/home/u/bin/timeout");
    machine.check(Missed, &["/home/u/bin/nice ls", "/home/u/bin/timeout 5 ls"]);
    machine.path = "/home/u/bin:/usr/bin";
    machine.check(Missed, &["nice ls", "timeout 5 ls"]);
    machine.check(Allowed, &["ls", "nohup ls"]);
}
