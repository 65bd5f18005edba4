//! The gate in front of devices that hang, fail, drop and answer at once.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail loudly")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use grampus_blockdev::{
    BlockDevice, BlockSize, Buffer, ByteRange, Completion, CompletionSink, DeviceError, Durability,
    Geometry, Length, MemoryDevice, Offset, Outcome, Request, Token, execute,
};
use grampus_volumed::clock::Clock;
use grampus_volumed::gate::{FlushError, Gate, GateOptions, Hold, Refusal};
use grampus_volumed::kind::Kind;
use grampus_volumed::meter::Meter;
use grampus_volumed::state::{Facts, STALL_NS, State, decide_state};

const PATIENCE: Duration = Duration::from_secs(60);

fn geometry() -> Geometry {
    Geometry::new(1 << 20, BlockSize::B4096).unwrap()
}

/// Answers nothing until it is told how.
#[derive(Default)]
struct Hanging {
    waiting: Mutex<Vec<(Request, Completion)>>,
}

impl Hanging {
    fn count(&self) -> usize {
        self.waiting.lock().unwrap().len()
    }

    fn answer_all(&self, answer: impl Fn() -> Result<(), DeviceError>) {
        let waiting: Vec<_> = self.waiting.lock().unwrap().drain(..).collect();
        for (request, completion) in waiting {
            completion.complete(Outcome { result: answer(), buffer: request.into_buffer() });
        }
    }
}

impl BlockDevice for Hanging {
    fn geometry(&self) -> Geometry {
        geometry()
    }

    fn submit(&self, request: Request, completion: Completion) {
        self.waiting.lock().unwrap().push((request, completion));
    }
}

/// Keeps what arrives, in order.
#[derive(Clone)]
struct Inbox(mpsc::Sender<(Token, Outcome)>);

impl CompletionSink for Inbox {
    fn complete(&self, token: Token, outcome: Outcome) {
        self.0.send((token, outcome)).unwrap();
    }
}

struct Bench<D> {
    device: Arc<D>,
    gate: Gate,
    meter: Arc<Meter>,
    now_ns: Arc<AtomicU64>,
    inbox: Arc<Inbox>,
    arrived: mpsc::Receiver<(Token, Outcome)>,
}

fn bench<D: BlockDevice + 'static>(device: D, slots: usize) -> Bench<D> {
    let device = Arc::new(device);
    let meter = Arc::new(Meter::new(2));
    let now_ns = Arc::new(AtomicU64::new(1_000));
    let options = GateOptions {
        slots,
        cpus: 2,
        meter: Arc::clone(&meter),
        clock: Clock::by_hand(Arc::clone(&now_ns)),
    };
    let shared: Arc<dyn BlockDevice> = Arc::<D>::clone(&device);
    let gate = Gate::new(&shared, options);
    let (sender, arrived) = mpsc::channel();
    Bench { device, gate, meter, now_ns, inbox: Arc::new(Inbox(sender)), arrived }
}

impl<D> Bench<D> {
    fn submit(&self, token: u64, request: Request) {
        self.gate.submit(request, Completion::new(self.inbox.clone(), Token(token)));
    }

    /// The token, whether it was done, and how long its buffer is.
    fn answer(&self) -> Option<(u64, Result<(), DeviceError>, Option<usize>)> {
        let (token, outcome) = self.arrived.try_recv().ok()?;
        Some((token.0, outcome.result, outcome.buffer.map(|buffer| buffer.len())))
    }

    fn answers(&self) -> Vec<u64> {
        std::iter::from_fn(|| self.answer()).map(|(token, ..)| token).collect()
    }

    fn advance(&self, by_ns: u64) {
        self.now_ns.fetch_add(by_ns, Ordering::SeqCst);
    }
}

fn write(count: usize) -> Request {
    let buffer = Buffer::try_from(vec![7; count]).unwrap();
    Request::Write { offset: Offset::ZERO, buffer, durability: Durability::OnFlush }
}

fn read(count: usize) -> Request {
    Request::Read { offset: Offset::ZERO, buffer: Buffer::zeroed(count).unwrap() }
}

#[test]
fn an_open_gate_changes_nothing_but_the_counts() {
    let bench = bench(MemoryDevice::new(geometry()).unwrap(), 4);
    let range = ByteRange { offset: Offset::ZERO, length: Length::new(512).unwrap() };
    for request in [
        write(4096),
        read(100),
        Request::WriteZeroes { range, durability: Durability::Fua },
        Request::Discard { range },
        Request::Flush,
    ] {
        execute(&bench.gate, request).result.unwrap();
    }
    let outcome = execute(&bench.gate, read(1024));
    assert_eq!(outcome.buffer.unwrap()[..], [vec![0; 512], vec![7; 512]].concat());
    for (kind, operations, bytes) in [
        (Kind::Read, 2, 1124),
        (Kind::Write, 1, 4096),
        (Kind::WriteZeroes, 1, 512),
        (Kind::Discard, 1, 512),
        (Kind::Flush, 1, 0),
    ] {
        let totals = bench.meter.totals(kind);
        assert_eq!((totals.latency.count(), totals.bytes, totals.errors), (operations, bytes, 0));
    }
    assert_eq!(bench.gate.geometry(), geometry());
    assert_eq!(bench.gate.in_flight().active, 0);
}

#[test]
fn a_request_past_the_end_fails_and_counts_as_an_error_without_bytes() {
    let bench = bench(MemoryDevice::new(geometry()).unwrap(), 4);
    let offset = Offset::new(1 << 20).unwrap();
    let request = Request::Read { offset, buffer: Buffer::zeroed(512).unwrap() };
    let result = execute(&bench.gate, request).result;
    assert!(matches!(result, Err(DeviceError::OutOfRange { .. })), "{result:?}");
    let totals = bench.meter.totals(Kind::Read);
    assert_eq!((totals.latency.count(), totals.bytes, totals.errors), (1, 0, 1));
    assert_eq!(bench.gate.mode().refusal(), None, "one error ends nothing");
}

#[test]
fn a_device_that_hangs_shows_as_a_stall_and_its_requests_go_on_later() {
    let bench = bench(Hanging::default(), 8);
    bench.submit(1, write(4096));
    bench.advance(1_000_000);
    bench.submit(2, read(512));
    let state = || decide_state(bench.gate.mode(), &bench.gate.in_flight(), Facts::default()).0;
    assert_eq!(state(), State::Running);

    bench.advance(STALL_NS);
    let seen = bench.gate.in_flight();
    assert_eq!((seen.active, seen.of(Kind::Write), seen.of(Kind::Read)), (2, 1, 1));
    assert_eq!(seen.oldest_ns, Some(STALL_NS + 1_000_000));
    assert_eq!(state(), State::Stalled);
    assert!(bench.answer().is_none());

    bench.device.answer_all(|| Ok(()));
    assert_eq!(bench.answers(), [1, 2]);
    assert_eq!(state(), State::Running);
    assert_eq!(bench.meter.totals(Kind::Write).latency.max_ns(), Some(STALL_NS + 1_000_000));
    assert_eq!(bench.meter.totals(Kind::Read).latency.max_ns(), Some(STALL_NS));
}

#[test]
fn a_pause_holds_what_comes_and_lets_go_on_what_the_device_has() {
    let bench = bench(Hanging::default(), 8);
    bench.submit(1, write(512));
    bench.gate.hold(Hold::Pause);
    bench.submit(2, write(512));
    bench.submit(3, Request::Flush);
    let seen = bench.gate.in_flight();
    assert_eq!((bench.device.count(), seen.active, seen.held), (1, 1, 2));
    assert!(bench.gate.wait_until_idle(Duration::ZERO).is_err());
    bench.device.answer_all(|| Ok(()));
    bench.gate.wait_until_idle(Duration::ZERO).unwrap();
    assert_eq!(bench.answers(), [1]);

    bench.advance(7_000);
    bench.gate.release(Hold::Pause);
    assert_eq!(bench.device.count(), 2);
    assert_eq!(bench.gate.in_flight().oldest_ns, Some(0), "the device had it for no time yet");
    bench.device.answer_all(|| Ok(()));
    assert_eq!(bench.answers(), [2, 3]);
    assert_eq!(bench.meter.totals(Kind::Flush).latency.max_ns(), Some(7_000), "its user waited");
}

#[test]
fn reasons_to_hold_add_up() {
    let bench = bench(Hanging::default(), 8);
    for hold in Hold::ALL {
        bench.gate.hold(hold);
    }
    bench.submit(1, read(512));
    for hold in Hold::ALL {
        assert_eq!(bench.device.count(), 0, "{hold:?}");
        bench.gate.release(hold);
        bench.gate.release(hold); // a second time changes nothing
    }
    assert_eq!(bench.device.count(), 1);
    bench.device.answer_all(|| Ok(()));
}

#[test]
fn a_quiesced_volume_can_be_flushed() {
    let bench = bench(MemoryDevice::new(geometry()).unwrap(), 1);
    bench.gate.hold(Hold::Quiesce);
    bench.gate.wait_until_idle(Duration::ZERO).unwrap();
    bench.gate.flush(PATIENCE).unwrap();
    bench.submit(1, read(1));
    assert!(bench.answer().is_none());
    bench.gate.release(Hold::Quiesce);
    assert_eq!(bench.answers(), [1]);
}

#[test]
fn a_flush_that_hangs_times_out_and_no_second_one_is_sent_behind_it() {
    let bench = bench(Hanging::default(), 2);
    for _ in 0..3 {
        let error = bench.gate.flush(Duration::ZERO).unwrap_err();
        assert!(matches!(error, FlushError::TimedOut { .. }), "{error}");
        assert_eq!(bench.device.count(), 1);
    }
    bench.device.answer_all(|| Ok(()));
    std::thread::scope(|scope| {
        let flushing = scope.spawn(|| bench.gate.flush(PATIENCE));
        while bench.device.count() == 0 {
            std::thread::yield_now();
        }
        bench.device.answer_all(|| Err(DeviceError::Failed));
        let error = flushing.join().unwrap().unwrap_err();
        assert!(matches!(error, FlushError::Device(DeviceError::Failed)), "{error}");
    });
}

#[test]
fn a_fence_seen_in_one_answer_fails_everything_after_it() {
    let bench = bench(Hanging::default(), 8);
    bench.submit(1, write(512));
    bench.gate.hold(Hold::Pause);
    bench.submit(2, write(1024));
    bench.device.answer_all(|| Err(DeviceError::Fenced));
    assert_eq!(bench.gate.mode().refusal(), Some(Refusal::Fenced));
    assert!(matches!(bench.answer(), Some((1, Err(DeviceError::Fenced), Some(512)))));

    bench.submit(3, read(100));
    assert!(matches!(bench.answer(), Some((3, Err(DeviceError::Fenced), Some(100)))));
    // The held one waits for a thread that may answer it.
    assert!(bench.answer().is_none());
    bench.gate.recheck_held();
    assert!(matches!(bench.answer(), Some((2, Err(DeviceError::Fenced), Some(1024)))));
    assert!(matches!(bench.gate.flush(PATIENCE), Err(FlushError::Device(DeviceError::Fenced))));
    assert_eq!((bench.device.count(), bench.gate.in_flight().active), (0, 0));
    assert_eq!(bench.meter.totals(Kind::Write).errors, 2);
}

#[test]
fn a_device_that_lost_data_is_not_asked_again() {
    let lost: [fn() -> DeviceError; 2] =
        [|| DeviceError::Failed, || DeviceError::Truncated { file_bytes: 1, size_bytes: 2 }];
    for error in lost {
        let bench = bench(Hanging::default(), 8);
        bench.submit(1, write(512));
        bench.device.answer_all(|| Err(error()));
        bench.submit(2, write(512));
        assert_eq!(bench.device.count(), 0);
        assert_eq!(bench.gate.mode().refusal(), Some(Refusal::Failed));
        assert_eq!(bench.answers(), [1, 2]);
    }
}

#[test]
fn a_daemon_that_ends_refuses_its_users_and_still_flushes() {
    let bench = bench(MemoryDevice::new(geometry()).unwrap(), 4);
    bench.gate.hold(Hold::Pause);
    bench.submit(1, write(9));
    bench.gate.refuse(Refusal::Stopping);
    bench.submit(2, write(9));
    for token in [1, 2] {
        let answer = bench.answer();
        assert!(
            matches!(answer, Some((found, Err(DeviceError::Abandoned), Some(9))) if found == token),
            "{answer:?}"
        );
    }
    bench.gate.flush(PATIENCE).unwrap();
}

#[test]
fn a_request_that_the_device_drops_is_answered_and_frees_its_place() {
    let bench = bench(Hanging::default(), 1);
    for token in 0..3 {
        bench.submit(token, write(512));
        bench.device.waiting.lock().unwrap().clear();
        assert!(matches!(bench.answer(), Some((_, Err(DeviceError::Abandoned), None))));
    }
    assert_eq!(bench.gate.in_flight().active, 0);
}

#[test]
fn what_waits_in_the_gate_is_bounded() {
    let bench = bench(Hanging::default(), 2);
    bench.gate.hold(Hold::Pause);
    bench.submit(1, write(512));
    bench.submit(2, write(512));
    std::thread::scope(|scope| {
        let completion = Completion::new(bench.inbox.clone(), Token(3));
        let gate = &bench.gate;
        let third = scope.spawn(move || gate.submit(write(512), completion));
        // It cannot get in: whatever order the threads run in, no more than two are held.
        assert_eq!(bench.gate.in_flight().held, 2);
        bench.gate.release(Hold::Pause);
        while !third.is_finished() {
            bench.device.answer_all(|| Ok(()));
            std::thread::yield_now();
        }
        bench.device.answer_all(|| Ok(()));
    });
    let mut answers = bench.answers();
    answers.sort_unstable();
    assert_eq!(answers, [1, 2, 3]);
}

/// Holds and releases race with requests from several threads, on a device that answers at once
/// and counts what it sees while it should be idle.
#[test]
fn while_the_gate_is_held_and_idle_the_device_sees_nothing() {
    struct Witness {
        inner: MemoryDevice,
        calm: std::sync::atomic::AtomicBool,
        seen_while_calm: AtomicU64,
    }
    impl BlockDevice for Witness {
        fn geometry(&self) -> Geometry {
            geometry()
        }
        fn submit(&self, request: Request, completion: Completion) {
            if self.calm.load(Ordering::SeqCst) {
                self.seen_while_calm.fetch_add(1, Ordering::SeqCst);
            }
            self.inner.submit(request, completion);
        }
    }
    let witness = Witness {
        inner: MemoryDevice::new(geometry()).unwrap(),
        calm: false.into(),
        seen_while_calm: AtomicU64::new(0),
    };
    let bench = bench(witness, 16);
    let done = std::sync::atomic::AtomicBool::new(false);
    let submitted: u64 = std::thread::scope(|scope| {
        let users: Vec<_> = (0..3)
            .map(|_| {
                let (gate, done) = (&bench.gate, &done);
                scope.spawn(move || {
                    let mut count = 0;
                    while !done.load(Ordering::SeqCst) {
                        execute(gate, read(16)).result.unwrap();
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        for _ in 0..300 {
            bench.gate.hold(Hold::Quiesce);
            bench.gate.wait_until_idle(PATIENCE).unwrap();
            bench.device.calm.store(true, Ordering::SeqCst);
            std::thread::yield_now();
            bench.device.calm.store(false, Ordering::SeqCst);
            bench.gate.release(Hold::Quiesce);
        }
        done.store(true, Ordering::SeqCst);
        users.into_iter().map(|user| user.join().unwrap()).sum()
    });
    assert_eq!(bench.device.seen_while_calm.load(Ordering::SeqCst), 0);
    assert_eq!(bench.meter.totals(Kind::Read).latency.count(), submitted, "one lost or doubled");
}
