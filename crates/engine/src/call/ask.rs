//! What becomes of a call that a person must agree to.
//!
//! The one place where a call would wait for an answer. This build waits for nobody here: the call does not run, and
//! its caller is told why and what would let it run.

use super::failure::{NeedsApproval, ToolCallError};

/// Asks a person about a call; nothing has run yet, and without a yes nothing does.
pub(super) fn ask(question: NeedsApproval) -> Result<(), ToolCallError> {
    Err(ToolCallError::NeedsApproval(Box::new(question)))
}
