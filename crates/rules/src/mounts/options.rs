//! Which options a bind may carry. A closed list: an option we do not know may change what is
//! mounted, so it is refused here and not by the engine later.

use super::refusal::Refusal;
use super::table::Access;

/// The question an option answers; each may be answered once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Question {
    Access,
    Label,
    Propagation,
    Consistency,
}

/// Reads the options; `bind` is the whole entry, for the refusal.
pub(super) fn check(bind: &str, options: &str) -> Result<Access, Refusal> {
    let mut answered: Vec<(Question, &str)> = Vec::new();
    if options.is_empty() {
        return Ok(Access::ReadWrite);
    }
    for option in options.split(',') {
        let question = match option {
            "ro" | "rw" => Question::Access,
            "z" | "Z" => Question::Label,
            "private" | "rprivate" => Question::Propagation,
            "consistent" | "cached" | "delegated" => Question::Consistency,
            // `shared` lets a mount made in the sandbox appear on the host; `slave` lets one made
            // on the host later appear in the sandbox, past every check of its source.
            "shared" | "rshared" | "slave" | "rslave" => {
                return Err(Refusal::Propagation {
                    bind: bind.to_owned(),
                    option: option.to_owned(),
                });
            }
            _ => {
                return Err(Refusal::UnknownOption {
                    bind: bind.to_owned(),
                    option: option.to_owned(),
                });
            }
        };
        if let Some((_, first)) = answered.iter().find(|(known, _)| *known == question) {
            return Err(Refusal::ConflictingOptions {
                bind: bind.to_owned(),
                first: (*first).to_owned(),
                second: option.to_owned(),
            });
        }
        answered.push((question, option));
    }
    let read_only = answered.iter().any(|(_, option)| *option == "ro");
    Ok(if read_only { Access::ReadOnly } else { Access::ReadWrite })
}
