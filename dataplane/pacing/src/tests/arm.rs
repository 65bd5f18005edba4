//! Which request is next, and how long each takes.

use std::ops::Range;
use std::time::Duration;

use grampus_blockdev::{Buffer, ByteRange, Durability, Length, Offset, Request};
use proptest::prelude::*;

use crate::arm::{Arm, BATCH, CREDIT, DEADLINE, Service, Work};
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
        // One after the other, each behind the last: all at once they would be served in order.
        let mut times = Vec::new();
        while let Some(service) = random.take() {
            times.push(service.lasts());
        }
        assert_eq!(times, vec![far; 20]);
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
fn the_arm_goes_one_way_and_begins_again() {
    let mut arm = waiting([9, 3, 7, 5].map(|place| transfer(place * FAR, 4 * KIB)));
    assert_eq!(arm.take().unwrap().token, 1, "the first, since the arm is anywhere");
    for (token, place) in [(4, 4), (5, 1), (6, 0), (7, 6)] {
        arm.add(token, transfer(place * FAR, 4 * KIB), Duration::ZERO);
    }
    assert_eq!(order(&mut arm), [4, 3, 7, 2, 0, 6, 5]);
    // Of two at the same place the oldest, and what needs no way before all.
    let works = [transfer(2 * MIB, MIB), transfer(MIB, MIB), transfer(MIB, MIB), Work::Command];
    assert_eq!(order(&mut waiting(works)), [3, 1, 0, 2]);
}

#[test]
fn an_object_in_pieces_out_of_order_is_read_as_a_whole() {
    // As BlueStore lays out 4 MiB and asks for them: pieces of 64 KiB that lie beside each other.
    let pieces = (0..64).map(|number| transfer(number * 37 % 64 * 64 * KIB, 64 * KIB));
    let mut arm = waiting(pieces);
    served(&mut arm);
    let pure = Duration::from_micros(POSITION_US + 64 * COMMAND_US + 20_000);
    assert_eq!(arm.free_at(), pure);
}

#[test]
fn a_short_gap_passes_under_the_head_and_a_long_one_is_a_way() {
    let position = Duration::from_micros(POSITION_US);
    let cost = Duration::from_micros(COMMAND_US) + disk().transfer(4 * KIB);
    for (gap, way) in [
        (4 * KIB, disk().transfer(4 * KIB)),
        (MIB, Duration::from_millis(5)),
        (2 * MIB, position),
        (FAR, position),
    ] {
        let mut arm = waiting([transfer(FAR, MIB), transfer(FAR + MIB + gap, 4 * KIB)]);
        assert_eq!(served(&mut arm)[1], (1, way + cost), "{gap}");
        let mut back = waiting([transfer(FAR, MIB)]);
        served(&mut back);
        back.add(1, transfer(FAR + MIB - gap, 4 * KIB), Duration::ZERO);
        assert_eq!(served(&mut back), [(1, position + cost)], "behind the head, {gap}");
    }
}

#[test]
fn a_stream_without_end_lets_others_have_their_turn() {
    // Each part of the stream comes as the one before is done.
    let mut arm = waiting([transfer(MIB, MIB)]);
    arm.take();
    arm.add(1, transfer(0, 4 * KIB), Duration::ZERO);
    let mut others = Vec::new();
    for number in 2..400 {
        let token = usize::try_from(number).unwrap();
        arm.add(token, transfer(number * MIB, MIB), arm.free_at());
        let service = arm.take().unwrap();
        if service.token == 1 {
            others.push(service);
        }
    }
    let [other] = others.as_slice() else { panic!("{others:?}") };
    let longest = Duration::from_micros(COMMAND_US + 5_000);
    assert!(other.start >= DEADLINE && other.start < DEADLINE + longest * BATCH, "{other:?}");
}

#[test]
fn when_all_wait_too_long_the_arm_still_serves_what_is_on_its_way() {
    // Two streams, piece by piece in turn, all far too old.
    let works = (0..64).map(|number| transfer(number % 2 * FAR + number / 2 * MIB, MIB));
    let mut arm = waiting(works);
    arm.delay(Duration::from_secs(60));
    let ways = served(&mut arm).windows(2).filter(|pair| pair[0].0 % 2 != pair[1].0 % 2).count();
    assert!((1..=6).contains(&ways), "{ways}");
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
    fn all_are_served_once_one_at_a_time_and_the_oldest_when_it_waits_too_long(
        acts in proptest::collection::vec(acts(), 1..600)
    ) {
        let mut arm = waiting([Work::Command]);
        let mut waits = vec![(0, Duration::ZERO)]; // tokens and arrivals, the oldest first
        let mut passed_over = 0; // how often the oldest, since it waits too long
        let (mut count, mut sum, mut last_end) = (1, Duration::ZERO, Duration::ZERO);
        let left = acts.iter().filter(|act| matches!(act, Act::Add(_))).count() + 1;
        let ends = std::iter::repeat_n(Act::Take, left);
        let all_added = acts.len();
        for (number, act) in acts.into_iter().chain(ends).enumerate() {
            match act {
                Act::Add(work) => {
                    arm.add(count, work, arm.free_at());
                    waits.push((count, arm.free_at()));
                    count += 1;
                }
                // The queue never empties before the end.
                Act::Take if number < all_added && waits.len() < 2 => {}
                Act::Take => {
                    let Some(service) = arm.take() else { break };
                    let lasts = service.lasts();
                    let Service { token, start, end } = service;
                    let place = waits.iter().position(|(waiting, _)| *waiting == token).unwrap();
                    let is_late = place > 0 && start >= waits[0].1 + DEADLINE;
                    waits.remove(place);
                    passed_over = if is_late { passed_over + 1 } else { 0 };
                    prop_assert!(passed_over <= BATCH);
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
