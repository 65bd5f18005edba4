//! Where places lie in the file, and which of them lie one behind the other there.
//!
//! A page of a database mostly lies in two blocks, and what a miss brings in many. Blocks that came
//! in one after the other have slots one after the other, so their sectors are read and written at
//! once: on a small machine it is the number of reads and writes that costs, not their length.

use crate::index::Place;
use crate::options::MAX_BLOCK_BYTES;
use crate::sectors::SECTOR_BYTES;

/// What is read or written at once, at most: a block of any size is.
pub(crate) const MAX_RUN_BYTES: u32 = MAX_BLOCK_BYTES;

/// Where a place begins in the file.
pub(crate) fn place_in_file(place: Place, block_bytes: u32) -> u64 {
    u64::from(place.slot) * u64::from(block_bytes)
        + u64::from(place.sectors.first) * u64::from(SECTOR_BYTES)
}

/// Those at the beginning of `items` that lie one behind the other in the file, in this order, and
/// have at most [`MAX_RUN_BYTES`] together: the first at least. And the others.
pub(crate) fn split_run<T>(
    items: &[T],
    place_of: impl Fn(&T) -> Place,
    block_bytes: u32,
) -> (&[T], &[T]) {
    let mut bytes = 0;
    let mut end = None;
    let goes_on = |item: &&T| {
        let place = place_of(item);
        let start = place_in_file(place, block_bytes);
        bytes += place.sectors.bytes();
        let adjoins = end.is_none_or(|end| end == start && bytes <= u64::from(MAX_RUN_BYTES));
        end = Some(start + place.sectors.bytes());
        adjoins
    };
    let count = items.iter().take_while(goes_on).count();
    items.split_at_checked(count).unwrap_or((items, &[]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{Index, Reservation};
    use crate::sectors::Sectors;

    const BLOCK_BYTES: u32 = 16 << 10;

    /// Places in an index in which blocks 0 to 15 have slots of the same numbers.
    fn places(of: &[(u64, u32, u32)]) -> Vec<Place> {
        let mut index = Index::new(16, BLOCK_BYTES, false);
        let mut reserve = |block, first, count| {
            let generation = index.generation(block);
            match index.reserve(Sectors { block, first, count }, generation) {
                Reservation::Write { place, .. } => place,
                refused => panic!("{refused:?}"),
            }
        };
        for block in 0..16 {
            reserve(block, 0, 4);
        }
        of.iter().map(|(block, first, count)| reserve(*block, *first, *count)).collect()
    }

    fn lengths(mut rest: &[Place]) -> Vec<usize> {
        let mut lengths = Vec::new();
        while !rest.is_empty() {
            let (run, others) = split_run(rest, |place| *place, BLOCK_BYTES);
            lengths.push(run.len());
            rest = others;
        }
        lengths
    }

    #[test]
    fn runs_are_what_adjoins_in_the_file() {
        let all: Vec<_> = (0..16).map(|block| (block, 0, 4)).collect();
        for (of, expected) in [
            (vec![], vec![]),
            (vec![(3, 1, 2)], vec![1]),
            (vec![(3, 3, 1), (4, 0, 3)], vec![2]),
            (vec![(3, 0, 2), (3, 2, 2), (4, 0, 4), (5, 0, 1)], vec![4]),
            (vec![(3, 2, 1), (4, 0, 3)], vec![1, 1]),
            (vec![(3, 3, 1), (4, 1, 3)], vec![1, 1]),
            (vec![(4, 0, 4), (3, 0, 4)], vec![1, 1]),
            (vec![(4, 0, 4), (4, 0, 4)], vec![1, 1]),
            (all, vec![8, 8]),
        ] {
            assert_eq!(lengths(&places(&of)), expected, "{of:?}");
        }
    }

    #[test]
    fn a_block_of_any_size_is_a_run() {
        let mut index = Index::new(2, MAX_RUN_BYTES, false);
        let run = |index: &mut Index, block| {
            let sectors = Sectors { block, first: 0, count: MAX_RUN_BYTES / SECTOR_BYTES };
            match index.reserve(sectors, index.generation(block)) {
                Reservation::Write { place, .. } => place,
                refused => panic!("{refused:?}"),
            }
        };
        let both = [run(&mut index, 0), run(&mut index, 1)];
        let (first, others) = split_run(&both, |place| *place, MAX_RUN_BYTES);
        assert_eq!((first.len(), others.len()), (1, 1));
    }
}
