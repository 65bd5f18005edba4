//! A device in memory, for tests.

use std::iter;
use std::ops::Range;
use std::sync::{PoisonError, RwLock};

use crate::device::BlockDevice;
use crate::error::DeviceError;
use crate::geometry::Geometry;
use crate::limits::LimitError;
use crate::medium::{Medium, perform};
use crate::range::ByteRange;
use crate::request::{Completion, Request};

/// The largest memory device: 1 GiB.
pub const MAX_MEMORY_DEVICE_BYTES: u64 = 1 << 30;

/// Bytes under one lock: more than most requests, so that one takes one lock or two; small enough
/// that threads at random places seldom meet.
const STRIPE_BYTES: u64 = 1 << 20;

/// Zeros at first; "durable" means nothing here, since it dies with its process.
#[derive(Debug)]
pub struct MemoryDevice {
    geometry: Geometry,
    /// Each of [`STRIPE_BYTES`], the last perhaps shorter.
    stripes: Box<[RwLock<Box<[u8]>>]>,
}

/// The part of a request that lies in one stripe.
struct Part {
    stripe: usize,
    within_stripe: Range<usize>,
    within_request: Range<usize>,
}

impl MemoryDevice {
    /// A device of zeros.
    ///
    /// # Errors
    /// [`LimitError::Memory`] past [`MAX_MEMORY_DEVICE_BYTES`].
    pub fn new(geometry: Geometry) -> Result<Self, LimitError> {
        let size_bytes = geometry.size_bytes();
        if size_bytes > MAX_MEMORY_DEVICE_BYTES {
            return Err(LimitError::Memory { size_bytes, limit_bytes: MAX_MEMORY_DEVICE_BYTES });
        }
        let stripes = (0..size_bytes.div_ceil(STRIPE_BYTES))
            .map(|stripe| (size_bytes - stripe * STRIPE_BYTES).min(STRIPE_BYTES))
            .map(|bytes| RwLock::new(vec![0; index(bytes)].into_boxed_slice()))
            .collect();
        Ok(Self { geometry, stripes })
    }

    /// The parts of `range`, which must be on the device, in order.
    fn parts(&self, range: ByteRange) -> Result<impl Iterator<Item = Part>, DeviceError> {
        self.geometry.require(range)?;
        let (first, end) = (range.offset.bytes(), range.end_bytes());
        let mut at = first;
        Ok(iter::from_fn(move || {
            let stripe = at / STRIPE_BYTES;
            let until = end.min((stripe + 1) * STRIPE_BYTES);
            let (from, base) = (at, stripe * STRIPE_BYTES);
            at = until;
            (from < until).then(|| Part {
                stripe: index(stripe),
                within_stripe: index(from - base)..index(until - base),
                within_request: index(from - first)..index(until - first),
            })
        }))
    }

    fn change(
        &self,
        range: ByteRange,
        action: impl Fn(&mut [u8], Range<usize>),
    ) -> Result<(), DeviceError> {
        for part in self.parts(range)? {
            let Some(stripe) = self.stripes.get(part.stripe) else { continue };
            // A panic of another thread leaves bytes, which are always valid: poison means nothing.
            let mut bytes = stripe.write().unwrap_or_else(PoisonError::into_inner);
            action(bytes.get_mut(part.within_stripe).unwrap_or_default(), part.within_request);
        }
        Ok(())
    }
}

/// A place on a memory device, which is far smaller than any address space.
fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl Medium for MemoryDevice {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, range: ByteRange, into: &mut [u8]) -> Result<(), DeviceError> {
        for part in self.parts(range)? {
            let Some(stripe) = self.stripes.get(part.stripe) else { continue };
            let bytes = stripe.read().unwrap_or_else(PoisonError::into_inner);
            let from = bytes.get(part.within_stripe).unwrap_or_default();
            into.get_mut(part.within_request).unwrap_or_default().copy_from_slice(from);
        }
        Ok(())
    }

    fn write(&self, range: ByteRange, from: &[u8]) -> Result<(), DeviceError> {
        self.change(range, |bytes, indices| {
            bytes.copy_from_slice(from.get(indices).unwrap_or_default());
        })
    }

    fn write_zeroes(&self, range: ByteRange) -> Result<(), DeviceError> {
        self.change(range, |bytes, _| bytes.fill(0))
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
