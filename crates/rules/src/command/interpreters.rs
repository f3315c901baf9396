//! What an interpreter is told to run: code in a word, a file, a module, its input.
//!
//! By table, one grammar per interpreter; an option that is not in it means we do not know. Loaders
//! (`-r`, `-M`, `--require`) run other files before the one that is named, so they count as code.

use super::carriers::bare_name;

/// How an interpreter's options are read.
struct Grammar {
    names: &'static [&'static str],
    /// Letters that take code, and long options that do.
    code: (&'static str, &'static [&'static str]),
    /// Letters and long options that take a harmless value.
    values: (&'static str, &'static [&'static str]),
    /// Letters and long options without a value that run nothing.
    flags: (&'static str, &'static [&'static str]),
    /// Letters and long options that only print something about the interpreter.
    about: (&'static str, &'static [&'static str]),
    /// First operands that take code or run something else than a file.
    verbs: &'static [&'static str],
    /// First operands after which the file comes.
    run: &'static [&'static str],
}

/// An interpreter's command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Form {
    /// Code, or a way to load some, by this option.
    Code { flag: String },
    /// A file to run: the number of its word.
    Script(usize),
    /// Whatever it reads from its input.
    Input,
    /// It only tells its version or its options.
    About,
    /// An option that is not known to be harmless.
    Other { flag: String },
}

const NODE_ABOUT: &[&str] = &["--version", "--help"];

const TABLE: &[Grammar] = &[
    Grammar {
        names: &["python", "pypy"],
        // A warning's category is imported, so `-W` takes code.
        code: ("cmW", &[]),
        values: ("X", &[]),
        flags: ("bBdEIOPqsSuvx", &[]),
        about: ("Vh?", &["--version", "--help"]),
        verbs: &[],
        run: &[],
    },
    Grammar {
        names: &["node", "nodejs"],
        code: (
            "epr",
            &["--eval", "--print", "--require", "--import", "--loader", "--experimental-loader"],
        ),
        values: ("", &[]),
        flags: ("", &["--no-warnings", "--trace-warnings", "--enable-source-maps"]),
        about: ("vh", NODE_ABOUT),
        verbs: &["inspect"],
        run: &[],
    },
    Grammar {
        names: &["bun"],
        code: ("epr", &["--eval", "--print", "--preload", "--require"]),
        values: ("", &[]),
        flags: ("b", &["--bun", "--silent"]),
        about: ("vh", NODE_ABOUT),
        verbs: &["x", "exec", "repl", "create", "init", "install", "i", "add", "test", "build"],
        run: &["run"],
    },
    Grammar {
        names: &["deno"],
        code: ("ep", &["--eval", "--print"]),
        values: ("", &[]),
        flags: ("q", &["--quiet"]),
        about: ("Vh", NODE_ABOUT),
        verbs: &[
            "eval", "repl", "task", "x", "install", "compile", "test", "bench", "jupyter", "serve",
        ],
        run: &["run"],
    },
    Grammar {
        names: &["ruby"],
        code: ("er", &["--require"]),
        values: ("", &[]),
        flags: ("vwW", &["--verbose", "--disable-gems"]),
        about: ("h", &["--version", "--help"]),
        verbs: &[],
        run: &[],
    },
    Grammar {
        names: &["perl"],
        code: ("eEmMdD", &[]),
        values: ("", &[]),
        flags: ("cstTuUwWX", &[]),
        about: ("vVh?", &["--version", "--help"]),
        verbs: &[],
        run: &[],
    },
    Grammar {
        names: &["php"],
        code: ("rBREFd", &["--run", "--process-begin", "--process-code", "--process-end"]),
        values: ("", &[]),
        flags: ("nq", &[]),
        about: ("vhim", &["--version", "--help", "--info", "--modules"]),
        verbs: &[],
        run: &[],
    },
    Grammar {
        names: &["lua", "luajit"],
        code: ("el", &[]),
        values: ("", &[]),
        flags: ("EW", &[]),
        about: ("v", &["--version"]),
        verbs: &[],
        run: &[],
    },
    Grammar {
        names: &[
            "osascript",
            "rscript",
            "tclsh",
            "guile",
            "ghci",
            "julia",
            "groovy",
            "scala",
            "erl",
            "elixir",
            "clisp",
            "crystal",
            "escript",
            "gjs",
            "iex",
            "jjs",
            "js",
            "jshell",
            "kotlin",
            "nim",
            "ocaml",
            "octave",
            "php-cgi",
            "phpdbg",
            "pythonw",
            "qjs",
            "r",
            "racket",
            "sbcl",
            "swift",
            "wish",
        ],
        code: ("e", &["--eval", "--expr"]),
        values: ("", &[]),
        flags: ("", &[]),
        about: ("", &["--version", "--help"]),
        verbs: &[],
        run: &[],
    },
];

/// Reads an interpreter's words; `None` if the name is none's.
pub(super) fn form(name: &str, argv: &[String]) -> Option<Form> {
    Some(grammar(name)?.read(argv))
}

/// Says whether a name is an interpreter's, with or without a version and a platform: `python3.11`,
/// `perl5.36-x86_64-linux-gnu`.
fn grammar(name: &str) -> Option<&'static Grammar> {
    let bare = bare_name(name);
    let knows = |grammar: &&Grammar| grammar.names.contains(&name) || grammar.names.contains(&bare);
    TABLE.iter().find(knows)
}

impl Grammar {
    fn read(&self, argv: &[String]) -> Form {
        let mut about = None;
        let mut verbs = self.verbs;
        let mut index = 1;
        while let Some(word) = argv.get(index) {
            let step = match word.as_str() {
                "-" => return Form::Input,
                "--" => {
                    index += 1;
                    break;
                }
                word if word.starts_with("--") => self.long(word),
                word if word.starts_with('-') => self.cluster(word),
                word if verbs.contains(&word) => Step::Stop(Form::Code { flag: word.to_owned() }),
                // After `run` comes a file, whatever it is called.
                word if self.run.contains(&word) && !verbs.is_empty() => {
                    verbs = &[];
                    Step::Words(1)
                }
                _ => break,
            };
            match step {
                Step::Words(words) => index += words,
                Step::About => {
                    about = Some(Form::About);
                    index += 1;
                }
                Step::Stop(form) => return form,
            }
        }
        let script = argv.get(index).filter(|word| !word.is_empty() && *word != "-");
        about.unwrap_or_else(|| script.map_or(Form::Input, |_| Form::Script(index)))
    }

    fn long(&self, word: &str) -> Step {
        let (flag, value) =
            word.split_once('=').map_or((word, None), |(flag, value)| (flag, Some(value)));
        // Some of them accept a beginning for the whole, so a beginning of a code option is one.
        let takes_code = self.code.1.iter().find(|known| known.starts_with(flag) && flag.len() > 3);
        if let Some(known) = takes_code {
            return Step::Stop(Form::Code { flag: (*known).to_owned() });
        }
        if self.about.1.contains(&flag) {
            return Step::About;
        }
        if self.flags.1.contains(&flag) {
            return Step::Words(1);
        }
        if self.values.1.contains(&flag) {
            return Step::Words(1 + usize::from(value.is_none()));
        }
        Step::Stop(Form::Other { flag: flag.to_owned() })
    }

    fn cluster(&self, word: &str) -> Step {
        let mut letters = word.strip_prefix('-').unwrap_or_default().chars();
        let mut is_about = false;
        while let Some(letter) = letters.next() {
            if self.code.0.contains(letter) {
                return Step::Stop(Form::Code { flag: format!("-{letter}") });
            }
            if self.values.0.contains(letter) {
                return Step::Words(1 + usize::from(letters.as_str().is_empty()));
            }
            if self.about.0.contains(letter) {
                is_about = true;
            } else if !self.flags.0.contains(letter) {
                return Step::Stop(Form::Other { flag: word.to_owned() });
            }
        }
        if is_about { Step::About } else { Step::Words(1) }
    }
}

/// What one option comes to.
enum Step {
    /// Go on after this many words.
    Words(usize),
    About,
    Stop(Form),
}
