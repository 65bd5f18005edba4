//! What a recovery asks for, one step after the other, and what it is answered.

use std::sync::Arc;

use crate::extent::content::Content;
use crate::extent::span::Span;
use crate::format::error::FormatError;
use crate::format::frame::Frame;
use crate::format::ids::{Epoch, Log, Owner, VolumeId};
use crate::format::record::Record;
use crate::format::ring::{Place, Ring, Segment};
use crate::journal::error::Failure;
use crate::journal::opened::Opened;
use crate::recovery::error::{Damage, RecoveryError, SlotFault};

/// What is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveryConfig {
    /// The volume.
    pub volume: VolumeId,
    /// The shape of the ring, should it have none yet.
    pub ring: Ring,
    /// The shape of the local log, in `cache` mode and wherever one of the volume may lie.
    pub local: Option<Ring>,
    /// Held bytes that are gathered before they are applied, so that overwrites coalesce.
    pub max_held_bytes: u64,
    /// Open the volume without what a damaged log has lost; [`Progress::given_up`] says what. Then
    /// it is no prefix of what was written: the image may have some of what followed.
    pub accept_damage: bool,
}

/// Something to do. Each is answered before the next is asked for.
#[derive(Debug, Clone)]
pub enum Step {
    /// Read the record. Answer: [`Answer::Record`].
    ReadRecord(Log),
    /// Replace the cluster's record if it is `expected`, where None means that there is none.
    /// Answer: [`Answer::Swapped`].
    SwapRecord {
        /// What it must be.
        expected: Option<Record>,
        /// What it becomes.
        record: Record,
    },
    /// Shut every lower epoch out, an owner as well as another recovery: raise the epoch of every
    /// slot, never lowering one; add the clients of lower epochs to the blocklist, by exact address,
    /// but none of a higher epoch: this recovery may itself have been overtaken; confirm both.
    /// Answer: [`Answer::Fenced`].
    Fence {
        /// Whose the slots are then.
        owner: Owner,
        /// Whether a slot that is missing, or not of this journal, is made its own. Else it is left
        /// as it is, and named in the answer.
        mend: bool,
    },
    /// Read a segment; what was never written may be missing at its end. Answer:
    /// [`Answer::Slot`].
    ReadSlot(Log, Segment),
    /// Read what each of these segments of the log in the cluster begins with. Answer:
    /// [`Answer::Heads`].
    ReadHeads(Vec<Segment>),
    /// Write the frame, conditional on its epoch. Answer: [`Answer::Done`], once it is durable.
    Append {
        /// What.
        frame: Frame,
        /// Where.
        place: Place,
    },
    /// Change the image; the ranges do not overlap. Answer: [`Answer::Done`].
    Apply(Arc<[(Span, Content)]>),
    /// Make the image's changes durable. Answer: [`Answer::Done`].
    FlushImage,
    /// Move the local log out of the way, keep it, make a new one. Answer: [`Answer::Done`].
    SetLocalAside(Aside),
    /// Write the local log's record. Answer: [`Answer::Done`], once it is durable.
    WriteLocalRecord(Record),
    /// The volume is open: there is no further step.
    Open(Opened),
    /// The recovery is over, without success.
    Stop(RecoveryError),
}

/// Why a local log is set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aside {
    /// It is of an owner whom another one followed, or of another volume.
    Older {
        /// Whose it is.
        epoch: Epoch,
        /// Of which volume.
        volume: VolumeId,
    },
    /// Its record cannot be read.
    Broken(FormatError),
}

/// What a step brought.
#[derive(Debug)]
pub enum Answer {
    /// The bytes of a record; None if there is none.
    Record(Option<Vec<u8>>),
    /// Whether it was replaced.
    Swapped(bool),
    /// It was fenced, and after that the image had this size: before, its old owner could still
    /// change it. What a frame has beyond it is left out.
    Fenced {
        /// In bytes.
        size_bytes: u64,
        /// The damaged slots, which are repaired if the step asked for that.
        faulty: Vec<(u32, SlotFault)>,
    },
    /// The bytes of a slot.
    Slot(Vec<u8>),
    /// Of each segment that was named, what it begins with: as much as the first frame's header.
    Heads(Vec<Vec<u8>>),
    /// It was done.
    Done,
    /// It could not be done.
    Failed(Failure),
}

/// What was found, for status, progress and log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Frames found in the cluster.
    pub frames: u64,
    /// Bytes of them.
    pub frame_bytes: u64,
    /// Batches that only the host had, shipped now.
    pub shipped_batches: u64,
    /// The local log that was set aside.
    pub set_aside: Option<Aside>,
    /// What was given up, as [`RecoveryConfig::accept_damage`] wants it; of several damages the
    /// last one that was met.
    pub given_up: Option<Damage>,
}
