//! RBD images as block devices, through Ceph's own librbd, and plain objects beside them.
//!
//! The libraries are loaded when asked for, not linked: one binary runs with whatever Ceph from
//! 16 to 20 its host has, and says so where there is none. [`Libraries`] holds what was found,
//! [`Cluster`] a connection, and [`RbdImage`] an open image, which is a
//! [`grampus_blockdev::BlockDevice`]. [`Objects`] are what librados itself stores in a pool, with
//! changes that happen only if an object is as expected.
//!
//! # Threads
//! Completions arrive on threads of librbd and librados, which must not wait and must not call the
//! libraries again. What needs either (the flush behind a FUA write, the next piece of a long range
//! of zeros, callbacks on a resize or a snapshot) goes on in two threads that each open image has.
//!
//! # Unsafe code
//! It is where C begins: finding functions (`symbols`, `libraries`), calling them with the right
//! arguments (`calls`, `cluster`, `object_reads`), the callbacks of I/O (`operation` for images,
//! `write_op` for objects), the callbacks of watches (`events`), and the order of opening and
//! closing that all of them rest on (`image`, `objects`).
//!
//! # Tests
//! `fake/` is a librados and librbd in memory that the tests load in place of Ceph's;
//! `tests/cluster.rs` runs by hand against a real cluster.

mod calls;
mod cluster;
mod core;
mod durability;
mod error;
mod events;
mod image;
mod libraries;
mod lock;
mod object_reads;
mod objects;
mod operation;
mod settings;
mod symbols;
mod write_op;
mod zeros;

pub use cluster::{Cluster, ConnectOptions};
pub use error::{LoadError, RbdError};
pub use events::{Errno, QuiesceHandler};
pub use image::{CompareOutcome, ImageSpec, RbdImage, Snapshot};
pub use libraries::{Features, Libraries};
pub use objects::{Change, GuardedWrite, ObjectDone, Objects, Pair};
