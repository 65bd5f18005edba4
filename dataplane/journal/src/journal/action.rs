//! What the journal wants done, and what it is told.

use std::time::Duration;

use grampus_blockdev::Token;
use serde::Serialize;

use crate::extent::span::Span;
use crate::format::frame::Frame;
use crate::format::ids::Owner;
use crate::format::record::Record;
use crate::format::ring::Place;
use crate::journal::error::Failure;
use crate::journal::unapplied::Change;

/// Something to do. Each but `Complete` and `Report` is answered by one [`Event`], in any order.
#[derive(Debug, Clone)]
pub enum Action {
    /// Write the frame into its slot in the cluster, in one operation that fails with
    /// [`Failure::Fenced`] unless the slot's epoch is the frame's. Answer: [`Event::Appended`],
    /// once it is durable on all copies.
    Append {
        /// What.
        frame: Frame,
        /// Where.
        place: Place,
    },
    /// Write the frame into the local log. Answer: [`Event::AppendedLocally`], once it is durable.
    AppendLocally {
        /// What.
        frame: Frame,
        /// Where.
        place: Place,
    },
    /// Change the image. Answer: [`Event::Applied`], once later reads of the image see it.
    Apply {
        /// To be named in the answer.
        id: u64,
        /// Where.
        span: Span,
        /// What it becomes.
        change: Change,
    },
    /// Make durable what was applied before. Answer: [`Event::ImageFlushed`].
    FlushImage,
    /// Replace the record in the cluster, if it is still `expected`, else fail with
    /// [`Failure::Fenced`]. Answer: [`Event::Recorded`].
    Record {
        /// What it must be.
        expected: Record,
        /// What it becomes.
        record: Record,
    },
    /// Write the record of the local log. Answer: [`Event::RecordedLocally`], once it is durable.
    RecordLocally {
        /// What it becomes.
        record: Record,
    },
    /// Free what a slot in the cluster keeps of small frames before a position, in one operation
    /// that fails with [`Failure::Fenced`] unless the slot is still the owner's. Answer:
    /// [`Event::SlotFreed`].
    FreeSlot {
        /// Whose slot it must be.
        owner: Owner,
        /// Which.
        slot: u32,
        /// Nothing that lies before it is needed, and a durable record says so.
        before: u64,
    },
    /// Answer a flush, a write with FUA or a request to quiesce.
    Complete {
        /// Whose.
        token: Token,
        /// How.
        result: Result<(), Failure>,
    },
    /// Something that status and log should say.
    Report(Report),
}

/// Something that happened to the journal as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// The local log failed: from now on flushes wait for the cluster, as in `journal` mode.
    Degraded(Failure),
    /// Applying or appending fails for now and is tried again.
    Retrying(Failure),
    /// What failed works again.
    Recovered,
    /// Nothing more is taken or acknowledged: the volume must be opened again.
    Failed(Failure),
}

/// How an action ended, or another cause to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Of the frame that ends with batch `last`.
    Appended {
        /// The last sequence of the frame.
        last: u64,
        /// How.
        result: Result<(), Failure>,
    },
    /// Of the frame that ends with batch `last`, in the local log.
    AppendedLocally {
        /// The last sequence of the frame.
        last: u64,
        /// How.
        result: Result<(), Failure>,
    },
    /// Of the apply `id`.
    Applied {
        /// From the action.
        id: u64,
        /// How.
        result: Result<(), Failure>,
    },
    /// Of the flush of the image.
    ImageFlushed(Result<(), Failure>),
    /// Of the record in the cluster.
    Recorded(Result<(), Failure>),
    /// Of the record of the local log.
    RecordedLocally(Result<(), Failure>),
    /// Of a slot that was to be freed.
    SlotFreed {
        /// From the action.
        slot: u32,
        /// How.
        result: Result<(), Failure>,
    },
    /// Time has passed; see [`crate::Journal::next_tick`].
    Tick,
    /// Whether to apply all that can be and let changes in at half that speed only, so that a
    /// [`Event::Quiesce`] soon after has little left to wait for.
    DrawDown(bool),
    /// Take no more changes, bring everything into the image, and complete `Token` then.
    Quiesce(Token),
    /// Take changes again.
    Unquiesce,
    /// Once quiesced: take changes again, but leave the image as it is until this says false. What
    /// is durable waits in the journal meanwhile.
    HoldImage(bool),
    /// The volume's size changed. To shrink it: quiesce, resize the image, then this.
    Resized(u64),
    /// A fence was noticed elsewhere.
    Fenced,
}

impl Event {
    /// Whether it is an answer from the cluster, whatever it says.
    pub(crate) fn is_of_the_cluster(&self) -> bool {
        matches!(
            self,
            Self::Appended { .. }
                | Self::Applied { .. }
                | Self::ImageFlushed(_)
                | Self::Recorded(_)
                | Self::SlotFreed { .. }
        )
    }
}

/// The state of the journal as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Taking changes.
    Running,
    /// Draining; takes no changes.
    Quiescing,
    /// Everything is in the image; takes no changes.
    Quiesced,
    /// Failed for good; [`Failure::Fenced`] after a takeover.
    Failed(Failure),
}

/// What it is doing, for status and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// As a whole.
    pub state: State,
    /// Flushes complete when durable on the host: `cache` mode, not degraded.
    pub local: bool,
    /// Why `cache` mode was left, if it was.
    pub degraded: Option<Failure>,
    /// What is failing at the moment, and since when.
    pub retrying: Option<(Failure, Duration)>,
    /// For how long the cluster has answered nothing of what it was asked; None while it owes no
    /// answer.
    pub silent: Option<Duration>,
    /// Batches in all: the last one's sequence.
    pub closed: u64,
    /// Acknowledged through this batch.
    pub acknowledged: u64,
    /// Durable in the cluster through this batch.
    pub replicated: u64,
    /// Applied to the image through this batch.
    pub applied: u64,
    /// Gone from the journal through this batch.
    pub trimmed: u64,
    /// Memory held.
    pub held_bytes: u64,
    /// Used of the ring in the cluster.
    pub used_bytes: u64,
    /// Used of the local log.
    pub local_used_bytes: u64,
    /// Acknowledged, not yet durable in the cluster: what the loss of the host would cost.
    pub lag_bytes: u64,
    /// The age of the oldest of it.
    pub lag: Duration,
    /// The rate at which memory is freed.
    pub freed_bytes_per_s: u64,
}

/// Counts since the journal was opened. The names of its fields are those of volumed's protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// Changes taken: writes, zeros, discards.
    pub changes: u64,
    /// Data in them.
    pub change_bytes: u64,
    /// Flushes asked for.
    pub flushes: u64,
    /// Batches closed.
    pub batches: u64,
    /// Appends to the cluster.
    pub appends: u64,
    /// Bytes of them.
    pub append_bytes: u64,
    /// Appends to the local log.
    pub local_appends: u64,
    /// Bytes of them.
    pub local_append_bytes: u64,
    /// Changes of the image.
    pub applies: u64,
    /// Bytes of them.
    pub apply_bytes: u64,
    /// Flushes of the image.
    pub image_flushes: u64,
    /// Records written to the cluster.
    pub records: u64,
    /// Bytes overwritten within one batch.
    pub coalesced_in_batch_bytes: u64,
    /// Bytes overwritten between append and apply.
    pub coalesced_settled_bytes: u64,
    /// Writes asked to come back later because the journal was filling up.
    pub delayed: u64,
}
