//! The ledger file: one JSON record a line, durable before it is acted upon.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

/// A block's number within the range, and a version of it.
pub type BlockVersion = (u64, u64);

/// One line of a ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Record {
    /// The first line: what the ledger is about.
    Begun {
        /// The version of this format: 1.
        format: u32,
        /// In every block of this ledger.
        run: u64,
        /// Where the first block begins.
        offset_bytes: u64,
        /// How many blocks there are.
        blocks: u64,
    },
    /// Every block holds version 1, flushed.
    Prepared,
    /// About to be written, in this order.
    Issued {
        /// Which writer.
        writer: u64,
        /// Counted by this writer, over all its runs.
        batch: u64,
        /// What.
        writes: Vec<BlockVersion>,
    },
    /// All of the batch was written, and then a flush was acknowledged.
    Flushed {
        /// Which writer.
        writer: u64,
        /// Which batch.
        batch: u64,
    },
    /// After a crash, these blocks, of which several versions were possible, held these: no
    /// other version of them may appear any more unless it is written anew.
    Settled {
        /// What was found.
        found: Vec<BlockVersion>,
    },
}

/// A ledger that is being written.
#[derive(Debug)]
pub struct LedgerFile {
    file: File,
}

impl LedgerFile {
    /// A new ledger.
    ///
    /// # Errors
    /// As `open`; `AlreadyExists` when there is a file.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::open(OpenOptions::new().create_new(true), path)
    }

    /// Go on with a ledger.
    ///
    /// # Errors
    /// As `open`; `NotFound` when there is no file.
    pub fn append_to(path: &Path) -> io::Result<Self> {
        let mut ledger = Self::open(&mut OpenOptions::new(), path)?;
        // A line that was cut off, were it the last, must not swallow the next one.
        ledger.file.write_all(b"\n")?;
        Ok(ledger)
    }

    fn open(options: &mut OpenOptions, path: &Path) -> io::Result<Self> {
        let durable = i32::try_from(OFlags::DSYNC.bits()).map_err(io::Error::other)?;
        Ok(Self { file: options.append(true).custom_flags(durable).open(path)? })
    }

    /// Append `record`; it is durable afterwards.
    ///
    /// # Errors
    /// As `write`.
    pub fn append(&mut self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        self.file.write_all(&line)
    }
}

/// The records of a ledger's text. A line that was cut off, the last or one before an
/// [`LedgerFile::append_to`], was not acted upon and counts as not written.
#[must_use]
pub fn read_records(text: &str) -> Vec<Record> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_a_cut_line_is_left_out() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("ledger");
        let begun = Record::Begun { format: 1, run: 5, offset_bytes: 4096, blocks: 8 };
        let issued = Record::Issued { writer: 0, batch: 1, writes: vec![(3, 2), (4, 3)] };
        let flushed = Record::Flushed { writer: 0, batch: 1 };
        let mut ledger = LedgerFile::create(&path).expect("creates");
        ledger.append(&begun).expect("appends");
        ledger.append(&issued).expect("appends");
        let whole = std::fs::read(&path).expect("reads");
        std::fs::write(&path, &whole[..whole.len() - 5]).expect("cuts");
        assert!(LedgerFile::create(&path).is_err(), "it is there already");
        let mut ledger = LedgerFile::append_to(&path).expect("opens");
        ledger.append(&flushed).expect("appends");
        let text = std::fs::read_to_string(&path).expect("reads");
        assert_eq!(read_records(&text), [begun, flushed]);
    }
}
