//! Ranges of a device as sectors of blocks.

use std::ops::Range;

use grampus_blockdev::ByteRange;

/// What is kept or not, and has a checksum: the smallest piece that every disk reads directly. A
/// file system may place pages of a database at any multiple of it, across blocks.
pub(crate) const SECTOR_BYTES: u32 = 4096;
const SECTOR: u64 = 4096;

/// Sectors of one block that follow one another; at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sectors {
    /// Which block of the device.
    pub(crate) block: u64,
    /// The first, counted in the block.
    pub(crate) first: u32,
    /// How many.
    pub(crate) count: u32,
}

impl Sectors {
    /// A bit for each.
    pub(crate) fn mask(self) -> u32 {
        let ones = u32::MAX.checked_shr(32 - self.count).unwrap_or(0);
        ones.checked_shl(self.first).unwrap_or(0)
    }

    /// Whether some are in both.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.block == other.block && self.mask() & other.mask() != 0
    }

    /// Where they begin on a device of blocks of `block_bytes`.
    pub(crate) fn offset(self, block_bytes: u32) -> u64 {
        self.block * u64::from(block_bytes) + u64::from(self.first) * SECTOR
    }

    pub(crate) fn bytes(self) -> u64 {
        u64::from(self.count) * SECTOR
    }
}

/// Every sector that has a byte of `range`.
pub(crate) fn touched(range: ByteRange, block_bytes: u32) -> impl Iterator<Item = Sectors> {
    split(touching(range), block_bytes)
}

fn touching(range: ByteRange) -> Range<u64> {
    let first = range.offset.bytes() / SECTOR;
    let end = if range.is_empty() { first } else { range.end_bytes().div_ceil(SECTOR) };
    first..end
}

fn sectors_per(block_bytes: u32) -> u64 {
    u64::from((block_bytes / SECTOR_BYTES).max(1))
}

/// Every sector that is wholly in `range`.
pub(crate) fn covered(range: ByteRange, block_bytes: u32) -> impl Iterator<Item = Sectors> {
    let first = range.offset.bytes().div_ceil(SECTOR);
    let end = (range.end_bytes() / SECTOR).max(first);
    split(first..end, block_bytes)
}

fn split(sectors: Range<u64>, block_bytes: u32) -> impl Iterator<Item = Sectors> {
    let per_block = sectors_per(block_bytes);
    let mut at = sectors.start;
    std::iter::from_fn(move || {
        let block = at / per_block;
        let until = sectors.end.min((block + 1) * per_block);
        let (first, count) = (at % per_block, until.saturating_sub(at));
        at = until;
        // At most 32 sectors are in a block.
        let narrow = |number: u64| u32::try_from(number).unwrap_or(0);
        (count > 0).then(|| Sectors { block, first: narrow(first), count: narrow(count) })
    })
}

/// The blocks that have a byte of `range`.
pub(crate) fn blocks(range: ByteRange, block_bytes: u32) -> Range<u64> {
    let block = u64::from(block_bytes.max(1));
    if range.is_empty() {
        return 0..0;
    }
    range.offset.bytes() / block..range.end_bytes().div_ceil(block)
}

/// Every sector that has a byte of `range`, as in [`touched`]: those that are not all of their
/// block, at its ends, and between them the blocks whose sectors they all are.
pub(crate) fn changed(range: ByteRange, block_bytes: u32) -> (Vec<Sectors>, Range<u64>) {
    let per_block = sectors_per(block_bytes);
    let Range { start, end } = touching(range);
    let whole = start.div_ceil(per_block)..end / per_block;
    if whole.start > whole.end {
        // All within one block.
        return (split(start..end, block_bytes).collect(), 0..0);
    }
    let head = split(start..whole.start * per_block, block_bytes);
    let tail = split(whole.end * per_block..end, block_bytes);
    (head.chain(tail).collect(), whole)
}

/// Where `sectors` and a request for `range` have bytes in common: in the sectors, in the request.
pub(crate) fn overlap(
    sectors: Sectors,
    range: ByteRange,
    block_bytes: u32,
) -> (Range<usize>, Range<usize>) {
    let start = sectors.offset(block_bytes);
    let from = start.max(range.offset.bytes());
    let until = (start + sectors.bytes()).min(range.end_bytes()).max(from);
    // A request is at most 16 MiB.
    let narrow = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let within = |base: u64| narrow(from - base)..narrow(until - base);
    (within(start), within(range.offset.bytes()))
}

#[cfg(test)]
mod tests {
    use grampus_blockdev::{Length, Offset};
    use proptest::prelude::*;

    use super::*;

    fn range(offset: u64, length: u64) -> ByteRange {
        ByteRange { offset: Offset::new(offset).unwrap(), length: Length::new(length).unwrap() }
    }

    fn sectors(block: u64, first: u32, count: u32) -> Sectors {
        Sectors { block, first, count }
    }

    #[test]
    fn a_range_is_cut_at_blocks() {
        let all = |range| touched(range, 16_384).collect::<Vec<_>>();
        let whole = |range| covered(range, 16_384).collect::<Vec<_>>();
        assert_eq!(all(range(0, 0)), []);
        assert_eq!(all(range(5000, 1)), [sectors(0, 1, 1)]);
        assert_eq!(all(range(12_288, 16_384)), [sectors(0, 3, 1), sectors(1, 0, 3)]);
        assert_eq!(whole(range(12_288, 16_384)), [sectors(0, 3, 1), sectors(1, 0, 3)]);
        assert_eq!(all(range(4095, 4098)), [sectors(0, 0, 3)]);
        assert_eq!(whole(range(4095, 4098)), [sectors(0, 1, 1)]);
        assert_eq!(whole(range(1, 4096)), []);
        assert_eq!(blocks(range(16_383, 2), 16_384), 0..2);
        assert_eq!(blocks(range(16_383, 0), 16_384), 0..0);
    }

    #[test]
    fn a_change_is_of_whole_blocks_but_at_its_ends() {
        let cut = |range| changed(range, 16_384);
        assert_eq!(cut(range(16_384, 0)), (vec![], 1..1));
        assert_eq!(cut(range(16_384, 16_384)), (vec![], 1..2));
        assert_eq!(cut(range(16_385, 16_382)), (vec![], 1..2), "every sector has a byte of it");
        assert_eq!(cut(range(20_480, 1)), (vec![sectors(1, 1, 1)], 0..0));
        let page = range(12_288, 16_384);
        assert_eq!(cut(page), (vec![sectors(0, 3, 1), sectors(1, 0, 3)], 1..1));
        assert_eq!(cut(range(4096, 12_288 + 32_768)), (vec![sectors(0, 1, 3)], 1..3));
        assert_eq!(cut(range(0, 32_768 + 4097)), (vec![sectors(2, 0, 2)], 0..2));
    }

    #[test]
    fn a_mask_has_a_bit_for_each_sector() {
        assert_eq!(sectors(0, 0, 4).mask(), 0b1111);
        assert_eq!(sectors(0, 3, 1).mask(), 0b1000);
        assert_eq!(sectors(0, 0, 32).mask(), u32::MAX);
        assert_eq!(sectors(0, 31, 1).mask(), 1 << 31);
        assert!(sectors(4, 1, 3).overlaps(sectors(4, 3, 1)));
        assert!(!sectors(4, 1, 2).overlaps(sectors(4, 3, 1)));
        assert!(!sectors(4, 1, 3).overlaps(sectors(5, 1, 3)));
    }

    proptest! {
        #[test]
        fn the_parts_of_a_request_make_the_request(
            offset in 0..200_000_u64, length in 0..99_999_u64,
        ) {
            let range = range(offset, length);
            let mut end = 0;
            for sectors in touched(range, 32_768) {
                let (within, request) = overlap(sectors, range, 32_768);
                prop_assert_eq!(request.start, end);
                prop_assert_eq!(within.len(), request.len());
                prop_assert!(!request.is_empty());
                let start = sectors.offset(32_768) + u64::try_from(within.start).unwrap();
                prop_assert_eq!(start, offset + u64::try_from(request.start).unwrap());
                end = request.end;
            }
            prop_assert_eq!(u64::try_from(end).unwrap(), length);
            let (parts, whole) = changed(range, 32_768);
            let whole = whole.map(|block| Sectors { block, first: 0, count: 8 });
            let mut both: Vec<_> = parts.into_iter().chain(whole).collect();
            both.sort_by_key(|sectors| sectors.block);
            let all: Vec<_> = touched(range, 32_768).collect();
            prop_assert_eq!(both, all);
            for sectors in covered(range, 32_768) {
                let (within, _) = overlap(sectors, range, 32_768);
                prop_assert_eq!(u64::try_from(within.len()).unwrap(), sectors.bytes());
            }
        }
    }
}
