//! The image slot behind the gate: an open volume, which can be exchanged for another while
//! requests wait in the gate.
//!
//! An exchange is two requests of the control socket: [`ImageSlot::close_image`] closes the image,
//! and [`ImageSlot::open_image`] opens one, the same or another. In between something may be done
//! to it that no client that has it open would survive: it moves to another pool, or its user gets
//! another key.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use grampus_blockdev::{BlockDevice, Completion, DeviceError, Geometry, Outcome, Request};
use serde_json::{Value, json};

use crate::gate::{FlushError, Gate, Hold};
use crate::image_name::ImageName;
use crate::protocol::Refused;
use crate::report::EmulatedDiskStatus;
use crate::volume::{Identity, JournalView, LockView, Volume, VolumeError};

/// Whoever asks for an exchange waits for it: then what is left is done while requests wait.
const DRAW_DOWN_PATIENCE: Duration = Duration::from_secs(20);
/// How often a volume that nobody asked for in time is tried to be opened.
const REOPEN_INTERVAL: Duration = Duration::from_secs(10);
/// How long the last users of a closed volume, which look at it now and then, may take to go.
const LAST_USERS_PATIENCE: Duration = Duration::from_secs(2);
const LAST_USERS_INTERVAL: Duration = Duration::from_millis(1);

/// Opens what is to be served.
pub trait Opener: Send + Sync {
    /// The volume as the daemon was started for it, or on another image with all else the same.
    ///
    /// # Errors
    /// [`VolumeError`] says what failed and what to do.
    fn open(&self, image: Option<&ImageName>) -> Result<Arc<dyn Volume>, VolumeError>;
}

/// Told of each volume that is opened: to watch its size, and to guard its snapshots.
pub type Connect = Box<dyn Fn(&Arc<dyn Volume>) -> Result<(), VolumeError> + Send + Sync>;

/// Where one volume is open, behind its gate.
pub struct ImageSlot {
    gate: Arc<Gate>,
    opener: Box<dyn Opener>,
    connect: OnceLock<Connect>,
    place: Mutex<Place>,
    /// One exchange at a time: a cluster that hangs takes one thread, however often it is asked.
    exchanging: AtomicBool,
}

struct Place {
    /// None while it is exchanged, and at the end.
    volume: Option<Arc<dyn Volume>>,
    /// Of `volume`, or of the last one.
    identity: Identity,
    /// Which image that is, if it is not the one that the daemon was started for.
    image: Option<ImageName>,
    /// Counts volumes: whoever looked at one knows whether it is still there.
    generation: u64,
    /// Since when requests wait for an exchange.
    held_since: Option<Instant>,
    /// When it opens the last image by itself: whoever closed it may have died.
    reopen_at: Option<Instant>,
    /// What the last try to open an image came to.
    trouble: Option<String>,
    ended: bool,
}

impl ImageSlot {
    /// A slot with `volume` in it, whose device `gate` leads to.
    #[must_use]
    pub fn new(volume: Arc<dyn Volume>, gate: Arc<Gate>, opener: Box<dyn Opener>) -> Self {
        let place = Place {
            identity: volume.identity(),
            volume: Some(volume),
            image: None,
            generation: 0,
            held_since: None,
            reopen_at: None,
            trouble: None,
            ended: false,
        };
        let (connect, exchanging) = (OnceLock::new(), AtomicBool::new(false));
        Self { gate, opener, connect, place: Mutex::new(place), exchanging }
    }

    /// Have `connect` told of each volume that will be opened; one that it refuses is closed again.
    pub fn connect_with(&self, connect: Connect) {
        if self.connect.set(connect).is_err() {
            tracing::error!("an image slot was connected twice");
        }
    }

    /// The open volume; None while there is none.
    #[must_use]
    pub fn volume(&self) -> Option<Arc<dyn Volume>> {
        self.place().volume.clone()
    }

    /// What the open volume is, or what the last one was: then without a client.
    #[must_use]
    pub fn identity(&self) -> Identity {
        let place = self.place();
        match place.volume {
            Some(_) => place.identity.clone(),
            None => Identity { client_address: None, ..place.identity.clone() },
        }
    }

    /// Its write journal, while a volume with one is open.
    #[must_use]
    pub fn journal(&self) -> Option<JournalView> {
        self.volume().and_then(|volume| volume.journal())
    }

    /// What is wrong with it, as a sentence's part.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let (volume, trouble) = {
            let place = self.place();
            (place.volume.clone(), place.trouble.clone())
        };
        volume.map_or(trouble, |volume| volume.journal().and_then(|journal| journal.trouble()))
    }

    /// Whose the exclusive lock is; None when that was asked of a volume that is gone by now, and
    /// so means nothing.
    #[must_use]
    pub fn look_at_lock(&self) -> Option<LockView> {
        let (volume, generation) = {
            let place = self.place();
            (place.volume.clone()?, place.generation)
        };
        let view = volume.look_at_lock();
        let place = self.place();
        (place.generation == generation && place.volume.is_some()).then_some(view)
    }

    /// Bring what the journal holds into the image within about `timeout`, while requests go on;
    /// the bytes that are left, 0 where there is no journal.
    ///
    /// # Errors
    /// [`Refused`] when no image is open.
    pub fn draw_down(&self, timeout: Duration) -> Result<u64, Refused> {
        let Some(volume) = self.volume() else {
            return Err(Refused::new("busy", "No image is open. Ask `status`, and again later."));
        };
        volume.draw_down(timeout);
        Ok(volume.journal().map_or(0, |journal| journal.status.held_bytes))
    }

    /// Let the emulated disk take its time, or not.
    ///
    /// # Errors
    /// [`Refused`] when no image is open, and with `no-emulated-disk` where there is none.
    pub fn pace(&self, paced: bool) -> Result<Value, Refused> {
        let Some(volume) = self.volume() else {
            return Err(Refused::new("busy", "No image is open. Ask `status`, and again later."));
        };
        let Some(disk) = volume.emulated_disk() else {
            return Err(Refused::new(
                "no-emulated-disk",
                "The volume is no emulated disk. Serve a file with --emulate-disk.",
            ));
        };
        disk.set_paced(paced);
        tracing::info!(paced, "the emulated disk has another pace");
        Ok(json!({"paced": paced}))
    }

    /// What the emulated disk is and did; None without one.
    #[must_use]
    pub fn emulated_disk(&self) -> Option<EmulatedDiskStatus> {
        let disk = self.volume()?.emulated_disk()?;
        Some(EmulatedDiskStatus::of(&disk))
    }

    /// Hold requests, make durable what was written, close the image. Requests wait until
    /// [`Self::open_image`]; after `limit` the image is opened again without being asked for.
    ///
    /// # Errors
    /// [`Refused`]: with `timeout` or `flush-failed` the volume goes on as before, unless its
    /// status says `detached`.
    pub fn close_image(
        self: &Arc<Self>,
        timeout: Duration,
        limit: Duration,
    ) -> Result<Value, Refused> {
        let exchange = self.begin()?;
        let deadline = Instant::now() + timeout;
        let Some(volume) = self.volume() else {
            self.place().reopen_at = Some(Instant::now() + limit);
            return Ok(self.describe());
        };
        let mode = self.gate.mode();
        if mode.refusal().is_some()
            || mode.holds_for(Hold::Quiesce)
            || mode.holds_for(Hold::Snapshot)
            || mode.holds_for(Hold::OwnSnapshot)
        {
            return Err(Refused::new(
                "busy",
                "The volume is fenced, failed or quiesced. Ask `status`, and again later.",
            ));
        }
        // Requests go on meanwhile: what is left to do while they wait is little then.
        volume.draw_down(DRAW_DOWN_PATIENCE.min(timeout / 2));
        self.place().held_since = Some(Instant::now());
        self.gate.hold(Hold::Exchange);
        if let Err(error) = self.make_durable(deadline) {
            self.place().held_since = None;
            self.gate.release(Hold::Exchange);
            return Err(error);
        }
        let geometry = self.gate.geometry();
        {
            let mut place = self.place();
            place.volume = None;
            place.reopen_at = Some(Instant::now() + limit);
            place.trouble = Some("the image is being closed".to_owned());
        }
        let vacant: Arc<dyn BlockDevice> = Arc::new(Vacant { geometry });
        self.gate.replace(&vacant);
        exchange.on_thread(deadline, move |image_slot| {
            // Of a flush of our own that began before the exchange.
            let idle =
                image_slot.gate.wait_until_idle(deadline.saturating_duration_since(Instant::now()));
            let closed = volume.close();
            wait_for_last(&volume);
            drop(volume);
            let mut place = image_slot.place();
            place.trouble = closed.as_ref().err().map(ToString::to_string);
            drop(place);
            idle.map_err(|error| flush_refused(&error))?;
            closed.map_err(|error| Refused::new("close-failed", error.to_string()))?;
            tracing::info!("the image is closed, and requests wait");
            Ok(image_slot.describe())
        })
    }

    /// Open `image`, or the last one again, and let requests go on. It must have the size that the
    /// volume has.
    ///
    /// # Errors
    /// [`Refused`] with `open-failed` or `size-mismatch`: requests wait on, and it can be tried
    /// again; with `not-detached` while another image is open.
    pub fn open_image(
        self: &Arc<Self>,
        image: Option<ImageName>,
        timeout: Duration,
    ) -> Result<Value, Refused> {
        let exchange = self.begin()?;
        let deadline = Instant::now() + timeout;
        if let Some(open) = self.volume() {
            let name = open.identity().image;
            return match image {
                Some(image) if name != Some(image.to_string()) => Err(Refused::new(
                    "not-detached",
                    "Another image is open. `close-image` closes it.",
                )),
                _ => Ok(self.describe()),
            };
        }
        exchange.on_thread(deadline, move |image_slot| image_slot.open(image))
    }

    /// Open the last image again if nobody asked for one in time.
    pub fn reopen_if_due(self: &Arc<Self>, now: Instant) {
        let is_due = {
            let mut place = self.place();
            let is_due = place.volume.is_none() && place.reopen_at.is_some_and(|at| at <= now);
            if is_due {
                place.reopen_at = Some(now + REOPEN_INTERVAL);
            }
            is_due
        };
        if !is_due {
            return;
        }
        let Ok(exchange) = self.begin() else { return };
        if self.volume().is_some() {
            return; // somebody did between the two looks
        }
        tracing::warn!("nobody asked for an image in time: the last one is opened again");
        let opened = exchange.on_thread(now, |image_slot| {
            image_slot.open(None).inspect_err(|refused| tracing::warn!("{refused}"))
        });
        drop(opened); // its thread says what came of it
    }

    /// Close the volume for good. False: an exchange is under way, and closes what it opens.
    ///
    /// # Errors
    /// [`VolumeError`] as [`Volume::close`].
    pub fn end(&self) -> Result<bool, VolumeError> {
        let volume = {
            let mut place = self.place();
            place.ended = true;
            place.volume.take()
        };
        match volume {
            Some(volume) => volume.close().map(|()| true),
            None => Ok(!self.exchanging.load(Ordering::SeqCst)),
        }
    }

    /// Open an image into the empty slot.
    fn open(&self, image: Option<ImageName>) -> Result<Value, Refused> {
        let wanted = image.or_else(|| self.place().image.clone());
        let refused = |code, sentences: String| {
            self.place().trouble = Some(sentences.clone());
            Refused::new(code, sentences)
        };
        let opened = self.opener.open(wanted.as_ref());
        let volume = opened.map_err(|error| refused("open-failed", error.to_string()))?;
        let (found, expected) = (volume.device().geometry(), self.gate.geometry());
        if found != expected {
            close_again(&*volume);
            let (has, had) = (found.size_bytes(), expected.size_bytes());
            let sentences = format!("The image has {has} bytes, not {had}. Open the right one.");
            return Err(refused("size-mismatch", sentences));
        }
        if let Some(Err(error)) = self.connect.get().map(|connect| connect(&volume)) {
            close_again(&*volume);
            return Err(refused("open-failed", error.to_string()));
        }
        let device = volume.device();
        {
            let mut place = self.place();
            if place.ended {
                drop(place);
                close_again(&*volume);
                return Err(Refused::new("stopping", "The daemon is ending."));
            }
            // One image at a time (INV-48): whoever opens one has the right to exchange it, and
            // has found the slot empty since.
            debug_assert!(place.volume.is_none());
            place.identity = volume.identity();
            place.volume = Some(Arc::clone(&volume));
            place.image = wanted;
            place.generation += 1;
            place.reopen_at = None;
            place.trouble = None;
        }
        self.gate.replace(&device);
        let held_ms = self.place().held_since.take().map(|since| since.elapsed().as_millis());
        self.gate.release(Hold::Exchange);
        let held_ms = held_ms.and_then(|held_ms| u64::try_from(held_ms).ok());
        let Identity { image, client_address, .. } = volume.identity();
        tracing::info!(image, client_address, held_ms, "requests go on");
        let mut answer = self.describe();
        if let Some(fields) = answer.as_object_mut() {
            fields.insert("held_ms".to_owned(), json!(held_ms));
        }
        Ok(answer)
    }

    /// Wait until nothing is in flight and all that was written is durable.
    fn make_durable(&self, deadline: Instant) -> Result<(), Refused> {
        let left = || deadline.saturating_duration_since(Instant::now());
        let idle = self.gate.wait_until_idle(left());
        let durable = idle.and_then(|()| self.gate.flush(left()));
        // Once more: a flush that the control socket asked for may have begun meanwhile.
        let durable = durable.and_then(|()| self.gate.wait_until_idle(left()));
        durable.map_err(|error| flush_refused(&error))
    }

    fn describe(&self) -> Value {
        let Identity { image, client_address, .. } = self.identity();
        let size_bytes = self.gate.geometry().size_bytes();
        let is_open = self.place().volume.is_some();
        json!({
            "open": is_open, "image": image, "size_bytes": size_bytes,
            "client_address": client_address,
        })
    }

    fn begin(self: &Arc<Self>) -> Result<Exchange, Refused> {
        if self.exchanging.swap(true, Ordering::SeqCst) {
            return Err(Refused::new(
                "busy",
                "The image is being opened or closed already. Try again later.",
            ));
        }
        Ok(Exchange(Arc::clone(self)))
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ImageSlot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ImageSlot")
            .field("identity", &self.identity())
            .finish_non_exhaustive()
    }
}

/// The right to exchange the volume, until it is dropped.
struct Exchange(Arc<ImageSlot>);

impl Exchange {
    /// Do it on a thread of its own, and wait for it until the deadline; it goes on after it.
    fn on_thread(
        self,
        deadline: Instant,
        work: impl FnOnce(&ImageSlot) -> Result<Value, Refused> + Send + 'static,
    ) -> Result<Value, Refused> {
        let (sender, answer) = mpsc::channel();
        let spawned = std::thread::Builder::new().name("exchange".to_owned()).spawn(move || {
            let done = work(&self.0);
            drop(self);
            drop(sender.send(done));
        });
        if let Err(error) = spawned {
            return Err(Refused::new("no-thread", format!("No thread can be started: {error}.")));
        }
        match answer.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(done) => done,
            Err(RecvTimeoutError::Timeout) => Err(Refused::new(
                "timeout",
                "The cluster did not answer in time. It goes on: `status` says what comes of it.",
            )),
            Err(RecvTimeoutError::Disconnected) => {
                Err(Refused::new("exchange-failed", "The exchange broke off. Ask `status`."))
            }
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.0.exchanging.store(false, Ordering::SeqCst);
    }
}

/// Stands behind the gate while no volume does. What was written before is durable; a request that
/// gets here all the same was let through by a daemon that ends.
struct Vacant {
    geometry: Geometry,
}

impl BlockDevice for Vacant {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&self, request: Request, completion: Completion) {
        let result = match request {
            Request::Flush => Ok(()),
            _ => Err(DeviceError::Abandoned),
        };
        completion.complete(Outcome { result, buffer: request.into_buffer() });
    }
}

/// Wait, not for long, until nobody else has the volume: its log on the host is locked until then.
fn wait_for_last(volume: &Arc<dyn Volume>) {
    let deadline = Instant::now() + LAST_USERS_PATIENCE;
    while Arc::strong_count(volume) > 1 && Instant::now() < deadline {
        std::thread::sleep(LAST_USERS_INTERVAL);
    }
}

fn close_again(volume: &dyn Volume) {
    if let Err(error) = volume.close() {
        tracing::warn!(%error, "the volume did not close well");
    }
}

fn flush_refused(error: &FlushError) -> Refused {
    let code = match error {
        FlushError::Device(_) => "flush-failed",
        FlushError::TimedOut { .. } => "timeout",
    };
    Refused::new(code, format!("{error}. `status` says how the volume is."))
}
