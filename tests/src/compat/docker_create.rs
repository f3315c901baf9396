//! Where `docker-create` rows are answered differently on purpose.

mod container;
mod lifecycle;
mod validate;

use super::Rule;

pub(super) const RULES: [&[Rule]; 3] = [container::RULES, lifecycle::RULES, validate::RULES];
