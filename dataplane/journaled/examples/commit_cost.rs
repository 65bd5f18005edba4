//! What the shell adds to a write, a commit and a read, in microseconds, with a cluster and an
//! image that answer at once: `cargo run --release --example commit_cost`, with sealed frames
//! `cargo run --release --example commit_cost sealed`.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Instant;

use grampus_blockdev::{
    BlockDevice, BlockSize, Buffer, Completion, CompletionSink, Durability, Geometry, MemoryDevice,
    Offset, Outcome, Request, Token,
};
use grampus_journal::{Config, Failure, Owner, Place, Sealing, Segment, SlotFault, VolumeId};
use grampus_journaled::{Done, Options, Slots, open};
use grampus_sealing::{SALT_BYTES, SECRET_BYTES, Secret};

const TURNS: u32 = 20_000;
const PAGE_BYTES: u32 = 16 << 10;
const PAGES: u64 = 1000;
const DEVICE_BYTES: u64 = 1 << 28;

type Error = Box<dyn std::error::Error>;

/// Slots that keep nothing. Appends are answered on a thread of their own, as a cluster's are.
#[derive(Debug)]
struct Blackhole {
    record: Mutex<Option<Vec<u8>>>,
    appends: mpsc::Sender<Append>,
}

struct Append(Done<()>);

impl Slots for Blackhole {
    fn read_record(&self) -> Result<Option<Vec<u8>>, Failure> {
        Ok(self.record.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn swap_record(&self, expected: Option<&[u8]>, record: &[u8]) -> Result<bool, Failure> {
        let mut held = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let same = held.as_deref() == expected;
        if same {
            *held = Some(record.to_vec());
        }
        Ok(same)
    }

    fn start_swap_record(&self, expected: Vec<u8>, record: Vec<u8>, done: Done<bool>) {
        done(self.swap_record(Some(&expected), &record));
    }

    fn raise_epoch(
        &self,
        _slot: u32,
        _owner: Owner,
        _mend: bool,
    ) -> Result<Option<SlotFault>, Failure> {
        Ok(None)
    }

    fn read_head(&self, segment: Segment) -> Result<Vec<u8>, Failure> {
        self.read_slot(segment)
    }

    fn read_slot(&self, _segment: Segment) -> Result<Vec<u8>, Failure> {
        Ok(Vec::new())
    }

    fn start_append(&self, _place: Place, _owner: Owner, _frame: Vec<u8>, done: Done<()>) {
        drop(self.appends.send(Append(done)));
    }

    fn start_free(&self, _slot: u32, _owner: Owner, _before: u64, done: Done<()>) {
        done(Ok(()));
    }
}

struct Reply(mpsc::SyncSender<Outcome>);

impl CompletionSink for Reply {
    fn complete(&self, _token: Token, outcome: Outcome) {
        drop(self.0.send(outcome));
    }
}

/// One request at a time.
struct User<'a> {
    device: &'a dyn BlockDevice,
    sink: Arc<Reply>,
    outcomes: mpsc::Receiver<Outcome>,
    buffer: Option<Buffer>,
}

impl<'a> User<'a> {
    fn new(device: &'a dyn BlockDevice) -> Result<Self, Error> {
        let (sender, outcomes) = mpsc::sync_channel(1);
        let buffer = Some(Buffer::zeroed(usize::try_from(PAGE_BYTES)?)?);
        Ok(Self { device, sink: Arc::new(Reply(sender)), outcomes, buffer })
    }

    fn execute(&mut self, request: Request) -> Result<(), Error> {
        let sink = Arc::<Reply>::clone(&self.sink);
        self.device.submit(request, Completion::new(sink, Token(0)));
        let outcome = self.outcomes.recv()?;
        self.buffer = outcome.buffer.or(self.buffer.take());
        Ok(outcome.result?)
    }

    fn write(&mut self, turn: u32) -> Result<(), Error> {
        let buffer = self.buffer.take().ok_or("no buffer")?;
        let offset = place(0, turn)?;
        self.execute(Request::Write { offset, buffer, durability: Durability::OnFlush })
    }

    fn read(&mut self, from: u64, turn: u32) -> Result<(), Error> {
        let buffer = self.buffer.take().ok_or("no buffer")?;
        self.execute(Request::Read { offset: place(from, turn)?, buffer })
    }

    fn measure(
        &mut self,
        what: &str,
        one: impl Fn(&mut Self, u32) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let start = Instant::now();
        for turn in 0..TURNS {
            one(self, turn)?;
        }
        let each_us = start.elapsed().as_secs_f64() * 1e6 / f64::from(TURNS);
        writeln!(io::stdout(), "{what}: {each_us:.2} us")?;
        Ok(())
    }
}

/// A page, here and there.
fn place(from: u64, turn: u32) -> Result<Offset, Error> {
    let page = u64::from(turn) * 7919 % PAGES;
    Ok(Offset::new(from + page * u64::from(PAGE_BYTES))?)
}

fn main() -> Result<(), Error> {
    let (sender, appends) = mpsc::channel::<Append>();
    std::thread::spawn(move || appends.into_iter().for_each(|append| (append.0)(Ok(()))));
    let slots = Arc::new(Blackhole { record: Mutex::new(None), appends: sender });
    let geometry = Geometry::new(DEVICE_BYTES, BlockSize::B4096)?;
    let image: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(geometry)?);
    // With an argument, frames are sealed.
    let sealing = match std::env::args().nth(1) {
        Some(_) => Some(Sealing::new(Secret::parse(&[b'0'; SECRET_BYTES])?, [0; SALT_BYTES])),
        None => None,
    };
    let options = Options {
        volume: VolumeId([1; 16]),
        config: Config::default(),
        sealing,
        accept_damage: false,
    };
    let device = open(Arc::clone(&image), slots, None, options, &mut |_| {})?;
    let mut user = User::new(&device)?;
    user.measure("write of 16 KiB", |user, turn| {
        user.write(turn)?;
        if turn % 100 == 99 { user.execute(Request::Flush) } else { Ok(()) }
    })?;
    user.measure("write of 16 KiB and flush", |user, turn| {
        user.write(turn)?;
        user.execute(Request::Flush)
    })?;
    user.measure("read of 16 KiB, held", |user, turn| user.read(0, turn))?;
    let beyond = DEVICE_BYTES / 2;
    user.measure("read of 16 KiB, not held", |user, turn| user.read(beyond, turn))?;
    let mut bare = User::new(&*image)?;
    bare.measure("read of 16 KiB, of the image alone", |user, turn| user.read(beyond, turn))
}
