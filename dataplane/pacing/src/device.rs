//! The device.

use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use grampus_blockdev::{BlockDevice, Completion, Geometry, Request, execute};

use crate::arm::{Arm, Work};
use crate::model::DiskModel;

/// The most requests that wait for the arm. Whoever brings one more waits until there is room.
pub(crate) const MAX_WAITING: usize = 256;

/// A device that takes the time of a disk with one arm.
pub struct PacedDevice {
    shared: Arc<Shared>,
    /// None once the device is dropped.
    server: Option<JoinHandle<()>>,
}

/// What an emulated disk did so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that took the model's time.
    pub served: u64,
    /// That time, in all.
    pub busy: Duration,
    /// How much longer than the model says the device below took, in all. The emulated disk was
    /// slower by as much.
    pub late: Duration,
}

struct Shared {
    below: Arc<dyn BlockDevice>,
    model: DiskModel,
    /// What the arm's times count from.
    epoch: Instant,
    state: Mutex<State>,
    /// A request waits, or the device ends: for the thread that serves.
    arrived: Condvar,
    /// There is no time to wait for any more: for the thread that serves.
    pace_changed: Condvar,
    /// Fewer than [`MAX_WAITING`] wait: for those who bring requests.
    has_room: Condvar,
}

struct State {
    arm: Arm<(Request, Completion)>,
    is_paced: bool,
    is_ending: bool,
    /// How often the arm began afresh: what was taken before has no time to wait for.
    restarts: u64,
    counts: Counts,
}

/// The time that a request takes, for as long as the arm does not begin afresh.
struct Turn {
    end: Duration,
    lasts: Duration,
    restarts: u64,
}

impl State {
    fn is_timed(&self) -> bool {
        self.is_paced && !self.is_ending
    }
}

impl PacedDevice {
    /// A device in front of `below` that takes the time that `model` says, from now on.
    ///
    /// # Errors
    /// The operating system's, when it refuses a thread.
    pub fn new(below: Arc<dyn BlockDevice>, model: DiskModel) -> io::Result<Self> {
        let state = State {
            arm: Arm::new(model, Duration::ZERO),
            is_paced: true,
            is_ending: false,
            restarts: 0,
            counts: Counts::default(),
        };
        let shared = Arc::new(Shared {
            below,
            model,
            epoch: Instant::now(),
            state: Mutex::new(state),
            arrived: Condvar::new(),
            pace_changed: Condvar::new(),
            has_room: Condvar::new(),
        });
        let own = Arc::clone(&shared);
        let named = thread::Builder::new().name("disk-arm".to_owned());
        let server = named.spawn(move || own.serve())?;
        Ok(Self { shared, server: Some(server) })
    }

    /// Whose time it takes.
    #[must_use]
    pub fn model(&self) -> DiskModel {
        self.shared.model
    }

    /// Whether requests take the model's time now.
    #[must_use]
    pub fn is_paced(&self) -> bool {
        self.shared.state().is_paced
    }

    /// How many requests wait for the arm.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.shared.state().arm.len()
    }

    /// What it did so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.state().counts
    }

    /// Let requests take the model's time, or only what the device below takes.
    ///
    /// Without the model's time requests go to the device below on their callers' threads, and what
    /// waits is answered as soon as that device has done it. With it again, the disk is free, and its
    /// arm is anywhere.
    pub fn set_paced(&self, is_paced: bool) {
        let shared = &self.shared;
        let mut state = shared.state();
        if state.is_paced != is_paced {
            state.is_paced = is_paced;
            state.restarts += 1;
            state.arm.restart(shared.now());
        }
        drop(state);
        shared.pace_changed.notify_all();
        shared.has_room.notify_all();
    }
}

impl BlockDevice for PacedDevice {
    fn geometry(&self) -> Geometry {
        self.shared.below.geometry()
    }

    fn submit(&self, request: Request, completion: Completion) {
        let shared = &self.shared;
        let arrived = shared.now();
        if let Some(range) = request.range() {
            if range.is_empty() || self.geometry().require(range).is_err() {
                // Nothing that a disk would do; the device below says what is wrong.
                return shared.below.submit(request, completion);
            }
        }
        let is_full = |state: &mut State| state.is_paced && state.arm.len() >= MAX_WAITING;
        let mut state = shared
            .has_room
            .wait_while(shared.state(), is_full)
            .unwrap_or_else(PoisonError::into_inner);
        if !state.is_paced {
            drop(state);
            return shared.below.submit(request, completion);
        }
        let work = Work::of(&request);
        state.arm.add((request, completion), work, arrived);
        drop(state);
        shared.arrived.notify_one();
    }
}

impl Drop for PacedDevice {
    /// Ends the thread, which first serves what waits, without the model's time.
    fn drop(&mut self) {
        self.shared.state().is_ending = true;
        self.shared.arrived.notify_all();
        self.shared.pace_changed.notify_all();
        let Some(server) = self.server.take() else { return };
        if server.thread().id() == thread::current().id() {
            // The last user dropped the device with an answer: the thread ends after this.
            return;
        }
        if server.join().is_err() {
            tracing::error!("the thread of an emulated disk broke off");
        }
    }
}

impl fmt::Debug for PacedDevice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PacedDevice")
            .field("model", &self.shared.model)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

impl Shared {
    // Nothing that panics runs under this lock: poison means nothing.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Serve one request after the other until the device is dropped and nothing waits any more.
    fn serve(&self) {
        while let Some(((request, completion), turn)) = self.next() {
            let began = Instant::now();
            let outcome = execute(&*self.below, request);
            if let Some(turn) = turn {
                self.wait_out(&turn, began.elapsed());
            }
            completion.complete(outcome);
        }
    }

    /// The next request, and its time if it takes the model's; None at the end.
    fn next(&self) -> Option<((Request, Completion), Option<Turn>)> {
        let is_idle = |state: &mut State| state.arm.len() == 0 && !state.is_ending;
        let mut state =
            self.arrived.wait_while(self.state(), is_idle).unwrap_or_else(PoisonError::into_inner);
        let service = state.arm.take()?;
        let turn = Turn { end: service.end, lasts: service.lasts(), restarts: state.restarts };
        let turn = state.is_timed().then_some(turn);
        drop(state);
        self.has_room.notify_one();
        Some((service.token, turn))
    }

    /// Wait for the end of a request that the device below has done, and took so long for.
    fn wait_out(&self, turn: &Turn, took: Duration) {
        let is_current = |state: &State| state.is_timed() && state.restarts == turn.restarts;
        let mut state = self.state();
        if !is_current(&state) {
            return;
        }
        // By as much the emulated disk was really busy longer. Its time goes on from there, and not
        // from the moment at which a thread noticed it.
        let late = took.saturating_sub(turn.lasts);
        state.arm.delay(late);
        state.counts.served += 1;
        state.counts.busy += turn.lasts;
        state.counts.late += late;
        let end = turn.end.saturating_add(late);
        loop {
            let left = end.saturating_sub(self.now());
            if left.is_zero() || !is_current(&state) {
                return;
            }
            let waited = self.pace_changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
