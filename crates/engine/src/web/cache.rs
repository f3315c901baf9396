//! Pages that were fetched a short while ago, for the session that fetched them.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clawpen_rules::tools::arguments::FetchCall;

use super::Fetched;

/// Pages kept.
const MOST: usize = 64;
/// Bytes of text kept.
const MOST_BYTES: usize = 4 << 20;

/// Whose page it is, and what was asked for.
type Key = (String, FetchCall);

/// The pages of a door.
#[derive(Debug, Default)]
pub(crate) struct Cache(Mutex<VecDeque<(Key, Instant, Fetched)>>);

impl Cache {
    /// A page that is younger than `kept`.
    pub(crate) fn get(&self, key: &Key, kept: Duration) -> Option<Fetched> {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|(_, at, _)| at.elapsed() < kept);
        pages.iter().find(|(known, _, _)| known == key).map(|(_, _, page)| page.clone())
    }

    /// Keeps a page; the oldest make room for it.
    pub(crate) fn put(&self, key: Key, page: Fetched) {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|(known, _, _)| *known != key);
        pages.push_back((key, Instant::now(), page));
        while pages.len() > MOST
            || pages.iter().map(|(_, _, page)| page.text.len()).sum::<usize>() > MOST_BYTES
        {
            pages.pop_front();
        }
    }
}
