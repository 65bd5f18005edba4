//! A device below that can be held up, and a disk that can fail, rot and stall.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use grampus_blockdev::trial::HeldDevice;
use grampus_blockdev::{
    BlockDevice, BlockSize, Buffer, ByteRange, Completion, CompletionSink, Durability, Geometry,
    Length, MAX_DEVICE_BYTES, MemoryDevice, Offset, Outcome, Request, Token, execute,
};
use grampus_sealing::{Key, Secret, Use};

use crate::store::Store;
use crate::{Options, ReadCache, Statistics};

pub(super) const BLOCK: u64 = 16 << 10;
/// Eight blocks.
pub(super) const REGION: u64 = 8 * BLOCK;
const SIZE_BYTES: u64 = 256 * BLOCK;

pub(super) fn geometry(size_bytes: u64) -> Geometry {
    Geometry::new(size_bytes, BlockSize::B512).unwrap()
}

/// Carries requests out on threads of its own, some time between taking and answering them.
pub(super) struct Later {
    memory: Arc<MemoryDevice>,
    sender: Sender<(Request, Completion)>,
}

impl Later {
    pub(super) fn new() -> Self {
        let geometry = Geometry::new(SIZE_BYTES, BlockSize::B512).unwrap();
        let memory = Arc::new(MemoryDevice::new(geometry).unwrap());
        let (sender, receiver) = mpsc::channel::<(Request, Completion)>();
        let receiver = Arc::new(Mutex::new(receiver));
        for pauses in [0, 3, 40] {
            let (memory, receiver) = (Arc::clone(&memory), Arc::clone(&receiver));
            thread::spawn(move || {
                let next = || receiver.lock().unwrap().recv();
                while let Ok((request, completion)) = next() {
                    (0..pauses).for_each(|_| thread::yield_now());
                    let outcome = execute(&*memory, request);
                    (0..pauses).for_each(|_| thread::yield_now());
                    completion.complete(outcome);
                }
            });
        }
        Self { memory, sender }
    }
}

impl BlockDevice for Later {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn submit(&self, request: Request, completion: Completion) {
        self.sender.send((request, completion)).unwrap();
    }
}

/// As large as a device may be; it reads as nothing, and keeps nothing.
#[derive(Debug)]
pub(super) struct Vast;

impl BlockDevice for Vast {
    fn geometry(&self) -> Geometry {
        geometry(MAX_DEVICE_BYTES)
    }

    fn submit(&self, request: Request, completion: Completion) {
        let buffer = match request {
            Request::Read { buffer, .. } | Request::Write { buffer, .. } => Some(buffer),
            _ => None,
        };
        completion.complete(Outcome { result: Ok(()), buffer });
    }
}

/// A disk in memory.
#[derive(Debug, Default)]
pub(super) struct Disk {
    bytes: Mutex<Vec<u8>>,
    pub(super) reads: AtomicUsize,
    pub(super) writes: AtomicUsize,
    pub(super) fails_reads: AtomicBool,
    pub(super) fails_writes: AtomicBool,
    /// Writes wait while it is set.
    stalls: Mutex<bool>,
    changed: Condvar,
}

impl Disk {
    /// Change one byte of everything.
    pub(super) fn rot(&self) {
        for sector in self.bytes.lock().unwrap().chunks_mut(4096) {
            sector[77] ^= 1;
        }
    }

    /// Whether `pattern` lies anywhere.
    pub(super) fn shows(&self, pattern: &[u8]) -> bool {
        self.bytes.lock().unwrap().windows(pattern.len()).any(|window| window == pattern)
    }

    pub(super) fn stall(&self, stalls: bool) {
        *self.stalls.lock().unwrap() = stalls;
        self.changed.notify_all();
    }
}

#[derive(Debug)]
struct Shared(Arc<Disk>);

impl Store for Shared {
    fn read(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        assert_eq!((into.len() % 4096, at % 4096), (0, 0), "direct I/O takes whole sectors");
        assert_eq!(into.as_ptr().align_offset(4096), 0, "direct I/O takes whole pages");
        self.0.reads.fetch_add(1, Ordering::SeqCst);
        if self.0.fails_reads.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::Other.into());
        }
        let at = usize::try_from(at).unwrap();
        into.copy_from_slice(&self.0.bytes.lock().unwrap()[at..at + into.len()]);
        Ok(())
    }

    fn write(&self, from: &[u8], at: u64) -> io::Result<()> {
        assert_eq!((from.len() % 4096, at % 4096), (0, 0), "direct I/O takes whole sectors");
        assert_eq!(from.as_ptr().align_offset(4096), 0, "direct I/O takes whole pages");
        self.0.writes.fetch_add(1, Ordering::SeqCst);
        drop(self.0.changed.wait_while(self.0.stalls.lock().unwrap(), |stalls| *stalls).unwrap());
        if self.0.fails_writes.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::Other.into());
        }
        let at = usize::try_from(at).unwrap();
        self.0.bytes.lock().unwrap()[at..at + from.len()].copy_from_slice(from);
        Ok(())
    }
}

/// A cache with everything around it.
pub(super) struct World {
    pub(super) below: Arc<HeldDevice>,
    pub(super) disk: Arc<Disk>,
    pub(super) cache: Arc<ReadCache>,
}

fn options() -> Options {
    Options {
        readers: 2,
        max_waiting_bytes: 1 << 20,
        ..Options::new(PathBuf::from("/not/used"), 0)
    }
}

/// A key as a volume has it.
pub(super) fn key() -> Arc<Key> {
    let secret = Secret::parse(&[b'1'; 64]).unwrap();
    Arc::new(secret.key(Use::ReadCache, &[7; 16], &[]))
}

/// A cache on a disk in memory.
pub(super) fn cache(
    below: Arc<dyn BlockDevice>,
    slots: u32,
    key: Option<Arc<Key>>,
    region: u64,
) -> (Arc<ReadCache>, Arc<Disk>) {
    let disk = Arc::new(Disk::default());
    let bytes = usize::try_from(u64::from(slots) * BLOCK).unwrap();
    *disk.bytes.lock().unwrap() = vec![0xDD; bytes];
    let store = Box::new(Shared(Arc::clone(&disk)));
    let region_bytes = u32::try_from(region).unwrap();
    let options = Options { region_bytes, key, ..options() };
    (ReadCache::over(below, store, slots, &options), disk)
}

impl World {
    pub(super) fn new(slots: u32) -> Self {
        Self::with(slots, None, 0)
    }

    /// The same, of an encrypted volume.
    pub(super) fn sealed(slots: u32) -> Self {
        Self::with(slots, Some(key()), 0)
    }

    /// One that reads regions of eight blocks while it has room.
    pub(super) fn wide(slots: u32) -> Self {
        Self::with(slots, None, REGION)
    }

    pub(super) fn with(slots: u32, key: Option<Arc<Key>>, region: u64) -> Self {
        let below = HeldDevice::new(geometry(SIZE_BYTES)).unwrap();
        let (cache, disk) = cache(Arc::<HeldDevice>::clone(&below), slots, key, region);
        Self { below, disk, cache }
    }

    /// Past the cache.
    pub(super) fn change_below(&self, offset: u64, bytes: &[u8]) {
        execute(self.below.memory(), write_request(offset, bytes)).result.unwrap();
    }

    pub(super) fn statistics(&self) -> Statistics {
        self.cache.statistics()
    }

    pub(super) fn read(&self, offset: u64, bytes: usize) -> Vec<u8> {
        read(&*self.cache, offset, bytes)
    }

    pub(super) fn write(&self, offset: u64, bytes: &[u8]) {
        execute(&*self.cache, write_request(offset, bytes)).result.unwrap();
    }

    /// Read, and wait until what was read is in the cache.
    pub(super) fn warm(&self, offset: u64, bytes: usize) -> Vec<u8> {
        let wanted = self.statistics().fill_bytes + u64::try_from(bytes).unwrap();
        let read = self.read(offset, bytes);
        self.until("filled", |statistics| statistics.fill_bytes >= wanted);
        read
    }

    /// Wait for other threads to do what they must.
    pub(super) fn until(&self, what: &str, reached: impl Fn(Statistics) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !reached(self.statistics()) {
            assert!(Instant::now() < deadline, "not {what}: {:?}", self.statistics());
            thread::yield_now();
        }
    }
}

pub(super) fn read(device: &dyn BlockDevice, offset: u64, bytes: usize) -> Vec<u8> {
    let outcome = execute(device, read_request(offset, bytes));
    outcome.result.unwrap();
    outcome.buffer.unwrap().to_vec()
}

pub(super) fn read_request(offset: u64, bytes: usize) -> Request {
    // Not zeros, so that a read that fills nothing shows.
    let buffer = Buffer::try_from(vec![0xEE; bytes]).unwrap();
    Request::Read { offset: Offset::new(offset).unwrap(), buffer }
}

pub(super) fn write_request(offset: u64, bytes: &[u8]) -> Request {
    let buffer = Buffer::try_from(bytes.to_vec()).unwrap();
    let offset = Offset::new(offset).unwrap();
    Request::Write { offset, buffer, durability: Durability::OnFlush }
}

pub(super) fn range(offset: u64, length: u64) -> ByteRange {
    ByteRange { offset: Offset::new(offset).unwrap(), length: Length::new(length).unwrap() }
}

/// Where answers are gathered that come later.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<Vec<(u64, Outcome)>>);

impl Answers {
    pub(super) fn submit(self: &Arc<Self>, device: &dyn BlockDevice, token: u64, request: Request) {
        let sink: Arc<dyn CompletionSink> = Arc::<Self>::clone(self);
        device.submit(request, Completion::new(sink, Token(token)));
    }

    pub(super) fn taken(&self) -> Vec<(u64, Outcome)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl CompletionSink for Answers {
    fn complete(&self, token: Token, outcome: Outcome) {
        self.0.lock().unwrap().push((token.0, outcome));
    }
}
