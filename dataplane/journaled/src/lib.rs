//! A volume behind its write journal: the I/O that [`grampus_journal`] asks for.
//!
//! [`open`] brings a volume's journal into its image and gives a [`JournaledDevice`]. The journal
//! decides; this crate sends, waits, keeps the time and answers. Why so:
//! `docs/adr/0009-journal-shell.md`.
//!
//! # Main types
//! - [`JournaledDevice`] is the block device; [`Options`] says which volume and how.
//! - [`Slots`] and [`LocalLog`] are its ports: objects in the cluster, a log on the host.
//!   [`LogFile`] is that log in a file.
//! - `core` is what one lock guards: the journal, who waits, and what is to be done next. `engine`
//!   does it without the lock. Whoever learns of a cause gives the answer; a flush leaves for the
//!   cluster from the thread that asked for it.
//! - `threads` are for what may wait: one for the journal, one for the image, some for the log on
//!   the host.
//! - A change that the journal cannot take now is parked, in order of arrival (`intake`), and taken
//!   in or refused later. Its buffer stays its own.
//! - A read of what is not held goes to the image as it came, with its buffer (`reading`).
//!
//! # Failure and recovery
//! After a failure every request fails until the volume is opened again (INV-6). Opening runs the
//! journal's recovery: fence, replay, open; if it stops anywhere, it can be tried again. A log on
//! the host that fails costs speed only: flushes then wait for the cluster. An outage of the
//! cluster is waited out (INV-68).
//!
//! # What can be cancelled
//! [`JournaledDevice::quiesce`] and [`JournaledDevice::draw_down`] end after the time that they are
//! given, and writes continue. [`JournaledDevice::close`] drains within its time;
//! [`JournaledDevice::close_undrained`] leaves everything to the next opening, and so does dropping
//! the device. Waiting requests are then answered as abandoned. Opening cannot be cancelled, but the
//! process may be killed at any step of it.

#![forbid(unsafe_code)]
mod core;
mod device;
mod engine;
mod error;
mod intake;
mod local_log;
mod opening;
mod ports;
mod reading;
mod threads;
mod waiting;
mod work;

pub use device::{JournaledDevice, open};
pub use error::{OpenError, QuiesceError};
pub use local_log::{LocalLogError, LogFile};
pub use opening::{Options, needs_replay, replay};
pub use ports::{Done, LocalLog, Slots};
