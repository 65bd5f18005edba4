//! RBD images as block devices, through Ceph's own librbd, and plain objects beside them.
//!
//! The crate loads the libraries when it needs them and does not link them: one binary runs with
//! whatever Ceph from 16 to 20 its host has, and says so where there is none.
//!
//! # Main types
//! [`Libraries`] holds what was found, [`Cluster`] a connection, and [`RbdImage`] an open image,
//! which is a [`grampus_blockdev::BlockDevice`]. [`Objects`] are what librados itself stores in a
//! pool, with changes that happen only if an object is as expected.
//!
//! # Threads
//! Completions arrive on threads of librbd and librados, which must not wait and must not call the
//! libraries again. Each open image has two threads for work that needs either: the flush behind a
//! FUA write, the next piece of a long range of zeros, callbacks on a resize or a snapshot.
//!
//! # Failure and recovery
//! An image remembers the first failed flush and every fence: it refuses all requests until it is
//! opened again (INV-6). A client that lost the exclusive lock counts as fenced (INV-2). Silence of
//! the cluster is no error; librbd waits and sends again (INV-68).
//!
//! # What can be cancelled
//! Connecting has a timeout. A request that librbd has cannot be cancelled, and [`RbdImage::close`]
//! waits for all of them. A fence of this client ends the wait: librbd then fails what is in flight.
//!
//! # Unsafe code
//! It is where C begins: finding functions (`symbols`, `libraries`), calling them with the right
//! arguments (`calls`, `cluster`, `object_reads`), the callbacks of I/O (`operation` for images,
//! `write_op` for objects), the callbacks of watches (`events`), and the order of opening and
//! closing that all of them depend on (`image`, `objects`).
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
