//! What a daemon serves, whatever lies behind it: the port between the daemon and a device.

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use grampus_blockdev::{BlockDevice, BlockSize, FileDevice, Geometry, MemoryDevice};
use grampus_pacing::{DiskModel, PacedDevice};
use thiserror::Error;

/// Something about a volume failed; a sentence for its user.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct VolumeError(String);

impl VolumeError {
    /// An error that says `sentences`: what is wrong, and what to do.
    #[must_use]
    pub fn new(sentences: impl Into<String>) -> Self {
        Self(sentences.into())
    }
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

/// What does not change while a volume is open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// `rbd`, `memory` or `file`.
    pub device: &'static str,
    /// `direct`, `journal` or `cache`: how writes come to it.
    pub write_path: &'static str,
    /// `luks2`; None for a volume that is not encrypted.
    pub encryption: Option<&'static str>,
    /// `pool/image` or `pool/namespace/image`; None without a cluster.
    pub image: Option<String>,
    /// As the cluster's blocklist spells it; None without a cluster.
    pub client_address: Option<String>,
    /// None without a cluster.
    pub librbd_version: Option<String>,
}

/// What a look at the exclusive lock found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockView {
    /// This volume has no lock, or was opened without.
    None,
    /// It is ours.
    Ours,
    /// It is not ours at the moment, and nobody else's: librbd is taking it again.
    Nobodys,
    /// It is another's: two would write.
    Anothers {
        /// Who, as librbd names it.
        owner: String,
    },
    /// The cluster shut this client out.
    Fenced,
    /// The cluster did not say.
    Unknown {
        /// Why.
        reason: String,
    },
}

/// What does not change of the part of a volume that lies on the host's disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalView {
    /// Why there is no log, if there is none.
    pub refusal: Option<String>,
    /// What the log holds.
    pub capacity_bytes: u64,
    /// What the loss of the host may cost.
    pub max_lag: Duration,
    /// Logs that were set aside, now or ever.
    pub asides: Vec<String>,
}

/// A look at a volume's write journal.
#[derive(Debug, Clone)]
pub struct JournalView {
    /// How it is.
    pub status: grampus_journal::Status,
    /// What it has done since it was opened.
    pub statistics: grampus_journal::Statistics,
    /// Which owner of the volume this is.
    pub epoch: grampus_journal::Epoch,
    /// What the ring in the cluster holds.
    pub capacity_bytes: u64,
    /// The most memory that it holds.
    pub max_held_bytes: u64,
    /// Where the log is that the volume had before and that was not found: what only it held is
    /// not in the volume.
    pub left_behind: Option<String>,
    /// With the write path `cache`.
    pub local: Option<LocalView>,
    /// Counts of the read cache, where there is one, and why it is off, if it is.
    pub reads: Option<(grampus_readcache::Statistics, Option<String>)>,
}

impl JournalView {
    /// What is wrong with it, as a sentence's part.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        match (self.status.state, self.status.retrying) {
            (grampus_journal::State::Failed(failure), _) | (_, Some((failure, _))) => {
                Some(failure.to_string())
            }
            _ => None,
        }
    }

    /// For how long the cluster has answered the journal nothing, if it owes it an answer.
    #[must_use]
    pub fn silent(&self) -> Option<Duration> {
        self.status.silent
    }
}

/// What a snapshot that was asked for came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It was taken now.
    Created,
    /// One of that name was there, and is left as it is.
    WasThere,
}

/// Called around the snapshots that any client takes.
pub trait SnapshotGuard: Send + Sync {
    /// Hold changes back and make durable what there is.
    ///
    /// # Errors
    /// Any error makes the snapshot fail.
    fn before_snapshot(&self) -> Result<(), VolumeError>;

    /// Whether changes may go on before [`Self::after_snapshot`], where the image stays as it is.
    fn can_let_go(&self) -> bool {
        false
    }

    /// The image stays as it is whatever comes in: let changes go on.
    fn let_go(&self) {}

    /// Go on.
    fn after_snapshot(&self);
}

/// An open volume. Its calls may wait for the cluster for as long as that takes.
pub trait Volume: Send + Sync {
    /// Where its bytes are.
    fn device(&self) -> Arc<dyn BlockDevice>;

    /// What it is.
    fn identity(&self) -> Identity;

    /// Read its size again, in bytes.
    ///
    /// # Errors
    /// [`VolumeError`] when the cluster refuses.
    fn refresh_size(&self) -> Result<u64, VolumeError>;

    /// Whose the exclusive lock is now.
    fn look_at_lock(&self) -> LockView;

    /// Call `changed` with the new size, in bytes, whenever it has changed.
    fn watch_size(&self, changed: Box<dyn Fn(u64) + Send + Sync>);

    /// Call `guard` around snapshots.
    ///
    /// # Errors
    /// [`VolumeError`] when the volume cannot tell of snapshots.
    fn guard_snapshots(&self, guard: Arc<dyn SnapshotGuard>) -> Result<(), VolumeError>;

    /// Take a snapshot of the image, with `guard` called around it as around any other's.
    ///
    /// # Errors
    /// [`VolumeError`]: there is none, unless the cluster has lost the answer.
    fn take_snapshot(
        &self,
        _name: &str,
        _guard: Arc<dyn SnapshotGuard>,
    ) -> Result<Taken, VolumeError> {
        Err(VolumeError::new("Only an RBD image has snapshots. Serve one with --image."))
    }

    /// Remove a snapshot of the image.
    ///
    /// # Errors
    /// [`VolumeError`].
    fn remove_snapshot(&self, _name: &str) -> Result<(), VolumeError> {
        Err(VolumeError::new("Only an RBD image has snapshots. Serve one with --image."))
    }

    /// The write journal, where writes go through one.
    fn journal(&self) -> Option<JournalView> {
        None
    }

    /// The emulated disk, where requests take one's time.
    fn emulated_disk(&self) -> Option<Arc<PacedDevice>> {
        None
    }

    /// It is not this process's any more, though the cluster has not said so yet: take and send
    /// nothing from now on.
    fn shut_out(&self) {}

    /// Leave little to do for [`Volume::close`], within about `patience`: requests go on meanwhile.
    fn draw_down(&self, _patience: Duration) {}

    /// Let [`Volume::close`] leave in the journal what it holds: the next one to open the volume finds
    /// it there, as after a crash, and who removes it has no use for it.
    fn leave_journal(&self) {}

    /// Wait for what is in flight, let go of the lock, close. Nothing else is called after it.
    ///
    /// # Errors
    /// [`VolumeError`] when the last flush failed: what was not flushed before may be lost.
    fn close(&self) -> Result<(), VolumeError>;
}

/// A device of this machine: for trials and tests.
pub struct LocalVolume {
    device: Arc<dyn BlockDevice>,
    name: &'static str,
    emulated_disk: Option<Arc<PacedDevice>>,
}

impl LocalVolume {
    /// Memory, zeros at first, gone with the daemon.
    ///
    /// # Errors
    /// [`VolumeError`] for a size that makes no memory device.
    pub fn memory(size_bytes: u64) -> Result<Self, VolumeError> {
        Geometry::new(size_bytes, BlockSize::B4096)
            .and_then(MemoryDevice::new)
            .map(|device| Self { device: Arc::new(device), name: "memory", emulated_disk: None })
            .map_err(|error| {
                VolumeError::new(format!("No volume in memory: {error}. Choose another --memory."))
            })
    }

    /// An existing file of whole blocks, whose answers take the time of `emulated_disk`.
    ///
    /// Without `syncs` a flush is answered at once, see [`FileDevice::without_syncs`].
    ///
    /// # Errors
    /// [`VolumeError`] when it cannot be opened or makes no device.
    pub fn file(
        path: &Path,
        emulated_disk: Option<DiskModel>,
        syncs: bool,
    ) -> Result<Self, VolumeError> {
        let refused = |error: &dyn Error| {
            let cause = error.source().map_or(String::new(), |source| format!(": {source}"));
            VolumeError::new(format!(
                "The file makes no volume: {error}{cause}. `truncate --size=N` makes one of N \
                 bytes, a multiple of 512."
            ))
        };
        let size_bytes =
            path.metadata().map(|found| found.len()).map_err(|error| refused(&error))?;
        let block_size = if size_bytes % u64::from(BlockSize::B4096.bytes()) == 0 {
            BlockSize::B4096
        } else {
            BlockSize::B512
        };
        let opened = FileDevice::open(path, block_size).map_err(|error| refused(&error))?;
        let file: Arc<dyn BlockDevice> =
            Arc::new(if syncs { opened } else { opened.without_syncs() });
        let Some(model) = emulated_disk else {
            return Ok(Self { device: file, name: "file", emulated_disk: None });
        };
        let disk = PacedDevice::new(file, model).map(Arc::new).map_err(|error| {
            VolumeError::new(format!(
                "No thread can be started for the emulated disk: {error}. Look at the limits of \
                 this process."
            ))
        })?;
        let device = Arc::<PacedDevice>::clone(&disk);
        Ok(Self { device, name: "file", emulated_disk: Some(disk) })
    }
}

impl Volume for LocalVolume {
    fn device(&self) -> Arc<dyn BlockDevice> {
        Arc::clone(&self.device)
    }

    fn identity(&self) -> Identity {
        Identity { device: self.name, write_path: "direct", ..Identity::default() }
    }

    fn refresh_size(&self) -> Result<u64, VolumeError> {
        Ok(self.device.geometry().size_bytes())
    }

    fn look_at_lock(&self) -> LockView {
        LockView::None
    }

    /// Its size never changes.
    fn watch_size(&self, _changed: Box<dyn Fn(u64) + Send + Sync>) {}

    fn emulated_disk(&self) -> Option<Arc<PacedDevice>> {
        self.emulated_disk.clone()
    }

    /// Nobody takes snapshots of it.
    fn guard_snapshots(&self, _guard: Arc<dyn SnapshotGuard>) -> Result<(), VolumeError> {
        Ok(())
    }

    fn close(&self) -> Result<(), VolumeError> {
        Ok(())
    }
}

impl fmt::Debug for LocalVolume {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LocalVolume").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_or_file_that_makes_no_volume_is_refused_with_advice() {
        assert!(LocalVolume::memory(1 << 20).is_ok());
        for size_bytes in [0, 4095, 1 << 40] {
            let error = LocalVolume::memory(size_bytes).unwrap_err().to_string();
            assert!(error.ends_with("Choose another --memory."), "{error}");
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        assert!(LocalVolume::file(&path, None, true).is_err());
        for (size_bytes, block_bytes) in
            [(0, None), (511, None), (1536, Some(512)), (8192, Some(4096))]
        {
            std::fs::File::create(&path).unwrap().set_len(size_bytes).unwrap();
            for emulated_disk in [None, "0,0,1".parse().ok()] {
                let opened = LocalVolume::file(&path, emulated_disk, true).ok();
                let is_disk = opened.as_ref().is_some_and(|it| it.emulated_disk().is_some());
                assert_eq!(is_disk, block_bytes.is_some() && emulated_disk.is_some());
                let found = opened.map(|volume| volume.device().geometry().block_size().bytes());
                assert_eq!(found, block_bytes, "{size_bytes}");
            }
        }
    }
}
