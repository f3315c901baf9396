//! Where `tool-policy` rows are answered differently on purpose.

use super::Rule;

pub(super) const RULES: &[Rule] = &[];
