//! Settings.

use std::path::PathBuf;
use std::sync::Arc;

use grampus_sealing::Key;
use thiserror::Error;

use crate::proofs::Proofs;
use crate::sectors::SECTOR_BYTES;

/// A page of `InnoDB`.
pub const DEFAULT_BLOCK_BYTES: u32 = 16 << 10;
/// Eight pages: on a cluster of two cores such a read takes some 40 % more than one of a page.
const DEFAULT_REGION_BYTES: u32 = 128 << 10;
/// One bit for each sector of a block.
pub(crate) const MAX_BLOCK_BYTES: u32 = 128 << 10;
/// An object of an RBD image.
const MAX_REGION_BYTES: u32 = 4 << 20;
const MAX_READERS: usize = 64;
/// Slots are counted in 32 bits.
const MAX_SLOTS: u64 = 1 << 31;

/// How a cache works.
#[derive(Debug, Clone)]
pub struct Options {
    /// The file. It has this name for a moment only: whatever becomes of the process, the space
    /// is given back.
    pub path: PathBuf,
    /// How much it may hold.
    pub size_bytes: u64,
    /// What is admitted and pushed out as one: 4 KiB to 128 KiB, a power of two.
    pub block_bytes: u32,
    /// What a miss brings as long as the cache has room, from a multiple of it on: a power of two,
    /// or 0 for what was asked for alone.
    pub region_bytes: u32,
    /// Memory for the index, which limits how much the cache holds.
    pub max_index_bytes: u64,
    /// Memory for what waits to be written to the file.
    pub max_waiting_bytes: usize,
    /// Threads that read the file.
    pub readers: usize,
    /// What the file's bytes are sealed with: a key that seals nothing else, of this cache alone.
    pub key: Option<Arc<Key>>,
}

/// Settings that cannot work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OptionsError {
    /// The blocks.
    #[error(
        "a read cache cannot have blocks of {block_bytes} bytes. Use a power of two from 4,096 to \
         131,072."
    )]
    Block {
        /// The value refused.
        block_bytes: u32,
    },
    /// What a miss brings.
    #[error(
        "a read cache cannot read regions of {region_bytes} bytes. Use 0, or a power of two from \
         8,192 to 4,194,304 that is larger than a block."
    )]
    Region {
        /// The value refused.
        region_bytes: u32,
    },
    /// Not even one block.
    #[error(
        "a read cache of {size_bytes} bytes with {max_index_bytes} bytes of memory holds nothing. \
         Give it more of both."
    )]
    Size {
        /// The file's size.
        size_bytes: u64,
        /// The memory.
        max_index_bytes: u64,
    },
    /// No thread, or very many.
    #[error("a read cache cannot have {readers} reading threads. Use 1 to 64.")]
    Readers {
        /// The value refused.
        readers: usize,
    },
}

impl Options {
    /// At `path`, of `size_bytes`: with blocks of 16 KiB, at most 128 MiB of memory for the index
    /// and 8 threads.
    #[must_use]
    pub fn new(path: PathBuf, size_bytes: u64) -> Self {
        Self {
            path,
            size_bytes,
            block_bytes: DEFAULT_BLOCK_BYTES,
            region_bytes: DEFAULT_REGION_BYTES,
            max_index_bytes: 128 << 20,
            max_waiting_bytes: 16 << 20,
            readers: 8,
            key: None,
        }
    }

    /// How many blocks there is room for: on the disk, and in memory for the index.
    ///
    /// # Errors
    /// [`OptionsError`].
    pub fn slots(&self) -> Result<u32, OptionsError> {
        let block_bytes = self.block_bytes;
        let bounds = SECTOR_BYTES..=MAX_BLOCK_BYTES;
        if !block_bytes.is_power_of_two() || !bounds.contains(&block_bytes) {
            return Err(OptionsError::Block { block_bytes });
        }
        let region_bytes = self.region_bytes;
        let is_region = region_bytes.is_power_of_two() && region_bytes <= MAX_REGION_BYTES;
        if region_bytes != 0 && !(is_region && region_bytes > block_bytes) {
            return Err(OptionsError::Region { region_bytes });
        }
        if !(1..=MAX_READERS).contains(&self.readers) {
            return Err(OptionsError::Readers { readers: self.readers });
        }
        let on_disk = self.size_bytes / u64::from(block_bytes);
        let in_memory = self.max_index_bytes / self.index_bytes_per_slot();
        u32::try_from(on_disk.min(in_memory).min(MAX_SLOTS)).ok().filter(|slots| *slots > 0).ok_or(
            OptionsError::Size {
                size_bytes: self.size_bytes,
                max_index_bytes: self.max_index_bytes,
            },
        )
    }

    /// The slot itself, its entry in a hash table at its emptiest, its part of the frequencies
    /// and of the list of free slots; and the proof of each sector.
    fn index_bytes_per_slot(&self) -> u64 {
        let each = Proofs::bytes_per_sector(self.key.is_some());
        116 + each * u64::from(self.block_bytes / SECTOR_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_and_memory_both_bound_the_blocks() {
        let options = Options::new(PathBuf::from("/x"), 1 << 30);
        assert_eq!(options.slots(), Ok(65_536));
        assert_eq!(Options { region_bytes: 0, ..options.clone() }.slots(), Ok(65_536));
        let small = Options { max_index_bytes: 132_000, ..options.clone() };
        assert_eq!(small.slots(), Ok(1000));
        let huge = Options { size_bytes: u64::MAX, max_index_bytes: u64::MAX, ..options };
        assert_eq!(huge.slots(), Ok(1 << 31));
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let options = Options::new(PathBuf::from("/x"), 1 << 30);
        for block_bytes in [0, 512, 5000, 256 << 10] {
            let wrong = Options { block_bytes, ..options.clone() };
            assert_eq!(wrong.slots(), Err(OptionsError::Block { block_bytes }));
        }
        for region_bytes in [16 << 10, 100_000, 8 << 20] {
            let wrong = Options { region_bytes, ..options.clone() };
            assert_eq!(wrong.slots(), Err(OptionsError::Region { region_bytes }));
        }
        for readers in [0, 65] {
            let wrong = Options { readers, ..options.clone() };
            assert_eq!(wrong.slots(), Err(OptionsError::Readers { readers }));
        }
        let wrong = Options { size_bytes: 16_383, ..options };
        assert!(matches!(wrong.slots(), Err(OptionsError::Size { .. })));
    }
}
