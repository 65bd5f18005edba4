//! The daemon between its start and its end: what it knows, and what its commands do.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use grampus_blockdev::{BlockDevice, Geometry};
use grampus_fuse::{Session, SessionHandle, TransportStatus};
use serde_json::{Value, json};

use crate::clock::{Clock, seconds};
use crate::gate::{FlushError, Gate, Hold, Refusal};
use crate::image_slot::ImageSlot;
use crate::in_flight::InFlight;
use crate::journal_report::{JournalStatus, ReadCacheStatus};
use crate::meter::Meter;
use crate::metrics::render_prometheus;
use crate::process::Hardening;
use crate::protocol::{Command, Refused};
use crate::report::{Statistics, Status, Transport};
use crate::server::Commands;
use crate::snapshot::Snapshots;
use crate::state::{Facts, State, decide_mode, decide_state};
use crate::volume::{Identity, JournalView, LockView, SnapshotGuard, VolumeError};

/// How long a snapshot may wait for what is in flight; librbd's own patience is 50 s.
const SNAPSHOT_PATIENCE: Duration = Duration::from_secs(30);
/// When a hold for a snapshot ends by itself: its client may have died.
const SNAPSHOT_LIMIT: Duration = Duration::from_secs(120);

/// Something that the main thread has to act on.
#[derive(Debug)]
pub enum Event {
    /// The volume is offered.
    Offered,
    /// It could not be.
    StartFailed(VolumeError),
    /// Someone wants the daemon to end.
    Stop {
        /// Who or what.
        cause: String,
        /// How long users may take to let go, and then the cluster.
        timeout: Duration,
        /// What the journal holds stays there.
        leaves_journal: bool,
        /// Who waits for the answer.
        reply: Option<mpsc::Sender<Result<Value, Refused>>>,
    },
    /// The mount is gone.
    SessionEnded,
}

/// What is known from the start.
#[derive(Debug)]
pub struct Daemon {
    /// Times everything.
    pub clock: Clock,
    /// Counts everything.
    pub meter: Arc<Meter>,
    /// What the process may do.
    pub hardening: Hardening,
    /// What the volume will be called until it is open.
    pub expected: Identity,
    offered: OnceLock<Arc<Offered>>,
    stopping: AtomicBool,
    /// Held from before the mount until it is offered.
    offering: Mutex<()>,
    events: mpsc::Sender<Event>,
}

/// The right to mount and offer a volume.
#[derive(Debug)]
pub struct Offering<'a> {
    _held: MutexGuard<'a, ()>,
}

/// A volume that is offered.
pub struct Offered {
    /// What lies behind.
    pub image_slot: Arc<ImageSlot>,
    /// The way to it.
    pub gate: Arc<Gate>,
    /// A hold on the mount.
    pub mount: SessionHandle,
    transport: TransportStatus,
    session: Mutex<Option<Session>>,
    lock_view: Mutex<LockView>,
    /// When holds end by themselves, on the monotonic clock.
    expirations: Mutex<BTreeMap<&'static str, (Hold, Instant)>>,
    resizing: AtomicBool,
    snapshots: Arc<Snapshots>,
}

impl std::fmt::Debug for Offered {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Offered")
            .field("image_slot", &self.image_slot)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Daemon {
    /// A daemon that has nothing to offer yet; what the main thread must do goes to `events`.
    #[must_use]
    pub fn new(
        clock: Clock,
        meter: Arc<Meter>,
        hardening: Hardening,
        expected: Identity,
        events: mpsc::Sender<Event>,
    ) -> Self {
        Self {
            clock,
            meter,
            hardening,
            expected,
            offered: OnceLock::new(),
            stopping: AtomicBool::new(false),
            offering: Mutex::new(()),
            events,
        }
    }

    /// Begin to mount; None when the daemon is to end, which then needs not wait for it.
    pub fn begin_offering(&self) -> Option<Offering<'_>> {
        let held = lock(&self.offering);
        (!self.stopping.load(Ordering::SeqCst)).then_some(Offering { _held: held })
    }

    /// From now on, `offered` is what it serves.
    pub fn offer(&self, _offering: &Offering<'_>, offered: Arc<Offered>) {
        if self.offered.set(offered).is_err() {
            tracing::error!("a second volume was offered");
        }
    }

    /// What it serves, once it does.
    #[must_use]
    pub fn offered(&self) -> Option<&Arc<Offered>> {
        self.offered.get()
    }

    /// What it serves, once no mount is under way; call it after [`Daemon::note_stopping`], when
    /// none can begin any more.
    #[must_use]
    pub fn offered_at_last(&self) -> Option<&Arc<Offered>> {
        drop(lock(&self.offering));
        self.offered()
    }

    /// Say in its status that it ends.
    pub fn note_stopping(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    /// Tell the main thread.
    pub fn tell(&self, event: Event) {
        if self.events.send(event).is_err() {
            tracing::debug!("the main thread has ended");
        }
    }

    /// State, reason and what is in flight, now.
    #[must_use]
    pub fn state(&self) -> (State, Option<String>, InFlight) {
        let stopping = self.stopping.load(Ordering::SeqCst);
        match self.offered() {
            Some(offered) => {
                let in_flight = offered.gate.in_flight();
                let journal = offered.image_slot.journal();
                let mode = decide_mode(
                    offered.gate.mode(),
                    journal.as_ref().map(|view| view.status.state),
                );
                let trouble = offered.image_slot.trouble();
                let silent = journal.and_then(|view| view.silent());
                let facts = Facts { stopping, silent, trouble: trouble.as_deref() };
                let (state, reason) = decide_state(mode, &in_flight, facts);
                (state, reason, in_flight)
            }
            None if stopping => (State::Stopping, None, InFlight::default()),
            None => {
                let reason = "the volume is being opened".to_owned();
                (State::Starting, Some(reason), InFlight::default())
            }
        }
    }

    /// The answer to `status`.
    #[must_use]
    pub fn status(&self) -> Status {
        let (state, state_reason, in_flight) = self.state();
        let offered = self.offered();
        let geometry = offered.map(|offered| offered.gate.geometry());
        let identity =
            offered.map_or_else(|| self.expected.clone(), |found| found.image_slot.identity());
        let limit = offered.map_or(0, |offered| offered.gate.capacity());
        let journal = self.journal();
        Status {
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            state,
            state_reason,
            image: identity.image,
            device: identity.device,
            write_path: identity.write_path,
            encryption: identity.encryption,
            journal: journal.as_ref().map(JournalStatus::from),
            read_cache: journal.as_ref().and_then(ReadCacheStatus::of),
            emulated_disk: offered.and_then(|offered| offered.image_slot.emulated_disk()),
            size_bytes: geometry.map(Geometry::size_bytes),
            block_size_bytes: geometry.map(|geometry| geometry.block_size().bytes()),
            client_address: identity.client_address,
            lock_owner: offered.and_then(|offered| match &*lock(&offered.lock_view) {
                LockView::None => None,
                // Unknown is not known to be lost: librbd finds out at its next write.
                LockView::Ours | LockView::Unknown { .. } => Some(true),
                LockView::Nobodys | LockView::Anothers { .. } | LockView::Fenced => Some(false),
            }),
            transport: offered.map(|offered| Transport {
                name: offered.transport.kind.name(),
                reason: offered.transport.reason.clone(),
                queues: offered.transport.queues,
                entries_per_queue: offered.transport.entries_per_queue,
                threads: offered.transport.threads,
            }),
            in_flight: in_flight.active,
            held: in_flight.held,
            in_flight_limit: u64::try_from(limit).unwrap_or(u64::MAX),
            oldest_in_flight_ms: in_flight.oldest_ns.map(|age_ns| age_ns / 1_000_000),
            librbd_version: identity.librbd_version,
            uptime_s: self.uptime_s(),
            hardening: self.hardening,
        }
    }

    fn journal(&self) -> Option<JournalView> {
        self.offered().and_then(|offered| offered.image_slot.journal())
    }

    fn uptime_s(&self) -> f64 {
        seconds(self.clock.now_ns())
    }

    fn ready(&self) -> Result<&Arc<Offered>, Refused> {
        if self.stopping.load(Ordering::SeqCst) {
            return Err(Refused::new("stopping", "The daemon is ending."));
        }
        self.offered().ok_or_else(|| {
            Refused::new("not-ready", "The volume is not open yet. Ask `status`, and again later.")
        })
    }

    fn stop(&self, timeout: Duration, leaves_journal: bool) -> Result<Value, Refused> {
        let (reply, answer) = mpsc::channel();
        let cause = "the control socket".to_owned();
        self.tell(Event::Stop { cause, timeout, leaves_journal, reply: Some(reply) });
        answer.recv().unwrap_or_else(|_| Err(Refused::new("stopping", "The daemon is ending.")))
    }
}

impl Commands for Daemon {
    fn carry_out(&self, command: Command) -> Result<Value, Refused> {
        match command {
            Command::Status => to_json(&self.status()),
            Command::Statistics => {
                let (.., in_flight) = self.state();
                let journal = self.journal().map(|view| view.statistics);
                to_json(&Statistics::of(&self.meter, &in_flight, self.uptime_s(), journal))
            }
            Command::Metrics => {
                let (.., in_flight) = self.state();
                let text = render_prometheus(&self.status(), &self.meter, &in_flight);
                Ok(json!({"text": text}))
            }
            Command::Resize { size_bytes, timeout } => {
                Offered::resize(self.ready()?, size_bytes, timeout)
            }
            Command::Flush { timeout } => {
                let flushed = self.ready()?.gate.flush(timeout);
                flushed.map(|()| json!({"flushed": true})).map_err(|error| flush_refused(&error))
            }
            Command::DrawDown { timeout } => {
                let ready = self.ready()?;
                // What no flush has sealed yet is not the journal's to apply.
                ready.gate.flush(timeout).map_err(|error| flush_refused(&error))?;
                let held_bytes = ready.image_slot.draw_down(timeout)?;
                Ok(json!({"held_bytes": held_bytes}))
            }
            Command::Pause => {
                self.ready()?.gate.hold(Hold::Pause);
                Ok(json!({"state": self.state().0}))
            }
            Command::Resume => {
                self.ready()?.gate.release(Hold::Pause);
                Ok(json!({"state": self.state().0}))
            }
            Command::Pace { paced } => self.ready()?.image_slot.pace(paced),
            Command::Quiesce { timeout } => {
                let quiesced = self.ready()?.quiesce(Hold::Quiesce, timeout, timeout);
                quiesced.map_err(|error| flush_refused(&error))?;
                Ok(json!({"state": self.state().0, "timeout_s": timeout.as_secs_f64()}))
            }
            Command::Unquiesce => {
                self.ready()?.end_hold(Hold::Quiesce);
                Ok(json!({"state": self.state().0}))
            }
            Command::Check { timeout } => self.ready()?.snapshots.check(timeout),
            Command::Snapshot { name, timeout } => self.ready()?.snapshots.take(name, timeout),
            Command::CloseImage { timeout, limit } => {
                self.ready()?.image_slot.close_image(timeout, limit)
            }
            Command::OpenImage { image, timeout } => {
                self.ready()?.image_slot.open_image(image, timeout)
            }
            Command::Stop { timeout, leaves_journal } => self.stop(timeout, leaves_journal),
        }
    }
}

impl Offered {
    /// The volume in `image_slot`, behind `gate`, mounted as `session`; whose the lock was just
    /// before.
    #[must_use]
    pub fn new(
        image_slot: Arc<ImageSlot>,
        lock_view: LockView,
        gate: Arc<Gate>,
        session: Session,
    ) -> Self {
        Self {
            transport: session.transport().clone(),
            mount: session.handle(),
            session: Mutex::new(Some(session)),
            lock_view: Mutex::new(lock_view),
            expirations: Mutex::default(),
            resizing: AtomicBool::new(false),
            snapshots: Snapshots::new(Arc::clone(&image_slot), Arc::clone(&gate)),
            image_slot,
            gate,
        }
    }

    /// Take the session, to wait for its end.
    pub fn take_session(&self) -> Option<Session> {
        lock(&self.session).take()
    }

    /// Tell the kernel that the size has changed.
    pub fn announce_size(&self, size_bytes: u64) {
        tracing::info!(size_bytes, "the volume has a new size");
        if let Some(session) = &*lock(&self.session) {
            if let Err(error) = session.notify_resized() {
                tracing::warn!(%error, "the kernel could not be told of the new size");
            }
        }
    }

    /// Look whose the lock is; what the cluster shut out, or replaced, must not go on.
    pub fn check_lock(&self) {
        let Some(view) = self.image_slot.look_at_lock() else { return };
        let before = std::mem::replace(&mut *lock(&self.lock_view), view.clone());
        match &view {
            LockView::Nobodys => tracing::warn!("the exclusive lock is nobody's at the moment"),
            LockView::Unknown { reason } => {
                tracing::warn!(reason, "the cluster did not say whose the exclusive lock is");
            }
            _ => {}
        }
        let Some(lost) = decide_lost(&before, &view) else { return };
        if self.gate.mode().refusal() != Some(Refusal::Fenced) {
            tracing::warn!(reason = lost, "the volume is no longer ours");
            self.gate.refuse(Refusal::Fenced);
        }
        if let Some(volume) = self.image_slot.volume() {
            volume.shut_out();
        }
    }

    /// End the holds whose time is over.
    pub fn expire_holds(&self, now: Instant) {
        let over: Vec<(Hold, Instant)> =
            lock(&self.expirations).values().filter(|(_, end)| *end <= now).copied().collect();
        for (hold, _) in over {
            tracing::warn!(?hold, "the time for a quiesce is over: requests go on");
            self.end_hold(hold);
        }
    }

    /// Hold requests, wait for those in flight, flush. A hold that fails to begin is undone.
    fn quiesce(&self, hold: Hold, patience: Duration, limit: Duration) -> Result<(), FlushError> {
        let start = Instant::now();
        // One that fails while an earlier one holds must not end it: its user relies on it.
        let is_first = !lock(&self.expirations).contains_key(hold_name(hold));
        self.gate.hold(hold);
        let quiesced = self.gate.wait_until_idle(patience).and_then(|()| {
            // Also not over for a flush that begins at the deadline: it is answered at once or
            // counts as late.
            self.gate.flush(patience.saturating_sub(start.elapsed()))
        });
        match quiesced {
            Ok(()) => lock(&self.expirations).insert(hold_name(hold), (hold, start + limit)),
            Err(error) => {
                if is_first {
                    self.end_hold(hold);
                }
                return Err(error);
            }
        };
        Ok(())
    }

    fn end_hold(&self, hold: Hold) {
        lock(&self.expirations).remove(hold_name(hold));
        self.gate.release(hold);
    }

    /// Read the size on a thread of its own, one at a time: a cluster that hangs takes one
    /// thread, however often it is asked for.
    fn resize(
        this: &Arc<Self>,
        expected: Option<u64>,
        timeout: Duration,
    ) -> Result<Value, Refused> {
        if this.resizing.swap(true, Ordering::SeqCst) {
            return Err(Refused::new("busy", "The size is being read already. Try again later."));
        }
        let (sender, answer) = mpsc::channel();
        let offered = Arc::clone(this);
        let spawned = std::thread::Builder::new().name("resize".to_owned()).spawn(move || {
            let gone = || VolumeError::new("No image is open. `open-image` opens one.");
            let size =
                offered.image_slot.volume().ok_or_else(gone).and_then(|now| now.refresh_size());
            offered.resizing.store(false, Ordering::SeqCst);
            drop(sender.send(size));
        });
        if let Err(error) = spawned {
            this.resizing.store(false, Ordering::SeqCst);
            return Err(Refused::new("no-thread", format!("No thread can be started: {error}.")));
        }
        let size_bytes = match answer.recv_timeout(timeout) {
            Ok(Ok(size_bytes)) => size_bytes,
            Ok(Err(error)) => return Err(Refused::new("resize-failed", error.to_string())),
            Err(RecvTimeoutError::Timeout) => {
                return Err(Refused::new(
                    "timeout",
                    format!("The cluster did not answer within {} s.", timeout.as_secs_f64()),
                ));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Refused::new("resize-failed", "The size could not be read."));
            }
        };
        match expected {
            Some(expected) if expected != size_bytes => Err(Refused::new(
                "size-mismatch",
                format!("The volume has {size_bytes} bytes, not {expected}. Resize the image."),
            )),
            _ => Ok(json!({"size_bytes": size_bytes})),
        }
    }
}

impl SnapshotGuard for Offered {
    fn before_snapshot(&self) -> Result<(), VolumeError> {
        tracing::info!("a snapshot is about to be taken");
        self.quiesce(Hold::Snapshot, SNAPSHOT_PATIENCE, SNAPSHOT_LIMIT)
            .map_err(|error| VolumeError::new(error.to_string()))
    }

    fn after_snapshot(&self) {
        self.end_hold(Hold::Snapshot);
        tracing::info!("requests go on after a snapshot");
    }
}

/// Why the volume is not ours any more, by two looks at its lock, one after the other.
///
/// librbd takes a lock again that it lost, within moments. One that is nobody's twice in a row was
/// taken away, and whoever did that may be about to open the volume elsewhere.
fn decide_lost(before: &LockView, now: &LockView) -> Option<String> {
    match now {
        LockView::Fenced => Some("the cluster shut this client out".to_owned()),
        LockView::Anothers { owner } => Some(format!("{owner} holds the exclusive lock")),
        LockView::Nobodys if *before == LockView::Nobodys => {
            Some("the exclusive lock is nobody's, and was so before".to_owned())
        }
        LockView::Nobodys | LockView::None | LockView::Ours | LockView::Unknown { .. } => None,
    }
}

fn hold_name(hold: Hold) -> &'static str {
    match hold {
        Hold::Pause => "pause",
        Hold::Quiesce => "quiesce",
        Hold::Snapshot => "snapshot",
        Hold::OwnSnapshot => "own-snapshot",
        Hold::Exchange => "exchange",
    }
}

fn flush_refused(error: &FlushError) -> Refused {
    let code = match error {
        FlushError::Device(_) => "flush-failed",
        FlushError::TimedOut { .. } => "timeout",
    };
    Refused::new(code, format!("{error}. `status` says how the volume is."))
}

fn to_json(answer: &impl serde::Serialize) -> Result<Value, Refused> {
    serde_json::to_value(answer)
        .map_err(|error| Refused::new("internal", format!("The answer makes no JSON: {error}.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_nobodys_twice_in_a_row_is_lost() {
        let anothers = LockView::Anothers { owner: "10.1.0.5:0/7".to_owned() };
        let unknown = LockView::Unknown { reason: "no answer".to_owned() };
        for (before, now, lost) in [
            (LockView::Ours, LockView::Ours, false),
            (LockView::Ours, LockView::Nobodys, false),
            (LockView::Nobodys, LockView::Nobodys, true),
            (LockView::Nobodys, LockView::Ours, false),
            (LockView::Nobodys, unknown.clone(), false),
            (unknown.clone(), LockView::Nobodys, false),
            (LockView::Ours, anothers, true),
            (unknown, LockView::Fenced, true),
            (LockView::None, LockView::None, false),
        ] {
            assert_eq!(decide_lost(&before, &now).is_some(), lost, "{before:?} {now:?}");
        }
    }
}
