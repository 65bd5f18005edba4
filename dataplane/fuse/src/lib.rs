//! A FUSE transport for a single file: one block device, offered to the kernel as a regular file
//! that a loop device can use.
//!
//! # Main types
//! [`Session::mount`] puts the device over an existing file. Requests come over `io_uring`, with one
//! thread per CPU, where the kernel supports it; otherwise over the classic `/dev/fuse` with several
//! threads. [`probe`] says which, [`ServeOptions::transport`] forces one. Pure functions (`message`,
//! `decide`) say what a message means and what it is answered with; both transports share them.
//!
//! # Failure and recovery
//! A [`FuseError`] leaves no mount behind. `io_uring` that fails at the start gives way to the classic
//! transport, unless the options force it. A device that drops a read or a write unanswered, or keeps
//! its buffer, costs that request an error. The classic transport continues with other memory; over
//! the rings the session ends, because the kernel still knows the memory that is gone. A session
//! that ended is mounted again, never resumed.
//!
//! # What can be cancelled
//! The session as a whole. [`SessionHandle::unmount`] lets no one open the file any more;
//! [`SessionHandle::abort`] fails what users wait for. The device finishes every request that it
//! was given. A single request cannot be cancelled: the transport ignores `INTERRUPT`, as FUSE
//! permits.
//!
//! # Choices, and what was refused
//! - **A pinned thread for each CPU.** The kernel puts a request on the queue of the CPU that sends
//!   it, so its thread finds the data in that CPU's cache and is woken without a call to another.
//! - **No spinning before sleep.** A waiting thread would take the very CPU that the sender, the
//!   loop device and, on one machine, the cluster's daemons need to bring the next request.
//! - **No copy, no allocation for a request.** A payload travels to the device and back in the
//!   memory that the kernel knows; answers are queued and go to the kernel with the next wait.
//! - **Answers of the classic transport from the device's thread.** A write to `/dev/fuse` copies
//!   and wakes, it does not wait; a hop would only add a wake-up.

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
