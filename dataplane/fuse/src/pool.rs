//! A bounded number of buffers, handed out and taken back.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use grampus_blockdev::{Buffer, LimitError};

/// The last buffer given back is the first handed out: its memory is still in the CPU's cache.
#[derive(Debug)]
pub(crate) struct BufferPool {
    free: Mutex<Vec<Buffer>>,
    given_back: Condvar,
    buffer_bytes: usize,
}

impl BufferPool {
    /// # Errors
    /// [`LimitError`] when one buffer would be too large.
    pub(crate) fn new(count: usize, buffer_bytes: usize) -> Result<Self, LimitError> {
        let free =
            (0..count.max(1)).map(|_| Buffer::zeroed(buffer_bytes)).collect::<Result<_, _>>()?;
        Ok(Self { free: Mutex::new(free), given_back: Condvar::new(), buffer_bytes })
    }

    /// Take a buffer, all of it in use; None when none came back for so long.
    pub(crate) fn take(&self, patience: Duration) -> Option<Buffer> {
        let mut free = self.lock();
        loop {
            if let Some(mut buffer) = free.pop() {
                drop(free);
                return buffer.set_len(self.buffer_bytes).is_ok().then_some(buffer);
            }
            let (again, timeout) = self
                .given_back
                .wait_timeout(free, patience)
                .unwrap_or_else(PoisonError::into_inner);
            free = again;
            if timeout.timed_out() && free.is_empty() {
                return None;
            }
        }
    }

    /// Give a buffer back; None stands for one that a device lost and is made anew.
    pub(crate) fn give_back(&self, buffer: Option<Buffer>) {
        let whole = buffer.filter(|buffer| buffer.capacity_bytes() == self.buffer_bytes);
        if let Some(buffer) = whole.or_else(|| Buffer::zeroed(self.buffer_bytes).ok()) {
            self.lock().push(buffer);
            self.given_back.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Buffer>> {
        // A list of buffers is right at every moment: poison means nothing.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_hands_out_so_many_and_replaces_what_is_lost() {
        let pool = BufferPool::new(2, 4096).unwrap();
        let at_once = Duration::ZERO;
        let mut first = pool.take(at_once).unwrap();
        assert!(pool.take(at_once).is_some(), "and lost");
        assert!(pool.take(at_once).is_none());
        first.set_len(7).unwrap();
        pool.give_back(Some(first));
        pool.give_back(None);
        assert_eq!(pool.take(at_once).unwrap().len(), 4096);
        assert_eq!(pool.take(at_once).unwrap().len(), 4096);
        assert!(pool.take(at_once).is_none());
        pool.give_back(Some(Buffer::zeroed(16).unwrap()));
        assert_eq!(pool.take(at_once).unwrap().len(), 4096, "not one of another's");
    }
}
