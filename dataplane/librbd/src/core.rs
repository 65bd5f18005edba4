//! What everything about one open image shares: its handle, size, health, and who still uses it.

use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};

use grampus_blockdev::{BlockSize, DeviceError, Geometry, LimitError, Request};

use crate::calls::Image;
use crate::error::{EBLOCKLISTED, RbdError, io_error};

const WHOLE: u8 = 0;
const FAILED: u8 = 1;
const FENCED: u8 = 2;

/// A request that needs another call.
pub(crate) trait Unfinished: Send {
    /// Start that call.
    fn go_on(self: Box<Self>, core: &Core);
}

/// What the thread behind an image is told.
pub(crate) enum FollowUp {
    /// Start the next call of this request, which librbd's callback may not.
    Continue(Box<dyn Unfinished>),
    /// End.
    Stop,
}

/// The shared part of an open image. It does not close the image: callbacks on librbd's threads
/// hold it, where closing would wait for itself.
pub(crate) struct Core {
    pub(crate) image: Image,
    /// As in `pool/image`, for messages.
    pub(crate) name: String,
    pub(crate) follow_ups: mpsc::Sender<FollowUp>,
    /// Of a valid geometry, as are all later ones.
    size_bytes: AtomicU64,
    /// Whether a write is durable on all copies as soon as librbd has answered it.
    writes_through: bool,
    /// What the image had when it was opened, for [`Core::geometry`].
    first_geometry: Geometry,
    /// WHOLE, FAILED or FENCED; only ever rises.
    health: AtomicU8,
    locked: AtomicBool,
    /// Whether anything may be there to flush. A flush needs the lock as a write does, so a
    /// client that wrote nothing does better without.
    changed: AtomicBool,
    closing: AtomicBool,
    in_flight: AtomicU64,
    calls: AtomicU64,
    /// Guards no data: it closes the gap between looking at the counters and going to sleep.
    idle: Mutex<()>,
    idled: Condvar,
}

impl Core {
    pub(crate) fn new(
        image: Image,
        name: String,
        geometry: Geometry,
        writes_through: bool,
        follow_ups: mpsc::Sender<FollowUp>,
    ) -> Self {
        Self {
            writes_through,
            image,
            name,
            follow_ups,
            size_bytes: AtomicU64::new(geometry.size_bytes()),
            first_geometry: geometry,
            health: AtomicU8::new(WHOLE),
            locked: AtomicBool::new(false),
            changed: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            in_flight: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            idle: Mutex::new(()),
            idled: Condvar::new(),
        }
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Acquire)
    }

    pub(crate) fn geometry(&self) -> Geometry {
        // Only sizes that make a geometry are adopted, so the alternative is never taken.
        decide_geometry(self.size_bytes()).unwrap_or(self.first_geometry)
    }

    /// Whether a change is durable once librbd has answered it, so that nothing is left to flush.
    pub(crate) fn writes_through(&self) -> bool {
        self.writes_through
    }

    /// What becomes of a request.
    pub(crate) fn admit(&self, request: &Request) -> Admission {
        if let Some(refusal) = self.refusal() {
            return Admission::Refuse(refusal);
        }
        let Some(range) = request.range() else {
            // librbd's own flush would wait for what is in flight, which a flush need not cover:
            // a commit would wait for every page that is being written behind it.
            return if self.writes_through { Admission::Empty } else { Admission::Start };
        };
        match self.geometry().require(range) {
            Err(error) => Admission::Refuse(error),
            Ok(()) if range.is_empty() => Admission::Empty,
            Ok(()) => Admission::Start,
        }
    }

    /// Whether `geometry` has another size than so far, which is then the size.
    pub(crate) fn adopt(&self, geometry: Geometry) -> bool {
        let size_bytes = geometry.size_bytes();
        self.size_bytes.swap(size_bytes, Ordering::AcqRel) != size_bytes
    }

    /// Note that the exclusive lock was taken: losing it means that another may own it now.
    pub(crate) fn note_locked(&self) {
        self.locked.store(true, Ordering::Release);
    }

    /// Note that the exclusive lock was given back, before which librbd flushed.
    pub(crate) fn note_unlocked(&self) {
        self.locked.store(false, Ordering::Release);
        self.changed.store(false, Ordering::Release);
    }

    /// Note that the image is about to be changed.
    pub(crate) fn note_change(&self) {
        // Looked at first: all threads write here, and a store takes the cache line from them.
        if !self.changed.load(Ordering::Acquire) {
            self.changed.store(true, Ordering::Release);
        }
    }

    /// Whether the image was changed and the lock not given back since.
    pub(crate) fn is_changed(&self) -> bool {
        self.changed.load(Ordering::Acquire)
    }

    pub(crate) fn is_fenced(&self) -> bool {
        self.health.load(Ordering::Acquire) == FENCED
    }

    /// Why every request is refused, if it is.
    pub(crate) fn refusal(&self) -> Option<DeviceError> {
        match self.health.load(Ordering::Acquire) {
            WHOLE => None,
            FAILED => Some(DeviceError::Failed),
            _ => Some(DeviceError::Fenced),
        }
    }

    /// The failure of a request that librbd answered with `code`; a fence is remembered.
    pub(crate) fn request_failure(&self, action: &'static str, code: i64) -> DeviceError {
        if is_fence(code, self.locked.load(Ordering::Acquire)) {
            self.health.fetch_max(FENCED, Ordering::AcqRel);
            return DeviceError::Fenced;
        }
        DeviceError::Io { action, source: io_error(code) }
    }

    /// The failure of a flush, after which nothing is reported durable any more (INV-6).
    pub(crate) fn flush_failure(&self, code: i64) -> DeviceError {
        self.health.fetch_max(FAILED, Ordering::AcqRel);
        self.request_failure("flush", code)
    }

    /// A read that librbd cut short: the image is smaller than it was when the read was admitted.
    pub(crate) fn short_read() -> DeviceError {
        DeviceError::Io { action: "read", source: io::ErrorKind::UnexpectedEof.into() }
    }

    /// Turn a call's negative answer into an error; a fence is remembered.
    pub(crate) fn require(&self, action: &'static str, code: i64) -> Result<i64, RbdError> {
        if code >= 0 { Ok(code) } else { Err(self.call_failure(action, code)) }
    }

    fn call_failure(&self, action: &'static str, code: i64) -> RbdError {
        let error = RbdError::of(action, &*self.name, code);
        if matches!(error, RbdError::Fenced) {
            self.health.fetch_max(FENCED, Ordering::AcqRel);
        }
        error
    }

    /// Turn a call's outcome into one with an error; a fence is remembered.
    pub(crate) fn made<T>(
        &self,
        action: &'static str,
        outcome: Result<T, i64>,
    ) -> Result<T, RbdError> {
        outcome.map_err(|code| self.call_failure(action, code))
    }

    /// Requests accepted and not answered.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Count a request in flight.
    pub(crate) fn ticket(self: &Arc<Self>) -> Ticket {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        Ticket { core: Arc::clone(self) }
    }

    /// Let a call in.
    ///
    /// # Errors
    /// [`RbdError::Closed`] once the image is closing.
    pub(crate) fn enter(&self) -> Result<Entered<'_>, RbdError> {
        // Counted first and asked second, while `drain` says it is closing first and counts
        // second: of two that race, at least one sees the other.
        self.calls.fetch_add(1, Ordering::SeqCst);
        let entered = Entered { core: self };
        if self.closing.load(Ordering::SeqCst) { Err(RbdError::Closed) } else { Ok(entered) }
    }

    /// Let nothing in any more, and wait until all that is in has left.
    pub(crate) fn drain(&self) {
        self.closing.store(true, Ordering::SeqCst);
        let mut idle = self.idle();
        while self.in_flight.load(Ordering::SeqCst) + self.calls.load(Ordering::SeqCst) > 0 {
            idle = self.idled.wait(idle).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn leave(&self, counter: &AtomicU64) {
        if counter.fetch_sub(1, Ordering::SeqCst) == 1 && self.closing.load(Ordering::SeqCst) {
            drop(self.idle());
            self.idled.notify_all();
        }
    }

    fn idle(&self) -> MutexGuard<'_, ()> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What becomes of a request.
pub(crate) enum Admission {
    /// It fails, and changes nothing.
    Refuse(DeviceError),
    /// There is nothing to do.
    Empty,
    /// librbd gets it.
    Start,
}

/// One request in flight, counted until it is dropped.
pub(crate) struct Ticket {
    core: Arc<Core>,
}

impl Deref for Ticket {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.core.leave(&self.core.in_flight);
    }
}

/// One call in progress, counted until it is dropped; the image stays open for it.
pub(crate) struct Entered<'a> {
    core: &'a Core,
}

impl Deref for Entered<'_> {
    type Target = Core;

    fn deref(&self) -> &Core {
        self.core
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.core.leave(&self.core.calls);
    }
}

/// Whether an answer says that this client may not write any more.
///
/// With the lock taken explicitly, librbd answers EROFS only once it has lost it, and then another
/// client may have it. (It asks for a lost lock again only where it may also give it away.)
pub(crate) fn is_fence(code: i64, locked: bool) -> bool {
    code == -i64::from(EBLOCKLISTED) || (locked && code == -i64::from(libc::EROFS))
}

/// The shape of an image: its size in whole sectors of 512 bytes, in blocks of 4096 where they fit.
pub(crate) fn decide_geometry(image_bytes: u64) -> Result<Geometry, LimitError> {
    let size_bytes = image_bytes - image_bytes % 512;
    let block_size = if size_bytes % 4096 == 0 { BlockSize::B4096 } else { BlockSize::B512 };
    Geometry::new(size_bytes, block_size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_as_large_as_the_size_allows() {
        for (image_bytes, expected) in [
            (4096, Some((4096, 4096))),
            (8192, Some((8192, 4096))),
            (4608, Some((4608, 512))),
            (4609, Some((4608, 512))),
            (8191, Some((7680, 512))),
            (511, None),
            (0, None),
            (u64::MAX, None),
        ] {
            let shape = decide_geometry(image_bytes)
                .ok()
                .map(|geometry| (geometry.size_bytes(), geometry.block_size().bytes()));
            assert_eq!(shape, expected, "{image_bytes}");
        }
    }

    #[test]
    fn only_a_blocklist_entry_or_a_lost_lock_is_a_fence() {
        for (code, locked, expected) in [
            (-108, false, true),
            (-108, true, true),
            (-30, true, true),
            (-30, false, false),
            (-5, true, false),
            (108, true, false),
        ] {
            assert_eq!(is_fence(code, locked), expected, "{code} {locked}");
        }
    }
}
