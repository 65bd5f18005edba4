//! A device for the tests of devices that stand on another one.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::device::{BlockDevice, execute};
use crate::error::DeviceError;
use crate::geometry::Geometry;
use crate::limits::LimitError;
use crate::memory::MemoryDevice;
use crate::request::{Completion, Outcome, Request};

/// Memory whose answers can be kept back, and that can fail, be fenced and change its size; it counts
/// reads.
#[derive(Debug)]
pub struct HeldDevice {
    memory: MemoryDevice,
    geometry: Mutex<Geometry>,
    holds: AtomicBool,
    held: Mutex<Vec<(Completion, Outcome)>>,
    fenced: AtomicBool,
    bad_byte: AtomicU64,
    reads: AtomicU64,
}

impl HeldDevice {
    /// Zeros, whose answers come at once.
    ///
    /// # Errors
    /// [`LimitError`] past what a memory device may hold.
    pub fn new(geometry: Geometry) -> Result<Arc<Self>, LimitError> {
        Ok(Arc::new(Self {
            memory: MemoryDevice::new(geometry)?,
            geometry: Mutex::new(geometry),
            holds: AtomicBool::new(false),
            held: Mutex::default(),
            fenced: AtomicBool::new(false),
            bad_byte: AtomicU64::new(u64::MAX),
            reads: AtomicU64::new(0),
        }))
    }

    /// What is under it, to be read and changed past all that stands on it.
    #[must_use]
    pub fn memory(&self) -> &MemoryDevice {
        &self.memory
    }

    /// How many reads it was asked for.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::SeqCst)
    }

    /// From now on answers wait; the requests themselves are carried out at once.
    pub fn hold(&self) {
        self.holds.store(true, Ordering::SeqCst);
    }

    /// Give what waited, in order; further answers do not wait.
    pub fn release(&self) {
        self.holds.store(false, Ordering::SeqCst);
        let held = std::mem::take(&mut *lock(&self.held));
        for (completion, outcome) in held {
            completion.complete(outcome);
        }
    }

    /// As `release`, for the one that came last; all others wait on.
    pub fn release_last(&self) {
        let last = lock(&self.held).pop();
        self.holds.store(false, Ordering::SeqCst);
        if let Some((completion, outcome)) = last {
            completion.complete(outcome);
        }
    }

    /// Reads that have the byte at `position` fail from now on.
    pub fn spoil(&self, position: u64) {
        self.bad_byte.store(position, Ordering::SeqCst);
    }

    /// Whatever is asked from now on is answered as by a cluster that has shut this client out.
    pub fn fence(&self) {
        self.fenced.store(true, Ordering::SeqCst);
    }

    /// Another size, of at most what it was made with.
    pub fn resize(&self, geometry: Geometry) {
        *lock(&self.geometry) = geometry;
    }
}

impl BlockDevice for HeldDevice {
    fn geometry(&self) -> Geometry {
        *lock(&self.geometry)
    }

    fn submit(&self, request: Request, completion: Completion) {
        let is_read = matches!(request, Request::Read { .. });
        let bad_byte = self.bad_byte.load(Ordering::SeqCst);
        let is_spoilt = request.range().is_some_and(|range| {
            is_read && (range.offset.bytes()..range.end_bytes()).contains(&bad_byte)
        });
        if is_read {
            self.reads.fetch_add(1, Ordering::SeqCst);
        }
        let admitted = request.range().map_or(Ok(()), |range| self.geometry().require(range));
        let mut outcome = match admitted {
            Ok(()) => execute(&self.memory, request),
            Err(error) => Outcome { result: Err(error), buffer: request.into_buffer() },
        };
        if is_spoilt {
            let source = io::ErrorKind::Other.into();
            outcome.result = Err(DeviceError::Io { action: "read", source });
        }
        if self.fenced.load(Ordering::SeqCst) {
            outcome.result = Err(DeviceError::Fenced);
        }
        if self.holds.load(Ordering::SeqCst) {
            lock(&self.held).push((completion, outcome));
        } else {
            completion.complete(outcome);
        }
    }
}

// Nothing that panics runs under these locks: poison means nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
