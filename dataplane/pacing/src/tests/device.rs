//! Over a device that can be held up: answers are right, and come in the disk's time.

use std::ops::Range;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use grampus_blockdev::trial::HeldDevice;
use grampus_blockdev::{
    BlockDevice, BlockSize, Buffer, ByteRange, Completion, CompletionSink, DeviceError, Durability,
    Geometry, Length, Offset, Outcome, Request, Token, execute, submit,
};
use proptest::prelude::*;

use crate::PacedDevice;
use crate::device::MAX_WAITING;

const SIZE_BYTES: u64 = 4 << 20;
const BLOCK: u64 = 4096;
const PATIENCE: Duration = Duration::from_secs(20);
/// A second for each place: whatever waits for it is seen to wait.
const SLOW: &str = "1000000,0,1000000000";

fn made() -> Arc<HeldDevice> {
    HeldDevice::new(Geometry::new(SIZE_BYTES, BlockSize::B512).unwrap()).unwrap()
}

fn paced(below: &Arc<HeldDevice>, model: &str) -> PacedDevice {
    PacedDevice::new(Arc::<HeldDevice>::clone(below), model.parse().unwrap()).unwrap()
}

fn write(offset: u64, bytes: Vec<u8>) -> Request {
    let offset = Offset::new(offset).unwrap();
    let buffer = Buffer::try_from(bytes).unwrap();
    Request::Write { offset, buffer, durability: Durability::OnFlush }
}

fn block(number: u64) -> Request {
    write(number * BLOCK, vec![7; 4096])
}

/// Blocks of which none goes on where another one ends.
fn scattered(count: u64) -> impl Iterator<Item = Request> {
    (0..count).map(move |number| block((count - number) * 2))
}

fn read(device: &dyn BlockDevice, range: Range<u64>) -> Vec<u8> {
    let buffer = Buffer::zeroed(usize::try_from(range.end - range.start).unwrap()).unwrap();
    let offset = Offset::new(range.start).unwrap();
    let outcome = execute(device, Request::Read { offset, buffer });
    outcome.result.unwrap();
    outcome.buffer.unwrap().to_vec()
}

fn all_done(answers: Vec<Receiver<Outcome>>) {
    for answer in answers {
        answer.recv_timeout(PATIENCE).unwrap().result.unwrap();
    }
}

#[test]
fn requests_at_other_places_take_the_arms_way_each() {
    let device = paced(&made(), "2000,100,1000000000");
    let start = Instant::now();
    for request in scattered(20) {
        execute(&device, request).result.unwrap();
    }
    assert!(start.elapsed() >= Duration::from_millis(40), "{:?}", start.elapsed());
    let counts = device.counts();
    assert_eq!(counts.served, 20);
    assert_eq!(counts.busy, Duration::from_nanos(2_104_096) * 20);
}

#[test]
fn requests_that_go_on_take_it_once() {
    let device = paced(&made(), "200000,100,1000000000");
    let start = Instant::now();
    for number in 0..20 {
        execute(&device, block(number)).result.unwrap();
    }
    assert!(start.elapsed() >= Duration::from_millis(200), "{:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    let busy = Duration::from_millis(200) + Duration::from_nanos(104_096) * 20;
    assert_eq!(device.counts().busy, busy);
}

#[test]
fn requests_that_wait_together_are_served_one_by_one() {
    let device = paced(&made(), "0,5000,1000000000");
    let start = Instant::now();
    all_done(scattered(20).map(|request| submit(&device, request)).collect());
    assert!(start.elapsed() >= Duration::from_millis(95), "{:?}", start.elapsed());
    assert_eq!(device.counts().served, 20);
}

#[test]
fn without_the_disks_time_all_that_waits_is_answered_and_what_comes_goes_straight_through() {
    let below = made();
    let device = paced(&below, SLOW);
    let start = Instant::now();
    let answers: Vec<_> = scattered(30).map(|request| submit(&device, request)).collect();
    device.set_paced(false);
    assert!(!device.is_paced());
    all_done(answers);
    for request in scattered(30) {
        execute(&device, request).result.unwrap();
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert!(device.counts().served <= 2);

    // The arm is anywhere again, and the disk is free.
    device.set_paced(true);
    device.set_paced(true);
    let busy = device.counts().busy;
    let start = Instant::now();
    execute(&device, block(9)).result.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(999), "{:?}", start.elapsed());
    assert!(device.counts().busy >= busy + Duration::from_secs(1));
}

#[test]
fn what_is_slow_below_is_slow_above_and_counted() {
    let below = made();
    let device = paced(&below, "0,0,1000000000");
    below.hold();
    let answer = submit(&device, block(1));
    thread::sleep(Duration::from_millis(30));
    below.release();
    answer.recv_timeout(PATIENCE).unwrap().result.unwrap();
    let late = device.counts().late;
    assert!(late >= Duration::from_millis(10), "{late:?}");
}

#[test]
fn who_brings_more_than_can_wait_waits() {
    let below = made();
    let device = paced(&below, SLOW);
    below.hold();
    let first = submit(&device, block(0)); // the device below has it
    let limit = u64::try_from(MAX_WAITING).unwrap();
    while device.waiting() > 0 {
        thread::yield_now();
    }
    let mut answers: Vec<_> = scattered(limit).map(|request| submit(&device, request)).collect();
    thread::scope(|scope| {
        let more = scope.spawn(|| submit(&device, block(900)));
        thread::sleep(Duration::from_millis(50));
        assert!(!more.is_finished());
        below.release();
        device.set_paced(false);
        answers.push(more.join().unwrap());
    });
    answers.push(first);
    all_done(answers);
}

#[test]
fn what_a_disk_would_not_be_asked_is_answered_at_once() {
    let device = paced(&made(), SLOW);
    let answers: Vec<_> = scattered(9).map(|request| submit(&device, request)).collect();
    let start = Instant::now();
    let beyond = execute(&device, write(SIZE_BYTES - 512, vec![7; 1024]));
    assert!(matches!(beyond.result, Err(DeviceError::OutOfRange { .. })));
    assert_eq!(beyond.buffer.map(|buffer| buffer.len()), Some(1024));
    assert!(execute(&device, write(SIZE_BYTES, Vec::new())).result.is_ok());
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    drop(device);
    all_done(answers);
}

#[test]
fn an_error_of_the_device_below_is_passed_on() {
    let below = made();
    let device = paced(&below, "0,0,1000000000");
    below.fence();
    let outcome = execute(&device, block(1));
    assert!(matches!(outcome.result, Err(DeviceError::Fenced)));
    assert!(outcome.buffer.is_some());
}

#[test]
fn a_device_that_is_dropped_answers_all_that_waits_first() {
    let below = made();
    let device = paced(&below, SLOW);
    let start = Instant::now();
    let answers: Vec<_> = scattered(30).map(|request| submit(&device, request)).collect();
    drop(device);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    for answer in answers {
        answer.try_recv().unwrap().result.unwrap();
    }
    assert_eq!(read(below.memory(), 2 * BLOCK..3 * BLOCK), vec![7; 4096]);
}

/// Holds the device until it has an answer, as a gate in front of it does.
struct LastUser(Mutex<Option<Arc<PacedDevice>>>, Sender<()>);

impl CompletionSink for LastUser {
    fn complete(&self, _token: Token, _outcome: Outcome) {
        let device = self.0.lock().unwrap().take();
        drop(device);
        self.1.send(()).unwrap();
    }
}

#[test]
fn the_last_user_may_let_go_of_the_device_with_an_answer() {
    let below = made();
    let device = Arc::new(paced(&below, "50000,0,1000000000"));
    let (sender, answered) = mpsc::channel();
    let user = Arc::new(LastUser(Mutex::new(Some(Arc::clone(&device))), sender));
    device.submit(block(1), Completion::new(user, Token(0)));
    drop(device);
    answered.recv_timeout(PATIENCE).unwrap();
}

#[derive(Debug, Clone)]
enum Act {
    Read(Range<u64>),
    Write(Range<u64>, u8),
    Zero(Range<u64>),
    Discard(Range<u64>),
    Flush,
    Pace(bool),
}

fn ranges() -> impl Strategy<Value = Range<u64>> {
    (0..1_u64 << 20, 1..8192_u64).prop_map(|(start, length)| start..start + length)
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => ranges().prop_map(Act::Read),
        3 => (ranges(), any::<u8>()).prop_map(|(range, byte)| Act::Write(range, byte)),
        1 => ranges().prop_map(Act::Zero),
        1 => ranges().prop_map(Act::Discard),
        1 => Just(Act::Flush),
        1 => any::<bool>().prop_map(Act::Pace),
    ]
}

fn range_of(range: &Range<u64>) -> ByteRange {
    ByteRange {
        offset: Offset::new(range.start).unwrap(),
        length: Length::new(range.end - range.start).unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn whatever_is_asked_is_answered_as_by_the_device_below(
        acts in proptest::collection::vec(acts(), 1..60)
    ) {
        let (below, alone) = (made(), made());
        let device = paced(&below, "10,1,1000000000");
        let both: [&dyn BlockDevice; 2] = [&device, alone.memory()];
        for act in acts {
            let ask = |device: &dyn BlockDevice, request| execute(device, request).result.unwrap();
            let durability = Durability::OnFlush;
            match act {
                Act::Read(range) => {
                    prop_assert_eq!(read(&device, range.clone()), read(alone.memory(), range));
                }
                Act::Write(range, byte) => {
                    let length = usize::try_from(range.end - range.start).unwrap();
                    for asked in both {
                        ask(asked, write(range.start, vec![byte; length]));
                    }
                }
                Act::Zero(range) => {
                    for asked in both {
                        ask(asked, Request::WriteZeroes { range: range_of(&range), durability });
                    }
                }
                Act::Discard(range) => {
                    for asked in both {
                        ask(asked, Request::Discard { range: range_of(&range) });
                    }
                }
                Act::Flush => ask(&device, Request::Flush),
                Act::Pace(is_paced) => device.set_paced(is_paced),
            }
        }
        prop_assert!(read(below.memory(), 0..SIZE_BYTES) == read(alone.memory(), 0..SIZE_BYTES));
    }
}
