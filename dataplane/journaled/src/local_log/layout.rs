//! Where things lie in a log's file, and what its first block says.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use grampus_journal::{Aside, RECORD_BYTES, Record, Ring};

/// The first block. The record fits its first sector, which a disk writes whole or not at all.
pub(super) const BLOCK_BYTES: usize = 4096;
/// A multiple of every alignment that a ring may have.
pub(super) const SLOTS_AT: u64 = 64 << 10;
/// The first block of a log that never had a record. Zeros would not do: they are what a disk or
/// a file system leaves where data was lost.
const UNUSED: [u8; 8] = *b"GRMPNEW1";

/// What the first block says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    /// No record was ever written.
    Unused,
    /// The record.
    Of(Record),
    /// Neither.
    Unreadable,
}

/// Judge a first block, which may be cut short.
pub(super) fn classify_first(block: &[u8]) -> First {
    if block.starts_with(&UNUSED) {
        return First::Unused;
    }
    Record::decode(block).map_or(First::Unreadable, First::Of)
}

pub(super) fn unused_block() -> [u8; BLOCK_BYTES] {
    first_block(&UNUSED)
}

pub(super) fn record_block(record: &[u8]) -> [u8; BLOCK_BYTES] {
    first_block(record.get(..RECORD_BYTES).unwrap_or(record))
}

fn first_block(head: &[u8]) -> [u8; BLOCK_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    for (to, from) in block.iter_mut().zip(head) {
        *to = *from;
    }
    block
}

/// How long the file of a log of this shape is: whole blocks.
pub(super) fn file_bytes(ring: Ring) -> u64 {
    (SLOTS_AT + ring.capacity_bytes()).next_multiple_of(4096)
}

/// Where a slot begins; None when there is no such slot.
pub(super) fn slot_at(ring: Ring, slot: u32) -> Option<u64> {
    (slot < ring.segments).then(|| SLOTS_AT + u64::from(slot) * ring.segment_bytes)
}

/// Where an append goes; None when it is not whole aligned blocks within one slot.
pub(super) fn append_at(ring: Ring, slot: u32, offset: u64, bytes: usize) -> Option<u64> {
    let align = u64::from(ring.align_bytes);
    let bytes = u64::try_from(bytes).ok()?;
    let end = offset.checked_add(bytes)?;
    let fits = offset % align == 0 && bytes % align == 0 && end <= ring.segment_bytes;
    slot_at(ring, slot).filter(|_| fits).map(|start| start + offset)
}

/// `path` with `suffix` after its name.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// The name under which a log is kept, the `number`th one.
pub(super) fn aside_path(path: &Path, why: Aside, number: u32) -> PathBuf {
    let whose = match why {
        Aside::Older { epoch, .. } => epoch.to_string(),
        Aside::Broken(_) => "broken".to_owned(),
    };
    beside(path, &format!(".aside-{whose}-{number}"))
}

/// Whether `name` is one that [`aside_path`] gives to a log named `log`.
pub(super) fn is_aside_name(name: &str, log: &str) -> bool {
    name.strip_prefix(log).is_some_and(|rest| rest.starts_with(".aside-"))
}

#[cfg(test)]
mod tests {
    use grampus_journal::{Epoch, FormatError, VolumeId};

    use super::*;

    const RING: Ring = Ring { segment_bytes: 8192, segments: 3, align_bytes: 512 };

    #[test]
    fn an_append_lies_within_its_slot_and_on_the_grid() {
        for (slot, offset, bytes, at) in [
            (0, 0, 512, Some(65_536)),
            (0, 0, 8192, Some(65_536)),
            (2, 7680, 512, Some(65_536 + 2 * 8192 + 7680)),
            (2, 7680, 1024, None),
            (3, 0, 512, None),
            (0, 256, 512, None),
            (0, 512, 700, None),
            (1, u64::MAX - 511, 512, None),
        ] {
            assert_eq!(append_at(RING, slot, offset, bytes), at, "{slot} {offset} {bytes}");
        }
    }

    #[test]
    fn a_file_is_whole_blocks_that_hold_every_slot() {
        assert_eq!(file_bytes(RING), 65_536 + 3 * 8192);
        let ragged = Ring { segment_bytes: 512, ..RING };
        assert_eq!(file_bytes(ragged), 65_536 + 4096);
    }

    #[test]
    fn a_first_block_is_unused_a_record_or_unreadable() {
        let record = Record::fresh(VolumeId([3; 16]), RING);
        for (block, expected) in [
            (unused_block().to_vec(), First::Unused),
            (record_block(&record.encode()).to_vec(), First::Of(record)),
            (vec![0; BLOCK_BYTES], First::Unreadable),
            (record.encode().split_at(60).0.to_vec(), First::Unreadable),
            (Vec::new(), First::Unreadable),
        ] {
            assert_eq!(classify_first(&block), expected);
        }
    }

    #[test]
    fn what_is_set_aside_says_whose_it_was() {
        let why = Aside::Older { epoch: Epoch(7), volume: VolumeId([3; 16]) };
        let path = aside_path("/a/log".as_ref(), why, 2);
        assert_eq!(path, Path::new("/a/log.aside-7-2"));
        let broken = aside_path("/a/log".as_ref(), Aside::Broken(FormatError::Magic), 1);
        assert_eq!(broken, Path::new("/a/log.aside-broken-1"));
        assert!(is_aside_name("log.aside-7-2", "log"));
        assert!(!is_aside_name("log.aside-7-2", "lo"));
        assert!(!is_aside_name("log.new", "log"));
    }
}
