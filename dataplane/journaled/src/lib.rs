//! A volume behind its write journal: the I/O that [`grampus_journal`] asks for.
//!
//! [`open`] brings a volume's journal into its image and gives a [`JournaledDevice`]. The journal
//! decides; this crate sends, waits, keeps the time and answers:
//!
//! - One lock around the journal, and nothing slow under it (`engine`). An answer is given by
//!   whoever learnt of its cause; a flush leaves for the cluster from the thread that asked for it.
//! - Threads for what may wait (`threads`): one for the journal, one for the image, some for the
//!   log on the host.
//! - A change that the journal cannot take now is parked, in order of arrival (`intake`), and taken
//!   in or refused later. Its buffer stays its own.
//! - A read of what is not held goes to the image as it came, with its buffer (`reading`).

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
