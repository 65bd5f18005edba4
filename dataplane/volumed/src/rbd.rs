//! An RBD image as a volume.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use grampus_blockdev::BlockDevice;
use grampus_librbd::{
    Cluster, ConnectOptions, Errno, ImageSpec, Libraries, QuiesceHandler, RbdError, RbdImage,
};
use grampus_readahead::ReadAhead;
use grampus_sealing::Secret;

use crate::encryption::{ENCRYPTION_KEY, LUKS2, require_fit};
use crate::local_place::LocalPlace;
use crate::volume::{Identity, LockView, SnapshotGuard, Taken, Volume, VolumeError};

/// Ceph options that hold unless the command line says otherwise.
///
/// Measured with librbd 1.20 on two busy cores, medians of four rounds, CPU time of this process
/// for each request: without copies 835 instead of 1013 us for a write of 1 MiB; without librbd's
/// scheduler 72 instead of 96 us for a read of 16 KiB, 122 instead of 144 us for such a write.
pub const DEFAULT_CEPH_OPTIONS: [(&str, &str); 7] = [
    // A cluster that is silent is waited for; a limit in somebody's ceph.conf would make an outage
    // an I/O error (INV-68).
    ("rados_osd_op_timeout", "0"),
    // The page cache above is the cache; a second one only adds copies and a dirty state.
    ("rbd_cache", "false"),
    // A write's memory is ours and stays as it is until its answer: librbd need not copy it.
    ("rbd_disable_zero_copy_writes", "false"),
    // It waits for neighbours to merge with. The kernel above has merged already.
    ("rbd_io_scheduler", "none"),
    // How many objects are copied at once when the image is flattened, migrated or rolled back:
    // librbd leaves that to whoever holds the lock, so what the asking command was told counts for
    // nothing. With librbd's own 10 writers of the same cluster waited for more than a second.
    ("rbd_concurrent_management_ops", "2"),
    // A host serves hundreds of volumes, and each is a client of its own. One thread for its
    // connections and one for its answers carry more than a cluster answers for one volume.
    ("ms_async_op_threads", "1"),
    ("librados_thread_count", "1"),
];

/// Besides, for an image that is encrypted.
///
/// What was never written of an object that is there reads as zeros from the OSD, which librbd
/// would decrypt, to bytes that nobody wrote. A sparse read says what is there; 1 means: always.
/// (Tried with librbd 1.20: with the default of 64 KiB such a place brought other bytes, with 1
/// zeros.)
pub const ENCRYPTED_CEPH_OPTIONS: [(&str, &str); 1] = [("rbd_sparse_read_threshold_bytes", "1")];

/// The journal's own default: a busy volume fills it, and an idle one takes none of it.
pub const DEFAULT_JOURNAL_MEMORY_BYTES: u64 = 256 << 20;
/// With less a single batch would fill it.
pub const MIN_JOURNAL_MEMORY_BYTES: u64 = 16 << 20;
/// More than the longest ring holds brings nothing.
pub const MAX_JOURNAL_MEMORY_BYTES: u64 = 1 << 30;

/// From the opening on: a file system is mounted right then, and replays its log.
const READS_AHEAD_FOR: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// Which image, and how to reach its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RbdSource {
    /// The pool's name.
    pub pool: String,
    /// The namespace in the pool; None for the default one.
    pub namespace: Option<String>,
    /// The image's name.
    pub image: String,
    /// The Ceph user, without `client.`.
    pub user: String,
    /// ceph.conf; None for where Ceph itself looks.
    pub conf: Option<PathBuf>,
    /// Ceph options that go before [`DEFAULT_CEPH_OPTIONS`] and the file's.
    pub ceph_options: Vec<(String, String)>,
    /// Whether to take the exclusive lock.
    pub lock: bool,
    /// How writes come to the image.
    pub write_path: WritePath,
    /// What the volume has, or may have, on this host's own disk. Needed with
    /// [`WritePath::Cache`].
    pub local: Option<LocalPlace>,
    /// What the data in the journal that waits to be applied may take of this process's memory.
    pub journal_memory_bytes: u64,
    /// Open the volume without what a damaged journal has lost.
    pub accept_damage: bool,
    /// The key of an image that is encrypted. It stays: the image may be opened again.
    pub secret: Option<Secret>,
}

/// How writes come to the image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WritePath {
    /// A write is a write to the image.
    #[default]
    Direct,
    /// A flush appends what was written to a journal beside the image, which is applied behind it.
    Journal,
    /// A flush appends to a log on the host's own disk, which is shipped to the journal behind it;
    /// a read cache lies beside the log.
    Cache,
}

impl WritePath {
    /// As the command line and the protocol spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Journal => "journal",
            Self::Cache => "cache",
        }
    }
}

impl RbdSource {
    /// `pool/image` or `pool/namespace/image`.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{}/{namespace}/{}", self.pool, self.image),
            None => format!("{}/{}", self.pool, self.image),
        }
    }

    /// How it is encrypted, as the protocol spells it.
    #[must_use]
    pub fn encryption(&self) -> Option<&'static str> {
        self.secret.as_ref().map(|_| LUKS2)
    }

    fn settings(&self) -> Vec<(String, String)> {
        let encrypted = self.secret.iter().flat_map(|_| ENCRYPTED_CEPH_OPTIONS);
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let defaults = DEFAULT_CEPH_OPTIONS.into_iter().chain(encrypted).map(owned);
        defaults.chain(self.ceph_options.iter().cloned()).collect()
    }
}

/// An open image, locked unless that was not wanted.
#[derive(Debug)]
pub struct RbdVolume {
    cluster: Arc<Cluster>,
    image: Arc<RbdImage>,
    device: Arc<ReadAhead>,
    identity: Identity,
    locked: bool,
}

impl RbdVolume {
    /// Load librbd, connect, open, take the lock. Waits for the cluster.
    ///
    /// # Errors
    /// [`VolumeError`] says what failed and what to do; also when the image is encrypted and the
    /// source has no key, or the other way round.
    pub fn open(source: &RbdSource) -> Result<Self, VolumeError> {
        Self::connect(source, |cluster, spec| {
            let opened = match &source.secret {
                Some(secret) => RbdImage::open_encrypted(cluster, spec, secret.passphrase()),
                None => RbdImage::open(cluster, spec),
            };
            let image = opened.map_err(|error| refused_open(&error))?;
            let mark = image.metadata(ENCRYPTION_KEY).map_err(|error| failed(&error))?;
            require_fit(&source.name(), mark.as_deref(), source.secret.is_some())?;
            Ok(image)
        })
    }

    /// As `open`, whether the image is encrypted or not, for who wants nothing of what is in it.
    ///
    /// # Errors
    /// [`VolumeError`].
    pub(crate) fn open_raw(source: &RbdSource) -> Result<Self, VolumeError> {
        Self::connect(source, |cluster, spec| {
            RbdImage::open(cluster, spec).map_err(|error| refused_open(&error))
        })
    }

    fn connect(
        source: &RbdSource,
        open: impl FnOnce(Arc<Cluster>, &ImageSpec) -> Result<Arc<RbdImage>, VolumeError>,
    ) -> Result<Self, VolumeError> {
        let libraries =
            Libraries::load().map_err(|error| VolumeError::new(format!("{}.", chain(&error))))?;
        let (major, minor, extra) = libraries.librbd_version();
        let options = ConnectOptions {
            conf: source.conf.clone(),
            user: source.user.clone(),
            settings: source.settings(),
            timeout: Some(CONNECT_TIMEOUT),
        };
        let cluster = Cluster::connect(libraries, &options).map_err(|error| {
            let advice = "Check that the monitors answer, --conf, and the keyring of --user.";
            VolumeError::new(format!("{}. {advice}", chain(&error)))
        })?;
        let client_address = cluster.client_address();
        tracing::info!(address = client_address, "connected to the cluster");
        let spec = ImageSpec {
            pool: source.pool.clone(),
            namespace: source.namespace.clone(),
            image: source.image.clone(),
            snapshot: None,
            read_only: false,
        };
        let image = open(Arc::clone(&cluster), &spec)?;
        if source.lock {
            image.acquire_lock().map_err(|error| refused_lock(&source.name(), &error))?;
        }
        let identity = Identity {
            device: "rbd",
            write_path: source.write_path.name(),
            encryption: source.encryption(),
            image: Some(source.name()),
            client_address,
            librbd_version: Some(format!("{major}.{minor}.{extra}")),
        };
        let below: Arc<dyn BlockDevice> = Arc::<RbdImage>::clone(&image);
        let device = Arc::new(ReadAhead::new(below, READS_AHEAD_FOR));
        Ok(Self { cluster, image, device, identity, locked: source.lock })
    }

    pub(crate) fn image(&self) -> &Arc<RbdImage> {
        &self.image
    }

    /// Its connection: what else goes through it is fenced with it.
    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    fn view_lock(&self) -> Result<LockView, RbdError> {
        if self.image.is_lock_owner()? {
            return Ok(LockView::Ours);
        }
        let owner = self.image.lock_owners()?.into_iter().next();
        Ok(match owner {
            // The answer may have come between two looks: librbd has taken it again.
            Some(owner) if Some(&owner) == self.identity.client_address.as_ref() => LockView::Ours,
            Some(owner) => LockView::Anothers { owner },
            None => LockView::Nobodys,
        })
    }
}

fn refused_open(error: &RbdError) -> VolumeError {
    let advice = match error {
        RbdError::Passphrase => {
            "Give the key that the image, or the one it is a clone of, was encrypted with."
        }
        RbdError::NotEncrypted => {
            "Leave out --encryption-key-file, or check that it is the right image."
        }
        _ => "`rbd info` shows whether it is there and --user may open it.",
    };
    VolumeError::new(format!("{}. {advice}", chain(error)))
}

fn refused_lock(name: &str, error: &RbdError) -> VolumeError {
    let sentences = match error {
        RbdError::LockHeld { owner } => format!(
            "The image {name} is in use: {owner} holds its exclusive lock. Detach it there, or \
             fence that client."
        ),
        error => format!(
            "{}. The image needs the feature exclusive-lock; --no-lock goes without.",
            chain(error)
        ),
    };
    VolumeError::new(sentences)
}

/// An error with all its causes, without an end of sentence.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

pub(crate) fn failed(error: &RbdError) -> VolumeError {
    VolumeError::new(format!("{}. `rbd status` and `ceph health` may say more.", chain(error)))
}

impl Volume for RbdVolume {
    fn device(&self) -> Arc<dyn BlockDevice> {
        Arc::<ReadAhead>::clone(&self.device)
    }

    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn refresh_size(&self) -> Result<u64, VolumeError> {
        self.image.refresh_size().map_err(|error| failed(&error))
    }

    fn look_at_lock(&self) -> LockView {
        if !self.locked {
            return if self.image.is_fenced() { LockView::Fenced } else { LockView::None };
        }
        match self.view_lock() {
            Ok(view) => view,
            Err(RbdError::Fenced) => LockView::Fenced,
            Err(error) => LockView::Unknown { reason: chain(&error) },
        }
    }

    fn watch_size(&self, changed: Box<dyn Fn(u64) + Send + Sync>) {
        self.image.on_resize(changed);
    }

    fn guard_snapshots(&self, guard: Arc<dyn SnapshotGuard>) -> Result<(), VolumeError> {
        self.image.on_quiesce(Box::new(Handler::new(guard))).map_err(|error| failed(&error))
    }

    fn take_snapshot(
        &self,
        name: &str,
        guard: Arc<dyn SnapshotGuard>,
    ) -> Result<Taken, VolumeError> {
        let listed = self.image.snapshots().map_err(|error| failed(&error))?;
        if listed.iter().any(|snapshot| snapshot.name == name) {
            return Ok(Taken::WasThere);
        }
        guard.before_snapshot()?;
        // Not by librbd's own announcement: after an outage it may reach everybody but this client.
        let created = self.image.create_quiesced_snapshot(name);
        guard.after_snapshot();
        match created {
            Ok(()) => Ok(Taken::Created),
            Err(error) if error.errno() == Some(libc::EEXIST) => Ok(Taken::WasThere),
            Err(error) => Err(failed(&error)),
        }
    }

    fn remove_snapshot(&self, name: &str) -> Result<(), VolumeError> {
        self.image.remove_snapshot(name).map_err(|error| failed(&error))
    }

    fn close(&self) -> Result<(), VolumeError> {
        self.image.close().map_err(|error| failed(&error))
    }
}

/// [`SnapshotGuard`] as librbd's binding wants it.
struct Handler {
    guard: Arc<dyn SnapshotGuard>,
    /// How many that began have not ended. librbd also ends what failed to begin, and nothing of
    /// another snapshot may end with it.
    begun: AtomicUsize,
}

impl Handler {
    fn new(guard: Arc<dyn SnapshotGuard>) -> Self {
        Self { guard, begun: AtomicUsize::new(0) }
    }
}

impl QuiesceHandler for Handler {
    fn quiesce(&self) -> Result<(), Errno> {
        self.guard.before_snapshot().map_err(|error| {
            tracing::warn!(%error, "a snapshot was refused");
            Errno(libc::EBUSY)
        })?;
        self.begun.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn unquiesce(&self) {
        let less = |begun: usize| begun.checked_sub(1);
        if self.begun.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok() {
            self.guard.after_snapshot();
        }
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Handler").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_command_line_come_after_the_defaults() {
        let source = RbdSource {
            pool: "rbd".to_owned(),
            namespace: None,
            image: "disk".to_owned(),
            user: "admin".to_owned(),
            conf: None,
            ceph_options: vec![("rbd_cache".to_owned(), "true".to_owned())],
            lock: true,
            write_path: WritePath::Direct,
            local: None,
            journal_memory_bytes: DEFAULT_JOURNAL_MEMORY_BYTES,
            accept_damage: false,
            secret: None,
        };
        // Ceph takes the last one.
        let last = source.settings().into_iter().rfind(|(key, _)| key == "rbd_cache");
        assert_eq!(last.map(|(_, value)| value).as_deref(), Some("true"));
        let sparse = ("rbd_sparse_read_threshold_bytes".to_owned(), "1".to_owned());
        assert!(!source.settings().contains(&sparse));
        let secret = Secret::parse(&[b'1'; 64]).ok();
        let encrypted = RbdSource { secret, ..source.clone() };
        assert!(encrypted.settings().contains(&sparse), "zeros are zeros (INV-7)");
        assert_eq!(source.name(), "rbd/disk");
        assert_eq!(RbdSource { namespace: Some("a".into()), ..source }.name(), "rbd/a/disk");
    }

    #[test]
    fn a_lock_that_is_held_names_its_owner_and_the_way_out() {
        let held = RbdError::LockHeld { owner: "10.0.0.1:0/7".to_owned() };
        let text = refused_lock("rbd/disk", &held).to_string();
        assert!(text.contains("10.0.0.1:0/7") && text.contains("rbd/disk"), "{text}");
        assert!(text.ends_with("fence that client."), "{text}");
    }
}
