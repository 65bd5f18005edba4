//! Why bytes of a log are not taken.

use thiserror::Error;

use crate::format::ids::VolumeId;

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
