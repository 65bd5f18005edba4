//! What each block may hold, from the ledger's records alone.

use std::collections::HashMap;

use thiserror::Error;

use super::record::{BlockVersion, Record};

const FORMAT: u32 = 1;

/// What one block may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// The last version known to be there: flushed, or found after a crash.
    pub floor: u64,
    /// Later versions, issued and not known to be there, in order.
    pub in_doubt: Vec<u64>,
}

/// A ledger, read.
#[derive(Debug, Clone)]
pub struct History {
    /// In every block of this ledger.
    pub run: u64,
    /// Where the first block begins.
    pub offset_bytes: u64,
    /// By block number.
    pub expectations: Vec<Expectation>,
    /// Writes that flushes acknowledged.
    pub flushed_writes: u64,
    /// Greater than every version issued.
    pub next_sequence: u64,
    /// Greater than every batch's number.
    pub next_batch: u64,
}

/// A ledger that says nothing of what a device must hold.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HistoryError {
    /// No first record.
    #[error("the ledger does not begin with what it is about")]
    NotBegun,
    /// A format of another version.
    #[error("the ledger's format is {0}, and this program knows {FORMAT} only")]
    Format(u32),
    /// The writer ended before every block had its first version.
    #[error("the ledger's writer ended before it had prepared the range")]
    NotPrepared,
    /// A record contradicts those before it.
    #[error("the ledger contradicts itself: {0}")]
    Contradiction(String),
}

impl History {
    /// What `records` say.
    ///
    /// # Errors
    /// [`HistoryError`] when they say nothing, or contradict each other.
    pub fn replay(records: &[Record]) -> Result<Self, HistoryError> {
        let Some(Record::Begun { format, run, offset_bytes, blocks }) = records.first() else {
            return Err(HistoryError::NotBegun);
        };
        if *format != FORMAT {
            return Err(HistoryError::Format(*format));
        }
        let count = usize::try_from(*blocks).unwrap_or(usize::MAX);
        let mut history = Self {
            run: *run,
            offset_bytes: *offset_bytes,
            expectations: vec![Expectation { floor: 1, in_doubt: Vec::new() }; count],
            flushed_writes: 0,
            next_sequence: 2,
            next_batch: 1,
        };
        let mut open: HashMap<(u64, u64), &[BlockVersion]> = HashMap::new();
        let mut is_prepared = false;
        for record in records.iter().skip(1) {
            match record {
                Record::Begun { .. } => return Err(contradiction("it begins twice")),
                Record::Prepared => is_prepared = true,
                Record::Issued { writer, batch, writes } => {
                    history.next_batch = history.next_batch.max(batch + 1);
                    for &(block, sequence) in writes {
                        history.next_sequence = history.next_sequence.max(sequence + 1);
                        history.expectation(block)?.in_doubt.push(sequence);
                    }
                    if open.insert((*writer, *batch), writes).is_some() {
                        return Err(contradiction("a batch is issued twice"));
                    }
                }
                Record::Flushed { writer, batch } => {
                    let writes = open
                        .remove(&(*writer, *batch))
                        .ok_or_else(|| contradiction("a batch is flushed that was not issued"))?;
                    for &(block, sequence) in writes {
                        history.expectation(block)?.raise(sequence);
                    }
                    history.flushed_writes += u64::try_from(writes.len()).unwrap_or_default();
                }
                Record::Settled { found } => {
                    for &(block, sequence) in found {
                        let expectation = history.expectation(block)?;
                        expectation.floor = sequence;
                        expectation.in_doubt.clear();
                    }
                    // A flush may still be acknowledged late: then what it covers must be there.
                }
            }
        }
        if is_prepared { Ok(history) } else { Err(HistoryError::NotPrepared) }
    }

    fn expectation(&mut self, block: u64) -> Result<&mut Expectation, HistoryError> {
        usize::try_from(block)
            .ok()
            .and_then(|number| self.expectations.get_mut(number))
            .ok_or_else(|| contradiction("a block is named that is not in the range"))
    }
}

impl Expectation {
    /// Version `sequence` is there for good, unless a later one is.
    fn raise(&mut self, sequence: u64) {
        self.floor = self.floor.max(sequence);
        self.in_doubt.retain(|&later| later > self.floor);
    }

    /// Whether the block may hold `sequence`.
    #[must_use]
    pub fn allows(&self, sequence: u64) -> bool {
        sequence == self.floor || self.in_doubt.contains(&sequence)
    }
}

fn contradiction(what: &str) -> HistoryError {
    HistoryError::Contradiction(what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun() -> Record {
        Record::Begun { format: 1, run: 5, offset_bytes: 0, blocks: 4 }
    }

    fn issued(batch: u64, writes: &[BlockVersion]) -> Record {
        Record::Issued { writer: 0, batch, writes: writes.to_vec() }
    }

    fn flushed(batch: u64) -> Record {
        Record::Flushed { writer: 0, batch }
    }

    #[test]
    fn a_flush_raises_the_floor_of_its_own_batch_only() {
        let records = [
            begun(),
            Record::Prepared,
            issued(1, &[(0, 2), (1, 3), (0, 4)]),
            flushed(1),
            issued(2, &[(0, 5), (2, 6)]),
        ];
        let history = History::replay(&records).expect("replays");
        let found: Vec<_> =
            history.expectations.iter().map(|e| (e.floor, e.in_doubt.clone())).collect();
        assert_eq!(found, [(4, vec![5]), (3, vec![]), (1, vec![6]), (1, vec![])]);
        assert_eq!((history.next_sequence, history.next_batch), (7, 3));
        assert_eq!(history.flushed_writes, 3);
    }

    #[test]
    fn what_failed_stays_in_doubt_until_a_later_version_is_flushed() {
        let records = [
            begun(),
            Record::Prepared,
            issued(1, &[(0, 2), (1, 3)]), // its flush failed
            issued(2, &[(0, 4)]),
            flushed(2),
        ];
        let history = History::replay(&records).expect("replays");
        assert_eq!(history.expectations[0], Expectation { floor: 4, in_doubt: vec![] });
        assert_eq!(history.expectations[1], Expectation { floor: 1, in_doubt: vec![3] });
    }

    #[test]
    fn what_was_found_after_a_crash_is_the_only_version_left() {
        let records = [
            begun(),
            Record::Prepared,
            issued(1, &[(0, 2), (0, 3)]),
            Record::Settled { found: vec![(0, 2)] },
            issued(2, &[(1, 4)]),
        ];
        let history = History::replay(&records).expect("replays");
        assert!(history.expectations[0].allows(2));
        assert!(!history.expectations[0].allows(1), "older");
        assert!(!history.expectations[0].allows(3), "a write that came back from the dead");
    }

    #[test]
    fn a_flush_acknowledged_after_the_blocks_were_found_binds_them() {
        for (found, floor) in [(2, 3), (3, 3)] {
            let records = [
                begun(),
                Record::Prepared,
                issued(1, &[(0, 2), (0, 3)]),
                Record::Settled { found: vec![(0, found)] },
                flushed(1),
            ];
            let history = History::replay(&records).expect("replays");
            assert_eq!(history.expectations[0], Expectation { floor, in_doubt: vec![] });
        }
    }

    #[test]
    fn ledgers_that_say_nothing_are_refused() {
        let cases = [
            (vec![], "begin"),
            (vec![Record::Prepared], "begin"),
            (vec![begun()], "prepared"),
            (vec![Record::Begun { format: 2, run: 0, offset_bytes: 0, blocks: 1 }], "format is 2"),
            (vec![begun(), begun()], "twice"),
            (vec![begun(), issued(1, &[(4, 2)])], "not in the range"),
            (vec![begun(), flushed(1)], "not issued"),
            (vec![begun(), issued(1, &[]), issued(1, &[])], "issued twice"),
        ];
        for (records, says) in cases {
            let error = History::replay(&records).expect_err(says);
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
