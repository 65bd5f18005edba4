//! Random operations at every alignment against a model in memory.
//!
//! Workers have stripes of their own, which may meet inside a sector or a page, and do one
//! operation at a time each; a checker reads ranges anywhere, across stripes, all the while. Each
//! worker's operations depend on the seed, its number and the plan alone: how they interleave
//! does not repeat, what they are does.

mod operation;
mod stripe;

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use thiserror::Error;

pub use operation::{Bounds, Kind, Operation, decide_operation, decide_range};
pub use stripe::Mismatch;
use stripe::Stripe;
pub(crate) use stripe::part_mut;

use crate::aligned::AlignedBuffer;
use crate::random::Random;
use crate::target::{Alignment, Target};

/// More would be a model that does not fit into memory.
const MAX_RANGE_BYTES: u64 = 4 << 30;
/// The stream of the checker; workers have theirs from 0 on.
const CHECKER_STREAM: u64 = 1 << 32;

/// What to do.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Repeats the operations.
    pub seed: u64,
    /// Of all workers together.
    pub operations: u64,
    /// Threads with a stripe each.
    pub workers: usize,
    /// The bytes of the target to work on; nobody else may change them.
    pub range: Range<u64>,
    /// The longest operation.
    pub max_transfer_bytes: u64,
    /// Ends earlier when this has passed.
    pub time_limit: Option<Duration>,
}

/// What was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Operations of the workers.
    pub operations: u64,
    /// Bytes written or zeroed.
    pub changed_bytes: u64,
    /// Bytes compared, the last full pass included.
    pub compared_bytes: u64,
    /// Reads of the checker, across stripes.
    pub checks: u64,
}

/// Why an exercise ended early.
#[derive(Debug, Error)]
pub enum ExerciseError {
    /// The plan cannot be carried out.
    #[error("the plan does not fit the target: {0}")]
    Plan(String),
    /// The target failed.
    #[error("{what} failed: {source}")]
    Io {
        /// The operation.
        what: String,
        /// Its error.
        source: io::Error,
    },
    /// The target holds something else than was written.
    #[error("{0}")]
    Mismatch(Box<Mismatch>),
}

/// What the threads share.
struct Exercise<'a> {
    target: &'a dyn Target,
    plan: &'a Plan,
    stripes: Vec<Mutex<Stripe>>,
    alignment: Alignment,
    deadline: Option<Instant>,
    working: AtomicUsize,
    failed: AtomicBool,
    failure: Mutex<Option<ExerciseError>>,
}

/// Carry out `plan`.
///
/// # Errors
/// [`ExerciseError`], the first one met.
pub fn exercise(target: &dyn Target, plan: &Plan) -> Result<Summary, ExerciseError> {
    let alignment = target.alignment();
    let stripes = split(&plan.range, plan.workers, alignment.stripe_bytes)?;
    if plan.range.end > target.size_bytes().map_err(|source| failure("asking the size", source))? {
        return Err(ExerciseError::Plan("the range ends after the target".to_owned()));
    }
    if plan.max_transfer_bytes < alignment.range_bytes.max(alignment.io_bytes) {
        return Err(ExerciseError::Plan("the longest operation is less than a sector".to_owned()));
    }
    let models: Result<Vec<_>, _> = stripes
        .iter()
        .enumerate()
        .map(|(worker, range)| read_model(target, worker, range).map(Mutex::new))
        .collect();
    let exercise = Exercise {
        target,
        plan,
        stripes: models?,
        alignment,
        deadline: plan.time_limit.map(|limit| Instant::now() + limit),
        working: AtomicUsize::new(stripes.len()),
        failed: AtomicBool::new(false),
        failure: Mutex::new(None),
    };
    let mut summary = thread::scope(|scope| {
        let workers: Vec<_> = (0..stripes.len())
            .map(|worker| {
                let exercise = &exercise;
                scope.spawn(move || exercise.work(worker))
            })
            .collect();
        let mut total = exercise.check();
        for worker in workers {
            // A worker that panicked has lost its sums; the panic itself goes on to our caller.
            match worker.join() {
                Ok(done) => total.add(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        total
    });
    let failed = exercise.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(error) = failed {
        return Err(error);
    }
    summary.compared_bytes += exercise.compare_all()?;
    Ok(summary)
}

impl Summary {
    fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.changed_bytes += other.changed_bytes;
        self.compared_bytes += other.compared_bytes;
        self.checks += other.checks;
    }
}

impl Exercise<'_> {
    /// One worker's operations; its failure is left in `failure`.
    fn work(&self, worker: usize) -> Summary {
        let mut done = Summary::default();
        if let Err(error) = self.work_until_end(worker, &mut done) {
            self.fail(error);
        }
        self.working.fetch_sub(1, Ordering::AcqRel);
        done
    }

    fn work_until_end(&self, worker: usize, done: &mut Summary) -> Result<(), ExerciseError> {
        let workers = to_u64(self.stripes.len());
        let number = to_u64(worker);
        let operations = (self.plan.operations + workers - 1 - number) / workers;
        let mut random = Random::of_stream(self.plan.seed, number);
        let Some(stripe) = self.stripes.get(worker) else { return Ok(()) };
        let bounds = Bounds {
            range: lock(stripe).range(),
            alignment: self.alignment,
            max_transfer_bytes: self.plan.max_transfer_bytes,
            has_discard: self.target.has_discard(),
        };
        let mut buffer = AlignedBuffer::zeroed(to_usize(self.plan.max_transfer_bytes));
        while done.operations < operations && !self.is_over() {
            let operation = decide_operation(&mut random, &bounds);
            let payload = buffer.head_mut(to_usize(operation.count));
            // Held while the target works: whoever reads this stripe sees it before or after.
            let mut model = lock(stripe);
            if operation.kind != Kind::Read {
                model.apply(&operation, payload);
            }
            if let Err(source) = perform(self.target, &operation, payload) {
                // Before the stripe is let go: nobody knows what it holds now, and the checker
                // would call that a mismatch, and be the first to.
                self.fail(failure(&operation.to_string(), source));
                break;
            }
            if operation.kind == Kind::Read {
                let reader = format!("worker {worker}'s own {operation}");
                model.compare(&reader, operation.at, payload).map_err(ExerciseError::Mismatch)?;
                done.compared_bytes += operation.count;
            } else {
                done.changed_bytes += operation.count;
            }
            done.operations += 1;
        }
        Ok(())
    }

    /// Read anywhere, across stripes, until the workers are done.
    fn check(&self) -> Summary {
        let mut done = Summary::default();
        let mut random = Random::of_stream(self.plan.seed, CHECKER_STREAM);
        let mut buffer = AlignedBuffer::zeroed(to_usize(self.plan.max_transfer_bytes));
        while self.working.load(Ordering::Acquire) > 0 && !self.is_over() {
            let (at, count) = decide_range(
                &mut random,
                &self.plan.range,
                self.alignment.io_bytes,
                self.plan.max_transfer_bytes,
            );
            let into = buffer.head_mut(to_usize(count));
            if let Err(error) = self.compare(at, into, "the checker") {
                self.fail(error);
            }
            done.checks += 1;
            done.compared_bytes += count;
            // Reads are cheap where writes are not: leave the target to the workers in between.
            thread::sleep(Duration::from_micros(200));
        }
        done
    }

    fn compare(&self, at: u64, into: &mut [u8], reader: &str) -> Result<(), ExerciseError> {
        let end = at + to_u64(into.len());
        // Always in ascending order, so that nobody waits in a circle.
        let locked: Vec<_> = self
            .stripes
            .iter()
            .map(lock)
            .filter(|stripe| stripe.range().start < end && at < stripe.range().end)
            .collect();
        if self.failed.load(Ordering::Acquire) {
            return Ok(()); // while it waited: what a failed operation left is nobody's to judge
        }
        self.target
            .read_at(into, at)
            .map_err(|source| failure(&format!("{reader}'s read {at:#x}..{end:#x}"), source))?;
        let reader = format!("{reader}'s read {at:#x}..{end:#x}");
        locked
            .iter()
            .try_for_each(|stripe| stripe.compare(&reader, at, into))
            .map_err(ExerciseError::Mismatch)
    }

    fn compare_all(&self) -> Result<u64, ExerciseError> {
        self.target.sync().map_err(|source| failure("the last sync", source))?;
        let mut buffer = AlignedBuffer::zeroed(to_usize(self.plan.max_transfer_bytes));
        let mut at = self.plan.range.start;
        while at < self.plan.range.end {
            let count = self.plan.max_transfer_bytes.min(self.plan.range.end - at);
            self.compare(at, buffer.head_mut(to_usize(count)), "the last pass")?;
            at += count;
        }
        Ok(self.plan.range.end - self.plan.range.start)
    }

    fn is_over(&self) -> bool {
        self.failed.load(Ordering::Acquire)
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn fail(&self, error: ExerciseError) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.failed.store(true, Ordering::Release);
    }
}

/// One operation on the target; `payload` is what a write writes, or where a read puts it.
fn perform(target: &dyn Target, operation: &Operation, payload: &mut [u8]) -> io::Result<()> {
    let Operation { at, count, .. } = *operation;
    match operation.kind {
        Kind::Read => target.read_at(payload, at),
        Kind::Write => target.write_at(payload, at),
        Kind::PunchHole => target.punch_hole(at, count),
        Kind::ZeroRange => target.zero_range(at, count),
        Kind::Discard => target.discard(at, count),
        Kind::Sync => target.sync(),
    }
}

/// As many parts as there are workers, about equally long, that meet at multiples of `align`.
fn split(range: &Range<u64>, workers: usize, align: u64) -> Result<Vec<Range<u64>>, ExerciseError> {
    let refuse = |why: &str| Err(ExerciseError::Plan(why.to_owned()));
    let length = range.end.saturating_sub(range.start);
    if length > MAX_RANGE_BYTES {
        return refuse("more than 4 GiB at a time; name a part with --length");
    }
    let units = length / align;
    let workers = to_u64(workers);
    if workers == 0 || units < workers {
        return refuse("the range has less than one block for each worker");
    }
    if range.start % align != 0 || range.end % align != 0 {
        return refuse("the range does not begin and end at a block");
    }
    let edge = |number: u64| range.start + units * number / workers * align;
    let parts = (0..workers).map(|number| edge(number)..edge(number + 1));
    Ok(parts.collect())
}

fn read_model(
    target: &dyn Target,
    worker: usize,
    range: &Range<u64>,
) -> Result<Stripe, ExerciseError> {
    const CHUNK_BYTES: u64 = 1 << 20;
    let mut bytes = Vec::with_capacity(to_usize(range.end - range.start));
    let mut buffer = AlignedBuffer::zeroed(to_usize(CHUNK_BYTES));
    let mut at = range.start;
    while at < range.end {
        let count = CHUNK_BYTES.min(range.end - at);
        let into = buffer.head_mut(to_usize(count));
        target.read_at(into, at).map_err(|source| failure("the first read", source))?;
        bytes.extend_from_slice(into);
        at += count;
    }
    Ok(Stripe::new(worker, range.start, bytes))
}

fn failure(what: &str, source: io::Error) -> ExerciseError {
    ExerciseError::Io { what: what.to_owned(), source }
}

fn lock(stripe: &Mutex<Stripe>) -> MutexGuard<'_, Stripe> {
    stripe.lock().unwrap_or_else(PoisonError::into_inner)
}

fn to_u64(count: usize) -> u64 {
    // No platform has a usize wider than 64 bits.
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn to_usize(count: u64) -> usize {
    // Limited by MAX_RANGE_BYTES; on a 32-bit machine the allocation fails.
    usize::try_from(count).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
