//! B1 to B6: what a text means.

use super::Answer::{Allowed, Carries, Missed, NotAnalysed};
use super::*;

#[test]
fn b01_substitution_is_refused_outside_single_quotes() {
    let machine = Machine::new().allow("*");
    machine.check(NotAnalysed, &["echo $(id)", "echo \"$(id)\"", "echo \"a$(id)b\"", "$(ls)"]);
    machine.check(
        NotAnalysed,
        &["echo `id`", "echo \"`id`\"", "`ls`", "ls $((1+1))", "ls \"$((1))\""],
    );
}

#[test]
fn b01_single_quotes_and_backslashes_make_it_text() {
    let machine = Machine::new();
    machine.check_plan("echo '$(id)' '`id`'", "'/usr/bin/echo' '$(id)' '`id`'");
    machine.check_plan("echo \"\\$(id)\" \\`id\\`", "'/usr/bin/echo' '$(id)' '`id`'");
}

#[test]
fn b01_other_expansions_with_rules_of_their_own_are_refused() {
    let machine = Machine::new().allow("*");
    machine.check(
        NotAnalysed,
        &["ls ${x:-a b}", "ls \"${x:-\"a b\"}\"", "ls $[1 + 1]", "ls \"$[1]\""],
    );
    machine.check(NotAnalysed, &["ls $'a\\'b c'", "ls $\"a\"", "ls <(id)", "ls >(id)", "a=(1 2)"]);
    machine.check(Allowed, &["ls ${x}", "ls \"${x}/y\"", "ls $x $1 $@ $"]);
}

#[test]
fn b02_a_continued_line_is_refused_anywhere() {
    let machine = Machine::new().allow("*");
    machine
        .check(NotAnalysed, &["ls \\\n-la", "echo $\\\n(id)", "l\\\ns", "ls \\\r\n-la", "ls\\\n"]);
    machine.check(NotAnalysed, &["ls 'a\\\nb'", "ls \"a\\\nb\"", "cat <<'E'\na\\\nb\nE"]);
}

#[test]
fn b02_other_line_breaks_are_refused_outside_single_quotes() {
    let machine = Machine::new().allow("*");
    machine.check(NotAnalysed, &["ls\nid", "ls\rid", "ls\r\nid", "\nls", "ls\n", "ls \"a\nb\""]);
    machine.check_plan("ls 'a\nb'", "'/usr/bin/ls' 'a\nb'");
}

#[test]
fn b02_a_backslash_elsewhere_quotes_one_character() {
    let machine = Machine::new();
    machine.check_plan("ls a\\ b \\| \\; \\\\", "'/usr/bin/ls' 'a b' '|' ';' '\\'");
    machine.check_plan("ls \"a\\b\" \"\\\\\"", "'/usr/bin/ls' 'a\\b' '\\'");
}

#[test]
fn b03_a_body_that_runs_something_is_refused() {
    let machine = Machine::new().allow("*");
    machine.check(NotAnalysed, &["cat <<E\n$(id)\nE", "cat <<E\n`id`\nE", "cat <<E\n${x}\nE"]);
    machine.check(NotAnalysed, &["cat <<-E\n\t$(id)\n\tE", "cat <<E\n\\\\$(id)\nE"]);
}

#[test]
fn b03_a_quoted_or_harmless_body_is_what_the_program_reads() {
    let machine = Machine::new().allow("/usr/bin/cat");
    let input = |text: &str| machine.plan(text).steps()[0].input.clone();
    assert_eq!(input("cat <<'E'\n$(id) `id`\nE").as_deref(), Some("$(id) `id`\n"));
    assert_eq!(input("cat <<E\n\\$(id) \\\\ $x\nE").as_deref(), Some("$(id) \\ $x\n"));
    assert_eq!(input("cat <<-E\n\ta\n\tE").as_deref(), Some("a\n"));
    assert_eq!(input("cat <<A <<B\n1\nA\n2\nB").as_deref(), Some("2\n"));
    machine.check_plan("cat <<E x\nhi\nE", "'/usr/bin/cat' 'x'");
}

#[test]
fn b03_documents_that_shells_read_differently_are_refused() {
    let machine = Machine::new().allow("*");
    machine.check(NotAnalysed, &["cat <<E", "cat <<E\nhi", "cat <<E\nhi\n E", "cat <<''\nhi\n\n"]);
    machine.check(NotAnalysed, &["cat <<E'O'F\nhi\nEOF", "cat <<\\E\nhi\nE", "cat <<#x\nhi\n#x"]);
    machine.check(
        NotAnalysed,
        &["cat <<E\nhi\nE\nid", "cat <<E && id\nhi\nE", "cat <<E\nhi\nE\n&& id"],
    );
    machine
        .check(NotAnalysed, &["cat <<E\nhi\nE ", "ls; cat <<E\nhi\nE ", "ls && cat <<E\nhi\n E"]);
    machine.check(NotAnalysed, &["cat 2<<E\nhi\nE", "cat <<E\r\nhi\r\nE\r\n", "cat <<E\na;b\nE"]);
}

#[test]
fn b03_a_program_given_as_input_is_a_carrier() {
    let machine = Machine::new().allow("*");
    machine.check(Carries, &["sh <<E\nid\nE", "bash -s <<'E'\nid\nE", "python <<'E'\nx\nE"]);
}

#[test]
fn b04_every_segment_of_every_part_counts() {
    let machine = Machine::new();
    machine
        .check(Missed, &["ls && id", "ls || id", "ls; id", "ls | id", "ls | wc | id", "id | ls"]);
    machine.check(Missed, &["ls && ls && ls && id", "ls | wc && ls | id", "ls; ls; id; ls"]);
}

#[test]
fn b04_a_hole_in_a_chain_is_refused() {
    let machine = Machine::new().allow("*");
    machine
        .check(NotAnalysed, &["ls;", "ls &&", "&& ls", "ls ;; ls", "ls && && ls", "; ls", "|| ls"]);
    machine
        .check(NotAnalysed, &["ls |", "| ls", "ls | | wc", "ls &", "ls & id", "ls |& wc", "ls;#x"]);
}

#[test]
fn b04_quoted_operators_are_words() {
    let machine = Machine::new();
    machine.check_plan("ls '&&' id", "'/usr/bin/ls' '&&' 'id'");
    machine.check_plan("ls \"|\" \\; id", "'/usr/bin/ls' '|' ';' 'id'");
    machine.check_plan("ls && echo a|wc", "'/usr/bin/ls' && '/usr/bin/echo' 'a' | '/usr/bin/wc'");
}

#[test]
fn b05_shells_of_windows_are_never_admitted() {
    let machine = Machine::new().file("/usr/bin/cmd.exe").allow("*");
    machine
        .check(Carries, &["cmd.exe /c dir", "cmd.exe", "pwsh -c ls", "pwsh -File x", "pwsh x.ps1"]);
    machine.check(Carries, &["pwsh -EncodedCommand eA==", "cmd.exe /k \"a & b\""]);
}

#[test]
fn b05_their_signs_are_text_or_refused() {
    let machine = Machine::new();
    machine.check_plan("echo %PATH% ^ !x!", "'/usr/bin/echo' '%PATH%' '^' '!x!'");
    machine.check(NotAnalysed, &["echo a & id", "echo (x)", "echo a > b"]);
}

#[test]
fn b05_their_endings_do_not_hide_a_name() {
    let machine = Machine::new().file("/usr/bin/sudo.exe").file("/usr/bin/xargs.EXE").allow("*");
    machine.check(Answer::Blocked, &["sudo.exe ls"]);
    machine.check(Carries, &["xargs.EXE ls"]);
}

#[test]
fn b06_nothing_is_expanded_after_the_check() {
    let machine = Machine::new();
    machine.check_plan("ls * ? [a] ~ $HOME", "'/usr/bin/ls' '*' '?' '[a]' '~' '$HOME'");
    machine.check_plan("ls {a,b} !$ ~root", "'/usr/bin/ls' '{a,b}' '!$' '~root'");
}

#[test]
fn b06_safe_bins_take_no_globs_and_no_paths() {
    Machine::new()
        .check(Missed, &["head *", "tail ~/x", "head -n ?", "cut -f[1]", "wc /etc/passwd"]);
}

#[test]
fn b06_a_variable_is_no_program() {
    Machine::new().allow("*").check(Missed, &["$LS", "${LS} x", "$0", "~", "*"]);
}
