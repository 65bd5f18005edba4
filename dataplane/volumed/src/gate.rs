//! The device in front of the volume: it lets requests through, holds them or refuses them, and
//! knows which are in flight.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use grampus_blockdev::{
    BlockDevice, Completion, CompletionSink, DeviceError, Geometry, Outcome, Request, Token,
};
use thiserror::Error;

use crate::clock::Clock;
use crate::in_flight::{InFlight, Table};
use crate::kind::Kind;
use crate::meter::{Measurement, Meter};
use crate::shard;

/// Why requests wait in the gate. Reasons add up: it opens when the last one is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Asked for by `pause`.
    Pause,
    /// Asked for by `quiesce`.
    Quiesce,
    /// Asked for by librbd: another client is about to take a snapshot.
    Snapshot,
    /// Asked for by `snapshot`. By itself: the end of another client's must not end it.
    OwnSnapshot,
    /// There is no device behind the gate, or another one is about to be: `close-image`.
    Exchange,
}

/// Why requests are refused. None of them ever ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The cluster no longer listens to this client.
    Fenced,
    /// The device lost data and refuses everything itself.
    Failed,
    /// The daemon ends.
    Stopping,
}

const REFUSALS: u32 = 0b111;

impl Refusal {
    fn bit(self) -> u32 {
        match self {
            Self::Fenced => 0b1,
            Self::Failed => 0b10,
            Self::Stopping => 0b100,
        }
    }

    fn error(self) -> DeviceError {
        match self {
            Self::Fenced => DeviceError::Fenced,
            Self::Failed => DeviceError::Failed,
            Self::Stopping => DeviceError::Abandoned,
        }
    }
}

impl Hold {
    /// Every reason to hold.
    pub const ALL: [Self; 5] =
        [Self::Pause, Self::Quiesce, Self::Snapshot, Self::OwnSnapshot, Self::Exchange];

    fn bit(self) -> u32 {
        match self {
            Self::Pause => 0b1000,
            Self::Quiesce => 0b1_0000,
            Self::Snapshot => 0b10_0000,
            Self::Exchange => 0b100_0000,
            Self::OwnSnapshot => 0b1000_0000,
        }
    }
}

/// What the gate does with a request that arrives now; 0 is "let it through".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode(u32);

impl Mode {
    /// The mode made of these reasons.
    #[must_use]
    pub fn of(refusals: &[Refusal], holds: &[Hold]) -> Self {
        let refusals = refusals.iter().map(|refusal| refusal.bit());
        Self(refusals.chain(holds.iter().map(|hold| hold.bit())).fold(0, |bits, bit| bits | bit))
    }

    /// This mode, and this reason to refuse.
    #[must_use]
    pub fn with(self, refusal: Refusal) -> Self {
        Self(self.0 | refusal.bit())
    }

    /// Whether requests are held for this reason.
    #[must_use]
    pub fn holds_for(self, hold: Hold) -> bool {
        self.0 & hold.bit() != 0
    }

    /// Why requests are refused, the gravest reason first.
    #[must_use]
    pub fn refusal(self) -> Option<Refusal> {
        [Refusal::Fenced, Refusal::Failed, Refusal::Stopping]
            .into_iter()
            .find(|refusal| self.0 & refusal.bit() != 0)
    }
}

/// A flush that the daemon asked for itself did not succeed.
#[derive(Debug, Error)]
pub enum FlushError {
    /// The device answered with an error.
    #[error("the flush failed: {0}")]
    Device(#[source] DeviceError),
    /// No answer yet: the cluster does not answer. What was asked for still goes on.
    #[error("the volume did not answer within {timeout_s} s")]
    TimedOut {
        /// How long was waited.
        timeout_s: f64,
    },
}

/// A device that passes requests on to another.
///
/// What waits in it is bounded by a table of fixed size, whose slots are claimed without a lock
/// that threads share: a request costs two looks at the clock and no allocation. When the table
/// is full, `submit` waits.
pub struct Gate {
    core: Arc<Core>,
    /// One for each few threads: a count of references that all threads changed would be the one
    /// cache line that all of them wait for.
    lanes: Box<[Lane]>,
    /// As it was when the gate was made.
    first_geometry: Geometry,
    flushing: Arc<FlushDesk>,
}

struct Core {
    table: Table,
    mode: AtomicU32,
    meter: Arc<Meter>,
    clock: Clock,
}

/// The way to the device for a few threads. Its lock is taken for writing by an exchange of the
/// device alone: for each request it costs two additions to a cache line that no other thread has.
#[repr(align(128))]
struct Lane(RwLock<Arc<Sink>>);

/// The device, and where its answers come back; the token is the slot.
struct Sink {
    core: Arc<Core>,
    device: Arc<dyn BlockDevice>,
}

/// One flush of our own at a time, so that a cluster that hangs cannot fill the table with them.
#[derive(Debug, Default)]
struct FlushDesk {
    pending: Mutex<bool>,
    finished: Condvar,
}

struct FlushReply {
    desk: Arc<FlushDesk>,
    answer: mpsc::Sender<Result<(), DeviceError>>,
}

/// What a gate stands on.
#[derive(Debug, Clone)]
pub struct GateOptions {
    /// The most requests between arrival and answer.
    pub slots: usize,
    /// CPUs of the machine.
    pub cpus: usize,
    /// What counts the requests.
    pub meter: Arc<Meter>,
    /// What times them.
    pub clock: Clock,
}

impl Gate {
    /// An open gate in front of `device`.
    #[must_use]
    pub fn new(device: &Arc<dyn BlockDevice>, options: GateOptions) -> Self {
        let GateOptions { slots, cpus, meter, clock } = options;
        let table = Table::new(slots, cpus);
        let core = Arc::new(Core { table, mode: AtomicU32::new(0), meter, clock });
        let lane = |_| Lane(RwLock::new(Sink::to(&core, device)));
        let lanes = (0..shard::copies_for(cpus)).map(lane).collect();
        Self { core, lanes, first_geometry: device.geometry(), flushing: Arc::default() }
    }

    /// Let requests go to `device` from now on. What the one before was given it answers; so that
    /// there is no such thing, hold requests and wait until it is idle first.
    pub fn replace(&self, device: &Arc<dyn BlockDevice>) {
        for lane in &self.lanes {
            let sink = Sink::to(&self.core, device);
            *lane.0.write().unwrap_or_else(PoisonError::into_inner) = sink;
        }
    }

    /// What it does with requests now.
    #[must_use]
    pub fn mode(&self) -> Mode {
        Mode(self.core.mode.load(Ordering::SeqCst))
    }

    /// What is in flight now.
    #[must_use]
    pub fn in_flight(&self) -> InFlight {
        self.core.table.observe(self.core.clock.now_ns())
    }

    /// The most requests that it takes at a time.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.core.table.capacity()
    }

    /// Let no further request through to the device. Those that it has go on: see
    /// [`Gate::wait_until_idle`].
    pub fn hold(&self, hold: Hold) {
        self.core.mode.fetch_or(hold.bit(), Ordering::SeqCst);
    }

    /// End a reason to hold; held requests go to the device unless another reason is left.
    pub fn release(&self, hold: Hold) {
        self.core.mode.fetch_and(!hold.bit(), Ordering::SeqCst);
        self.recheck_held();
    }

    /// Answer every further request, and each held one, with an error at once.
    pub fn refuse(&self, refusal: Refusal) {
        self.core.mode.fetch_or(refusal.bit(), Ordering::SeqCst);
        self.recheck_held();
    }

    /// Deal with held requests as the mode asks for. The gate does so itself, but for a fence
    /// that it learnt of from an answer, where no thread is free to do it: call it now and then.
    pub fn recheck_held(&self) {
        for index in 0..self.core.table.capacity() {
            if self.core.must_wait() {
                return;
            }
            if let Some(request) = self.core.table.unhold(index, self.core.clock.now_ns()) {
                self.admit(index, request);
            }
        }
    }

    /// Wait until the device has answered all that it was given.
    ///
    /// # Errors
    /// [`FlushError::TimedOut`] when it has not by the deadline.
    pub fn wait_until_idle(&self, timeout: Duration) -> Result<(), FlushError> {
        self.core
            .table
            .wait_until_idle(Instant::now() + timeout)
            .map_err(|_| FlushError::TimedOut { timeout_s: timeout.as_secs_f64() })
    }

    /// Flush the device, also while requests are held, and wait for it.
    ///
    /// # Errors
    /// [`FlushError`]. After a time-out the flush is still with the device; the next call waits
    /// for it first.
    pub fn flush(&self, timeout: Duration) -> Result<(), FlushError> {
        let late = || FlushError::TimedOut { timeout_s: timeout.as_secs_f64() };
        let deadline = Instant::now() + timeout;
        if !self.flushing.begin(deadline) {
            return Err(late());
        }
        let (sender, answer) = mpsc::channel();
        let reply = FlushReply { desk: Arc::clone(&self.flushing), answer: sender };
        let completion = Completion::new(Arc::new(reply), Token(0));
        let index = self.core.table.enter(Kind::Flush, 0, self.core.clock.now_ns(), completion);
        match self.mode().refusal() {
            Some(refusal @ (Refusal::Fenced | Refusal::Failed)) => {
                self.core.refuse(index, Request::Flush, refusal);
            }
            // A daemon that ends refuses its users, not its own last flush.
            Some(Refusal::Stopping) | None => self.pass(index, Request::Flush),
        }
        match answer.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(result) => result.map_err(FlushError::Device),
            Err(RecvTimeoutError::Timeout) => Err(late()),
            Err(RecvTimeoutError::Disconnected) => Err(FlushError::Device(DeviceError::Abandoned)),
        }
    }

    /// Pass, hold or refuse the request of an active slot.
    fn admit(&self, index: usize, mut request: Request) {
        loop {
            // After the slot became active: whoever sets the mode and then waits for active
            // slots either sees this one, or this load sees the mode.
            let mode = self.mode();
            if let Some(refusal) = mode.refusal() {
                return self.core.refuse(index, request, refusal);
            }
            if !self.core.must_wait() {
                return self.pass(index, request);
            }
            self.core.table.hold(index, request);
            if self.core.must_wait() {
                return; // whoever ends the hold finds it in the table
            }
            match self.core.table.unhold(index, self.core.clock.now_ns()) {
                Some(again) => request = again,
                None => return, // found already
            }
        }
    }

    fn pass(&self, index: usize, request: Request) {
        let token = u64::try_from(index).unwrap_or(u64::MAX);
        if let Some(sink) = self.sink() {
            // Not under the lane's lock: a device may answer at once, and its user ask again.
            let back = Arc::<Sink>::clone(&sink);
            sink.device.submit(request, Completion::new(back, Token(token)));
        }
    }

    /// This thread's own.
    fn sink(&self) -> Option<Arc<Sink>> {
        let lane = shard::own(&self.lanes)?;
        Some(Arc::clone(&lane.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl BlockDevice for Gate {
    fn geometry(&self) -> Geometry {
        self.sink().map_or(self.first_geometry, |sink| sink.device.geometry())
    }

    fn submit(&self, request: Request, completion: Completion) {
        let kind = Kind::of(&request);
        let bytes = request.range().map_or(0, |range| range.length.bytes());
        let index = self.core.table.enter(kind, bytes, self.core.clock.now_ns(), completion);
        self.admit(index, request);
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Gate").field("mode", &self.mode()).finish_non_exhaustive()
    }
}

impl Core {
    /// Whether a request has to stay in the gate now.
    fn must_wait(&self) -> bool {
        let mode = self.mode.load(Ordering::SeqCst);
        mode & REFUSALS == 0 && mode != 0
    }

    /// Answer the request of an active slot without the device.
    fn refuse(&self, index: usize, request: Request, refusal: Refusal) {
        let outcome = Outcome { result: Err(refusal.error()), buffer: request.into_buffer() };
        self.finish(index, outcome);
    }

    /// Answer the request of an active slot.
    fn finish(&self, index: usize, outcome: Outcome) {
        let Some(departure) = self.table.leave(index) else {
            return;
        };
        match outcome.result {
            Err(DeviceError::Fenced) => {
                self.mode.fetch_or(Refusal::Fenced.bit(), Ordering::SeqCst);
            }
            Err(DeviceError::Failed | DeviceError::Truncated { .. }) => {
                self.mode.fetch_or(Refusal::Failed.bit(), Ordering::SeqCst);
            }
            _ => {}
        }
        self.meter.record(Measurement {
            kind: departure.kind,
            bytes: departure.bytes,
            latency_ns: self.clock.now_ns().saturating_sub(departure.arrived_ns),
            ok: outcome.result.is_ok(),
        });
        departure.completion.complete(outcome);
    }
}

impl Sink {
    fn to(core: &Arc<Core>, device: &Arc<dyn BlockDevice>) -> Arc<Self> {
        Arc::new(Self { core: Arc::clone(core), device: Arc::clone(device) })
    }
}

impl CompletionSink for Sink {
    fn complete(&self, token: Token, outcome: Outcome) {
        if let Ok(index) = usize::try_from(token.0) {
            self.core.finish(index, outcome);
        }
    }
}

impl FlushDesk {
    /// Wait for the flush before, then claim the desk; false when the deadline came first.
    fn begin(&self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut pending, _) = self
            .finished
            .wait_timeout_while(pending, left, |pending| *pending)
            .unwrap_or_else(PoisonError::into_inner);
        if *pending {
            return false;
        }
        *pending = true;
        true
    }
}

impl CompletionSink for FlushReply {
    fn complete(&self, _token: Token, outcome: Outcome) {
        *self.desk.pending.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.desk.finished.notify_all();
        // Whoever asked may have stopped waiting.
        drop(self.answer.send(outcome.result));
    }
}
