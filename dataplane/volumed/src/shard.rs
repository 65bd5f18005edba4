//! Which copy of a thing that many threads change is this thread's own.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

static NEXT_THREAD: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static THREAD: Cell<Option<usize>> = const { Cell::new(None) };
}

/// A small number of the calling thread: the first thread that asks is 0, the next 1.
pub(crate) fn thread_number() -> usize {
    THREAD
        .try_with(|number| {
            number.get().unwrap_or_else(|| {
                let given = NEXT_THREAD.fetch_add(1, Ordering::Relaxed);
                number.set(Some(given));
                given
            })
        })
        // A thread that is ending has lost its number: any copy is right, only less its own.
        .unwrap_or_default()
}

/// This thread's own of `copies`, which must not be empty; threads share when there are more.
pub(crate) fn own<T>(copies: &[T]) -> Option<&T> {
    copies.get(thread_number().checked_rem(copies.len())?)
}

/// How many copies a machine of this many CPUs is worth: a power of two, 2 to 16.
pub(crate) fn copies_for(cpus: usize) -> usize {
    cpus.next_power_of_two().clamp(2, 16)
}
