//! Every reason that a decision about a command can give, with a secret in every place for a word of the command: none of
//! them brings it into the record. A variant more breaks the build here.

use clawpen_os::spawn::{SpawnError, Step};
use clawpen_rules::approval::environment::EnvironmentRefused;
use clawpen_rules::approval::run_form::NotFrozen;
use clawpen_rules::approval::{AskReason, RefuseReason, RunReason};
use clawpen_rules::command::{
    Carrier, InlineCode, Miss, NotAnalysable, Syntax, Unplannable, detect_obfuscation,
};
use clawpen_rules::exec_host::Source;

use super::{Piece, Reason};
use crate::broker::NotRun;
use crate::host_exec::{RunError, Stale};

/// As the rules read it.
const SECRET: &str = "hunter2-s3cr3t";
/// As it was sent: no part of it is what is quoted.
const SENT: &str = "API_KEY='hunter2'-\\s3\"cr3t\" run";
const PATH: &str = "/home/me/hunter2-s3cr3t";

fn words() -> [String; 4] {
    [SECRET, "API_KEY=hunter2-s3cr3t", "hunter2-s3cr3t --x=tools.exec.ask", PATH].map(str::to_owned)
}

fn misses(word: &str) -> Vec<Miss> {
    let own = || word.to_owned();
    let all = vec![
        Miss::Blocked { wrapper: own() },
        Miss::ShellWord { word: own() },
        Miss::NotFound { word: own() },
        Miss::UntrustedWrapper { path: own() },
        Miss::Carrier(Carrier { program: own(), by: own() }),
        Miss::AgentWritable { path: own() },
        Miss::AgentSettings { program: own(), path: own() },
        Miss::Changed { path: own() },
        Miss::NotListed { path: own() },
    ];
    for miss in &all {
        match miss {
            Miss::Blocked { .. }
            | Miss::ShellWord { .. }
            | Miss::NotFound { .. }
            | Miss::UntrustedWrapper { .. }
            | Miss::Carrier(_)
            | Miss::AgentWritable { .. }
            | Miss::AgentSettings { .. }
            | Miss::Changed { .. }
            | Miss::NotListed { .. } => {}
        }
    }
    all
}

fn unread() -> Vec<NotAnalysable> {
    let all = vec![
        NotAnalysable::Empty,
        NotAnalysable::EmptySegment,
        NotAnalysable::NoProgram,
        NotAnalysable::Unterminated,
        NotAnalysable::Syntax(Syntax::Character(';')),
        NotAnalysable::Syntax(Syntax::Character('`')),
        NotAnalysable::Syntax(Syntax::Expansion('{')),
        NotAnalysable::LineContinuation,
        NotAnalysable::LineAfterComment,
        NotAnalysable::Character('\u{200b}'),
        NotAnalysable::UnterminatedHereDocument,
        NotAnalysable::SubstitutionInHereDocument,
        NotAnalysable::HereDocumentDelimiter,
        NotAnalysable::TextAfterHereDocument,
        NotAnalysable::TooLong,
    ];
    for why in &all {
        match why {
            NotAnalysable::Empty
            | NotAnalysable::EmptySegment
            | NotAnalysable::NoProgram
            | NotAnalysable::Unterminated
            | NotAnalysable::Syntax(
                Syntax::Character(_)
                | Syntax::Substitution
                | Syntax::Or
                | Syntax::PipeBoth
                | Syntax::NewlineInQuotes
                | Syntax::Expansion(_),
            )
            | NotAnalysable::LineContinuation
            | NotAnalysable::LineAfterComment
            | NotAnalysable::Character(_)
            | NotAnalysable::UnterminatedHereDocument
            | NotAnalysable::SubstitutionInHereDocument
            | NotAnalysable::HereDocumentDelimiter
            | NotAnalysable::TextAfterHereDocument
            | NotAnalysable::TooLong => {}
        }
    }
    all
}

fn decisions(word: &str) -> Vec<String> {
    let by = || Source::Request;
    let code = InlineCode { executable: word.into(), name: word.into(), flag: word.into() };
    let mut asks = vec![
        AskReason::Always { by: by() },
        AskReason::Missed { miss: None },
        AskReason::HereDocument,
        AskReason::InlineCode(code),
        AskReason::Obfuscated(detect_obfuscation(&format!("echo {word} | base64 -d | sh"))),
    ];
    asks.extend(misses(word).into_iter().map(|miss| AskReason::Missed { miss: Some(miss) }));
    asks.extend(unread().into_iter().map(|why| AskReason::NotAnalysable { why }));
    let mut refusals = vec![RefuseReason::Missed { miss: None, ask: by() }];
    let refused = |miss| RefuseReason::Missed { miss: Some(miss), ask: by() };
    refusals.extend(misses(word).into_iter().map(refused));
    let refused = |why| RefuseReason::NotAnalysable { why, ask: by() };
    refusals.extend(unread().into_iter().map(refused));
    let runs = [RunReason::Covered, RunReason::Full { by: by() }];
    for ask in &asks {
        match ask {
            AskReason::Always { .. }
            | AskReason::Missed { .. }
            | AskReason::NotAnalysable { .. }
            | AskReason::HereDocument
            | AskReason::InlineCode(_)
            | AskReason::Obfuscated(_) => {}
        }
    }
    for (run, refusal) in runs.iter().zip(&refusals) {
        match (run, refusal) {
            (
                RunReason::Covered | RunReason::Full { .. },
                RefuseReason::Missed { .. } | RefuseReason::NotAnalysable { .. },
            ) => {}
        }
    }
    let texts = asks.iter().map(ToString::to_string);
    let texts = texts.chain(refusals.iter().map(ToString::to_string));
    texts.chain(runs.iter().map(ToString::to_string)).collect()
}

/// What stops a command that was allowed.
fn failures(word: &str) -> Vec<String> {
    let own = || word.to_owned();
    let unplannable = [
        Unplannable::Blocked { wrapper: own() },
        Unplannable::NotFound { word: own() },
        Unplannable::Unreadable { path: own() },
    ];
    let stale = [
        Stale::Gone { path: own() },
        Stale::Elsewhere { path: own() },
        Stale::Content { path: own() },
        Stale::Directory { path: own() },
    ];
    let variables = [
        EnvironmentRefused::Name { name: own() },
        EnvironmentRefused::Path,
        EnvironmentRefused::NotHarmless { name: own() },
        EnvironmentRefused::Nul { name: own() },
        EnvironmentRefused::NamesFile { name: own() },
    ];
    for (why, stale) in unplannable.iter().zip(&stale) {
        match (why, stale) {
            (
                Unplannable::Blocked { .. }
                | Unplannable::NotFound { .. }
                | Unplannable::Unreadable { .. },
                Stale::Gone { .. }
                | Stale::Elsewhere { .. }
                | Stale::Content { .. }
                | Stale::Directory { .. },
            ) => {}
        }
    }
    let mut texts: Vec<String> = variables.iter().map(ToString::to_string).collect();
    for why in unplannable {
        texts.push(NotFrozen::Words(why.clone()).to_string());
        texts.push(NotFrozen::Shell(why).to_string());
    }
    let cause = SpawnError { step: Step::Exec, cause: std::io::ErrorKind::NotFound.into() };
    let mut errors: Vec<RunError> = stale.into_iter().map(RunError::Stale).collect();
    errors.push(RunError::Nul { word: own() });
    errors.push(RunError::Start { program: own(), cause });
    errors
        .push(RunError::Io { what: "wait for a program", cause: std::io::ErrorKind::Other.into() });
    for error in errors {
        texts.push(error.to_string());
        texts.push(NotRun::Run(error).to_string());
    }
    texts
}

#[test]
fn no_reason_brings_a_word_of_the_command_into_the_record() {
    let mut seen = 0;
    for word in words() {
        for text in decisions(&word).into_iter().chain(failures(&word)) {
            let reason = Reason::of(&[Piece::Ours("refused: "), Piece::Quoting(&text)], [SENT]);
            let said = reason.as_str();
            assert!(!said.contains("hunter2") && !said.contains("s3cr3t"), "{text} -> {said}");
            assert!(said.starts_with("refused: ") && said.len() > 20, "{text} -> {said}");
            seen += 1;
        }
    }
    assert!(seen > 200, "{seen}");
}

#[test]
fn the_setting_that_decided_stays_in_the_record() {
    let always = AskReason::Always { by: Source::BuiltIn("tools.exec.ask") };
    let text = always.to_string();
    let reason = Reason::of(&[Piece::Quoting(&text)], [SENT]);
    assert_eq!(reason.as_str(), text);
}
