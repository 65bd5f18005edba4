//! How the daemon is, in one word: decided from facts alone.

use std::time::Duration;

use grampus_journal::Failure;
use serde::Serialize;

use crate::clock::seconds;
use crate::gate::{Hold, Mode, Refusal};
use crate::in_flight::InFlight;

/// A request this old makes the volume stalled: far past any answer of a cluster that works.
pub const STALL_NS: u64 = 5_000_000_000;

/// The word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The volume is not offered yet.
    Starting,
    /// All is well.
    Running,
    /// New requests wait: `pause`.
    Paused,
    /// New requests wait and all before them are durable: `quiesce`, or a snapshot.
    Quiesced,
    /// No image is open, and requests wait until one is: `close-image`.
    Detached,
    /// The oldest request is older than [`STALL_NS`]: the cluster does not answer.
    Stalled,
    /// The cluster shut this client out: every request fails.
    Fenced,
    /// The device lost data: every request fails.
    Failed,
    /// The daemon ends.
    Stopping,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 9] = [
        Self::Starting,
        Self::Running,
        Self::Paused,
        Self::Quiesced,
        Self::Detached,
        Self::Stalled,
        Self::Fenced,
        Self::Failed,
        Self::Stopping,
    ];

    /// The word as JSON and metrics spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Quiesced => "quiesced",
            Self::Detached => "detached",
            Self::Stalled => "stalled",
            Self::Fenced => "fenced",
            Self::Failed => "failed",
            Self::Stopping => "stopping",
        }
    }
}

/// The gate's mode, and what the volume's journal adds to it, if it has one.
///
/// A journal that fails tells those that wait what failed, such as a full pool. A file system then
/// ends itself and asks for nothing more, so the gate never meets the answer that says that nothing
/// works any more (INV-6).
#[must_use]
pub fn decide_mode(gate: Mode, journal: Option<grampus_journal::State>) -> Mode {
    match journal {
        Some(grampus_journal::State::Failed(Failure::Fenced)) => gate.with(Refusal::Fenced),
        Some(grampus_journal::State::Failed(_)) => gate.with(Refusal::Failed),
        _ => gate,
    }
}

/// What else the state is decided by.
#[derive(Debug, Clone, Copy, Default)]
pub struct Facts<'a> {
    /// The daemon ends.
    pub stopping: bool,
    /// For how long the cluster has answered the journal nothing, if it owes it an answer.
    pub silent: Option<Duration>,
    /// What the volume itself says is wrong, as a sentence's part.
    pub trouble: Option<&'a str>,
}

/// The state of a volume that is offered, and why it is not `running`. The gravest reason wins:
/// a fence stays a fence while the daemon ends, and a stall tells more than the pause behind
/// which it happens.
#[must_use]
pub fn decide_state(
    mode: Mode,
    in_flight: &InFlight,
    Facts { stopping, silent, trouble }: Facts<'_>,
) -> (State, Option<String>) {
    let reason = |text: &str| Some(text.to_owned());
    match mode.refusal() {
        Some(Refusal::Fenced) => {
            return (
                State::Fenced,
                reason("the cluster shut this client out; another may have taken the volume over"),
            );
        }
        Some(Refusal::Failed) => {
            let cause = trouble.unwrap_or("the device lost data");
            return (State::Failed, Some(format!("{cause}; it must be opened again")));
        }
        Some(Refusal::Stopping) => {
            return (State::Stopping, reason("the daemon ends and takes no more requests"));
        }
        None => {}
    }
    if stopping {
        return (State::Stopping, reason("the daemon ends once its users let go"));
    }
    if let Some(oldest_ns) = in_flight.oldest_ns.filter(|oldest_ns| *oldest_ns > STALL_NS) {
        let text = format!(
            "{} in flight, the oldest for {:.0} s: {}",
            in_flight.active,
            seconds(oldest_ns),
            trouble.unwrap_or("the cluster does not answer"),
        );
        return (State::Stalled, Some(text));
    }
    // Writes that are in memory wait for nobody, but nothing of them is durable.
    if let Some(silent) = silent.filter(|silent| *silent > Duration::from_nanos(STALL_NS)) {
        let text = trouble.unwrap_or("the cluster does not answer");
        return (State::Stalled, Some(format!("{text}, for {:.0} s by now", silent.as_secs_f64())));
    }
    if mode.holds_for(Hold::Exchange) {
        let told = "asked for by `close-image`; `open-image` ends it";
        let text = trouble.map_or(told.to_owned(), |trouble| format!("{told}: {trouble}"));
        (State::Detached, Some(text))
    } else if mode.holds_for(Hold::Quiesce) {
        (State::Quiesced, reason("asked for by `quiesce`; `unquiesce` ends it"))
    } else if mode.holds_for(Hold::Snapshot) || mode.holds_for(Hold::OwnSnapshot) {
        (State::Quiesced, reason("a snapshot is being taken"))
    } else if mode.holds_for(Hold::Pause) {
        (State::Paused, reason("asked for by `pause`; `resume` ends it"))
    } else {
        (State::Running, None)
    }
}

/// How long a request may be under way on a fenced volume. What librbd answers by itself comes
/// within milliseconds of the fence.
const FENCED_PATIENCE_NS: u64 = 1_000_000_000;

/// Whether users must be cut off for their requests to fail.
///
/// Shut out while it has writes under way, librbd (seen with 20.2.4, one fence in four under load)
/// begins to give its lock back, which holds writes; the release fails, and what it holds is
/// never answered, though no operation of its is left at any OSD.
#[must_use]
pub fn must_cut_off(state: State, in_flight: &InFlight) -> bool {
    state == State::Fenced && in_flight.oldest_ns.is_some_and(|age_ns| age_ns > FENCED_PATIENCE_NS)
}

/// What to log of stalls: their beginning and their end.
#[derive(Debug, Default)]
pub struct StallWatch {
    worst_ns: Option<u64>,
}

/// A stall began or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StallEvent {
    /// The oldest request passed [`STALL_NS`].
    Began,
    /// No request is that old any more.
    Ended {
        /// The greatest age that was seen.
        worst_ns: u64,
    },
}

impl StallWatch {
    /// Look at the age of the oldest request; at most one event each way for a stall.
    pub fn observe(&mut self, oldest_ns: Option<u64>) -> Option<StallEvent> {
        match (oldest_ns.filter(|oldest_ns| *oldest_ns > STALL_NS), self.worst_ns) {
            (Some(age_ns), None) => {
                self.worst_ns = Some(age_ns);
                Some(StallEvent::Began)
            }
            (Some(age_ns), Some(worst_ns)) => {
                self.worst_ns = Some(age_ns.max(worst_ns));
                None
            }
            (None, Some(worst_ns)) => {
                self.worst_ns = None;
                Some(StallEvent::Ended { worst_ns })
            }
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a journal, users are answered while nothing is durable: that is to be seen (INV-68).
    #[test]
    fn a_cluster_that_is_silent_makes_a_journal_stalled_also_when_nobody_waits() {
        let state = |mode, silent| {
            let facts = Facts { silent, ..Facts::default() };
            decide_state(mode, &InFlight::default(), facts)
        };
        let running = Mode::of(&[], &[]);
        let long = Some(Duration::from_secs(75));
        assert_eq!(state(running, Some(Duration::from_secs(5))).0, State::Running);
        let (stalled, reason) = state(running, long);
        assert_eq!(stalled, State::Stalled);
        assert_eq!(reason.as_deref(), Some("the cluster does not answer, for 75 s by now"));
        assert_eq!(state(Mode::of(&[Refusal::Fenced], &[]), long).0, State::Fenced);
    }

    #[test]
    fn the_gravest_reason_is_the_state() {
        let fresh = InFlight { active: 1, oldest_ns: Some(STALL_NS), ..InFlight::default() };
        let old = InFlight { active: 2, oldest_ns: Some(STALL_NS + 1), ..InFlight::default() };
        let (fenced, failed, ending) = (Refusal::Fenced, Refusal::Failed, Refusal::Stopping);
        let (pause, quiesce, snapshot) = (Hold::Pause, Hold::Quiesce, Hold::Snapshot);
        let exchange = Hold::Exchange;
        for (refusals, holds, in_flight, stopping, state) in [
            (&[][..], &[][..], InFlight::default(), false, State::Running),
            (&[], &[], fresh, false, State::Running),
            (&[], &[], old, false, State::Stalled),
            (&[], &[pause], fresh, false, State::Paused),
            (&[], &[pause], old, false, State::Stalled),
            (&[], &[pause, quiesce], fresh, false, State::Quiesced),
            (&[], &[snapshot], fresh, false, State::Quiesced),
            (&[], &[exchange, quiesce, pause], fresh, false, State::Detached),
            (&[], &[exchange], old, false, State::Stalled),
            (&[fenced], &[exchange], fresh, false, State::Fenced),
            (&[], &[], old, true, State::Stopping),
            (&[ending], &[quiesce], old, true, State::Stopping),
            (&[failed, ending], &[pause], old, true, State::Failed),
            (&[ending, fenced, failed], &[pause], old, true, State::Fenced),
        ] {
            let mode = Mode::of(refusals, holds);
            let (decided, reason) =
                decide_state(mode, &in_flight, Facts { stopping, ..Facts::default() });
            assert_eq!(decided, state, "{mode:?} {in_flight:?} {stopping}");
            assert_eq!(reason.is_none(), state == State::Running);
        }
    }

    #[test]
    fn a_journal_that_failed_has_failed_the_volume() {
        let well = Mode::of(&[], &[Hold::Snapshot]);
        for (journal, refusal) in [
            (None, None),
            (Some(grampus_journal::State::Running), None),
            (Some(grampus_journal::State::Quiesced), None),
            (Some(grampus_journal::State::Failed(Failure::NoSpace)), Some(Refusal::Failed)),
            (Some(grampus_journal::State::Failed(Failure::Io)), Some(Refusal::Failed)),
            (Some(grampus_journal::State::Failed(Failure::Fenced)), Some(Refusal::Fenced)),
        ] {
            let mode = decide_mode(well, journal);
            assert_eq!((mode.refusal(), mode.holds_for(Hold::Snapshot)), (refusal, true));
        }
        let ending = decide_mode(Mode::of(&[Refusal::Stopping], &[]), None);
        assert_eq!(ending.refusal(), Some(Refusal::Stopping));
    }

    #[test]
    fn what_is_wrong_is_said_where_it_is_known() {
        let old = InFlight { active: 2, oldest_ns: Some(9_000_000_000), ..InFlight::default() };
        let (well, failed) = (Mode::of(&[], &[]), Mode::of(&[Refusal::Failed], &[]));
        let mode = Mode::of(&[], &[Hold::Exchange]);
        let (_, reason) = decide_state(
            mode,
            &InFlight::default(),
            Facts { trouble: Some("no such image"), ..Facts::default() },
        );
        assert!(reason.is_some_and(|reason| reason.ends_with(": no such image")));
        for (mode, trouble, expected) in [
            (well, None, "2 in flight, the oldest for 9 s: the cluster does not answer"),
            (well, Some("no space"), "2 in flight, the oldest for 9 s: no space"),
            (failed, None, "the device lost data; it must be opened again"),
            (failed, Some("no space"), "no space; it must be opened again"),
        ] {
            let (_, reason) = decide_state(mode, &old, Facts { trouble, ..Facts::default() });
            assert_eq!(reason.as_deref(), Some(expected));
        }
    }

    #[test]
    fn only_a_fenced_volume_that_keeps_requests_cuts_its_users_off() {
        let oldest = |oldest_ns| InFlight { active: 1, oldest_ns, ..InFlight::default() };
        for (state, oldest_ns, expected) in [
            (State::Fenced, None, false),
            (State::Fenced, Some(FENCED_PATIENCE_NS), false),
            (State::Fenced, Some(FENCED_PATIENCE_NS + 1), true),
            (State::Stalled, Some(u64::MAX), false),
            (State::Failed, Some(u64::MAX), false),
            (State::Running, Some(u64::MAX), false),
        ] {
            let decided = must_cut_off(state, &oldest(oldest_ns));
            assert_eq!(decided, expected, "{state:?} {oldest_ns:?}");
        }
    }

    #[test]
    fn a_stall_is_reported_once_each_way() {
        let mut watch = StallWatch::default();
        let events: Vec<_> =
            [None, Some(1), Some(STALL_NS), Some(STALL_NS + 1), Some(STALL_NS + 9), Some(2), None]
                .into_iter()
                .map(|oldest_ns| watch.observe(oldest_ns))
                .collect();
        let ended = Some(StallEvent::Ended { worst_ns: STALL_NS + 9 });
        assert_eq!(events, [None, None, None, Some(StallEvent::Began), None, ended, None]);
    }

    #[test]
    fn names_are_those_of_the_protocol() {
        for state in State::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
    }
}
