//! Snapshots that the control socket asks for.
//!
//! The client that holds the image's lock takes them itself. A snapshot that another client takes
//! reaches this one only while the cluster has its watch; with the watch gone librbd would break the
//! lock, shut this client out, and take the image as it is, without what the journal holds.
//!
//! Requests wait until all that was flushed is in the image. Where there is a journal, it then takes
//! what comes and leaves the image as it is, so that nobody waits for the cluster to make the
//! snapshot (ADR 54).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::gate::{Gate, Hold};
use crate::image_slot::ImageSlot;
use crate::protocol::Refused;
use crate::volume::{LockView, SnapshotGuard, Taken, Volume, VolumeError};

/// How long the cluster may take to say whose the lock is, before a snapshot.
const CHECK_PATIENCE: Duration = Duration::from_secs(10);
/// How long what is in flight may take, while requests wait.
const FLUSH_PATIENCE: Duration = Duration::from_secs(30);
const CLAIM_INTERVAL: Duration = Duration::from_millis(10);

/// Takes snapshots of what is in an image slot.
pub struct Snapshots {
    image_slot: Arc<ImageSlot>,
    gate: Arc<Gate>,
    /// One question and one snapshot at a time: a cluster that hangs takes one thread for each.
    is_asking: AtomicBool,
    is_taking: AtomicBool,
}

impl Snapshots {
    /// Of the volume in `image_slot`, which `gate` leads to.
    #[must_use]
    pub fn new(image_slot: Arc<ImageSlot>, gate: Arc<Gate>) -> Arc<Self> {
        let (is_asking, is_taking) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { image_slot, gate, is_asking, is_taking })
    }

    /// Ask the cluster whose the lock is: whether it still hears this client, and lets it write.
    ///
    /// # Errors
    /// [`Refused`] with `cluster-silent` when it does not answer in time, `fenced`, `lock-lost`, or
    /// `busy` while no image is open.
    pub fn check(self: &Arc<Self>, timeout: Duration) -> Result<Value, Refused> {
        let deadline = Instant::now() + timeout;
        if !claim(&self.is_asking, deadline) {
            return Err(silent(timeout));
        }
        let (sender, answer) = mpsc::channel();
        let asker = Arc::clone(self);
        let spawned = spawn("check", move || {
            let view = asker.image_slot.look_at_lock();
            asker.is_asking.store(false, Ordering::SeqCst);
            drop(sender.send(view));
        });
        if let Err(refused) = spawned {
            self.is_asking.store(false, Ordering::SeqCst);
            return Err(refused);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let view = answer.recv_timeout(left).map_err(|_| silent(timeout))?;
        require_ours(view)
    }

    /// Hold requests, bring what was flushed into the image, take the snapshot, let requests go on
    /// as soon as they do not come into the image any more. One of that name is left as it is. What is not done in time is not done later either.
    ///
    /// # Errors
    /// [`Refused`] as [`Self::check`], and with `timeout`, `snapshot-failed` or `snapshot-lost`.
    pub fn take(self: &Arc<Self>, name: String, timeout: Duration) -> Result<Value, Refused> {
        let deadline = Instant::now() + timeout;
        self.check(CHECK_PATIENCE.min(timeout))?;
        if !claim(&self.is_taking, deadline) {
            let sentences = "A snapshot is being taken already. Try again later.";
            return Err(Refused::new("busy", sentences));
        }
        let held = Arc::new(Held::new(Arc::clone(&self.gate)));
        // Without room for an answer: it is sent only to a caller that takes it.
        let (sender, answer) = mpsc::sync_channel(0);
        let (this, guard) = (Arc::clone(self), Arc::clone(&held));
        let spawned = spawn("snapshot", move || {
            let volume = this.image_slot.volume();
            let done = volume.as_ref().ok_or_else(no_image).and_then(|volume| {
                let guarded: Arc<dyn SnapshotGuard> = Arc::<Held>::clone(&guard);
                finish(&**volume, &name, &guard, volume.take_snapshot(&name, guarded))
            });
            let is_new = matches!(done, Ok(Taken::Created));
            let said = done.map(
                |taken| json!({"snapshot": name.as_str(), "created": taken == Taken::Created}),
            );
            this.is_taking.store(false, Ordering::SeqCst);
            if let (Err(_), true, Some(volume)) = (sender.send(said), is_new, &volume) {
                tracing::warn!(name, "nobody waits for the snapshot any more");
                remove(&**volume, &name);
            }
        });
        if let Err(refused) = spawned {
            self.is_taking.store(false, Ordering::SeqCst);
            return Err(refused);
        }
        match answer.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(said) => said,
            Err(RecvTimeoutError::Timeout) => {
                held.give_up();
                Err(Refused::new(
                    "timeout",
                    format!("The snapshot was not taken within {} s.", timeout.as_secs_f64()),
                ))
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(Refused::new("snapshot-failed", "The snapshot broke off. Ask `status`."))
            }
        }
    }
}

impl fmt::Debug for Snapshots {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Snapshots")
            .field("image_slot", &self.image_slot)
            .finish_non_exhaustive()
    }
}

/// What a snapshot came to. One that was taken while requests came into the image is removed.
fn finish(
    volume: &dyn Volume,
    name: &str,
    held: &Held,
    taken: Result<Taken, VolumeError>,
) -> Result<Taken, Refused> {
    match taken {
        Ok(Taken::Created) if held.was_lost() => {
            remove(volume, name);
            Err(Refused::new(
                "snapshot-lost",
                "The volume was fenced, failed or stopped while the snapshot was taken. Ask `status`.",
            ))
        }
        Ok(taken) => Ok(taken),
        Err(error) => Err(Refused::new("snapshot-failed", error.to_string())),
    }
}

fn remove(volume: &dyn Volume, name: &str) {
    if let Err(error) = volume.remove_snapshot(name) {
        tracing::error!(name, %error, "a snapshot that nobody may rely on stays");
    }
}

fn require_ours(view: Option<LockView>) -> Result<Value, Refused> {
    match view {
        None => Err(no_image()),
        Some(LockView::Ours) => Ok(json!({"lock_owner": true})),
        Some(LockView::None) => Ok(json!({"lock_owner": null})),
        Some(LockView::Fenced) => {
            Err(Refused::new("fenced", "The cluster shut this client out. Ask `status`."))
        }
        Some(LockView::Nobodys) => Err(Refused::new(
            "lock-lost",
            "This client does not hold the image's lock at the moment. Try again later.",
        )),
        Some(LockView::Anothers { owner }) => Err(Refused::new(
            "lock-lost",
            format!("{owner} holds the image's lock. `rbd status` shows who has it open."),
        )),
        Some(LockView::Unknown { reason }) => Err(Refused::new(
            "cluster-silent",
            format!("The cluster does not say whose the image's lock is: {reason}."),
        )),
    }
}

fn no_image() -> Refused {
    Refused::new("busy", "No image is open. Ask `status`, and again later.")
}

fn silent(timeout: Duration) -> Refused {
    let seconds = timeout.as_secs_f64();
    Refused::new("cluster-silent", format!("The cluster did not answer within {seconds} s."))
}

/// Set the flag once it is not set by anybody else; false when the deadline comes first.
fn claim(flag: &AtomicBool, deadline: Instant) -> bool {
    while flag.swap(true, Ordering::SeqCst) {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(CLAIM_INTERVAL);
    }
    true
}

fn spawn(name: &'static str, work: impl FnOnce() + Send + 'static) -> Result<(), Refused> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned
        .map(drop)
        .map_err(|error| Refused::new("no-thread", format!("No thread can be started: {error}.")))
}

/// Holds requests around one snapshot. Whoever takes it ends the hold: unlike one for another
/// client, which may have died, it ends at no time of its own.
struct Held {
    gate: Arc<Gate>,
    /// Nobody waits for the snapshot any more: it is not begun then.
    given_up: AtomicBool,
    was_lost: AtomicBool,
    /// Requests go on, since the image stays as it is.
    has_let_go: AtomicBool,
}

impl Held {
    fn new(gate: Arc<Gate>) -> Self {
        let [given_up, was_lost, has_let_go] = [(); 3].map(|()| AtomicBool::new(false));
        Self { gate, given_up, was_lost, has_let_go }
    }

    fn give_up(&self) {
        self.given_up.store(true, Ordering::SeqCst);
    }

    fn was_lost(&self) -> bool {
        self.was_lost.load(Ordering::SeqCst)
    }

    fn end_hold(&self) {
        if !self.gate.mode().holds_for(Hold::OwnSnapshot) {
            self.was_lost.store(true, Ordering::SeqCst);
        }
        self.note_refusal();
        self.gate.release(Hold::OwnSnapshot);
    }

    fn note_refusal(&self) {
        if self.gate.mode().refusal().is_some() {
            self.was_lost.store(true, Ordering::SeqCst);
        }
    }
}

impl SnapshotGuard for Held {
    fn before_snapshot(&self) -> Result<(), VolumeError> {
        if self.given_up.load(Ordering::SeqCst) {
            return Err(VolumeError::new("Nobody waits for the snapshot any more."));
        }
        let deadline = Instant::now() + FLUSH_PATIENCE;
        self.gate.hold(Hold::OwnSnapshot);
        let durable = self
            .gate
            .wait_until_idle(FLUSH_PATIENCE)
            .and_then(|()| self.gate.flush(deadline.saturating_duration_since(Instant::now())));
        durable.map_err(|error| {
            self.gate.release(Hold::OwnSnapshot);
            VolumeError::new(format!("What was written is not durable: {error}."))
        })
    }

    fn can_let_go(&self) -> bool {
        true
    }

    fn let_go(&self) {
        self.end_hold();
        self.has_let_go.store(true, Ordering::SeqCst);
    }

    fn after_snapshot(&self) {
        if self.has_let_go.load(Ordering::SeqCst) {
            self.note_refusal();
        } else {
            self.end_hold();
        }
    }
}
