//! How tests use a volume.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use grampus_blockdev::{
    BlockDevice, Buffer, ByteRange, Completion, CompletionSink, DeviceError, Durability, Length,
    Offset, Outcome, Request, Token,
};
use grampus_journal::{CacheConfig, Config, Progress, Status, VolumeId};
use grampus_journaled::{JournaledDevice, LocalLog, OpenError, Options, open};

use crate::world::{PATIENCE, Port, RING};

/// Small, so that it is full and wraps soon; patient, so that only what a test wants ends it.
pub const CONFIG: Config = Config {
    ring: RING,
    max_write_bytes: 16 << 10,
    max_batch_bytes: 64 << 10,
    max_held_bytes: 256 << 10,
    max_undurable_bytes: u64::MAX,
    max_appends: 4,
    max_applies: 8,
    max_apply_bytes: 64 << 10,
    max_small_frames: 64,
    close_after: Duration::from_millis(20),
    apply_after: Duration::from_millis(5),
    idle_after: Duration::from_millis(5),
    trim_after: Duration::from_millis(10),
    retry_after: Duration::from_millis(5),
    refuse_after: Duration::from_secs(20),
    cache: None,
};

/// Nothing is done before it has to be.
pub const LAZY: Config = Config {
    close_after: Duration::from_secs(600),
    apply_after: Duration::from_secs(600),
    idle_after: Duration::from_secs(600),
    trim_after: Duration::from_secs(600),
    ..CONFIG
};

pub const CACHE: Config = Config {
    cache: Some(CacheConfig {
        ring: RING,
        max_appends: 2,
        max_lag: Duration::from_secs(5),
        max_lag_bytes: 128 << 10,
        ship_after: Duration::from_millis(2),
        give_up_after: Duration::from_secs(60),
    }),
    ..CONFIG
};

pub const VOLUME: VolumeId = VolumeId([7; 16]);

pub fn try_open(port: &Port, config: Config) -> Result<JournaledDevice, OpenError> {
    let local = config.cache.map(|_| Arc::new(port.clone()) as Arc<dyn LocalLog>);
    let options = Options { volume: VOLUME, config, sealing: port.sealing(), accept_damage: false };
    let (image, slots) = (Arc::new(port.clone()), Arc::new(port.clone()));
    open(image, slots, local, options, &mut |_: Progress| {})
}

pub fn opened(port: &Port, config: Config) -> JournaledDevice {
    try_open(port, config).unwrap()
}

/// Wait until its status is so.
pub fn await_status(device: &JournaledDevice, what: &str, holds: impl Fn(&Status) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds(&device.status()) {
        assert!(Instant::now() < deadline, "never came to this: {what}");
        thread::yield_now();
    }
}

/// An outcome to come.
pub struct Pending {
    outcome: mpsc::Receiver<Outcome>,
    answered: Arc<AtomicBool>,
}

struct Reply(mpsc::Sender<Outcome>, Arc<AtomicBool>);

impl CompletionSink for Reply {
    fn complete(&self, _token: Token, outcome: Outcome) {
        self.1.store(true, Ordering::SeqCst);
        drop(self.0.send(outcome));
    }
}

impl Pending {
    pub fn outcome(self) -> Outcome {
        self.outcome.recv_timeout(PATIENCE).expect("a request that was never answered")
    }

    pub fn result(self) -> Result<(), DeviceError> {
        self.outcome().result
    }

    pub fn is_answered(&self) -> bool {
        self.answered.load(Ordering::SeqCst)
    }
}

pub fn submit(device: &dyn BlockDevice, request: Request) -> Pending {
    let (sender, receiver) = mpsc::channel();
    let answered = Arc::new(AtomicBool::new(false));
    let reply = Reply(sender, Arc::clone(&answered));
    device.submit(request, Completion::new(Arc::new(reply), Token(0)));
    Pending { outcome: receiver, answered }
}

pub fn offset(bytes: usize) -> Offset {
    Offset::new(u64::try_from(bytes).unwrap()).unwrap()
}

pub fn range(at: usize, length: usize) -> ByteRange {
    let length = Length::new(u64::try_from(length).unwrap()).unwrap();
    ByteRange { offset: offset(at), length }
}

pub fn writing(at: usize, bytes: &[u8], durability: Durability) -> Request {
    let buffer = Buffer::try_from(bytes.to_vec()).unwrap();
    Request::Write { offset: offset(at), buffer, durability }
}

pub fn write(device: &dyn BlockDevice, at: usize, bytes: &[u8]) -> Pending {
    submit(device, writing(at, bytes, Durability::OnFlush))
}

pub fn flush(device: &dyn BlockDevice) -> Pending {
    submit(device, Request::Flush)
}

pub fn reading(device: &dyn BlockDevice, at: usize, length: usize) -> Pending {
    let buffer = Buffer::try_from(vec![0xEE; length]).unwrap();
    submit(device, Request::Read { offset: offset(at), buffer })
}

pub fn read(device: &dyn BlockDevice, at: usize, length: usize) -> Vec<u8> {
    let outcome = reading(device, at, length).outcome();
    outcome.result.unwrap();
    outcome.buffer.unwrap().to_vec()
}
