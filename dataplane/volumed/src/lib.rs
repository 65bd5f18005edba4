//! One process a volume: an RBD image, offered as a file on which a loop device can stand.
//!
//! Requests go from the FUSE transport through the [`gate`], which can hold or refuse them and
//! knows which are in flight, to the [`volume`]'s device. The [`meter`] counts them. A control
//! socket ([`protocol`], [`server`]) answers how it is and takes commands ([`daemon`]);
//! [`serve`] is the life of the process from start to end.
//! Why it is built like this: `docs/adr/0006-volumed.md`.

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
mod startup_pages;
pub mod state;
pub mod volume;
mod watch;
