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

/// Who waits longer is next once [`BATCH`] others were served. A stream that goes on and on would
/// otherwise keep all others waiting for ever. As `read_expire` of Linux's mq-deadline, the scheduler
/// of disks with an arm.
pub(crate) const DEADLINE: Duration = Duration::from_millis(500);

/// So many requests are served on the way of the arm before it turns to one that waits too long.
/// Without it, a disk with more to do than it can would have no order any more, only ages. As
/// `fifo_batch` of mq-deadline.
pub(crate) const BATCH: u32 = 16;

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

    /// How far ahead of `position` it begins; None for what begins behind it, or nowhere.
    fn ahead_of(&self, position: Option<u64>) -> Option<u64> {
        match self {
            Self::Transfer(range) => range.start.checked_sub(position?),
            Self::Command => None,
        }
    }

    /// Where it begins, if anywhere.
    fn start(&self) -> Option<u64> {
        match self {
            Self::Transfer(range) => Some(range.start),
            Self::Command => None,
        }
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
    /// How many requests were served since the arm last turned to the oldest because of its age.
    in_batch: u32,
}

impl<T> Arm<T> {
    /// An arm that is anywhere, free at `now`.
    pub(crate) fn new(model: DiskModel, now: Duration) -> Self {
        Self { model, waiting: VecDeque::new(), position: None, free_at: now, in_batch: 0 }
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
        self.waiting.push_back(Waiting { token, work, arrived });
    }

    /// Turn to the next request; None when none waits.
    pub(crate) fn take(&mut self) -> Option<Service<T>> {
        let is_due = self.in_batch >= BATCH && self.is_late()?;
        self.in_batch = if is_due { 0 } else { self.in_batch.saturating_add(1) };
        let index = if is_due { 0 } else { self.choose()? };
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

    /// Whether the oldest request waits longer than [`DEADLINE`]; None when none waits.
    fn is_late(&self) -> Option<bool> {
        let waits = self.free_at.saturating_sub(self.waiting.front()?.arrived);
        Some(waits >= DEADLINE)
    }

    /// The place in the queue of the next request on the way of the arm: what needs no way, then what
    /// begins nearest ahead, then what begins nearest to the start of the disk. Of equals the oldest.
    fn choose(&self) -> Option<usize> {
        let key = |(_, waiting): &(usize, &Waiting<T>)| {
            let start = waiting.work.start();
            let is_behind = start.is_some() && waiting.work.ahead_of(self.position).is_none();
            (is_behind, start)
        };
        self.waiting.iter().enumerate().min_by_key(key).map(|(index, _)| index)
    }

    fn time_for(&self, work: &Work) -> Duration {
        let DiskModel { position, command, .. } = self.model;
        match work {
            Work::Command => command,
            Work::Transfer(range) => {
                // What lies ahead may pass under the head unread, where that is the shorter way.
                let passing = work.ahead_of(self.position).map(|gap| self.model.transfer(gap));
                let way = passing.map_or(position, |passing| passing.min(position));
                let bytes = range.end.saturating_sub(range.start);
                command.saturating_add(way).saturating_add(self.model.transfer(bytes))
            }
        }
    }
}
