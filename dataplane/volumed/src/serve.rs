//! From the start of a daemon to its end.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use grampus_blockdev::BlockDevice;
use grampus_fuse::{ServeOptions, Session};
use grampus_pacing::DiskModel;
use serde_json::{Value, json};

use crate::clock::{Clock, seconds};
use crate::daemon::{Daemon, Event, Offered};
use crate::gate::{Gate, GateOptions, Hold, Refusal};
use crate::image_name::ImageName;
use crate::image_slot::{ImageSlot, Opener};
use crate::journaled_volume::{JournaledVolume, open_direct};
use crate::meter::Meter;
use crate::process;
use crate::protocol::{DEFAULT_STOP_TIMEOUT, Refused};
use crate::rbd_source::{RbdSource, WritePath};
use crate::server::{ControlError, ControlSocket, Limits};
use crate::signals::StopSignals;
use crate::volume::{Identity, LocalVolume, SnapshotGuard, Volume, VolumeError};
use crate::watch::Watch;

/// More than the transport has entries: its buffers are bounded at 1 GiB in pieces of 1 MiB.
const GATE_SLOTS: usize = 2048;
const END_INTERVAL: Duration = Duration::from_millis(10);

/// What to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An RBD image.
    Rbd(Box<RbdSource>),
    /// Memory of this many bytes.
    Memory(u64),
    /// A file.
    File {
        /// Where it is.
        path: std::path::PathBuf,
        /// The disk whose time its answers take; None for the file's own.
        emulated_disk: Option<DiskModel>,
        /// Whether a flush waits until the file has it.
        syncs: bool,
    },
}

impl Source {
    fn identity(&self) -> Identity {
        let (device, image, write_path) = match self {
            Self::Rbd(source) => ("rbd", Some(source.name()), source.write_path),
            Self::Memory(_) => ("memory", None, WritePath::Direct),
            Self::File { .. } => ("file", None, WritePath::Direct),
        };
        let encryption = match self {
            Self::Rbd(source) => source.encryption(),
            Self::Memory(_) | Self::File { .. } => None,
        };
        let write_path = write_path.name();
        Identity { device, write_path, encryption, image, ..Identity::default() }
    }

    fn open_it(&self) -> Result<Arc<dyn Volume>, VolumeError> {
        Ok(match self {
            Self::Rbd(source) => match source.write_path {
                WritePath::Direct => Arc::new(open_direct(source)?),
                WritePath::Journal | WritePath::Cache => Arc::new(JournaledVolume::open(source)?),
            },
            Self::Memory(size_bytes) => Arc::new(LocalVolume::memory(*size_bytes)?),
            Self::File { path, emulated_disk, syncs } => {
                Arc::new(LocalVolume::file(path, *emulated_disk, *syncs)?)
            }
        })
    }
}

impl Opener for Source {
    fn open(&self, image: Option<&ImageName>) -> Result<Arc<dyn Volume>, VolumeError> {
        match (self, image) {
            (Self::Rbd(source), Some(ImageName { pool, namespace, image })) => {
                Self::Rbd(Box::new(RbdSource {
                    pool: pool.clone(),
                    namespace: namespace.clone(),
                    image: image.clone(),
                    ..RbdSource::clone(source)
                }))
                .open_it()
            }
            (Self::Rbd(_) | Self::File { .. }, None) => self.open_it(),
            (Self::Memory(_), _) => Err(VolumeError::new(
                "A volume in memory is gone once it is closed. Start the daemon anew.",
            )),
            (Self::File { .. }, Some(_)) => {
                Err(VolumeError::new("This daemon serves a file, and no image. Leave --image out."))
            }
        }
    }
}

/// How to serve it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What.
    pub source: Source,
    /// Where, and by which transport.
    pub front: ServeOptions,
    /// The control socket.
    pub socket: std::path::PathBuf,
}

/// The daemon could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The control socket could not be made.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The volume could not be opened or mounted.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The daemon ended otherwise than asked to, or cannot say that all that was written is
    /// durable.
    #[error("{0}")]
    Unclean(String),
    /// The operating system refused a thread or a signal mask.
    #[error("cannot {action}: {source}. Look at the limits of this process.")]
    System {
        /// What was tried.
        action: &'static str,
        /// Its reason.
        #[source]
        source: std::io::Error,
    },
}

/// How a daemon ended.
#[derive(Debug)]
pub enum End {
    /// All is closed; the process may end as any other.
    Clean,
    /// Threads still wait for the cluster: the process must end at once, without the exit
    /// handlers of libraries that they are in.
    Abrupt(Result<(), ServeError>),
}

/// Serve until asked to stop. Call it from the process's only thread.
///
/// # Errors
/// [`ServeError`] when it could not begin; what happens later is in [`End`].
pub fn serve(settings: &Settings) -> Result<End, ServeError> {
    let signals = StopSignals::block()
        .map_err(|source| ServeError::System { action: "block signals", source })?;
    let hardening = process::harden();
    let (sender, events) = mpsc::channel();
    let clock = Clock::start();
    let meter = Arc::new(Meter::new(cpus()));
    let expected = settings.source.identity();
    if expected.encryption.is_some() {
        process::forbid_core_dumps();
    }
    let daemon = Arc::new(Daemon::new(clock, meter, hardening, expected, sender));
    let socket = ControlSocket::bind(&settings.socket)?;
    let commands = Arc::clone(&daemon);
    let watch = Watch::new(Arc::clone(&daemon), signals);
    let server = socket.serve(commands, Limits::default(), Some(Box::new(watch)))?;

    let (opener, wanted) = (Arc::clone(&daemon), settings.clone());
    spawn("start", move || {
        opener.tell(match open(&opener, &wanted) {
            Ok(()) => Event::Offered,
            Err(error) => Event::StartFailed(error),
        });
    })?;

    let end = run(&daemon, events);
    drop(server); // after the answer to `stop`
    end
}

/// The main thread: act on events until one of them is the end. Takes the receiver along: whoever
/// waits for the answer to a second `stop` is told so by its end.
#[allow(clippy::needless_pass_by_value, reason = "its end is the point")]
fn run(daemon: &Arc<Daemon>, events: Receiver<Event>) -> Result<End, ServeError> {
    loop {
        // Every thread that could send ends with the process only.
        let Ok(event) = events.recv() else {
            return Ok(End::Abrupt(Ok(())));
        };
        match event {
            Event::Offered => announce(daemon),
            Event::StartFailed(error) => return Ok(End::Abrupt(Err(error.into()))),
            Event::SessionEnded => {
                tracing::info!("the mount is gone");
                let result = stop(daemon, DEFAULT_STOP_TIMEOUT, false);
                return Ok(finish(daemon, None, result));
            }
            Event::Stop { cause, timeout, leaves_journal, reply } => {
                tracing::info!(cause, leaves_journal, "stopping");
                let result = stop(daemon, timeout, leaves_journal);
                return Ok(finish(daemon, reply, result));
            }
        }
    }
}

/// What a stop came to.
struct Stopped {
    /// Whether the volume is closed: no thread of librbd is left.
    closed: bool,
    /// Users that had the file open to the end.
    cut_off: bool,
    /// What went wrong, as sentences.
    unclean: Option<String>,
}

fn finish(
    daemon: &Daemon,
    reply: Option<mpsc::Sender<Result<Value, Refused>>>,
    stopped: Stopped,
) -> End {
    let uptime_s = seconds(daemon.clock.now_ns());
    tracing::info!(uptime_s, clean = stopped.unclean.is_none(), "stopped");
    if let Some(reply) = reply {
        drop(reply.send(match &stopped.unclean {
            None => Ok(json!({"stopped": true, "users_cut_off": stopped.cut_off})),
            Some(sentence) => Err(Refused::new("unclean-stop", sentence.clone())),
        }));
    }
    match stopped {
        Stopped { unclean: Some(sentence), .. } => End::Abrupt(Err(ServeError::Unclean(sentence))),
        Stopped { closed: true, .. } => End::Clean,
        Stopped { .. } => End::Abrupt(Ok(())),
    }
}

/// Unmount, let users finish, flush, close.
fn stop(daemon: &Arc<Daemon>, timeout: Duration, leaves_journal: bool) -> Stopped {
    daemon.note_stopping();
    let Some(offered) = daemon.offered_at_last() else {
        return Stopped { closed: false, cut_off: false, unclean: None };
    };
    let given_up = offered.gate.in_flight().held;
    let is_detached = offered.gate.mode().holds_for(Hold::Exchange);
    if is_detached {
        // What waits was never promised to anybody, and there is nothing that could carry it out.
        offered.gate.refuse(Refusal::Stopping);
    }
    for hold in Hold::ALL {
        offered.gate.release(hold); // users could not finish behind a pause
    }
    if let Err(error) = offered.mount.unmount() {
        tracing::warn!(%error, "cannot unmount");
    }
    // The users of a fenced or failed volume get errors alone: nobody waits for them, also if the
    // fence comes while this waits.
    let deadline = Instant::now() + timeout;
    let may_finish = || offered.gate.mode().refusal().is_none() && Instant::now() < deadline;
    while offered.mount.is_alive() && may_finish() {
        std::thread::sleep(END_INTERVAL);
    }
    let cut_off = offered.mount.is_alive();
    if cut_off {
        tracing::warn!("the file is still in use: its users get errors from now on");
    }
    offered.gate.refuse(Refusal::Stopping);
    let fenced = offered.gate.mode().refusal() == Some(Refusal::Fenced);
    let unclean = if fenced {
        None // nothing of ours would be taken any more, and whoever fenced us knows
    } else {
        let flushed = offered.gate.wait_until_idle(timeout);
        let flushed = flushed.and_then(|()| offered.gate.flush(timeout.max(END_INTERVAL)));
        flushed.err().map(|error| {
            format!("At the end {error}. What was written after the last flush may be lost.")
        })
    };
    if cut_off {
        if let Err(error) = offered.mount.abort() {
            tracing::warn!(%error, "cannot end the mount");
        }
    }
    if let Some(volume) = offered.image_slot.volume().filter(|_| leaves_journal) {
        volume.leave_journal();
    }
    let (closed, trouble) = close(offered, timeout);
    let waiting = (is_detached && given_up > 0)
        .then(|| format!("No image was open, and {given_up} requests that waited for one failed."));
    Stopped { closed, cut_off, unclean: unclean.or(waiting).or(trouble) }
}

/// Close session and volume within about `timeout`: whether it was done, and what went wrong.
fn close(offered: &Arc<Offered>, timeout: Duration) -> (bool, Option<String>) {
    let (sender, closed) = mpsc::channel();
    let closing = Arc::clone(offered);
    let spawned = spawn("close", move || {
        let ended = closing.take_session().map(|session| session.wait_at_most(timeout));
        let trouble = match ended {
            Some(Err(error)) => Some(format!("{error}. `volumed serve` mounts it anew.")),
            Some(Ok(_)) | None => None,
        };
        drop(sender.send((closing.image_slot.end(), trouble)));
    });
    if let Err(error) = spawned {
        return (false, Some(error.to_string()));
    }
    match closed.recv_timeout(timeout.saturating_mul(2).max(Duration::from_secs(1))) {
        Ok((Ok(closed), trouble)) => (closed, trouble),
        Ok((Err(error), _)) => (true, Some(error.to_string())),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            tracing::warn!("the volume does not close: leaving without");
            (false, None) // flushed all the same, or `unclean` says otherwise
        }
    }
}

/// Open the volume and mount it. Runs on a thread of its own: a stop need not wait for a cluster
/// that does not answer.
fn open(daemon: &Arc<Daemon>, settings: &Settings) -> Result<(), VolumeError> {
    let volume = settings.source.open_it()?;
    let gate = Arc::new(Gate::new(
        &volume.device(),
        GateOptions {
            slots: GATE_SLOTS,
            cpus: cpus(),
            meter: Arc::clone(&daemon.meter),
            clock: daemon.clock.clone(),
        },
    ));
    let lock_view = volume.look_at_lock();
    let place = Arc::new(OnceLock::new());
    // Before anybody can write: a snapshot that does not wait for the journal lacks what is in it.
    if let Err(error) = guard_snapshots(&volume, &place) {
        close_quietly(&*volume);
        return Err(error);
    }
    let device: Arc<dyn BlockDevice> = Arc::<Gate>::clone(&gate);
    // From here on a stop waits: a mount that it did not know of would stay behind, dead.
    let Some(offering) = daemon.begin_offering() else {
        return Err(VolumeError::new("Stopped while the volume was being opened."));
    };
    let mounted = Session::mount(device, &settings.front);
    let session = match mounted {
        Ok(session) => session,
        Err(error) => {
            close_quietly(&*volume);
            return Err(VolumeError::new(format!(
                "{error}. The mountpoint must be an existing empty file, and `volumed probe` \
                 shows what this machine's FUSE can do."
            )));
        }
    };
    let opener = Box::new(settings.source.clone());
    let first = Arc::clone(&volume);
    let image_slot = Arc::new(ImageSlot::new(volume, Arc::clone(&gate), opener));
    let offered = Arc::new(Offered::new(image_slot, lock_view, gate, session));
    daemon.offer(&offering, Arc::clone(&offered));
    drop(offering);
    // Weak: each volume holds these callbacks, and `offered` holds the volume.
    let weak = Arc::downgrade(&offered);
    let resized = Weak::clone(&weak);
    let watch_size = move |volume: &Arc<dyn Volume>| {
        let resized = Weak::clone(&resized);
        volume.watch_size(Box::new(move |size_bytes| {
            if let Some(offered) = resized.upgrade() {
                offered.announce_size(size_bytes);
            }
        }));
    };
    watch_size(&first);
    drop(first);
    if place.set(weak).is_err() {
        tracing::error!("a volume was offered twice");
    }
    offered.image_slot.connect_with(Box::new(move |volume| {
        guard_snapshots(volume, &place)?;
        watch_size(volume);
        Ok(())
    }));
    Ok(())
}

/// Gives the lock back, after something that mattered more.
fn close_quietly(volume: &dyn Volume) {
    if let Err(error) = volume.close() {
        tracing::warn!(%error, "the volume did not close well");
    }
}

/// Have snapshots that others take wait for what is on its way. What is written through a journal is
/// in the image only later, so such a volume is not served without (INV-4); the image of another has
/// what its users have flushed anyway.
fn guard_snapshots(volume: &Arc<dyn Volume>, place: &Arc<Offering>) -> Result<(), VolumeError> {
    let guarded = volume.guard_snapshots(Arc::new(Guard(Arc::clone(place))));
    match guarded {
        Err(error) if volume.identity().write_path != WritePath::Direct.name() => {
            Err(VolumeError::new(format!(
                "Snapshots of this volume would lack what is in its journal, since librbd cannot say when \
             one is taken: {error} Start the volume again."
            )))
        }
        Err(error) => {
            tracing::warn!(%error, "snapshots taken elsewhere will not wait for a flush");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// What a daemon offers, once it does.
type Offering = OnceLock<Weak<Offered>>;

/// [`Offered`] as guard of snapshots, without keeping it alive.
struct Guard(Arc<Offering>);

impl SnapshotGuard for Guard {
    fn before_snapshot(&self) -> Result<(), VolumeError> {
        // Before it is offered nobody writes, and there is nothing to hold.
        let Some(offered) = self.0.get() else { return Ok(()) };
        let offered = offered.upgrade().ok_or_else(|| VolumeError::new("The daemon is ending."))?;
        offered.before_snapshot()
    }

    fn after_snapshot(&self) {
        if let Some(offered) = self.0.get().and_then(Weak::upgrade) {
            offered.after_snapshot();
        }
    }
}

/// The volume is offered: say so.
fn announce(daemon: &Daemon) {
    let status = daemon.status();
    let transport = status.transport.as_ref();
    tracing::info!(
        image = status.image,
        device = status.device,
        size_bytes = status.size_bytes,
        client_address = status.client_address,
        lock_owner = status.lock_owner,
        transport = transport.map(|transport| transport.name),
        transport_reason = transport.map(|transport| transport.reason.as_str()),
        "serving"
    );
}

fn spawn(name: &'static str, work: impl FnOnce() + Send + 'static) -> Result<(), ServeError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map(drop)
        .map_err(|source| ServeError::System { action: "start a thread", source })
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::LockView;

    /// Tells nobody of snapshots.
    struct Mute(WritePath);

    impl Volume for Mute {
        fn device(&self) -> Arc<dyn BlockDevice> {
            panic!("nobody asks for it")
        }

        fn identity(&self) -> Identity {
            Identity { write_path: self.0.name(), ..Identity::default() }
        }

        fn refresh_size(&self) -> Result<u64, VolumeError> {
            Ok(0)
        }

        fn look_at_lock(&self) -> LockView {
            LockView::Ours
        }

        fn watch_size(&self, _changed: Box<dyn Fn(u64) + Send + Sync>) {}

        fn guard_snapshots(&self, _guard: Arc<dyn SnapshotGuard>) -> Result<(), VolumeError> {
            Err(VolumeError::new("The watch was refused."))
        }

        fn close(&self) -> Result<(), VolumeError> {
            Ok(())
        }
    }

    /// INV-4: what such a snapshot would hold is not what was flushed.
    #[test]
    fn a_volume_with_a_journal_is_not_served_without_its_snapshots_being_guarded() {
        for (write_path, served) in
            [(WritePath::Direct, true), (WritePath::Journal, false), (WritePath::Cache, false)]
        {
            let volume: Arc<dyn Volume> = Arc::new(Mute(write_path));
            let guarded = guard_snapshots(&volume, &Arc::default());
            assert_eq!(guarded.is_ok(), served, "{write_path:?}");
        }
    }

    #[test]
    fn a_snapshot_before_anything_is_offered_has_nothing_to_wait_for() {
        let guard = Guard(Arc::default());
        assert!(guard.before_snapshot().is_ok());
        guard.after_snapshot();
    }
}
