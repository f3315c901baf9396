//! B15 to B18: what words make a program do.

use super::Answer::{Allowed, Carries, Missed};
use super::*;

fn with_bins(names: &[&str]) -> Machine {
    let mut machine = Machine::new();
    machine.safe_bins = SafeBins::new(names.iter().copied(), ["/usr/bin"]);
    machine
}

#[test]
fn b15_a_beginning_of_a_refused_option_is_refused() {
    let machine = with_bins(&["sort", "grep", "wc"]);
    machine
        .check(Carries, &["sort --compress-prog=sh", "sort --compress-program sh", "sort --co=sh"]);
    machine.check(Missed, &["sort --out=x", "sort --temp=/x", "sort --files0=x", "wc --fil=x"]);
}

#[test]
fn b15_an_ambiguous_or_unknown_option_is_refused() {
    let machine = with_bins(&["sort", "grep", "head", "cut"]);
    machine.check(Missed, &["grep --re x", "sort --b=1", "head --bogus", "cut --c=1", "head --=1"]);
}

#[test]
fn b15_a_unique_beginning_of_a_harmless_option_passes() {
    let machine = with_bins(&["sort", "head", "wc", "cut"]);
    machine
        .check(Allowed, &["head --li=5", "head --lines 5", "sort --par=2", "wc --li", "cut --f 1"]);
}

#[test]
fn b16_options_that_name_files_are_refused() {
    let machine = with_bins(&["sort", "grep", "jq", "wc", "uniq"]);
    machine
        .check(Missed, &["sort -o x", "sort -ox", "sort -no x", "sort -T /x", "sort --output=x"]);
    machine.check(
        Missed,
        &["grep -f x", "grep -r x", "grep -R x", "grep -re x", "grep --file=x -e y"],
    );
    machine.check(Missed, &["jq -f x", "jq -L x .", "jq --slurpfile a b .", "wc --files0-from=x"]);
}

#[test]
fn b16_words_beyond_the_grammar_are_refused() {
    let machine = with_bins(&["grep", "jq", "uniq", "head", "tr"]);
    machine.check(
        Missed,
        &["grep -e x y", "grep x", "jq . x", "uniq in out", "head -n 1 x", "tr a b c"],
    );
    machine.check(Missed, &["head -n1 -- x", "grep -e x -- y", "head -n5x /y", "tr", "head -5"]);
}

#[test]
fn b16_jq_may_not_read_the_environment_or_modules() {
    let machine = with_bins(&["jq"]);
    machine.check(Missed, &["jq env", "jq '$ENV.X'", "jq '.a|env'", "jq 'include \"x\"; .'"]);
    machine.check(Missed, &["jq 'import \"x\" as x; .'", "jq 'env.PATH'", "jq '[env]'"]);
    machine.check(Allowed, &["jq .", "jq .env", "jq '.a.b'", "jq '$env'", "jq .included"]);
}

#[test]
fn b16_harmless_words_pass() {
    let machine = with_bins(&["sort", "grep", "head", "cut", "tr", "wc"]);
    machine.check(
        Allowed,
        &["sort -nrk2 -t ,", "grep -ie x", "grep -A 2 -e x", "head -qn 5", "wc -lw"],
    );
    machine
        .check(Allowed, &["cut -d: -f1", "tr a-z A-Z", "tr -cd x", "head -c 10 -", "head -n ''x"]);
}

#[test]
fn b17_the_answer_does_not_depend_on_what_files_exist() {
    let machine = with_bins(&["head", "cut", "wc", "grep", "tr"]);
    let fuller = machine.clone().file("/home/u/ws/x").own_file("/home/u/ws/5").file("/etc/passwd");
    for text in
        ["head x", "head -n 5", "wc x", "grep -e x", "tr x 5", "head /etc/passwd", "cut -f 5"]
    {
        assert_eq!(machine.answer(text), fuller.answer(text), "{text}");
    }
}

#[test]
fn b17_nor_do_arguments_of_listed_programs() {
    let machine = Machine::new();
    let fuller = machine.clone().file("/home/u/ws/x");
    for text in ["ls x", "ls y", "echo x", "rm x", "ls x && rm x"] {
        assert_eq!(machine.answer(text), fuller.answer(text), "{text}");
        assert_eq!(machine.plan(text).command_line(), fuller.plan(text).command_line(), "{text}");
    }
}

#[test]
fn b17_only_the_programs_own_file_is_looked_at() {
    let machine = Machine::new();
    machine.check(Missed, &["missing x", "./ls"]);
    machine.clone().file("/home/u/ws/ls").allow("/home/u/ws/ls").check(Allowed, &["./ls"]);
}

#[test]
fn b18_carriers_are_not_admitted_by_a_path() {
    let machine = Machine::new().allow("*");
    machine.check(Carries, &["find . -exec rm {} +", "find . -delete", "find . -ok rm {} \\;"]);
    machine.check(Carries, &["xargs rm", "xargs", "awk '{print}'", "mawk x", "make", "make -f x"]);
    machine.check(
        Carries,
        &["git -c core.pager=id log", "git -C x -c a=b log", "git --exec-path=/x log"],
    );
    machine
        .check(Carries, &["git clone --upload-pack=id x", "git clone -u id x", "git rebase -x id"]);
    machine.check(
        Carries,
        &["git submodule foreach id", "git bisect run id", "git config alias.x '!id'"],
    );
    machine.check(
        Carries,
        &["tar --to-command=id -xf x", "tar -I id -xf x", "tar xIf id x", "tar --to-c=id"],
    );
    machine.check(
        Carries,
        &["tar --checkpoint-action=exec=id -cf x y", "ssh x", "ssh -o ProxyCommand=id x"],
    );
    let machine = machine.file("/lib64/ld-linux-x86-64.so.2");
    machine.check(Carries, &["/lib64/ld-linux-x86-64.so.2 /usr/bin/rm x", "busybox sh -c '$0' ls"]);
    machine.check(Carries, &["rg --pre id x", "watch ls", "sort --compress-program=id"]);
}

#[test]
fn b18_code_in_words_is_not_admitted_by_a_path() {
    let machine = Machine::new().allow("*");
    machine.check(
        Carries,
        &["python -c x", "python -Ic x", "python -cx", "python3.11 -m x", "python"],
    );
    machine
        .check(Carries, &["python -", "node -e x", "node --eval=x", "node -r x y", "node -pe x"]);
    machine
        .check(Carries, &["perl -e x", "perl -ne x", "perl -Mx y", "perl -E x", "node --bogus x"]);
    machine.check(
        Carries,
        &["sed 's/a/b/e'", "sed '1e id'", "sed 'w x'", "sed -f x", "sed -n '/x/w y'"],
    );
}

#[test]
fn b18_the_same_programs_with_plain_words_are_admitted() {
    let machine = Machine::new().file("/home/u/ws/x.py").allow("*");
    machine.check(
        Allowed,
        &["find . -name x", "git status", "git log -n 3", "git switch -c x", "tar -xf x"],
    );
    machine.check(
        Allowed,
        &["python x.py -c y", "python -V", "python -u x.py", "node --version", "rg x"],
    );
    machine.check(Allowed, &["sed s/a/b/g", "sed -n 1,5p", "sed -e '/x/d' y", "git -C x status"]);
    machine.check(Missed, &["python missing.py", "node missing.js"]);
}

#[test]
fn b18_words_that_are_bound_are_admitted() {
    let machine = Machine::new();
    let argv = words(&["git", "-c", "a=b", "log"]);
    let mut bound = machine.clone();
    bound.entries.push(Entry {
        pattern: Pattern::compile("/usr/bin/git", None),
        binding: Some(Binding::of(&argv, CWD)),
        pin: None,
    });
    bound.check(Allowed, &["git -c a=b log", "timeout 5 git -c a=b log"]);
    bound.check(Carries, &["git -c a=c log", "git -c a=b log x"]);
    machine.check(Carries, &["git -c a=b log"]);
}

#[test]
fn b18_start_up_files_of_a_shell_are_code() {
    let machine = Machine::new().file("/home/u/ws/run.sh").allow("/home/u/ws/run.sh");
    machine.check(
        Carries,
        &["bash --rcfile x run.sh", "bash --init-file x -i run.sh", "bash -i run.sh"],
    );
    machine.check(
        Carries,
        &["bash -l run.sh", "bash -s run.sh", "bash --login run.sh", "fish -C x run.sh"],
    );
    machine.check(
        Allowed,
        &["bash run.sh", "sh -eu run.sh", "bash -o pipefail run.sh x", "bash -- run.sh"],
    );
}

#[test]
fn b18_only_parameters_are_passed_on() {
    let machine = Machine::new().file("/usr/bin/run me");
    machine.check(
        Allowed,
        &["sh -c '\"$0\"' ls", "sh -c 'exec -- \"$0\" \"$@\"' ls x", "bash -c '$0 $1' ls a b"],
    );
    machine.check(
        Carries,
        &["sh -c '$0;id' ls", "sh -c '$0 x' ls", "sh -c '$1' x ls", "sh -c '\"$@\"' x ls"],
    );
    machine.check(
        Carries,
        &["sh -c '$0\nid' ls", "sh -c '$0 $@' ls '*'", "sh -c '$0 $@' ls 'a b'", "sh -c '$0'"],
    );
    machine.check(
        Carries,
        &["sh -c '$0 \"$@\"' sh -c id", "sh -c '$0 \"$@\"' env id", "sh -c '$0 \"$@\"' xargs id"],
    );
    machine.check_plan("sh -c '\"$0\" \"$@\"' ls 'a b' '*'", "'/usr/bin/ls' 'a b' '*'");
    machine.check_plan("sh -c '\"$0\" \"$*\" \"$9\"' ls a b", "'/usr/bin/ls' 'a b' ''");
}
