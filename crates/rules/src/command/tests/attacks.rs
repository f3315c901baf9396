//! Ways to run something else than what is listed, tried against a list that names every program.

use super::*;

/// Everything in `/usr/bin` is listed, and more is installed.
fn open(more: &[&str]) -> Machine {
    let machine = more.iter().fold(Machine::new(), |m, name| m.file(&format!("/usr/bin/{name}")));
    machine.allow("/usr/bin/*")
}

#[test]
fn b10_every_shell_and_every_variant_of_one_is_a_shell() {
    let names = [
        "rbash",
        "mksh",
        "ksh93",
        "csh",
        "tcsh",
        "yash",
        "posh",
        "nu",
        "elvish",
        "xonsh",
        "osh",
        "bash-static",
        "bash5",
        "zsh-5.9",
        "dash.bin",
        "sh-x",
    ];
    let machine = open(&names);
    for name in names {
        machine.check(Answer::Carries, &[&format!("{name} -c id"), name]);
        assert_eq!(machine.remembered(&format!("{name} -c id")), Vec::<String>::new());
    }
}

#[test]
fn b18_variants_of_carriers_and_interpreters_carry_too() {
    let names = [
        "vim.basic",
        "gcc-12",
        "gdb-multiarch",
        "perl5.36-x86_64-linux-gnu",
        "python3-dbg",
        "python3.11d",
        "nodejs18",
        "gawk-5.1",
        "php8.2",
    ];
    let machine = open(&names);
    for text in [
        "vim.basic -c '!id'",
        "gcc-12 -wrapper id x.c",
        "gdb-multiarch -ex 'shell id'",
        "perl5.36-x86_64-linux-gnu -e 'exec id'",
        "python3-dbg -c id",
        "python3.11d -c id",
        "nodejs18 -e id",
        "gawk-5.1 'BEGIN{}'",
        "php8.2 -r id",
    ] {
        machine.check(Answer::Carries, &[text]);
        assert_eq!(machine.remembered(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn b18_less_known_ways_to_start_something_are_known() {
    let names = [
        "dc", "ed", "patch", "install", "file", "cpio", "rsync", "scp", "cargo", "go", "ldd",
        "runcon", "pdflatex", "pandoc", "fzf", "mount", "diff3", "cc", "java",
    ];
    let machine = open(&names);
    machine.check(
        Answer::Carries,
        &[
            "dc -e '!id'",
            "patch -p1",
            "install -s --strip-program=id a b",
            "install --strip a b",
            "install -Ds a b",
            "file -z x",
            "cpio -F host:x",
            "cpio --rsh=id",
            "rsync a host:b",
            "scp a host:b",
            "cargo build",
            "go generate",
            "ldd ./x",
            "runcon id",
            "pdflatex x",
            "pandoc --filter id",
            "fzf --preview id",
            "mount -t x y z",
            "diff3 --diff-program=id a b c",
            "cc x.c",
            "java -jar x",
            "tar xf host:x.tar",
            "tar czf x.tgz .",
            "tar --gzip -cf x .",
            "tar --zst -cf x .",
            "python3.11 -W ignore::x.Y run.py",
            "git help status",
            "git status --help",
            "git clone x",
            "git fetch",
            "git unknown-verb",
            "sed -n '1e id' x",
            "sed 's/a/b/w canary' x",
            "sed --expression=p x",
            "find . -fprintf canary x",
        ],
    );
}

#[test]
fn b18_the_same_programs_without_those_words_are_admitted() {
    let machine = open(&["install", "file", "cpio"]);
    machine.check(
        Answer::Allowed,
        &[
            "install a b",
            "file x",
            "cpio -i",
            "tar xf x.tar",
            "tar xf /a/b:c.tar",
            "git status",
            "git log --oneline",
            "git --version",
            "sed -n 1p x",
            "find . -name x",
            "sort -n x",
            "python3.11 -V",
        ],
    );
}

#[test]
fn b18_settings_that_the_agent_writes_are_no_trust_anchor() {
    // Hooks, filters and helpers of a repository stand in files of its directory.
    let machine = open(&[]).own_file(CWD);
    let texts = ["git status", "git log", "env git status", "timeout 5 git diff", "git --version"];
    for text in texts {
        machine.check(Answer::Missed, &[text]);
        assert_eq!(machine.remembered(text), Vec::<String>::new(), "{text}");
    }
    let elsewhere = open(&[]).own_file("/srv/agent");
    elsewhere.check(Answer::Allowed, &["git status", "git -C /srv/safe status"]);
    elsewhere.check(
        Answer::Missed,
        &[
            "git -C /srv/agent status",
            "git -C /srv/agent/not/yet/there status",
            "git --git-dir=/srv/agent/.git log",
            "git --work-tree /srv/agent status",
        ],
    );
    // Agreed to once, in a directory that the agent can write since.
    let always = open(&[]).always("git status").own_file(CWD);
    always.check(Answer::Missed, &["git status"]);
}

#[test]
fn b07_a_wrapper_around_nothing_is_blocked() {
    let machine = open(&[]);
    machine.check(
        Answer::Blocked,
        &["nice ''", "env ''", "timeout 5 ''", "nice -+5 ls", "nice --5 ls"],
    );
    machine.check(Answer::Allowed, &["nice -5 ls", "nice -n5 ls", "nice -n-5 ls", "nice -n +5 ls"]);
}

#[test]
fn b24_a_blank_that_ends_a_command_unseen_is_refused() {
    let machine = open(&[]);
    machine.check(
        Answer::NotAnalysed,
        &["ls \\ ", "ls a\\ ", "ls \\ | wc", "ls \\  && echo", "ls \\\t"],
    );
    machine.check(Answer::Allowed, &["ls \\ a", "ls ' '", "ls \\\\ ", "ls a\\ b "]);
}

#[test]
fn b20_no_word_is_lost_between_text_and_plan() {
    let machine = open(&[]);
    let plan = machine.plan("ls '' \"a  b\" $HOME '*' # not this");
    let argv: Vec<&[String]> = plan.steps().iter().map(|step| step.argv.as_slice()).collect();
    assert_eq!(argv, [words(&["ls", "", "a  b", "$HOME", "*"])]);
}
