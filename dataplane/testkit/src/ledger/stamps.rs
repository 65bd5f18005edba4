//! When a writer's operations were issued and answered, a line each.

use std::fmt;

use serde::Serialize;

/// What was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StampKind {
    /// A write was acknowledged.
    Write,
    /// A flush was acknowledged.
    Flush,
    /// A write or flush failed.
    Failure,
}

/// One operation's times, in nanoseconds since 1970 (UTC).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// What was answered.
    pub kind: StampKind,
    /// When it was issued.
    pub issued_ns: u64,
    /// When it was answered.
    pub answered_ns: u64,
    /// Which of the ledger's writers it was, from 0.
    pub writer: u64,
}

impl fmt::Display for Stamp {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            StampKind::Write => 'w',
            StampKind::Flush => 'f',
            StampKind::Failure => 'e',
        };
        write!(to, "{kind} {} {} {}", self.issued_ns, self.answered_ns, self.writer)
    }
}

/// The stamps of a file's text; a last line that was cut off is left out.
///
/// # Errors
/// The first other line that is no stamp.
pub fn parse_stamps(text: &str) -> Result<Vec<Stamp>, String> {
    let whole = text.rfind('\n').map_or("", |end| text.get(..end).unwrap_or_default());
    whole.lines().map(|line| parse_stamp(line).ok_or_else(|| line.to_owned())).collect()
}

fn parse_stamp(line: &str) -> Option<Stamp> {
    let mut words = line.split(' ');
    let kind = match words.next()? {
        "w" => StampKind::Write,
        "f" => StampKind::Flush,
        "e" => StampKind::Failure,
        _ => return None,
    };
    let issued_ns = words.next()?.parse().ok()?;
    let answered_ns = words.next()?.parse().ok()?;
    let writer = words.next()?.parse().ok()?;
    words.next().is_none().then_some(Stamp { kind, issued_ns, answered_ns, writer })
}

/// The time in which a writer was able to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Window {
    /// Writes acknowledged.
    pub writes: u64,
    /// Operations that failed.
    pub failures: u64,
    /// When the first acknowledged write was issued.
    pub first_issued_ns: u64,
    /// When the last acknowledged write was issued.
    pub last_issued_ns: u64,
    /// When the last acknowledged write was answered.
    pub last_answered_ns: u64,
    /// When the first failure was answered, if one was.
    pub first_failure_ns: Option<u64>,
    /// The longest time between two acknowledgements.
    pub longest_wait_ns: u64,
}

/// The window that `stamps` show; None without an acknowledged write.
#[must_use]
pub fn observe_window(stamps: &[Stamp]) -> Option<Window> {
    let of_kind = |kind| stamps.iter().filter(move |stamp| stamp.kind == kind);
    let mut answers: Vec<u64> = stamps
        .iter()
        .filter(|stamp| stamp.kind != StampKind::Failure)
        .map(|stamp| stamp.answered_ns)
        .collect();
    answers.sort_unstable();
    let waits = answers.iter().zip(answers.iter().skip(1)).map(|(one, next)| next - one);
    Some(Window {
        writes: count(of_kind(StampKind::Write)),
        failures: count(of_kind(StampKind::Failure)),
        first_issued_ns: of_kind(StampKind::Write).map(|stamp| stamp.issued_ns).min()?,
        last_issued_ns: of_kind(StampKind::Write).map(|stamp| stamp.issued_ns).max()?,
        last_answered_ns: of_kind(StampKind::Write).map(|stamp| stamp.answered_ns).max()?,
        first_failure_ns: of_kind(StampKind::Failure).map(|stamp| stamp.answered_ns).min(),
        longest_wait_ns: waits.max().unwrap_or_default(),
    })
}

/// Whether two writers could write at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overlap {
    /// What one wrote last was issued before anything that the other wrote.
    Apart {
        /// The time between.
        gap_ns: u64,
    },
    /// Both windows hold a moment.
    Together {
        /// How long both windows hold.
        overlap_ns: u64,
    },
}

/// How the windows of two writers, each of writes that were acknowledged, lie to each other.
///
/// A window ends when its last write was issued, not when that was answered: the answer to a
/// write that was carried out before a partition arrives after it, however late. (That none of
/// those is carried out late is for [`super::Record::Settled`] to find out.)
#[must_use]
pub fn classify_overlap(one: &Window, other: &Window) -> Overlap {
    let begin = one.first_issued_ns.max(other.first_issued_ns);
    let end = one.last_issued_ns.min(other.last_issued_ns);
    // At the same nanosecond counts as together: clocks tick no finer.
    match begin.checked_sub(end) {
        Some(gap_ns) if gap_ns > 0 => Overlap::Apart { gap_ns },
        _ => Overlap::Together { overlap_ns: end - begin },
    }
}

fn count<T>(items: impl Iterator<Item = T>) -> u64 {
    u64::try_from(items.count()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(first_issued_ns: u64, last_issued_ns: u64) -> Window {
        Window {
            writes: 1,
            failures: 0,
            first_issued_ns,
            last_issued_ns,
            last_answered_ns: 1000, // late, and of no matter
            first_failure_ns: None,
            longest_wait_ns: 0,
        }
    }

    #[test]
    fn stamps_come_back_without_a_cut_line() {
        let stamp = Stamp { kind: StampKind::Flush, issued_ns: 5, answered_ns: 9, writer: 3 };
        assert_eq!(parse_stamps(&format!("{stamp}\nw 10 1")), Ok(vec![stamp]));
        assert_eq!(parse_stamps(""), Ok(vec![]));
        assert_eq!(parse_stamps("w 1 2 0\nx 1 2 0\nw 1 2 0\n"), Err("x 1 2 0".to_owned()));
        assert_eq!(parse_stamps("w 1 2 3 4\nw 1 2 3\n"), Err("w 1 2 3 4".to_owned()));
    }

    #[test]
    fn a_window_holds_what_was_acknowledged() {
        let text = "w 10 20 0\nw 15 60 1\nf 61 70 0\ne 71 90 0\ne 91 95 1\nf 96 99 0\n";
        let stamps = parse_stamps(text).expect("parses");
        let seen = observe_window(&stamps).expect("writes");
        let expected = Window {
            writes: 2,
            failures: 2,
            first_issued_ns: 10,
            last_issued_ns: 15,
            last_answered_ns: 60,
            first_failure_ns: Some(90),
            longest_wait_ns: 40,
        };
        assert_eq!(seen, expected);
        assert_eq!(observe_window(&parse_stamps("e 1 2 0\n").expect("parses")), None);
    }

    #[test]
    fn two_writers_at_one_moment_are_found() {
        let cases = [
            ((10, 20), (21, 30), Overlap::Apart { gap_ns: 1 }),
            ((25, 30), (10, 20), Overlap::Apart { gap_ns: 5 }),
            ((10, 20), (20, 30), Overlap::Together { overlap_ns: 0 }),
            ((10, 25), (20, 30), Overlap::Together { overlap_ns: 5 }),
            ((10, 40), (20, 30), Overlap::Together { overlap_ns: 10 }),
        ];
        for (one, other, expected) in cases {
            let found = classify_overlap(&window(one.0, one.1), &window(other.0, other.1));
            assert_eq!(found, expected);
        }
    }
}
