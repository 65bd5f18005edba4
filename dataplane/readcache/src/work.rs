//! What waits for a thread of the cache.

use grampus_blockdev::{Buffer, Completion, Offset};

use crate::index::{Generation, Place};
use crate::sectors::Sectors;

/// Sectors as the device below delivered them.
#[derive(Debug)]
pub(crate) struct Fill {
    pub(crate) sectors: Sectors,
    /// Of their block, before they were asked for.
    pub(crate) generation: Generation,
    pub(crate) bytes: Vec<u8>,
}

/// A read that waits for a thread of the cache.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) offset: Offset,
    pub(crate) buffer: Buffer,
    pub(crate) completion: Completion,
    /// Where its sectors were when it came in; None: not all were here, it is to go below.
    pub(crate) places: Option<Vec<Place>>,
}
