//! Why a bind is refused: every fact of the refusal, its sentence, and what would allow it.

use std::fmt;

use super::blocked::Touch;
use crate::host_files::FactError;

/// Why one bind may not be mounted. `bind` is the entry as written, without the blanks around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A control character, which would forge lines in logs and mount tables, or end a path early.
    ControlCharacter {
        bind: String,
    },
    /// A relative path, a named volume or a drive letter.
    SourceNotAbsolute {
        bind: String,
        source: String,
    },
    /// `source` is what was compared: as normalised, or where its links lead.
    Blocked {
        bind: String,
        source: String,
        touch: Touch,
        path: String,
    },
    /// The target would hide one of the sandbox's own mounts.
    ReservedTarget {
        bind: String,
        reserved: String,
        target: String,
    },
    /// `source` as in `Blocked`.
    OutsideRoots {
        bind: String,
        source: String,
        roots: Vec<String>,
    },
    /// Where the source leads could not be found out.
    SourceUnknown {
        bind: String,
        problem: FactError,
    },
    /// The source is a file with more than one name.
    HasOtherNames {
        bind: String,
        source: String,
    },
    /// It could be written, and programs on the host take commands from `path`.
    RunsOnHost {
        bind: String,
        path: String,
    },
    /// `/a` or `/a:`: the engine would make an anonymous volume of it.
    TargetMissing {
        bind: String,
    },
    TargetNotAbsolute {
        bind: String,
        target: String,
    },
    /// The target is, or lies in, a place that the kernel or the engine provides.
    TargetTaken {
        bind: String,
        target: String,
        place: &'static str,
    },
    /// Blanks around a part: the engine takes them for part of the name, readers do not.
    Padded {
        bind: String,
    },
    /// Mounts would travel between the host and the sandbox after the check.
    Propagation {
        bind: String,
        option: String,
    },
    UnknownOption {
        bind: String,
        option: String,
    },
    /// Two options that answer the same question.
    ConflictingOptions {
        bind: String,
        first: String,
        second: String,
    },
}

/// What the owner of the config can do about a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// Set `sandbox.docker.dangerouslyAllowExternalBindSources` to true.
    AllowExternalSources,
    /// Set `sandbox.docker.dangerouslyAllowReservedContainerTargets` to true.
    AllowReservedTargets,
    /// Write the entry like this.
    Rewrite(String),
    /// Only the owner knows what was meant.
    ByHand(&'static str),
    /// No setting lifts it.
    Never,
}

impl Refusal {
    /// The smallest change that lifts this refusal (others may wait behind it: see [`super::why`]).
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Blocked { .. } => Remedy::Never,
            Self::OutsideRoots { .. } => Remedy::AllowExternalSources,
            Self::ReservedTarget { .. } => Remedy::AllowReservedTargets,
            Self::ControlCharacter { .. } => Remedy::ByHand("name the directory without it"),
            Self::SourceNotAbsolute { .. } => {
                Remedy::ByHand("write the host directory in full, starting with `/`")
            }
            Self::SourceUnknown { .. } => Remedy::ByHand("make the source readable"),
            Self::TargetTaken { .. } => Remedy::ByHand("choose another target"),
            Self::HasOtherNames { .. } => Remedy::ByHand("bind a copy of the file"),
            Self::RunsOnHost { bind, .. } => rewrite(bind, |source, target, options| {
                let kept = options.split(',').filter(|option| !matches!(*option, "" | "rw"));
                let options = std::iter::once("ro").chain(kept).collect::<Vec<_>>().join(",");
                (source.to_owned(), target.to_owned(), options)
            }),
            Self::TargetMissing { bind } => {
                let source = bind.trim_end_matches(':').trim_end();
                let name = crate::posix::basename(source.trim_end_matches('/'));
                Remedy::Rewrite(format!("{source}:/mnt/{name}"))
            }
            Self::TargetNotAbsolute { bind, .. } => rewrite(bind, |source, target, options| {
                (
                    source.to_owned(),
                    format!("/{}", target.trim().trim_start_matches("./")),
                    options.into(),
                )
            }),
            Self::Padded { bind } => rewrite(bind, |source, target, options| {
                (source.trim().into(), target.trim().into(), options.trim().into())
            }),
            Self::Propagation { bind, option } | Self::UnknownOption { bind, option } => {
                without_option(bind, option)
            }
            Self::ConflictingOptions { bind, first, second } => {
                // Of two accesses the narrower one stays.
                let dropped = if second == "ro" { first } else { second };
                without_option(bind, dropped)
            }
        }
    }
}

fn rewrite(bind: &str, change: impl Fn(&str, &str, &str) -> (String, String, String)) -> Remedy {
    let Some(spec) = super::BindSpec::parse(bind) else {
        return Remedy::ByHand("write it as `source:target`");
    };
    let (source, target, options) = change(spec.source, spec.target, spec.options);
    let colon = if options.is_empty() { "" } else { ":" };
    Remedy::Rewrite(format!("{source}:{target}{colon}{options}"))
}

/// The entry without the last occurrence of an option; a misspelt `ro` becomes `ro` instead of
/// silently turning into a writable mount.
fn without_option(bind: &str, dropped: &str) -> Remedy {
    let read_only =
        matches!(dropped.to_ascii_lowercase().as_str(), "ro" | "readonly" | "read-only");
    rewrite(bind, |source, target, options| {
        let mut kept: Vec<&str> = options.split(',').collect();
        if let Some(last) = kept.iter().rposition(|option| *option == dropped) {
            kept.remove(last);
        }
        if read_only && !kept.contains(&"ro") {
            kept.insert(0, "ro");
        }
        (source.to_owned(), target.to_owned(), kept.join(","))
    })
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ControlCharacter { bind } => write!(
                f,
                "bind `{}` contains a control character; name the directory without it",
                bind.escape_debug()
            ),
            Self::SourceNotAbsolute { bind, source } => write!(
                f,
                "bind `{bind}` has the source `{source}`, which is no absolute path: a sandbox binds \
                 host directories only, written in full from `/`"
            ),
            Self::Blocked { bind, source, touch, path } => write!(
                f,
                "bind `{bind}` {} `{path}`, which no sandbox may see (source `{source}`); no setting \
                 lifts this, bind a project directory instead",
                touch.verb()
            ),
            Self::ReservedTarget { bind, reserved, target } => write!(
                f,
                "bind `{bind}` would hide the sandbox's own mount at `{reserved}` (its target is \
                 `{target}`); choose another target, or set \
                 sandbox.docker.dangerouslyAllowReservedContainerTargets=true"
            ),
            Self::OutsideRoots { bind, source, roots } => write!(
                f,
                "bind `{bind}` leads to `{source}`, which lies in none of the directories that may be \
                 bound ({}); move it there, or set \
                 sandbox.docker.dangerouslyAllowExternalBindSources=true",
                if roots.is_empty() { "none".to_owned() } else { roots.join(", ") }
            ),
            Self::SourceUnknown { bind, problem } => {
                write!(f, "bind `{bind}` cannot be judged: {problem}")
            }
            Self::HasOtherNames { bind, source } => write!(
                f,
                "bind `{bind}` leads to `{source}`, a file with a second name, which may lie anywhere; \
                 bind a copy of it"
            ),
            Self::RunsOnHost { bind, path } => write!(
                f,
                "bind `{bind}` could write `{path}`, which programs on the host take commands from; \
                 add the option `ro`"
            ),
            Self::TargetMissing { bind } => write!(
                f,
                "bind `{bind}` names no place in the sandbox; write it as `source:target`"
            ),
            Self::TargetNotAbsolute { bind, target } => write!(
                f,
                "bind `{bind}` has the target `{target}`, which is no absolute path in the sandbox; \
                 start it with `/`"
            ),
            Self::TargetTaken { bind, target, place } => write!(
                f,
                "bind `{bind}` has the target `{target}`, but `{place}` is not for binds; choose \
                 another target"
            ),
            Self::Padded { bind } => write!(
                f,
                "bind `{bind}` has blanks around one of its parts, which the container engine would \
                 take for part of the name; remove them"
            ),
            Self::Propagation { bind, option } => write!(
                f,
                "bind `{bind}` asks for `{option}`: mounts would pass between host and sandbox after \
                 they were checked; leave the option out"
            ),
            Self::UnknownOption { bind, option } => write!(
                f,
                "bind `{bind}` has the option `{option}`; known are ro, rw, z, Z, private, rprivate, \
                 consistent, cached and delegated"
            ),
            Self::ConflictingOptions { bind, first, second } => {
                write!(f, "bind `{bind}` has both `{first}` and `{second}`; keep one of them")
            }
        }
    }
}
