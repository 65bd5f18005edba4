//! What tells that sectors came back from the file as they were written: a checksum of each, or,
//! where the file holds sealed bytes, a seal. It is kept in memory.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use grampus_sealing::{Key, Tag};

use crate::sectors::SECTOR_BYTES;

/// What is kept of one sealed sector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seal {
    nonce: u64,
    tag: Tag,
}

/// Of each of some sectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Proofs {
    /// CRC-32C of what was written.
    Checksums(Box<[u32]>),
    /// Of what was sealed.
    Seals(Box<[Seal]>),
}

impl Proofs {
    /// Of so many sectors that hold nothing yet.
    pub(crate) fn none(sectors: usize, sealed: bool) -> Self {
        if sealed {
            Self::Seals(vec![Seal::default(); sectors].into_boxed_slice())
        } else {
            Self::Checksums(vec![0; sectors].into_boxed_slice())
        }
    }

    /// Memory for each sector.
    pub(crate) fn bytes_per_sector(sealed: bool) -> u64 {
        if sealed { 24 } else { 4 }
    }

    /// Those of some of the sectors.
    pub(crate) fn part(&self, range: Range<usize>) -> Option<Self> {
        Some(match self {
            Self::Checksums(all) => Self::Checksums(all.get(range)?.into()),
            Self::Seals(all) => Self::Seals(all.get(range)?.into()),
        })
    }

    /// Whether those of some of the sectors are these.
    pub(crate) fn has(&self, range: Range<usize>, these: &Self) -> bool {
        match (self, these) {
            (Self::Checksums(all), Self::Checksums(these)) => all.get(range) == Some(these),
            (Self::Seals(all), Self::Seals(these)) => all.get(range) == Some(these),
            _ => false,
        }
    }

    /// Take those of some of the sectors in.
    pub(crate) fn put(&mut self, range: Range<usize>, new: &Self) {
        match (self, new) {
            (Self::Checksums(all), Self::Checksums(new)) => replace(all, range, new),
            (Self::Seals(all), Self::Seals(new)) => replace(all, range, new),
            _ => {} // one cache has one kind
        }
    }
}

fn replace<T: Copy>(all: &mut [T], range: Range<usize>, new: &[T]) {
    if let Some(kept) = all.get_mut(range).filter(|kept| kept.len() == new.len()) {
        kept.copy_from_slice(new);
    }
}

/// How a cache proves its sectors.
#[derive(Debug)]
pub(crate) struct Prover {
    key: Option<Arc<Key>>,
    /// Each seal takes one; the key is of this cache alone, so no nonce comes twice.
    next_nonce: AtomicU64,
}

impl Prover {
    /// With a key that seals nothing else.
    pub(crate) fn new(key: Option<Arc<Key>>) -> Self {
        Self { key, next_nonce: AtomicU64::new(0) }
    }

    pub(crate) fn is_sealing(&self) -> bool {
        self.key.is_some()
    }

    /// Make `bytes`, whole sectors, what is written to the file.
    pub(crate) fn prepare(&self, bytes: &mut [u8]) -> Proofs {
        let Some(key) = &self.key else { return checksums(bytes) };
        let seal = |sector: &mut [u8]| {
            let nonce = self.next_nonce.fetch_add(1, Ordering::Relaxed);
            Seal { nonce, tag: key.seal(nonce, &[], sector) }
        };
        Proofs::Seals(bytes.chunks_mut(sector_bytes()).map(seal).collect())
    }

    /// Make `bytes`, as they came from the file, what was to be kept, by the seals that were kept
    /// of them, if it seals. What they prove to be.
    pub(crate) fn restore(&self, bytes: &mut [u8], kept: Option<Proofs>) -> Proofs {
        let (Some(key), Some(kept)) = (&self.key, kept) else { return checksums(bytes) };
        let Proofs::Seals(seals) = &kept else { return kept };
        let sectors = bytes.chunks_mut(sector_bytes());
        let is_whole = sectors.len() == seals.len();
        let open = |(sector, seal): (&mut [u8], &Seal)| {
            key.open(seal.nonce, &[], sector, &seal.tag).is_ok()
        };
        if is_whole && sectors.zip(seals).all(open) { kept } else { Proofs::none(0, true) }
    }
}

fn sector_bytes() -> usize {
    usize::try_from(SECTOR_BYTES).unwrap_or(usize::MAX)
}

fn checksums(bytes: &[u8]) -> Proofs {
    Proofs::Checksums(bytes.chunks(sector_bytes()).map(crc32c::crc32c).collect())
}

#[cfg(test)]
mod tests {
    use grampus_sealing::{Secret, Use};

    use super::*;

    fn provers() -> [Prover; 2] {
        let secret = Secret::parse(&[b'3'; 64]).unwrap();
        let key = secret.key(Use::ReadCache, &[8; 16], &[]);
        [Prover::new(None), Prover::new(Some(Arc::new(key)))]
    }

    #[test]
    fn what_was_kept_comes_back_and_nothing_else() {
        for prover in provers() {
            let plain: Vec<u8> = (0..=250).cycle().take(3 * 4096).collect();
            let mut kept = plain.clone();
            let proofs = prover.prepare(&mut kept);
            assert_eq!(kept == plain, !prover.is_sealing());
            let mut all = Proofs::none(8, prover.is_sealing());
            all.put(4..7, &proofs);
            assert_eq!(all.part(4..7).as_ref(), Some(&proofs));
            assert_eq!(all.part(6..9), None);
            assert!(all.has(4..7, &proofs) && !all.has(3..6, &proofs) && !all.has(6..9, &proofs));
            let asked = prover.is_sealing().then(|| proofs.clone());
            let check = |mut bytes: Vec<u8>| {
                let found = prover.restore(&mut bytes, asked.clone());
                (found == proofs).then_some(bytes)
            };
            for at in [0, 5000, 12_287] {
                let mut rotten = kept.clone();
                rotten[at] ^= 1;
                assert_eq!(check(rotten), None, "{at}");
            }
            let moved = [&kept[4096..8192], &kept[..4096], &kept[8192..]].concat();
            assert_eq!(check(moved), None, "two sectors that changed places");
            assert_eq!(check(kept[..4096].to_vec()), None);
            assert_eq!(check(kept), Some(plain));
        }
    }

    #[test]
    fn the_same_bytes_are_sealed_in_another_way_each_time() {
        let [_, prover] = provers();
        let (mut one, mut two) = ([7; 4096], [7; 4096]);
        assert_ne!(prover.prepare(&mut one), prover.prepare(&mut two));
        assert_ne!(one, two);
    }
}
