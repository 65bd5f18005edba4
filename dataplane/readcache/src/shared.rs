//! What the cache's threads, and requests on their way, have in common.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use grampus_blockdev::{BlockDevice, ByteRange};

use crate::counters::Counters;
use crate::index::{Generation, Index};
use crate::proofs::Prover;
use crate::queue::Queue;
use crate::regions::Regions;
use crate::sectors::{Sectors, changed, covered};
use crate::store::Store;
use crate::work::{Fill, Job};

/// Reads of the file that may wait; more go below.
const MAX_WAITING_READS: usize = 256;

pub(crate) struct Shared {
    pub(crate) below: Arc<dyn BlockDevice>,
    /// None when there never was one.
    store: Option<Box<dyn Store>>,
    pub(crate) block_bytes: u32,
    pub(crate) prover: Prover,
    index: Mutex<Index>,
    pub(crate) fills: Queue<Fill>,
    pub(crate) reads: Queue<Job>,
    /// What a miss brings while there is room; 0: what was asked for.
    pub(crate) region_bytes: u32,
    pub(crate) regions: Regions,
    pub(crate) counters: Counters,
    /// Why it is off.
    off: OnceLock<String>,
    told_of_rot: AtomicBool,
    /// The device's size when it was looked at last.
    size_bytes: AtomicU64,
}

impl Shared {
    pub(crate) fn new(
        below: Arc<dyn BlockDevice>,
        store: Option<Box<dyn Store>>,
        index: Index,
        (block_bytes, region_bytes, prover): (u32, u32, Prover),
        max_waiting_bytes: usize,
    ) -> Self {
        let size_bytes = AtomicU64::new(below.geometry().size_bytes());
        Self {
            below,
            store,
            block_bytes,
            prover,
            index: Mutex::new(index),
            fills: Queue::new(max_waiting_bytes),
            reads: Queue::new(MAX_WAITING_READS),
            region_bytes,
            regions: Regions::default(),
            counters: Counters::default(),
            off: OnceLock::new(),
            told_of_rot: AtomicBool::new(false),
            size_bytes,
        }
    }

    /// The file; None when the cache is off.
    pub(crate) fn store(&self) -> Option<&dyn Store> {
        self.store.as_deref().filter(|_| self.is_on())
    }

    pub(crate) fn is_on(&self) -> bool {
        self.off.get().is_none()
    }

    pub(crate) fn off_reason(&self) -> Option<&str> {
        self.off.get().map(String::as_str)
    }

    /// For good: nobody invalidates anything from now on.
    pub(crate) fn turn_off(&self, reason: String) {
        if self.off.set(reason).is_ok() {
            let reason = self.off_reason();
            tracing::warn!(reason, "the read cache is off: reads go to the volume itself");
        }
    }

    // Nothing that panics runs under this lock: poison means nothing.
    pub(crate) fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `range` is being changed. Of what will be written (if it `writes`) and somebody reads: its
    /// sectors, each with the generation from which this change counts.
    pub(crate) fn begin_change(
        &self,
        range: ByteRange,
        writes: bool,
    ) -> Vec<(Sectors, Generation)> {
        let mut index = self.index();
        // Sector by sector only what has a buffer: a discard may be of terabytes.
        let written = writes.then(|| covered(range, self.block_bytes)).into_iter().flatten();
        let read: Vec<Sectors> = written.filter(|sectors| index.is_read(sectors.block)).collect();
        self.invalidate(&mut index, range);
        read.into_iter().map(|sectors| (sectors, index.generation(sectors.block))).collect()
    }

    /// A change of `range` is done. Of what it wrote and somebody reads, that which no other change
    /// has touched since this one began, and the generation from which it counts: reads that were
    /// under way alongside are barred by it, and so is this when another change ends later.
    pub(crate) fn end_change(
        &self,
        range: ByteRange,
        rewritten: &[(Sectors, Generation)],
    ) -> Vec<(Sectors, Generation)> {
        let mut index = self.index();
        let alone =
            |(sectors, before): &&(Sectors, Generation)| index.generation(sectors.block) == *before;
        let alone: Vec<Sectors> = rewritten.iter().filter(alone).map(|one| one.0).collect();
        self.invalidate(&mut index, range);
        alone.into_iter().map(|sectors| (sectors, index.generation(sectors.block))).collect()
    }

    fn invalidate(&self, index: &mut Index, range: ByteRange) {
        let (parts, whole) = changed(range, self.block_bytes);
        let of_parts = parts.into_iter().filter(|part| index.invalidate_part(*part)).count();
        let count = index.invalidate(whole) + u64::try_from(of_parts).unwrap_or(0);
        self.counters.invalidations.add(count);
    }

    pub(crate) fn invalidate_blocks(&self, blocks: Range<u64>) {
        let count = self.index().invalidate(blocks);
        self.counters.invalidations.add(count);
    }

    /// What lies past the end that the device had, or has now, is not what it was: a device that
    /// shrinks and grows again reads as zeros there.
    pub(crate) fn notice_size(&self, now_bytes: u64) {
        if self.size_bytes.load(Ordering::Acquire) == now_bytes {
            return;
        }
        let before_bytes = self.size_bytes.swap(now_bytes, Ordering::AcqRel);
        if before_bytes != now_bytes {
            let end_bytes = before_bytes.min(now_bytes);
            self.invalidate_blocks(end_bytes / u64::from(self.block_bytes)..u64::MAX);
        }
    }

    /// A disk that rots does so in many places: once is enough to say.
    pub(crate) fn found_rot(&self) {
        self.counters.checksum_failures.add(1);
        if !self.told_of_rot.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the read cache's disk brought back something else than was written to it; such \
                 blocks are read from the volume again, and not mentioned again"
            );
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Shared").field("off", &self.off).finish_non_exhaustive()
    }
}
