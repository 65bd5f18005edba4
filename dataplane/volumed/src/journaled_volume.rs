//! An RBD image behind its write journal, as a volume.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use grampus_blockdev::BlockDevice;
use grampus_journal::{Config, Failure, Progress, Record, RecoveryError, VolumeId};
use grampus_journaled::{JournaledDevice, OpenError, Options, Slots, open, replay};
use grampus_librbd::{Objects, RbdImage};
use grampus_readcache::ReadCache;
use grampus_sealing::{Key, Secret, Use};

use crate::encryption::{new_salt, new_sealing};
use crate::found_log::{FoundLog, decide_config, find_log};
use crate::journal_place::decide_place;
use crate::local_place::LocalPlace;
use crate::rados_slots::RadosSlots;
use crate::rbd::{RbdVolume, failed};
use crate::rbd_source::{RbdSource, WritePath};
use crate::volume::{
    Identity, JournalView, LocalView, LockView, SnapshotGuard, Taken, Volume, VolumeError, chain,
};

/// Metadata of the image: where its journal's objects are ([`JournalPlace`](crate::journal_place)).
pub const OBJECTS_KEY: &str = "grampus.journal.objects";
/// Metadata of the image: whether its journal may hold what the image does not.
pub const JOURNAL_KEY: &str = "grampus.journal";
/// Metadata of the image: where the log on a host's disk is that may hold what was acknowledged and
/// is nowhere else; empty when there is none.
pub const LOCAL_KEY: &str = "grampus.journal.local";
const OPEN: &str = "open";
const DRAINED: &str = "drained";
/// How long a snapshot waits until everything is in the image; librbd's own patience is 50 s.
const SNAPSHOT_PATIENCE: Duration = Duration::from_secs(30);
/// So little is applied while writes wait for a snapshot.
const DRAWN_DOWN_BYTES: u64 = 1 << 20;
/// The snapshot's author waits, too: then what is left is applied while writes wait.
const DRAW_DOWN_PATIENCE: Duration = Duration::from_secs(20);
/// How long a volume that closes is drained for. What is left then stays in the journal, where
/// the next one to open it finds it.
const CLOSE_PATIENCE: Duration = Duration::from_secs(60);
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// What to do about damage.
const FORCED: &str = "Bring the objects back, or restore the volume from a backup. To open it without \
                      what is lost, run `volumed replay --accept-damage`; then check the file system.";

/// An open image with its journal. The image's exclusive lock is held for as long.
#[derive(Debug)]
pub struct JournaledVolume {
    rbd: RbdVolume,
    device: Arc<JournaledDevice>,
    reads: Option<Arc<ReadCache>>,
    /// Where the log is that was not found.
    left_behind: Option<String>,
    /// What does not change of the part on this host's disk; None unless it was asked for.
    local: Option<LocalView>,
    /// The log that is written to, with the write path `cache`.
    log: Option<PathBuf>,
    leaves_journal: AtomicBool,
    /// What the journal may hold in memory.
    max_held_bytes: u64,
}

impl JournaledVolume {
    /// Open the image, replay what its journal holds, and write through the journal from now on.
    ///
    /// # Errors
    /// [`VolumeError`] says what failed and what to do.
    pub fn open(source: &RbdSource) -> Result<Self, VolumeError> {
        let (rbd, slots) = open_with_slots(source)?;
        let found_log = find_log(source)?;
        let image = rbd.image();
        let mark = |key, value: &str| image.set_metadata(key, value).map_err(|e| failed(&e));
        mark(OBJECTS_KEY, &slots.place().to_string())?;
        require_record(source, &rbd, &slots)?;
        let config = decide_config(source, &found_log, image.geometry().size_bytes());
        let sealing = new_sealing(source.secret.as_ref())?;
        let accept_damage = source.accept_damage;
        let options = Options { volume: new_volume_id()?, config, sealing, accept_damage };
        let (below, reads) = below(source, rbd.device(), new_read_key(source)?);
        let mut found = Progress::default();
        let mut announce = announcer();
        let mut progress = |now| {
            found = now;
            announce(now);
        };
        let device = open(below, slots, found_log.port(), options, &mut progress)
            .map_err(|error| refused(source, &error))?;
        // Before the first write can be in the journal alone: whoever finds the image must know.
        // And after the record is there: from then on, where it is missing, it was lost.
        mark(JOURNAL_KEY, OPEN)?;
        let (frames, bytes) = (found.frames, found.frame_bytes);
        let shipped = found.shipped_batches;
        tracing::info!(epoch = device.epoch().0, frames, bytes, shipped, "the journal is open");
        // Before the first flush: whoever opens the volume without this log must know.
        let log_now = config.cache.map_or(String::new(), |_| found_log.place());
        let left_behind = swap_log_mark(image, &found_log, &log_now)?;
        let place = source.local.as_ref().filter(|_| source.write_path == WritePath::Cache);
        let local = place.map(|place| LocalView {
            refusal: found_log.degraded.clone(),
            capacity_bytes: config.cache.map_or(0, |cache| cache.ring.capacity_bytes()),
            max_lag: place.max_lag,
            asides: found_log.asides(),
        });
        let log = place_of_log(source).filter(|_| found_log.log.is_some());
        let (device, leaves_journal) = (Arc::new(device), AtomicBool::new(false));
        let max_held_bytes = config.max_held_bytes;
        Ok(Self { rbd, device, reads, left_behind, local, log, leaves_journal, max_held_bytes })
    }
}

fn place_of_log(source: &RbdSource) -> Option<PathBuf> {
    let place = source.local.as_ref().filter(|_| source.write_path == WritePath::Cache);
    place.map(LocalPlace::log_path)
}

impl JournaledVolume {
    /// Remove the log once all that it held is in the image, which says so. The next image that is
    /// opened here may be another one (`open-image`), whose journal knows nothing of it: it would be
    /// kept as an older owner's, and its user asked about it.
    fn remove_log(&self) {
        let Some(log) = &self.log else { return };
        if let Err(error) = std::fs::remove_file(log) {
            tracing::warn!(%error, log = %log.display(), "the drained log cannot be removed");
        }
    }
}

/// What the journal writes to and reads from: the image, behind a read cache where there is one.
fn below(
    source: &RbdSource,
    image: Arc<dyn BlockDevice>,
    key: Option<Key>,
) -> (Arc<dyn BlockDevice>, Option<Arc<ReadCache>>) {
    let place = source.local.as_ref().filter(|_| source.write_path == WritePath::Cache);
    match place.and_then(|place| place.read_cache(Arc::clone(&image), key)) {
        Some(cache) => (Arc::<ReadCache>::clone(&cache), Some(cache)),
        None => (image, None),
    }
}

/// For a read cache of this opening: nobody needs what is in its file afterwards.
fn new_read_key(source: &RbdSource) -> Result<Option<Key>, VolumeError> {
    let derive = |secret: &Secret| Ok(secret.key(Use::ReadCache, &new_salt()?, &[]));
    source.secret.as_ref().map(derive).transpose()
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

/// Refuse to begin a journal anew beside an image that is marked as having one with something in it.
fn require_record(
    source: &RbdSource,
    rbd: &RbdVolume,
    slots: &RadosSlots,
) -> Result<(), VolumeError> {
    let mark = rbd.image().metadata(OBJECTS_KEY).map_err(|error| failed(&error))?;
    // A clone has the marks of its parent, whose journal was empty when the snapshot was taken.
    let is_its_own = mark == Some(slots.place().to_string());
    if !is_open(rbd)? || !is_its_own {
        return Ok(());
    }
    let record = slots.read_record().map_err(|error| unreadable(source, error))?;
    if record.is_some() {
        return Ok(());
    }
    if source.accept_damage {
        tracing::warn!(object = %slots.place(), "the journal's record is missing: given up");
        return Ok(());
    }
    Err(VolumeError::new(format!(
        "The journal of {} is damaged: its record, the object {}, is missing, so acknowledged writes \
         may be lost. {FORCED}",
        source.name(),
        slots.place()
    )))
}

fn unreadable(source: &RbdSource, error: Failure) -> VolumeError {
    VolumeError::new(format!(
        "The journal of {} cannot be read: {error}. `ceph health` may say more.",
        source.name()
    ))
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

/// Remove a volume's journal with all that it holds, for an image that is to go. Needs no key of
/// one that is encrypted: who has lost it must still be able to.
///
/// # Errors
/// [`VolumeError`], also while another client has the volume open.
pub fn remove_journal(source: &RbdSource) -> Result<bool, VolumeError> {
    let rbd = RbdVolume::open_raw(source)?;
    let slots = slots_of(source, &rbd)?;
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
        // First: cut off from here on, what is missing is no damage.
        slots.empty().map_err(|error| undone(&error))?;
        let image = rbd.image();
        image.set_metadata(JOURNAL_KEY, DRAINED).map_err(|error| failed(&error))?;
        slots.remove(ring.segments).map_err(|error| undone(&error))?;
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
    let image = rbd.image();
    let id = image.id().map_err(|error| failed(&error))?;
    let mark = image.metadata(OBJECTS_KEY).map_err(|error| failed(&error))?;
    let wanted = source.journal_pool.as_deref();
    let place = decide_place(mark.as_deref(), &id, wanted, &source.pool);
    let pool = place.pool.as_deref().unwrap_or(&source.pool);
    if wanted.is_some_and(|wanted| wanted != pool) {
        tracing::warn!(place = %place, "the journal stays in the pool where it is");
    }
    // On the image's connection: a fence takes the journal away with the image.
    let objects = Objects::open(Arc::clone(rbd.cluster()), pool, source.namespace.as_deref());
    let objects = objects.map_err(|error| failed(&error))?;
    Ok(Arc::new(RadosSlots::new(objects, place)))
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
    let size_bytes = rbd.image().geometry().size_bytes();
    let max_held_bytes = source.journal_memory_bytes;
    let config = Config { max_held_bytes, ..Config::for_volume(size_bytes) };
    let sealing = new_sealing(source.secret.as_ref())?;
    require_record(source, rbd, &slots)?;
    let accept_damage = source.accept_damage;
    let options = Options { volume: new_volume_id()?, config, sealing, accept_damage };
    let found_log = find_log(source)?;
    let log = found_log.port();
    let replayed = replay(&**rbd.image(), &*slots, log.as_deref(), options, &mut announcer())
        .map_err(|error| refused(source, &error))?;
    swap_log_mark(rbd.image(), &found_log, "")?;
    rbd.image().set_metadata(JOURNAL_KEY, DRAINED).map_err(|error| failed(&error))?;
    if let Some(damage) = replayed.given_up {
        tracing::warn!("{damage}: given up, as it was asked for");
    }
    tracing::info!(
        frames = replayed.frames,
        bytes = replayed.frame_bytes,
        "the journal is in the image"
    );
    Ok(replayed)
}

/// Note where the log is from now on, once what the last one had is in the image. Says where that
/// one is if it was not `found`: then what only it had is lost to the volume.
fn swap_log_mark(
    image: &RbdImage,
    found: &FoundLog,
    now: &str,
) -> Result<Option<String>, VolumeError> {
    let last = image.metadata(LOCAL_KEY).map_err(|error| failed(&error))?.unwrap_or_default();
    if last != now {
        image.set_metadata(LOCAL_KEY, now).map_err(|error| failed(&error))?;
    }
    let left_behind = Some(last).filter(|last| !last.is_empty() && found.was_not(last));
    if let Some(log) = &left_behind {
        tracing::warn!(log, "the volume's last log is not here: what only it had is missing");
    }
    Ok(left_behind)
}

fn refused(source: &RbdSource, error: &OpenError) -> VolumeError {
    if let OpenError::Recovery(RecoveryError::Seal { .. }) = error {
        return VolumeError::new(format!(
            "The journal of {} cannot be opened: {}. Nothing was changed: open the volume with the \
             key, or without one, as it was when that was written.",
            source.name(),
            chain(error)
        ));
    }
    if let OpenError::Recovery(RecoveryError::Damaged(damage)) = error {
        return VolumeError::new(format!(
            "The journal of {} cannot be opened: {damage}. Nothing was changed that is needed to try \
             again. {FORCED}",
            source.name()
        ));
    }
    VolumeError::new(format!(
        "The journal of {} cannot be opened: {}. Nothing was changed that is needed to try again; \
         `ceph health` may say more.",
        source.name(),
        chain(error)
    ))
}

fn new_volume_id() -> Result<VolumeId, VolumeError> {
    new_salt().map(VolumeId)
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
        self.rbd.guard_snapshots(Arc::new(Drained::new(guard, &self.device)))
    }

    fn take_snapshot(
        &self,
        name: &str,
        guard: Arc<dyn SnapshotGuard>,
    ) -> Result<Taken, VolumeError> {
        self.rbd.take_snapshot(name, Arc::new(Drained::new(guard, &self.device)))
    }

    fn remove_snapshot(&self, name: &str) -> Result<(), VolumeError> {
        self.rbd.remove_snapshot(name)
    }

    fn journal(&self) -> Option<JournalView> {
        Some(JournalView {
            status: self.device.status(),
            statistics: self.device.statistics(),
            epoch: self.device.epoch(),
            capacity_bytes: self.device.ring().capacity_bytes(),
            max_held_bytes: self.max_held_bytes,
            left_behind: self.left_behind.clone(),
            local: self.local.clone(),
            reads: self.reads.as_ref().map(|reads| (reads.statistics(), reads.off_reason())),
        })
    }

    fn shut_out(&self) {
        self.device.fenced();
    }

    fn draw_down(&self, patience: Duration) {
        self.device.draw_down(DRAWN_DOWN_BYTES, patience);
    }

    fn leave_journal(&self) {
        self.leaves_journal.store(true, Ordering::Relaxed);
    }

    fn close(&self) -> Result<(), VolumeError> {
        if self.leaves_journal.load(Ordering::Relaxed) {
            self.device.close_undrained();
            return self.rbd.close();
        }
        let drained = self.device.close(CLOSE_PATIENCE);
        match &drained {
            Ok(()) => {
                let image = self.rbd.image();
                let marked = image
                    .set_metadata(LOCAL_KEY, "")
                    .and_then(|()| image.set_metadata(JOURNAL_KEY, DRAINED));
                match marked {
                    Ok(()) => self.remove_log(),
                    // It is marked as it was: the next one to open it replays nothing.
                    Err(error) => {
                        tracing::warn!(%error, "the image cannot be marked as drained");
                    }
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
    /// Changes go on, into the journal alone.
    holds_image: AtomicBool,
}

impl Drained {
    fn new(guard: Arc<dyn SnapshotGuard>, device: &Arc<JournaledDevice>) -> Self {
        let (device, holds_image) = (Arc::downgrade(device), AtomicBool::new(false));
        Self { guard, device, holds_image }
    }
}

impl SnapshotGuard for Drained {
    fn before_snapshot(&self) -> Result<(), VolumeError> {
        let device = self.device.upgrade();
        let device = device.ok_or_else(|| VolumeError::new("The volume is being closed."))?;
        // Writes go on, only slower, until what is left is a matter of tenths of a second.
        device.draw_down(DRAWN_DOWN_BYTES, DRAW_DOWN_PATIENCE);
        self.guard.before_snapshot()?;
        device.quiesce(SNAPSHOT_PATIENCE).map_err(|error| {
            self.guard.after_snapshot();
            VolumeError::new(format!("The journal was not drained for a snapshot: {error}."))
        })?;
        // To make the snapshot takes the cluster longer than to drain: a MON numbers it, up to a
        // second later.
        if self.guard.can_let_go() && device.hold_image() {
            self.holds_image.store(true, Ordering::SeqCst);
            self.guard.let_go();
        }
        Ok(())
    }

    fn after_snapshot(&self) {
        let holds_image = self.holds_image.swap(false, Ordering::SeqCst);
        match self.device.upgrade() {
            Some(device) if holds_image => device.release_image(),
            Some(device) => device.unquiesce(),
            None => {}
        }
        self.guard.after_snapshot();
    }
}
