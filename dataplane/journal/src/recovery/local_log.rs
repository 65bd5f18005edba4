//! The log on the host: whether it still counts, and shipping what only it has.

use std::sync::Arc;

use crate::format::frame::Frame;
use crate::format::ids::{Epoch, Log, VolumeId};
use crate::format::record::Record;
use crate::format::ring::Place;
use crate::format::seal::require_fit;
use crate::recovery::error::{Damage, RecoveryError};
use crate::recovery::scan::{Continuity, Scanner};
use crate::recovery::state::{Next, Recovery, Stage, replay};
use crate::recovery::step::Aside;
use crate::sabotage::Fault;

/// What to do with a log that lies on the host's own disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalLog {
    /// Its batches past the journal's end are acknowledged and must be shipped first.
    Ship,
    /// It may be overwritten: it holds nothing of this volume's last owner.
    Blank,
    /// It is of an owner whom another one followed: never replayed (INV-3), but kept and reported,
    /// since it may hold what was acknowledged and never shipped.
    SetAside {
        /// Whose it is.
        epoch: Epoch,
        /// Its volume.
        volume: VolumeId,
    },
}

/// Judge a local log by its record and the one in the cluster.
#[must_use]
pub fn decide_local_log(cluster: &Record, local: Option<&Record>) -> LocalLog {
    let Some(local) = local else { return LocalLog::Blank };
    let set_aside = LocalLog::SetAside { epoch: local.epoch, volume: local.volume };
    if local.volume != cluster.volume || local.epoch < cluster.opened {
        return set_aside;
    }
    // One above `opened` belongs to an opening that never finished, so it took no writes.
    if local.epoch == cluster.opened { LocalLog::Ship } else { LocalLog::Blank }
}

impl Recovery {
    pub(super) fn judge_local(&mut self, bytes: Option<&[u8]>) -> Result<Stage, RecoveryError> {
        let local = match bytes.map(Record::decode).transpose() {
            Ok(local) => local,
            Err(error) => return Ok(Stage::SetAside(Aside::Broken(error))),
        };
        let verdict = decide_local_log(&self.record, local.as_ref());
        Ok(match (verdict, local) {
            (LocalLog::SetAside { epoch, volume }, Some(_))
                if !self.sabotage.is(Fault::ShipOldLocal) =>
            {
                Stage::SetAside(Aside::Older { epoch, volume })
            }
            (LocalLog::Ship | LocalLog::SetAside { .. }, Some(local))
                if !self.sabotage.is(Fault::ForgetLocal) =>
            {
                let fits = require_fit(&local, self.sealing.as_ref());
                fits.map_err(|mismatch| RecoveryError::Seal { log: Log::Local, mismatch })?;
                self.scanner = Some(self.scanner(local, Log::Local, Continuity::Rising));
                Stage::ScanLocal
            }
            _ => Stage::ResetLocal,
        })
    }

    pub(super) fn scanned_local(&mut self, bytes: &[u8]) -> Result<Stage, RecoveryError> {
        let Some(scanner) = &mut self.scanner else { return Err(RecoveryError::Protocol) };
        let mut frames = Vec::new();
        scanner.feed(bytes, &mut frames);
        self.to_ship.extend(frames);
        self.next_to_ship()
    }

    fn next_to_ship(&mut self) -> Result<Stage, RecoveryError> {
        while self.to_ship.front().is_some_and(|frame| frame.last <= self.last) {
            self.to_ship.pop_front();
        }
        // A gap is a batch that was still being written: neither it nor what follows it was
        // acknowledged. What the log left out because the cluster had it is no gap here.
        let gap = |frame: &Frame| frame.first != self.last + 1;
        if self.to_ship.front().is_some_and(gap) && !self.sabotage.is(Fault::ShipOldLocal) {
            self.judge_gap()?;
            self.to_ship.clear();
            self.scanner = None;
        }
        self.ship()
    }

    /// A frame behind the gap that knew what is missing to be acknowledged proves damage.
    fn judge_gap(&mut self) -> Result<(), RecoveryError> {
        let missing = self.last + 1;
        let proof = self.to_ship.iter().find(|frame| frame.durable() >= missing);
        match proof.map(|frame| frame.last) {
            Some(newest) => self.lost_locally(newest),
            None => Ok(()),
        }
    }

    /// The same of what lies in a segment behind the last frame that was found.
    fn judge_local_end(&mut self) -> Result<(), RecoveryError> {
        let beyond = self.scanner.as_ref().map(Scanner::beyond).unwrap_or_default();
        let lost = beyond.durable > self.last && !self.sabotage.is(Fault::ShipOldLocal);
        if lost { self.lost_locally(beyond.newest) } else { Ok(()) }
    }

    fn lost_locally(&mut self, newest: u64) -> Result<(), RecoveryError> {
        let missing = self.last + 1;
        let ring = self.config.local.unwrap_or(self.config.ring);
        let position = self.scanner.as_ref().map_or(0, Scanner::gap);
        let (log, place) = (Log::Local, ring.place(position));
        self.give_up(Damage::Gap { log, missing, newest, place })
    }

    pub(super) fn ship(&mut self) -> Result<Stage, RecoveryError> {
        let Some(next) = self.to_ship.front() else {
            let more = self.scanner.as_ref().is_some_and(|scanner| scanner.segment().is_some());
            if more {
                return Ok(Stage::ScanLocal);
            }
            self.judge_local_end()?;
            return Ok(replay(Next::LocalDone));
        };
        // A batch that is left out here was acknowledged, and would be lost (INV-1).
        debug_assert!(next.first == self.last + 1 || self.sabotage.is_on());
        let owner = (self.record.volume, self.record.epoch);
        let align_bytes = self.record.ring.align_bytes;
        let extents = Arc::clone(&next.extents);
        let seal = self.frame_key.as_ref();
        let frame = Frame::new(owner, next.sequences(), extents, align_bytes, seal);
        let frame = frame.knowing(self.last);
        let room = if self.is_full() { None } else { self.log.reserve(frame.length_bytes()) };
        let Some(place) = room else { return Ok(replay(Next::MoreLocal)) };
        self.to_ship.pop_front();
        Ok(Stage::Append(frame, place))
    }

    pub(super) fn shipped(&mut self, frame: &Frame, place: Place) -> Result<Stage, RecoveryError> {
        debug_assert_eq!(self.log.head, place.position + frame.length_bytes());
        self.last = frame.last;
        self.progress.shipped_batches += 1;
        self.gather(frame);
        self.next_to_ship()
    }

    pub(super) fn new_local(&self) -> Record {
        let (epoch, first) = (self.record.epoch, self.last + 1);
        let ring = self.config.local.unwrap_or(self.config.ring);
        let durable = self.last;
        Record {
            epoch,
            opened: epoch,
            written_by: epoch,
            first,
            durable,
            ..self.sealed_record(ring)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::ring::Ring;

    const VOLUME: VolumeId = VolumeId([9; 16]);
    const RING: Ring = Ring { segment_bytes: 4 << 20, segments: 64, align_bytes: 4096 };

    fn record() -> Record {
        Record {
            epoch: Epoch(5),
            opened: Epoch(4),
            written_by: Epoch(3),
            ..Record::fresh(VOLUME, RING)
        }
    }

    #[test]
    fn a_local_log_counts_only_for_the_last_owner_that_took_writes() {
        let local = |epoch| Record { epoch: Epoch(epoch), ..Record::fresh(VOLUME, RING) };
        let decide = |epoch| decide_local_log(&record(), Some(&local(epoch)));
        assert_eq!(decide_local_log(&record(), None), LocalLog::Blank);
        assert_eq!(decide(3), LocalLog::SetAside { epoch: Epoch(3), volume: VOLUME });
        assert_eq!(decide(4), LocalLog::Ship);
        assert_eq!(decide(5), LocalLog::Blank);
        let volume = VolumeId([8; 16]);
        let foreign = Record { volume, ..local(4) };
        assert_eq!(
            decide_local_log(&record(), Some(&foreign)),
            LocalLog::SetAside { epoch: Epoch(4), volume }
        );
    }
}
