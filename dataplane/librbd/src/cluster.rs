//! A connection to a Ceph cluster.
#![allow(unsafe_code, reason = "calls into librados")]

use std::ffi::{CStr, CString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use crate::error::RbdError;
use crate::libraries::Libraries;
use crate::settings::{c_text, parse_client_address};
use crate::symbols::{PoolHandle, Rados, RadosHandle};

/// How to reach a cluster, and as whom.
#[derive(Debug, Clone, Default)]
pub struct ConnectOptions {
    /// The configuration file; None for where Ceph itself looks for one.
    pub conf: Option<PathBuf>,
    /// The user, without `client.`.
    pub user: String,
    /// Ceph options that go before the file's, such as `rbd_cache` = `false`. A secret belongs in
    /// the keyring file, not here.
    pub settings: Vec<(String, String)>,
    /// How long to try to reach a monitor, at least a second; None for Ceph's own 300 s. I/O on a
    /// connection that stands waits without end.
    pub timeout: Option<Duration>,
}

/// A connection of its own: one client address, which a fence can cut off alone.
pub struct Cluster {
    libraries: Arc<Libraries>,
    handle: RadosHandle,
}

// SAFETY: librados locks for itself; a `rados_t` may be used by any thread, also at once.
unsafe impl Send for Cluster {}
// SAFETY: as above.
unsafe impl Sync for Cluster {}

impl Cluster {
    /// Connect. Blocks until a monitor has answered.
    ///
    /// # Errors
    /// [`RbdError::Call`] when a file, an option or the user is refused or no monitor answers;
    /// [`RbdError::Text`].
    pub fn connect(
        libraries: Arc<Libraries>,
        options: &ConnectOptions,
    ) -> Result<Arc<Self>, RbdError> {
        let rados = libraries.rados;
        let user = c_text("user name", &format!("client.{}", options.user))?;
        let mut handle = ptr::null_mut();
        // SAFETY: both texts end in NUL and live through the call, which writes the handle.
        let answer =
            unsafe { (rados.rados_create2)(&raw mut handle, c"ceph".as_ptr(), user.as_ptr(), 0) };
        require("start a client of the cluster as", &options.user, answer)?;
        // From here on dropping it shuts the client down, connected or not.
        let cluster = Self { libraries, handle };
        cluster.configure(options)?;
        // SAFETY: the handle was made above and is not shut down.
        let answer = unsafe { (rados.rados_connect)(cluster.handle) };
        require("connect to the cluster as", &options.user, answer)?;
        Ok(Arc::new(cluster))
    }

    fn configure(&self, options: &ConnectOptions) -> Result<(), RbdError> {
        let path = options.conf.as_deref().map(c_path).transpose()?;
        let path_pointer = path.as_ref().map_or(ptr::null(), |path| path.as_ptr());
        // SAFETY: the path is NULL, for Ceph's own choice, or ends in NUL and lives long enough.
        let answer =
            unsafe { (self.libraries.rados.rados_conf_read_file)(self.handle, path_pointer) };
        let shown = options.conf.as_deref().unwrap_or(Path::new("ceph.conf"));
        require("read the configuration", &shown.display().to_string(), answer)?;
        for (key, value) in &options.settings {
            self.set(key, value)?;
        }
        if let Some(timeout) = options.timeout {
            self.set("client_mount_timeout", &timeout.as_secs().max(1).to_string())?;
        }
        Ok(())
    }

    fn set(&self, key: &str, value: &str) -> Result<(), RbdError> {
        let (c_key, c_value) = (c_text("option", key)?, c_text("option's value", value)?);
        // SAFETY: both texts end in NUL; librados copies them.
        let answer = unsafe {
            (self.libraries.rados.rados_conf_set)(self.handle, c_key.as_ptr(), c_value.as_ptr())
        };
        require("set the Ceph option", key, answer)
    }

    /// This client's address exactly as `rbd status` shows it among the watchers and as a fence
    /// names it, such as `10.1.0.5:0/123456`. None when the library cannot tell.
    #[must_use]
    pub fn client_address(&self) -> Option<String> {
        let rados = &self.libraries.rados;
        let (getaddrs, free) = (rados.rados_getaddrs?, rados.rados_buffer_free?);
        let mut listed = ptr::null_mut();
        // SAFETY: on success the call sets the pointer to a text of its own.
        let answer = unsafe { getaddrs(self.handle, &raw mut listed) };
        if answer < 0 || listed.is_null() {
            return None;
        }
        // SAFETY: the text ends in NUL and is ours until it is freed, once, below.
        let address = parse_client_address(&unsafe { CStr::from_ptr(listed) }.to_string_lossy());
        // SAFETY: allocated by rados_getaddrs, not used again.
        unsafe { free(listed) };
        address
    }

    /// What was loaded.
    #[must_use]
    pub fn libraries(&self) -> &Libraries {
        &self.libraries
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // SAFETY: every pool of this connection holds an `Arc` of it, so all are gone, and with
        // them their images.
        unsafe { (self.libraries.rados.rados_shutdown)(self.handle) };
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Cluster").finish_non_exhaustive()
    }
}

/// A pool of a connection, seen through one of its namespaces.
pub(crate) struct Pool {
    cluster: Arc<Cluster>,
    handle: PoolHandle,
}

// SAFETY: librados locks for itself; nothing changes the handle after `open`.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    pub(crate) fn open(
        cluster: Arc<Cluster>,
        name: &str,
        namespace: Option<&str>,
    ) -> Result<Self, RbdError> {
        let rados = cluster.libraries.rados;
        let c_name = c_text("pool's name", name)?;
        let c_namespace = c_text("namespace", namespace.unwrap_or_default())?;
        let mut handle = ptr::null_mut();
        // SAFETY: the connection stands; the name ends in NUL; the call writes the handle.
        let answer =
            unsafe { (rados.rados_ioctx_create)(cluster.handle, c_name.as_ptr(), &raw mut handle) };
        require("open the pool", name, answer)?;
        // SAFETY: the handle was made above; the text is copied.
        unsafe { (rados.rados_ioctx_set_namespace)(handle, c_namespace.as_ptr()) };
        Ok(Self { cluster, handle })
    }

    pub(crate) fn handle(&self) -> PoolHandle {
        self.handle
    }

    pub(crate) fn rados(&self) -> &Rados {
        &self.cluster.libraries.rados
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: made by `open`; images in it are closed, and operations on objects in it have
        // been answered, before it is dropped.
        unsafe { (self.cluster.libraries.rados.rados_ioctx_destroy)(self.handle) };
    }
}

fn c_path(path: &Path) -> Result<CString, RbdError> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| RbdError::Text { what: "path" })
}

fn require(action: &'static str, subject: &str, answer: i32) -> Result<(), RbdError> {
    if answer < 0 { Err(RbdError::of(action, subject, answer.into())) } else { Ok(()) }
}
