//! What the shell needs of the world: the journal's objects in the cluster, a log on the host.

use std::fmt;
use std::sync::Arc;

use grampus_blockdev::BlockDevice;
use grampus_journal::{Aside, Failure, Owner, Place, Segment, SlotFault};

/// Called once with what came of an operation, on any thread. It must not wait.
pub type Done<T> = Box<dyn FnOnce(Result<T, Failure>) + Send>;

/// The journal of one volume in the cluster: a record, and the slots of its ring.
///
/// Calls named `start_` return at once; the others wait for the cluster.
pub trait Slots: Send + Sync + fmt::Debug {
    /// The record's bytes; None when the volume has no journal yet.
    ///
    /// # Errors
    /// [`Failure`].
    fn read_record(&self) -> Result<Option<Vec<u8>>, Failure>;

    /// Replace the record, in one operation, if it is `expected` to the byte (None: if there is
    /// none); whether it was.
    ///
    /// # Errors
    /// [`Failure`]; the record is one of the two then.
    fn swap_record(&self, expected: Option<&[u8]>, record: &[u8]) -> Result<bool, Failure>;

    /// As `swap_record`, for a record that is there.
    fn start_swap_record(&self, expected: Vec<u8>, record: Vec<u8>, done: Done<bool>);

    /// Let a slot be `owner`'s; nothing to do where it is already. Says what was wrong with it, if
    /// it was not a slot of this journal: with `mend` it is made one, else it is left as it is.
    ///
    /// # Errors
    /// [`Failure::Fenced`] when the slot has a higher epoch; other [`Failure`]s.
    fn raise_epoch(
        &self,
        slot: u32,
        owner: Owner,
        mend: bool,
    ) -> Result<Option<SlotFault>, Failure>;

    /// What `start_append` put into a segment for one owner, each frame from where it begins;
    /// anything may be between and behind frames. Nothing when the slot was never written.
    ///
    /// # Errors
    /// [`Failure`], also where the slot is missing: each one was made when it was first raised.
    fn read_slot(&self, segment: Segment) -> Result<Vec<u8>, Failure>;

    /// What `read_slot` begins with: at least the header of the first frame.
    ///
    /// # Errors
    /// As `read_slot`.
    fn read_head(&self, segment: Segment) -> Result<Vec<u8>, Failure>;

    /// Put `frame` into a slot in one operation that fails with [`Failure::Fenced`], changing
    /// nothing, unless the slot is `owner`'s; done when it is durable on all copies. Two of one
    /// owner are put at one position only if they are the same bytes.
    fn start_append(&self, place: Place, owner: Owner, frame: Vec<u8>, done: Done<()>);

    /// Give back what a slot takes for small frames ([`grampus_journal::SMALL_FRAME_BYTES`]) that
    /// were put before this position, in one operation that fails with [`Failure::Fenced`], changing
    /// nothing, unless the slot is `owner`'s. They need not be readable any more.
    fn start_free(&self, slot: u32, owner: Owner, before: u64, done: Done<()>);
}

/// The log of one volume on the host's disk; one process uses it at a time, by a lock that the
/// implementation holds. All calls wait for the disk, and are made from threads of the shell.
pub trait LocalLog: Send + Sync + fmt::Debug {
    /// The record's bytes, whatever they are; None when there is no log.
    ///
    /// # Errors
    /// [`Failure`].
    fn read_record(&self) -> Result<Option<Vec<u8>>, Failure>;

    /// Write the record; durable when it returns.
    ///
    /// # Errors
    /// [`Failure`].
    fn write_record(&self, record: &[u8]) -> Result<(), Failure>;

    /// A slot's bytes; zeros where it was never written.
    ///
    /// # Errors
    /// [`Failure`].
    fn read_slot(&self, slot: u32) -> Result<Vec<u8>, Failure>;

    /// Write `bytes`, whole aligned blocks, into a slot; durable when it returns. Several threads
    /// may append at once, to different places.
    ///
    /// # Errors
    /// [`Failure::NoSpace`], [`Failure::Io`].
    fn append(&self, slot: u32, offset: u64, bytes: &[u8]) -> Result<(), Failure>;

    /// Move the log out of the way under a name that says whose it was, keep it, and begin an
    /// empty one.
    ///
    /// # Errors
    /// [`Failure`].
    fn set_aside(&self, why: Aside) -> Result<(), Failure>;
}

/// The world. Held by the device and its threads alone.
pub(crate) struct Ports {
    pub(crate) image: Arc<dyn BlockDevice>,
    pub(crate) slots: Arc<dyn Slots>,
    /// In `cache` mode.
    pub(crate) local: Option<Arc<dyn LocalLog>>,
}

impl fmt::Debug for Ports {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Ports").field("slots", &self.slots).finish_non_exhaustive()
    }
}
