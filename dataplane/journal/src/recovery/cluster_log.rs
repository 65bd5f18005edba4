//! The journal in the cluster: claiming it, finding its frames, and telling its end from damage.

use std::collections::VecDeque;

use crate::format::error::FormatError;
use crate::format::ids::Log;
use crate::format::record::Record;
use crate::format::ring::Segment;
use crate::format::seal::{Sealing, require_fit};
use crate::recovery::error::{Damage, RecoveryError, SlotFault};
use crate::recovery::scan::{Beyond, Continuity, Scanner};
use crate::recovery::state::{Next, Recovery, Stage, replay};

/// Two takeovers at once raise the record in turn; one that loses so often gives up.
const MAX_CLAIMS: u32 = 16;

impl Recovery {
    pub(super) fn claim(&mut self, bytes: Option<&[u8]>) -> Result<Stage, RecoveryError> {
        let found = bytes.map(Record::decode).transpose().map_err(RecoveryError::Record)?;
        if let Some(other) = found.filter(|record| record.volume != self.config.volume) {
            return Err(RecoveryError::Record(FormatError::OtherVolume(other.volume)));
        }
        let fresh = self.sealed_record(self.config.ring);
        let record = found.unwrap_or(fresh);
        let fits = require_fit(&record, self.sealing.as_ref());
        fits.map_err(|mismatch| RecoveryError::Seal { log: Log::Cluster, mismatch })?;
        self.claims += 1;
        if self.claims > MAX_CLAIMS {
            return Err(RecoveryError::Overtaken(record.epoch));
        }
        Ok(Stage::Claim(found, Record { epoch: record.epoch.next(), ..record }))
    }

    /// The record is ours: the old owner frees nothing any more. The slots are next.
    pub(super) fn claimed(&mut self, record: Record) -> Stage {
        // Frames of this owner must not pass for those of any before (INV-2).
        debug_assert!(record.epoch > record.opened && record.epoch > record.written_by);
        self.record = record;
        self.last = record.first - 1;
        let key = |sealing: &Sealing| sealing.frame_key(Log::Cluster, record.volume, record.epoch);
        self.frame_key = self.sealing.as_ref().map(key);
        self.scanner = Some(self.scanner(record, Log::Cluster, Continuity::Unbroken));
        Stage::Fence
    }

    pub(super) fn scanned(&mut self, bytes: &[u8]) -> Result<Stage, RecoveryError> {
        let Some(scanner) = &mut self.scanner else { return Err(RecoveryError::Protocol) };
        let mut frames = Vec::new();
        scanner.feed(bytes, &mut frames);
        self.last = scanner.last();
        let more = scanner.segment().is_some();
        for frame in &frames {
            self.progress.frames += 1;
            self.progress.frame_bytes += frame.length_bytes();
            self.gather(frame);
        }
        if more {
            return Ok(if self.is_full() { replay(Next::MoreCluster) } else { Stage::Scan });
        }
        self.ended()
    }

    /// Where the scan ended, the log ends, unless something proves that it went on: then what is
    /// missing was durable, and to take the log for a short one would lose it silently.
    fn ended(&mut self) -> Result<Stage, RecoveryError> {
        let scanner = self.scanner.as_ref().ok_or(RecoveryError::Protocol)?;
        let beyond = scanner.beyond();
        if self.last < self.record.durable || beyond.proves_loss_of(self.last + 1) {
            return self.lost(beyond);
        }
        let unread = scanner.unread();
        Ok(if unread.is_empty() { replay(Next::ClusterDone) } else { Stage::LookAhead(unread) })
    }

    /// Every segment that was written to begins with a frame.
    pub(super) fn looked_ahead(
        &mut self,
        segments: &[Segment],
        heads: &[Vec<u8>],
    ) -> Result<Stage, RecoveryError> {
        let scanner = self.scanner.as_ref().ok_or(RecoveryError::Protocol)?;
        if heads.len() != segments.len() {
            return Err(RecoveryError::Protocol);
        }
        let seen = segments.iter().zip(heads);
        let beyond: VecDeque<(Segment, Beyond)> = seen
            .filter_map(|(segment, head)| Some((*segment, scanner.begins_beyond(head)?)))
            .collect();
        if let Some((_, seen)) = beyond.iter().find(|(_, seen)| seen.proves_loss_of(self.last + 1))
        {
            return self.lost(*seen);
        }
        // Frames that were in flight at the end, or of a version that did not tell what is durable.
        let segments: VecDeque<Segment> = beyond.into_iter().map(|(segment, _)| segment).collect();
        Ok(if segments.is_empty() { replay(Next::ClusterDone) } else { Stage::LookInto(segments) })
    }

    pub(super) fn looked_into(
        &mut self,
        mut segments: VecDeque<Segment>,
        bytes: &[u8],
    ) -> Result<Stage, RecoveryError> {
        let scanner = self.scanner.as_mut().ok_or(RecoveryError::Protocol)?;
        scanner.look_into(bytes);
        let beyond = scanner.beyond();
        if beyond.proves_loss_of(self.last + 1) {
            return self.lost(beyond);
        }
        segments.pop_front();
        Ok(if segments.is_empty() { replay(Next::ClusterDone) } else { Stage::LookInto(segments) })
    }

    /// Refuse, or go on without what is lost if that was accepted.
    fn lost(&mut self, beyond: Beyond) -> Result<Stage, RecoveryError> {
        let position = self.scanner.as_ref().map_or(self.record.tail, Scanner::gap);
        let damage = Damage::Gap {
            log: Log::Cluster,
            missing: self.last + 1,
            newest: beyond.newest.max(self.record.durable),
            place: self.record.ring.place(position),
        };
        self.give_up(damage)?;
        Ok(replay(Next::ClusterDone))
    }

    pub(super) fn judge_slots(&mut self, faulty: &[(u32, SlotFault)]) -> Result<(), RecoveryError> {
        let Some((slot, fault)) = faulty.iter().min().filter(|_| self.was_opened()) else {
            return Ok(());
        };
        let slots = u32::try_from(faulty.len()).unwrap_or(u32::MAX);
        self.give_up(Damage::Slots { slot: *slot, slots, fault: *fault })
    }
}
