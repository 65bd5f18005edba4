//! What a flush acknowledged, on account elsewhere.
//!
//! A writer fills a range with self-describing blocks at random places, and records in its
//! ledger, a file on other storage, what it is about to write, and what a flush has acknowledged
//! before it goes on. After a crash of anything but the ledger's storage, [`verify`] compares:
//! every block must hold a version that was issued for it, no older than the last one flushed,
//! and none torn (INV-1 of `docs/invariants/` for the direct write path).
//!
//! Writers may also stamp each acknowledged write with the time: two writers' stamps show that
//! they never could write at the same time (INV-2).

mod block;
mod history;
mod record;
mod stamps;
mod verify;
mod write;

pub use block::{BLOCK_BYTES, BlockContent, fill_block, read_block};
pub use history::{Expectation, History, HistoryError};
pub use record::{BlockVersion, LedgerFile, Record, read_records};
pub use stamps::{
    Overlap, Stamp, StampKind, Window, classify_overlap, observe_window, parse_stamps,
};
pub use verify::{Fault, Verification, classify_block, verify};
pub use write::{Account, Failure, WriteError, WritePlan, WriteSummary, write_ledger};

#[cfg(test)]
mod tests;
