//! How fast writes are let in.

use std::time::Duration;

use crate::extent::number::{narrow, wide};
use crate::journal::error::Refusal;

/// Thousandths of memory or ring in use from which intake is slowed down.
pub(crate) const SLOW_FROM_PERMILLE: u64 = 800;
/// Thousandths from which unapplied data is applied whatever its age.
pub(crate) const APPLY_FROM_PERMILLE: u64 = 600;
/// Thousandths from which the image gets all it can take.
pub(crate) const HURRY_FROM_PERMILLE: u64 = 950;
/// Which part of all applies may be in flight where intake begins to be slowed down.
const CALM_SHARE: u64 = 8;

/// What to do with a write that would like in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Let it in.
    Now,
    /// Let it in at this time, or ask again after the next event.
    At(Duration),
    /// There is no room: ask again after the next event or tick.
    Wait,
    /// Answer it with this error.
    Refused(Refusal),
}

/// How full it is, as thousandths of the fuller of memory and ring.
pub(crate) fn fill_permille((held, max_held): (u64, u64), (used, capacity): (u64, u64)) -> u64 {
    let share = |part: u64, whole: u64| part.saturating_mul(1000) / whole.max(1);
    share(held, max_held).max(share(used, capacity))
}

/// How long `bytes` hold up the writes after them: not at all below [`SLOW_FROM_PERMILLE`], then
/// rising in proportion, until at the brim intake runs at nine tenths of the rate at which memory
/// is freed. Somewhere before that the two are equal, and there the fill stays.
pub(crate) fn decide_pace(fill_permille: u64, bytes: u64, freed_bytes_per_s: u64) -> Duration {
    let over = fill_permille.saturating_sub(SLOW_FROM_PERMILLE);
    let span = 1000 - SLOW_FROM_PERMILLE;
    let at_rate_us = bytes.saturating_mul(1_000_000) / freed_bytes_per_s.max(1);
    Duration::from_micros(at_rate_us.saturating_mul(over) / span * 10 / 9)
}

/// How long `bytes` hold up the writes after them while what is held must become less: intake runs
/// at half the rate at which memory is freed.
pub(crate) fn decide_falling_pace(bytes: u64, freed_bytes_per_s: u64) -> Duration {
    Duration::from_micros(bytes.saturating_mul(2_000_000) / freed_bytes_per_s.max(1))
}

/// How many applies may be in flight: none while there is room for overwrites to coalesce, one for
/// what has waited long enough, then more in proportion to the fill: an eighth of all where intake
/// begins to be slowed down, all of them near the brim. An append, which someone waits for, shares
/// the copies' disks and CPUs with every apply, so as long as there is room it comes first.
pub(crate) fn decide_applies(fill_permille: u64, max_applies: usize, aged: bool) -> usize {
    let all = wide(max_applies);
    let calm = all / CALM_SHARE;
    let share = if fill_permille < SLOW_FROM_PERMILLE {
        let over = fill_permille.saturating_sub(APPLY_FROM_PERMILLE);
        calm * over / (SLOW_FROM_PERMILLE - APPLY_FROM_PERMILLE)
    } else {
        let span = HURRY_FROM_PERMILLE - SLOW_FROM_PERMILLE;
        let over = (fill_permille - SLOW_FROM_PERMILLE).min(span);
        calm + (all - calm) * over / span
    };
    let least = usize::from(aged || fill_permille >= APPLY_FROM_PERMILLE);
    narrow(share).max(least)
}

/// How full a journal with so many small frames counts as for [`decide_applies`]: at the limit the
/// first is applied, and at four thirds of it so many at a time as where intake begins to be slowed
/// down. Intake itself waits for memory and ring alone, so a burst may go past the limit.
pub(crate) fn decide_small_fill(small_frames: usize, max_small_frames: usize) -> u64 {
    let fill =
        wide(small_frames).saturating_mul(APPLY_FROM_PERMILLE) / wide(max_small_frames).max(1);
    fill.min(SLOW_FROM_PERMILLE)
}

/// The rate at which memory is freed, over about the last second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FreedRate {
    bytes_per_s: u64,
    since: Duration,
    bytes: u64,
}

/// Windows shorter than this say little.
const WINDOW: Duration = Duration::from_millis(100);
/// Until something was measured, and the least: a stall must not stop intake for good.
const LEAST_BYTES_PER_S: u64 = 1 << 20;
const FIRST_BYTES_PER_S: u64 = 64 << 20;

impl FreedRate {
    pub(crate) fn new(now: Duration) -> Self {
        Self { bytes_per_s: FIRST_BYTES_PER_S, since: now, bytes: 0 }
    }

    /// `busy`: there was something to free all along; an idle journal measures nothing.
    pub(crate) fn note(&mut self, now: Duration, bytes: u64, busy: bool) {
        self.bytes = self.bytes.saturating_add(bytes);
        let elapsed = now.saturating_sub(self.since);
        if elapsed < WINDOW {
            return;
        }
        if busy {
            let us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
            let measured = self.bytes.saturating_mul(1_000_000) / us.max(1);
            self.bytes_per_s = (self.bytes_per_s / 4 * 3 + measured / 4).max(LEAST_BYTES_PER_S);
        }
        (self.since, self.bytes) = (now, 0);
    }

    pub(crate) fn bytes_per_s(self) -> u64 {
        self.bytes_per_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_rises_smoothly_from_nothing_to_just_under_the_rate_of_freeing() {
        let pace = |fill| decide_pace(fill, 16_384, 16_384_000);
        assert_eq!(pace(0), Duration::ZERO);
        assert_eq!(pace(SLOW_FROM_PERMILLE), Duration::ZERO);
        assert_eq!(pace(900), Duration::from_micros(555));
        assert_eq!(pace(1000), Duration::from_micros(1111));
        let mut last = Duration::ZERO;
        for fill in 0..=1000 {
            let step = pace(fill).checked_sub(last).expect("it never falls");
            assert!(step < Duration::from_micros(20));
            last = pace(fill);
        }
    }

    #[test]
    fn what_must_become_less_is_added_to_at_half_speed() {
        assert_eq!(decide_falling_pace(16_384, 16_384_000), Duration::from_millis(2));
        assert_eq!(decide_falling_pace(0, 0), Duration::ZERO);
    }

    #[test]
    fn applies_rise_from_none_to_all_as_it_fills() {
        for (fill, aged, applies) in [
            (0, false, 0),
            (0, true, 1),
            (599, false, 0),
            (600, false, 1),
            (700, false, 4),
            (799, false, 7),
            (800, false, 8),
            (875, false, 36),
            (950, false, 64),
            (u64::MAX, true, 64),
        ] {
            assert_eq!(decide_applies(fill, 64, aged), applies, "{fill} {aged}");
        }
    }

    #[test]
    fn small_frames_are_applied_from_their_limit_on_and_hold_nobody_up() {
        for (small, fill, applies) in [
            (0, 0, 0),
            (99, 594, 0),
            (100, 600, 1),
            (117, 702, 4),
            (134, 800, 8),
            (usize::MAX, 800, 8),
        ] {
            assert_eq!(decide_small_fill(small, 100), fill, "{small}");
            assert_eq!(decide_applies(fill, 64, false), applies, "{small}");
            assert_eq!(decide_pace(fill, 1 << 20, 1 << 20), Duration::ZERO, "{small}");
        }
    }

    #[test]
    fn the_fuller_of_memory_and_ring_counts() {
        assert_eq!(fill_permille((1, 4), (1, 2)), 500);
        assert_eq!(fill_permille((3, 4), (1, 2)), 750);
        assert_eq!(fill_permille((u64::MAX, 1), (0, 0)), u64::MAX);
    }

    #[test]
    fn the_rate_follows_what_is_freed_while_there_is_work() {
        let mut rate = FreedRate::new(Duration::ZERO);
        for tenth in 1..100 {
            rate.note(Duration::from_millis(tenth * 100), 1_000_000, true);
        }
        assert!((9_900_000..10_100_000).contains(&rate.bytes_per_s()), "{rate:?}");
        rate.note(Duration::from_secs(3600), 0, false);
        assert!(rate.bytes_per_s() > 9_900_000, "{rate:?}");
    }
}
