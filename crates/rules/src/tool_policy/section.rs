//! A section of the config that holds `allow`, `alsoAllow` and `deny`, and the policy it means.

use std::collections::HashSet;

use super::list::Written;
use crate::config::setting::{Layer, Origin};
use crate::config::tree::At;

/// The three lists as one scope writes them; a list that is absent (or no array) is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Section {
    pub allow: Option<Vec<Written>>,
    pub also_allow: Option<Vec<Written>>,
    pub deny: Option<Vec<Written>>,
    /// Key of the section and of each list, to say where an entry would go.
    pub key: String,
}

/// The lists of one policy, not yet compiled. `None` and an empty allow list both restrict nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lists {
    pub allow: Option<Vec<Written>>,
    pub deny: Option<Vec<Written>>,
}

impl Section {
    /// Reads the three lists at `at`.
    pub fn read(layer: Layer, at: &At<'_>) -> Self {
        let list = |key| at.get(key).and_then(|list| Written::read(layer, &list));
        Self {
            allow: list("allow"),
            also_allow: list("alsoAllow"),
            deny: list("deny"),
            key: at.key.clone(),
        }
    }

    /// The policy of this scope; `None` if it has none.
    ///
    /// `alsoAllow` without an allow list adds to "everything", so it never narrows.
    pub fn pick(&self) -> Option<Lists> {
        let extra = self.also_allow.as_deref().unwrap_or_default();
        let allow = match self.allow.as_deref() {
            allow if extra.is_empty() => allow.map(<[Written]>::to_vec),
            None | Some([]) => {
                let origin = Origin::derived(format!("{}.alsoAllow", self.key));
                let everything = [Written { text: "*".to_owned(), origin }];
                Some(union(&everything, extra))
            }
            Some(allow) => Some(union(allow, extra)),
        };
        let lists = Lists { allow, deny: self.deny.clone() };
        (lists.allow.is_some() || lists.deny.is_some()).then_some(lists)
    }

    /// Says whether this scope writes an allow list with something in it.
    pub(super) fn has_allow_entries(&self) -> bool {
        self.allow.as_ref().is_some_and(|list| !list.is_empty())
    }
}

/// Both lists without repeats, in order.
pub(super) fn union(first: &[Written], second: &[Written]) -> Vec<Written> {
    let mut seen = HashSet::new();
    let both = first.iter().chain(second);
    both.filter(|entry| seen.insert(entry.text.as_str())).cloned().collect()
}
