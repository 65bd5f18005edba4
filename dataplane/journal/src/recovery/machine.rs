//! The order of the steps: which one is next, and what follows from its answer.

use std::sync::Arc;

use crate::extent::content::Content;
use crate::extent::span::Span;
use crate::format::ids::Log;
use crate::format::record::Record;
use crate::journal::batch::Batch;
use crate::journal::opened::Opened;
use crate::recovery::error::RecoveryError;
use crate::recovery::scan::Scanner;
use crate::recovery::state::{Next, Part, Recovery, Stage};
use crate::recovery::step::{Answer, Step};
use crate::ring::space::LogSpace;
use crate::sabotage::Fault;

impl Recovery {
    /// The step to take now.
    #[must_use]
    pub fn step(&self) -> Step {
        match &self.stage {
            Stage::Read => Step::ReadRecord(Log::Cluster),
            Stage::Claim(expected, record) => {
                Step::SwapRecord { expected: *expected, record: *record }
            }
            Stage::Fence => Step::Fence {
                owner: self.record.owner(),
                mend: !self.was_opened() || self.config.accept_damage,
            },
            Stage::Scan => Step::ReadSlot(Log::Cluster, self.segment()),
            Stage::LookAhead(segments) => Step::ReadHeads(segments.clone()),
            Stage::LookInto(segments) => Step::ReadSlot(
                Log::Cluster,
                segments.front().copied().unwrap_or_else(|| self.segment()),
            ),
            Stage::Replay(Part::Apply, _) => Step::Apply(self.replayable()),
            Stage::Replay(Part::Flush, _) => Step::FlushImage,
            Stage::Replay(Part::Record, next) => {
                Step::SwapRecord { expected: Some(self.record), record: self.trimmed(*next) }
            }
            Stage::ReadLocal => Step::ReadRecord(Log::Local),
            Stage::SetAside(why) => Step::SetLocalAside(*why),
            Stage::ScanLocal => Step::ReadSlot(Log::Local, self.segment()),
            Stage::Append(frame, place) => Step::Append { frame: frame.clone(), place: *place },
            Stage::ResetLocal => Step::WriteLocalRecord(self.new_local()),
            Stage::Open(record) => {
                Step::SwapRecord { expected: Some(self.record), record: *record }
            }
            Stage::Opened => Step::Open(Opened {
                record: self.record,
                local: self.local,
                size_bytes: self.size_bytes,
            }),
            Stage::Stopped(error) => Step::Stop(*error),
        }
    }

    /// Take in the answer to the step.
    ///
    /// # Errors
    /// [`RecoveryError`]; the recovery is over then, and can be begun anew.
    pub fn answer(&mut self, answer: Answer) -> Result<(), RecoveryError> {
        let unanswerable = Stage::Stopped(RecoveryError::Protocol);
        let stage = std::mem::replace(&mut self.stage, unanswerable);
        let next = self.follow(stage, answer);
        self.stage = next.unwrap_or_else(Stage::Stopped);
        if let Stage::Stopped(error) = self.stage { Err(error) } else { Ok(()) }
    }

    fn follow(&mut self, stage: Stage, answer: Answer) -> Result<Stage, RecoveryError> {
        Ok(match (stage, answer) {
            (_, Answer::Failed(failure)) => return Err(RecoveryError::Io(failure)),
            (Stage::Read, Answer::Record(bytes)) => self.claim(bytes.as_deref())?,
            (Stage::Claim(..), Answer::Swapped(false)) => Stage::Read,
            (Stage::Claim(_, record), Answer::Swapped(true)) => self.claimed(record),
            (Stage::Fence, Answer::Fenced { size_bytes, faulty }) => {
                self.size_bytes = size_bytes;
                self.judge_slots(&faulty)?;
                Stage::Scan
            }
            (Stage::Scan, Answer::Slot(bytes)) => self.scanned(&bytes)?,
            (Stage::LookAhead(segments), Answer::Heads(heads)) => {
                self.looked_ahead(&segments, &heads)?
            }
            (Stage::LookInto(segments), Answer::Slot(bytes)) => {
                self.looked_into(segments, &bytes)?
            }
            (Stage::Replay(Part::Apply, next), Answer::Done) => self.replayed(next),
            (Stage::Replay(Part::Flush, next), Answer::Done) => Stage::Replay(Part::Record, next),
            (Stage::Replay(Part::Record, next), Answer::Swapped(true)) => {
                // The log is freed of what it held: all of that is in the image by now (INV-1).
                debug_assert!(self.gathered.is_empty());
                self.record = self.trimmed(next);
                self.log = LogSpace::empty_at(self.record.ring, self.record.tail);
                self.freed(next)?
            }
            (Stage::Open(record), Answer::Swapped(true)) => {
                self.record = record;
                Stage::Opened
            }
            (Stage::Replay(Part::Record, _) | Stage::Open(_), Answer::Swapped(false)) => {
                return Err(RecoveryError::Overtaken(self.record.epoch));
            }
            (Stage::ReadLocal, Answer::Record(bytes)) => self.judge_local(bytes.as_deref())?,
            (Stage::SetAside(why), Answer::Done) => {
                self.progress.set_aside = Some(why);
                Stage::ResetLocal
            }
            (Stage::ScanLocal, Answer::Slot(bytes)) => self.scanned_local(&bytes)?,
            (Stage::Append(frame, place), Answer::Done) => self.shipped(&frame, place)?,
            (Stage::ResetLocal, Answer::Done) => {
                self.local = Some(self.new_local());
                self.open()
            }
            _ => return Err(RecoveryError::Protocol),
        })
    }

    /// What was gathered, as far as the image reaches.
    fn replayable(&self) -> Arc<[(Span, Content)]> {
        let image = Span::between(0, self.size_bytes);
        let clip = |(span, content): &(Span, Content)| {
            let within = span.intersection(image)?;
            Some((within, content.slice(within.start() - span.start(), within.length())))
        };
        self.gathered.extents().iter().filter_map(clip).collect()
    }

    fn replayed(&mut self, next: Next) -> Stage {
        self.gathered = Batch::default();
        match next {
            Next::MoreCluster => Stage::Scan,
            _ if self.sabotage.is(Fault::RecoverUnflushed) => Stage::Replay(Part::Record, next),
            _ => Stage::Replay(Part::Flush, next),
        }
    }

    /// The record when all that was found is in the image. New frames begin a segment of their
    /// own and carry this epoch, so nothing behind them can be taken for theirs; and they are put
    /// as this version does it.
    fn trimmed(&self, next: Next) -> Record {
        let tail = if let Next::ClusterDone = next {
            let end = self.scanner.as_ref().map_or(self.record.tail, Scanner::position);
            self.record.ring.next_segment(end)
        } else {
            self.log.head
        };
        Record {
            written_by: self.record.epoch,
            tail,
            first: self.last + 1,
            durable: self.last,
            keyed: true,
            ..self.record
        }
    }

    fn freed(&mut self, next: Next) -> Result<Stage, RecoveryError> {
        Ok(match next {
            Next::MoreCluster => Stage::Scan,
            Next::ClusterDone if self.config.local.is_some() => Stage::ReadLocal,
            Next::ClusterDone => self.open(),
            Next::MoreLocal => return self.ship(),
            Next::LocalDone => Stage::ResetLocal,
        })
    }

    fn open(&self) -> Stage {
        Stage::Open(Record { opened: self.record.epoch, ..self.record })
    }
}
