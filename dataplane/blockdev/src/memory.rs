//! A device in memory, for tests.

use std::ops::Range;
use std::sync::{PoisonError, RwLock};

use crate::device::BlockDevice;
use crate::error::{DeviceError, LimitError};
use crate::geometry::{ByteRange, Geometry};
use crate::medium::{Medium, perform};
use crate::request::{Completion, Request};

/// The largest memory device: 1 GiB.
pub const MAX_MEMORY_DEVICE_BYTES: u64 = 1 << 30;

/// Zeros at first; "durable" means nothing here, since it dies with its process.
#[derive(Debug)]
pub struct MemoryDevice {
    geometry: Geometry,
    bytes: RwLock<Vec<u8>>,
}

impl MemoryDevice {
    /// A device of zeros.
    ///
    /// # Errors
    /// [`LimitError::Memory`] past [`MAX_MEMORY_DEVICE_BYTES`].
    pub fn new(geometry: Geometry) -> Result<Self, LimitError> {
        let size_bytes = geometry.size_bytes();
        match usize::try_from(size_bytes) {
            Ok(size) if size_bytes <= MAX_MEMORY_DEVICE_BYTES => {
                Ok(Self { geometry, bytes: RwLock::new(vec![0; size]) })
            }
            _ => Err(LimitError::Memory { size_bytes, limit_bytes: MAX_MEMORY_DEVICE_BYTES }),
        }
    }

    /// The indices of `range`, which must be on the device.
    fn indices(&self, range: ByteRange) -> Result<Range<usize>, DeviceError> {
        self.geometry.require(range)?;
        match (usize::try_from(range.offset.bytes()), usize::try_from(range.end_bytes())) {
            (Ok(start), Ok(end)) => Ok(start..end),
            _ => Err(DeviceError::OutOfRange { range, size_bytes: self.geometry.size_bytes() }),
        }
    }

    fn change(&self, range: ByteRange, action: impl FnOnce(&mut [u8])) -> Result<(), DeviceError> {
        let indices = self.indices(range)?;
        // A panic of another thread leaves bytes, which are always valid: poison means nothing.
        let mut bytes = self.bytes.write().unwrap_or_else(PoisonError::into_inner);
        action(bytes.get_mut(indices).unwrap_or_default());
        Ok(())
    }
}

impl Medium for MemoryDevice {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, range: ByteRange, into: &mut [u8]) -> Result<(), DeviceError> {
        let indices = self.indices(range)?;
        let bytes = self.bytes.read().unwrap_or_else(PoisonError::into_inner);
        into.copy_from_slice(bytes.get(indices).unwrap_or_default());
        Ok(())
    }

    fn write(&self, range: ByteRange, from: &[u8]) -> Result<(), DeviceError> {
        self.change(range, |bytes| bytes.copy_from_slice(from))
    }

    fn write_zeroes(&self, range: ByteRange) -> Result<(), DeviceError> {
        self.change(range, |bytes| bytes.fill(0))
    }

    fn discard(&self, range: ByteRange) -> Result<(), DeviceError> {
        self.write_zeroes(range)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl BlockDevice for MemoryDevice {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&self, request: Request, completion: Completion) {
        completion.complete(perform(self, request));
    }
}
