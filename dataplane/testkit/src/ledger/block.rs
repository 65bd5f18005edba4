//! Blocks that say what they are.
//!
//! Each of a block's eight sectors begins with a header: magic, run, block number and sequence,
//! little-endian 64-bit numbers each; what follows is random bytes that these four determine. The
//! block's last four bytes are the CRC-32C of all before. A block put together from two versions
//! fails its checksum, and its sectors say which versions.

use crate::random::Random;

/// A block's size, and the least that a device must write whole or not at all.
pub const BLOCK_BYTES: usize = 4096;
const SECTOR_BYTES: usize = 512;
const MAGIC: u64 = u64::from_le_bytes(*b"GrLedger");

/// What a block says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockContent {
    /// One version, whole.
    Whole {
        /// The run that wrote it.
        run: u64,
        /// The block that it was written for.
        block: u64,
        /// Its version.
        sequence: u64,
    },
    /// Parts of several versions: the version that each sector names, if it names one.
    Torn {
        /// By sector.
        sequences: Vec<Option<u64>>,
    },
    /// Nothing of any ledger.
    Foreign,
}

/// Make version `sequence` of `block`; `into` is [`BLOCK_BYTES`] long.
pub fn fill_block(into: &mut [u8], run: u64, block: u64, sequence: u64) {
    let mut random = Random::of_stream(run ^ block.rotate_left(32), sequence);
    for sector in into.chunks_mut(SECTOR_BYTES) {
        random.fill(sector);
        let header = [MAGIC, run, block, sequence];
        for (to, from) in sector.chunks_mut(8).zip(header) {
            to.copy_from_slice(&from.to_le_bytes());
        }
    }
    if let Some((body, sum)) = into.split_last_chunk_mut::<4>() {
        *sum = crc32c::crc32c(body).to_le_bytes();
    }
}

/// What `bytes`, a block, hold.
#[must_use]
pub fn read_block(bytes: &[u8]) -> BlockContent {
    let headers: Vec<_> = bytes.chunks(SECTOR_BYTES).map(read_header).collect();
    if headers.iter().all(Option::is_none) {
        return BlockContent::Foreign;
    }
    if let (Some(Some([_, run, block, sequence])), true) = (headers.first(), is_whole(bytes)) {
        return BlockContent::Whole { run: *run, block: *block, sequence: *sequence };
    }
    let sequence_of = |header: &Option<[u64; 4]>| header.map(|[_, _, _, sequence]| sequence);
    BlockContent::Torn { sequences: headers.iter().map(sequence_of).collect() }
}

fn is_whole(bytes: &[u8]) -> bool {
    bytes.len() == BLOCK_BYTES
        && bytes
            .split_last_chunk::<4>()
            .is_some_and(|(body, sum)| crc32c::crc32c(body) == u32::from_le_bytes(*sum))
}

fn read_header(sector: &[u8]) -> Option<[u64; 4]> {
    let mut header = [0; 4];
    for (number, bytes) in header.iter_mut().zip(sector.chunks_exact(8)) {
        *number = u64::from_le_bytes(bytes.try_into().ok()?);
    }
    let [magic, ..] = header;
    (magic == MAGIC).then_some(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(sequence: u64) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK_BYTES];
        fill_block(&mut bytes, 7, 3, sequence);
        bytes
    }

    #[test]
    fn a_block_says_what_it_is() {
        assert_eq!(read_block(&block(9)), BlockContent::Whole { run: 7, block: 3, sequence: 9 });
        assert_ne!(block(9), block(10));
    }

    #[test]
    fn every_tear_is_seen_at_every_sector() {
        for sector in 1..8 {
            let mut bytes = block(9);
            bytes[sector * SECTOR_BYTES..].copy_from_slice(&block(10)[sector * SECTOR_BYTES..]);
            let BlockContent::Torn { sequences } = read_block(&bytes) else { panic!("not seen") };
            assert_eq!(sequences[sector - 1..=sector], [Some(9), Some(10)]);
        }
    }

    #[test]
    fn a_changed_bit_anywhere_is_seen() {
        for at in [0, 8, 20, 31, 32, 511, 512, 2000, 4091, 4092, 4095] {
            let mut bytes = block(9);
            bytes[at] ^= 4;
            assert!(matches!(read_block(&bytes), BlockContent::Torn { .. }), "{at}");
        }
    }

    #[test]
    fn zeros_and_others_bytes_are_foreign_and_half_a_block_is_torn() {
        assert_eq!(read_block(&[0; BLOCK_BYTES]), BlockContent::Foreign);
        assert_eq!(read_block(&[0x47; BLOCK_BYTES]), BlockContent::Foreign);
        let mut bytes = block(9);
        bytes[2048..].fill(0);
        assert!(matches!(read_block(&bytes), BlockContent::Torn { .. }));
    }
}
