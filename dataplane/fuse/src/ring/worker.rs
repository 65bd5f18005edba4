//! One thread of the `io_uring` transport, with the entries of its queues.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::Duration;

use grampus_blockdev::{Buffer, Completion, CompletionSink, Outcome, Token};
use io_uring::{cqueue, opcode, types};
use rustix::io::Errno;

use crate::channel::Channel;
use crate::classic::{Reader, Service};
use crate::decide::{
    Answer, AnswerKind, Decision, Job, classify_failure, decide_operation, place, written,
};
use crate::error::FuseError;
use crate::lifetime::InFlight;
use crate::message::{Malformed, parse_message};
use crate::protocol::{OUT_HEADER_BYTES, OutHeader};
use crate::ring::footprint::{Footprint, SWEEP_INTERVAL_S};
use crate::ring::layout::QueuePlan;
use crate::ring::mailbox::{Arrival, Mailbox};
use crate::ring::shared::{Ring, SharedHeader, commit, push};

/// Names the event among completions; entries are named by their index.
const EVENT: u64 = u64::MAX;
/// Names what the rings do not carry: messages that are read.
const MESSAGES: u64 = u64::MAX - 1;
/// Names the end of a period, when unused memory is given back.
const PERIOD: u64 = u64::MAX - 2;
/// In static memory, which the kernel may read for as long as it likes.
static SWEEP_INTERVAL: types::Timespec = types::Timespec::new().sec(SWEEP_INTERVAL_S);
/// How long the kernel gets to hand the entries of a dead connection back.
const FAREWELL: Duration = Duration::from_secs(1);
const FAREWELLS: u32 = 10;

/// Who has an entry.
#[derive(Debug)]
enum State {
    /// The kernel, with the payload.
    Kernel(Buffer),
    /// This side. The payload is with the device where it is not here.
    Here { unique: u64, commit_id: u64, kind: AnswerKind, payload: Option<Buffer> },
    /// No one any more.
    Released,
}

/// When memory is given back. A period is one command to the kernel and ends with its completion: a
/// time limit of each wait would cost a timer for each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sweep {
    /// No period has begun.
    Idle,
    /// A period is on its way.
    Begun,
    /// A period is over.
    Due,
}

#[derive(Debug)]
struct Entry {
    queue: u16,
    header: SharedHeader,
    /// Where the kernel was told that the payload is.
    payload_address: usize,
    state: State,
    footprint: Footprint,
}

pub(crate) struct Worker {
    ring: Ring,
    /// The kernel writes payloads only while this thread is in `io_uring_enter`.
    is_deferred: bool,
    /// What the entries' payloads have touched since their memory was last given back.
    touched_bytes: usize,
    sweep: Sweep,
    entries: Vec<Entry>,
    /// How many entries the kernel has.
    with_kernel: usize,
    service: Service,
    /// Of one thread of a session.
    reader: Option<Reader>,
    mailbox: Arc<Mailbox>,
    sink: Arc<dyn CompletionSink>,
    in_flight: Arc<InFlight>,
    closing: bool,
}

impl Worker {
    /// Make the ring and the entries, and give the entries to the kernel. To be called on the
    /// thread that will `run`: the kernel ties the ring to it.
    ///
    /// # Errors
    /// [`FuseError`] when the kernel refuses.
    pub(crate) fn start(
        channel: &Channel,
        service: Service,
        queues: &[QueuePlan],
        reader: Option<Reader>,
        in_flight: Arc<InFlight>,
    ) -> Result<Self, FuseError> {
        let count: usize = queues.iter().map(|plan| usize::from(plan.entries)).sum();
        let mailbox = Arc::new(Mailbox::new(count, Arc::clone(&in_flight))?);
        let (ring, is_deferred) = make_ring(count)?;
        ring.submitter()
            .register_files(&[channel.as_fd().as_raw_fd()])
            .map_err(FuseError::std_io("register /dev/fuse with a ring"))?;
        let mut worker = Self {
            ring,
            is_deferred,
            touched_bytes: 0,
            sweep: Sweep::Idle,
            entries: Vec::with_capacity(count),
            with_kernel: 0,
            service,
            reader,
            sink: Arc::<Mailbox>::clone(&mailbox),
            mailbox,
            in_flight,
            closing: false,
        };
        for plan in queues {
            for _ in 0..plan.entries {
                worker.register_entry(plan.queue)?;
            }
        }
        let event = worker.mailbox.event().try_clone_to_owned();
        let event = event.map_err(FuseError::std_io("make an event"))?;
        worker.service.lifetime.wake_when_gone(event);
        for watched in [EVENT, MESSAGES] {
            worker.watch(watched).map_err(FuseError::std_io("watch an event"))?;
        }
        worker.ring.submit().map_err(FuseError::std_io("submit to a ring"))?;
        worker.require_registered()?;
        Ok(worker)
    }

    fn register_entry(&mut self, queue: u16) -> Result<(), FuseError> {
        let transfer = usize::try_from(self.service.max_transfer_bytes).unwrap_or(usize::MAX);
        let mut payload = Buffer::zeroed(transfer)
            .map_err(|error| FuseError::Option { what: error.to_string() })?;
        let header = SharedHeader::new(&mut payload);
        let payload_address = payload.as_ptr().addr();
        let command = header.register(queue, index_of(self.entries.len()));
        let (state, footprint) = (State::Kernel(payload), Footprint::default());
        self.entries.push(Entry { queue, header, payload_address, state, footprint });
        push(&mut self.ring, &command).map_err(FuseError::std_io("submit to a ring"))?;
        self.with_kernel += 1;
        Ok(())
    }

    /// The kernel refuses an entry at once or not at all.
    fn require_registered(&mut self) -> Result<(), FuseError> {
        // What is watched is looked at once anyway, at the start of `run`.
        let is_entry = |done: &cqueue::Entry| !is_watched(done.user_data());
        let refused = self.ring.completion().find(is_entry);
        match refused {
            // A request can have come already: it is put back by being dealt with.
            Some(done) if done.result() >= 0 => {
                self.receive(done.user_data(), done.result());
                self.require_registered()
            }
            Some(done) => Err(FuseError::Io {
                action: "register with FUSE over io_uring",
                source: io::Error::from_raw_os_error(done.result().saturating_neg()),
            }),
            None => Ok(()),
        }
    }

    fn watch(&mut self, watched: u64) -> io::Result<()> {
        let descriptor = match (&self.reader, watched) {
            (_, EVENT) => self.mailbox.event().as_raw_fd(),
            (Some(reader), _) => reader.watched().as_raw_fd(),
            (None, _) => return Ok(()),
        };
        let readable = u32::try_from(libc::POLLIN).unwrap_or_default();
        let watch = opcode::PollAdd::new(types::Fd(descriptor), readable).multi(true);
        push(&mut self.ring, &watch.build().user_data(watched).into())
    }

    fn read_messages(&mut self) {
        if let Some(reader) = &mut self.reader {
            reader.read_all();
        }
    }

    /// Serve until the connection is gone and the kernel has let go of every entry.
    pub(crate) fn run(mut self) {
        let mut arrivals: Vec<Arrival> = Vec::with_capacity(self.entries.len());
        let mut completions: Vec<(u64, i32, u32)> = Vec::with_capacity(self.entries.len() + 1);
        let mut farewells = 0;
        self.read_messages();
        while self.with_kernel > 0 || !self.closing {
            self.closing |= !self.service.lifetime.is_alive();
            self.mailbox.take(&mut arrivals);
            for (token, outcome) in arrivals.drain(..) {
                self.finish(token, outcome);
            }
            if let Err(error) = self.submit_and_wait() {
                self.service.lifetime.give_up(format!("the ring failed: {error}"));
                self.closing = true;
            }
            completions.extend(
                self.ring.completion().map(|done| (done.user_data(), done.result(), done.flags())),
            );
            if self.closing && completions.is_empty() {
                farewells += 1;
                if farewells >= FAREWELLS {
                    break;
                }
            }
            for (user_data, result, flags) in completions.drain(..) {
                if is_watched(user_data) {
                    self.keep_watching(user_data, flags);
                } else if user_data == PERIOD {
                    self.sweep = Sweep::Due;
                } else {
                    self.receive(user_data, result);
                }
            }
            self.sweep_if_due();
        }
        self.service.lifetime.note_gone();
        if self.with_kernel > 0 {
            // The kernel may still write to these: memory lost is better than memory overwritten.
            std::mem::forget(std::mem::take(&mut self.entries));
        }
    }

    /// Submit what is queued; wait for a completion unless an outcome is there.
    fn submit_and_wait(&mut self) -> io::Result<()> {
        let submitted = if self.closing {
            let limit = types::Timespec::from(FAREWELL);
            let arguments = types::SubmitArgs::new().timespec(&limit);
            self.ring.submitter().submit_with_args(1, &arguments)
        } else {
            self.begin_period()?;
            let may_sleep = self.mailbox.may_sleep() && self.sweep != Sweep::Due;
            let submitted = self.ring.submit_and_wait(usize::from(may_sleep));
            self.mailbox.wake();
            submitted
        };
        match submitted {
            Ok(_) => Ok(()),
            Err(error) => match Errno::from_io_error(&error) {
                // A signal, the time limit, a full completion queue: look at what is there.
                Some(Errno::INTR | Errno::TIME | Errno::BUSY | Errno::AGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Whether there is memory to be given back.
    fn has_to_sweep(&self) -> bool {
        self.is_deferred && self.touched_bytes > 0 && !self.closing
    }

    /// Have the kernel say when memory is to be given back, unless it is about to.
    fn begin_period(&mut self) -> io::Result<()> {
        if self.sweep == Sweep::Idle && self.has_to_sweep() {
            let period = opcode::Timeout::new(&raw const SWEEP_INTERVAL);
            push(&mut self.ring, &period.build().user_data(PERIOD).into())?;
            self.sweep = Sweep::Begun;
        }
        Ok(())
    }

    /// At the end of a period, give the memory back that entries did not need in it.
    fn sweep_if_due(&mut self) {
        if self.sweep != Sweep::Due {
            return;
        }
        if !self.ring.submission().is_empty() {
            return; // at once after the kernel has taken these answers
        }
        self.sweep = Sweep::Idle;
        if !self.has_to_sweep() {
            return;
        }
        for entry in &mut self.entries {
            // The kernel has the payload of an idle entry, and does nothing with it right now. It
            // copies to and from payloads in this thread, while that is in `io_uring_enter`: only
            // there does it know their memory. What it has brought there has been taken out as a
            // completion, which is a use of the entry, and the last answer was taken a period ago.
            if let State::Kernel(payload) = &mut entry.state {
                if entry.footprint.end_period() {
                    payload.release_behind(0);
                }
            }
        }
        self.touched_bytes = self.entries.iter().map(|entry| entry.footprint.touched_bytes()).sum();
    }

    fn keep_watching(&mut self, watched: u64, flags: u32) {
        if !cqueue::more(flags) && !self.closing {
            if let Err(error) = self.watch(watched) {
                self.service.lifetime.give_up(format!("the ring failed: {error}"));
            }
        }
        if watched == MESSAGES {
            self.read_messages();
        }
    }

    /// The kernel has completed the command of an entry.
    fn receive(&mut self, user_data: u64, result: i32) {
        let index = usize::try_from(user_data).unwrap_or(usize::MAX);
        let Some(entry) = self.entries.get_mut(index) else { return };
        let State::Kernel(payload) = std::mem::replace(&mut entry.state, State::Released) else {
            return;
        };
        self.with_kernel = self.with_kernel.saturating_sub(1);
        if result < 0 {
            self.closing = true;
            let gone = [Errno::NOTCONN, Errno::CONNABORTED, Errno::CANCELED];
            if gone.iter().all(|errno| errno.raw_os_error() != result.saturating_neg()) {
                let error = io::Error::from_raw_os_error(result.saturating_neg());
                self.service.lifetime.give_up(format!("the kernel refused a command: {error}"));
            }
            self.service.lifetime.note_gone();
            return;
        }
        self.handle(index, payload);
    }

    /// Deal with the request that an entry has brought.
    fn handle(&mut self, index: usize, mut payload: Buffer) {
        let Some(entry) = self.entries.get_mut(index) else { return };
        let request = entry.header.read();
        let commit_id = request.commit_id;
        let message = parse_message(&request.header, &request.argument, request.payload_bytes);
        let (unique, decision) = match message {
            Ok(message) => {
                let carried = message.operation.carried_bytes();
                self.touched_bytes += entry.footprint.note(carried);
                if let Some(kept) = entry.footprint.shrink() {
                    payload.release_behind(kept.max(carried));
                }
                (message.unique, decide_operation(message.operation, &self.service.face()))
            }
            Err(Malformed::Answerable { unique }) => (unique, Decision::Refuse(Errno::IO)),
            Err(Malformed::Unanswerable(what)) => {
                self.service.lifetime.give_up(format!("a message makes no sense: {what}"));
                return;
            }
        };
        let here = |kind, payload| State::Here { unique, commit_id, kind, payload };
        match decision {
            // The rings carry nothing that wants no answer; the entry comes back only by one.
            Decision::Silent => {
                entry.state = here(AnswerKind::Empty, Some(payload));
                self.commit(index, Err(Errno::NOSYS), 0);
            }
            Decision::Refuse(errno) => {
                entry.state = here(AnswerKind::Empty, Some(payload));
                self.commit(index, Err(errno), 0);
            }
            Decision::Answer(answer) => {
                let bytes = encode(&answer, &mut payload);
                entry.state = here(AnswerKind::Empty, Some(payload));
                self.commit(index, Ok(()), bytes);
            }
            Decision::Submit(job) => self.submit(index, job, payload, here),
        }
    }

    fn submit(
        &mut self,
        index: usize,
        job: Job,
        payload: Buffer,
        here: impl FnOnce(AnswerKind, Option<Buffer>) -> State,
    ) {
        let Some(entry) = self.entries.get_mut(index) else { return };
        match job.into_request(payload) {
            Ok((request, spare)) => {
                entry.state = here(job.answer_kind(), spare);
                self.in_flight.begin();
                let completion = Completion::new(Arc::clone(&self.sink), Token(index_of(index)));
                self.service.device.submit(request, completion);
            }
            Err(payload) => {
                entry.state = here(AnswerKind::Empty, Some(payload));
                self.commit(index, Err(Errno::IO), 0);
            }
        }
    }

    /// The device has answered the request of an entry.
    fn finish(&mut self, token: Token, outcome: Outcome) {
        let index = usize::try_from(token.0).unwrap_or(usize::MAX);
        let Some(entry) = self.entries.get_mut(index) else { return };
        let State::Here { kind, payload, .. } = &mut entry.state else { return };
        let Outcome { result, buffer } = outcome;
        if *kind != AnswerKind::Empty {
            *payload = buffer.filter(|back| back.as_ptr().addr() == entry.payload_address);
        }
        let Some(payload) = payload else {
            // The kernel knows this entry by memory that is gone: it must never see it again.
            entry.state = State::Released;
            self.service.lifetime.give_up("the device lost the memory of a request");
            return;
        };
        let used = u32::try_from(payload.len()).unwrap_or_default();
        match (result, *kind) {
            (Err(error), _) => self.commit(index, Err(classify_failure(&error)), 0),
            (Ok(()), AnswerKind::Data) => self.commit(index, Ok(()), used),
            (Ok(()), AnswerKind::Empty) => self.commit(index, Ok(()), 0),
            (Ok(()), AnswerKind::Count) => {
                let answer = written(used);
                let bytes = place_whole(&answer, payload);
                self.commit(index, Ok(()), bytes);
            }
        }
    }

    /// Hand in the answer of an entry, with `payload_bytes` of its payload, and fetch the next
    /// request.
    fn commit(&mut self, index: usize, result: Result<(), Errno>, payload_bytes: u32) {
        let Some(entry) = self.entries.get_mut(index) else { return };
        let state = std::mem::replace(&mut entry.state, State::Released);
        let State::Here { unique, commit_id, payload: Some(payload), .. } = state else { return };
        if self.closing {
            return;
        }
        let (error, payload_bytes) = match result {
            Ok(()) => (0, payload_bytes),
            Err(errno) => (-errno.raw_os_error(), 0),
        };
        let len = u32::try_from(OUT_HEADER_BYTES).unwrap_or_default() + payload_bytes;
        entry.header.write_answer(OutHeader { len, error, unique }, payload_bytes);
        entry.state = State::Kernel(payload);
        let command = commit(entry.queue, commit_id, index_of(index));
        match push(&mut self.ring, &command) {
            Ok(()) => self.with_kernel += 1,
            Err(failed) => {
                entry.state = State::Released;
                self.service.lifetime.give_up(format!("the ring failed: {failed}"));
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.with_kernel > 0 {
            // On a panic or a start that failed: as at the end of `run`.
            std::mem::forget(std::mem::take(&mut self.entries));
        }
    }
}

fn is_watched(user_data: u64) -> bool {
    matches!(user_data, EVENT | MESSAGES)
}

fn index_of(index: usize) -> u64 {
    u64::try_from(index).unwrap_or(EVENT)
}

fn encode(answer: &Answer, payload: &mut Buffer) -> u32 {
    let all = payload.capacity_bytes();
    if payload.set_len(all).is_err() {
        return 0;
    }
    u32::try_from(answer.encode(payload)).unwrap_or_default()
}

/// Place bytes into a payload that may be shorter than they are.
fn place_whole(bytes: &[u8], payload: &mut Buffer) -> u32 {
    let all = payload.capacity_bytes();
    if payload.set_len(all).is_err() {
        return 0;
    }
    u32::try_from(place(bytes, payload)).unwrap_or_default()
}

/// A ring for so many entries and what is watched; whether the kernel does its part only while this
/// thread asks for completions.
fn make_ring(entries: usize) -> Result<(Ring, bool), FuseError> {
    let size = u32::try_from(entries + 3).unwrap_or(u32::MAX).next_power_of_two();
    // Completions are made when this thread asks for them, instead of interrupting it; it asks
    // often. The flag tells it when there are some, also where it does not wait.
    let mut deferred = Ring::builder();
    deferred.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    let mut cooperative = Ring::builder();
    cooperative.setup_coop_taskrun().setup_taskrun_flag();
    if let Ok(ring) = deferred.build(size) {
        return Ok((ring, true));
    }
    cooperative
        .build(size)
        .or_else(|_| Ring::builder().build(size))
        .map(|ring| (ring, false))
        .map_err(FuseError::std_io("make an io_uring"))
}
