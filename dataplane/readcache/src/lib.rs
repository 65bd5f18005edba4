//! A read cache on the local disk in front of a block device.
//!
//! [`ReadCache`] keeps what the device below delivered in a file on the host's own disk, and
//! answers reads from it. It holds nothing that the device below does not have: its loss costs
//! time, never data. Writes pass through unchanged, and remove the sectors that they touch.
//!
//! # Main types
//! [`ReadCache`] is the device, [`Options`] its settings, [`Statistics`] its counts. Inside,
//! `index` knows which sectors are where, and since which generation; `frequency` decides what is
//! worth keeping; `reads` and `fills` are the threads that use the file; `sinks` takes the answers
//! of the device below.
//!
//! What it promises beyond [`grampus_blockdev::BlockDevice`]:
//! - A block is answered from the file only if its checksum is right.
//! - Reading everything once does not push out what is read often.
//! - With a key, its file holds sealed bytes only.
//!
//! # Failure and recovery
//! A disk that fails, or that cannot be used at all, turns the cache off and nothing else
//! ([`ReadCache::off_reason`]): reads go to the device below. A block with a wrong checksum is read
//! from there again. The cache always starts empty and never looks at what an earlier process left
//! behind. A fence turns it off, because another owner may change the volume.
//!
//! # What can be cancelled
//! Dropping the cache ends its threads; requests that are on their way below are still answered. A
//! fill can be left out at any moment. A single request cannot be cancelled.

#![forbid(unsafe_code)]

mod cache;
mod counters;
mod fills;
mod frequency;
mod index;
mod options;
mod proofs;
mod queue;
mod reads;
mod regions;
mod runs;
mod sectors;
mod shared;
mod sinks;
mod store;
#[cfg(test)]
mod tests;
mod wide_reads;
mod work;

pub use cache::ReadCache;
pub use counters::Statistics;
pub use options::{DEFAULT_BLOCK_BYTES, Options, OptionsError};
