//! A device served at a mountpoint, from its mount to its end.

use std::mem;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use grampus_blockdev::{BlockDevice, Buffer};
use zerocopy::IntoBytes;

use crate::channel::{Channel, Head, Received};
use crate::classic::{Port, Reader, Service};
use crate::error::FuseError;
use crate::handshake::{Wishes, negotiate};
use crate::lifetime::{InFlight, Lifetime};
use crate::mount::Mount;
use crate::options::{ServeOptions, TransportChoice};
use crate::pool::BufferPool;
use crate::probe::ensure_uring;
use crate::ring;

/// What the buffers of the classic transport may take together.
const CLASSIC_BUDGET_BYTES: usize = 256 << 20;

/// The way requests come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportKind {
    /// FUSE over `io_uring`.
    Uring,
    /// `read` and `write` on `/dev/fuse`.
    Classic,
}

impl TransportKind {
    /// Its name in options and status: `uring` or `classic`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Uring => "uring",
            Self::Classic => "classic",
        }
    }
}

/// How a session gets its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportStatus {
    /// The way.
    pub kind: TransportKind,
    /// Why this way: one sentence.
    pub reason: String,
    /// Queues in the kernel: one per possible CPU with `io_uring`, else 1.
    pub queues: u16,
    /// Requests with data that one queue holds at a time.
    pub entries_per_queue: u16,
    /// Threads that take requests.
    pub threads: u16,
}

/// A mounted device. Dropped, it takes its mount away and waits for nothing.
#[derive(Debug)]
pub struct Session {
    handle: SessionHandle,
    channel: Arc<Channel>,
    status: TransportStatus,
    threads: Vec<JoinHandle<()>>,
    in_flight: Vec<Arc<InFlight>>,
}

/// A hold on a session that can be shared.
#[derive(Debug, Clone)]
pub struct SessionHandle {
    lifetime: Arc<Lifetime>,
}

impl SessionHandle {
    /// Take the mount away: no one can open the file any more, and the session ends once no one
    /// has it open. Again does nothing.
    ///
    /// # Errors
    /// [`FuseError::Io`] when the kernel refuses.
    pub fn unmount(&self) -> Result<(), FuseError> {
        self.lifetime.mount().detach()
    }

    /// End the session now, also for those who have the file open: what they wait for fails.
    /// The device still finishes what it has been given.
    ///
    /// # Errors
    /// [`FuseError::Io`] when the kernel refuses.
    pub fn abort(&self) -> Result<(), FuseError> {
        self.lifetime.mount().abort()
    }

    /// Whether the kernel still sends requests.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.lifetime.is_alive()
    }
}

impl Session {
    /// Offer `device` at `options.mountpoint`; requests are answered when this returns.
    ///
    /// With [`TransportChoice::Auto`], `io_uring` that fails for whatever reason gives way to the
    /// classic transport, and the status says why.
    ///
    /// # Errors
    /// [`FuseError`]; nothing is left behind.
    pub fn mount(device: Arc<dyn BlockDevice>, options: &ServeOptions) -> Result<Self, FuseError> {
        options.validate()?;
        match options.transport {
            TransportChoice::Classic => {
                serve(device, options, TransportKind::Classic, "asked for".to_owned())
            }
            TransportChoice::Uring => {
                let probe = ensure_uring();
                if !probe.uring {
                    return Err(FuseError::Unavailable { reason: probe.reason });
                }
                serve(device, options, TransportKind::Uring, "asked for".to_owned())
            }
            TransportChoice::Auto => {
                let probe = ensure_uring();
                if !probe.uring {
                    return serve(device, options, TransportKind::Classic, probe.reason);
                }
                let tried = serve(Arc::clone(&device), options, TransportKind::Uring, probe.reason);
                match tried {
                    Err(FuseError::Mountpoint { path, reason }) => {
                        Err(FuseError::Mountpoint { path, reason })
                    }
                    Err(error) => {
                        let reason = format!("io_uring was tried and failed: {error}");
                        serve(device, options, TransportKind::Classic, reason)
                    }
                    served => served,
                }
            }
        }
    }

    /// How requests come.
    #[must_use]
    pub fn transport(&self) -> &TransportStatus {
        &self.status
    }

    /// Tell the kernel that the device's size has changed. A loop device on the file follows
    /// after `losetup -c`.
    ///
    /// # Errors
    /// [`FuseError::Io`] when the kernel refuses.
    pub fn notify_resized(&self) -> Result<(), FuseError> {
        let told = self.channel.notify_attributes_changed();
        told.map_err(FuseError::io("tell the kernel of the new size"))
    }

    /// A hold on this session for other threads.
    #[must_use]
    pub fn handle(&self) -> SessionHandle {
        self.handle.clone()
    }

    /// How many requests the device has not answered yet.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.in_flight.iter().map(|queue| queue.count()).sum()
    }

    /// Wait until the connection is gone, the threads have ended and the device has answered
    /// everything: for ever, if the device never does.
    ///
    /// # Errors
    /// [`FuseError::GivenUp`] when the session ended on this side's account.
    pub fn wait(self) -> Result<(), FuseError> {
        self.finish(None).map(drop)
    }

    /// As [`Session::wait`], but once the connection is gone the device gets at most `patience`;
    /// how many requests it then still has.
    ///
    /// # Errors
    /// [`FuseError::GivenUp`] when the session ended on this side's account.
    pub fn wait_at_most(self, patience: Duration) -> Result<u64, FuseError> {
        self.finish(Some(patience))
    }

    fn finish(mut self, patience: Option<Duration>) -> Result<u64, FuseError> {
        for thread in mem::take(&mut self.threads) {
            // A panic has given the session up already: the verdict says so.
            drop(thread.join());
        }
        let deadline = patience.and_then(|patience| Instant::now().checked_add(patience));
        let left = self.in_flight.iter().map(|queue| queue.wait(deadline)).sum();
        let detached = self.handle.unmount();
        self.handle.lifetime.verdict()?;
        detached.map(|()| left)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // There is no one left to tell.
        drop(self.handle.unmount());
    }
}

/// Mount and serve with one transport.
fn serve(
    device: Arc<dyn BlockDevice>,
    options: &ServeOptions,
    kind: TransportKind,
    reason: String,
) -> Result<Session, FuseError> {
    let channel = Arc::new(Channel::open()?);
    let mount = Mount::attach(&channel, options)?;
    let lifetime = Arc::new(Lifetime::new(mount));
    let mounted = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let service = Service {
        device,
        lifetime: Arc::clone(&lifetime),
        mounted_s: mounted.as_secs(),
        max_transfer_bytes: options.max_transfer_bytes,
    };
    let size_bytes = service.face().geometry.size_bytes();
    let mut session = Session {
        handle: SessionHandle { lifetime },
        channel: Arc::clone(&channel),
        status: TransportStatus { kind, reason, queues: 1, entries_per_queue: 0, threads: 0 },
        threads: Vec::new(),
        in_flight: Vec::new(),
    };
    let started = establish(&mut session, &service, options)
        .and_then(|()| session.handle.lifetime.mount().verify(size_bytes));
    match started {
        Ok(()) => Ok(session),
        Err(error) => {
            // Take everything back; the first error is the one that matters.
            drop(session.handle.abort());
            drop(session.handle.unmount());
            drop(session.wait_at_most(Duration::ZERO));
            Err(error)
        }
    }
}

fn establish(
    session: &mut Session,
    service: &Service,
    options: &ServeOptions,
) -> Result<(), FuseError> {
    let kind = session.status.kind;
    shake_hands(&session.channel, options, kind)?;
    match kind {
        TransportKind::Classic => start_classic(session, service, options),
        TransportKind::Uring => {
            // What the rings do not carry: FORGET, INTERRUPT, and what came before they were there.
            let reader = unstarted_reader(session, service, options)?;
            let channel = Arc::clone(&session.channel);
            let shape = ring::start(&channel, service, options, reader, |part| {
                session.threads.push(part.thread);
                session.in_flight.push(part.in_flight);
            })?;
            session.status.queues = shape.queues;
            session.status.entries_per_queue = shape.entries_per_queue;
            session.status.threads = shape.threads;
            if let Some(remark) = shape.remark {
                session.status.reason = format!("{}; {remark}", session.status.reason);
            }
            Ok(())
        }
    }
}

fn start_classic(
    session: &mut Session,
    service: &Service,
    options: &ServeOptions,
) -> Result<(), FuseError> {
    let transfer = usize::try_from(options.max_transfer_bytes).unwrap_or(usize::MAX);
    let buffers = usize::from(options.max_background)
        .min(CLASSIC_BUDGET_BYTES / transfer.max(1))
        .max(usize::from(options.classic_threads) * 2);
    start_readers(session, service, options, options.classic_threads, buffers)?;
    session.status.threads = options.classic_threads;
    session.status.entries_per_queue = u16::try_from(buffers).unwrap_or(u16::MAX);
    Ok(())
}

/// A reader that a thread of the rings looks after beside its queues.
fn unstarted_reader(
    session: &mut Session,
    service: &Service,
    options: &ServeOptions,
) -> Result<Reader, FuseError> {
    let transfer = usize::try_from(options.max_transfer_bytes).unwrap_or(usize::MAX);
    let pool = BufferPool::new(usize::from(options.max_background), transfer)
        .map_err(|error| FuseError::Option { what: error.to_string() })?;
    let channel = Arc::new(session.channel.clone_without_waiting()?);
    let in_flight = Arc::new(InFlight::default());
    session.in_flight.push(Arc::clone(&in_flight));
    Ok(Reader::new(Port::new(channel, Arc::new(pool), service.clone(), in_flight)))
}

fn start_readers(
    session: &mut Session,
    service: &Service,
    options: &ServeOptions,
    threads: u16,
    buffers: usize,
) -> Result<(), FuseError> {
    let transfer = usize::try_from(options.max_transfer_bytes).unwrap_or(usize::MAX);
    let pool = BufferPool::new(buffers, transfer)
        .map_err(|error| FuseError::Option { what: error.to_string() })?;
    let pool = Arc::new(pool);
    for number in 0..threads {
        let channel = if number == 0 {
            Arc::clone(&session.channel)
        } else {
            Arc::new(session.channel.clone_connection()?)
        };
        let in_flight = Arc::new(InFlight::default());
        session.in_flight.push(Arc::clone(&in_flight));
        let port = Port::new(channel, Arc::clone(&pool), service.clone(), in_flight);
        session.threads.push(port.start(format!("fuse-classic-{number}"))?);
    }
    Ok(())
}

/// Answer the kernel's INIT.
fn shake_hands(
    channel: &Channel,
    options: &ServeOptions,
    kind: TransportKind,
) -> Result<(), FuseError> {
    let uring = kind == TransportKind::Uring;
    let wishes = Wishes {
        max_transfer_bytes: options.max_transfer_bytes,
        page_bytes: u32::try_from(rustix::param::page_size()).unwrap_or(4096),
        max_background: options.max_background,
        uring,
    };
    let failed = || FuseError::io("read the kernel's first message");
    let transfer = usize::try_from(options.max_transfer_bytes).unwrap_or(usize::MAX);
    let mut buffer =
        Buffer::zeroed(transfer).map_err(|error| FuseError::Option { what: error.to_string() })?;
    let mut head = Head::new();
    let payload_bytes = loop {
        match channel.receive(&mut head, &mut buffer).map_err(failed())? {
            Received::Message { payload_bytes } => break payload_bytes,
            Received::Again => {}
            Received::Gone => return Err(failed()(rustix::io::Errno::NOTCONN)),
        }
    };
    let rest = buffer.get(..payload_bytes).unwrap_or_default();
    let agreement = negotiate(&[head.used(), rest].concat(), &wishes)?;
    if uring && !agreement.uring {
        return Err(FuseError::Unavailable {
            reason: "the kernel does not offer FUSE over io_uring on this mount".to_owned(),
        });
    }
    channel
        .answer(agreement.unique, Ok(agreement.answer.as_bytes()))
        .map_err(FuseError::io("answer the kernel's first message"))
}
