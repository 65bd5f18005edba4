//! A cluster and a host's disk in memory: what is under way lands in any order, and may be held
//! back, fail, or die with its owner.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use grampus_blockdev::{
    BlockDevice, BlockSize, Completion, DeviceError, Geometry, Outcome, Request,
};
use grampus_journal::{
    Aside, Epoch, Failure, Owner, Place, Record, Ring, Sealing, Segment, SlotFault, VolumeId,
};
use grampus_journaled::{Done, LocalLog, Slots};
use grampus_sealing::Secret;

use crate::random::Random;

/// What is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Append,
    Record,
    Read,
    Change,
    Flush,
    Free,
}

/// Gives an answer, without the lock.
type Answer = Box<dyn FnOnce() + Send>;
/// Lands, under the lock.
type Land = Box<dyn FnOnce(&mut State) -> Answer + Send>;

struct Job {
    kind: Kind,
    owner: u64,
    land: Land,
}

/// How calls fail until it is taken back.
#[derive(Debug, Default, Clone, Copy)]
pub struct Faults {
    pub append: Option<Failure>,
    pub record: Option<Failure>,
    pub change: Option<Failure>,
    pub read: Option<Failure>,
    pub flush: Option<Failure>,
    pub local: Option<Failure>,
    /// An append to the log on the host takes for ever.
    pub local_hangs: bool,
}

pub struct State {
    pub image: Vec<u8>,
    pub durable: Vec<u8>,
    unflushed: Vec<(usize, Vec<u8>)>,
    pub slots: Vec<Vec<u8>>,
    /// Whose each slot is; None for one that is missing.
    pub owners: Vec<Option<(VolumeId, Epoch)>>,
    pub record: Option<Vec<u8>>,
    pub log_record: Option<Vec<u8>>,
    log_slots: Vec<Vec<u8>>,
    pub asides: Vec<Aside>,
    pub faults: Faults,
    /// Who holds the image's lock; what others have under way does not reach the image.
    owner: u64,
    jobs: Vec<Job>,
    held: Vec<Kind>,
    /// The owner dies after so many operations more.
    life: Option<u64>,
    pub appends: u64,
    /// Slots that were freed, and before which position.
    pub freed: Vec<(u32, u64)>,
    pub image_reads: u64,
    /// Names of the threads that appends came from.
    pub senders: Vec<String>,
    random: Random,
    over: bool,
}

pub struct World {
    state: Mutex<State>,
    changed: Condvar,
    /// The volume is encrypted.
    secret: Option<Secret>,
}

pub const RING: Ring = Ring { segment_bytes: 256 << 10, segments: 4, align_bytes: 512 };
/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

impl World {
    /// With two threads on which things land.
    pub fn new(size: usize, seed: u64) -> Arc<World> {
        Self::with_secret(size, seed, None)
    }

    /// The same, of a volume that is encrypted.
    pub fn encrypted(size: usize, seed: u64) -> Arc<World> {
        Self::with_secret(size, seed, Some(Secret::parse(&[b'c'; 64]).unwrap()))
    }

    fn with_secret(size: usize, seed: u64, secret: Option<Secret>) -> Arc<World> {
        let slots = usize::try_from(RING.segments).unwrap();
        let segment = usize::try_from(RING.segment_bytes).unwrap();
        let world = Arc::new(World {
            state: Mutex::new(State {
                image: vec![0; size],
                durable: vec![0; size],
                unflushed: Vec::new(),
                slots: vec![Vec::new(); slots],
                owners: vec![None; slots],
                record: None,
                log_record: None,
                log_slots: vec![vec![0; segment]; slots],
                asides: Vec::new(),
                faults: Faults::default(),
                owner: 0,
                jobs: Vec::new(),
                held: Vec::new(),
                life: None,
                appends: 0,
                freed: Vec::new(),
                image_reads: 0,
                senders: Vec::new(),
                random: Random::new(seed),
                over: false,
            }),
            changed: Condvar::new(),
            secret,
        });
        for number in 0..2 {
            let world = Arc::clone(&world);
            let name = format!("cluster-{number}");
            thread::Builder::new().name(name).spawn(move || world.run()).unwrap();
        }
        world
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.lock();
        loop {
            if state.over {
                return;
            }
            let held = state.held.clone();
            let free: Vec<usize> = (0..state.jobs.len())
                .filter(|index| !held.contains(&state.jobs[*index].kind))
                .collect();
            if free.is_empty() {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let index = free[state.random.below(free.len())];
            Self::land(state, index);
            state = self.lock();
        }
    }

    fn land(mut state: MutexGuard<'_, State>, index: usize) {
        let job = state.jobs.swap_remove(index);
        let lost = state.pass(job.owner);
        let answer = (job.land)(&mut state);
        drop(state);
        drop(lost);
        answer();
    }

    /// Let nothing of this kind land until `release`.
    pub fn hold(&self, kind: Kind) {
        self.lock().held.push(kind);
    }

    pub fn release(&self, kind: Kind) {
        self.lock().held.retain(|held| *held != kind);
        self.changed.notify_all();
    }

    /// Let one that is held land and be answered, on this thread.
    pub fn step(&self, kind: Kind) {
        let mut state = self.await_pending(kind, 1);
        let index = state.jobs.iter().position(|job| job.kind == kind).unwrap();
        state.held.push(kind);
        Self::land(state, index);
        let mut state = self.lock();
        let index = state.held.iter().rposition(|held| *held == kind).unwrap();
        state.held.remove(index);
    }

    /// Wait until so many are under way.
    pub fn await_pending(&self, kind: Kind, count: usize) -> MutexGuard<'_, State> {
        self.wait_until(&format!("{count} of {kind:?}"), |state| state.pending(kind) >= count)
    }

    pub fn wait_until(
        &self,
        what: &str,
        mut holds: impl FnMut(&State) -> bool,
    ) -> MutexGuard<'_, State> {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.lock();
        while !holds(&state) {
            assert!(Instant::now() < deadline, "never came to this: {what}");
            let nap = Duration::from_millis(5); // where nothing here tells of the change
            state = self.changed.wait_timeout(state, nap).unwrap().0;
        }
        state
    }

    /// A new owner's ports; the image is closed to all before it.
    pub fn take_over(self: &Arc<Self>) -> Port {
        let mut state = self.lock();
        state.owner += 1;
        Port { world: Arc::clone(self), owner: state.owner }
    }

    /// Let the owner die after so many operations more, at any of them.
    pub fn limit_life(&self, operations: u64) {
        self.lock().life = Some(operations);
    }

    /// Let the owner die now.
    pub fn crash(&self) {
        let lost = self.lock().crash();
        drop(lost); // answers of lost calls, without the lock
    }

    /// Forget what of this kind is under way, with nobody told.
    pub fn lose(&self, kind: Kind) {
        let mut state = self.lock();
        let (lost, kept) =
            std::mem::take(&mut state.jobs).into_iter().partition(|job| job.kind == kind);
        state.jobs = kept;
        drop(state);
        let lost: Vec<Job> = lost;
        drop(lost); // without the lock
    }

    pub fn end(&self) {
        self.lock().over = true;
        self.changed.notify_all();
    }

    fn add(&self, kind: Kind, owner: u64, land: Land) {
        let mut state = self.lock();
        if !state.over {
            state.jobs.push(Job { kind, owner, land });
        }
        drop(state);
        self.changed.notify_all();
    }
}

impl State {
    pub fn pending(&self, kind: Kind) -> usize {
        self.jobs.iter().filter(|job| job.kind == kind).count()
    }

    /// The owner lives on for now.
    pub fn calm(&mut self) {
        self.life = None;
    }

    /// All that lies outside the image: in the cluster, and on the host's disk.
    pub fn outside(&self) -> impl Iterator<Item = &[u8]> {
        let records = self.record.iter().chain(&self.log_record);
        self.slots.iter().chain(&self.log_slots).chain(records).map(Vec::as_slice)
    }

    /// A byte of the log on the host is not what was written.
    pub fn rot_log(&mut self, at: usize) {
        self.log_slots[0][at] ^= 1;
    }

    /// The host comes back without its disk.
    pub fn lose_disk(&mut self) {
        self.log_record = None;
        self.log_slots.iter_mut().for_each(|slot| slot.fill(0));
    }

    pub fn resize(&mut self, size: usize) {
        self.image.resize(size, 0);
        self.durable.resize(size, 0);
        self.unflushed.clear();
    }

    /// An operation of the owner lands: perhaps the last.
    fn pass(&mut self, owner: u64) -> Vec<Answer> {
        match &mut self.life {
            Some(0) if owner == self.owner => self.crash(),
            Some(left) if owner == self.owner => {
                *left -= 1;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// What was under way lands, or not, or later; nobody is told. The image loses what was not
    /// flushed, in part.
    fn crash(&mut self) -> Vec<Answer> {
        self.life = None;
        let mut answers = Vec::new();
        for job in std::mem::take(&mut self.jobs) {
            match self.random.below(3) {
                0 => answers.push((job.land)(self)),
                1 => self.jobs.push(job),
                _ => answers.push(Box::new(move || drop(job)) as Answer),
            }
        }
        self.owner += 1;
        let mut image = self.durable.clone();
        for (at, bytes) in std::mem::take(&mut self.unflushed) {
            if self.random.below(2) == 0 {
                image[at..at + bytes.len()].copy_from_slice(&bytes);
            }
        }
        self.durable.clone_from(&image);
        self.image = image;
        // An answer that comes back to a dead owner says nothing: it is dropped with its call.
        answers.into_iter().map(|answer| Box::new(move || drop(answer)) as Answer).collect()
    }

    fn change(&mut self, at: u64, bytes: Vec<u8>) {
        let at = usize::try_from(at).unwrap();
        self.image[at..at + bytes.len()].copy_from_slice(&bytes);
        self.unflushed.push((at, bytes));
    }

    fn carry_out(&mut self, request: &mut Request) -> Result<(), DeviceError> {
        let fault = match request {
            Request::Read { .. } => self.faults.read,
            Request::Flush => self.faults.flush,
            _ => self.faults.change,
        };
        if let Some(failure) = fault {
            return Err(device_error(failure));
        }
        match request {
            Request::Read { offset, buffer } => {
                self.image_reads += 1;
                let at = usize::try_from(offset.bytes()).unwrap();
                let length = buffer.len();
                buffer.copy_from_slice(&self.image[at..at + length]);
            }
            Request::Write { offset, buffer, .. } => self.change(offset.bytes(), buffer.to_vec()),
            Request::WriteZeroes { range, .. } | Request::Discard { range } => {
                let zeros = vec![0; usize::try_from(range.length.bytes()).unwrap()];
                self.change(range.offset.bytes(), zeros);
            }
            Request::Flush => {
                self.unflushed.clear();
                self.durable.clone_from(&self.image);
            }
        }
        Ok(())
    }

    /// Of each slot; 0 for one that is missing.
    pub fn epochs(&self) -> impl Iterator<Item = u64> {
        self.owners.iter().map(|owner| owner.map_or(0, |(_, epoch)| epoch.0))
    }

    /// Somebody removes an object.
    pub fn remove_slot(&mut self, slot: usize) {
        self.owners[slot] = None;
        self.slots[slot].clear();
    }

    fn raise(&mut self, slot: u32, owner: Owner, mend: bool) -> Result<Option<SlotFault>, Failure> {
        let found = &mut self.owners[usize::try_from(slot).unwrap()];
        let fault = match *found {
            None => Some(SlotFault::Missing),
            Some((volume, _)) if volume != owner.volume => Some(SlotFault::Foreign),
            Some((_, epoch)) if epoch > owner.epoch => return Err(Failure::Fenced),
            Some(_) => None,
        };
        if fault.is_none() || mend {
            *found = Some((owner.volume, owner.epoch));
        }
        Ok(fault)
    }

    fn append(&mut self, slot: u32, at: u64, owner: Owner, bytes: &[u8]) -> Result<(), Failure> {
        let index = usize::try_from(slot).unwrap();
        if self.owners[index] != Some((owner.volume, owner.epoch)) {
            return Err(Failure::Fenced);
        }
        if let Some(failure) = self.faults.append {
            return Err(failure);
        }
        self.appends += 1;
        put(&mut self.slots[index], at, bytes);
        Ok(())
    }

    fn free(&mut self, slot: u32, owner: Owner, before: u64) -> Result<(), Failure> {
        let index = usize::try_from(slot).unwrap();
        if self.owners[index] != Some((owner.volume, owner.epoch)) {
            return Err(Failure::Fenced);
        }
        let record = Record::decode(self.record.as_ref().unwrap()).unwrap();
        assert!(before <= record.tail, "a slot is freed behind the tail of the record");
        self.freed.push((slot, before));
        Ok(())
    }

    fn swap_record(&mut self, expected: Option<&[u8]>, record: &[u8]) -> bool {
        let same = self.record.as_deref() == expected;
        if same {
            self.record = Some(record.to_vec());
        }
        same
    }
}

fn put(slot: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let at = usize::try_from(at).unwrap();
    slot.resize(slot.len().max(at + bytes.len()), 0);
    slot[at..at + bytes.len()].copy_from_slice(bytes);
}

fn device_error(failure: Failure) -> DeviceError {
    let source = match failure {
        Failure::Fenced => return DeviceError::Fenced,
        Failure::NoSpace => std::io::ErrorKind::StorageFull.into(),
        Failure::TimedOut => std::io::ErrorKind::TimedOut.into(),
        Failure::Io => std::io::Error::other("as it was told to"),
    };
    DeviceError::Io { action: "do it", source }
}

/// One owner's way to the world.
#[derive(Clone)]
pub struct Port {
    pub world: Arc<World>,
    owner: u64,
}

impl Port {
    /// For this owner's opening of the volume.
    pub fn sealing(&self) -> Option<Sealing> {
        let salt = u128::from(self.owner).to_le_bytes();
        self.world.secret.clone().map(|secret| Sealing::new(secret, salt))
    }

    fn act<T>(&self, act: impl FnOnce(&mut State) -> Result<T, Failure>) -> Result<T, Failure> {
        let mut state = self.world.lock();
        let lost = state.pass(self.owner);
        // An owner that died does nothing more, and hears of nothing.
        let result = if state.owner == self.owner { act(&mut state) } else { Err(Failure::Io) };
        drop(state);
        drop(lost);
        result
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Port({})", self.owner)
    }
}

impl BlockDevice for Port {
    fn geometry(&self) -> Geometry {
        let size = u64::try_from(self.world.lock().image.len()).unwrap();
        Geometry::new(size, BlockSize::B512).unwrap()
    }

    fn submit(&self, mut request: Request, completion: Completion) {
        let kind = match request {
            Request::Read { .. } => Kind::Read,
            Request::Flush => Kind::Flush,
            _ => Kind::Change,
        };
        let owner = self.owner;
        let land: Land = Box::new(move |state| {
            let result = if state.owner == owner {
                state.carry_out(&mut request)
            } else {
                Err(DeviceError::Fenced)
            };
            let outcome = Outcome { result, buffer: request.into_buffer() };
            Box::new(move || completion.complete(outcome))
        });
        self.world.add(kind, self.owner, land);
    }
}

impl Slots for Port {
    fn read_record(&self) -> Result<Option<Vec<u8>>, Failure> {
        self.act(|state| Ok(state.record.clone()))
    }

    fn swap_record(&self, expected: Option<&[u8]>, record: &[u8]) -> Result<bool, Failure> {
        self.act(|state| Ok(state.swap_record(expected, record)))
    }

    fn start_swap_record(&self, expected: Vec<u8>, record: Vec<u8>, done: Done<bool>) {
        let land: Land = Box::new(move |state| {
            let result = match state.faults.record {
                Some(failure) => Err(failure),
                None => Ok(state.swap_record(Some(&expected), &record)),
            };
            Box::new(move || done(result))
        });
        self.world.add(Kind::Record, self.owner, land);
    }

    fn raise_epoch(
        &self,
        slot: u32,
        owner: Owner,
        mend: bool,
    ) -> Result<Option<SlotFault>, Failure> {
        self.act(|state| state.raise(slot, owner, mend))
    }

    fn read_head(&self, segment: Segment) -> Result<Vec<u8>, Failure> {
        let mut slot = Slots::read_slot(self, segment)?;
        slot.truncate(512);
        Ok(slot)
    }

    fn read_slot(&self, segment: Segment) -> Result<Vec<u8>, Failure> {
        let slot = segment.place.slot;
        self.act(|state| Ok(state.slots[usize::try_from(slot).unwrap()].clone()))
    }

    fn start_append(&self, place: Place, owner: Owner, frame: Vec<u8>, done: Done<()>) {
        let sender = thread::current().name().unwrap_or_default().to_owned();
        self.world.lock().senders.push(sender);
        let land: Land = Box::new(move |state| {
            let result = state.append(place.slot, place.offset, owner, &frame);
            Box::new(move || done(result))
        });
        self.world.add(Kind::Append, self.owner, land);
    }

    fn start_free(&self, slot: u32, owner: Owner, before: u64, done: Done<()>) {
        let land: Land = Box::new(move |state| {
            let result = state.free(slot, owner, before);
            Box::new(move || done(result))
        });
        self.world.add(Kind::Free, self.owner, land);
    }
}

impl LocalLog for Port {
    fn read_record(&self) -> Result<Option<Vec<u8>>, Failure> {
        self.act(|state| Ok(state.log_record.clone()))
    }

    fn write_record(&self, record: &[u8]) -> Result<(), Failure> {
        self.act(|state| {
            state.log_record = Some(record.to_vec());
            Ok(())
        })
    }

    fn read_slot(&self, slot: u32) -> Result<Vec<u8>, Failure> {
        self.act(|state| Ok(state.log_slots[usize::try_from(slot).unwrap()].clone()))
    }

    fn append(&self, slot: u32, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        let hangs = |state: &mut State| state.faults.local_hangs && !state.over;
        drop(self.world.changed.wait_while(self.world.lock(), hangs).unwrap());
        self.act(|state| {
            if let Some(failure) = state.faults.local {
                return Err(failure);
            }
            put(&mut state.log_slots[usize::try_from(slot).unwrap()], offset, bytes);
            Ok(())
        })
    }

    fn set_aside(&self, why: Aside) -> Result<(), Failure> {
        self.act(|state| {
            state.asides.push(why);
            state.log_record = None;
            state.log_slots.iter_mut().for_each(|slot| slot.fill(0));
            Ok(())
        })
    }
}
