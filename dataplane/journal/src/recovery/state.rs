//! What a recovery knows, and the stages that it goes through.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::format::frame::Frame;
use crate::format::ids::{Epoch, Log};
use crate::format::record::Record;
use crate::format::ring::{Place, Ring, Segment};
use crate::format::seal::{FrameKey, Opener, Sealing};
use crate::journal::batch::Batch;
use crate::journal::error::ConfigError;
use crate::recovery::error::{Damage, RecoveryError};
use crate::recovery::scan::{Continuity, Scanner};
use crate::recovery::step::{Aside, Progress, RecoveryConfig};
use crate::ring::space::LogSpace;
use crate::sabotage::Sabotage;

#[derive(Debug)]
pub(super) enum Stage {
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
pub(super) enum Part {
    Apply,
    Flush,
    Record,
}

/// What follows a replay.
#[derive(Debug, Clone, Copy)]
pub(super) enum Next {
    /// Memory is full, the scan is not done: nothing may be freed yet.
    MoreCluster,
    ClusterDone,
    MoreLocal,
    LocalDone,
}

/// Opens a volume step by step, without doing any of it.
#[derive(Debug)]
pub struct Recovery {
    pub(super) config: RecoveryConfig,
    pub(super) sealing: Option<Sealing>,
    /// What it seals frames with that it ships.
    pub(super) frame_key: Option<Arc<FrameKey>>,
    pub(super) stage: Stage,
    pub(super) claims: u32,
    pub(super) size_bytes: u64,
    /// As it is in the cluster, once claimed.
    pub(super) record: Record,
    pub(super) scanner: Option<Scanner>,
    pub(super) gathered: Batch,
    /// The last batch that is in the cluster.
    pub(super) last: u64,
    pub(super) log: LogSpace,
    pub(super) to_ship: VecDeque<Frame>,
    pub(super) local: Option<Record>,
    pub(super) progress: Progress,
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

    /// Of a log in which nothing was ever written.
    pub(super) fn sealed_record(&self, ring: Ring) -> Record {
        let volume = self.config.volume;
        let sealed_by = self.sealing.as_ref().map(|sealing| sealing.fingerprint(volume));
        Record { sealed_by, ..Record::fresh(volume, ring) }
    }

    pub(super) fn scanner(&self, record: Record, log: Log, continuity: Continuity) -> Scanner {
        let opener = self.sealing.as_ref().map(|sealing| Opener::new(sealing, log));
        Scanner::new(record, continuity, opener, self.sabotage)
    }

    /// What is to be read next, as long as something is.
    pub(super) fn segment(&self) -> Segment {
        let first = || self.record.ring.segment(self.record.tail, self.record.written_by);
        self.scanner.as_ref().and_then(Scanner::segment).unwrap_or_else(first)
    }

    pub(super) fn give_up(&mut self, damage: Damage) -> Result<(), RecoveryError> {
        if !self.config.accept_damage {
            return Err(RecoveryError::Damaged(damage));
        }
        self.progress.given_up = Some(damage);
        Ok(())
    }

    /// Whether an opening was finished before: then every slot was made and marked.
    pub(super) fn was_opened(&self) -> bool {
        self.record.opened > Epoch(0)
    }

    pub(super) fn gather(&mut self, frame: &Frame) {
        for (span, content) in frame.extents() {
            self.gathered.insert(*span, content.clone());
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.gathered.cost_bytes() >= self.config.max_held_bytes
    }
}

/// Bring what was gathered into the image, then go on.
pub(super) fn replay(next: Next) -> Stage {
    Stage::Replay(Part::Apply, next)
}
