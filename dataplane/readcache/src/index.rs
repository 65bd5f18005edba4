//! Which block lies in which slot of the file; what is admitted, and what makes room for it.
//!
//! No I/O happens here. A newcomer is admitted while there is a free slot; after that only if it
//! was asked for more often lately than the block it would push out. That one is found by a hand
//! that goes round the slots and passes over those that were hit since its last visit.
//!
//! Only one thread calls [`Index::reserve`]: a slot that was given up stays as it is until that
//! thread reserves it again, so nothing is written under a reader that the reader would not see by
//! the slot's serial.

use std::collections::HashMap;
use std::ops::Range;

use crate::frequency::{Frequencies, mix};
use crate::proofs::Proofs;
use crate::sectors::{SECTOR_BYTES, Sectors};

/// Blocks share them: one that is bumped bars fills of a few others too, which does no harm.
const GENERATIONS: usize = 1 << 16;
/// Blocks hit since the hand's last visit that it passes over at most, to bound its time.
const MAX_STEPS: u32 = 64;

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// The block it holds; means nothing while it is free.
    block: u64,
    /// Changed whenever what lies in the slot no longer is what it was.
    serial: u32,
    /// Which sectors of the block are in it.
    valid: u32,
    /// Hit since the hand came by.
    hit: bool,
    used: bool,
}

impl Slot {
    /// Whether it still holds what `place` is about.
    fn has(&self, place: Place) -> bool {
        self.used && self.serial == place.serial && self.block == place.sectors.block
    }
}

/// Where sectors lie in the file, as long as the slot's serial is this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) slot: u32,
    pub(crate) sectors: Sectors,
    serial: u32,
}

/// The state of a block when it was read from below. What was read is of no use any more when
/// the block was changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generation(u32);

/// What was read from the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// What was asked for.
    Sound,
    /// Something else: the block left the slot meanwhile.
    Moved,
    /// Not what was written there. The block is gone from the index.
    Rotten,
}

/// Whether there is work to do for a fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reservation {
    /// Write it here. `evicted`: something was pushed out for it.
    Write { place: Place, evicted: bool },
    /// It is there already.
    There,
    /// The block was changed since it was read.
    Barred,
    /// It is not worth what it would push out.
    Refused,
}

/// The index of one cache.
#[derive(Debug)]
pub(crate) struct Index {
    slots: Box<[Slot]>,
    /// Of each sector of each slot.
    proofs: Proofs,
    sectors_per_block: u32,
    by_block: HashMap<u64, u32>,
    free: Vec<u32>,
    hand: u32,
    frequencies: Frequencies,
    generations: Box<[u32]>,
}

impl Index {
    /// `sealed`: what it proves its sectors by.
    pub(crate) fn new(slots: u32, block_bytes: u32, sealed: bool) -> Self {
        let sectors_per_block = (block_bytes / SECTOR_BYTES).max(1);
        let count = length(slots);
        Self {
            slots: vec![Slot::default(); count].into_boxed_slice(),
            proofs: Proofs::none(count * length(sectors_per_block), sealed),
            sectors_per_block,
            by_block: HashMap::with_capacity(count),
            free: (0..slots).rev().collect(),
            hand: 0,
            frequencies: Frequencies::new(slots),
            generations: vec![0; GENERATIONS].into_boxed_slice(),
        }
    }

    /// Blocks that are in the cache, at least in part.
    pub(crate) fn used_slots(&self) -> usize {
        self.by_block.len()
    }

    /// Blocks that come in without pushing another one out.
    pub(crate) fn free_slots(&self) -> usize {
        self.free.len()
    }

    /// How many of `blocks` have no slot.
    pub(crate) fn count_missing(&self, blocks: Range<u64>) -> usize {
        blocks.filter(|block| !self.by_block.contains_key(block)).count()
    }

    /// Whether all of the sectors are here.
    pub(crate) fn holds(&self, sectors: Sectors) -> bool {
        let slot = self.by_block.get(&sectors.block).and_then(|slot| self.slots.get(length(*slot)));
        slot.is_some_and(|held| held.valid & sectors.mask() == sectors.mask())
    }

    /// Count a request for `block`, whether it is there or not.
    pub(crate) fn note(&mut self, block: u64) {
        self.frequencies.note(block);
    }

    /// Whether `block` is in the cache, or was asked for lately.
    pub(crate) fn is_read(&self, block: u64) -> bool {
        self.by_block.contains_key(&block) || self.frequencies.estimate(block) > 0
    }

    /// Where the sectors are; None unless all of them are there.
    pub(crate) fn find(&mut self, sectors: Sectors) -> Option<Place> {
        let slot = *self.by_block.get(&sectors.block)?;
        let held = self.slots.get_mut(length(slot))?;
        if held.valid & sectors.mask() != sectors.mask() {
            return None;
        }
        held.hit = true;
        Some(Place { slot, sectors, serial: held.serial })
    }

    /// What was kept of what lies at `place`; None when it is not there any more.
    pub(crate) fn proofs(&mut self, place: Place) -> Option<Proofs> {
        let range = self.proof_range(place);
        self.held(place)?;
        self.proofs.part(range)
    }

    /// Judge what was read at `place` by the proofs of its sectors.
    pub(crate) fn judge(&mut self, place: Place, proofs: &Proofs) -> Verdict {
        if self.held(place).is_none() {
            return Verdict::Moved;
        }
        if self.proofs.has(self.proof_range(place), proofs) {
            return Verdict::Sound;
        }
        self.forget(place.sectors.block);
        Verdict::Rotten
    }

    pub(crate) fn generation(&self, block: u64) -> Generation {
        let generation = self.generations.get(generation_at(block));
        Generation(generation.copied().unwrap_or_default())
    }

    /// `sectors` are being changed, or were: they are not answered any more, and what was read of
    /// their block before does not come in. Its other sectors stay: a file system may place pages
    /// across blocks, and each that is written would take parts of two others with it. Whether
    /// the block was here.
    pub(crate) fn invalidate_part(&mut self, sectors: Sectors) -> bool {
        self.bump(sectors.block);
        let Some(slot) = self.by_block.get(&sectors.block) else { return false };
        if let Some(held) = self.slots.get_mut(length(*slot)) {
            held.valid &= !sectors.mask();
            // Also when they were not valid: they may be on their way into the file.
            held.serial = held.serial.wrapping_add(1);
            if held.valid != 0 {
                return true;
            }
        }
        self.forget(sectors.block);
        true
    }

    /// `blocks` are being changed, or were: what the cache has of them is not asked for any more,
    /// and what was read of them before does not come in.
    pub(crate) fn invalidate(&mut self, blocks: Range<u64>) -> u64 {
        let count = blocks.end.saturating_sub(blocks.start);
        if count >= u64::try_from(GENERATIONS).unwrap_or(u64::MAX) {
            self.generations.iter_mut().for_each(|number| *number = number.wrapping_add(1));
        } else {
            for block in blocks.clone() {
                self.bump(block);
            }
        }
        let before = self.by_block.len();
        if count > u64::try_from(before).unwrap_or(u64::MAX) {
            let held = |block: &&u64| blocks.contains(block);
            let found: Vec<u64> = self.by_block.keys().filter(held).copied().collect();
            for block in found {
                self.forget(block);
            }
        } else {
            for block in blocks {
                self.forget(block);
            }
        }
        u64::try_from(before - self.by_block.len()).unwrap_or(u64::MAX)
    }

    /// Whether a fill of `block` is worth the copy of its bytes; [`Index::reserve`] asks again.
    pub(crate) fn wants(&mut self, block: u64, generation: Generation) -> bool {
        self.generation(block) == generation
            && (self.by_block.contains_key(&block) || !self.free.is_empty() || self.beats(block))
    }

    /// Whether `block` is worth more than what the hand points to. If not, that one is left in
    /// peace for a while.
    fn beats(&mut self, block: u64) -> bool {
        let victim = self.point();
        let theirs = self.slots.get(length(victim)).map_or(0, |slot| slot.block);
        let wins = self.frequencies.estimate(block) > self.frequencies.estimate(theirs);
        if !wins {
            self.advance();
        }
        wins
    }

    /// Move the hand on to a slot that was not hit since it came by last.
    fn point(&mut self) -> u32 {
        for _ in 0..MAX_STEPS {
            match self.slots.get_mut(length(self.hand)) {
                Some(slot) if slot.hit => slot.hit = false,
                _ => break,
            }
            self.advance();
        }
        self.hand
    }

    fn advance(&mut self) {
        self.hand += 1;
        if length(self.hand) >= self.slots.len() {
            self.hand = 0;
        }
    }

    /// Room for sectors that were read in `generation`.
    pub(crate) fn reserve(&mut self, sectors: Sectors, generation: Generation) -> Reservation {
        let block = sectors.block;
        if self.generation(block) != generation {
            return Reservation::Barred;
        }
        let mut evicted = false;
        let slot = if let Some(slot) = self.by_block.get(&block) {
            *slot
        } else {
            if self.free.is_empty() {
                if !self.beats(block) {
                    return Reservation::Refused;
                }
                if let Some(victim) = self.slots.get(length(self.hand)).map(|slot| slot.block) {
                    self.forget(victim);
                }
                self.advance();
                evicted = true;
            }
            // There is one: it was there, or was made above.
            let Some(slot) = self.free.pop() else { return Reservation::Refused };
            self.by_block.insert(block, slot);
            if let Some(slot) = self.slots.get_mut(length(slot)) {
                *slot = Slot { block, used: true, ..*slot };
            }
            slot
        };
        let Some(held) = self.slots.get_mut(length(slot)) else { return Reservation::Refused };
        if held.valid & sectors.mask() == sectors.mask() {
            return Reservation::There;
        }
        if held.valid & sectors.mask() != 0 {
            // Some are there already and are about to be written over: whoever reads them now
            // cannot know what it gets.
            held.valid &= !sectors.mask();
            held.serial = held.serial.wrapping_add(1);
        }
        Reservation::Write { place: Place { slot, sectors, serial: held.serial }, evicted }
    }

    /// Whether `place` is still what it was reserved for.
    pub(crate) fn is_held(&self, place: Place) -> bool {
        self.slots.get(length(place.slot)).is_some_and(|slot| slot.has(place))
    }

    /// What [`Index::reserve`] asked for is written: whether it counts. It does not when the block
    /// was changed meanwhile.
    pub(crate) fn publish(&mut self, place: Place, proofs: &Proofs) -> bool {
        let range = self.proof_range(place);
        let Some(held) = self.held(place) else { return false };
        held.valid |= place.sectors.mask();
        self.proofs.put(range, proofs);
        true
    }

    /// The slot of `place` while it still holds what `place` is about.
    fn held(&mut self, place: Place) -> Option<&mut Slot> {
        self.slots.get_mut(length(place.slot)).filter(|slot| slot.has(place))
    }

    fn bump(&mut self, block: u64) {
        if let Some(number) = self.generations.get_mut(generation_at(block)) {
            *number = number.wrapping_add(1);
        }
    }

    fn forget(&mut self, block: u64) {
        let Some(slot) = self.by_block.remove(&block) else { return };
        if let Some(held) = self.slots.get_mut(length(slot)) {
            *held = Slot { serial: held.serial.wrapping_add(1), ..Slot::default() };
        }
        self.free.push(slot);
    }

    fn proof_range(&self, place: Place) -> Range<usize> {
        let first =
            length(place.slot) * length(self.sectors_per_block) + length(place.sectors.first);
        first..first + length(place.sectors.count)
    }
}

fn generation_at(block: u64) -> usize {
    usize::try_from(mix(block)).unwrap_or_default() % GENERATIONS
}

fn length(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
