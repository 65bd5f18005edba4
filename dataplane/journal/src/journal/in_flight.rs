//! What was sent into the cluster and is not yet counted as durable there.

use std::time::Duration;

use crate::format::frame::Frame;
use crate::format::ring::Place;

/// A frame on its way into the cluster.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(super) frame: Frame,
    pub(super) place: Place,
    pub(super) batches: usize,
    pub(super) durable: bool,
    /// There was no space; it is sent again, the same bytes to the same place.
    pub(crate) retry_at: Option<Duration>,
}

impl InFlight {
    pub(super) fn end(&self) -> u64 {
        self.place.position + self.frame.length_bytes()
    }
}
