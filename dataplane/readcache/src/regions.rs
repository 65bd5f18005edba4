//! Which regions are being read.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where reads of whole regions begin that are under way: whoever else misses a page there asks for that page
/// alone, or a database that reads ahead, page by page, would have all of it brought eight times.
#[derive(Debug, Default)]
pub(crate) struct Regions(Mutex<HashSet<u64>>);

impl Regions {
    /// Whether no such read was under way there: then one is.
    pub(crate) fn enter(&self, start_bytes: u64) -> bool {
        self.set().insert(start_bytes)
    }

    pub(crate) fn leave(&self, start_bytes: u64) {
        self.set().remove(&start_bytes);
    }

    // Nothing that panics runs under this lock: poison means nothing.
    fn set(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
