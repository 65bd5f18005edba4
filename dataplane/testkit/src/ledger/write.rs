//! Writers that keep account.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use thiserror::Error;

use super::block::{BLOCK_BYTES, fill_block};
use super::history::History;
use super::record::{BlockVersion, Record};
use super::stamps::{Stamp, StampKind};
use crate::aligned::AlignedBuffer;
use crate::random::Random;
use crate::target::Target;

/// Blocks written at once while the range is prepared.
const CHUNK_BLOCKS: u64 = 256;
/// Failures described; all are counted.
const DESCRIBED: usize = 8;
/// Between two tries after a failure.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// What to write.
#[derive(Debug, Clone)]
pub struct WritePlan {
    /// In every block; another run's blocks are not this one's.
    pub run: u64,
    /// Repeats the places.
    pub seed: u64,
    /// Where the first block begins.
    pub offset_bytes: u64,
    /// How many blocks there are.
    pub blocks: u64,
    /// Threads; each block belongs to one of them.
    pub writers: u64,
    /// Writes between two flushes of a writer, on average.
    pub writes_per_flush: u64,
    /// At most so many writes, all writers together; None is as fast as can be.
    pub writes_per_s: Option<u64>,
    /// Ends when this has passed.
    pub time_limit: Option<Duration>,
    /// Go on after a failure, and write whatever can be written.
    pub keep_trying: bool,
}

/// Where account is kept, or what a test puts in its place.
pub trait Account: Send {
    /// Keep `record`; it is durable when this returns.
    ///
    /// # Errors
    /// As `write`.
    fn record(&mut self, record: &Record) -> io::Result<()>;

    /// Keep `stamp`, which a crash of the machine may lose.
    ///
    /// # Errors
    /// As `write`.
    fn stamp(&mut self, stamp: &Stamp) -> io::Result<()>;

    /// Whether somebody asked the writers to end.
    fn is_stopped(&self) -> bool;
}

/// An operation that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// `write` or `flush`.
    pub operation: &'static str,
    /// The block, of a write.
    pub block: Option<u64>,
    /// The version, of a write.
    pub sequence: Option<u64>,
    /// In words.
    pub error: String,
    /// The system's number, if it has one.
    pub errno: Option<i32>,
    /// When it was issued, in nanoseconds since 1970.
    pub issued_ns: u64,
    /// When it was answered, in nanoseconds since 1970.
    pub answered_ns: u64,
}

/// What was written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WriteSummary {
    /// In every block.
    pub run: u64,
    /// Writes acknowledged.
    pub writes: u64,
    /// Flushes acknowledged.
    pub flushes: u64,
    /// The longest time between two acknowledgements.
    pub longest_wait_ms: u64,
    /// The longest that one operation took.
    pub longest_operation_ms: u64,
    /// When the last acknowledged write was answered, in nanoseconds since 1970.
    pub last_write_ns: Option<u64>,
    /// Operations that failed.
    pub failures: u64,
    /// The first of them.
    pub described: Vec<Failure>,
}

/// Why nothing (more) could be written on account.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The plan cannot be carried out.
    #[error("the plan does not fit the target: {0}")]
    Plan(String),
    /// The first version of all blocks could not be written.
    #[error("the range cannot be prepared: {0}")]
    Prepare(io::Error),
    /// The account cannot be kept.
    #[error("the ledger cannot be written: {0}")]
    Account(io::Error),
}

/// What the writers share.
struct Writers<'a> {
    target: &'a dyn Target,
    plan: &'a WritePlan,
    account: Mutex<&'a mut dyn Account>,
    tally: Mutex<Tally>,
    next_sequence: AtomicU64,
    first_batch: u64,
    deadline: Option<Instant>,
    ended: AtomicBool,
}

struct Tally {
    summary: WriteSummary,
    last_answer: Instant,
}

/// Write as `plan` says until it is over, the account says so, or the target fails.
///
/// With a `history`, go on with its ledger; else begin one, and give every block its first
/// version.
///
/// # Errors
/// [`WriteError`]; that the target failed is in the summary.
pub fn write_ledger(
    target: &dyn Target,
    account: &mut dyn Account,
    plan: &WritePlan,
    history: Option<&History>,
) -> Result<WriteSummary, WriteError> {
    if plan.writers == 0 || plan.blocks < plan.writers || plan.writes_per_flush == 0 {
        return Err(WriteError::Plan("each writer needs a block, and writes to flush".to_owned()));
    }
    if history.is_none() {
        prepare(target, account, plan)?;
    }
    let start = Instant::now();
    let summary = WriteSummary { run: plan.run, ..WriteSummary::default() };
    let writers = Writers {
        target,
        plan,
        account: Mutex::new(account),
        tally: Mutex::new(Tally { summary, last_answer: start }),
        next_sequence: AtomicU64::new(history.map_or(2, |history| history.next_sequence)),
        first_batch: history.map_or(1, |history| history.next_batch),
        deadline: plan.time_limit.map(|limit| start + limit),
        ended: AtomicBool::new(false),
    };
    let results: Vec<io::Result<()>> = thread::scope(|scope| {
        let started: Vec<_> = (0..plan.writers)
            .map(|number| {
                let writers = &writers;
                scope.spawn(move || writers.run(number))
            })
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, io::Result<()>>| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        started.into_iter().map(join).collect()
    });
    results.into_iter().collect::<io::Result<()>>().map_err(WriteError::Account)?;
    Ok(writers.tally.into_inner().unwrap_or_else(PoisonError::into_inner).summary)
}

fn prepare(
    target: &dyn Target,
    account: &mut dyn Account,
    plan: &WritePlan,
) -> Result<(), WriteError> {
    let WritePlan { run, offset_bytes, blocks, .. } = *plan;
    account
        .record(&Record::Begun { format: 1, run, offset_bytes, blocks })
        .map_err(WriteError::Account)?;
    let mut buffer = AlignedBuffer::zeroed(to_usize(CHUNK_BLOCKS) * BLOCK_BYTES);
    let mut block = 0;
    while block < blocks {
        let count = CHUNK_BLOCKS.min(blocks - block);
        let bytes = buffer.head_mut(to_usize(count) * BLOCK_BYTES);
        for (number, into) in (block..).zip(bytes.chunks_mut(BLOCK_BYTES)) {
            fill_block(into, run, number, 1);
        }
        target.write_at(bytes, place(plan, block)).map_err(WriteError::Prepare)?;
        block += count;
    }
    target.sync().map_err(WriteError::Prepare)?;
    account.record(&Record::Prepared).map_err(WriteError::Account)
}

impl<'a> Writers<'a> {
    /// One writer's batches until the end. Fails only when the account does.
    fn run(&self, writer: u64) -> io::Result<()> {
        let result = self.run_batches(writer);
        if result.is_err() {
            self.ended.store(true, Ordering::Release);
        }
        result
    }

    fn run_batches(&self, writer: u64) -> io::Result<()> {
        let stream = writer ^ self.first_batch.rotate_left(32);
        let mut random = Random::of_stream(self.plan.seed, stream);
        let mut buffer = AlignedBuffer::zeroed(BLOCK_BYTES);
        let mut batch = self.first_batch;
        let start = Instant::now();
        let mut paced: u64 = 0;
        while !self.is_over() {
            let chosen = self.choose(writer, &mut random);
            self.account().record(&Record::Issued { writer, batch, writes: chosen.clone() })?;
            let mut is_whole = true;
            for (block, sequence) in chosen {
                if let Some(pause) = self.pause_before(paced, start) {
                    thread::sleep(pause);
                }
                paced += 1;
                fill_block(&mut buffer, self.plan.run, block, sequence);
                is_whole = self.write(writer, block, sequence, &buffer)?;
                if !is_whole {
                    break;
                }
            }
            if is_whole && self.flush(writer)? {
                self.account().record(&Record::Flushed { writer, batch })?;
            } else if self.plan.keep_trying {
                thread::sleep(RETRY_PAUSE);
            } else {
                self.ended.store(true, Ordering::Release);
            }
            batch += 1;
        }
        Ok(())
    }

    /// Blocks of this writer, each with a version of its own.
    fn choose(&self, writer: u64, random: &mut Random) -> Vec<BlockVersion> {
        let WritePlan { blocks, writers, writes_per_flush, .. } = *self.plan;
        let count = 1 + random.below(2 * writes_per_flush - 1);
        let own = (blocks - writer).div_ceil(writers);
        let mut choice = || {
            let block = writer + random.below(own) * writers;
            (block, self.next_sequence.fetch_add(1, Ordering::AcqRel))
        };
        (0..count).map(|_| choice()).collect()
    }

    fn pause_before(&self, done: u64, start: Instant) -> Option<Duration> {
        let per_s = self.plan.writes_per_s.filter(|&rate| rate > 0)?;
        let due = Duration::from_millis(done * self.plan.writers * 1000 / per_s);
        due.checked_sub(start.elapsed())
    }

    fn write(&self, writer: u64, block: u64, sequence: u64, bytes: &[u8]) -> io::Result<bool> {
        let issued = Issued::now();
        let result = self.target.write_at(bytes, place(self.plan, block));
        self.answer(writer, "write", Some((block, sequence)), issued, result)
    }

    fn flush(&self, writer: u64) -> io::Result<bool> {
        let issued = Issued::now();
        let result = self.target.sync();
        self.answer(writer, "flush", None, issued, result)
    }

    /// Account for an answer; whether it was an acknowledgement.
    fn answer(
        &self,
        writer: u64,
        operation: &'static str,
        version: Option<BlockVersion>,
        issued: Issued,
        result: io::Result<()>,
    ) -> io::Result<bool> {
        let (answered, now) = (wall_clock_ns(), Instant::now());
        let kind = match (&result, version) {
            (Err(_), _) => StampKind::Failure,
            (Ok(()), Some(_)) => StampKind::Write,
            (Ok(()), None) => StampKind::Flush,
        };
        let stamp = Stamp { kind, issued_ns: issued.at_ns, answered_ns: answered, writer };
        self.account().stamp(&stamp)?;
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = now.saturating_duration_since(tally.last_answer);
        let summary = &mut tally.summary;
        summary.longest_wait_ms = summary.longest_wait_ms.max(to_ms(wait));
        let took = now.saturating_duration_since(issued.at);
        summary.longest_operation_ms = summary.longest_operation_ms.max(to_ms(took));
        match result {
            Ok(()) if kind == StampKind::Write => {
                summary.writes += 1;
                summary.last_write_ns = summary.last_write_ns.max(Some(answered));
            }
            Ok(()) => summary.flushes += 1,
            Err(error) => {
                summary.failures += 1;
                if summary.described.len() < DESCRIBED {
                    summary.described.push(Failure {
                        operation,
                        block: version.map(|(block, _)| block),
                        sequence: version.map(|(_, sequence)| sequence),
                        errno: error.raw_os_error(),
                        error: error.to_string(),
                        issued_ns: issued.at_ns,
                        answered_ns: answered,
                    });
                }
            }
        }
        tally.last_answer = now;
        Ok(kind != StampKind::Failure)
    }

    fn is_over(&self) -> bool {
        self.ended.load(Ordering::Acquire)
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
            || self.account().is_stopped()
    }

    fn account(&self) -> MutexGuard<'_, &'a mut dyn Account> {
        // A poisoned account is whole: each call appends one line.
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When an operation began, for people and for arithmetic.
#[derive(Clone, Copy)]
struct Issued {
    at: Instant,
    at_ns: u64,
}

impl Issued {
    fn now() -> Self {
        Self { at: Instant::now(), at_ns: wall_clock_ns() }
    }
}

fn wall_clock_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn to_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn place(plan: &WritePlan, block: u64) -> u64 {
    plan.offset_bytes + block * u64::try_from(BLOCK_BYTES).unwrap_or_default()
}

fn to_usize(count: u64) -> usize {
    // At most CHUNK_BLOCKS.
    usize::try_from(count).unwrap_or_default()
}
