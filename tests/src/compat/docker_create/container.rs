//! Where these rows are answered differently on purpose.

use crate::compat::Rule;

pub(super) const RULES: &[Rule] = &[];
