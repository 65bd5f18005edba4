//! Putting what was read from below into the file, on a thread of its own.

use std::io;

use grampus_blockdev::Buffer;

use crate::index::{Generation, Place, Reservation};
use crate::reads::place_in_file;
use crate::sectors::Sectors;
use crate::shared::Shared;
use crate::store::Store;

/// Sectors as the device below delivered them.
#[derive(Debug)]
pub(crate) struct Fill {
    pub(crate) sectors: Sectors,
    /// Of their block, before they were asked for.
    pub(crate) generation: Generation,
    pub(crate) bytes: Vec<u8>,
}

/// Write fills until the queue is closed. There is one such thread: see [`crate::index`].
pub(crate) fn write(shared: &Shared, mut scratch: Buffer) {
    while let Some(fill) = shared.fills.pop() {
        let Some(store) = shared.store() else { continue };
        let reservation = shared.index().reserve(fill.sectors, fill.generation);
        let counters = &shared.counters;
        match reservation {
            Reservation::There => {}
            Reservation::Barred => counters.barred.add(1),
            Reservation::Refused => counters.refused.add(1),
            Reservation::Write { place, evicted } => {
                counters.evictions.add(u64::from(evicted));
                match put(shared, store, &fill, place, &mut scratch) {
                    Ok(true) => {
                        counters.fills.add(1);
                        counters.fill_bytes.add(fill.sectors.bytes());
                    }
                    Ok(false) => counters.barred.add(1),
                    Err(error) => {
                        shared.turn_off(format!("its file cannot be written: {error}"));
                    }
                }
            }
        }
    }
}

fn put(
    shared: &Shared,
    store: &dyn Store,
    fill: &Fill,
    place: Place,
    scratch: &mut Buffer,
) -> io::Result<bool> {
    scratch.set_len(fill.bytes.len()).map_err(io::Error::other)?;
    scratch.copy_from_slice(&fill.bytes);
    let proofs = shared.prover.prepare(scratch);
    store.write(scratch, place_in_file(place, shared.block_bytes))?;
    Ok(shared.index().publish(place, &proofs))
}
