//! What nobody who writes a journal does to it: objects that are removed, frames that rot. A
//! recovery must refuse wherever later frames prove that something is missing, and never open a
//! shorter history without a word.

use super::recovering::Promise;
use super::world::{VOLUME, World};
use crate::format::frame::Frame;
use crate::format::seal::{Opener, Sealing};
use crate::recovery::error::{Damage, RecoveryError};
use crate::recovery::scan::MOST_IN_FLIGHT;
use crate::{Log, Recovery, RecoveryConfig, Step};
use crate::{Opened, Place, Record};

/// What was done to a journal, and what came of it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Damages {
    pub(super) removed_slots: u64,
    pub(super) rotten_frames: u64,
    pub(super) zeroed_slots: u64,
    /// Nothing could prove these: the end of the log was hit.
    pub(super) unprovable: u64,
}

impl Damages {
    pub(super) fn add(&mut self, other: &Self) {
        self.removed_slots += other.removed_slots;
        self.rotten_frames += other.rotten_frames;
        self.zeroed_slots += other.zeroed_slots;
        self.unprovable += other.unprovable;
    }
}

impl World {
    /// Open, work, crash, and then damage the journal: refused; repaired, nothing is lost; accepted,
    /// it opens once and for all.
    pub(super) fn live_damaged(&mut self, damages: &mut Damages) {
        let Ok(()) = self.recover_once(false).map(|opened| self.open(opened)) else {
            return self.violate("a fresh journal was refused");
        };
        self.work();
        if self.violation.is_some() {
            return;
        }
        let owner = &self.owners[0];
        let promise = Promise {
            cache: owner.cache,
            host: owner.host,
            epoch: owner.epoch,
            disk_lost: false,
            replicated: owner.journal.status().replicated,
        };
        self.kill();
        self.queue.clear();
        let frames = self.frames();
        let record = self.cluster.record().map(|bytes| Record::decode(&bytes).unwrap()).unwrap();
        let before = self.cluster.clone();
        let at = self.random.below(frames.len().max(1));
        let hit = match (self.random.below(3), frames.get(at)) {
            (0, _) | (_, None) => {
                let slot = self.random.below(self.cluster.slots());
                self.cluster.remove(slot);
                damages.removed_slots += 1;
                self.must_refuse(|damage| {
                    matches!(damage, Damage::Slots { slot: found, slots: 1, .. }
                        if usize::try_from(found) == Ok(slot))
                });
                return self.after_damage(before, promise);
            }
            (1, Some((place, _))) => {
                let slot = self.cluster.slot_mut(usize::try_from(place.slot).unwrap());
                slot[usize::try_from(place.offset).unwrap() + self.random.below(90)] ^= 0x10;
                at..at + 1
            }
            (_, Some((place, _))) => {
                let all = frames.iter().enumerate();
                let same: Vec<usize> = all
                    .filter(|(_, (other, _))| other.slot == place.slot)
                    .map(|(index, _)| index)
                    .collect();
                let hit = same[0]..same[same.len() - 1] + 1;
                if hit.len() != same.len() {
                    return; // it holds both ends of the log
                }
                self.cluster.slot_mut(usize::try_from(place.slot).unwrap()).fill(0);
                hit
            }
        };
        let whole_slot = hit.len() > 1;
        let later = u64::try_from(frames.len() - hit.end).unwrap();
        let (_, (_, last)) = frames[hit.start];
        if later >= MOST_IN_FLIGHT || last <= record.durable {
            damages.zeroed_slots += u64::from(whole_slot);
            damages.rotten_frames += u64::from(!whole_slot);
            let (_, (first, _)) = frames[hit.start];
            self.must_refuse(
                |damage| matches!(damage, Damage::Gap { missing, .. } if missing == first),
            );
            self.after_damage(before, promise);
        } else {
            damages.unprovable += 1;
        }
    }

    fn must_refuse(&mut self, is_named: impl Fn(Damage) -> bool) {
        match self.recover_once(false) {
            Err(RecoveryError::Damaged(damage)) if is_named(damage) => {}
            other => self.violate(&format!("damage was not refused: {other:?}")),
        }
    }

    fn after_damage(&mut self, before: super::devices::Cluster, promise: Promise) {
        if self.violation.is_some() {
            return;
        }
        if self.random.chance(50) {
            // The volume is no prefix then: the image has some of what followed the gap.
            let opened = self.recover_once(true);
            if opened.is_err() || self.recover_once(false).is_err() {
                self.violate("accepted damage was refused");
            }
            return;
        }
        // Whoever brings the object back loses nothing: a refusal changes nothing that is needed.
        self.cluster.mend(before);
        match self.recover_once(false) {
            Ok(_) => self.check(promise),
            Err(error) => self.violate(&format!("a repaired journal was refused: {error}")),
        }
    }

    fn recover_once(&mut self, accept_damage: bool) -> Result<Opened, RecoveryError> {
        let sealing = self.new_sealing();
        let mut recovery = Recovery::new(RecoveryConfig {
            volume: VOLUME,
            ring: self.config.ring,
            local: self.local,
            max_held_bytes: self.config.max_held_bytes / 4,
            accept_damage,
        })
        .expect("the settings are sound")
        .sealed(sealing);
        loop {
            match recovery.step() {
                Step::Open(opened) => return Ok(opened),
                step => {
                    let answer = self.take(step, self.here, recovery.epoch());
                    recovery.answer(answer)?;
                }
            }
        }
    }

    /// The frames that a scan must find, by a walk of its own: where they are, and their batches.
    fn frames(&self) -> Vec<(Place, (u64, u64))> {
        let Some(bytes) = self.cluster.record() else { return Vec::new() };
        let record = Record::decode(&bytes).unwrap();
        let mut opener =
            self.sealing.as_ref().map(|sealing: &Sealing| Opener::new(sealing, Log::Cluster));
        let (mut found, mut position, mut expected) = (Vec::new(), record.tail, record.first);
        while position < record.tail + record.ring.capacity_bytes() {
            let place = record.ring.place(position);
            let slot = self.cluster.read_slot(place.slot);
            let rest = &slot[usize::try_from(place.offset).unwrap()..];
            let frame = match &mut opener {
                Some(opener) => Frame::open(rest, VOLUME, opener),
                None => Frame::decode(rest, VOLUME),
            };
            match frame {
                Ok(frame) if frame.epoch == record.written_by && frame.first == expected => {
                    found.push((place, frame.sequences()));
                    position += frame.length_bytes();
                    expected = frame.last + 1;
                }
                _ if place.offset > 0 => position = record.ring.next_segment(position),
                _ => break,
            }
        }
        found
    }
}
