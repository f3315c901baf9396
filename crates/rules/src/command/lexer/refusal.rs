//! Why a text is not analysed.

use std::fmt;

use super::MAX_LENGTH;

/// Why a text is not analysed. Whoever asked must treat it as a command that nothing admits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAnalysable {
    #[error("the command is empty")]
    Empty,
    #[error("a pipe has nothing on one side")]
    EmptySegment,
    #[error("a command starts with an empty word, which names no program")]
    NoProgram,
    #[error("a quote or a backslash is not finished")]
    Unterminated,
    #[error(
        "`{0}` asks a shell for something that is not understood here; run the parts as separate commands"
    )]
    Syntax(Syntax),
    #[error("a line that ends in a backslash hides where words end; write the command on one line")]
    LineContinuation,
    #[error("lines after a comment would be lost; remove the comment")]
    LineAfterComment,
    #[error("{} outside quotes looks like a blank and is none, or cannot be seen; remove it", CodePoint(*.0))]
    Character(char),
    #[error("a here-document has no end, or stands in a chain of commands")]
    UnterminatedHereDocument,
    #[error("a here-document runs a command inside its text; quote its delimiter")]
    SubstitutionInHereDocument,
    #[error("a here-document's delimiter must be one plain or completely quoted word")]
    HereDocumentDelimiter,
    #[error("text follows a here-document")]
    TextAfterHereDocument,
    #[error("the command is longer than {MAX_LENGTH} bytes")]
    TooLong,
}

/// Shell syntax that is refused on sight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// One of `& ; > < ( )`, a backquote, or a line break outside quotes.
    Character(char),
    /// `$(`, in which arithmetic starts too.
    Substitution,
    /// `||` where no chain could be made of it.
    Or,
    /// `|&`
    PipeBoth,
    /// A line break inside double quotes.
    NewlineInQuotes,
    /// `${` with more than a name, `$[`, `$'` or `$"`: what follows is cut by rules of its own.
    Expansion(char),
}

impl fmt::Display for Syntax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Character('\n' | '\r') => f.write_str("line break"),
            // Between backticks nobody could read one.
            Self::Character('`') => f.write_str("backquote"),
            Self::Character(character) => write!(f, "{character}"),
            Self::Substitution => f.write_str("$()"),
            Self::Or => f.write_str("||"),
            Self::PipeBoth => f.write_str("|&"),
            Self::NewlineInQuotes => f.write_str("line break in double quotes"),
            Self::Expansion(character) => write!(f, "${character}"),
        }
    }
}

struct CodePoint(char);

impl fmt::Display for CodePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "U+{:04X}", u32::from(self.0))
    }
}
