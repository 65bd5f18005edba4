//! Which request is next, and how long each takes.

use std::ops::Range;
use std::time::Duration;

use grampus_blockdev::{Buffer, ByteRange, Durability, Length, Offset, Request};
use proptest::prelude::*;

use crate::arm::{Arm, CREDIT, MAX_PASSED_OVER, Service, Work};
use crate::model::DiskModel;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const FAR: u64 = 1 << 30;
const POSITION_US: u64 = 6550;
const COMMAND_US: u64 = 100;

fn disk() -> DiskModel {
    "6550,100,209715200".parse().unwrap()
}

fn transfer(start: u64, length: u64) -> Work {
    Work::Transfer(start..start + length)
}

/// The tokens in the order in which they are served, each with its time.
fn served(arm: &mut Arm<usize>) -> Vec<(usize, Duration)> {
    std::iter::from_fn(|| arm.take()).map(|service| (service.token, service.lasts())).collect()
}

/// An arm for which all this waits from the beginning on; tokens count from 0.
fn waiting(works: impl IntoIterator<Item = Work>) -> Arm<usize> {
    let mut arm = Arm::new(disk(), Duration::ZERO);
    for (token, work) in works.into_iter().enumerate() {
        arm.add(token, work, Duration::ZERO);
    }
    arm
}

fn order(arm: &mut Arm<usize>) -> Vec<usize> {
    served(arm).into_iter().map(|(token, _)| token).collect()
}

#[test]
fn each_request_costs_its_command_its_way_and_its_bytes() {
    // 4 KiB at 200 MiB/s take 19.53 us.
    for (length, transfer_ns) in [(4 * KIB, 19_531), (64 * KIB, 312_500), (MIB, 5_000_000)] {
        let near = Duration::from_micros(COMMAND_US) + Duration::from_nanos(transfer_ns);
        let far = near + Duration::from_micros(POSITION_US);
        let mut random = waiting((0..20).map(|number| transfer((20 - number) * FAR, length)));
        assert_eq!(served(&mut random), (0..20).map(|token| (token, far)).collect::<Vec<_>>());
        assert_eq!(random.free_at(), far * 20);
        let mut sequential = waiting((0..20).map(|number| transfer(number * length, length)));
        let times = served(&mut sequential);
        assert_eq!(times[0], (0, far), "nobody knows where the arm is at first");
        assert!(times[1..].iter().all(|(_, time)| *time == near), "{times:?}");
        assert_eq!(sequential.free_at(), far + near * 19);
    }
}

#[test]
fn what_is_no_transfer_costs_a_command_and_leaves_the_arm_where_it_is() {
    let works = [transfer(FAR, 4 * KIB), Work::Command, transfer(FAR + 4 * KIB, MIB)];
    let mut arm = Arm::new(disk(), Duration::ZERO);
    let mut times = Vec::new();
    for (token, work) in works.into_iter().enumerate() {
        // One at a time, since they would change places otherwise.
        arm.add(token, work, Duration::ZERO);
        times.extend(served(&mut arm));
    }
    assert_eq!(times[1], (1, Duration::from_micros(COMMAND_US)));
    assert_eq!(times[2], (2, Duration::from_micros(COMMAND_US + 5_000)));
}

#[test]
fn what_a_request_wants_is_read_off_it() {
    let offset = Offset::new(8192).unwrap();
    let range = ByteRange { offset, length: Length::new(FAR).unwrap() };
    let buffer = || Buffer::zeroed(4096).unwrap();
    let durability = Durability::OnFlush;
    for (request, work) in [
        (Request::Read { offset, buffer: buffer() }, transfer(8192, 4096)),
        (Request::Write { offset, buffer: buffer(), durability }, transfer(8192, 4096)),
        (Request::WriteZeroes { range, durability }, Work::Command),
        (Request::Discard { range }, Work::Command),
        (Request::Flush, Work::Command),
    ] {
        assert_eq!(Work::of(&request), work, "{request:?}");
    }
}

#[test]
fn streams_that_come_mixed_are_served_one_after_the_other() {
    let works = (0..32).map(|number| transfer(number % 2 * FAR + number / 2 * MIB, MIB));
    let mut arm = waiting(works);
    let expected: Vec<usize> = (0..32).step_by(2).chain((1..32).step_by(2)).collect();
    assert_eq!(order(&mut arm), expected);
    let ways = Duration::from_micros(POSITION_US) * 2;
    assert_eq!(arm.free_at(), ways + Duration::from_micros(COMMAND_US + 5_000) * 32);
}

#[test]
fn the_oldest_is_next_where_none_goes_on() {
    let mut arm = waiting([9, 3, 7, 5].map(|place| transfer(place * FAR, 4 * KIB)));
    assert_eq!(order(&mut arm), [0, 1, 2, 3]);
    // Of two that go on at the same place, too.
    let mut arm = waiting([0, 5, 1, 1].map(|place| transfer(place * MIB, MIB)));
    assert_eq!(order(&mut arm), [0, 2, 1, 3]);
}

#[test]
fn a_stream_without_end_lets_others_have_their_turn() {
    let mut arm = waiting([transfer(0, MIB), transfer(FAR, MIB), Work::Command]);
    let mut order = Vec::new();
    for number in 1..=100 {
        arm.add(usize::try_from(number).unwrap() + 2, transfer(number * MIB, MIB), Duration::ZERO);
        order.push(arm.take().unwrap().token);
    }
    let bound = usize::try_from(MAX_PASSED_OVER).unwrap();
    let places = [1, 2].map(|token| order.iter().position(|served| *served == token).unwrap());
    assert_eq!(places, [bound + 1, bound + 2]);
}

#[test]
fn a_disk_that_is_idle_begins_when_a_request_came_less_its_way_here() {
    let ms = Duration::from_millis;
    let mut arm = Arm::new(disk(), Duration::ZERO);
    let mut serve = |arrived| {
        arm.add(0, Work::Command, arrived);
        let service = arm.take().unwrap();
        assert_eq!(arm.free_at(), service.end);
        service.start
    };
    assert_eq!(serve(Duration::ZERO), Duration::ZERO);
    assert_eq!(serve(ms(10) + CREDIT), ms(10));
    let free_at = ms(10) + Duration::from_micros(COMMAND_US);
    assert_eq!(serve(free_at + CREDIT), free_at, "the next came in time: nothing is lost");
}

#[test]
fn a_delay_counts_and_a_restart_forgets() {
    let near = Duration::from_micros(COMMAND_US + 5_000);
    let far = near + Duration::from_micros(POSITION_US);
    let mut arm = waiting((0..3).map(|number| transfer(number * MIB, MIB)));
    assert_eq!(arm.take().unwrap().end, far);
    arm.delay(Duration::from_secs(1));
    let second = arm.take().unwrap();
    assert_eq!(second.start, far + Duration::from_secs(1));
    arm.restart(Duration::from_secs(9));
    let third = arm.take().unwrap();
    assert_eq!((third.start, third.lasts()), (Duration::from_secs(9), far));
}

#[derive(Debug, Clone)]
enum Act {
    Add(Work),
    Take,
}

fn ranges() -> impl Strategy<Value = Range<u64>> {
    // Few places, so that many requests go on where another one ended.
    (0..16_u64, 1..4_u64).prop_map(|(start, length)| start * MIB..(start + length) * MIB)
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        5 => ranges().prop_map(|range| Act::Add(Work::Transfer(range))),
        1 => Just(Act::Add(Work::Command)),
        4 => Just(Act::Take),
    ]
}

proptest! {
    #[test]
    fn all_are_served_once_one_at_a_time_and_none_is_passed_over_too_often(
        acts in proptest::collection::vec(acts(), 1..600)
    ) {
        let mut arm = waiting([Work::Command]);
        let mut waits = vec![(0, 0)]; // tokens and how often each was passed over, the oldest first
        let (mut count, mut sum, mut last_end) = (1, Duration::ZERO, Duration::ZERO);
        let left = acts.iter().filter(|act| matches!(act, Act::Add(_))).count() + 1;
        let ends = std::iter::repeat_n(Act::Take, left);
        let all_added = acts.len();
        for (number, act) in acts.into_iter().chain(ends).enumerate() {
            match act {
                Act::Add(work) => {
                    arm.add(count, work, arm.free_at());
                    waits.push((count, 0));
                    count += 1;
                }
                // The queue never empties before the end.
                Act::Take if number < all_added && waits.len() < 2 => {}
                Act::Take => {
                    let Some(service) = arm.take() else { break };
                    let lasts = service.lasts();
                    let Service { token, start, end } = service;
                    let place = waits.iter().position(|(waiting, _)| *waiting == token).unwrap();
                    waits.remove(place);
                    for (_, passed_over) in &mut waits[..place] {
                        *passed_over += 1;
                        prop_assert!(*passed_over <= MAX_PASSED_OVER);
                    }
                    prop_assert_eq!(start, last_end);
                    sum += lasts;
                    last_end = end;
                }
            }
        }
        prop_assert!(waits.is_empty() && arm.len() == 0);
        prop_assert_eq!(sum, arm.free_at());
    }
}
