//! The classic transport: threads that read `/dev/fuse`, and answers written to it by whichever
//! thread has one.
//!
//! An answer is written from the device's own thread: a write to `/dev/fuse` copies and wakes, it
//! does not wait, so a hop to another thread would only cost a wake-up.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use grampus_blockdev::{BlockDevice, Buffer, Completion, CompletionSink, Outcome, Token};
use rustix::io::Errno;

use crate::channel::{Channel, Head, Received};
use crate::decide::{
    AnswerKind, Decision, FileFace, Job, classify_failure, decide_operation, written,
};
use crate::error::FuseError;
use crate::lifetime::{InFlight, Lifetime, PanicGuard};
use crate::message::{Malformed, parse_message};
use crate::pool::BufferPool;

/// How often a thread that gets no buffer looks whether the connection is still there.
const PATIENCE: Duration = Duration::from_secs(1);
/// Room for the longest answer that needs no device.
const ANSWER_BYTES: usize = 128;

/// What every thread of a session needs.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) lifetime: Arc<Lifetime>,
    /// Seconds since 1970.
    pub(crate) mounted_s: u64,
    pub(crate) max_transfer_bytes: u32,
}

impl Service {
    pub(crate) fn face(&self) -> FileFace {
        FileFace::of(&*self.device, self.mounted_s, self.max_transfer_bytes)
    }
}

/// One way into the connection, with what was read there and is not answered yet.
pub(crate) struct Port {
    channel: Arc<Channel>,
    pool: Arc<BufferPool>,
    service: Service,
    in_flight: Arc<InFlight>,
}

/// Where the outcome of a job goes whose answer has this kind; its token is the request's number.
struct AnswerSink {
    port: Arc<Port>,
    kind: AnswerKind,
}

impl CompletionSink for AnswerSink {
    fn complete(&self, token: Token, outcome: Outcome) {
        let Outcome { result, buffer } = outcome;
        let count;
        let answer = match (result, self.kind, buffer.as_deref()) {
            (Err(error), ..) => Err(classify_failure(&error)),
            (Ok(()), AnswerKind::Empty, _) => Ok([].as_slice()),
            (Ok(()), AnswerKind::Data, Some(bytes)) => Ok(bytes),
            (Ok(()), AnswerKind::Count, Some(bytes)) => {
                count = written(u32::try_from(bytes.len()).unwrap_or_default());
                Ok(count.as_slice())
            }
            // A device that claims success must give the buffer back.
            (Ok(()), _, None) => Err(Errno::IO),
        };
        self.port.answer(token.0, answer);
        if self.kind != AnswerKind::Empty {
            self.port.pool.give_back(buffer);
        }
        self.port.in_flight.end();
    }
}

/// The sinks of one port, one for each kind of answer, so that none is made per request.
struct Sinks {
    data: Arc<dyn CompletionSink>,
    count: Arc<dyn CompletionSink>,
    empty: Arc<dyn CompletionSink>,
}

impl Sinks {
    fn new(port: &Arc<Port>) -> Self {
        let sink = |kind| Arc::new(AnswerSink { port: Arc::clone(port), kind });
        Self {
            data: sink(AnswerKind::Data),
            count: sink(AnswerKind::Count),
            empty: sink(AnswerKind::Empty),
        }
    }

    fn of(&self, kind: AnswerKind) -> Arc<dyn CompletionSink> {
        Arc::clone(match kind {
            AnswerKind::Data => &self.data,
            AnswerKind::Count => &self.count,
            AnswerKind::Empty => &self.empty,
        })
    }
}

impl Port {
    pub(crate) fn new(
        channel: Arc<Channel>,
        pool: Arc<BufferPool>,
        service: Service,
        in_flight: Arc<InFlight>,
    ) -> Arc<Self> {
        Arc::new(Self { channel, pool, service, in_flight })
    }

    /// Start a thread that serves this port until the connection is gone.
    ///
    /// # Errors
    /// [`FuseError::Io`] when there is no thread to be had.
    pub(crate) fn start(self: &Arc<Self>, name: String) -> Result<JoinHandle<()>, FuseError> {
        let port = Arc::clone(self);
        let serving = move || {
            let _guard = PanicGuard(Arc::clone(&port.service.lifetime));
            serve(&port);
        };
        let started = thread::Builder::new().name(name).spawn(serving);
        started.map_err(FuseError::std_io("start a thread"))
    }

    fn answer(&self, unique: u64, answer: Result<&[u8], Errno>) {
        if let Err(errno) = self.channel.answer(unique, answer) {
            // Its user would wait for ever.
            self.service.lifetime.give_up(format!("the kernel refused an answer: {errno}"));
        }
    }
}

fn serve(port: &Arc<Port>) {
    let mut reader = Reader::new(Arc::clone(port));
    while port.service.lifetime.is_alive() {
        reader.read_one();
    }
}

/// Reads the messages of one port.
pub(crate) struct Reader {
    port: Arc<Port>,
    sinks: Sinks,
    head: Head,
    spare: Option<Buffer>,
}

impl Reader {
    pub(crate) fn new(port: Arc<Port>) -> Self {
        Self { sinks: Sinks::new(&port), port, head: Head::new(), spare: None }
    }

    /// Readable when there are messages.
    pub(crate) fn watched(&self) -> BorrowedFd<'_> {
        self.port.channel.as_fd()
    }

    /// Deal with all messages that are there, and wait for none; the port's channel must not wait
    /// either.
    pub(crate) fn read_all(&mut self) {
        while self.port.service.lifetime.is_alive() && self.port.channel.has_message() {
            self.read_one();
        }
        if self.port.channel.is_gone() {
            self.port.service.lifetime.note_gone();
        }
    }

    /// Read a message, if a buffer comes free in time, and deal with it.
    fn read_one(&mut self) {
        let port = &self.port;
        let Some(mut buffer) = self.spare.take().or_else(|| port.pool.take(PATIENCE)) else {
            if port.channel.is_gone() {
                port.service.lifetime.note_gone();
            }
            return;
        };
        match port.channel.receive(&mut self.head, &mut buffer) {
            Ok(Received::Message { payload_bytes }) => {
                self.spare = handle(port, &self.sinks, &self.head, payload_bytes, buffer);
            }
            Ok(Received::Again) => self.spare = Some(buffer),
            Ok(Received::Gone) => port.service.lifetime.note_gone(),
            Err(errno) => {
                port.service.lifetime.give_up(format!("cannot read /dev/fuse: {errno}"));
                port.service.lifetime.note_gone();
            }
        }
    }
}

/// Deal with one message; the buffer again where it can be read into at once.
fn handle(
    port: &Arc<Port>,
    sinks: &Sinks,
    head: &Head,
    payload_bytes: usize,
    buffer: Buffer,
) -> Option<Buffer> {
    let message = match parse_message(head.header(), head.argument(), payload_bytes) {
        Ok(message) => message,
        Err(Malformed::Answerable { unique }) => {
            port.answer(unique, Err(Errno::IO));
            return Some(buffer);
        }
        Err(Malformed::Unanswerable(what)) => {
            port.service.lifetime.give_up(format!("a message makes no sense: {what}"));
            return Some(buffer);
        }
    };
    match decide_operation(message.operation, &port.service.face()) {
        Decision::Silent => Some(buffer),
        Decision::Refuse(errno) => {
            port.answer(message.unique, Err(errno));
            Some(buffer)
        }
        Decision::Answer(answer) => {
            let mut room = [0; ANSWER_BYTES];
            let bytes = answer.encode(&mut room);
            port.answer(message.unique, room.get(..bytes).ok_or(Errno::IO));
            Some(buffer)
        }
        Decision::Submit(job) => submit(port, sinks, message.unique, job, buffer),
    }
}

fn submit(
    port: &Arc<Port>,
    sinks: &Sinks,
    unique: u64,
    job: Job,
    buffer: Buffer,
) -> Option<Buffer> {
    match job.into_request(buffer) {
        Ok((request, spare)) => {
            port.in_flight.begin();
            let completion = Completion::new(sinks.of(job.answer_kind()), Token(unique));
            port.service.device.submit(request, completion);
            spare
        }
        Err(buffer) => {
            port.answer(unique, Err(Errno::IO));
            Some(buffer)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::io::{Read, Write};
    use std::os::fd::OwnedFd;

    use grampus_blockdev::{BlockSize, Geometry, MemoryDevice};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use zerocopy::{FromBytes, IntoBytes};

    use super::*;
    use crate::mount::Mount;
    use crate::protocol::{InHeader, OUT_HEADER_BYTES, OutHeader, ROOT_NODE, opcode};

    const TRANSFER_BYTES: u32 = 64 << 10;

    /// A thread that serves what it takes for a kernel, and the kernel's end of the line.
    fn stand_in() -> (std::fs::File, Arc<Lifetime>, JoinHandle<()>) {
        // Messages keep their bounds, as on /dev/fuse.
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        let geometry = Geometry::new(1 << 20, BlockSize::B4096).unwrap();
        let lifetime = Arc::new(Lifetime::new(Mount::imaginary()));
        let service = Service {
            device: Arc::new(MemoryDevice::new(geometry).unwrap()),
            lifetime: Arc::clone(&lifetime),
            mounted_s: 1,
            max_transfer_bytes: TRANSFER_BYTES,
        };
        let pool = Arc::new(BufferPool::new(2, 64 << 10).unwrap());
        let channel = Arc::new(Channel::over(theirs));
        let port = Port::new(channel, pool, service, Arc::default());
        let thread = port.start("fuse-test".to_owned()).unwrap();
        (ours.into(), lifetime, thread)
    }

    #[derive(Debug, Clone)]
    struct Sent {
        code: u32,
        node: u64,
        body: Vec<u8>,
    }

    fn message(sent: &Sent, unique: u64) -> Vec<u8> {
        let header = InHeader {
            len: u32::try_from(40 + sent.body.len()).unwrap(),
            opcode: sent.code,
            unique,
            nodeid: sent.node,
            uid: 0,
            gid: 0,
            pid: 0,
            total_extlen: 0,
            padding: 0,
        };
        [header.as_bytes(), &sent.body].concat()
    }

    fn sent() -> impl Strategy<Value = Sent> {
        let code = prop_oneof![
            3 => prop::sample::select(vec![
                opcode::READ, opcode::WRITE, opcode::FALLOCATE, opcode::SETATTR, opcode::FSYNC,
            ]),
            1 => 0..60_u32,
            1 => any::<u32>(),
        ];
        let node = prop_oneof![9 => Just(ROOT_NODE), 1 => any::<u64>()];
        // Mostly small numbers, so that some requests are right.
        let byte = prop_oneof![4 => Just(0_u8), 1 => any::<u8>()];
        (code, node, vec(byte, 0..200)).prop_map(|(code, node, body)| Sent { code, node, body })
    }

    fn is_silent(code: u32) -> bool {
        matches!(code, opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// INV-9 at the wire: whatever comes, each request is answered once, with its number.
        #[test]
        fn whatever_a_kernel_sends_each_request_is_answered_once(
            messages in vec(sent(), 1..20)
        ) {
            let (mut kernel, lifetime, thread) = stand_in();
            let mut open = HashSet::new();
            let mut room = vec![0; 128 << 10];
            for (number, sent) in messages.iter().enumerate() {
                let unique = 2 * u64::try_from(number).unwrap() + 2;
                kernel.write_all(&message(sent, unique)).unwrap();
                if is_silent(sent.code) {
                    continue;
                }
                prop_assert!(open.insert(unique));
                let length = kernel.read(&mut room).unwrap();
                let (answer, _) = OutHeader::read_from_prefix(&room[..length]).unwrap();
                prop_assert_eq!(usize::try_from(answer.len).unwrap(), length);
                prop_assert!(open.remove(&answer.unique), "{} again", answer.unique);
                prop_assert!((-511..=0).contains(&answer.error), "{}", answer.error);
                if answer.error != 0 {
                    prop_assert_eq!(length, OUT_HEADER_BYTES);
                }
            }
            prop_assert!(open.is_empty());
            drop(kernel);
            thread.join().unwrap();
            prop_assert!(!lifetime.is_alive());
            prop_assert!(lifetime.verdict().is_ok());
        }
    }

    #[test]
    fn a_message_that_cannot_be_answered_ends_the_session() {
        for bytes in [vec![1; 39], message(&Sent { code: 15, node: 1, body: vec![0; 40] }, 0)] {
            let (mut kernel, lifetime, thread) = stand_in();
            kernel.write_all(&bytes).unwrap();
            drop(kernel);
            thread.join().unwrap();
            assert!(lifetime.verdict().is_err());
        }
    }

    #[test]
    fn reads_and_writes_pass_their_data() {
        let (mut kernel, _lifetime, thread) = stand_in();
        let at = |offset: u64, size: u32| {
            [0_u64.as_bytes(), offset.as_bytes(), size.as_bytes(), &[0; 20]].concat()
        };
        let body = [at(512, 6), b"abcdef".to_vec()].concat();
        kernel.write_all(&message(&Sent { code: opcode::WRITE, node: 1, body }, 2)).unwrap();
        let mut room = [0; 64];
        assert_eq!(kernel.read(&mut room).unwrap(), OUT_HEADER_BYTES + 8);
        assert_eq!(room[16..20], 6_u32.to_ne_bytes());
        let read = Sent { code: opcode::READ, node: 1, body: at(511, 8) };
        kernel.write_all(&message(&read, 4)).unwrap();
        assert_eq!(kernel.read(&mut room).unwrap(), OUT_HEADER_BYTES + 8);
        assert_eq!(&room[16..24], b"\0abcdef\0");
        drop(kernel);
        thread.join().unwrap();
    }

    #[test]
    fn the_end_of_the_line_is_the_end_of_the_thread() {
        let (kernel, lifetime, thread) = stand_in();
        drop(OwnedFd::from(kernel));
        thread.join().unwrap();
        assert!(!lifetime.is_alive());
    }
}
