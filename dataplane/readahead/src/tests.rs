//! Over a device that counts, can be held up and can fail, what is read is right all the same.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use grampus_blockdev::trial::HeldDevice;
use grampus_blockdev::{
    BlockDevice, BlockSize, Buffer, ByteRange, DeviceError, Durability, Geometry, Length, Offset,
    Request, execute, submit,
};
use proptest::prelude::*;

use crate::ReadAhead;
use crate::stream::AHEAD_BYTES;

const SIZE_BYTES: u64 = 4 << 20;
const LONG: Duration = Duration::from_secs(3600);
const PATIENCE: Duration = Duration::from_secs(20);

fn made() -> Arc<HeldDevice> {
    let below = HeldDevice::new(Geometry::new(SIZE_BYTES, BlockSize::B512).unwrap()).unwrap();
    let content: Vec<u8> = (0..SIZE_BYTES).map(content).collect();
    execute(below.memory(), write(0, content)).result.unwrap();
    below
}

fn content(position: u64) -> u8 {
    u8::try_from(position.wrapping_mul(2_654_435_761) >> 7 & 0xff).unwrap()
}

fn write(offset: u64, bytes: Vec<u8>) -> Request {
    let offset = Offset::new(offset).unwrap();
    let buffer = Buffer::try_from(bytes).unwrap();
    Request::Write { offset, buffer, durability: Durability::OnFlush }
}

fn range_of(range: Range<u64>) -> ByteRange {
    ByteRange {
        offset: Offset::new(range.start).unwrap(),
        length: Length::new(range.end - range.start).unwrap(),
    }
}

fn read_request(range: Range<u64>) -> Request {
    let length = usize::try_from(range.end - range.start).unwrap();
    let buffer = Buffer::zeroed(length).unwrap();
    Request::Read { offset: Offset::new(range.start).unwrap(), buffer }
}

fn read(device: &dyn BlockDevice, range: Range<u64>) -> Vec<u8> {
    let outcome = execute(device, read_request(range));
    outcome.result.unwrap();
    outcome.buffer.unwrap().to_vec()
}

fn expected(range: Range<u64>) -> Vec<u8> {
    range.map(content).collect()
}

/// Four small reads side by side: the fourth asks for more.
fn begin(device: &dyn BlockDevice, start: u64) {
    for number in 0..4 {
        let range = start + number * 512..start + (number + 1) * 512;
        assert_eq!(read(device, range.clone()), expected(range));
    }
}

#[test]
fn a_log_that_is_read_record_by_record_and_twice_costs_few_reads() {
    let below = made();
    let device = ReadAhead::new(Arc::<HeldDevice>::clone(&below), LONG);
    for pass in 0..2_u64 {
        let mut start = 1 << 20;
        for record in 0..500_u64 {
            for length in [512, 1024 + record % 3 * 512] {
                let range = start..start + length;
                assert_eq!(read(&device, range.clone()), expected(range.clone()));
                start = range.end;
            }
            if pass == 1 {
                // What the record is about is read and written, elsewhere.
                let at = record * 7919 % 1024 * 512;
                let elsewhere = at..at + 512;
                assert_eq!(read(&device, elsewhere.clone()), expected(elsewhere.clone()));
                let change = write(elsewhere.start, expected(elsewhere));
                execute(&device, change).result.unwrap();
            }
        }
    }
    // 500 of elsewhere, four of a megabyte each time, and the first ones.
    assert!(below.reads() < 500 + 2 * (4 + 5) + 4, "{}", below.reads());
}

#[test]
fn reads_that_are_big_or_not_side_by_side_are_sent_on_as_they_are() {
    let below = made();
    let device = ReadAhead::new(Arc::<HeldDevice>::clone(&below), LONG);
    for number in 0..10_u64 {
        for range in [
            number * (128 << 10)..(number + 1) * (128 << 10),
            number * 99_999..number * 99_999 + 4096,
        ] {
            assert_eq!(read(&device, range.clone()), expected(range));
        }
    }
    assert_eq!(below.reads(), 20);
}

#[test]
fn the_end_of_the_device_is_read_and_no_more() {
    let below = made();
    let device = ReadAhead::new(Arc::<HeldDevice>::clone(&below), LONG);
    begin(&device, SIZE_BYTES - 4096);
    let tail = SIZE_BYTES - 2048..SIZE_BYTES;
    assert_eq!(read(&device, tail.clone()), expected(tail));
    assert_eq!(below.reads(), 4);
    let beyond = execute(&device, read_request(SIZE_BYTES - 512..SIZE_BYTES + 512));
    assert!(matches!(beyond.result, Err(DeviceError::OutOfRange { .. })));
}

#[test]
fn what_was_changed_is_read_changed() {
    let at = 100 << 10;
    let changes: [fn(u64) -> Request; 3] = [
        |at| write(at, vec![7; 512]),
        |at| Request::WriteZeroes { range: range_of(at..at + 512), durability: Durability::Fua },
        |at| Request::Discard { range: range_of(at..at + 512) },
    ];
    for (change, byte) in changes.into_iter().zip([7, 0, 0]) {
        let below = made();
        let device = ReadAhead::new(Arc::<HeldDevice>::clone(&below), LONG);
        begin(&device, at);
        execute(&device, change(at + 4096)).result.unwrap();
        assert_eq!(read(&device, at + 4096..at + 4608), vec![byte; 512]);
    }
}

#[test]
fn nothing_is_kept_that_a_change_may_have_met_on_its_way() {
    let at = 100 << 10;
    let fourth = at + 3 * 512..at + 4 * 512;
    // Changed while it is fetched, and fetched while it is changed.
    for is_change_first in [false, true] {
        let below = made();
        let device = ReadAhead::new(Arc::<HeldDevice>::clone(&below), LONG);
        for number in 0..3 {
            read(&device, at + number * 512..at + (number + 1) * 512);
        }
        below.hold();
        let change = || submit(&device, write(at + 4096, vec![7; 512]));
        let (fetched, changed) = if is_change_first {
            let changed = change();
            (submit(&device, read_request(fourth.clone())), changed)
        } else {
            let fetched = submit(&device, read_request(fourth.clone()));
            (fetched, change())
        };
        below.release();
        changed.recv_timeout(PATIENCE).unwrap().result.unwrap();
        let outcome = fetched.recv_timeout(PATIENCE).unwrap();
        assert_eq!(outcome.buffer.unwrap().to_vec(), expected(fourth.clone()));
        assert_eq!(read(&device, at + 4096..at + 4608), vec![7; 512], "{is_change_first}");
    }
}

#[test]
fn a_read_does_not_fail_for_what_lies_behind_it() {
    let below = made();
    let device = ReadAhead::new(Arc::<HeldDevice>::clone(&below), LONG);
    let at = 100 << 10;
    below.spoil(at + AHEAD_BYTES - 1);
    begin(&device, at);
    assert_eq!(below.reads(), 5, "the fourth was read twice");
    // What cannot be read itself fails.
    let bad = at + AHEAD_BYTES - 512..at + AHEAD_BYTES;
    assert!(execute(&device, read_request(bad)).result.is_err());
}

#[test]
fn a_fence_and_the_end_of_its_time_end_it() {
    let at = 100 << 10;
    let below = made();
    let device = ReadAhead::new(Arc::<HeldDevice>::clone(&below), LONG);
    begin(&device, at);
    below.fence();
    let refused = execute(&device, write(0, vec![7; 512]));
    assert!(matches!(refused.result, Err(DeviceError::Fenced)));
    let kept = execute(&device, read_request(at + 4096..at + 4608));
    assert!(matches!(kept.result, Err(DeviceError::Fenced)));

    // Nor is one tried again that would have brought more.
    let below = made();
    let device = ReadAhead::new(Arc::<HeldDevice>::clone(&below), LONG);
    for number in 0..3 {
        read(&device, at + number * 512..at + (number + 1) * 512);
    }
    below.fence();
    let refused = execute(&device, read_request(at + 3 * 512..at + 4 * 512));
    assert!(matches!(refused.result, Err(DeviceError::Fenced)));
    assert_eq!((refused.buffer.is_some(), below.reads()), (true, 4));

    let below = made();
    let device = ReadAhead::new(Arc::<HeldDevice>::clone(&below), Duration::ZERO);
    begin(&device, at);
    begin(&device, at + 2048);
    assert_eq!(below.reads(), 8);
}

#[derive(Debug, Clone)]
enum Act {
    Read(Range<u64>),
    Log(u64),
    Write(Range<u64>, u8),
    Zero(Range<u64>),
    Discard(Range<u64>),
}

fn ranges() -> impl Strategy<Value = Range<u64>> {
    let small = AHEAD_BYTES * 3;
    (0..small, 1..8192_u64).prop_map(|(start, length)| start..start + length)
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => ranges().prop_map(Act::Read),
        6 => (1..2048_u64).prop_map(Act::Log),
        1 => (ranges(), any::<u8>()).prop_map(|(range, byte)| Act::Write(range, byte)),
        1 => ranges().prop_map(Act::Zero),
        1 => ranges().prop_map(Act::Discard),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_is_asked_is_answered_as_by_the_device_below(
        acts in proptest::collection::vec(acts(), 1..400)
    ) {
        let below = made();
        let device = ReadAhead::new(Arc::<HeldDevice>::clone(&below), LONG);
        let mut position = 0;
        for act in acts {
            let range = match act {
                Act::Log(length) => {
                    let range = position..position + length;
                    position = range.end;
                    range
                }
                Act::Read(range) => range,
                Act::Write(range, byte) => {
                    let length = usize::try_from(range.end - range.start).unwrap();
                    execute(&device, write(range.start, vec![byte; length])).result.unwrap();
                    range
                }
                Act::Zero(range) => {
                    let zeros = Request::WriteZeroes {
                        range: range_of(range.clone()),
                        durability: Durability::OnFlush,
                    };
                    execute(&device, zeros).result.unwrap();
                    range
                }
                Act::Discard(range) => {
                    let discard = Request::Discard { range: range_of(range.clone()) };
                    execute(&device, discard).result.unwrap();
                    range
                }
            };
            prop_assert_eq!(read(&device, range.clone()), read(below.memory(), range));
        }
    }
}
