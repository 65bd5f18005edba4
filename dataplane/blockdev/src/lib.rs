//! Block devices as the data plane sees them: a trait, and two devices that need no cluster.
//!
//! Front ends (FUSE) and devices (librbd, the journal, the caches) meet here and know nothing of
//! each other. Why it looks like this: `docs/adr/0004-block-device-trait.md`.
//!
//! # Main types
//! [`BlockDevice`] states what every device promises: ranges, durability, order, ends. A
//! [`Request`] carries its [`Buffer`] to the device, and an [`Outcome`] brings it back. A
//! [`Completion`] is the duty to answer. [`MemoryDevice`] and [`FileDevice`] replace an RBD image in
//! tests.
//!
//! # Failure and recovery
//! A request succeeds wholly or fails with a [`DeviceError`]. A failed write leaves its range
//! undefined. A failed flush is final: the device reports nothing durable until it is opened again
//! (INV-6). A device that loses a request answers [`DeviceError::Abandoned`], because a dropped
//! [`Completion`] does (INV-9).
//!
//! # What can be cancelled
//! Nothing. The device answers every submitted request exactly once, and the buffer belongs to the
//! device until then.

mod buffer;
mod device;
mod error;
mod file;
mod geometry;
mod limits;
mod mapping;
mod medium;
mod memory;
mod positioned_file;
mod range;
mod request;
#[cfg(feature = "trial")]
pub mod trial;

pub use buffer::Buffer;

pub use device::{BlockDevice, execute, submit};
pub use error::{DeviceError, OpenError};
pub use file::FileDevice;
pub use geometry::{BlockSize, Geometry};
pub use limits::LimitError;
pub use limits::MAX_DEVICE_BYTES;
pub use limits::MAX_TRANSFER_BYTES;
pub use memory::{MAX_MEMORY_DEVICE_BYTES, MemoryDevice};
pub use positioned_file::PositionedFile;
pub use range::{ByteRange, Length, Offset};
pub use request::{Completion, CompletionSink, Durability, Outcome, Request, Token};
