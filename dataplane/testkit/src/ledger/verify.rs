//! Whether every block holds what it must.

use std::fmt;
use std::io;

use serde::Serialize;

use super::block::{BLOCK_BYTES, BlockContent, read_block};
use super::history::{Expectation, History};
use super::record::{BlockVersion, Record};
use crate::aligned::AlignedBuffer;
use crate::target::Target;

/// Blocks read at once.
const CHUNK_BLOCKS: usize = 256;
/// Faults described; all are counted.
const DESCRIBED: usize = 20;

/// What is wrong with a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// An older version than the last one flushed.
    Lost {
        /// What is there.
        found: u64,
        /// What was flushed, or found after an earlier crash.
        floor: u64,
    },
    /// Parts of several versions.
    Torn {
        /// By sector.
        sequences: Vec<Option<u64>>,
    },
    /// A version that was not issued, or that an earlier crash had taken away.
    Ghost {
        /// What is there.
        found: u64,
    },
    /// What was written for another block, or by another run.
    Misplaced {
        /// The run it belongs to.
        run: u64,
        /// The block it belongs to.
        block: u64,
    },
    /// Nothing that was ever written here.
    Foreign,
}

impl fmt::Display for Fault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { found, floor } => {
                write!(to, "a flushed write is lost: version {found} instead of {floor} or later")
            }
            Self::Torn { sequences } => {
                write!(to, "torn: the versions of its sectors are {sequences:?}")
            }
            Self::Ghost { found } => {
                write!(to, "version {found} was not issued, or was gone after a crash")
            }
            Self::Misplaced { run, block } => write!(to, "holds block {block} of run {run:#x}"),
            Self::Foreign => write!(to, "holds nothing that a ledger's writer wrote"),
        }
    }
}

/// What was found on the whole range.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// Blocks read and judged.
    pub blocks: u64,
    /// Writes that the ledger says were acknowledged by a flush.
    pub flushed_writes: u64,
    /// Blocks of which more than one version was possible.
    pub in_doubt: u64,
    /// Of those, blocks that hold a version which no flush had acknowledged.
    pub kept_unflushed: u64,
    /// Blocks with a fault.
    pub faults: u64,
    /// The first of them, in words.
    pub described: Vec<String>,
    /// What the blocks in doubt held.
    #[serde(skip)]
    pub settled: Vec<BlockVersion>,
}

impl Verification {
    /// The record that makes later verifications hold the device to what it has shown now.
    #[must_use]
    pub fn settlement(&self) -> Record {
        Record::Settled { found: self.settled.clone() }
    }
}

/// The version that `bytes` hold, which is one that block `number` of `run` may hold.
///
/// # Errors
/// [`Fault`] otherwise.
pub fn classify_block(
    bytes: &[u8],
    run: u64,
    number: u64,
    expectation: &Expectation,
) -> Result<u64, Fault> {
    match read_block(bytes) {
        BlockContent::Foreign => Err(Fault::Foreign),
        BlockContent::Torn { sequences } => Err(Fault::Torn { sequences }),
        BlockContent::Whole { run: found, block, .. } if (found, block) != (run, number) => {
            Err(Fault::Misplaced { run: found, block })
        }
        BlockContent::Whole { sequence, .. } if expectation.allows(sequence) => Ok(sequence),
        BlockContent::Whole { sequence, .. } if sequence < expectation.floor => {
            Err(Fault::Lost { found: sequence, floor: expectation.floor })
        }
        BlockContent::Whole { sequence, .. } => Err(Fault::Ghost { found: sequence }),
    }
}

/// Read and judge every block of `history`.
///
/// # Errors
/// As reading the target.
pub fn verify(target: &dyn Target, history: &History) -> io::Result<Verification> {
    let mut buffer = AlignedBuffer::zeroed(CHUNK_BLOCKS * BLOCK_BYTES);
    let mut result =
        Verification { flushed_writes: history.flushed_writes, ..Verification::default() };
    let mut at = history.offset_bytes;
    for chunk in history.expectations.chunks(CHUNK_BLOCKS) {
        let bytes = buffer.head_mut(chunk.len() * BLOCK_BYTES);
        target.read_at(bytes, at)?;
        for (block, expectation) in bytes.chunks(BLOCK_BYTES).zip(chunk) {
            result.judge(block, history.run, expectation);
        }
        at += u64::try_from(bytes.len()).unwrap_or_default();
    }
    Ok(result)
}

impl Verification {
    fn judge(&mut self, bytes: &[u8], run: u64, expectation: &Expectation) {
        let number = self.blocks;
        self.blocks += 1;
        self.in_doubt += u64::from(!expectation.in_doubt.is_empty());
        match classify_block(bytes, run, number, expectation) {
            Ok(sequence) => {
                self.kept_unflushed += u64::from(sequence != expectation.floor);
                if !expectation.in_doubt.is_empty() {
                    self.settled.push((number, sequence));
                }
            }
            Err(fault) => {
                self.faults += 1;
                if self.described.len() < DESCRIBED {
                    self.described.push(format!("block {number}: {fault}"));
                }
            }
        }
    }
}
