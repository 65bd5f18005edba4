//! An RBD image behind its write journal, as a volume.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use grampus_blockdev::BlockDevice;
use grampus_journal::{Config, Progress, Record, VolumeId};
use grampus_journaled::{JournaledDevice, OpenError, Options, Slots, open, replay};
use grampus_librbd::{Objects, RbdImage};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::rados_slots::RadosSlots;
use crate::rbd::{RbdSource, RbdVolume, chain, failed};
use crate::volume::{Identity, JournalView, LockView, SnapshotGuard, Volume, VolumeError};

/// Metadata of the image: what the names of its journal's objects begin with.
pub const OBJECTS_KEY: &str = "grampus.journal.objects";
/// Metadata of the image: whether its journal may hold what the image does not.
pub const JOURNAL_KEY: &str = "grampus.journal";
const OPEN: &str = "open";
const DRAINED: &str = "drained";
/// How long a snapshot waits until everything is in the image; librbd's own patience is 50 s.
const SNAPSHOT_PATIENCE: Duration = Duration::from_secs(30);
/// How long a volume that closes is drained for. What is left then stays in the journal, where
/// the next one to open it finds it.
const CLOSE_PATIENCE: Duration = Duration::from_secs(60);
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// An open image with its journal. The image's exclusive lock is held for as long.
#[derive(Debug)]
pub struct JournaledVolume {
    rbd: RbdVolume,
    device: Arc<JournaledDevice>,
}

impl JournaledVolume {
    /// Open the image, replay what its journal holds, and write through the journal from now on.
    ///
    /// # Errors
    /// [`VolumeError`] says what failed and what to do.
    pub fn open(source: &RbdSource) -> Result<Self, VolumeError> {
        let (rbd, slots) = open_with_slots(source)?;
        let image = rbd.image();
        let mark = |key, value: &str| image.set_metadata(key, value).map_err(|e| failed(&e));
        mark(OBJECTS_KEY, slots.prefix())?;
        // Before the first write can be in the journal alone: whoever finds the image must know.
        mark(JOURNAL_KEY, OPEN)?;
        let options = Options { volume: new_volume_id()?, config: Config::default() };
        let below: Arc<dyn BlockDevice> = Arc::<RbdImage>::clone(image);
        let mut found = Progress::default();
        let mut announce = announcer();
        let mut progress = |now| {
            found = now;
            announce(now);
        };
        let device = open(below, slots, None, options, &mut progress)
            .map_err(|error| refused(source, &error))?;
        let (frames, bytes) = (found.frames, found.frame_bytes);
        tracing::info!(epoch = device.epoch().0, frames, bytes, "the journal is open");
        Ok(Self { rbd, device: Arc::new(device) })
    }
}

/// Open an image whose journal, if it has one, is brought into it first; its writes go straight
/// to it from now on.
///
/// # Errors
/// [`VolumeError`].
pub fn open_direct(source: &RbdSource) -> Result<RbdVolume, VolumeError> {
    let rbd = RbdVolume::open(source)?;
    if is_open(&rbd)? {
        if !source.lock {
            return Err(VolumeError::new(format!(
                "The image {} lacks what its journal holds, and what is written to it now would be \
                 overwritten by that. Run `volumed replay` first, or leave out --no-lock.",
                source.name()
            )));
        }
        replay_into(source, &rbd)?;
    }
    Ok(rbd)
}

/// Bring what a volume's journal holds into its image: frames and bytes of them.
///
/// # Errors
/// [`VolumeError`], also while another client has the volume open.
pub fn replay_volume(source: &RbdSource) -> Result<Progress, VolumeError> {
    let rbd = RbdVolume::open(source)?;
    let replayed = if is_open(&rbd)? { replay_into(source, &rbd)? } else { Progress::default() };
    rbd.close()?;
    Ok(replayed)
}

/// Remove a volume's journal with all that it holds, for an image that is to go.
///
/// # Errors
/// [`VolumeError`], also while another client has the volume open.
pub fn remove_journal(source: &RbdSource) -> Result<bool, VolumeError> {
    let (rbd, slots) = open_with_slots(source)?;
    let was_there = has_journal(&rbd)?;
    if was_there {
        let undone = |error: &dyn fmt::Display| {
            VolumeError::new(format!(
                "The journal of {} cannot be removed: {error}. Try again.",
                source.name()
            ))
        };
        let record = slots.read_record().map_err(|error| undone(&error))?;
        let found = record.as_deref().and_then(|bytes| Record::decode(bytes).ok());
        let ring = found.map_or(Config::default().ring, |record| record.ring);
        slots.remove(ring.segments).map_err(|error| undone(&error))?;
        let image = rbd.image();
        image.set_metadata(JOURNAL_KEY, DRAINED).map_err(|error| failed(&error))?;
        image.set_metadata(OBJECTS_KEY, "").map_err(|error| failed(&error))?;
    }
    rbd.close()?;
    Ok(was_there)
}

fn open_with_slots(source: &RbdSource) -> Result<(RbdVolume, Arc<RadosSlots>), VolumeError> {
    if !source.lock {
        return Err(VolumeError::new(
            "A journal needs the image's exclusive lock: leave out --no-lock, or use \
             --write-path direct.",
        ));
    }
    let rbd = RbdVolume::open(source)?;
    let slots = slots_of(source, &rbd)?;
    Ok((rbd, slots))
}

fn slots_of(source: &RbdSource, rbd: &RbdVolume) -> Result<Arc<RadosSlots>, VolumeError> {
    let id = rbd.image().id().map_err(|error| failed(&error))?;
    let objects =
        Objects::open(Arc::clone(rbd.cluster()), &source.pool, source.namespace.as_deref())
            .map_err(|error| failed(&error))?;
    Ok(Arc::new(RadosSlots::new(objects, &id)))
}

fn has_journal(rbd: &RbdVolume) -> Result<bool, VolumeError> {
    let prefix = rbd.image().metadata(OBJECTS_KEY).map_err(|error| failed(&error))?;
    Ok(prefix.is_some_and(|prefix| !prefix.is_empty()))
}

/// Whether the journal may hold what the image does not.
fn is_open(rbd: &RbdVolume) -> Result<bool, VolumeError> {
    let mark = rbd.image().metadata(JOURNAL_KEY).map_err(|error| failed(&error))?;
    Ok(mark.as_deref() == Some(OPEN))
}

fn replay_into(source: &RbdSource, rbd: &RbdVolume) -> Result<Progress, VolumeError> {
    let slots = slots_of(source, rbd)?;
    let options = Options { volume: new_volume_id()?, config: Config::default() };
    let replayed = replay(&**rbd.image(), &*slots, None, options, &mut announcer())
        .map_err(|error| refused(source, &error))?;
    rbd.image().set_metadata(JOURNAL_KEY, DRAINED).map_err(|error| failed(&error))?;
    tracing::info!(
        frames = replayed.frames,
        bytes = replayed.frame_bytes,
        "the journal is in the image"
    );
    Ok(replayed)
}

fn refused(source: &RbdSource, error: &OpenError) -> VolumeError {
    VolumeError::new(format!(
        "The journal of {} cannot be opened: {}. Nothing was changed that is needed to try again; \
         `ceph health` may say more.",
        source.name(),
        chain(error)
    ))
}

fn new_volume_id() -> Result<VolumeId, VolumeError> {
    let mut bytes = [0; 16];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(16) => Ok(VolumeId(bytes)),
        Ok(_) => Err(VolumeError::new("The kernel gave too few random bytes. Try again.")),
        Err(error) => Err(VolumeError::new(format!("No random bytes: {error}. Try again."))),
    }
}

/// Says now and then how far a recovery has come.
fn announcer() -> impl FnMut(Progress) {
    let mut last = Instant::now();
    move |progress| {
        if last.elapsed() >= PROGRESS_INTERVAL {
            last = Instant::now();
            let Progress { frames, frame_bytes, shipped_batches, .. } = progress;
            tracing::info!(frames, frame_bytes, shipped_batches, "opening the journal");
        }
    }
}

impl Volume for JournaledVolume {
    fn device(&self) -> Arc<dyn BlockDevice> {
        Arc::<JournaledDevice>::clone(&self.device)
    }

    fn identity(&self) -> Identity {
        self.rbd.identity()
    }

    fn refresh_size(&self) -> Result<u64, VolumeError> {
        let size_bytes = self.rbd.refresh_size()?;
        self.device.resized(size_bytes);
        Ok(size_bytes)
    }

    fn look_at_lock(&self) -> LockView {
        let view = self.rbd.look_at_lock();
        if matches!(view, LockView::Fenced | LockView::Anothers { .. }) {
            self.device.fenced();
        }
        view
    }

    fn watch_size(&self, changed: Box<dyn Fn(u64) + Send + Sync>) {
        let device = Arc::downgrade(&self.device);
        self.rbd.watch_size(Box::new(move |size_bytes| {
            if let Some(device) = device.upgrade() {
                device.resized(size_bytes);
            }
            changed(size_bytes);
        }));
    }

    fn guard_snapshots(&self, guard: Arc<dyn SnapshotGuard>) -> Result<(), VolumeError> {
        let device = Arc::downgrade(&self.device);
        self.rbd.guard_snapshots(Arc::new(Drained { guard, device }))
    }

    fn journal(&self) -> Option<JournalView> {
        Some(JournalView {
            status: self.device.status(),
            statistics: self.device.statistics(),
            epoch: self.device.epoch(),
            capacity_bytes: self.device.ring().capacity_bytes(),
            max_held_bytes: Config::default().max_held_bytes,
        })
    }

    fn close(&self) -> Result<(), VolumeError> {
        let drained = self.device.close(CLOSE_PATIENCE);
        match &drained {
            Ok(()) => {
                let image = self.rbd.image();
                if let Err(error) = image.set_metadata(JOURNAL_KEY, DRAINED) {
                    // It is marked as it was: the next one to open it replays nothing.
                    tracing::warn!(%error, "the image cannot be marked as drained");
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the journal keeps what is not in the image yet");
            }
        }
        self.rbd.close()
    }
}

/// Brings everything into the image before a snapshot (INV-4).
struct Drained {
    guard: Arc<dyn SnapshotGuard>,
    device: std::sync::Weak<JournaledDevice>,
}

impl SnapshotGuard for Drained {
    fn before_snapshot(&self) -> Result<(), VolumeError> {
        let device = self.device.upgrade();
        let device = device.ok_or_else(|| VolumeError::new("The volume is being closed."))?;
        self.guard.before_snapshot()?;
        device.quiesce(SNAPSHOT_PATIENCE).map_err(|error| {
            self.guard.after_snapshot();
            VolumeError::new(format!("The journal was not drained for a snapshot: {error}."))
        })
    }

    fn after_snapshot(&self) {
        if let Some(device) = self.device.upgrade() {
            device.unquiesce();
        }
        self.guard.after_snapshot();
    }
}
