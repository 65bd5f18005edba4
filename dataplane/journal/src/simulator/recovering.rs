//! Crashes, takeovers and what follows them.

use super::world::{CAPACITY, Rival, VOLUME, World};
use crate::extent::content::Content;
use crate::sabotage::Fault;
use crate::{Answer, Log, Recovery, RecoveryConfig, Step};
use crate::{Epoch, Opened, Record, SlotFault, Span};

/// As much of a slot as a head shows: less than most frames.
const HEAD_BYTES: usize = 512;

/// What the owner before the crash had promised.
#[derive(Debug, Clone, Copy)]
pub(super) struct Promise {
    pub(super) cache: bool,
    pub(super) host: usize,
    pub(super) epoch: Epoch,
    /// Its disk is gone.
    pub(super) disk_lost: bool,
    /// Durable in the cluster through this batch.
    pub(super) replicated: u64,
}

impl World {
    /// The whole life of a world: open, work, crash, recover, some times over.
    pub(super) fn live(&mut self) {
        let mut promise =
            Promise { cache: false, host: 0, epoch: Epoch(0), disk_lost: false, replicated: 0 };
        for _ in 0..self.random.between(2, 5) {
            self.recover(promise);
            if self.violation.is_some() {
                return;
            }
            self.work();
            if self.violation.is_some() {
                return;
            }
            promise = self.crash();
        }
        self.recover(promise);
        if self.violation.is_none() {
            self.must_live();
        }
        if self.cluster.landed_after_fence > 0 {
            self.violate("an old owner wrote after its fence was confirmed (INV-2)");
        }
    }

    pub(super) fn work(&mut self) {
        let most = if self.hasty { 40 } else { 250 };
        for _ in 0..self.random.between(5, most) {
            if self.violation.is_some() || self.has_failed() {
                return;
            }
            let index = self.random.below(self.owners.len());
            if self.random.chance(55) {
                self.request(index);
            } else {
                self.proceed();
                self.rival();
            }
        }
    }

    fn crash(&mut self) -> Promise {
        self.tally.crashes += 1;
        // Owners before the last were fenced and checked: they may end with it.
        let index = self.owner();
        self.owners.drain(..index);
        let owner = &self.owners[0];
        let mut promise = Promise {
            cache: owner.cache,
            host: owner.host,
            epoch: owner.epoch,
            disk_lost: false,
            replicated: owner.journal.status().replicated,
        };
        match self.random.below(10) {
            // The process dies, and starts again on the same host.
            0..5 => self.kill(),
            // The host dies; another takes over. Its disk may be seen again.
            5..7 => {
                self.kill();
                self.here = 1 - self.here;
            }
            // The host dies with its disk.
            7 => {
                self.kill();
                promise.disk_lost = true;
                self.disks[promise.host] = self.new_disk();
                self.here = self.random.below(2);
            }
            // Another host takes over while the old owner works on.
            _ => {
                self.tally.takeovers += 1;
                self.here = 1 - self.here;
            }
        }
        promise
    }

    fn recover(&mut self, mut promise: Promise) {
        let mut attempts = self.random.below(4);
        let opened = loop {
            // Two processes never share a local log: on one host the old one ends first.
            if let Some(old) = self.owners.last().filter(|old| old.host == self.here) {
                promise.replicated = promise.replicated.max(old.journal.status().replicated);
                self.kill();
            }
            let steps = if attempts == 0 { u64::MAX } else { self.random.between(1, 14) };
            match self.try_to_recover(steps) {
                Some(opened) => break opened,
                None if self.violation.is_some() => return,
                None => {
                    self.tally.interrupted_recoveries += 1;
                    // It may have come as far as opening the volume on another host: from then on
                    // the old owner's disk is of an older epoch.
                    let opened =
                        self.cluster.record().map(|bytes| Record::decode(&bytes).unwrap().opened);
                    let elsewhere = self.here != promise.host && opened > Some(promise.epoch);
                    promise.disk_lost |= elsewhere;
                    attempts -= 1;
                    // While an owner uses the image, what its flushes promise holds.
                    if self.owners.is_empty() {
                        self.image.crash(&mut self.random);
                    }
                    if self.random.chance(30) {
                        self.here = 1 - self.here;
                    }
                }
            }
        };
        // An owner that lives on may have learned of more since; all of it was before the fence.
        if let Some(old) = self.owners.last() {
            promise.replicated = promise.replicated.max(old.journal.status().replicated);
        }
        self.check(promise);
        self.open(opened);
    }

    /// A recovery that was interrupted may only have been slow: once another has claimed the
    /// volume it goes on, and must come to nothing. (On one host a lock keeps the second out.)
    pub(super) fn rival(&mut self) {
        let Some(mut rival) = self.rival.take() else { return };
        if self.claimed() <= rival.recovery.epoch() {
            self.rival = Some(rival);
            return;
        }
        let step = rival.recovery.step();
        self.trace(|| format!("the rival of epoch {}: {step:?}", rival.recovery.epoch()));
        match step {
            Step::Open(_) => self.violate("a recovery that was overtaken opened the volume"),
            Step::Stop(_) => {}
            _ if self.here == rival.host => {}
            step => {
                self.tally.rival_steps += 1;
                let answer = self.take(step, rival.host, rival.recovery.epoch());
                if rival.recovery.answer(answer).is_ok() {
                    self.rival = Some(rival);
                }
            }
        }
    }

    fn claimed(&self) -> Epoch {
        let record = self.cluster.record().map(|bytes| Record::decode(&bytes).unwrap());
        record.map_or(Epoch(0), |record| record.epoch)
    }

    fn try_to_recover(&mut self, mut steps: u64) -> Option<Opened> {
        let sealing = self.new_sealing();
        let mut recovery = Recovery::new(RecoveryConfig {
            volume: VOLUME,
            ring: self.config.ring,
            local: self.local,
            max_held_bytes: self.config.max_held_bytes / 4,
            accept_damage: false,
        })
        .expect("the settings are sound")
        .sealed(sealing);
        recovery.sabotage = self.sabotage;
        loop {
            // Old owners and what they left under way go on between the steps.
            for _ in 0..self.random.below(4) {
                for index in 0..self.owners.len() {
                    if self.random.chance(50) {
                        self.request(index);
                    }
                }
                self.proceed();
                self.rival();
            }
            let step = recovery.step();
            if let Step::Open(opened) = step {
                let progress = recovery.progress();
                self.tally.shipped += progress.shipped_batches;
                self.tally.set_aside += u64::from(progress.set_aside.is_some());
                return Some(opened);
            }
            self.trace(|| {
                format!(
                    "host {} {}: {step:?}",
                    self.here,
                    if steps == 1 { "DIES AT" } else { "does" }
                )
            });
            steps -= 1;
            if steps == 0 {
                if recovery.epoch() > Epoch(0) && self.random.chance(40) {
                    self.rival = Some(Rival { recovery, host: self.here });
                } else {
                    self.interrupt(step, recovery.epoch());
                }
                return None;
            }
            let answer = self.take(step, self.here, recovery.epoch());
            if let Err(error) = recovery.answer(answer) {
                self.violate(&format!("recovery failed: {error}"));
                return None;
            }
        }
    }

    /// A crash in the middle of a step.
    fn interrupt(&mut self, step: Step, epoch: Epoch) {
        match step {
            Step::Apply(extents) => {
                for (span, content) in extents.iter() {
                    let bytes = plain(*span, content);
                    self.image.write_torn(epoch, span.start(), &bytes, &mut self.random);
                }
            }
            Step::Append { frame, place } => {
                self.cluster.append_torn(&frame, place, &mut self.random);
            }
            // These are done at once, or not at all.
            step if self.random.chance(50) => drop(self.take(step, self.here, epoch)),
            _ => {}
        }
    }

    pub(super) fn take(&mut self, step: Step, host: usize, epoch: Epoch) -> Answer {
        match step {
            Step::ReadRecord(Log::Cluster) => Answer::Record(self.cluster.record()),
            Step::ReadRecord(Log::Local) => Answer::Record(self.disks[host].record.clone()),
            Step::SwapRecord { expected, record } => {
                Answer::Swapped(self.cluster.swap_record(expected, record))
            }
            Step::Fence { .. } if self.sabotage.is(Fault::SkipFence) => {
                Answer::Fenced { size_bytes: self.size_bytes, faulty: Vec::new() }
            }
            Step::Fence { owner, mend } => {
                let (epoch, mut faulty) = (owner.epoch, Vec::new());
                for slot in 0..self.cluster.slots() {
                    if self.cluster.raise(slot, epoch, mend) {
                        faulty.push((u32::try_from(slot).unwrap(), SlotFault::Missing));
                    }
                    if self.random.chance(30) {
                        self.proceed();
                    }
                }
                let newest = epoch > self.image.fenced_below();
                self.image.fence(epoch);
                if newest && self.random.chance(50) {
                    self.image.crash(&mut self.random);
                }
                self.cluster.fence = self.cluster.fence.max(epoch);
                Answer::Fenced { size_bytes: self.size_bytes, faulty }
            }
            Step::ReadHeads(segments) => Answer::Heads(
                segments
                    .iter()
                    .map(|segment| {
                        self.cluster.read_slot(segment.place.slot)[..HEAD_BYTES].to_vec()
                    })
                    .collect(),
            ),
            Step::ReadSlot(Log::Cluster, segment) => {
                Answer::Slot(self.cluster.read_slot(segment.place.slot))
            }
            Step::ReadSlot(Log::Local, segment) => {
                Answer::Slot(self.disks[host].read_slot(segment.place.slot))
            }
            Step::Append { frame, place } => match self.cluster.append(&frame, place) {
                Ok(()) => Answer::Done,
                Err(failure) => Answer::Failed(failure),
            },
            Step::Apply(extents) => {
                let mut order: Vec<_> = extents.iter().collect();
                while !order.is_empty() {
                    let (span, content) = order.swap_remove(self.random.below(order.len()));
                    let written = self.image.write(epoch, span.start(), &plain(*span, content));
                    if let Err(failure) = written {
                        return Answer::Failed(failure);
                    }
                }
                Answer::Done
            }
            Step::FlushImage => {
                self.image.end_flush(self.image.begin_flush());
                Answer::Done
            }
            Step::SetLocalAside(_) => {
                self.disks[host] = self.new_disk();
                Answer::Done
            }
            Step::WriteLocalRecord(record) => {
                if self.disks[host].broken {
                    self.disks[host] = self.new_disk();
                }
                self.disks[host].write_record(&record).expect("the disk is new");
                Answer::Done
            }
            Step::Open(_) | Step::Stop(_) => panic!("no step to take"),
        }
    }

    /// INV-1, and the bound on what the loss of a host may cost.
    pub(super) fn check(&mut self, promise: Promise) {
        let disk = promise.host == self.here && !promise.disk_lost;
        let required = if promise.cache && !disk {
            self.history.through(promise.replicated)
        } else {
            self.history.acknowledged()
        };
        assert_eq!(self.image.bytes().len(), CAPACITY);
        match self.history.check(self.image.bytes(), required) {
            Err(what) => return self.violate(&what),
            Ok(length) => {
                let lost = self.history.lost(length);
                let max_lag =
                    self.config.cache.map_or_else(Default::default, |cache| cache.max_lag);
                if lost > max_lag {
                    self.violate(&format!(
                        "{lost:?} of acknowledged work is lost, not {max_lag:?}"
                    ));
                }
                for owner in &mut self.owners {
                    owner.fork = owner.fork.or(Some(length));
                }
            }
        }
        self.history.restart(self.image.bytes());
    }
}

fn plain(span: Span, content: &Content) -> Vec<u8> {
    match content {
        Content::Data(payload) => payload.as_slice().to_vec(),
        Content::Zeros | Content::Discard => vec![0; usize::try_from(span.length()).unwrap()],
    }
}
