//! Block devices as the data plane sees them: a trait, and two devices that need no cluster.
//!
//! [`BlockDevice`] states what every device promises: ranges, durability, order, ends. Front
//! ends (FUSE) and devices (librbd, the journal) meet here and know nothing of each other.
//! [`MemoryDevice`] and [`FileDevice`] stand in for an RBD image in tests.
//! Why it looks like this: `docs/adr/0004-block-device-trait.md`.

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

pub use device::{BlockDevice, execute};
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
