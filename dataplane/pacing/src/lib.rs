//! A device that answers as slowly as a disk with one arm.
//!
//! A lab that has no hard disks serves files instead, which answer in microseconds whatever is asked.
//! What is measured on them says nothing about hard disks, where a request at another place costs
//! milliseconds and one that goes on where the last one ended costs next to nothing. [`PacedDevice`]
//! makes requests take that time.
//!
//! # Main types
//! [`DiskModel`] says how long a disk takes. [`PacedDevice`] is a [`grampus_blockdev::BlockDevice`]
//! in front of another one, keeps its promises, and serves one request at a time. `arm` decides,
//! without threads and clocks, which request is next and when it ends.
//!
//! # Failure and recovery
//! What the device below answers is answered, an error too, at the time at which the emulated disk
//! would have been done. A device below that is slower than the model makes the emulated disk slower,
//! and [`Counts`] says by how much. Nothing is kept on disk.
//!
//! # What can be cancelled
//! [`PacedDevice::set_paced`] ends all waiting for the model's time, and so does dropping the device.
//! A single request cannot be cancelled.

#![forbid(unsafe_code)]

mod arm;
mod device;
mod model;
#[cfg(test)]
mod tests;

pub use device::{Counts, PacedDevice};
pub use model::{DiskModel, ModelError};
