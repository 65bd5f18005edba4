//! Small reads, one behind the other, answered from one bigger read.
//!
//! A file system that was not unmounted replays its log while it is mounted: it reads the log's
//! records one by one, each when the last one is there, and does so twice. For a database with 30
//! commits per second these are well over a thousand reads of a few KiB. Each of them takes a
//! cluster as long as one of 256 KiB, so [`ReadAhead`] asks for these while a volume has just been
//! opened. Why so: `docs/adr/0036-reading-ahead-at-a-mount.md`.
//!
//! # Main types
//! [`ReadAhead`] is a [`grampus_blockdev::BlockDevice`] in front of another one and keeps its
//! promises. Bytes that it holds are never older than the last completed change. `stream` decides
//! what a read gets: bytes that are here, a bigger read, or the device below.
//!
//! # Failure and recovery
//! A bigger read that fails is forgotten, and the read that caused it goes to the device below as it
//! came. A fence ends reading ahead. Nothing is kept on disk.
//!
//! # What can be cancelled
//! Reading ahead ends by itself after the time that was given to [`ReadAhead::new`]. A single
//! request cannot be cancelled.

#![forbid(unsafe_code)]

mod device;
mod stream;
#[cfg(test)]
mod tests;

pub use device::ReadAhead;
