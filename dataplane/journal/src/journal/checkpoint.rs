//! How far the image is durable, and so how far the log may be trimmed.

use std::time::Duration;

use crate::format::record::Record;
use crate::journal::unapplied::Mark;

/// How far what was applied is known to be durable, and what is under way.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    /// What the flush under way will make durable.
    pub(super) flushing: Option<Mark>,
    /// Durable in the image.
    pub(super) flushed: Mark,
    /// The record under way.
    pub(super) recording: Option<Record>,
    pub(super) trimmed_at: Duration,
    /// A frame found no room.
    pub(crate) ring_is_full: bool,
    /// When failed applies and records are tried again.
    pub(crate) retry_at: Option<Duration>,
    /// The last apply or record failed.
    pub(crate) is_failing: bool,
}

impl Checkpoint {
    pub(crate) fn new(applied: Mark, now: Duration) -> Self {
        Self {
            flushing: None,
            flushed: applied,
            recording: None,
            trimmed_at: now,
            ring_is_full: false,
            retry_at: None,
            is_failing: false,
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.flushing.is_none() && self.recording.is_none()
    }
}
