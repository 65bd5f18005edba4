//! The requests that are between their arrival and their answer: a table of fixed size.
//!
//! A slot is free, active (its request is with the device, or about to be) or held (its request
//! waits in the slot for a pause to end). Threads claim slots without a common lock: each starts
//! its search in its own part of the table, after the slot that it claimed last.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use grampus_blockdev::{Completion, Request};

use crate::kind::Kind;
use crate::shard;

const FREE: u8 = 0;
const ACTIVE: u8 = 1;
const HELD: u8 = 2;

/// The table.
#[derive(Debug)]
pub(crate) struct Table {
    slots: Box<[Slot]>,
    cursors: Box<[Cursor]>,
    /// Threads that sleep until a slot changes.
    sleepers: AtomicUsize,
    bed: Mutex<()>,
    woken: Condvar,
}

#[derive(Debug, Default)]
#[repr(align(128))] // neighbours belong to other threads
struct Slot {
    phase: AtomicU8,
    kind: AtomicU8,
    bytes: AtomicU64,
    /// Both 0 while not known, so that a look at a slot just claimed sees no older request's.
    arrived_ns: AtomicU64,
    submitted_ns: AtomicU64,
    /// Never waited for: whoever changed the phase to its own is alone here.
    cargo: Mutex<Cargo>,
}

#[derive(Debug, Default)]
struct Cargo {
    completion: Option<Completion>,
    held: Option<Request>,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Cursor(AtomicUsize);

/// What is remembered of a request when it is answered.
#[derive(Debug)]
pub(crate) struct Departure {
    pub(crate) completion: Completion,
    pub(crate) kind: Kind,
    pub(crate) bytes: u64,
    pub(crate) arrived_ns: u64,
}

/// The table at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InFlight {
    /// Requests that the device has.
    pub active: u64,
    /// Requests that wait for a pause to end.
    pub held: u64,
    /// Those of `active`, by [`Kind`].
    pub active_by_kind: [u64; Kind::ALL.len()],
    /// How long ago the oldest of `active` was given to the device; None when there is none.
    pub oldest_ns: Option<u64>,
}

impl InFlight {
    /// How many requests of a kind the device has.
    #[must_use]
    pub fn of(&self, kind: Kind) -> u64 {
        self.active_by_kind.get(usize::from(kind.code())).copied().unwrap_or_default()
    }
}

impl Table {
    /// A table of `slots` slots, at least one, for a machine with `cpus` CPUs.
    pub(crate) fn new(slots: usize, cpus: usize) -> Self {
        let slots = slots.max(1);
        let parts = shard::copies_for(cpus);
        let cursors = (0..parts).map(|part| Cursor(AtomicUsize::new(part * slots / parts)));
        Self {
            slots: (0..slots).map(|_| Slot::default()).collect(),
            cursors: cursors.collect(),
            sleepers: AtomicUsize::new(0),
            bed: Mutex::new(()),
            woken: Condvar::new(),
        }
    }

    /// How many requests it can hold.
    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Take a slot for a request that arrives now; waits while all are taken.
    pub(crate) fn enter(
        &self,
        kind: Kind,
        bytes: u64,
        now_ns: u64,
        completion: Completion,
    ) -> usize {
        let index = self.claim().unwrap_or_else(|| self.wait_for(None, || self.claim()));
        if let Some(slot) = self.slots.get(index) {
            slot.cargo().completion = Some(completion);
            slot.kind.store(kind.code(), Ordering::Relaxed);
            slot.bytes.store(bytes, Ordering::Relaxed);
            slot.arrived_ns.store(now_ns, Ordering::Relaxed);
            slot.submitted_ns.store(now_ns, Ordering::Release);
        }
        index
    }

    /// Mark a free slot active.
    fn claim(&self) -> Option<usize> {
        let cursor = &shard::own(&self.cursors)?.0;
        let start = cursor.load(Ordering::Relaxed);
        let (before, after) = self.slots.split_at_checked(start)?;
        let candidates = after.iter().chain(before);
        for (step, slot) in candidates.enumerate() {
            // A look first: an exchange that fails would still take the line from its owner.
            if slot.phase.load(Ordering::Relaxed) == FREE
                && slot
                    .phase
                    .compare_exchange(FREE, ACTIVE, Ordering::SeqCst, Ordering::Relaxed)
                    .is_ok()
            {
                let index = (start + step) % self.slots.len();
                cursor.store((index + 1) % self.slots.len(), Ordering::Relaxed);
                return Some(index);
            }
        }
        None
    }

    /// Free an active slot. None when it was not active, which no caller's request can be.
    pub(crate) fn leave(&self, index: usize) -> Option<Departure> {
        let slot = self.slots.get(index)?;
        let completion = slot.cargo().completion.take()?;
        let departure = Departure {
            completion,
            kind: Kind::from_code(slot.kind.load(Ordering::Relaxed)),
            bytes: slot.bytes.load(Ordering::Relaxed),
            arrived_ns: slot.arrived_ns.load(Ordering::Relaxed),
        };
        slot.submitted_ns.store(0, Ordering::Relaxed);
        slot.phase.store(FREE, Ordering::SeqCst);
        self.wake();
        Some(departure)
    }

    /// Keep an active slot's request in it.
    pub(crate) fn hold(&self, index: usize, request: Request) {
        if let Some(slot) = self.slots.get(index) {
            slot.cargo().held = Some(request);
            slot.submitted_ns.store(0, Ordering::Relaxed);
            slot.phase.store(HELD, Ordering::SeqCst);
            self.wake();
        }
    }

    /// Make a held slot active again and take its request; None when it is not held (any more).
    pub(crate) fn unhold(&self, index: usize, now_ns: u64) -> Option<Request> {
        // A look first, as in `claim`: most slots that are asked are not held.
        let slot =
            self.slots.get(index).filter(|slot| slot.phase.load(Ordering::SeqCst) == HELD)?;
        slot.phase
            .compare_exchange(HELD, ACTIVE, Ordering::SeqCst, Ordering::Relaxed)
            .ok()
            .and_then(|_| slot.cargo().held.take())
            .inspect(|_| slot.submitted_ns.store(now_ns, Ordering::Release))
    }

    /// Look at every slot.
    pub(crate) fn observe(&self, now_ns: u64) -> InFlight {
        let mut seen = InFlight::default();
        for slot in &self.slots {
            match slot.phase.load(Ordering::SeqCst) {
                ACTIVE => {
                    seen.active += 1;
                    let kind = usize::from(slot.kind.load(Ordering::Relaxed));
                    if let Some(count) = seen.active_by_kind.get_mut(kind) {
                        *count += 1;
                    }
                    match slot.submitted_ns.load(Ordering::Acquire) {
                        0 => {}
                        since_ns => {
                            let age_ns = now_ns.saturating_sub(since_ns);
                            seen.oldest_ns = seen.oldest_ns.max(Some(age_ns));
                        }
                    }
                }
                HELD => seen.held += 1,
                _ => {}
            }
        }
        seen
    }

    /// Wait until no slot is active, at most until `deadline`; else how many were.
    pub(crate) fn wait_until_idle(&self, deadline: Instant) -> Result<(), u64> {
        let idle = || (self.observe(0).active == 0).then_some(Ok(()));
        idle().unwrap_or_else(|| {
            self.wait_for(Some((deadline, &|| Err(self.observe(0).active.max(1)))), idle)
        })
    }

    /// Sleep until `look` finds something; after the deadline, answer what stands for it.
    fn wait_for<T>(
        &self,
        limit: Option<(Instant, &dyn Fn() -> T)>,
        look: impl Fn() -> Option<T>,
    ) -> T {
        let mut bed = self.bed.lock().unwrap_or_else(PoisonError::into_inner);
        // Announced before the look: whoever frees a slot after the look sees the sleeper, and
        // gets the lock only once it sleeps.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let found = loop {
            if let Some(found) = look() {
                break found;
            }
            bed = match limit {
                None => self.woken.wait(bed).unwrap_or_else(PoisonError::into_inner),
                Some((deadline, otherwise)) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left == Duration::ZERO {
                        break otherwise();
                    }
                    self.woken.wait_timeout(bed, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        };
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        found
    }

    fn wake(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.bed.lock().unwrap_or_else(PoisonError::into_inner));
            self.woken.notify_all();
        }
    }
}

impl Slot {
    fn cargo(&self) -> MutexGuard<'_, Cargo> {
        self.cargo.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use grampus_blockdev::{CompletionSink, Outcome, Token};

    use super::*;

    struct Nobody;

    impl CompletionSink for Nobody {
        fn complete(&self, _token: Token, _outcome: Outcome) {}
    }

    fn completion(token: u64) -> Completion {
        Completion::new(Arc::new(Nobody), Token(token))
    }

    #[test]
    fn every_slot_can_be_taken_and_is_given_once() {
        let table = Table::new(5, 2);
        let mut taken: Vec<usize> =
            (0..5).map(|i| table.enter(Kind::Read, 1, i + 1, completion(i))).collect();
        taken.sort_unstable();
        assert_eq!(taken, [0, 1, 2, 3, 4]);
        assert!(table.claim().is_none());
        assert!(table.leave(3).is_some());
        assert!(table.leave(3).is_none(), "left twice");
        assert_eq!(table.enter(Kind::Flush, 0, 9, completion(9)), 3);
    }

    #[test]
    fn a_look_counts_kinds_and_ages() {
        let table = Table::new(8, 1);
        let read = table.enter(Kind::Read, 1, 100, completion(1));
        table.enter(Kind::Read, 1, 150, completion(2));
        let flush = table.enter(Kind::Flush, 0, 50, completion(3));
        table.hold(flush, Request::Flush);
        let seen = table.observe(1000);
        assert_eq!((seen.active, seen.held, seen.oldest_ns), (2, 1, Some(900)));
        assert_eq!((seen.of(Kind::Read), seen.of(Kind::Flush)), (2, 0));

        table.leave(read);
        assert!(table.unhold(flush, 1000).is_some());
        assert!(table.unhold(flush, 1000).is_none());
        let seen = table.observe(1001);
        assert_eq!((seen.active, seen.held, seen.oldest_ns), (2, 0, Some(851)));
        assert_eq!(table.leave(flush).unwrap().arrived_ns, 50, "a hold counts as latency");
    }

    #[test]
    fn a_full_table_makes_its_callers_wait_for_a_slot() {
        let table = Table::new(2, 1);
        for turn in 0..2 {
            table.enter(Kind::Write, 1, 1, completion(turn));
        }
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| table.enter(Kind::Write, 1, 1, completion(2)));
            while table.sleepers.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(table.observe(1).active, 2);
            table.leave(1);
            assert_eq!(waiting.join().unwrap(), 1);
        });
    }

    #[test]
    fn idle_is_waited_for_up_to_a_deadline() {
        let table = Table::new(4, 1);
        table.wait_until_idle(Instant::now()).unwrap();
        let index = table.enter(Kind::Write, 1, 1, completion(0));
        assert_eq!(table.wait_until_idle(Instant::now()), Err(1));
        std::thread::scope(|scope| {
            let waiting =
                scope.spawn(|| table.wait_until_idle(Instant::now() + Duration::from_secs(60)));
            while table.sleepers.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            table.leave(index);
            waiting.join().unwrap().unwrap();
        });
    }

    #[test]
    fn threads_that_come_and_go_share_the_table_without_losing_a_slot() {
        let table = Table::new(6, 2);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let table = &table;
                scope.spawn(move || {
                    for turn in 0..5_000 {
                        let first = table.enter(Kind::Read, thread, 1, completion(turn));
                        let second = table.enter(Kind::Write, thread, 1, completion(turn));
                        assert_eq!(table.leave(second).unwrap().bytes, thread);
                        assert_eq!(table.leave(first).unwrap().kind, Kind::Read);
                    }
                });
            }
        });
        assert_eq!(table.observe(1), InFlight::default());
    }
}
