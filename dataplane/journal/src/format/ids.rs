//! Names and counters.

use std::fmt;

/// Which volume a frame or record belongs to: chosen at random when the journal is made, so that
/// a volume made anew under the same name does not take over its forerunner's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VolumeId(pub [u8; 16]);

impl fmt::Display for VolumeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// Which owner of the volume: raised by one with each opening, first of all as its fence (INV-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// Who may write to a slot of a journal. The epoch alone would not do: a journal that is made again,
/// as after a rollback, begins with the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Whose journal it is.
    pub volume: VolumeId,
    /// Which owner of it.
    pub epoch: Epoch,
}

/// Which log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Log {
    /// The one in the cluster.
    Cluster,
    /// The one on the host's disk.
    Local,
}

impl Epoch {
    /// The one after it.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}
