//! What the devices share that carry out a request on the caller's thread.

use crate::error::DeviceError;
use crate::geometry::Geometry;
use crate::range::ByteRange;
use crate::request::{Durability, Outcome, Request};

/// Blocking calls on ranges that are on the device and not empty.
///
/// Slices are exactly as long as their range.
pub(crate) trait Medium {
    fn geometry(&self) -> Geometry;
    fn read(&self, range: ByteRange, into: &mut [u8]) -> Result<(), DeviceError>;
    fn write(&self, range: ByteRange, from: &[u8]) -> Result<(), DeviceError>;
    fn write_zeroes(&self, range: ByteRange) -> Result<(), DeviceError>;
    fn discard(&self, range: ByteRange) -> Result<(), DeviceError>;
    fn flush(&self) -> Result<(), DeviceError>;
}

/// Carry out `request`: the one place that checks ends, skips empty ranges and obeys FUA.
pub(crate) fn perform(medium: &impl Medium, request: Request) -> Outcome {
    let Some(range) = request.range() else {
        return Outcome { result: medium.flush(), buffer: None };
    };
    let admitted = medium.geometry().require(range);
    if admitted.is_err() || range.is_empty() {
        return Outcome { result: admitted, buffer: request.into_buffer() };
    }
    match request {
        Request::Read { mut buffer, .. } => {
            let result = medium.read(range, &mut buffer);
            Outcome { result, buffer: Some(buffer) }
        }
        Request::Write { buffer, durability, .. } => {
            let written = medium.write(range, &buffer);
            Outcome { result: secured(medium, written, durability), buffer: Some(buffer) }
        }
        Request::WriteZeroes { durability, .. } => {
            let written = medium.write_zeroes(range);
            Outcome { result: secured(medium, written, durability), buffer: None }
        }
        Request::Discard { .. } => Outcome { result: medium.discard(range), buffer: None },
        Request::Flush => Outcome { result: medium.flush(), buffer: None },
    }
}

fn secured(
    medium: &impl Medium,
    written: Result<(), DeviceError>,
    durability: Durability,
) -> Result<(), DeviceError> {
    written?;
    match durability {
        Durability::OnFlush => Ok(()),
        // A flush is more than FUA asks for, and the one durable call every medium has.
        Durability::Fua => medium.flush(),
    }
}
