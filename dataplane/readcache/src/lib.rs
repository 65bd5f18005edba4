//! A read cache on the local disk in front of a block device.
//!
//! [`ReadCache`] keeps what the device below delivered in a file on the host's own disk, and
//! answers reads from it. It holds nothing that the device below does not have: losing it loses
//! time. Writes go through it unchanged, and take the sectors that they touch out of it.
//!
//! What it promises beyond [`grampus_blockdev::BlockDevice`]:
//! - A block is answered from the file only if its checksum is right.
//! - Reading everything once does not push out what is read often: `frequency` and `index` decide.
//! - A disk that fails, or that cannot be had at all, turns the cache off and nothing else.
//! - It starts empty: what an earlier life left behind is never looked at.
//! - With a key, its file holds sealed bytes only.

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
