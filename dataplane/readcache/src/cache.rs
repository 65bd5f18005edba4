//! The device.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use grampus_blockdev::{
    BlockDevice, Buffer, ByteRange, Completion, Geometry, Length, Offset, Request,
};

use crate::counters::Statistics;
use crate::fills;
use crate::index::{Index, Place};
use crate::options::Options;
use crate::proofs::Prover;
use crate::reads;
use crate::runs::MAX_RUN_BYTES;
use crate::sectors::touched;
use crate::shared::Shared;
use crate::sinks::{forward_change, forward_read};
use crate::store::{FileStore, Store};
use crate::wide_reads::forward_miss;
use crate::work::Job;

/// A device whose reads are answered from a local file where that has them.
///
/// Dropped, it ends its threads; requests that are on their way below are still answered.
#[derive(Debug)]
pub struct ReadCache {
    shared: Arc<Shared>,
    capacity_bytes: u64,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl ReadCache {
    /// A cache in front of `below`, which nobody else may change while it is in use.
    ///
    /// A volume must not fail for want of a cache: with settings that cannot work, or without a
    /// disk, this is one that is off; [`ReadCache::off_reason`] says why, and so does the log.
    #[must_use]
    pub fn new(below: Arc<dyn BlockDevice>, options: &Options) -> Arc<Self> {
        let size_bytes = |slots: u32| u64::from(slots) * u64::from(options.block_bytes);
        let made = options.slots().map_err(|error| error.to_string()).and_then(|slots| {
            let store = FileStore::make(&options.path, size_bytes(slots));
            let path = options.path.display();
            store.map_err(|error| format!("its file {path} cannot be made: {error}")).map(|store| {
                let store: Box<dyn Store> = Box::new(store);
                (slots, store)
            })
        });
        match made {
            Ok((slots, store)) => Self::over(below, store, slots, options),
            Err(reason) => Self::off(below, options, reason),
        }
    }

    fn off(below: Arc<dyn BlockDevice>, options: &Options, reason: String) -> Arc<Self> {
        let index = Index::new(0, options.block_bytes, false);
        let shared = Shared::new(below, None, index, (1, 0, Prover::new(None)), 0);
        shared.turn_off(reason);
        Arc::new(Self { shared: Arc::new(shared), capacity_bytes: 0, threads: Mutex::default() })
    }

    pub(crate) fn over(
        below: Arc<dyn BlockDevice>,
        store: Box<dyn Store>,
        slots: u32,
        options: &Options,
    ) -> Arc<Self> {
        let block_bytes = options.block_bytes;
        let prover = Prover::new(options.key.clone());
        let index = Index::new(slots, block_bytes, prover.is_sealing());
        let blocks = (block_bytes, options.region_bytes, prover);
        let waiting = options.max_waiting_bytes;
        let shared = Arc::new(Shared::new(below, Some(store), index, blocks, waiting));
        let threads = start_threads(&shared, options.readers);
        let capacity_bytes = u64::from(slots) * u64::from(block_bytes);
        Arc::new(Self { shared, capacity_bytes, threads: Mutex::new(threads) })
    }

    /// Counts since it was made.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let used = u64::try_from(self.shared.index().used_slots()).unwrap_or(u64::MAX);
        Statistics {
            on: self.shared.is_on(),
            capacity_bytes: self.capacity_bytes,
            used_bytes: used.saturating_mul(u64::from(self.shared.block_bytes)),
            ..self.shared.counters.read()
        }
    }

    /// Why it is off, if it is.
    #[must_use]
    pub fn off_reason(&self) -> Option<String> {
        self.shared.off_reason().map(ToOwned::to_owned)
    }

    /// Forget everything: the device below was changed by another way than through this one,
    /// such as by a rollback. (A change of its size is noticed.)
    pub fn forget_all(&self) {
        self.shared.invalidate_blocks(0..u64::MAX);
    }

    fn read(&self, offset: Offset, buffer: Buffer, completion: Completion) {
        let shared = &self.shared;
        let range = ByteRange { offset, length: Length::of(&buffer) };
        let Some(places) = self.find(range) else {
            return forward_miss(shared, offset, buffer, completion);
        };
        let job = Job { offset, buffer, completion, places: Some(places) };
        if let Err(job) = shared.reads.push(job, 1) {
            shared.counters.busy.add(1);
            forward_read(shared, job.offset, job.buffer, job.completion);
        }
    }

    /// Where all of `range` is; None when some of it is not here.
    fn find(&self, range: ByteRange) -> Option<Vec<Place>> {
        let mut index = self.shared.index();
        let mut places = Some(Vec::new());
        for sectors in touched(range, self.shared.block_bytes) {
            // Every block is counted, also those behind one that is missing.
            index.note(sectors.block);
            let found = index.find(sectors);
            places = places.zip(found).map(|(mut places, place)| {
                places.push(place);
                places
            });
        }
        places
    }
}

fn start_threads(shared: &Arc<Shared>, readers: usize) -> Vec<JoinHandle<()>> {
    let mut threads = Vec::new();
    for number in 0..=readers {
        let shared_too = Arc::clone(shared);
        let scratch = Buffer::zeroed(usize::try_from(MAX_RUN_BYTES).unwrap_or(usize::MAX));
        let started = scratch.map_err(|error| error.to_string()).and_then(|scratch| {
            let (name, run): (_, Box<dyn FnOnce() + Send>) = if number == 0 {
                ("cache-fill", Box::new(move || fills::write(&shared_too, scratch)))
            } else {
                ("cache-read", Box::new(move || reads::serve(&shared_too, scratch)))
            };
            let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
            thread.map_err(|error| error.to_string())
        });
        match started {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                shared.turn_off(format!("its threads cannot be started: {error}"));
                break;
            }
        }
    }
    threads
}

impl BlockDevice for ReadCache {
    fn geometry(&self) -> Geometry {
        self.shared.below.geometry()
    }

    fn submit(&self, request: Request, completion: Completion) {
        let shared = &self.shared;
        if !shared.is_on() {
            return shared.below.submit(request, completion);
        }
        let geometry = shared.below.geometry();
        shared.notice_size(geometry.size_bytes());
        let Some(range) = request.range() else {
            return shared.below.submit(request, completion);
        };
        if range.is_empty() || geometry.require(range).is_err() {
            // The device below says what is wrong; nothing is changed.
            return shared.below.submit(request, completion);
        }
        match request {
            Request::Read { offset, buffer } => self.read(offset, buffer, completion),
            change => forward_change(shared, range, change, completion),
        }
    }
}

impl Drop for ReadCache {
    fn drop(&mut self) {
        self.shared.reads.close();
        self.shared.fills.close();
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // The last one who had the cache may be whoever was answered by one of its threads.
            if thread.thread().id() != thread::current().id() && thread.join().is_err() {
                tracing::error!("a thread of the read cache panicked");
            }
        }
    }
}
