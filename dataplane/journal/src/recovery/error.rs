//! Why a volume cannot be opened.

use thiserror::Error;

use crate::format::error::{FormatError, SealMismatch};
use crate::format::ids::{Epoch, Log};
use crate::format::ring::Place;
use crate::journal::error::{ConfigError, Failure};

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
