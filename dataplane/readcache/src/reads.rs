//! Reads that are answered from the file, on threads of their own.

use std::io;
use std::sync::Arc;

use grampus_blockdev::{Buffer, ByteRange, Length, Outcome};

use crate::index::{Place, Verdict};
use crate::proofs::Proofs;
use crate::runs::{place_in_file, split_run};
use crate::sectors::overlap;
use crate::shared::Shared;
use crate::sinks::forward_read;
use crate::store::Store;
use crate::work::Job;

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
    let Some(mut rest) = job.places.as_deref() else { return Answered::NotHere };
    while !rest.is_empty() {
        let (run, others) = split_run(rest, |place| *place, shared.block_bytes);
        match read_run(shared, store, run, scratch) {
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
        for (place, sectors) in run.iter().zip(parts(run, scratch)) {
            let (within, request) = overlap(place.sectors, range, shared.block_bytes);
            match (sectors.get(within), job.buffer.get_mut(request)) {
                (Some(from), Some(to)) => to.copy_from_slice(from),
                _ => return Answered::NotHere, // not reached: both lie in the request
            }
        }
        rest = others;
    }
    Answered::Here
}

/// Read what adjoins: sound if all of it is.
fn read_run(
    shared: &Shared,
    store: &dyn Store,
    run: &[Place],
    scratch: &mut Buffer,
) -> io::Result<Verdict> {
    let Some(first) = run.first() else { return Ok(Verdict::Sound) };
    let bytes: u64 = run.iter().map(|place| place.sectors.bytes()).sum();
    scratch.set_len(usize::try_from(bytes).unwrap_or(usize::MAX)).map_err(io::Error::other)?;
    let mut kept = vec![None; run.len()];
    if shared.prover.is_sealing() {
        let mut index = shared.index();
        for (kept, place) in kept.iter_mut().zip(run) {
            // As long as the place is held, they stay as they are.
            *kept = index.proofs(*place);
            if kept.is_none() {
                return Ok(Verdict::Moved);
            }
        }
    }
    store.read(scratch, place_in_file(*first, shared.block_bytes))?;
    let found: Vec<Proofs> = parts(run, scratch)
        .zip(kept)
        .map(|(sectors, kept)| shared.prover.restore(sectors, kept))
        .collect();
    let mut index = shared.index();
    let mut verdicts = run.iter().zip(&found).map(|(place, found)| index.judge(*place, found));
    Ok(verdicts.find(|verdict| *verdict != Verdict::Sound).unwrap_or(Verdict::Sound))
}

/// The sectors of each place in what was read of them all.
fn parts<'a>(run: &'a [Place], read: &'a mut [u8]) -> impl Iterator<Item = &'a mut [u8]> {
    let mut rest = read;
    run.iter().map_while(move |place| {
        let bytes = usize::try_from(place.sectors.bytes()).unwrap_or(usize::MAX);
        let (part, others) = std::mem::take(&mut rest).split_at_mut_checked(bytes)?;
        rest = others;
        Some(part)
    })
}
