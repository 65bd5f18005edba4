//! Exchanges of the image behind a gate: under requests, with failures, a fence or a stop between.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail loudly"
)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak, mpsc};
use std::time::{Duration, Instant};

use grampus_blockdev::{
    BlockDevice, BlockSize, Buffer, Completion, CompletionSink, DeviceError, Durability, Geometry,
    MemoryDevice, Offset, Outcome, Request, Token, execute,
};
use grampus_volumed::clock::Clock;
use grampus_volumed::gate::{Gate, GateOptions, Hold, Refusal};
use grampus_volumed::image_name::{ImageName, parse_image};
use grampus_volumed::image_slot::{ImageSlot, Opener};
use grampus_volumed::meter::Meter;
use grampus_volumed::volume::{Identity, LockView, SnapshotGuard, Volume, VolumeError};

const PATIENCE: Duration = Duration::from_secs(30);
const BLOCK: u64 = 4096;
const BLOCKS: u64 = 256;

/// Waits until the test lets go on.
#[derive(Default)]
struct Barrier {
    open: Mutex<bool>,
    changed: Condvar,
    waiting: AtomicUsize,
}

impl Barrier {
    fn shut() -> Arc<Self> {
        Arc::default()
    }

    fn pass(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let open = self.open.lock().unwrap();
        drop(self.changed.wait_timeout_while(open, PATIENCE, |open| !*open).unwrap());
    }

    fn lift(&self) {
        *self.open.lock().unwrap() = true;
        self.changed.notify_all();
    }

    fn wait_for_one(&self) {
        wait_until(|| self.waiting.load(Ordering::SeqCst) > 0);
    }
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "it does not come to it");
        std::thread::yield_now();
    }
}

/// What a cluster knows of images, and what goes wrong in it.
#[derive(Default)]
struct World {
    images: Mutex<HashMap<String, Arc<MemoryDevice>>>,
    opened: Mutex<Vec<String>>,
    closed: Mutex<Vec<String>>,
    lost_flush: AtomicBool,
    opening: Mutex<Option<Arc<Barrier>>>,
    looking: Mutex<Option<Arc<Barrier>>>,
    clients: AtomicUsize,
}

impl World {
    fn add(&self, image: &str, blocks: u64) -> Arc<MemoryDevice> {
        let geometry = Geometry::new(blocks * BLOCK, BlockSize::B4096).unwrap();
        let device = Arc::new(MemoryDevice::new(geometry).unwrap());
        self.images.lock().unwrap().insert(image.to_owned(), Arc::clone(&device));
        device
    }

    /// As a migration does: the data is elsewhere, under another name.
    fn migrate(&self, from: &str, to: &str) {
        let source = self.images.lock().unwrap().remove(from).unwrap();
        self.images.lock().unwrap().insert(to.to_owned(), source);
    }

    fn open(self: &Arc<Self>, name: &str) -> Result<Arc<dyn Volume>, VolumeError> {
        let barrier = self.opening.lock().unwrap().clone();
        if let Some(barrier) = barrier {
            barrier.pass();
        }
        let found = self.images.lock().unwrap().get(name).cloned();
        let device = found.ok_or_else(|| VolumeError::new(format!("There is no {name}.")))?;
        self.opened.lock().unwrap().push(name.to_owned());
        let client = self.clients.fetch_add(1, Ordering::SeqCst);
        let device =
            Arc::new(Opened { world: Arc::clone(self), device, open: AtomicBool::new(true) });
        Ok(Arc::new(Image { world: Arc::clone(self), device, name: name.to_owned(), client }))
    }
}

/// An image of the world, open.
struct Opened {
    world: Arc<World>,
    device: Arc<MemoryDevice>,
    open: AtomicBool,
}

impl BlockDevice for Opened {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn submit(&self, request: Request, completion: Completion) {
        assert!(self.open.load(Ordering::SeqCst), "a closed image was given {request:?}");
        if matches!(request, Request::Flush) && self.world.lost_flush.load(Ordering::SeqCst) {
            let source = std::io::ErrorKind::StorageFull.into();
            let result = Err(DeviceError::Io { action: "flush", source });
            return completion.complete(Outcome { result, buffer: None });
        }
        self.device.submit(request, completion);
    }
}

struct Image {
    world: Arc<World>,
    device: Arc<Opened>,
    name: String,
    client: usize,
}

impl Volume for Image {
    fn device(&self) -> Arc<dyn BlockDevice> {
        Arc::<Opened>::clone(&self.device)
    }

    fn identity(&self) -> Identity {
        Identity {
            device: "rbd",
            image: Some(self.name.clone()),
            client_address: Some(format!("10.0.0.1:0/{}", self.client)),
            ..Identity::default()
        }
    }

    fn refresh_size(&self) -> Result<u64, VolumeError> {
        Ok(self.device.geometry().size_bytes())
    }

    fn look_at_lock(&self) -> LockView {
        let barrier = self.world.looking.lock().unwrap().clone();
        if let Some(barrier) = barrier {
            barrier.pass();
            // What somebody sees who looks at an image while another client prepares its move.
            return LockView::Anothers { owner: "10.0.0.9:0/9".to_owned() };
        }
        LockView::Ours
    }

    fn watch_size(&self, _changed: Box<dyn Fn(u64) + Send + Sync>) {}

    fn guard_snapshots(&self, _guard: Arc<dyn SnapshotGuard>) -> Result<(), VolumeError> {
        Ok(())
    }

    fn close(&self) -> Result<(), VolumeError> {
        self.device.open.store(false, Ordering::SeqCst);
        self.world.closed.lock().unwrap().push(self.name.clone());
        Ok(())
    }
}

struct Key(Arc<World>);

impl Opener for Key {
    fn open(&self, image: Option<&ImageName>) -> Result<Arc<dyn Volume>, VolumeError> {
        let name = image.map_or("a/disk".to_owned(), ToString::to_string);
        self.0.open(&name)
    }
}

struct Bench {
    world: Arc<World>,
    gate: Arc<Gate>,
    image_slot: Arc<ImageSlot>,
}

fn bench() -> Bench {
    let world = Arc::new(World::default());
    world.add("a/disk", BLOCKS);
    let volume = world.open("a/disk").unwrap();
    let options =
        GateOptions { slots: 512, cpus: 2, meter: Arc::new(Meter::new(2)), clock: Clock::start() };
    let gate = Arc::new(Gate::new(&volume.device(), options));
    let opener = Box::new(Key(Arc::clone(&world)));
    let image_slot = Arc::new(ImageSlot::new(volume, Arc::clone(&gate), opener));
    Bench { world, gate, image_slot }
}

impl Bench {
    fn close_image(&self) {
        let said = self.image_slot.close_image(PATIENCE, PATIENCE).unwrap();
        assert_eq!((&said["open"], &said["client_address"]), (&false.into(), &().into()));
    }

    fn take(&self, image: &str) -> Result<serde_json::Value, &'static str> {
        let taken = self.image_slot.open_image(parse_image(image).ok(), PATIENCE);
        taken.map_err(|refused| refused.code)
    }

    fn is_detached(&self) -> bool {
        self.gate.mode().holds_for(Hold::Exchange) && self.image_slot.volume().is_none()
    }

    /// Submit a write to block `block`; its answer comes to the receiver.
    fn write(&self, block: u64, value: u8) -> mpsc::Receiver<Result<(), DeviceError>> {
        struct Once(mpsc::Sender<Result<(), DeviceError>>);
        impl CompletionSink for Once {
            fn complete(&self, _token: Token, outcome: Outcome) {
                self.0.send(outcome.result).unwrap();
            }
        }
        let (sender, answer) = mpsc::channel();
        let request = write(block, value);
        self.gate.submit(request, Completion::new(Arc::new(Once(sender)), Token(block)));
        answer
    }
}

fn write(block: u64, value: u8) -> Request {
    let buffer = Buffer::try_from(vec![value; usize::try_from(BLOCK).unwrap()]).unwrap();
    let offset = Offset::new(block * BLOCK).unwrap();
    Request::Write { offset, buffer, durability: Durability::OnFlush }
}

fn value_of(device: &dyn BlockDevice, block: u64) -> u8 {
    let buffer = Buffer::zeroed(1).unwrap();
    let offset = Offset::new(block * BLOCK).unwrap();
    let outcome = execute(device, Request::Read { offset, buffer });
    outcome.result.unwrap();
    outcome.buffer.unwrap()[0]
}

#[test]
fn requests_under_way_across_exchanges_lose_nothing_and_are_answered_once() {
    let bench = bench();
    let done = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4_u64)
            .map(|writer| {
                let (bench, done) = (&bench, &done);
                scope.spawn(move || {
                    let own = BLOCKS / 4;
                    let mut last = vec![0_u8; usize::try_from(own).unwrap()];
                    for turn in 0_u64.. {
                        if done.load(Ordering::SeqCst) {
                            break;
                        }
                        let place = usize::try_from(turn % own).unwrap();
                        let value = u8::try_from(turn % 251).unwrap() + 1;
                        let answer = bench.write(writer * own + turn % own, value);
                        answer.recv_timeout(PATIENCE).unwrap().unwrap();
                        // Its sender is gone: nobody answers a second time.
                        assert_eq!(answer.recv().map_err(|_| ()).map(drop), Err(()));
                        last[place] = value;
                    }
                    last
                })
            })
            .collect();
        for turn in 0..100 {
            let (from, to) =
                if turn % 2 == 0 { ("a/disk", "b/n/disk") } else { ("b/n/disk", "a/disk") };
            bench.close_image();
            assert!(bench.is_detached());
            bench.world.migrate(from, to);
            let said = bench.take(to).unwrap();
            assert_eq!(said["image"], to);
            assert!(said["held_ms"].is_u64());
        }
        done.store(true, Ordering::SeqCst);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(written.iter().any(|value| *value > 0), "nothing was written meanwhile");
    let device = Arc::clone(&bench.world.images.lock().unwrap()["a/disk"]);
    for (block, value) in (0..).zip(written) {
        assert_eq!(value_of(&*device, block), value, "block {block}");
    }
    assert_eq!(bench.image_slot.identity().client_address.as_deref(), Some("10.0.0.1:0/100"));
}

#[test]
fn a_request_waits_while_no_image_is_open() {
    let bench = bench();
    bench.close_image();
    let answer = bench.write(3, 7);
    assert!(answer.try_recv().is_err());
    assert_eq!(bench.gate.in_flight().held, 1);
    // What was written before is durable.
    bench.gate.flush(PATIENCE).unwrap();
    bench.take("a/disk").unwrap();
    answer.recv_timeout(PATIENCE).unwrap().unwrap();
    assert_eq!(value_of(&*bench.gate, 3), 7);
}

#[test]
fn an_image_that_cannot_be_opened_leaves_requests_waiting_and_can_be_asked_for_again() {
    let bench = bench();
    bench.world.add("b/small", BLOCKS / 2);
    bench.close_image();
    let answer = bench.write(1, 9);
    assert_eq!(bench.take("b/disk"), Err("open-failed"));
    assert!(bench.is_detached());
    assert_eq!(bench.image_slot.trouble().as_deref(), Some("There is no b/disk."));
    assert_eq!(bench.take("b/small"), Err("size-mismatch"));
    assert!(bench.is_detached());
    assert_eq!(*bench.world.closed.lock().unwrap(), ["a/disk", "b/small"]);
    assert!(answer.try_recv().is_err());
    bench.world.migrate("a/disk", "b/disk");
    bench.take("b/disk").unwrap();
    answer.recv_timeout(PATIENCE).unwrap().unwrap();
    assert_eq!(bench.image_slot.trouble(), None);
}

#[test]
fn closing_and_opening_twice_change_nothing() {
    let bench = bench();
    assert_eq!(bench.take("a/disk").unwrap()["open"], true);
    assert_eq!(bench.take("b/disk"), Err("not-detached"));
    bench.close_image();
    bench.close_image();
    bench.take("a/disk").unwrap();
    bench.take("a/disk").unwrap();
    assert_eq!(*bench.world.opened.lock().unwrap(), ["a/disk", "a/disk"]);
    assert_eq!(*bench.world.closed.lock().unwrap(), ["a/disk"]);
}

#[test]
fn only_an_open_image_is_drawn_down() {
    let bench = bench();
    assert_eq!(bench.image_slot.draw_down(PATIENCE), Ok(0), "it has no journal");
    bench.close_image();
    assert_eq!(bench.image_slot.draw_down(PATIENCE).unwrap_err().code, "busy");
    bench.take("a/disk").unwrap();
    assert_eq!(bench.image_slot.draw_down(PATIENCE), Ok(0));
}

#[test]
fn a_flush_that_fails_leaves_the_image_open_and_requests_go_on() {
    let bench = bench();
    bench.world.lost_flush.store(true, Ordering::SeqCst);
    let refused = bench.image_slot.close_image(PATIENCE, PATIENCE).unwrap_err();
    assert_eq!(refused.code, "flush-failed");
    assert!(bench.image_slot.volume().is_some());
    bench.write(1, 1).recv_timeout(PATIENCE).unwrap().unwrap();
}

#[test]
fn a_fenced_or_quiesced_volume_is_not_closed() {
    for (hold, refusal) in
        [(Some(Hold::Quiesce), None), (Some(Hold::Snapshot), None), (None, Some(Refusal::Fenced))]
    {
        let bench = bench();
        if let Some(hold) = hold {
            bench.gate.hold(hold);
        }
        if let Some(refusal) = refusal {
            bench.gate.refuse(refusal);
        }
        assert_eq!(bench.image_slot.close_image(PATIENCE, PATIENCE).unwrap_err().code, "busy");
        assert!(bench.image_slot.volume().is_some());
    }
}

#[test]
fn whose_the_lock_of_a_closed_image_is_says_nothing_of_the_next() {
    let bench = bench();
    assert_eq!(bench.image_slot.look_at_lock(), Some(LockView::Ours));
    let barrier = Barrier::shut();
    *bench.world.looking.lock().unwrap() = Some(Arc::clone(&barrier));
    std::thread::scope(|scope| {
        let look = scope.spawn(|| bench.image_slot.look_at_lock());
        barrier.wait_for_one();
        *bench.world.looking.lock().unwrap() = None;
        bench.close_image();
        assert_eq!(bench.image_slot.look_at_lock(), None);
        bench.take("a/disk").unwrap();
        barrier.lift();
        assert_eq!(look.join().unwrap(), None);
    });
    assert_eq!(bench.image_slot.look_at_lock(), Some(LockView::Ours));
}

#[test]
fn a_fence_between_closing_and_opening_keeps_the_image_closed() {
    let bench = bench();
    bench.close_image();
    // Its key is gone, and another owner has the image: nothing can be opened any more.
    bench.world.images.lock().unwrap().clear();
    let answer = bench.write(1, 1);
    assert_eq!(bench.take("a/disk"), Err("open-failed"));
    bench.gate.refuse(Refusal::Fenced);
    let failed = answer.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(failed, Err(DeviceError::Fenced)), "{failed:?}");
    assert!(bench.image_slot.end().unwrap());
}

#[test]
fn a_stop_while_an_image_is_being_opened_closes_it_again() {
    let bench = bench();
    bench.close_image();
    let barrier = Barrier::shut();
    *bench.world.opening.lock().unwrap() = Some(Arc::clone(&barrier));
    std::thread::scope(|scope| {
        let taking = scope.spawn(|| bench.take("a/disk"));
        barrier.wait_for_one();
        assert_eq!(bench.take("a/disk"), Err("busy"));
        assert!(!bench.image_slot.end().unwrap(), "it is being opened");
        barrier.lift();
        assert_eq!(taking.join().unwrap(), Err("stopping"));
    });
    assert_eq!(*bench.world.closed.lock().unwrap(), ["a/disk", "a/disk"]);
    assert!(bench.is_detached());
    assert!(bench.image_slot.end().unwrap());
}

#[test]
fn an_opening_that_takes_too_long_goes_on_by_itself() {
    let bench = bench();
    bench.close_image();
    let barrier = Barrier::shut();
    *bench.world.opening.lock().unwrap() = Some(Arc::clone(&barrier));
    let refused = bench.image_slot.open_image(None, Duration::ZERO).unwrap_err();
    assert_eq!(refused.code, "timeout");
    barrier.lift();
    wait_until(|| bench.image_slot.volume().is_some());
    bench.write(1, 1).recv_timeout(PATIENCE).unwrap().unwrap();
}

#[test]
fn an_image_that_nobody_asks_for_in_time_is_opened_again() {
    let bench = bench();
    let now = Instant::now();
    bench.image_slot.close_image(PATIENCE, PATIENCE).unwrap();
    bench.image_slot.reopen_if_due(now);
    assert!(bench.is_detached(), "it was not due");
    // Moved by somebody who did not live to say so: it is tried again, and again.
    bench.world.migrate("a/disk", "b/disk");
    bench.image_slot.reopen_if_due(now + 2 * PATIENCE);
    wait_until(|| bench.image_slot.trouble().as_deref() == Some("There is no a/disk."));
    bench.world.migrate("b/disk", "a/disk");
    bench.image_slot.reopen_if_due(now + 2 * PATIENCE + Duration::from_secs(1));
    assert!(bench.is_detached(), "it was tried a moment ago");
    wait_until(|| {
        bench.image_slot.reopen_if_due(now + 3 * PATIENCE);
        bench.image_slot.volume().is_some()
    });
    bench.write(1, 1).recv_timeout(PATIENCE).unwrap().unwrap();
    bench.image_slot.reopen_if_due(now + 10 * PATIENCE);
    assert_eq!(bench.world.opened.lock().unwrap().len(), 2);
}

#[test]
fn each_volume_is_connected_and_no_closed_one_is_kept() {
    let bench = bench();
    let seen: Arc<Mutex<Vec<Weak<dyn Volume>>>> = Arc::default();
    let list = Arc::clone(&seen);
    bench.image_slot.connect_with(Box::new(move |volume| {
        list.lock().unwrap().push(Arc::downgrade(volume));
        Ok(())
    }));
    for _ in 0..2 {
        bench.close_image();
        bench.take("a/disk").unwrap();
    }
    let seen = seen.lock().unwrap();
    let alive: Vec<_> = seen.iter().map(|volume| volume.upgrade().is_some()).collect();
    assert_eq!(alive, [false, true]);
}

/// Such as one that cannot tell of snapshots (INV-4): requests wait on rather than go to it.
#[test]
fn a_volume_that_cannot_be_connected_is_closed_again() {
    let bench = bench();
    bench.image_slot.connect_with(Box::new(|_| Err(VolumeError::new("It tells of no snapshot."))));
    bench.close_image();
    let refused = bench.take("a/disk").unwrap_err();
    assert_eq!(refused, "open-failed");
    assert!(bench.image_slot.volume().is_none());
}
