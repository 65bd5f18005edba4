//! What a recovery asks for, carried out one step after the other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use grampus_blockdev::{BlockDevice, Completion, CompletionSink, Outcome, Request, Token, execute};
use grampus_journal::{
    Answer, CacheConfig, Change, Config, Content, Epoch, Failure, Frame, Log, Opened, Payload,
    Place, Progress, Record, Recovery, RecoveryConfig, RecoveryError, Ring, Sealing, Span, Step,
    VolumeId,
};

use crate::error::{OpenError, failure_of};
use crate::ports::{LocalLog, Slots};
use crate::work::request_of;

/// Which volume, and how its journal works.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its name, should it have no journal yet; else its journal says so.
    pub volume: VolumeId,
    /// The settings. With `cache`, a log on the host is needed.
    pub config: Config,
    /// Of an encrypted volume: what its frames are sealed with, drawn anew for each opening.
    pub sealing: Option<Sealing>,
    /// Open the volume without what a damaged journal has lost.
    pub accept_damage: bool,
}

/// Slots that are asked at once, such as for their epoch to be raised: it is the part of a takeover
/// that a user waits for.
const SLOT_THREADS: u32 = 8;

/// Bring what the journal holds into the image and leave the journal empty: for a volume that is
/// to be used without. The caller holds the image's exclusive lock.
///
/// # Errors
/// [`OpenError`]. It can be tried again.
pub fn replay(
    image: &dyn BlockDevice,
    slots: &dyn Slots,
    local: Option<&dyn LocalLog>,
    options: Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<Progress, OpenError> {
    let mut last = Progress::default();
    recover(image, slots, local, options, &mut |now| {
        last = now;
        progress(now);
    })?;
    Ok(last)
}

/// Whether the image may lack something that its journal has.
///
/// # Errors
/// [`OpenError::Recovery`] when the journal cannot be read.
pub fn needs_replay(slots: &dyn Slots) -> Result<bool, OpenError> {
    let Some(record) = read_record(slots)? else { return Ok(false) };
    if record.opened == Epoch(0) {
        return Ok(false); // nobody took writes, and there may be no slots
    }
    if record.durable >= record.first {
        return Ok(true);
    }
    let tail = record.ring.place(record.tail);
    if has_frame(slots, &record, tail)? {
        return Ok(true);
    }
    // A frame that did not fit behind the tail begins the next segment.
    let next = record.ring.place(record.ring.next_segment(record.tail));
    Ok(next.position != tail.position && has_frame(slots, &record, next)?)
}

fn read_record(slots: &dyn Slots) -> Result<Option<Record>, RecoveryError> {
    let bytes = slots.read_record().map_err(RecoveryError::Io)?;
    bytes.map(|bytes| Record::decode(&bytes).map_err(RecoveryError::Record)).transpose()
}

/// Whether the next frame of the log lies there.
fn has_frame(slots: &dyn Slots, record: &Record, place: Place) -> Result<bool, RecoveryError> {
    let segment = record.ring.segment(place.position, record.written_by);
    let bytes = slots.read_slot(segment).map_err(RecoveryError::Io)?;
    let offset = usize::try_from(place.offset).unwrap_or(usize::MAX);
    let found = Frame::look_at(bytes.get(offset..).unwrap_or_default(), record.volume);
    Ok(found == Ok((record.written_by, record.first)))
}

/// Run a recovery to its end.
pub(crate) fn recover(
    image: &dyn BlockDevice,
    slots: &dyn Slots,
    local: Option<&dyn LocalLog>,
    Options { volume, config, sealing, accept_damage }: Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<Opened, OpenError> {
    let record = read_record(slots)?;
    let mut recovery = Recovery::new(RecoveryConfig {
        volume: record.map_or(volume, |record| record.volume),
        ring: config.ring,
        local: local.map(|local| local_ring(local, &config)).transpose()?,
        max_held_bytes: config.max_held_bytes,
        accept_damage,
    })?
    .sealed(sealing);
    let mut world = World { image, slots, local, config, claimed: None };
    let mut told = Progress::default();
    loop {
        let answer = match recovery.step() {
            Step::Open(opened) => return Ok(opened),
            Step::Stop(error) => return Err(error.into()),
            step => world.take(step).unwrap_or_else(Answer::Failed),
        };
        recovery.answer(answer)?;
        if recovery.progress() != told {
            told = recovery.progress();
            progress(told);
        }
    }
}

/// The shape of the log on the host: as the settings say, or as it is.
fn local_ring(local: &dyn LocalLog, config: &Config) -> Result<Ring, RecoveryError> {
    if let Some(cache) = config.cache {
        return Ok(cache.ring);
    }
    let bytes = local.read_record().map_err(RecoveryError::Io)?;
    let found = bytes.and_then(|bytes| Record::decode(&bytes).ok());
    Ok(found.map_or(CacheConfig::default().ring, |record| record.ring))
}

struct World<'a> {
    image: &'a dyn BlockDevice,
    slots: &'a dyn Slots,
    local: Option<&'a dyn LocalLog>,
    config: Config,
    /// The record as this recovery has claimed it.
    claimed: Option<Record>,
}

impl World<'_> {
    fn take(&mut self, step: Step) -> Result<Answer, Failure> {
        Ok(match step {
            Step::ReadRecord(Log::Cluster) => Answer::Record(self.slots.read_record()?),
            Step::ReadRecord(Log::Local) => Answer::Record(self.local()?.read_record()?),
            Step::SwapRecord { expected, record } => {
                let expected = expected.map(|record| record.encode());
                let expected = expected.as_ref().map(<[u8; _]>::as_slice);
                let swapped = self.slots.swap_record(expected, &record.encode())?;
                self.claimed = Some(record).filter(|_| swapped).or(self.claimed);
                Answer::Swapped(swapped)
            }
            Step::Fence { owner, mend } => {
                let ring = self.claimed.map_or(self.config.ring, |record| record.ring);
                let raise = |slot| self.slots.raise_epoch(slot, owner, mend);
                let found = side_by_side(ring.segments, raise)?;
                let faulty = (0..).zip(found).filter_map(|(slot, fault)| Some((slot, fault?)));
                let faulty = faulty.collect();
                Answer::Fenced { size_bytes: self.image.geometry().size_bytes(), faulty }
            }
            Step::ReadHeads(segments) => {
                let count = u32::try_from(segments.len()).unwrap_or(u32::MAX);
                let read = |index: u32| {
                    let index = usize::try_from(index).unwrap_or(usize::MAX);
                    segments.get(index).map_or(Ok(Vec::new()), |it| self.slots.read_head(*it))
                };
                Answer::Heads(side_by_side(count, read)?)
            }
            Step::ReadSlot(Log::Cluster, segment) => Answer::Slot(self.slots.read_slot(segment)?),
            Step::ReadSlot(Log::Local, segment) => {
                Answer::Slot(self.local()?.read_slot(segment.place.slot)?)
            }
            Step::Append { frame, place } => self.append(&frame, place)?,
            Step::Apply(extents) => self.apply(&extents)?,
            Step::FlushImage => {
                let outcome = execute(self.image, Request::Flush);
                outcome.result.map_err(|error| failure_of(&error))?;
                Answer::Done
            }
            Step::SetLocalAside(why) => {
                tracing::warn!(?why, "the log on this host is not the volume's last: set aside");
                self.local()?.set_aside(why)?;
                Answer::Done
            }
            Step::WriteLocalRecord(record) => {
                self.local()?.write_record(&record.encode())?;
                Answer::Done
            }
            // The loop ends with these.
            Step::Open(_) | Step::Stop(_) => return Err(Failure::Io),
        })
    }

    fn local(&self) -> Result<&dyn LocalLog, Failure> {
        self.local.ok_or(Failure::Io)
    }

    fn append(&self, frame: &Frame, place: Place) -> Result<Answer, Failure> {
        let (sender, answer) = mpsc::channel();
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let done = Box::new(move |result| sender.send(result).unwrap_or_default());
        self.slots.start_append(place, frame.owner(), bytes, done);
        // A call that was lost is a call that failed.
        answer.recv().unwrap_or(Err(Failure::Io))?;
        Ok(Answer::Done)
    }

    /// Write ranges that do not overlap, as many at once as the settings allow, neighbours
    /// together.
    fn apply(&self, extents: &[(Span, Content)]) -> Result<Answer, Failure> {
        let applying = Arc::new(Applying::default());
        let submitted = self.submit_all(&applying, extents);
        // Whatever failed: what is under way must not land once somebody begins anew.
        applying.finish()?;
        submitted.map(|()| Answer::Done)
    }

    fn submit_all(
        &self,
        applying: &Arc<Applying>,
        extents: &[(Span, Content)],
    ) -> Result<(), Failure> {
        let max_bytes = self.config.max_apply_bytes;
        let mut run = Run::default();
        for (span, content) in extents {
            match content {
                Content::Data(payload) => {
                    for (span, payload) in cut(*span, payload, max_bytes) {
                        if !run.take(span, &payload, max_bytes) {
                            self.submit(applying, run.end())?;
                            run.take(span, &payload, max_bytes);
                        }
                    }
                }
                Content::Zeros => self.submit(applying, Some((*span, Change::Zeros)))?,
                Content::Discard => self.submit(applying, Some((*span, Change::Discard)))?,
            }
        }
        self.submit(applying, run.end())
    }

    fn submit(
        &self,
        applying: &Arc<Applying>,
        change: Option<(Span, Change)>,
    ) -> Result<(), Failure> {
        let Some((span, change)) = change else { return Ok(()) };
        let request = request_of(span, &change).map_err(|_| Failure::Io)?;
        applying.begin(self.config.max_applies);
        let sink = Arc::<Applying>::clone(applying);
        self.image.submit(request, Completion::new(sink, Token(0)));
        Ok(())
    }
}

/// Do something for each of so many slots, several at a time; for all of them, whatever fails.
fn side_by_side<T: Send>(
    count: u32,
    act: impl Fn(u32) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    let next = AtomicU32::new(0);
    let (failed, done) = (Mutex::new(None), Mutex::new(BTreeMap::new()));
    let work = || {
        loop {
            let slot = next.fetch_add(1, Ordering::Relaxed);
            if slot >= count {
                return;
            }
            match act(slot) {
                Ok(found) => {
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.insert(slot, found);
                }
                Err(failure) => {
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    // That another has taken over says more than that a call failed.
                    if failure == Failure::Fenced || failed.is_none() {
                        *failed = Some(failure);
                    }
                }
            }
        }
    };
    thread::scope(|scope| {
        for number in 1..SLOT_THREADS.min(count) {
            let builder = thread::Builder::new().name(format!("journal-slots-{number}"));
            // Where the system gives no more threads, this one does it all.
            if builder.spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    if let Some(failure) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(failure);
    }
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(done.into_values().collect())
}

/// Pieces of at most `max_bytes`.
fn cut(span: Span, payload: &Payload, max_bytes: u64) -> impl Iterator<Item = (Span, Payload)> {
    let step = usize::try_from(max_bytes).unwrap_or(usize::MAX).max(1);
    let starts = (0..span.length()).step_by(step);
    starts.filter_map(move |from| {
        let length = (span.length() - from).min(max_bytes);
        Some((Span::new(span.start() + from, length)?, payload.slice(from, length)))
    })
}

/// Data that lies side by side.
#[derive(Default)]
struct Run {
    payloads: Vec<Payload>,
    start: u64,
    length: u64,
}

impl Run {
    /// False when it does not belong to what is there.
    fn take(&mut self, span: Span, payload: &Payload, max_bytes: u64) -> bool {
        if self.payloads.is_empty() {
            (self.start, self.length) = (span.start(), 0);
        } else if self.start + self.length != span.start()
            || self.length + span.length() > max_bytes
        {
            return false;
        }
        self.payloads.push(payload.clone());
        self.length += span.length();
        true
    }

    fn end(&mut self) -> Option<(Span, Change)> {
        let payloads = std::mem::take(&mut self.payloads);
        let span = Span::new(self.start, self.length)?;
        (!payloads.is_empty()).then_some((span, Change::Data(payloads)))
    }
}

/// Requests under way.
#[derive(Default)]
struct Applying {
    state: Mutex<ApplyState>,
    answered: Condvar,
}

#[derive(Default)]
struct ApplyState {
    in_flight: usize,
    failed: Option<Failure>,
}

impl Applying {
    fn lock(&self) -> MutexGuard<'_, ApplyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wait until fewer than `limit` are under way, and count one more.
    fn begin(&self, limit: usize) {
        let full = |state: &mut ApplyState| state.in_flight >= limit.max(1);
        let state = self.answered.wait_while(self.lock(), full);
        state.unwrap_or_else(PoisonError::into_inner).in_flight += 1;
    }

    /// Wait for all of them.
    fn finish(&self) -> Result<(), Failure> {
        let busy = |state: &mut ApplyState| state.in_flight > 0;
        let state = self.answered.wait_while(self.lock(), busy);
        state.unwrap_or_else(PoisonError::into_inner).failed.map_or(Ok(()), Err)
    }
}

impl CompletionSink for Applying {
    fn complete(&self, _token: Token, outcome: Outcome) {
        let mut state = self.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
        if let Err(error) = outcome.result {
            state.failed.get_or_insert(failure_of(&error));
        }
        drop(state);
        self.answered.notify_all();
    }
}
