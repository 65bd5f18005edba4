//! A bounded number of buffers, handed out and taken back.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use grampus_blockdev::{Buffer, LimitError};

/// So many buffers wait for the next request; what comes back beyond that is given back to the
/// kernel.
const KEPT: usize = 4;
/// What one of them keeps of its memory.
const KEPT_BYTES: usize = 64 << 10;

/// The last buffer given back is the first handed out: its memory is still in the CPU's cache.
///
/// Buffers are made as they are needed, up to the pool's number: most loads need a few.
#[derive(Debug)]
pub(crate) struct BufferPool {
    stock: Mutex<Stock>,
    given_back: Condvar,
    buffer_bytes: usize,
}

#[derive(Debug)]
struct Stock {
    free: Vec<Buffer>,
    /// How many more may be made.
    unmade: usize,
}

impl BufferPool {
    /// # Errors
    /// [`LimitError`] when one buffer would be too large.
    pub(crate) fn new(count: usize, buffer_bytes: usize) -> Result<Self, LimitError> {
        // The first one is made now: one that is too large is refused here.
        let mut free = Vec::with_capacity(KEPT);
        free.push(Buffer::zeroed(buffer_bytes)?);
        let stock = Stock { free, unmade: count.max(1) - 1 };
        Ok(Self { stock: Mutex::new(stock), given_back: Condvar::new(), buffer_bytes })
    }

    /// Take a buffer, all of it in use; None when none came back for so long.
    pub(crate) fn take(&self, patience: Duration) -> Option<Buffer> {
        let mut stock = self.lock();
        loop {
            if let Some(mut buffer) = stock.free.pop() {
                drop(stock);
                return buffer.set_len(self.buffer_bytes).is_ok().then_some(buffer);
            }
            if let Some(left) = stock.unmade.checked_sub(1) {
                if let Ok(buffer) = Buffer::zeroed(self.buffer_bytes) {
                    stock.unmade = left;
                    return Some(buffer);
                }
            }
            let (again, timeout) = self
                .given_back
                .wait_timeout(stock, patience)
                .unwrap_or_else(PoisonError::into_inner);
            stock = again;
            if timeout.timed_out() && stock.free.is_empty() && stock.unmade == 0 {
                return None;
            }
        }
    }

    /// Give a buffer back; None stands for one that a device lost, in whose place another may be
    /// made.
    pub(crate) fn give_back(&self, buffer: Option<Buffer>) {
        let mut whole = buffer.filter(|buffer| buffer.capacity_bytes() == self.buffer_bytes);
        let dropped = {
            let mut stock = self.lock();
            match whole.take() {
                Some(mut buffer) if stock.free.len() < KEPT => {
                    if buffer.len() > KEPT_BYTES {
                        buffer.release_behind(KEPT_BYTES);
                    }
                    stock.free.push(buffer);
                    None
                }
                other => {
                    stock.unmade += 1;
                    other
                }
            }
        };
        self.given_back.notify_one();
        drop(dropped); // without the lock
    }

    fn lock(&self) -> MutexGuard<'_, Stock> {
        // A list of buffers is right at every moment: poison means nothing.
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[test]
    fn what_comes_back_beyond_a_few_is_not_kept() {
        let pool = BufferPool::new(32, 1 << 20).unwrap();
        let at_once = Duration::ZERO;
        for _ in 0..3 {
            let all: Vec<_> = (0..32).map(|_| pool.take(at_once).unwrap()).collect();
            assert!(pool.take(at_once).is_none(), "the number of the pool");
            for mut buffer in all {
                buffer.fill(7);
                pool.give_back(Some(buffer));
            }
            let stock = pool.lock();
            assert_eq!((stock.free.len(), stock.unmade), (KEPT, 32 - KEPT));
            assert!(stock.free.iter().all(|buffer| buffer[KEPT_BYTES..].iter().all(|b| *b == 0)));
        }
    }
}
