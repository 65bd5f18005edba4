//! A queue between threads, bounded by weight.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
struct State<T> {
    waiting: VecDeque<(T, usize)>,
    weight: usize,
    closed: bool,
}

impl<T> State<T> {
    /// The next with its weight, if it weighs no more than `limit`.
    fn take(&mut self, limit: usize) -> Option<(T, usize)> {
        self.waiting.front().filter(|(_, weight)| *weight <= limit)?;
        let (item, weight) = self.waiting.pop_front()?;
        self.weight -= weight;
        Some((item, weight))
    }
}

/// First in, first out.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    limit: usize,
}

impl<T> Queue<T> {
    pub(crate) fn new(limit: usize) -> Self {
        let state = State { waiting: VecDeque::new(), weight: 0, closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), limit }
    }

    /// Put `item` in, or get it back: the queue is full, or closed.
    pub(crate) fn push(&self, item: T, weight: usize) -> Result<(), T> {
        let mut state = self.state();
        if state.closed || state.weight.saturating_add(weight) > self.limit {
            return Err(item);
        }
        state.weight += weight;
        state.waiting.push_back((item, weight));
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Whether there is room for `weight` at the moment.
    pub(crate) fn has_room(&self, weight: usize) -> bool {
        let state = self.state();
        !state.closed && state.weight.saturating_add(weight) <= self.limit
    }

    /// Wait for the next; None when the queue is closed and empty.
    pub(crate) fn pop(&self) -> Option<T> {
        let mut state = self.wait();
        state.take(usize::MAX).map(|(item, _)| item)
    }

    /// Wait for the next, and take with it what waits behind it, as long as all of it weighs no
    /// more than `limit`; None when the queue is closed and empty. All but the first count as
    /// waiting until [`Queue::release`] is given their weight, which comes with them: who takes
    /// much at once lets no more in than who takes one after the other.
    pub(crate) fn pop_some(&self, limit: usize) -> Option<(Vec<T>, usize)> {
        let mut state = self.wait();
        let (first, weight) = state.take(usize::MAX)?;
        let mut some = vec![first];
        let mut left = limit.saturating_sub(weight);
        let mut others = 0;
        while let Some((item, weight)) = state.take(left) {
            left -= weight;
            others += weight;
            some.push(item);
        }
        state.weight += others;
        Some((some, others))
    }

    /// What [`Queue::pop_some`] gave with this weight is dealt with.
    pub(crate) fn release(&self, weight: usize) {
        self.state().weight -= weight;
    }

    /// The state once something is there, or nothing will come.
    fn wait(&self) -> MutexGuard<'_, State<T>> {
        let nothing = |state: &mut State<T>| state.waiting.is_empty() && !state.closed;
        self.changed.wait_while(self.state(), nothing).unwrap_or_else(PoisonError::into_inner)
    }

    /// Take nothing more in.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    // No code that can panic runs under this lock: poison means nothing.
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn it_is_bounded_and_ends() {
        let queue = Queue::new(10);
        assert_eq!(queue.push('a', 6), Ok(()));
        assert_eq!(queue.push('b', 5), Err('b'));
        assert!(queue.has_room(4) && !queue.has_room(5));
        assert_eq!(queue.push('c', 4), Ok(()));
        assert_eq!(queue.pop(), Some('a'));
        assert_eq!(queue.push('b', 5), Ok(()));
        queue.close();
        assert_eq!(queue.push('d', 1), Err('d'));
        assert_eq!((queue.pop(), queue.pop(), queue.pop()), (Some('c'), Some('b'), None));
    }

    #[test]
    fn what_waits_is_taken_together_within_a_limit() {
        let queue = Queue::new(100);
        for (item, weight) in [('a', 6), ('b', 4), ('c', 1), ('d', 30), ('e', 1), ('f', 1)] {
            assert_eq!(queue.push(item, weight), Ok(()));
        }
        assert_eq!(queue.pop_some(10), Some((vec!['a', 'b'], 4)));
        assert!(queue.has_room(63) && !queue.has_room(64), "33 wait, and 'b' counts still");
        queue.release(4);
        assert!(queue.has_room(67) && !queue.has_room(68));
        assert_eq!(queue.pop_some(10), Some((vec!['c'], 0)), "'e' does not pass 'd'");
        let heavy = queue.pop_some(10);
        assert_eq!(heavy, Some((vec!['d'], 0)), "the first is taken whatever it weighs");
        queue.close();
        assert_eq!(queue.pop_some(10), Some((vec!['e', 'f'], 1)));
        assert_eq!(queue.pop_some(10), None);
    }

    #[test]
    fn who_waits_is_woken() {
        let queue = Queue::new(10);
        thread::scope(|scope| {
            let waiting = [0, 1].map(|_| scope.spawn(|| queue.pop()));
            assert_eq!(queue.push('a', 1), Ok(()));
            queue.close();
            let mut got = waiting.map(|thread| thread.join().unwrap());
            got.sort_unstable();
            assert_eq!(got, [None, Some('a')]);
        });
    }
}
