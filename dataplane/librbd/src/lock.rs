//! The exclusive lock of an image: who may write.

use crate::error::RbdError;
use crate::image::RbdImage;
use crate::settings::c_text;

impl RbdImage {
    /// Take the image's exclusive lock, for good: unlike the lock that librbd takes by itself at
    /// the first write, it is not handed over when another client asks.
    ///
    /// Blocks. An owner that is gone but not fenced is waited for until its watch ends (30 s as
    /// Ceph is set up by default), and then blocklisted.
    ///
    /// # Errors
    /// [`RbdError::LockHeld`] when an owner that is alive keeps it; [`RbdError::Call`] (EINVAL
    /// for an image without the feature `exclusive-lock`); [`RbdError::Fenced`];
    /// [`RbdError::Closed`].
    pub fn acquire_lock(&self) -> Result<(), RbdError> {
        let core = self.core().enter()?;
        let answer = core.image.lock();
        if is_held(answer) {
            // The refusal stands, whether or not the owner can be told.
            let owner = core.image.lock_owners().ok().and_then(|owners| owners.into_iter().next());
            let owner = owner.unwrap_or_else(|| "another client".to_owned());
            return Err(RbdError::LockHeld { owner });
        }
        core.require("take the exclusive lock of", answer)?;
        core.note_locked();
        Ok(())
    }

    /// Whether this client holds the lock now. Asks an OSD, and so also finds out that the
    /// client was fenced.
    ///
    /// # Errors
    /// [`RbdError::Fenced`], [`RbdError::Call`], [`RbdError::Closed`].
    pub fn is_lock_owner(&self) -> Result<bool, RbdError> {
        let core = self.core().enter()?;
        core.made("tell the lock's owner of", core.image.is_lock_owner())
    }

    /// The addresses of the clients that hold the lock; empty when it is free.
    ///
    /// # Errors
    /// [`RbdError::Call`] (EINVAL for an image without the feature), [`RbdError::Fenced`],
    /// [`RbdError::Closed`].
    pub fn lock_owners(&self) -> Result<Vec<String>, RbdError> {
        let core = self.core().enter()?;
        core.made("tell the lock's owners of", core.image.lock_owners())
    }

    /// Give the lock back. What is in flight is completed and flushed first; librbd refuses
    /// changes from then on.
    ///
    /// # Errors
    /// [`RbdError::Call`] (EINVAL when this client does not hold it), [`RbdError::Fenced`],
    /// [`RbdError::Closed`].
    pub fn release_lock(&self) -> Result<(), RbdError> {
        let core = self.core().enter()?;
        core.require("give back the exclusive lock of", core.image.unlock())?;
        core.note_unlocked();
        Ok(())
    }

    /// Take the lock away from `owner`, an address as [`RbdImage::lock_owners`] gives it. Ceph
    /// blocklists the owner first, by default.
    ///
    /// # Errors
    /// [`RbdError::Call`] (ENOENT when nobody holds it, EBUSY when another does),
    /// [`RbdError::Text`], [`RbdError::Fenced`], [`RbdError::Closed`].
    pub fn break_lock(&self, owner: &str) -> Result<(), RbdError> {
        let c_owner = c_text("lock's owner", owner)?;
        let core = self.core().enter()?;
        core.require("break the exclusive lock of", core.image.break_lock(&c_owner)).map(drop)
    }
}

/// Whether an answer to taking the lock says that another client keeps it.
fn is_held(answer: i64) -> bool {
    [libc::EROFS, libc::EBUSY, libc::EAGAIN].map(|errno| -i64::from(errno)).contains(&answer)
}
