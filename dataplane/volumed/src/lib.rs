//! One process per volume: an RBD image, offered as a file that a loop device can use.
//!
//! Requests go from the FUSE transport through the [`gate`], which can hold or refuse them and
//! knows which are in flight, to the [`volume`]'s device. Why it is built like this:
//! `docs/adr/0006-volumed.md`.
//!
//! # Main types
//! - [`serve`] is the life of the process from start to end; [`daemon::Daemon`] carries out the
//!   commands of the control socket ([`protocol`], [`server`]), which [`client`] sends.
//! - [`gate::Gate`] stands between transport and device; [`meter`] counts what passes.
//! - [`image_slot::ImageSlot`] holds the open [`volume::Volume`], and can exchange it for another
//!   while requests wait in the gate. [`snapshot`] takes snapshots of it.
//! - [`rbd`] and [`journaled_volume`] are the volumes of the write paths `direct`, and `journal` and
//!   `cache`; [`rbd_source`] says which image, [`local_place`] what may lie on the host's disk,
//!   [`rados_slots`] and [`journal_place`] where the journal lies in the cluster.
//! - A [`volume::LocalVolume`] is memory or a file, which can be served as slowly as a disk with one
//!   arm (`grampus-pacing`).
//! - [`state`] says how the volume is, [`report`] and [`metrics`] say it to others.
//!
//! # Failure and recovery
//! A fenced or failed volume answers every request with an error until the process ends (INV-2,
//! INV-6). Silence of the cluster is waited out (INV-68); the status says for how long. A process
//! that dies leaves a dead mount, which the control plane removes; the next process fences the old
//! client and replays the journal before it opens the image. A daemon that could not make durable
//! what was written says so in the answer to `stop` and in its exit code.
//!
//! # What can be cancelled
//! Every command of the control socket that waits for the cluster has a timeout. `quiesce`,
//! `pause` and an exchange end early with `unquiesce`, `resume` and `open-image`, and a quiesce or
//! an exchange that nobody ends, ends by itself. A late snapshot is not taken, or removed again. A
//! `stop` ends in time even if the cluster does not answer, also while the volume is being opened.
//! A request that the device has cannot be cancelled.

pub mod client;
pub mod clock;
pub mod command_line;
pub mod daemon;
pub mod encryption;
mod found_log;
pub mod gate;
mod heap;
pub mod histogram;
pub mod image_name;
pub mod image_slot;
pub mod in_flight;
pub mod journal_place;
pub mod journal_report;
pub mod journaled_volume;
pub mod kind;
pub mod local_place;
pub mod meter;
pub mod metrics;
pub mod probe;
pub mod process;
pub mod protocol;
pub mod rados_slots;
pub mod rbd;
pub mod rbd_source;
pub mod report;
pub mod serve;
pub mod server;
mod shard;
pub mod signals;
mod slot_layout;
pub mod snapshot;
mod socket_path;
mod startup_pages;
pub mod state;
pub mod volume;
mod watch;
