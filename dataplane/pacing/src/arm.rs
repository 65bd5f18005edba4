//! Which request an emulated disk serves next, and when that one ends: without threads and clocks.
//!
//! Times count from a moment that the caller chooses. They are the disk's, not the machine's: a
//! request begins when the disk is free, also if a thread of the machine notices it later. So a
//! machine that wakes threads late does not make the disk slower.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use grampus_blockdev::Request;

use crate::model::DiskModel;

/// How often younger requests may be served before one that waits. A stream that goes on and on
/// would otherwise keep all others waiting for ever.
pub(crate) const MAX_PASSED_OVER: u32 = 32;

/// What the way of a request to the emulated disk takes (loop device, FUSE, threads that wake) is
/// not the disk's time: a request counts as if it had arrived that much earlier. So who sends one
/// request at a time, and the next within this time, gets the disk's speed.
pub(crate) const CREDIT: Duration = Duration::from_micros(500);

/// What a request wants of the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Work {
    /// These bytes pass under the head.
    Transfer(Range<u64>),
    /// Something that moves neither the arm nor bytes.
    Command,
}

impl Work {
    /// What `request` wants.
    ///
    /// A flush is done with the writes themselves, since a disk of this model has no cache of its own
    /// to empty. Zeroes and discards cost one command however long they are: on the reference disk a
    /// file system's discard costs nothing, and most disks with an arm do not know the command at
    /// all. To let them move the arm would make a `mkfs` or an `fstrim` cost hours.
    pub(crate) fn of(request: &Request) -> Self {
        match request {
            Request::Read { .. } | Request::Write { .. } => {
                request.range().map_or(Self::Command, |range| {
                    Self::Transfer(range.offset.bytes()..range.end_bytes())
                })
            }
            Request::WriteZeroes { .. } | Request::Discard { .. } | Request::Flush => Self::Command,
        }
    }

    fn begins_at(&self, position: Option<u64>) -> bool {
        matches!(self, Self::Transfer(range) if Some(range.start) == position)
    }
}

/// A request that is served.
#[derive(Debug)]
pub(crate) struct Service<T> {
    /// What was given with it.
    pub(crate) token: T,
    /// When the disk turned to it.
    pub(crate) start: Duration,
    /// When it is done.
    pub(crate) end: Duration,
}

impl<T> Service<T> {
    /// How long the disk is busy with it.
    pub(crate) fn lasts(&self) -> Duration {
        self.end.saturating_sub(self.start)
    }
}

#[derive(Debug)]
struct Waiting<T> {
    token: T,
    work: Work,
    arrived: Duration,
    passed_over: u32,
}

/// The requests that wait for the disk's one arm, and where it is.
///
/// It needs no order between a flush and other requests: a flush covers the changes that had
/// completed before it was submitted, and these do not wait here any more.
#[derive(Debug)]
pub(crate) struct Arm<T> {
    model: DiskModel,
    /// The oldest first.
    waiting: VecDeque<Waiting<T>>,
    /// Where the last transfer ended; None before the first one.
    position: Option<u64>,
    free_at: Duration,
}

impl<T> Arm<T> {
    /// An arm that is anywhere, free at `now`.
    pub(crate) fn new(model: DiskModel, now: Duration) -> Self {
        Self { model, waiting: VecDeque::new(), position: None, free_at: now }
    }

    /// How many requests wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// When the disk has done what was taken so far.
    #[cfg(test)]
    pub(crate) fn free_at(&self) -> Duration {
        self.free_at
    }

    /// A request arrived.
    pub(crate) fn add(&mut self, token: T, work: Work, arrived: Duration) {
        self.waiting.push_back(Waiting { token, work, arrived, passed_over: 0 });
    }

    /// Turn to the next request; None when none waits.
    pub(crate) fn take(&mut self) -> Option<Service<T>> {
        let index = self.choose()?;
        for older in self.waiting.iter_mut().take(index) {
            older.passed_over += 1;
        }
        let Waiting { token, work, arrived, .. } = self.waiting.remove(index)?;
        let start = self.free_at.max(arrived.saturating_sub(CREDIT));
        let end = start.saturating_add(self.time_for(&work));
        if let Work::Transfer(range) = work {
            self.position = Some(range.end);
        }
        self.free_at = end;
        Some(Service { token, start, end })
    }

    /// What was taken last really took longer than the model says, by this much.
    pub(crate) fn delay(&mut self, by: Duration) {
        self.free_at = self.free_at.saturating_add(by);
    }

    /// Forget where the arm is; it is free at `now`. What waits goes on waiting.
    pub(crate) fn restart(&mut self, now: Duration) {
        self.position = None;
        self.free_at = now;
    }

    /// The place in the queue of the oldest request that goes on where the arm is, else of the oldest
    /// one.
    fn choose(&self) -> Option<usize> {
        // Who is older was passed over at least as often: the others are within the bound too.
        if self.waiting.front()?.passed_over >= MAX_PASSED_OVER {
            return Some(0);
        }
        let goes_on = |waiting: &Waiting<T>| waiting.work.begins_at(self.position);
        Some(self.waiting.iter().position(goes_on).unwrap_or(0))
    }

    fn time_for(&self, work: &Work) -> Duration {
        let DiskModel { position, command, .. } = self.model;
        match work {
            Work::Command => command,
            Work::Transfer(range) => {
                let way = if work.begins_at(self.position) { Duration::ZERO } else { position };
                let bytes = range.end.saturating_sub(range.start);
                command.saturating_add(way).saturating_add(self.model.transfer(bytes))
            }
        }
    }
}
