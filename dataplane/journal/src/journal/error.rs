//! What can go wrong with an open journal.

use std::time::Duration;

use thiserror::Error;

use crate::extent::span::Span;
use crate::format::ring::RingError;

/// Settings that cannot work together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A ring with no usable shape.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// One limit makes another unreachable.
    #[error("{what} is {value} but must be at least {least}: {why}")]
    TooSmall {
        /// The setting.
        what: &'static str,
        /// What it is.
        value: u64,
        /// The least it may be beside the others.
        least: u64,
        /// What would go wrong.
        why: &'static str,
    },
    /// A time in which nobody would wait any more.
    #[error("{what} is {value:?}: use at most an hour")]
    TooLong {
        /// The setting.
        what: &'static str,
        /// What it is.
        value: Duration,
    },
}

/// How the world below failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Failure {
    /// Another owner has the volume; nothing of this one can land any more.
    #[error("the volume was fenced: another owner has taken it over")]
    Fenced,
    /// The pool or disk is full; nothing was written. Tried again for a while.
    #[error("there is no space left where the journal or the image lies")]
    NoSpace,
    /// Anything else; what was written is unknown.
    #[error("the journal or the image could not be written")]
    Io,
    /// No answer for too long; what was written is unknown.
    #[error("no answer came in time")]
    TimedOut,
}

/// Why a change was not taken. Nothing of it was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Refusal {
    /// No room now: ask [`crate::Journal::admission`] first, and again later.
    #[error("the journal holds as much as it may")]
    Busy,
    /// Intake stands still while the journal is drained.
    #[error("the journal is quiesced")]
    Quiesced,
    /// Full, and the cluster has had no space for as long as the settings allow (INV-5).
    #[error("the journal is full, and the cluster has had no space for {lasting:?}")]
    NoSpace {
        /// For how long.
        lasting: Duration,
    },
    /// Past the end of the volume.
    #[error("{span} is not within the volume's {size_bytes} bytes")]
    OutOfRange {
        /// What was asked for.
        span: Span,
        /// The volume's size.
        size_bytes: u64,
    },
    /// Longer than one batch may hold; the caller splits it.
    #[error("a write of {bytes} bytes is more than {limit_bytes}")]
    TooLarge {
        /// How long.
        bytes: u64,
        /// How long it may be.
        limit_bytes: u64,
    },
    /// The journal failed before and takes nothing until it is opened anew (INV-6).
    #[error("the journal failed and must be opened again")]
    Failed(#[source] Failure),
}
