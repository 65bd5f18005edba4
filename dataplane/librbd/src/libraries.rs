//! Ceph's client libraries, loaded at run time.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::calls;
use crate::error::LoadError;
use crate::symbols::{Rados, Rbd};

const LIBRADOS: &str = "librados.so.2";
const LIBRBD: &str = "librbd.so.1";

/// What the library that was found can do beyond what every supported release can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own, not a state")]
pub struct Features {
    /// Zeroing a range at any alignment without sending zeros (Ceph 16).
    pub write_zeroes: bool,
    /// Hearing of a snapshot before it is taken (Ceph 16).
    pub quiesce: bool,
    /// Changing a range only if it holds what is expected (Ceph 12).
    pub compare_and_write: bool,
    /// Telling this client's own address, which a fence needs (Ceph 15).
    pub client_address: bool,
    /// Reading and writing what is encrypted (Ceph 16).
    pub encryption: bool,
}

/// librados and librbd.
///
/// Once loaded they stay until the process ends: they start threads and register exit handlers
/// of their own, none of which would survive their code.
pub struct Libraries {
    pub(crate) rados: Rados,
    pub(crate) rbd: Rbd,
    version: (i32, i32, i32),
}

impl Libraries {
    /// Load the libraries that the dynamic loader finds.
    ///
    /// # Errors
    /// [`LoadError`] when one cannot be loaded or is too old.
    pub fn load() -> Result<Arc<Self>, LoadError> {
        Self::load_from(Path::new(LIBRADOS), Path::new(LIBRBD))
    }

    /// Load these libraries. A path without a slash is looked up by the dynamic loader.
    ///
    /// # Errors
    /// [`LoadError`] when one cannot be loaded or is too old.
    pub fn load_from(librados: &Path, librbd: &Path) -> Result<Arc<Self>, LoadError> {
        // First librados, so that librbd, which depends on it by name, gets this one.
        let rados = Rados::find_in(&open(librados)?, librados)?;
        let rbd = Rbd::find_in(&open(librbd)?, librbd)?;
        Ok(Arc::new(Self { rados, rbd, version: calls::version(&rbd) }))
    }

    /// The version of librbd's interface, such as (1, 20, 0); not Ceph's own version.
    #[must_use]
    pub fn librbd_version(&self) -> (i32, i32, i32) {
        self.version
    }

    /// What is there beyond the required.
    #[must_use]
    pub fn features(&self) -> Features {
        let Rbd { rbd_quiesce_watch, rbd_quiesce_complete, rbd_quiesce_unwatch, .. } = self.rbd;
        Features {
            write_zeroes: self.rbd.rbd_aio_write_zeroes.is_some(),
            quiesce: rbd_quiesce_watch.is_some()
                && rbd_quiesce_complete.is_some()
                && rbd_quiesce_unwatch.is_some(),
            compare_and_write: self.rbd.rbd_compare_and_write.is_some(),
            client_address: self.rados.rados_getaddrs.is_some()
                && self.rados.rados_buffer_free.is_some(),
            encryption: self.rbd.rbd_encryption_load2.is_some()
                || self.rbd.rbd_encryption_load.is_some(),
        }
    }
}

impl fmt::Debug for Libraries {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Libraries")
            .field("librbd_version", &self.version)
            .field("features", &self.features())
            .finish_non_exhaustive()
    }
}

/// Load a library for the rest of the process's life.
#[allow(unsafe_code, reason = "loading a library runs its initialisers")]
fn open(path: &Path) -> Result<Library, LoadError> {
    let flags = RTLD_NOW | RTLD_LOCAL | libc::RTLD_NODELETE;
    // SAFETY: the initialisers of Ceph's libraries need nothing that is not there before main;
    // they are what linking against them would run.
    unsafe { Library::open(Some(path), flags) }
        .map_err(|source| LoadError::Library { path: path.to_owned(), source })
}
