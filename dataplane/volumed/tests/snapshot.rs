//! Snapshots that the control socket asks for: with a cluster that hangs, refuses, or is late.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail loudly")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use grampus_blockdev::{BlockDevice, BlockSize, Geometry, MemoryDevice};
use grampus_volumed::clock::Clock;
use grampus_volumed::gate::{Gate, GateOptions, Hold, Refusal};
use grampus_volumed::image_name::ImageName;
use grampus_volumed::image_slot::{ImageSlot, Opener};
use grampus_volumed::meter::Meter;
use grampus_volumed::snapshot::Snapshots;
use grampus_volumed::volume::{Identity, LockView, SnapshotGuard, Taken, Volume, VolumeError};

const PATIENCE: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(50);

/// An image in memory. What hangs does so until the test lets it go on.
struct Image {
    device: Arc<MemoryDevice>,
    view: Mutex<LockView>,
    names: Mutex<Vec<String>>,
    hangs_at_lock: AtomicBool,
    hangs_at_snapshot: AtomicBool,
    /// It stays as it is while the snapshot is taken, whatever comes in.
    stays: AtomicBool,
    is_hanging: AtomicBool,
    may_go_on: Mutex<bool>,
    changed: Condvar,
    /// Called while the snapshot is taken.
    meanwhile: Mutex<Option<Box<dyn Fn() + Send>>>,
}

impl Image {
    fn hang(&self) {
        self.is_hanging.store(true, Ordering::SeqCst);
        let waiting = self.may_go_on.lock().unwrap();
        drop(self.changed.wait_timeout_while(waiting, PATIENCE, |go_on| !*go_on).unwrap());
    }

    fn go_on(&self) {
        *self.may_go_on.lock().unwrap() = true;
        self.changed.notify_all();
    }

    fn names(&self) -> Vec<String> {
        self.names.lock().unwrap().clone()
    }
}

struct Open(Arc<Image>);

impl Volume for Open {
    fn device(&self) -> Arc<dyn BlockDevice> {
        Arc::<MemoryDevice>::clone(&self.0.device)
    }

    fn identity(&self) -> Identity {
        Identity::default()
    }

    fn refresh_size(&self) -> Result<u64, VolumeError> {
        Ok(self.0.device.geometry().size_bytes())
    }

    fn look_at_lock(&self) -> LockView {
        if self.0.hangs_at_lock.load(Ordering::SeqCst) {
            self.0.hang();
        }
        self.0.view.lock().unwrap().clone()
    }

    fn watch_size(&self, _changed: Box<dyn Fn(u64) + Send + Sync>) {}

    fn guard_snapshots(&self, _guard: Arc<dyn SnapshotGuard>) -> Result<(), VolumeError> {
        Ok(())
    }

    fn take_snapshot(
        &self,
        name: &str,
        guard: Arc<dyn SnapshotGuard>,
    ) -> Result<Taken, VolumeError> {
        if self.0.names().iter().any(|taken| taken == name) {
            return Ok(Taken::WasThere);
        }
        guard.before_snapshot()?;
        if self.0.stays.load(Ordering::SeqCst) && guard.can_let_go() {
            guard.let_go();
        }
        if self.0.hangs_at_snapshot.load(Ordering::SeqCst) {
            self.0.hang();
        }
        if let Some(meanwhile) = &*self.0.meanwhile.lock().unwrap() {
            meanwhile();
        }
        self.0.names.lock().unwrap().push(name.to_owned());
        guard.after_snapshot();
        Ok(Taken::Created)
    }

    fn remove_snapshot(&self, name: &str) -> Result<(), VolumeError> {
        self.0.names.lock().unwrap().retain(|taken| taken != name);
        Ok(())
    }

    fn close(&self) -> Result<(), VolumeError> {
        Ok(())
    }
}

struct Nobody;

impl Opener for Nobody {
    fn open(&self, _image: Option<&ImageName>) -> Result<Arc<dyn Volume>, VolumeError> {
        Err(VolumeError::new("There is no other image."))
    }
}

struct Bench {
    image: Arc<Image>,
    gate: Arc<Gate>,
    snapshots: Arc<Snapshots>,
}

fn bench() -> Bench {
    let geometry = Geometry::new(1 << 20, BlockSize::B4096).unwrap();
    let image = Arc::new(Image {
        device: Arc::new(MemoryDevice::new(geometry).unwrap()),
        view: Mutex::new(LockView::Ours),
        names: Mutex::default(),
        hangs_at_lock: AtomicBool::new(false),
        hangs_at_snapshot: AtomicBool::new(false),
        stays: AtomicBool::new(false),
        is_hanging: AtomicBool::new(false),
        may_go_on: Mutex::default(),
        changed: Condvar::new(),
        meanwhile: Mutex::default(),
    });
    let volume: Arc<dyn Volume> = Arc::new(Open(Arc::clone(&image)));
    let options =
        GateOptions { slots: 8, cpus: 1, meter: Arc::new(Meter::new(1)), clock: Clock::start() };
    let gate = Arc::new(Gate::new(&volume.device(), options));
    let image_slot = Arc::new(ImageSlot::new(volume, Arc::clone(&gate), Box::new(Nobody)));
    let snapshots = Snapshots::new(image_slot, Arc::clone(&gate));
    Bench { image, gate, snapshots }
}

impl Bench {
    fn take(&self, name: &str, timeout: Duration) -> Result<bool, &'static str> {
        let taken = self.snapshots.take(name.to_owned(), timeout);
        taken.map(|said| said["created"] == true).map_err(|refused| refused.code)
    }

    fn is_held(&self) -> bool {
        self.gate.mode().holds_for(Hold::OwnSnapshot)
    }
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "it does not come to it");
        std::thread::yield_now();
    }
}

#[test]
fn requests_wait_while_it_is_taken_and_one_of_that_name_is_left_alone() {
    let bench = bench();
    let (gate, held) = (Arc::clone(&bench.gate), Arc::new(AtomicBool::new(false)));
    let seen = Arc::clone(&held);
    *bench.image.meanwhile.lock().unwrap() = Some(Box::new(move || {
        seen.store(gate.mode().holds_for(Hold::OwnSnapshot), Ordering::SeqCst);
    }));
    assert_eq!(bench.take("one", PATIENCE), Ok(true));
    assert!(held.load(Ordering::SeqCst) && !bench.is_held());
    assert_eq!(bench.take("one", PATIENCE), Ok(false));
    assert_eq!(bench.image.names(), ["one"]);
}

#[test]
fn requests_go_on_while_an_image_that_stays_as_it_is_gets_its_snapshot() {
    let bench = bench();
    bench.image.stays.store(true, Ordering::SeqCst);
    let (gate, held) = (Arc::clone(&bench.gate), Arc::new(AtomicBool::new(true)));
    let seen = Arc::clone(&held);
    *bench.image.meanwhile.lock().unwrap() = Some(Box::new(move || {
        seen.store(gate.mode().holds_for(Hold::OwnSnapshot), Ordering::SeqCst);
    }));
    assert_eq!(bench.take("one", PATIENCE), Ok(true));
    assert!(!held.load(Ordering::SeqCst) && !bench.is_held());
    assert_eq!(bench.image.names(), ["one"]);
}

#[test]
fn one_whose_volume_was_lost_meanwhile_is_removed_again() {
    for refusal in [Refusal::Fenced, Refusal::Failed] {
        let bench = bench();
        bench.image.stays.store(true, Ordering::SeqCst);
        let gate = Arc::clone(&bench.gate);
        *bench.image.meanwhile.lock().unwrap() = Some(Box::new(move || gate.refuse(refusal)));
        assert_eq!(bench.take("one", PATIENCE), Err("snapshot-lost"));
        assert!(bench.image.names().is_empty());
    }
}

#[test]
fn nothing_is_begun_unless_the_cluster_says_that_the_lock_is_ours() {
    for (view, code) in [
        (LockView::Fenced, "fenced"),
        (LockView::Nobodys, "lock-lost"),
        (LockView::Anothers { owner: "10.0.0.1:0/1".to_owned() }, "lock-lost"),
        (LockView::Unknown { reason: "timed out".to_owned() }, "cluster-silent"),
    ] {
        let bench = bench();
        *bench.image.view.lock().unwrap() = view;
        assert_eq!(bench.take("one", PATIENCE), Err(code));
        assert_eq!(bench.snapshots.check(PATIENCE).map_err(|refused| refused.code), Err(code));
        assert!(bench.image.names().is_empty() && !bench.is_held());
    }
}

#[test]
fn a_cluster_that_hangs_is_reported_and_holds_no_request() {
    let bench = bench();
    bench.image.hangs_at_lock.store(true, Ordering::SeqCst);
    assert_eq!(bench.take("one", SHORT), Err("cluster-silent"));
    // The first question is not answered yet.
    assert_eq!(bench.take("one", SHORT), Err("cluster-silent"));
    assert!(!bench.is_held());
    bench.image.hangs_at_lock.store(false, Ordering::SeqCst);
    bench.image.go_on();
    assert_eq!(bench.take("one", PATIENCE), Ok(true));
}

#[test]
fn one_that_is_late_is_removed_again() {
    let bench = bench();
    bench.image.hangs_at_snapshot.store(true, Ordering::SeqCst);
    assert_eq!(bench.take("late", SHORT), Err("timeout"));
    wait_until(|| bench.image.is_hanging.load(Ordering::SeqCst));
    assert!(bench.is_held(), "requests wait until it has come to an end");
    bench.image.go_on();
    wait_until(|| !bench.is_held() && bench.image.names().is_empty());
    bench.image.hangs_at_snapshot.store(false, Ordering::SeqCst);
    assert_eq!(bench.take("next", PATIENCE), Ok(true));
    assert_eq!(bench.image.names(), ["next"]);
}

#[test]
fn one_during_which_requests_went_on_is_removed_again() {
    let losses: [fn(&Gate); 3] = [
        |gate| gate.release(Hold::OwnSnapshot),
        |gate| gate.refuse(Refusal::Fenced),
        |gate| gate.refuse(Refusal::Failed),
    ];
    for lose in losses {
        let bench = bench();
        let gate = Arc::clone(&bench.gate);
        *bench.image.meanwhile.lock().unwrap() = Some(Box::new(move || lose(&gate)));
        assert_eq!(bench.take("one", PATIENCE), Err("snapshot-lost"));
        assert!(bench.image.names().is_empty());
    }
}

#[test]
fn the_end_of_another_clients_snapshot_does_not_end_ours() {
    let bench = bench();
    let gate = Arc::clone(&bench.gate);
    bench.gate.hold(Hold::Snapshot);
    *bench.image.meanwhile.lock().unwrap() = Some(Box::new(move || gate.release(Hold::Snapshot)));
    assert_eq!(bench.take("one", PATIENCE), Ok(true));
}
