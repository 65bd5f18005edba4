//! How a long range of zeros is taken piece by piece.

use grampus_blockdev::ByteRange;

/// At most so much of a range at once where librbd zeroes by itself: 1 GiB, 256 objects of the
/// usual 4 MiB. librbd makes all operations of one call at once, and a volume of many TiB that is
/// discarded whole would take hundreds of MiB of memory for them.
const PIECE_BYTES: u64 = 1 << 30;

/// Sent where librbd cannot zero by itself.
pub(crate) static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// The part of `range` that comes next once its first `done_bytes` are done: where it starts, and
/// how long it is (0 when nothing is left).
///
/// Pieces end at multiples of their size, so that no object is zeroed in two pieces.
pub(crate) fn decide_piece(range: ByteRange, done_bytes: u64, by_writing: bool) -> (u64, u64) {
    let piece_bytes = if by_writing { 1 << 20 } else { PIECE_BYTES };
    let start_bytes = range.offset.bytes() + done_bytes.min(range.length.bytes());
    let boundary_bytes = (start_bytes / piece_bytes + 1) * piece_bytes;
    (start_bytes, boundary_bytes.min(range.end_bytes()) - start_bytes)
}

#[cfg(test)]
mod tests {
    use grampus_blockdev::{Length, Offset};
    use proptest::prelude::*;

    use super::*;

    fn range(offset: u64, length: u64) -> ByteRange {
        ByteRange { offset: Offset::new(offset).unwrap(), length: Length::new(length).unwrap() }
    }

    #[test]
    fn a_short_range_is_one_piece_and_a_long_one_ends_at_boundaries() {
        const GIB: u64 = 1 << 30;
        for (offset, length, done, expected) in [
            (0, 0, 0, (0, 0)),
            (7, 1, 0, (7, 1)),
            (7, 1, 1, (8, 0)),
            (0, GIB, 0, (0, GIB)),
            (0, GIB + 1, 0, (0, GIB)),
            (0, GIB + 1, GIB, (GIB, 1)),
            (GIB - 1, 2, 0, (GIB - 1, 1)),
            (GIB - 1, 2, 1, (GIB, 1)),
        ] {
            let answer = decide_piece(range(offset, length), done, false);
            assert_eq!(answer, expected, "{offset} {length} {done}");
        }
    }

    proptest! {
        #[test]
        fn pieces_cover_the_range_in_order_and_once(
            offset in 0..1_u64 << 40, length in 0..1_u64 << 35, by_writing: bool
        ) {
            let length = if by_writing { length >> 10 } else { length };
            let whole = range(offset, length);
            let mut done_bytes = 0;
            while done_bytes < length {
                let (start, piece) = decide_piece(whole, done_bytes, by_writing);
                prop_assert_eq!(start, offset + done_bytes);
                prop_assert!(piece > 0);
                prop_assert!(!by_writing || piece <= 1 << 20);
                done_bytes += piece;
            }
            prop_assert_eq!(done_bytes, length);
        }
    }
}
