//! What a journal begins with.

use crate::format::record::Record;

/// A volume that recovery has made ready: everything is in the image, the ring is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// The record in the cluster.
    pub record: Record,
    /// The record of the local log, in `cache` mode.
    pub local: Option<Record>,
    /// The volume's size.
    pub size_bytes: u64,
}
