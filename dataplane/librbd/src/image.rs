//! An open RBD image.

use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

use grampus_blockdev::{BlockDevice, Completion, DeviceError, Geometry, Outcome, Request};

use crate::calls::Image;
use crate::cluster::{Cluster, Pool};
use crate::core::{Admission, Core, FollowUp, decide_geometry};
use crate::durability::decide_writes_through;
use crate::error::RbdError;
use crate::events::{Events, QuiesceHandler};
use crate::operation::{self, Operation};
use crate::settings::c_text;

/// Which image to open, and how.
#[derive(Debug, Clone, Default)]
pub struct ImageSpec {
    /// The pool's name.
    pub pool: String,
    /// The namespace in the pool; None for the default one.
    pub namespace: Option<String>,
    /// The image's name.
    pub image: String,
    /// The snapshot to read instead of the image itself.
    pub snapshot: Option<String>,
    /// Open it so that nothing can be written; needed for a snapshot.
    pub read_only: bool,
}

impl fmt::Display for ImageSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/", self.pool)?;
        if let Some(namespace) = &self.namespace {
            write!(formatter, "{namespace}/")?;
        }
        formatter.write_str(&self.image)?;
        match &self.snapshot {
            Some(snapshot) => write!(formatter, "@{snapshot}"),
            None => Ok(()),
        }
    }
}

/// How [`RbdImage::compare_and_write`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompareOutcome {
    /// What was expected was there, and is replaced.
    Written,
    /// Something else was there, and still is.
    Mismatch {
        /// The image's first byte that differs, or one near it: librbd tells it by object.
        offset_bytes: u64,
    },
}

/// A snapshot of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Its number.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// The image's size when it was taken.
    pub size_bytes: u64,
}

/// An open image.
///
/// Its [`BlockDevice`] side follows the image's size, zeroes ranges exactly, and never answers
/// on the submitting thread but for what it refuses and for a flush of an image that writes
/// through (no cache, no journaling: what librbd has answered is on all copies). Once the cluster has answered that this
/// client is blocklisted, or that it lost a lock it took by [`RbdImage::acquire_lock`], every
/// request fails at once with [`DeviceError::Fenced`]; after any other failed flush, with
/// [`DeviceError::Failed`].
pub struct RbdImage {
    core: Arc<Core>,
    events: Arc<Events>,
    /// None once closed.
    open: Mutex<Option<Open>>,
}

/// What closing an image takes apart. Dropped, it closes the image too.
struct Open {
    core: Arc<Core>,
    events: Arc<Events>,
    threads: Vec<JoinHandle<()>>,
    is_closed: bool,
    /// Last: the image is closed before its pool.
    _pool: Pool,
}

impl RbdImage {
    /// Open an image. Blocks until the cluster answers.
    ///
    /// # Errors
    /// [`RbdError::Call`] (ENOENT for a pool or image that is not there), [`RbdError::Limit`] for
    /// an image of less than 512 bytes, [`RbdError::Text`], [`RbdError::Thread`],
    /// [`RbdError::Fenced`].
    pub fn open(cluster: Arc<Cluster>, spec: &ImageSpec) -> Result<Arc<Self>, RbdError> {
        Self::open_with(cluster, spec, None)
    }

    /// Open an image that is encrypted (LUKS), and read and write what was encrypted. The
    /// passphrase opens the image and every ancestor that is encrypted too. Blocks.
    ///
    /// # Errors
    /// As [`RbdImage::open`]; [`RbdError::Passphrase`], [`RbdError::NotEncrypted`],
    /// [`RbdError::Unsupported`].
    pub fn open_encrypted(
        cluster: Arc<Cluster>,
        spec: &ImageSpec,
        passphrase: &[u8],
    ) -> Result<Arc<Self>, RbdError> {
        Self::open_with(cluster, spec, Some(passphrase))
    }

    #[allow(unsafe_code, reason = "the order of opening is this function's to see to")]
    fn open_with(
        cluster: Arc<Cluster>,
        spec: &ImageSpec,
        passphrase: Option<&[u8]>,
    ) -> Result<Arc<Self>, RbdError> {
        let rbd = cluster.libraries().rbd;
        let name = spec.to_string();
        let c_image = c_text("image's name", &spec.image)?;
        let c_snapshot =
            spec.snapshot.as_deref().map(|text| c_text("snapshot's name", text)).transpose()?;
        let pool = Pool::open(cluster, &spec.pool, spec.namespace.as_deref())?;
        // SAFETY: the pool is open, and `Open` drops it after the image is closed.
        let image = unsafe {
            Image::open(&rbd, pool.handle(), &c_image, c_snapshot.as_deref(), spec.read_only)
        }
        .map_err(|code| RbdError::of("open the image", &*name, code))?;
        // Before the size: that of what was encrypted counts, not that of the whole image.
        let loaded = passphrase.map_or(Ok(()), |text| load_encryption(&image, &name, text));
        let shape = loaded
            .and_then(|()| {
                let size_bytes = image.size_bytes();
                size_bytes.map_err(|code| RbdError::of("read the size of", &*name, code))
            })
            .and_then(|image_bytes| Ok(decide_geometry(image_bytes)?));
        let geometry = match shape {
            Ok(geometry) => geometry,
            Err(error) => {
                // SAFETY: no call is in progress and none follows.
                unsafe { image.close() };
                return Err(error);
            }
        };

        let writes_through = decide_writes_through(image.features(), image.settings().as_deref());
        let (follow_ups, follow_up_queue) = mpsc::channel();
        let events = Events::new();
        let core = Arc::new(Core::new(image, name, geometry, writes_through, follow_ups));
        events.belong_to(&core);
        let mut open = Open {
            core: Arc::clone(&core),
            events: Arc::clone(&events),
            threads: Vec::new(),
            is_closed: false,
            _pool: pool,
        };
        open.spawn("rbd-follow", move |core| operation::follow_up(core, follow_up_queue))?;
        // SAFETY: `open` keeps the port until the image is closed.
        unsafe { events.watch_updates(&core) }?;
        Ok(Arc::new(Self { core, events, open: Mutex::new(Some(open)) }))
    }

    /// The image's id in its pool and namespace, which stays when the image is renamed.
    ///
    /// # Errors
    /// [`RbdError::Call`], [`RbdError::Fenced`], [`RbdError::Closed`].
    pub fn id(&self) -> Result<String, RbdError> {
        let core = self.core.enter()?;
        core.made("read the id of", core.image.id())
    }

    /// The image's size in bytes, in whole sectors of 512.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.core.size_bytes()
    }

    /// Take the image's size from the cluster, which also happens by itself soon after a change.
    /// Answers the size; if it is new, callbacks hear of it first.
    ///
    /// # Errors
    /// [`RbdError::Call`], [`RbdError::Limit`], [`RbdError::Fenced`], [`RbdError::Closed`].
    pub fn refresh_size(&self) -> Result<u64, RbdError> {
        self.events.refresh_size(&*self.core.enter()?)
    }

    /// Make the image larger. Refuses to make it smaller, which would cut a file system off.
    ///
    /// # Errors
    /// [`RbdError::Call`] (EINVAL for less than its size), [`RbdError::Fenced`],
    /// [`RbdError::Limit`], [`RbdError::Closed`].
    pub fn resize(&self, new_bytes: u64) -> Result<(), RbdError> {
        let core = self.core.enter()?;
        core.require("resize", core.image.grow(new_bytes))?;
        self.events.refresh_size(&core).map(drop)
    }

    /// Have `callback` called with each new size in bytes, on a thread of the image's own or the
    /// one that asked for the change. It stays until the image is closed.
    pub fn on_resize(&self, callback: Box<dyn Fn(u64) + Send + Sync>) {
        self.events.add_resize_callback(callback);
    }

    /// Have `handler` called around each snapshot, in place of the handler before.
    ///
    /// # Errors
    /// [`RbdError::Unsupported`], [`RbdError::Call`], [`RbdError::Closed`].
    #[allow(unsafe_code, reason = "the watch needs the port to live")]
    pub fn on_quiesce(&self, handler: Box<dyn QuiesceHandler>) -> Result<(), RbdError> {
        let core = self.core.enter()?;
        // SAFETY: `self.open` keeps the port until the image is closed, which `core` prevents now.
        unsafe { self.events.watch_quiesce(&core, handler) }
    }

    /// Replace `compare` by `write`, of the same length, in one step that no other client can
    /// come between; not across a boundary of objects. Blocks.
    ///
    /// # Errors
    /// [`RbdError::Call`] (EINVAL when the lengths differ), [`RbdError::Unsupported`],
    /// [`RbdError::Fenced`], [`RbdError::Closed`].
    pub fn compare_and_write(
        &self,
        offset_bytes: u64,
        compare: &[u8],
        write: &[u8],
    ) -> Result<CompareOutcome, RbdError> {
        const ACTION: &str = "compare and write";
        let core = self.core.enter()?;
        if compare.len() != write.len() {
            return Err(RbdError::of(ACTION, &*core.name, -i64::from(libc::EINVAL)));
        }
        let unsupported = RbdError::Unsupported { symbol: "rbd_compare_and_write" };
        core.note_change();
        match core.image.compare_and_write(offset_bytes, compare, write).ok_or(unsupported)? {
            (answer, offset_bytes) if answer == -i64::from(libc::EILSEQ) => {
                Ok(CompareOutcome::Mismatch { offset_bytes })
            }
            (answer, _) => core.require(ACTION, answer).map(|_| CompareOutcome::Written),
        }
    }

    /// Set a value of the image's metadata.
    ///
    /// # Errors
    /// [`RbdError::Call`], [`RbdError::Text`], [`RbdError::Fenced`], [`RbdError::Closed`].
    pub fn set_metadata(&self, key: &str, value: &str) -> Result<(), RbdError> {
        let (c_key, c_value) = (c_text("key", key)?, c_text("value", value)?);
        let core = self.core.enter()?;
        core.require("set the metadata of", core.image.set_metadata(&c_key, &c_value)).map(drop)
    }

    /// A value of the image's metadata; None when there is no such key.
    ///
    /// # Errors
    /// [`RbdError::Call`], [`RbdError::Text`], [`RbdError::Fenced`], [`RbdError::Closed`].
    pub fn metadata(&self, key: &str) -> Result<Option<String>, RbdError> {
        let c_key = c_text("key", key)?;
        let core = self.core.enter()?;
        core.made("read the metadata of", core.image.metadata(&c_key))
    }

    /// The image's snapshots, oldest first.
    ///
    /// # Errors
    /// [`RbdError::Call`], [`RbdError::Fenced`], [`RbdError::Closed`].
    pub fn snapshots(&self) -> Result<Vec<Snapshot>, RbdError> {
        let core = self.core.enter()?;
        let listed = core.made("list the snapshots of", core.image.snapshots())?;
        let snapshot = |(id, name, size_bytes)| Snapshot { id, name, size_bytes };
        Ok(listed.into_iter().map(snapshot).collect())
    }

    /// Take a snapshot. Blocks; a quiesce handler is called on another thread meanwhile.
    ///
    /// # Errors
    /// [`RbdError::Call`] (EEXIST), [`RbdError::Text`], [`RbdError::Fenced`],
    /// [`RbdError::Closed`].
    pub fn create_snapshot(&self, name: &str) -> Result<(), RbdError> {
        let c_name = c_text("snapshot's name", name)?;
        let core = self.core.enter()?;
        core.require("take a snapshot of", core.image.create_snapshot(&c_name)).map(drop)
    }

    /// Take a snapshot of an image whose user holds requests back and has flushed: no quiesce
    /// handler is called, neither here nor at another client. Blocks.
    ///
    /// # Errors
    /// As [`RbdImage::create_snapshot`].
    pub fn create_quiesced_snapshot(&self, name: &str) -> Result<(), RbdError> {
        let c_name = c_text("snapshot's name", name)?;
        let core = self.core.enter()?;
        core.require("take a snapshot of", core.image.create_quiesced_snapshot(&c_name)).map(drop)
    }

    /// Remove a snapshot. Blocks.
    ///
    /// # Errors
    /// [`RbdError::Call`] (ENOENT, EBUSY for one that is protected), [`RbdError::Text`],
    /// [`RbdError::Fenced`], [`RbdError::Closed`].
    pub fn remove_snapshot(&self, name: &str) -> Result<(), RbdError> {
        let c_name = c_text("snapshot's name", name)?;
        let core = self.core.enter()?;
        core.require("remove a snapshot of", core.image.remove_snapshot(&c_name)).map(drop)
    }

    /// Requests accepted and not yet answered.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.core.in_flight()
    }

    /// Whether the cluster is known to have shut this client out.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        self.core.is_fenced()
    }

    /// What `lock` works on.
    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    /// Let nothing in any more, wait for what is in flight (however long the cluster takes),
    /// flush if something was changed (and the device has not failed and was not fenced), and
    /// close. Gives the lock back.
    ///
    /// Only the first call does so; a later one answers at once. Called on a thread of librbd or
    /// of the image's own, such as in a callback, it goes on in the background, and its errors
    /// are lost. So does dropping the image.
    ///
    /// # Errors
    /// [`RbdError::Call`] when the last flush or the close fails: what was not flushed before may
    /// be lost. The image is closed all the same.
    pub fn close(&self) -> Result<(), RbdError> {
        let taken = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut open) = taken else { return Ok(()) };
        if !operation::must_not_close() {
            return open.close();
        }
        let closer = thread::Builder::new().name("rbd-close".to_owned());
        closer.spawn(move || drop(open)).map(drop).map_err(RbdError::Thread)
    }
}

fn load_encryption(image: &Image, name: &str, passphrase: &[u8]) -> Result<(), RbdError> {
    let unsupported = RbdError::Unsupported { symbol: "rbd_encryption_load" };
    match image.load_encryption(passphrase).ok_or(unsupported)? {
        code if code >= 0 => Ok(()),
        code if code == -i64::from(libc::EPERM) => Err(RbdError::Passphrase),
        // What librbd says of an image that begins with no header that it knows.
        code if code == -i64::from(libc::EINVAL) => Err(RbdError::NotEncrypted),
        code => Err(RbdError::of("load the encryption of", name, code)),
    }
}

impl BlockDevice for RbdImage {
    fn geometry(&self) -> Geometry {
        self.core.geometry()
    }

    fn submit(&self, request: Request, completion: Completion) {
        // Held until librbd has taken the request, so that it is not closed in that call.
        let Ok(core) = self.core.enter() else {
            return answer(request, completion, Err(DeviceError::Abandoned));
        };
        match core.admit(&request) {
            Admission::Refuse(error) => answer(request, completion, Err(error)),
            Admission::Empty => answer(request, completion, Ok(())),
            Admission::Start => {
                if !matches!(request, Request::Read { .. } | Request::Flush) {
                    core.note_change();
                }
                let ticket = Core::ticket(&self.core);
                let operation = Operation::new(request, completion, ticket);
                operation::start(&core, Box::new(operation));
            }
        }
    }
}

impl Drop for RbdImage {
    fn drop(&mut self) {
        // Whoever wants to know how it ended closes it first.
        drop(self.close());
    }
}

impl fmt::Debug for RbdImage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RbdImage")
            .field("name", &self.core.name)
            .field("size_bytes", &self.size_bytes())
            .finish_non_exhaustive()
    }
}

impl Open {
    fn spawn(
        &mut self,
        name: &str,
        work: impl FnOnce(&Core) + Send + 'static,
    ) -> Result<(), RbdError> {
        let core = Arc::clone(&self.core);
        let thread = thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || work(&core)).map_err(RbdError::Thread)?;
        self.threads.push(thread);
        Ok(())
    }

    /// Close the image, once.
    #[allow(unsafe_code, reason = "the order of closing is this function's to see to")]
    fn close(&mut self) -> Result<(), RbdError> {
        if mem::replace(&mut self.is_closed, true) {
            return Ok(());
        }
        let core = &*self.core;
        core.drain();
        let flushed = if core.is_changed() && core.refusal().is_none() {
            core.require("flush", core.image.flush()).map(drop)
        } else {
            Ok(())
        };
        // A quiesce in progress must be answered before its watch ends: its thread still runs.
        self.events.unwatch(core);
        self.events.stop();
        // Each ends at its stop; one that was never started hears nothing.
        drop(core.follow_ups.send(FollowUp::Stop));
        for thread in self.threads.drain(..) {
            // A callback that panicked has told so on standard error.
            drop(thread.join());
        }
        self.events.forget();
        // SAFETY: once: `is_closed`. Calls of users are over and refused since `drain`; those of
        // the image's own threads are over since they were joined.
        let answer = unsafe { core.image.close() };
        flushed.and(core.require("close", answer).map(drop))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        drop(self.close());
    }
}

fn answer(request: Request, completion: Completion, result: Result<(), DeviceError>) {
    completion.complete(Outcome { result, buffer: request.into_buffer() });
}
