//! Putting what was read from below into the file, on a thread of its own.

use std::io;
use std::iter::Peekable;

use grampus_blockdev::Buffer;

use crate::index::{Place, Reservation};
use crate::runs::{MAX_RUN_BYTES, place_in_file, split_run};
use crate::shared::Shared;
use crate::store::Store;
use crate::work::Fill;

/// Write fills until the queue is closed, `scratch` being of [`MAX_RUN_BYTES`]. There is one such
/// thread: see [`crate::index`].
pub(crate) fn write(shared: &Shared, mut scratch: Buffer) {
    let limit = usize::try_from(MAX_RUN_BYTES).unwrap_or(usize::MAX);
    while let Some((fills, weight)) = shared.fills.pop_some(limit) {
        let mut fills = fills.into_iter().peekable();
        while fills.peek().is_some() {
            let Some(store) = shared.store() else { break };
            if let Err(error) = write_some(shared, store, &mut fills, &mut scratch) {
                shared.turn_off(format!("its file cannot be written: {error}"));
            }
        }
        shared.fills.release(weight);
    }
}

fn write_some(
    shared: &Shared,
    store: &dyn Store,
    fills: &mut Peekable<impl Iterator<Item = Fill>>,
    scratch: &mut Buffer,
) -> io::Result<()> {
    let reserved = reserve(shared, fills);
    let mut rest = reserved.as_slice();
    while !rest.is_empty() {
        let (run, others) = split_run(rest, |(_, place)| *place, shared.block_bytes);
        put(shared, store, run, scratch)?;
        rest = others;
    }
    Ok(())
}

/// Room for what is worth it, up to sectors that come again: whether those are wanted depends on
/// what becomes of the first, and what somebody may read already is not written over.
fn reserve(
    shared: &Shared,
    fills: &mut Peekable<impl Iterator<Item = Fill>>,
) -> Vec<(Fill, Place)> {
    let mut reserved: Vec<(Fill, Place)> = Vec::new();
    let counters = &shared.counters;
    let mut index = shared.index();
    let is_new = |fill: &Fill, reserved: &[(Fill, Place)]| {
        !reserved.iter().any(|(other, _)| other.sectors.overlaps(fill.sectors))
    };
    while let Some(fill) = fills.next_if(|fill| is_new(fill, &reserved)) {
        match index.reserve(fill.sectors, fill.generation) {
            Reservation::There => {}
            Reservation::Barred => counters.barred.add(1),
            Reservation::Refused => counters.refused.add(1),
            Reservation::Write { place, evicted } => {
                counters.evictions.add(u64::from(evicted));
                reserved.push((fill, place));
            }
        }
    }
    // A later one may have pushed out an earlier one, and have its slot: only one may be written.
    reserved.retain(|(_, place)| {
        let held = index.is_held(*place);
        counters.barred.add(u64::from(!held));
        held
    });
    reserved
}

/// Write what adjoins.
fn put(
    shared: &Shared,
    store: &dyn Store,
    run: &[(Fill, Place)],
    scratch: &mut Buffer,
) -> io::Result<()> {
    let Some((_, first)) = run.first() else { return Ok(()) };
    let bytes = run.iter().map(|(fill, _)| fill.bytes.len()).sum();
    scratch.set_len(bytes).map_err(io::Error::other)?;
    let mut proofs = Vec::with_capacity(run.len());
    let mut rest: &mut [u8] = scratch;
    for (fill, _) in run {
        let Some((part, others)) = rest.split_at_mut_checked(fill.bytes.len()) else { break };
        part.copy_from_slice(&fill.bytes);
        proofs.push(shared.prover.prepare(part));
        rest = others;
    }
    store.write(scratch, place_in_file(*first, shared.block_bytes))?;
    let counters = &shared.counters;
    let mut index = shared.index();
    for ((fill, place), proofs) in run.iter().zip(&proofs) {
        if index.publish(*place, proofs) {
            counters.fills.add(1);
            counters.fill_bytes.add(fill.sectors.bytes());
        } else {
            counters.barred.add(1);
        }
    }
    Ok(())
}
