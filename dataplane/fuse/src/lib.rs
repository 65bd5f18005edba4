//! A FUSE transport for a single file: one block device, offered to the kernel as a regular file
//! on which a loop device can stand.
//!
//! [`Session::mount`] puts the device over an existing file. Requests come over `io_uring`, with one
//! thread a CPU, where the kernel has that; otherwise over the classic `/dev/fuse` with several
//! threads. [`probe`] says which, [`ServeOptions::transport`] forces one. What a message means and
//! what it is answered with is decided by pure functions (`message`, `decide`) that both transports
//! share.
//!
//! Choices, and what was refused:
//!
//! - **A pinned thread for each CPU.** The kernel puts a request on the queue of the CPU that sends
//!   it, so its thread finds the data in that CPU's cache and is woken without a call to another.
//! - **No spinning before sleep.** A waiting thread would take the very CPU that the sender, the
//!   loop device and, on one machine, the cluster's daemons need to bring the next request.
//! - **No copy, no allocation for a request.** A payload travels to the device and back in the
//!   memory that the kernel knows; answers are queued and go to the kernel with the next wait.
//! - **Answers of the classic transport from the device's thread.** A write to `/dev/fuse` copies
//!   and wakes, it does not wait; a hop would only add a wake-up.
//!
//! A device that drops a read or a write unanswered, or keeps its buffer, costs that request an
//! error. The classic transport goes on with other memory; over the rings the session ends, since
//! the kernel still knows the memory that is gone.

mod boundary;
mod channel;
mod classic;
mod cpus;
mod decide;
mod error;
mod handshake;
mod lifetime;
mod message;
mod mount;
mod mount_table;
mod options;
mod pool;
mod probe;
mod protocol;
mod ring;
mod session;

pub use error::FuseError;
pub use options::{ServeOptions, TransportChoice};
pub use probe::{Probe, probe};
pub use session::{Session, SessionHandle, TransportKind, TransportStatus};
