//! Opening a volume: fence, replay, ship what only the host has, open (INV-2, INV-3).
//!
//! Stopped at any step it can be begun again from the start: frames are not freed before what they
//! carry is durable in the image, and a local log not before it is durable in the cluster.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::batch::Batch;
use crate::content::Content;
use crate::error::{ConfigError, Damage, FormatError, RecoveryError, SlotFault};
use crate::frame::Frame;
use crate::ids::{Epoch, Log};
use crate::record::{LocalLog, Opened, Record, decide_local_log};
use crate::ring::{LogSpace, Place, Ring, Segment};
use crate::sabotage::{Fault, Sabotage};
use crate::scan::{Beyond, Continuity, Scanner};
use crate::seal::{FrameKey, Opener, Sealing, require_fit};
use crate::span::Span;
use crate::step::{Answer, Aside, Progress, RecoveryConfig, Step};

/// Two takeovers at once raise the record in turn; one that loses so often gives up.
const MAX_CLAIMS: u32 = 16;

#[derive(Debug)]
enum Stage {
    Read,
    Claim(Option<Record>, Record),
    Fence,
    Scan,
    /// Look for what would prove that the log did not end where the scan did.
    LookAhead(Vec<Segment>),
    LookInto(VecDeque<Segment>),
    /// Bring what was gathered into the image; then go on.
    Replay(Part, Next),
    ReadLocal,
    SetAside(Aside),
    ScanLocal,
    Append(Frame, Place),
    ResetLocal,
    Open(Record),
    Opened,
    Stopped(RecoveryError),
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Apply,
    Flush,
    Record,
}

/// What follows a replay.
#[derive(Debug, Clone, Copy)]
enum Next {
    /// Memory is full, the scan is not done: nothing may be freed yet.
    MoreCluster,
    ClusterDone,
    MoreLocal,
    LocalDone,
}

/// Opens a volume step by step, without doing any of it.
#[derive(Debug)]
pub struct Recovery {
    config: RecoveryConfig,
    sealing: Option<Sealing>,
    /// What it seals frames with that it ships.
    frame_key: Option<Arc<FrameKey>>,
    stage: Stage,
    claims: u32,
    size_bytes: u64,
    /// As it is in the cluster, once claimed.
    record: Record,
    scanner: Option<Scanner>,
    gathered: Batch,
    /// The last batch that is in the cluster.
    last: u64,
    log: LogSpace,
    to_ship: VecDeque<Frame>,
    local: Option<Record>,
    progress: Progress,
    pub(crate) sabotage: Sabotage,
}

impl Recovery {
    /// # Errors
    /// [`ConfigError::Ring`].
    pub fn new(config: RecoveryConfig) -> Result<Self, ConfigError> {
        config.ring.validate()?;
        config.local.map_or(Ok(()), |ring| ring.validate())?;
        Ok(Self {
            config,
            sealing: None,
            frame_key: None,
            stage: Stage::Read,
            claims: 0,
            size_bytes: 0,
            record: Record::fresh(config.volume, config.ring),
            scanner: None,
            gathered: Batch::default(),
            last: 0,
            log: LogSpace::empty_at(config.ring, 0),
            to_ship: VecDeque::new(),
            local: None,
            progress: Progress::default(),
            sabotage: Sabotage::default(),
        })
    }

    /// Of a volume that is encrypted, if there is one: the same as the journal's.
    #[must_use]
    pub fn sealed(mut self, sealing: Option<Sealing>) -> Self {
        self.sealing = sealing;
        self
    }

    /// What was found so far.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// The epoch it opens the volume at; 0 until the record is claimed.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        if matches!(self.stage, Stage::Read | Stage::Claim(..)) {
            return Epoch(0);
        }
        self.record.epoch
    }

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

    fn claim(&mut self, bytes: Option<&[u8]>) -> Result<Stage, RecoveryError> {
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

    /// Of a log in which nothing was ever written.
    fn sealed_record(&self, ring: Ring) -> Record {
        let volume = self.config.volume;
        let sealed_by = self.sealing.as_ref().map(|sealing| sealing.fingerprint(volume));
        Record { sealed_by, ..Record::fresh(volume, ring) }
    }

    /// The record is ours: the old owner frees nothing any more. The slots are next.
    fn claimed(&mut self, record: Record) -> Stage {
        self.record = record;
        self.last = record.first - 1;
        let key = |sealing: &Sealing| sealing.frame_key(Log::Cluster, record.volume, record.epoch);
        self.frame_key = self.sealing.as_ref().map(key);
        self.scanner = Some(self.scanner(record, Log::Cluster, Continuity::Unbroken));
        Stage::Fence
    }

    fn scanner(&self, record: Record, log: Log, continuity: Continuity) -> Scanner {
        let opener = self.sealing.as_ref().map(|sealing| Opener::new(sealing, log));
        Scanner::new(record, continuity, opener, self.sabotage)
    }

    /// What is to be read next, as long as something is.
    fn segment(&self) -> Segment {
        let first = || self.record.ring.segment(self.record.tail, self.record.written_by);
        self.scanner.as_ref().and_then(Scanner::segment).unwrap_or_else(first)
    }

    fn scanned(&mut self, bytes: &[u8]) -> Result<Stage, RecoveryError> {
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
    fn looked_ahead(
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

    fn looked_into(
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

    fn give_up(&mut self, damage: Damage) -> Result<(), RecoveryError> {
        if !self.config.accept_damage {
            return Err(RecoveryError::Damaged(damage));
        }
        self.progress.given_up = Some(damage);
        Ok(())
    }

    /// Whether an opening was finished before: then every slot was made and marked.
    fn was_opened(&self) -> bool {
        self.record.opened > Epoch(0)
    }

    fn judge_slots(&mut self, faulty: &[(u32, SlotFault)]) -> Result<(), RecoveryError> {
        let Some((slot, fault)) = faulty.iter().min().filter(|_| self.was_opened()) else {
            return Ok(());
        };
        let slots = u32::try_from(faulty.len()).unwrap_or(u32::MAX);
        self.give_up(Damage::Slots { slot: *slot, slots, fault: *fault })
    }

    fn gather(&mut self, frame: &Frame) {
        for (span, content) in frame.extents() {
            self.gathered.insert(*span, content.clone());
        }
    }

    fn is_full(&self) -> bool {
        self.gathered.cost_bytes() >= self.config.max_held_bytes
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

    fn judge_local(&mut self, bytes: Option<&[u8]>) -> Result<Stage, RecoveryError> {
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

    fn scanned_local(&mut self, bytes: &[u8]) -> Result<Stage, RecoveryError> {
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

    fn ship(&mut self) -> Result<Stage, RecoveryError> {
        let Some(next) = self.to_ship.front() else {
            let more = self.scanner.as_ref().is_some_and(|scanner| scanner.segment().is_some());
            if more {
                return Ok(Stage::ScanLocal);
            }
            self.judge_local_end()?;
            return Ok(replay(Next::LocalDone));
        };
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

    fn shipped(&mut self, frame: &Frame, place: Place) -> Result<Stage, RecoveryError> {
        debug_assert_eq!(self.log.head, place.position + frame.length_bytes());
        self.last = frame.last;
        self.progress.shipped_batches += 1;
        self.gather(frame);
        self.next_to_ship()
    }

    fn new_local(&self) -> Record {
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

    fn open(&self) -> Stage {
        Stage::Open(Record { opened: self.record.epoch, ..self.record })
    }
}

fn replay(next: Next) -> Stage {
    Stage::Replay(Part::Apply, next)
}
