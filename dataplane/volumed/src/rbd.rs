//! An RBD image as a volume.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use grampus_blockdev::BlockDevice;
use grampus_librbd::{
    Cluster, ConnectOptions, Errno, ImageSpec, Libraries, QuiesceHandler, RbdError, RbdImage,
};
use grampus_readahead::ReadAhead;

use crate::encryption::{ENCRYPTION_KEY, require_fit};
use crate::rbd_source::RbdSource;
use crate::volume::{Identity, LockView, SnapshotGuard, Taken, Volume, VolumeError, chain};

/// From the opening on: a file system is mounted right then, and replays its log.
const READS_AHEAD_FOR: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

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
    fn a_lock_that_is_held_names_its_owner_and_the_way_out() {
        let held = RbdError::LockHeld { owner: "10.0.0.1:0/7".to_owned() };
        let text = refused_lock("rbd/disk", &held).to_string();
        assert!(text.contains("10.0.0.1:0/7") && text.contains("rbd/disk"), "{text}");
        assert!(text.ends_with("fence that client."), "{text}");
    }
}
