//! What the frames of an encrypted volume are sealed with.
//!
//! Each log of each owner has a key of its own: it comes of the volume's secret, the log's label,
//! the volume, the owner's epoch, and a salt that every opening draws anew. A frame says its salt,
//! so whoever has the secret finds the key again.
//!
//! The nonce is the last sequence of the frame. Of one owner, no two frames of one log carry the
//! same batch, so no nonce comes twice: recovery ships with sequences up to the one it opens the
//! volume at, the journal goes on after it, and a frame that is sent again is the same frame to the
//! byte. That an epoch has one owner is not enough for that, since a cluster, or the record alone,
//! may be brought back to an earlier state and the epoch be given again: hence the salt.

use std::sync::Arc;

use grampus_sealing::{Key, Salt, Secret, Use};

use crate::format::error::SealMismatch;
use crate::format::ids::Log;
use crate::format::ids::{Epoch, VolumeId};
use crate::format::record::Record;

/// The secret of a volume for one opening of it.
#[derive(Debug, Clone)]
pub struct Sealing {
    secret: Secret,
    salt: Salt,
}

impl Sealing {
    /// `salt`: drawn at random for this opening alone.
    #[must_use]
    pub fn new(secret: Secret, salt: Salt) -> Self {
        Self { secret, salt }
    }

    /// What the records of the volume's logs name; see [`Record::sealed_by`].
    #[must_use]
    pub fn fingerprint(&self, volume: VolumeId) -> u64 {
        self.secret.fingerprint(&[&volume.0])
    }

    /// What the owner of `epoch` seals the frames of `log` with.
    pub(crate) fn frame_key(&self, log: Log, volume: VolumeId, epoch: Epoch) -> Arc<FrameKey> {
        self.key_of(log, volume, epoch, self.salt)
    }

    fn key_of(&self, log: Log, volume: VolumeId, epoch: Epoch, salt: Salt) -> Arc<FrameKey> {
        let purpose = match log {
            Log::Cluster => Use::Journal,
            Log::Local => Use::LocalLog,
        };
        let key = self.secret.key(purpose, &salt, &[&volume.0, &epoch.0.to_le_bytes()]);
        Arc::new(FrameKey { salt, key })
    }
}

/// What one owner seals the frames of one log with.
#[derive(Debug)]
pub(crate) struct FrameKey {
    pub(crate) salt: Salt,
    pub(crate) key: Key,
}

/// What the frames of one log are opened with.
#[derive(Debug)]
pub(crate) struct Opener {
    sealing: Sealing,
    log: Log,
    /// Nearly all frames of a log are of one owner.
    last: Option<(Epoch, Arc<FrameKey>)>,
}

impl Opener {
    pub(crate) fn new(sealing: &Sealing, log: Log) -> Self {
        Self { sealing: sealing.clone(), log, last: None }
    }

    pub(crate) fn key(&mut self, volume: VolumeId, epoch: Epoch, salt: Salt) -> Arc<FrameKey> {
        if let Some((last, key)) = &self.last {
            if *last == epoch && key.salt == salt {
                return Arc::clone(key);
            }
        }
        let key = self.sealing.key_of(self.log, volume, epoch, salt);
        self.last = Some((epoch, Arc::clone(&key)));
        key
    }
}

/// Whether the log of `record` can be read, and gone on with, by who has `sealing`.
pub(crate) fn require_fit(record: &Record, sealing: Option<&Sealing>) -> Result<(), SealMismatch> {
    match (record.sealed_by, sealing.map(|sealing| sealing.fingerprint(record.volume))) {
        (Some(_), None) => Err(SealMismatch::NoKey),
        (None, Some(_)) => Err(SealMismatch::NotSealed),
        (Some(theirs), Some(ours)) if theirs != ours => Err(SealMismatch::OtherKey),
        _ => Ok(()),
    }
}
