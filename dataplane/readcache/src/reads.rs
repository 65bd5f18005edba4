//! Reads that are answered from the file, on threads of their own.

use std::io;
use std::sync::Arc;

use grampus_blockdev::{Buffer, ByteRange, Completion, Length, Offset, Outcome};

use crate::index::{Place, Verdict};
use crate::sectors::{SECTOR_BYTES, overlap};
use crate::shared::Shared;
use crate::sinks::forward_read;
use crate::store::Store;

/// A read that waits for a thread of the cache.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) offset: Offset,
    pub(crate) buffer: Buffer,
    pub(crate) completion: Completion,
    /// Where its sectors were when it came in; None: not all were here, it is to go below.
    pub(crate) places: Option<Vec<Place>>,
}

enum Answered {
    /// The buffer is full.
    Here,
    /// The block is not here any more, or not as it was.
    NotHere,
    /// The disk failed.
    Failed(io::Error),
}

/// Answer reads until the queue is closed.
pub(crate) fn serve(shared: &Arc<Shared>, mut scratch: Buffer) {
    while let Some(mut job) = shared.reads.pop() {
        let answered = shared
            .store()
            .map_or(Answered::NotHere, |store| fill_buffer(shared, store, &mut job, &mut scratch));
        if let Answered::Here = answered {
            shared.counters.hits.add(1);
            shared.counters.hit_bytes.add(Length::of(&job.buffer).bytes());
            job.completion.complete(Outcome { result: Ok(()), buffer: Some(job.buffer) });
            continue;
        }
        if let Answered::Failed(error) = answered {
            shared.turn_off(format!("its file cannot be read: {error}"));
        }
        forward_read(shared, job.offset, job.buffer, job.completion);
    }
}

fn fill_buffer(
    shared: &Shared,
    store: &dyn Store,
    job: &mut Job,
    scratch: &mut Buffer,
) -> Answered {
    let range = ByteRange { offset: job.offset, length: Length::of(&job.buffer) };
    let Some(places) = &job.places else { return Answered::NotHere };
    for place in places {
        match read_place(shared, store, *place, scratch) {
            Ok(Verdict::Sound) => {}
            Ok(Verdict::Moved) => {
                shared.counters.moved.add(1);
                return Answered::NotHere;
            }
            Ok(Verdict::Rotten) => {
                shared.found_rot();
                return Answered::NotHere;
            }
            Err(error) => return Answered::Failed(error),
        }
        let (within, request) = overlap(place.sectors, range, shared.block_bytes);
        match (scratch.get(within), job.buffer.get_mut(request)) {
            (Some(from), Some(to)) => to.copy_from_slice(from),
            _ => return Answered::NotHere, // not reached: both lie in the request
        }
    }
    Answered::Here
}

fn read_place(
    shared: &Shared,
    store: &dyn Store,
    place: Place,
    scratch: &mut Buffer,
) -> io::Result<Verdict> {
    let bytes = usize::try_from(place.sectors.bytes()).unwrap_or(usize::MAX);
    scratch.set_len(bytes).map_err(io::Error::other)?;
    let mut kept = None;
    if shared.prover.is_sealing() {
        // As long as the place is held, they stay as they are.
        kept = shared.index().proofs(place);
        if kept.is_none() {
            return Ok(Verdict::Moved);
        }
    }
    store.read(scratch, place_in_file(place, shared.block_bytes))?;
    let found = shared.prover.restore(scratch, kept);
    Ok(shared.index().judge(place, &found))
}

/// Where a place begins in the file.
pub(crate) fn place_in_file(place: Place, block_bytes: u32) -> u64 {
    u64::from(place.slot) * u64::from(block_bytes)
        + u64::from(place.sectors.first) * u64::from(SECTOR_BYTES)
}
