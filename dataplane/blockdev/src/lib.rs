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
mod mapping;
mod medium;
mod memory;
mod positioned_file;
mod request;
#[cfg(feature = "trial")]
pub mod trial;

pub use buffer::{Buffer, MAX_TRANSFER_BYTES};
pub use device::{BlockDevice, execute};
pub use error::{DeviceError, LimitError, OpenError};
pub use file::FileDevice;
pub use geometry::{BlockSize, ByteRange, Geometry, Length, MAX_DEVICE_BYTES, Offset};
pub use memory::{MAX_MEMORY_DEVICE_BYTES, MemoryDevice};
pub use positioned_file::PositionedFile;
pub use request::{Completion, CompletionSink, Durability, Outcome, Request, Token};
