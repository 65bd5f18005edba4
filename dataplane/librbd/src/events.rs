//! What librbd tells of its own accord: the image has changed, a snapshot is about to be taken.
#![allow(unsafe_code, reason = "callbacks get their argument as a pointer")]

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::{mem, thread};

use crate::core::{Core, decide_geometry};
use crate::error::RbdError;
use crate::operation::forbid_closing;

/// An error number such as `EIO`, positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

/// Makes an image's content consistent while a snapshot is taken, by whichever client.
///
/// Called on a thread that is made for it, which it may block; never at the same time twice.
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    Updated,
    Quiesce,
    Unquiesce,
}

struct Quiescing {
    handler: Arc<dyn QuiesceHandler>,
    watch: u64,
}

/// Events that were not carried out yet.
#[derive(Default)]
struct Waiting {
    queue: VecDeque<Event>,
    /// A thread carries them out.
    is_running: bool,
    /// The image is being closed: no more are taken.
    is_over: bool,
}

/// Where callbacks of watches arrive. They are rare, so a thread is made for them when one comes,
/// which ends when none is left.
///
/// Its address is librbd's from the first watch until the image is closed.
pub(crate) struct Events {
    this: Weak<Self>,
    core: OnceLock<Arc<Core>>,
    waiting: Mutex<Waiting>,
    /// No thread carries events out any more.
    rested: Condvar,
    on_resize: Mutex<Vec<ResizeCallback>>,
    refreshing: Mutex<()>,
    /// Held while the watch is made, so that no quiesce is taken before its handle is known.
    quiescing: Mutex<Option<Quiescing>>,
    update_watch: Mutex<Option<u64>>,
}

impl Events {
    /// The port of an image.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            core: OnceLock::new(),
            waiting: Mutex::default(),
            rested: Condvar::new(),
            on_resize: Mutex::default(),
            refreshing: Mutex::default(),
            quiescing: Mutex::default(),
            update_watch: Mutex::default(),
        })
    }

    /// The image whose events these are, before the first watch.
    pub(crate) fn belong_to(&self, core: &Arc<Core>) {
        // Once: an image has one port.
        self.core.set(Arc::clone(core)).ok();
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

    /// Take no more events, and wait until those that came have been carried out.
    pub(crate) fn stop(&self) {
        let mut waiting = lock(&self.waiting);
        waiting.is_over = true;
        while waiting.is_running {
            waiting = self.rested.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Carry out events until none is left.
    fn run(&self, core: &Core) {
        forbid_closing();
        while let Some(event) = self.next() {
            match event {
                Event::Updated => {
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
            }
        }
    }

    /// The next event; None ends the thread that asks, which counts as ended from here on.
    fn next(&self) -> Option<Event> {
        let mut waiting = lock(&self.waiting);
        let next = waiting.queue.pop_front();
        if next.is_none() {
            waiting.is_running = false;
            self.rested.notify_all();
        }
        next
    }

    fn quiescing(&self) -> Option<(Arc<dyn QuiesceHandler>, u64)> {
        lock(&self.quiescing).as_ref().map(|found| (Arc::clone(&found.handler), found.watch))
    }

    fn post(&self, event: Event) {
        let mut waiting = lock(&self.waiting);
        // At most one look at the size is queued: an image that changes without end takes no memory.
        let is_told = event == Event::Updated && waiting.queue.contains(&event);
        if waiting.is_over || is_told {
            return;
        }
        waiting.queue.push_back(event);
        if waiting.is_running {
            return;
        }
        let (Some(events), Some(core)) = (self.this.upgrade(), self.core.get().cloned()) else {
            return;
        };
        let ended = Ended(Arc::clone(&events));
        let carry_out = move || {
            let _ended = ended;
            events.run(&core);
        };
        // Where no thread can be had, the event waits for the next one that comes: a snapshot's
        // author gives up, and a size is found by whoever asks for it.
        waiting.is_running =
            thread::Builder::new().name("rbd-events".to_owned()).spawn(carry_out).is_ok();
    }

    fn argument(&self) -> *mut c_void {
        (&raw const *self).cast_mut().cast()
    }
}

/// A thread that carries events out has ended, also by a panic in a callback.
struct Ended(Arc<Events>);

impl Drop for Ended {
    fn drop(&mut self) {
        if thread::panicking() {
            lock(&self.0.waiting).is_running = false;
            self.0.rested.notify_all();
        }
    }
}

/// # Safety
/// `argument` is an [`Events`] that lives through the call.
unsafe fn events<'a>(argument: *mut c_void) -> &'a Events {
    // SAFETY: as the caller says; only shared references to it are ever made.
    unsafe { &*argument.cast_const().cast::<Events>() }
}

unsafe extern "C" fn on_update(argument: *mut c_void) {
    // SAFETY: the argument was made by `watch_updates`, whose caller keeps it alive.
    unsafe { events(argument) }.post(Event::Updated);
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
