//! The table of spec/02, section 11.1: allowlist `/usr/bin/ls` and `/usr/bin/echo`, default safe bins.

use super::Answer::{Allowed, Blocked, Carries, Missed, NotAnalysed};
use super::*;

#[test]
fn plain_and_quoted_programs_are_allowed() {
    Machine::new().check(Allowed, &["ls -la", "\"ls\"", "l's'", "\\ls"]);
}

#[test]
fn safe_bins_with_harmless_words_are_allowed() {
    let machine = Machine::new();
    machine.check(Allowed, &["ls | wc", "ls | head -n 5", "ls | cut -d: -f1", "tail -n5"]);
    machine.check(Allowed, &["head --line=3", "head -c 10 -", "ls | wc -l", "uniq -cd", "tr -d a"]);
}

#[test]
fn chains_are_allowed_if_every_part_is() {
    let machine = Machine::new();
    machine.check(Allowed, &["ls && echo hi", "ls ; echo hi", "ls || echo hi"]);
    machine.check(Missed, &["ls && rm x", "rm x ; ls", "ls || id", "ls | rm", "rm | ls"]);
}

#[test]
fn wrappers_run_and_are_shown() {
    let machine = Machine::new();
    machine.check_plan("env ls", "'/usr/bin/ls'");
    machine.check_plan("nice -n 5 ls", "'/usr/bin/nice' '-n' '5' '/usr/bin/ls'");
    machine.check_plan("time -p ls", "'/usr/bin/time' '-p' '/usr/bin/ls'");
    machine.check_plan("timeout 5 ls -la", "'/usr/bin/timeout' '5' '/usr/bin/ls' '-la'");
}

#[test]
fn what_a_shell_would_expand_is_literal() {
    let machine = Machine::new();
    machine.check_plan("echo $HOME", "'/usr/bin/echo' '$HOME'");
    machine.check_plan("ls *.txt ~ {a,b}", "'/usr/bin/ls' '*.txt' '~' '{a,b}'");
}

#[test]
fn safe_bins_with_other_words_miss() {
    let machine = Machine::new();
    machine.check(Missed, &["ls | sort", "head /etc/passwd", "tail -f", "wc --files0-from=x"]);
    machine.check(Missed, &["tr / x", "cut -d/ -f1", "head -n \"*\"", "head -5", "head file"]);
}

#[test]
fn shell_syntax_is_not_analysed() {
    let machine = Machine::new();
    machine.check(NotAnalysed, &["ls;", "ls &", "ls > o", "ls 2>&1", "ls < f", "ls <<<x", "(ls)"]);
    machine.check(NotAnalysed, &["ls |& wc", "echo $(id)", "echo \"$(id)\"", "echo `id`"]);
    machine.check(NotAnalysed, &["ls\nid", "ls \\\n-la", "ls \"x", "ls 'x", "ls \\", "", "  "]);
}

#[test]
fn words_of_a_shell_miss() {
    let machine = Machine::new().allow("*");
    machine.check(Missed, &["FOO=1 ls", "{ ls; }", "if true; then ls; fi", "cd / && ls"]);
    machine.check(Missed, &["eval ls", "command ls", ". x", "! ls", "[[ -f x ]]", "export A=1"]);
    machine.check(NotAnalysed, &["$'ls'"]);
}

#[test]
fn blocked_wrappers_are_blocked_even_with_a_star() {
    for machine in [Machine::new(), Machine::new().allow("*")] {
        machine
            .check(Blocked, &["env X=1 ls", "env -i ls", "env -S \"ls\"", "sudo ls", "setsid ls"]);
        machine
            .check(Blocked, &["stdbuf -oL ls", "env env env env env ls", "env - ls", "busybox ls"]);
    }
}

#[test]
fn text_for_a_shell_misses() {
    let machine =
        Machine::new().allow("/usr/bin/sh").allow("/usr/bin/bash").allow("/usr/bin/busybox");
    machine.check(Carries, &["sh -c ls", "bash -lc \"ls && echo\"", "busybox sh -c ls"]);
}

#[test]
fn a_shell_that_only_passes_words_on_is_looked_through() {
    let machine = Machine::new();
    machine.check_plan("sh -c '$0 \"$@\"' ls -la", "'/usr/bin/ls' '-la'");
    machine.check(Missed, &["sh -c '$0 \"$@\"' rm x"]);
}

#[test]
fn a_here_document_is_asked_about_although_admitted() {
    let machine = Machine::new();
    machine.check(Allowed, &["ls <<EOF\nhi\nEOF"]);
    assert!(machine.analyse("ls <<EOF\nhi\nEOF").expect("analysable").has_here_document());
    assert_eq!(machine.plan("ls <<EOF\nhi\nEOF").steps()[0].input.as_deref(), Some("hi\n"));
}

#[test]
fn the_defects_that_were_found_are_closed() {
    let machine = Machine::new();
    machine.check(NotAnalysed, &["ls # x\nid", "ls\u{a0}-la", "ls\u{b}x"]);
    machine.check_plan("ls \"\" x", "'/usr/bin/ls' '' 'x'");
}
