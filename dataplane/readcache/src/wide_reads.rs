//! Misses that bring more than was asked for, as long as the cache has room for it.
//!
//! A cache starts empty, and a database reads its pages one by one and at random: filled page by
//! page, it would answer little until nearly every page had cost the device below a read of its
//! own. A read of eight pages costs a cluster hardly more than one of one page. A full cache asks
//! for what it was asked for: more would push out what is read.

use std::sync::{Arc, Mutex, PoisonError};

use grampus_blockdev::{
    Buffer, ByteRange, Completion, CompletionSink, DeviceError, Length, Offset, Outcome, Request,
    Token,
};

use crate::index::Generation;
use crate::sectors::{Sectors, blocks, covered};
use crate::shared::Shared;
use crate::sinks::{forward_read, keep, notice_fence};
use crate::work::Job;

/// A miss that reads all of its region.
struct Wide {
    shared: Arc<Shared>,
    asked: ByteRange,
    region: ByteRange,
    /// What may go into the cache, as it was before the device below was asked.
    wanted: Vec<(Sectors, Generation)>,
    upper: Mutex<Option<(Buffer, Completion)>>,
}

/// Send a read below of which the cache lacks something, and with it its surroundings if there is
/// room for them.
pub(crate) fn forward_miss(
    shared: &Arc<Shared>,
    offset: Offset,
    buffer: Buffer,
    completion: Completion,
) {
    let asked = ByteRange { offset, length: Length::of(&buffer) };
    let Some((region, whole)) = decide_region(shared, asked) else {
        return forward_read(shared, offset, buffer, completion);
    };
    if !shared.regions.enter(region.offset.bytes()) {
        return forward_read(shared, offset, buffer, completion);
    }
    shared.counters.misses.add(1);
    shared.counters.miss_bytes.add(asked.length.bytes());
    shared.counters.wide.add(1);
    let wanted = {
        let index = shared.index();
        let with_generation = |sectors: Sectors| (sectors, index.generation(sectors.block));
        covered(region, shared.block_bytes)
            .filter(|sectors| !index.holds(*sectors))
            .map(with_generation)
            .collect()
    };
    let upper = Mutex::new(Some((buffer, completion)));
    let wide = Arc::new(Wide { shared: Arc::clone(shared), asked, region, wanted, upper });
    let request = Request::Read { offset: region.offset, buffer: whole };
    shared.below.submit(request, Completion::new(wide, Token(0)));
}

/// The region that has all of `asked`, and memory for it; None when `asked` should go below as it
/// is: it is no page, lies in two regions, is all that the region lacks, or there is no room.
fn decide_region(shared: &Shared, asked: ByteRange) -> Option<(ByteRange, Buffer)> {
    let region_bytes = u64::from(shared.region_bytes);
    let start = asked.offset.bytes().checked_div(region_bytes)? * region_bytes;
    let end = (start + region_bytes).min(shared.below.geometry().size_bytes());
    if asked.length.bytes() > u64::from(shared.block_bytes) || asked.end_bytes() > end {
        return None;
    }
    let length = Length::new(end - start).ok()?;
    let region = ByteRange { offset: Offset::new(start).ok()?, length };
    let bytes = usize::try_from(length.bytes()).ok()?;
    let missing = {
        let index = shared.index();
        let missing = index.count_missing(blocks(region, shared.block_bytes));
        (missing <= index.free_slots()).then_some(missing)?
    };
    let alone = blocks(asked, shared.block_bytes).count();
    if missing <= alone || !shared.is_on() || !shared.fills.has_room(bytes) {
        return None;
    }
    Some((region, Buffer::zeroed(bytes).ok()?))
}

impl Wide {
    /// What was asked for, out of what was read.
    fn answer(&self, read: &[u8], buffer: &mut Buffer) -> Option<()> {
        let skipped = self.asked.offset.bytes() - self.region.offset.bytes();
        let from = usize::try_from(skipped).ok()?;
        let bytes = read.get(from..from.checked_add(buffer.len())?)?;
        buffer.copy_from_slice(bytes);
        Some(())
    }
}

impl CompletionSink for Wide {
    fn complete(&self, _token: Token, outcome: Outcome) {
        let shared = &self.shared;
        notice_fence(shared, &outcome);
        shared.regions.leave(self.region.offset.bytes());
        let taken = self.upper.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((mut buffer, completion)) = taken else { return };
        let read = outcome.buffer.as_deref().filter(|_| outcome.result.is_ok());
        if let Some(read) = read
            && self.answer(read, &mut buffer).is_some()
        {
            if shared.is_on() {
                for (sectors, generation) in &self.wanted {
                    keep(shared, self.region, read, *sectors, *generation);
                }
            }
            return completion.complete(Outcome { result: Ok(()), buffer: Some(buffer) });
        }
        // Something beside what was asked for may be what cannot be read. A completion must not
        // submit: a thread of the cache does.
        let offset = self.asked.offset;
        let job = Job { offset, buffer, completion, places: None };
        let refused = if shared.is_on() { shared.reads.push(job, 1) } else { Err(job) };
        if let Err(job) = refused {
            let result = outcome.result.and(Err(DeviceError::Abandoned));
            job.completion.complete(Outcome { result, buffer: Some(job.buffer) });
        }
    }
}
