//! Owners, what they have under way, and the clock.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use grampus_blockdev::Token;
use grampus_sealing::Secret;

use super::devices::{Cluster, Disk, Image};
use super::history::{Ack, History, Op};
use super::random::Random;
use crate::extent::span::Span;
use crate::format::frame::Frame;
use crate::format::ids::{Epoch, VolumeId};
use crate::format::record::Record;
use crate::format::ring::{Place, Ring};
use crate::format::seal::Sealing;
use crate::journal::unapplied::Change;
use crate::sabotage::{Fault, Sabotage};
use crate::{
    Action, CacheConfig, Config, Event, Failure, Journal, Opened, Recovery, Report, State,
};

pub(super) const VOLUME: VolumeId = VolumeId(*b"simulated volume");
pub(super) const CAPACITY: usize = 64 << 10;

/// What happened in a world.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) crashes: u64,
    pub(super) interrupted_recoveries: u64,
    pub(super) takeovers: u64,
    pub(super) set_aside: u64,
    pub(super) degraded: u64,
    pub(super) failed: u64,
    pub(super) quiesced: u64,
    pub(super) acks: u64,
    pub(super) reads_checked: u64,
    pub(super) fenced_appends: u64,
    pub(super) laps: u64,
    pub(super) shipped: u64,
    pub(super) refused: u64,
    pub(super) rival_steps: u64,
    pub(super) waits: u64,
    pub(super) freed: u64,
}

impl Tally {
    /// What every long run must come to.
    pub(super) fn counts(&self) -> [(&'static str, u64); 15] {
        [
            ("crashes", self.crashes),
            ("interrupted_recoveries", self.interrupted_recoveries),
            ("takeovers", self.takeovers),
            ("set_aside", self.set_aside),
            ("degraded", self.degraded),
            ("failed", self.failed),
            ("quiesced", self.quiesced),
            ("acks", self.acks),
            ("reads_checked", self.reads_checked),
            ("fenced_appends", self.fenced_appends),
            ("laps", self.laps),
            ("shipped", self.shipped),
            ("rival_steps", self.rival_steps),
            ("waits", self.waits),
            ("freed", self.freed),
        ]
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.crashes += other.crashes;
        self.interrupted_recoveries += other.interrupted_recoveries;
        self.takeovers += other.takeovers;
        self.set_aside += other.set_aside;
        self.degraded += other.degraded;
        self.failed += other.failed;
        self.quiesced += other.quiesced;
        self.acks += other.acks;
        self.reads_checked += other.reads_checked;
        self.fenced_appends += other.fenced_appends;
        self.laps += other.laps;
        self.shipped += other.shipped;
        self.refused += other.refused;
        self.rival_steps += other.rival_steps;
        self.waits += other.waits;
        self.freed += other.freed;
    }
}

/// Who waits for a token.
#[derive(Debug, Clone, Copy)]
pub(super) enum Waiting {
    Flush { covers: usize },
    Quiesce,
}

#[derive(Debug)]
pub(super) struct Owner {
    pub(super) id: u64,
    pub(super) host: usize,
    pub(super) epoch: Epoch,
    pub(super) journal: Journal,
    pub(super) cache: bool,
    pub(super) waiting: HashMap<u64, Waiting>,
    pub(super) failed: bool,
    /// After a takeover was checked: the length of the prefix it kept.
    pub(super) fork: Option<usize>,
    /// It took writes after that.
    pub(super) strayed: bool,
    /// What the image was when it was held, as for a snapshot, while it is.
    pub(super) held: Option<Vec<u8>>,
}

/// A recovery that another one overtook.
pub(super) struct Rival {
    pub(super) recovery: Recovery,
    pub(super) host: usize,
}

/// Something under way.
#[derive(Debug)]
pub(super) enum Work {
    Append { frame: Frame, place: Place },
    AppendLocally { frame: Frame, place: Place },
    Apply { id: u64, span: Span, bytes: Vec<u8> },
    FlushImage { through: u64 },
    Record { expected: Record, record: Record },
    RecordLocally { record: Record },
    FreeSlot { slot: u32, before: u64 },
    Read { span: Span, expected: Vec<u8>, since: usize },
    Deliver(Event),
}

#[derive(Debug)]
pub(super) struct Pending {
    pub(super) owner: u64,
    epoch: Epoch,
    host: usize,
    pub(super) work: Work,
}

pub(super) struct World {
    pub(super) random: Random,
    pub(super) now: Duration,
    pub(super) config: Config,
    pub(super) local: Option<Ring>,
    pub(super) image: Image,
    pub(super) cluster: Cluster,
    pub(super) disks: Vec<Disk>,
    sector: usize,
    pub(super) here: usize,
    pub(super) owners: Vec<Owner>,
    pub(super) queue: BTreeMap<(Duration, u64), Pending>,
    next_id: u64,
    pub(super) history: History,
    pub(super) size_bytes: u64,
    /// Crashes soon, with little but whole pages and flushes before: the same lengths come to lie
    /// at the same places.
    pub(super) hasty: bool,
    /// Of a hundred operations that could fail, so many do.
    pub(super) failures: u64,
    pub(super) sabotage: Sabotage,
    pub(super) tally: Tally,
    pub(super) violation: Option<String>,
    pub(super) rival: Option<Rival>,
    /// The volume is encrypted.
    pub(super) secret: Option<Secret>,
    /// Of the opening that was begun last.
    pub(super) sealing: Option<Sealing>,
    /// Print what happens, to look at a seed.
    pub(super) trace: bool,
}

impl World {
    pub(super) fn new(seed: u64, fault: Option<Fault>) -> Self {
        let mut random = Random::new(seed);
        let segments = 2 + u32::try_from(random.below(3)).unwrap();
        let sector = if random.chance(50) { 512 } else { 4096 };
        let local = random.chance(60);
        let max_appends = 1 + random.below(4);
        let hasty = random.chance(25);
        // Some faults show in few worlds: look where they do.
        let (segments, local, max_appends, hasty) = match fault {
            Some(Fault::TakeAnyEpoch) => (2, false, 4, true),
            Some(Fault::IgnoreLocalFailure | Fault::AcknowledgeLocalOutOfOrder) => {
                (segments, true, max_appends, false)
            }
            _ => (segments, local, max_appends, hasty),
        };
        let ring = Ring { segment_bytes: 16 << 10, segments, align_bytes: 512 };
        let local = local.then_some(Ring { segments: 2, ..ring });
        let ms = Duration::from_millis;
        let unbounded = if random.chance(50) { 0 } else { u64::MAX };
        let config = Config {
            ring,
            max_write_bytes: 4096,
            max_batch_bytes: random.between(5, 13) << 10,
            max_held_bytes: random.between(52, 100) << 10,
            max_undurable_bytes: unbounded.max(random.between(5, 40) << 10),
            max_appends,
            max_applies: 1 + random.below(4),
            max_apply_bytes: random.between(4, 17) << 10,
            max_small_frames: 4,
            close_after: ms(random.between(1, 30)),
            apply_after: ms(random.between(0, 30)),
            idle_after: ms(random.between(0, 60)),
            trim_after: ms(random.between(1, 20)),
            retry_after: ms(5),
            refuse_after: ms(500),
            cache: None,
        };
        let failures = if random.chance(50) { 0 } else { random.between(1, 4) };
        Self {
            now: Duration::ZERO,
            config,
            local,
            image: Image::new(CAPACITY, sector),
            cluster: Cluster::new(ring, sector),
            disks: (0..2).map(|_| Disk::new(local.unwrap_or(ring), sector)).collect(),
            sector,
            here: 0,
            owners: Vec::new(),
            queue: BTreeMap::new(),
            next_id: 1,
            history: History::new(CAPACITY),
            size_bytes: u64::try_from(CAPACITY).unwrap(),
            hasty,
            failures,
            sabotage: Sabotage { fault },
            tally: Tally::default(),
            violation: None,
            rival: None,
            secret: None,
            sealing: None,
            trace: std::env::var_os("GRAMPUS_JOURNAL_TRACE").is_some(),
            random,
        }
    }

    /// The same world of an encrypted volume.
    pub(super) fn encrypted(mut self) -> Self {
        self.secret = Secret::parse(&[b'e'; 64]).ok();
        self
    }

    /// For an opening that begins now: nothing random, so that a seed makes the same world.
    pub(super) fn new_sealing(&mut self) -> Option<Sealing> {
        let salt = u128::from(self.unique()).to_le_bytes();
        self.sealing = self.secret.clone().map(|secret| Sealing::new(secret, salt));
        self.sealing.clone()
    }

    pub(super) fn new_disk(&self) -> Disk {
        Disk::new(self.local.unwrap_or(self.config.ring), self.sector)
    }

    pub(super) fn trace(&self, what: impl FnOnce() -> String) {
        if self.trace {
            println!("{:>9.3?} {}", self.now, what());
        }
    }

    pub(super) fn unique(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(super) fn violate(&mut self, what: &str) {
        let now = self.now;
        self.violation.get_or_insert(format!("{what} (at {now:?})"));
    }

    pub(super) fn open(&mut self, opened: Opened) {
        let cache = self.local.is_some() && self.random.chance(80);
        let lag = self.random.between(2, 15);
        let config = Config {
            cache: cache.then(|| CacheConfig {
                ring: self.local.unwrap(),
                max_appends: 1 + self.random.below(3),
                max_lag: Duration::from_millis(lag),
                max_lag_bytes: 16 << 10,
                ship_after: Duration::from_millis(lag / 3),
                give_up_after: Duration::from_millis(self.random.between(2, 200)),
            }),
            ..self.config
        };
        self.config = config;
        let journal = Journal::new(config, opened, self.now).expect("the settings are sound");
        let mut journal = journal.sealed(self.sealing.as_ref());
        journal.sabotage(self.sabotage);
        let id = self.unique();
        self.owners.push(Owner {
            id,
            host: self.here,
            epoch: opened.record.epoch,
            journal,
            cache,
            waiting: HashMap::new(),
            failed: false,
            fork: None,
            strayed: false,
            held: None,
        });
    }

    /// The owner in charge: the newest.
    pub(super) fn owner(&mut self) -> usize {
        self.owners.len() - 1
    }

    /// Let the next thing happen. False when nothing is under way.
    pub(super) fn proceed(&mut self) -> bool {
        let ticks = self.owners.iter().enumerate();
        let tick =
            ticks.filter_map(|(index, owner)| Some((owner.journal.next_tick()?, index))).min();
        let next = self.queue.first_key_value().map(|((at, _), _)| *at);
        match (tick, next) {
            (Some((at, index)), next) if next.is_none_or(|next| at <= next) => {
                self.now = self.now.max(at);
                self.owners[index].journal.handle(self.now, Event::Tick);
                self.drive(index);
            }
            (_, Some(at)) => {
                self.now = self.now.max(at);
                let (_, pending) = self.queue.pop_first().expect("seen above");
                self.happen(pending);
            }
            _ => return false,
        }
        true
    }

    /// Do what the journal wants done.
    pub(super) fn drive(&mut self, index: usize) {
        while let Some(action) = self.owners[index].journal.next_action() {
            self.trace(|| format!("owner {index} wants {action:?}"));
            match action {
                Action::Append { frame, place } => {
                    self.tally.laps =
                        self.tally.laps.max(place.position / self.config.ring.capacity_bytes());
                    self.begin(index, Work::Append { frame, place }, 200, 3000);
                }
                Action::AppendLocally { frame, place } => {
                    self.begin(index, Work::AppendLocally { frame, place }, 30, 300);
                }
                Action::Apply { id, span, change } => {
                    let bytes = bytes_of(span, &change);
                    self.begin(index, Work::Apply { id, span, bytes }, 300, 6000);
                }
                Action::FlushImage => {
                    let through = self.image.begin_flush();
                    self.begin(index, Work::FlushImage { through }, 300, 2000);
                }
                Action::Record { expected, record } => {
                    self.begin(index, Work::Record { expected, record }, 200, 2000);
                }
                Action::FreeSlot { slot, before, .. } => {
                    self.begin(index, Work::FreeSlot { slot, before }, 200, 6000);
                }
                Action::RecordLocally { record } => {
                    self.begin(index, Work::RecordLocally { record }, 30, 300);
                }
                Action::Complete { token, result } => self.completed(index, token, result),
                Action::Report(report) => self.reported(index, report),
            }
        }
    }

    pub(super) fn begin(&mut self, index: usize, work: Work, least_us: u64, limit_us: u64) {
        // Now and then the network or a disk takes its time.
        let slow = if self.random.chance(3) { 10 } else { 1 };
        let at = self.now + self.random.us(least_us, limit_us) * slow;
        let Owner { id, epoch, host, .. } = self.owners[index];
        let key = (at, self.unique());
        self.queue.insert(key, Pending { owner: id, epoch, host, work });
    }

    fn happen(&mut self, Pending { owner, epoch, host, work }: Pending) {
        let fails = self.random.chance(self.failures);
        if !matches!(work, Work::Deliver(_)) {
            self.trace(|| format!("epoch {epoch}{}: {work:?}", if fails { " FAILS" } else { "" }));
        }
        let event = match work {
            Work::Deliver(event) => {
                if let Some(index) = self.owners.iter().position(|alive| alive.id == owner) {
                    self.trace(|| format!("owner {index} is told {event:?}"));
                    self.owners[index].journal.handle(self.now, event);
                    self.drive(index);
                }
                return;
            }
            Work::Read { span, expected, since } => {
                let fenced = epoch < self.image.fenced_below();
                if !fenced && self.owners.last().is_some_and(|alive| alive.id == owner) {
                    self.check_read(span, &expected, since);
                }
                return;
            }
            Work::Append { frame, place } => {
                let last = frame.last;
                let result = match (fails, self.random.below(8)) {
                    // It landed, but the answer was lost.
                    (true, 0) => self.cluster.append(&frame, place).and(Err(Failure::Io)),
                    (true, 1) => Err(Failure::Io),
                    (true, _) => Err(Failure::NoSpace),
                    (false, _) => self.cluster.append(&frame, place),
                };
                self.tally.fenced_appends += u64::from(result == Err(Failure::Fenced));
                Event::Appended { last, result }
            }
            Work::AppendLocally { frame, place } => {
                let disk = &mut self.disks[host];
                disk.broken |= fails && self.random.chance(60);
                Event::AppendedLocally { last: frame.last, result: disk.append(&frame, place) }
            }
            Work::Apply { id, span, bytes } => {
                let result = if fails {
                    self.image.write_torn(epoch, span.start(), &bytes, &mut self.random);
                    Err(if self.random.chance(50) { Failure::Io } else { Failure::NoSpace })
                } else {
                    self.image.write(epoch, span.start(), &bytes)
                };
                Event::Applied { id, result }
            }
            Work::FlushImage { through } => {
                if fails && self.random.chance(20) {
                    Event::ImageFlushed(Err(Failure::Io))
                } else {
                    self.image.end_flush(through);
                    Event::ImageFlushed(Ok(()))
                }
            }
            Work::Record { expected, record } => Event::Recorded(if fails {
                Err(if self.random.chance(20) { Failure::Io } else { Failure::NoSpace })
            } else if self.cluster.swap_record(Some(expected), record) {
                Ok(())
            } else {
                Err(Failure::Fenced)
            }),
            Work::FreeSlot { slot, before } => {
                let result = match (fails, self.random.below(3)) {
                    (true, 0) => Err(Failure::Io),
                    (true, 1) => Err(Failure::NoSpace),
                    (true, _) => self.cluster.free(epoch, slot, before).and(Err(Failure::Io)),
                    (false, _) => self.cluster.free(epoch, slot, before),
                };
                self.tally.freed += u64::from(result.is_ok());
                Event::SlotFreed { slot, result }
            }
            Work::RecordLocally { record } => {
                Event::RecordedLocally(self.disks[host].write_record(&record))
            }
        };
        let at = self.now + self.random.us(0, 300);
        let key = (at, self.unique());
        self.queue.insert(key, Pending { owner, epoch, host, work: Work::Deliver(event) });
    }

    /// A read of the image must bring what the user last wrote, unless that changed meanwhile.
    fn check_read(&mut self, span: Span, expected: &[u8], since: usize) {
        let at = usize::try_from(span.start()).unwrap();
        if since <= self.history.len() && !self.history.changed_since(since, span) {
            self.tally.reads_checked += 1;
            if &self.image.bytes()[at..at + expected.len()] != expected {
                self.violate(&format!("a read of {span} from the image brought old bytes"));
            }
        }
    }

    fn completed(&mut self, index: usize, token: Token, result: Result<(), Failure>) {
        let now = self.now;
        let newest = index + 1 == self.owners.len();
        let owner = &mut self.owners[index];
        let Some(waiting) = owner.waiting.remove(&token.0) else {
            return self.violate(&format!("token {token:?} was answered twice"));
        };
        if result.is_err() {
            return;
        }
        if owner.failed {
            return self.violate("something was acknowledged after a failure (INV-6)");
        }
        match waiting {
            Waiting::Flush { covers } => {
                self.tally.acks += 1;
                match owner.fork {
                    Some(kept) if !owner.cache && covers > kept => self.violate(&format!(
                        "a fenced owner acknowledged operation {covers}, but {kept} were taken over"
                    )),
                    Some(_) => {}
                    None => self.history.acks.push(Ack { at: now, covers }),
                }
            }
            Waiting::Quiesce if newest => self.quiesced(index),
            Waiting::Quiesce => {}
        }
    }

    /// Everything must be in the image, durable (INV-4). Now and then the volume is resized.
    fn quiesced(&mut self, index: usize) {
        self.tally.quiesced += 1;
        if self.image.bytes() != self.history.current() {
            self.violate("a quiesced image lacks writes (INV-4)");
        } else if self.image.durable() != self.history.current() {
            self.violate("a quiesced image is not durable (INV-4)");
        }
        let now = self.now;
        let all = self.history.len();
        self.history.acks.push(Ack { at: now, covers: all });
        let fenced = self.owners[index].epoch < self.image.fenced_below();
        let is_held = self.owners[index].held.is_some();
        if !fenced && !is_held && self.random.chance(50) {
            let size = self.random.between(24, 129) * 512;
            let sequence = self.owners[index].journal.status().closed;
            if size < self.size_bytes {
                let cut = Span::between(size, self.size_bytes);
                let bytes = vec![0; usize::try_from(cut.length()).unwrap()];
                self.history.push(Op { span: cut, bytes, sequence });
                self.history.acks.push(Ack { at: now, covers: all + 1 });
                self.image.truncate(size);
            }
            self.size_bytes = size;
            self.owners[index].journal.handle(now, Event::Resized(size));
        }
        // Where two asked for quiet, the first one may have ended it.
        let is_quiet = self.owners[index].journal.status().state == State::Quiesced;
        if is_quiet && self.random.chance(40) {
            self.owners[index].journal.handle(now, Event::HoldImage(true));
            self.owners[index].held = Some(self.image.bytes().to_vec());
        } else {
            self.owners[index].journal.handle(now, Event::Unquiesce);
        }
    }

    fn reported(&mut self, index: usize, report: Report) {
        match report {
            Report::Degraded(_) => self.tally.degraded += 1,
            Report::Failed(_) => {
                self.tally.failed += 1;
                self.owners[index].failed = true;
            }
            Report::Retrying(_) | Report::Recovered => {}
        }
    }

    /// What the cluster has of the newest owner's batches, as the owner knows.
    pub(super) fn has_failed(&self) -> bool {
        let last = self.owners.last();
        last.is_some_and(|owner| matches!(owner.journal.status().state, State::Failed(_)))
    }

    /// The process of every owner ends. What it had under way is done, undone, torn, or still on
    /// its way.
    pub(super) fn kill(&mut self) {
        self.trace(|| "killed".into());
        self.owners.clear();
        let queue = std::mem::take(&mut self.queue);
        for (key, pending) in queue {
            let fate = self.random.below(10);
            match &pending.work {
                Work::AppendLocally { frame, place } if fate > 2 => {
                    self.disks[pending.host].append_torn(frame, *place, &mut self.random);
                }
                Work::RecordLocally { record } if fate > 4 => {
                    self.disks[pending.host].write_record(record).unwrap_or_default();
                }
                Work::Append { frame, place } if fate < 3 => {
                    self.cluster.append_torn(frame, *place, &mut self.random);
                }
                Work::Apply { span, bytes, .. } if fate < 3 => {
                    let random = &mut self.random;
                    self.image.write_torn(pending.epoch, span.start(), bytes, random);
                }
                Work::Append { .. }
                | Work::Apply { .. }
                | Work::Record { .. }
                | Work::FreeSlot { .. }
                    if fate < 7 =>
                {
                    self.queue.insert(key, pending);
                }
                _ => {}
            }
        }
        if self.random.chance(50) {
            self.image.crash(&mut self.random);
        }
    }
}

fn bytes_of(span: Span, change: &Change) -> Vec<u8> {
    let bytes: Vec<u8> = match change {
        Change::Data(payloads) => {
            payloads.iter().flat_map(|payload| payload.as_slice().to_vec()).collect()
        }
        Change::Zeros | Change::Discard => vec![0; usize::try_from(span.length()).unwrap()],
    };
    assert_eq!(u64::try_from(bytes.len()).unwrap(), span.length(), "a change fills its span");
    bytes
}
