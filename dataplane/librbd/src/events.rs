//! What librbd tells of its own accord: the image has changed, a snapshot is about to be taken.
#![allow(unsafe_code, reason = "callbacks get their argument as a pointer")]

use std::ffi::c_void;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use crate::core::{Core, decide_geometry};
use crate::error::RbdError;
use crate::operation::forbid_closing;

/// An error number such as `EIO`, positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

/// Makes an image's content consistent while a snapshot is taken, by whichever client.
///
/// Called on a thread of the image's own, which it may block; never at the same time twice.
pub trait QuiesceHandler: Send + Sync {
    /// Let nothing change the image until [`QuiesceHandler::unquiesce`], and flush.
    ///
    /// # Errors
    /// Any error number makes the snapshot fail.
    fn quiesce(&self) -> Result<(), Errno>;

    /// Go on.
    fn unquiesce(&self);
}

type ResizeCallback = Arc<dyn Fn(u64) + Send + Sync>;

enum Event {
    Updated,
    Quiesce,
    Unquiesce,
    Stop,
}

struct Quiescing {
    handler: Arc<dyn QuiesceHandler>,
    watch: u64,
}

/// Where callbacks of watches arrive; a thread in [`Events::run`] carries them out.
///
/// Its address is librbd's from the first watch until the image is closed.
pub(crate) struct Events {
    queue: mpsc::Sender<Event>,
    /// At most one is queued: an image that changes without end takes no memory.
    update_queued: AtomicBool,
    on_resize: Mutex<Vec<ResizeCallback>>,
    refreshing: Mutex<()>,
    /// Held while the watch is made, so that no quiesce is taken before its handle is known.
    quiescing: Mutex<Option<Quiescing>>,
    update_watch: Mutex<Option<u64>>,
}

impl Events {
    /// The port, and what `run` takes from it.
    pub(crate) fn new() -> (Arc<Self>, EventQueue) {
        let (queue, receiver) = mpsc::channel();
        let events = Self {
            queue,
            update_queued: AtomicBool::new(false),
            on_resize: Mutex::default(),
            refreshing: Mutex::default(),
            quiescing: Mutex::default(),
            update_watch: Mutex::default(),
        };
        (Arc::new(events), EventQueue(receiver))
    }

    /// Hear of changes of the image.
    ///
    /// # Safety
    /// `self` lives until the image of `core` is closed.
    pub(crate) unsafe fn watch_updates(&self, core: &Core) -> Result<(), RbdError> {
        // SAFETY: `self` outlives the watch; `on_update` takes such a pointer.
        let watch = unsafe { core.image.watch_updates(on_update, self.argument()) };
        *lock(&self.update_watch) = Some(core.made("watch the image", watch)?);
        Ok(())
    }

    /// Hear of snapshots; a second handler takes the place of the first.
    ///
    /// # Safety
    /// `self` lives until the image of `core` is closed.
    pub(crate) unsafe fn watch_quiesce(
        &self,
        core: &Core,
        handler: Box<dyn QuiesceHandler>,
    ) -> Result<(), RbdError> {
        let handler = Arc::from(handler);
        let mut quiescing = lock(&self.quiescing);
        let watch = if let Some(before) = quiescing.as_ref() {
            before.watch
        } else {
            // SAFETY: `self` outlives the watch; both callbacks take such a pointer.
            let watch =
                unsafe { core.image.watch_quiesce(on_quiesce, on_unquiesce, self.argument()) };
            let unsupported = RbdError::Unsupported { symbol: "rbd_quiesce_watch" };
            core.made("watch for snapshots of the image", watch.ok_or(unsupported)?)?
        };
        *quiescing = Some(Quiescing { handler, watch });
        Ok(())
    }

    /// Let `callback` know of each new size.
    pub(crate) fn add_resize_callback(&self, callback: Box<dyn Fn(u64) + Send + Sync>) {
        lock(&self.on_resize).push(Arc::from(callback));
    }

    /// Take the image's size from the cluster, and tell the new one if it has changed.
    ///
    /// # Errors
    /// [`RbdError::Call`], [`RbdError::Fenced`]; [`RbdError::Limit`] for a size that makes no
    /// device, and the old one stays.
    pub(crate) fn refresh_size(&self, core: &Core) -> Result<u64, RbdError> {
        let is_new = {
            // One at a time: of two answers, the older must not be taken for the newer.
            let _alone = lock(&self.refreshing);
            let image_bytes = core.made("read the size of", core.image.size_bytes())?;
            core.adopt(decide_geometry(image_bytes)?)
        };
        if is_new {
            // Not called under the lock: one of them may add another.
            let callbacks = lock(&self.on_resize).clone();
            for callback in callbacks {
                callback(core.size_bytes());
            }
        }
        Ok(core.size_bytes())
    }

    /// Stop the watches; no callback comes any more.
    pub(crate) fn unwatch(&self, core: &Core) {
        // The image is about to be closed, which ends a watch that could not be ended here.
        let quiescing = lock(&self.quiescing).as_ref().map(|quiescing| quiescing.watch);
        if let Some(watch) = quiescing {
            core.image.unwatch_quiesce(watch);
        }
        if let Some(watch) = lock(&self.update_watch).take() {
            core.image.unwatch_updates(watch);
        }
    }

    /// Let go of handlers and callbacks, and of what they hold.
    pub(crate) fn forget(&self) {
        let handler = lock(&self.quiescing).take();
        let callbacks = mem::take(&mut *lock(&self.on_resize));
        // Dropped without the locks: theirs may be the last hold on something that calls back.
        drop((handler, callbacks));
    }

    /// End `run` after what is queued.
    pub(crate) fn stop(&self) {
        self.post(Event::Stop);
    }

    /// Carry out events until told to stop.
    pub(crate) fn run(&self, core: &Core, queue: EventQueue) {
        forbid_closing();
        for event in queue.0 {
            match event {
                Event::Updated => {
                    self.update_queued.store(false, Ordering::SeqCst);
                    // The next change, request or call meets the same trouble, and its caller
                    // hears of it; here nobody asks. A size that makes no device is not taken.
                    drop(self.refresh_size(core));
                }
                Event::Quiesce => {
                    if let Some((handler, watch)) = self.quiescing() {
                        let answer = handler.quiesce().err().map_or(0, |Errno(errno)| -errno.abs());
                        core.image.complete_quiesce(watch, answer);
                    }
                }
                Event::Unquiesce => {
                    if let Some((handler, _)) = self.quiescing() {
                        handler.unquiesce();
                    }
                }
                Event::Stop => return,
            }
        }
    }

    fn quiescing(&self) -> Option<(Arc<dyn QuiesceHandler>, u64)> {
        lock(&self.quiescing).as_ref().map(|found| (Arc::clone(&found.handler), found.watch))
    }

    fn post(&self, event: Event) {
        // With `run` gone the image is closed, and nobody waits for events.
        drop(self.queue.send(event));
    }

    fn argument(&self) -> *mut c_void {
        (&raw const *self).cast_mut().cast()
    }
}

/// The events to carry out.
pub(crate) struct EventQueue(mpsc::Receiver<Event>);

/// # Safety
/// `argument` is an [`Events`] that lives through the call.
unsafe fn events<'a>(argument: *mut c_void) -> &'a Events {
    // SAFETY: as the caller says; only shared references to it are ever made.
    unsafe { &*argument.cast_const().cast::<Events>() }
}

unsafe extern "C" fn on_update(argument: *mut c_void) {
    // SAFETY: the argument was made by `watch_updates`, whose caller keeps it alive.
    let events = unsafe { events(argument) };
    if !events.update_queued.swap(true, Ordering::SeqCst) {
        events.post(Event::Updated);
    }
}

unsafe extern "C" fn on_quiesce(argument: *mut c_void) {
    // SAFETY: the argument was made by `watch_quiesce`, whose caller keeps it alive.
    unsafe { events(argument) }.post(Event::Quiesce);
}

unsafe extern "C" fn on_unquiesce(argument: *mut c_void) {
    // SAFETY: as above.
    unsafe { events(argument) }.post(Event::Unquiesce);
}

/// A panic of another thread leaves a list or an option, which are always valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
