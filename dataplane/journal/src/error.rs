//! What can go wrong.

use std::time::Duration;

use thiserror::Error;

use crate::ids::Log;
use crate::ids::{Epoch, VolumeId};
use crate::ring::{Place, RingError};
use crate::span::Span;

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

/// Why bytes are not a frame or record of this volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FormatError {
    /// They end too early.
    #[error("the bytes end before the structure does")]
    Short,
    /// They begin with something else.
    #[error("there is no known mark at the beginning")]
    Magic,
    /// A checksum does not match: torn, or rotten.
    #[error("the checksum of the {0} does not match")]
    Checksum(&'static str),
    /// They were not sealed with this key, or changed since: torn, rotten, or forged.
    #[error("the frame is not authentic")]
    Seal,
    /// They belong to another volume.
    #[error("they belong to volume {0}")]
    OtherVolume(VolumeId),
    /// The checksums match, the contents make no sense.
    #[error("{0}")]
    Nonsense(&'static str),
}

/// How the key that was given and the one that a log is sealed with differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SealMismatch {
    /// None was given.
    #[error("it is sealed with an encryption key, and none was given")]
    NoKey,
    /// One was given.
    #[error("an encryption key was given, and it was written without one")]
    NotSealed,
    /// Another one was given.
    #[error("it is sealed with another encryption key than the one given")]
    OtherKey,
}

/// Why a slot of a journal is not the one that its owners left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum SlotFault {
    /// There is no such object.
    #[error("is missing")]
    Missing,
    /// It does not say which owner may write to it.
    #[error("does not say whose it is")]
    Unmarked,
    /// It belongs to the journal of another volume, or to an earlier one of this volume.
    #[error("belongs to another journal")]
    Foreign,
}

/// What a log has lost of what was durable in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Damage {
    /// A batch is missing, and later ones prove that it was there.
    #[error(
        "{} is damaged in slot {:04x}, at position {}: batch {missing} is missing, and the log went \
         on to batch {newest} at least, so acknowledged writes are lost",
        match .log {
            Log::Cluster => "the journal in the cluster",
            Log::Local => "the log on this host",
        },
        .place.slot,
        .place.position
    )]
    Gap {
        /// Which log.
        log: Log,
        /// The first batch that is not there.
        missing: u64,
        /// The last one that is known to have been there.
        newest: u64,
        /// Where the missing one begins, or the segment after it.
        place: Place,
    },
    /// Objects of the ring are not what they must be, whatever was in them.
    #[error(
        "slot {slot:04x} of the journal {fault}, and {} more slots are not as they must be: what was in \
         them is lost",
        .slots.saturating_sub(1)
    )]
    Slots {
        /// The first of them.
        slot: u32,
        /// How many there are.
        slots: u32,
        /// What is wrong with the first.
        fault: SlotFault,
    },
}

/// A volume cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RecoveryError {
    /// The settings.
    #[error("the journal's settings cannot work")]
    Config(#[from] ConfigError),
    /// Reading or writing failed below.
    #[error("the journal could not be read or replayed")]
    Io(#[source] Failure),
    /// The record of the journal cannot be read.
    #[error("the record of the journal is broken")]
    Record(#[source] FormatError),
    /// A log that may hold what the image lacks is sealed in another way than this volume.
    #[error("the key does not fit {}", match .log {
        Log::Cluster => "the journal in the cluster",
        Log::Local => "the log on this host",
    })]
    Seal {
        /// Which one. Nothing of it was changed.
        log: Log,
        /// How.
        #[source]
        mismatch: SealMismatch,
    },
    /// Another owner took the volume while this one was about to.
    #[error("another owner took the volume over at epoch {0}")]
    Overtaken(Epoch),
    /// Frames that were durable are gone: opening would lose acknowledged writes silently.
    #[error("{0}")]
    Damaged(Damage),
    /// An answer that does not belong to the question.
    #[error("the recovery was answered something it did not ask")]
    Protocol,
}
