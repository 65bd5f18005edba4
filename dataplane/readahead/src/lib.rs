//! Small reads, one behind the other, answered from one bigger read.
//!
//! A file system that was not unmounted replays its log as it is mounted: it reads the log's records
//! one by one, each when the last one is there, and twice over. Of a database that commits 30 times a
//! second that is well over a thousand reads of a few KiB, each of which takes a cluster as long as
//! one of 256 KiB. [`ReadAhead`] asks for these instead, as long as a volume has just been opened.
//!
//! What it promises is what [`grampus_blockdev::BlockDevice`] does; bytes that it holds are never older
//! than the last change that completed.

#![forbid(unsafe_code)]

mod device;
mod stream;
#[cfg(test)]
mod tests;

pub use device::ReadAhead;
