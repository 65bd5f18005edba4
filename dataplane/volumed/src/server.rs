//! The control socket: a thread that accepts, and does chores meanwhile; a thread for each of a few
//! clients.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use serde_json::Value;
use thiserror::Error;

use crate::protocol::{Command, Refused, parse_request, render_answer};
use crate::socket_path::SocketPath;

/// What a client may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Clients at a time; the next one is told to come back.
    pub clients: usize,
    /// The longest request.
    pub line_bytes: usize,
    /// How long a client may take to send a request once it has begun.
    pub line: Duration,
    /// How long a client may be silent between requests.
    pub idle: Duration,
    /// How long a client may take to accept an answer.
    pub answer: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 16,
            line_bytes: 16 << 10,
            line: Duration::from_secs(10),
            idle: Duration::from_secs(300),
            answer: Duration::from_secs(10),
        }
    }
}

/// What carries requests out; called on several threads at a time.
pub trait Commands: Send + Sync {
    /// Carry out `command`.
    ///
    /// # Errors
    /// [`Refused`] is what the client is told.
    fn carry_out(&self, command: Command) -> Result<Value, Refused>;
}

/// What the thread that accepts clients does besides, so that it needs no thread of its own. None of
/// it may wait.
pub trait Chores: Send {
    /// How often [`Chores::run`] is called.
    fn interval(&self) -> Duration;

    /// Readable when [`Chores::run`] is to be called at once.
    fn wake(&self) -> BorrowedFd<'_>;

    /// Do what is to be done.
    fn run(&mut self);
}

/// The control socket could not be made.
#[derive(Debug, Error)]
pub enum ControlError {
    /// A daemon answers there.
    #[error("another daemon serves {path}. Stop it first, or choose another --socket.")]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// The path is taken by something that is no socket.
    #[error("{path} exists and is no socket. Choose another --socket.")]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot make the control socket {path}: {source}. Check its directory.")]
    Io {
        /// The socket.
        path: PathBuf,
        /// Its reason.
        #[source]
        source: io::Error,
    },
}

/// A socket that listens and is not served yet.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl ControlSocket {
    /// Make the socket, for its owner alone. One left by a dead daemon is replaced.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn bind(path: &Path) -> Result<Self, ControlError> {
        let refused = |source| ControlError::Io { path: path.to_owned(), source };
        let reached = SocketPath::of(path).map_err(refused)?;
        match path.symlink_metadata() {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(ControlError::NotASocket { path: path.to_owned() });
            }
            Ok(_) if UnixStream::connect(&reached).is_ok() => {
                return Err(ControlError::InUse { path: path.to_owned() });
            }
            Ok(_) => std::fs::remove_file(path).map_err(refused)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(refused(error)),
        }
        // The mask, not a later chmod: there is no moment at which others could connect.
        let mask_before = rustix::process::umask(Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(&reached);
        rustix::process::umask(mask_before);
        Ok(Self { listener: bound.map_err(refused)?, path: path.to_owned() })
    }

    /// Serve it from threads of its own.
    ///
    /// # Errors
    /// [`ControlError::Io`] when the thread or the socket's metadata cannot be had.
    pub fn serve(
        self,
        commands: Arc<dyn Commands>,
        limits: Limits,
        chores: Option<Box<dyn Chores>>,
    ) -> Result<ControlServer, ControlError> {
        let path = self.path;
        let refused = |source| ControlError::Io { path: path.clone(), source };
        let inode = path.symlink_metadata().map_err(refused)?.ino();
        let connections = Arc::new(Connections {
            limits,
            commands,
            closing: AtomicBool::new(false),
            clients: Mutex::default(),
            one_left: Condvar::new(),
        });
        self.listener.set_nonblocking(true).map_err(refused)?;
        let listener = self.listener.try_clone().map_err(refused)?;
        let acceptor = Arc::clone(&connections);
        let thread = std::thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || acceptor.attend_clients(&self.listener, chores))
            .map_err(refused)?;
        Ok(ControlServer { connections, listener, path, inode, thread: Some(thread) })
    }
}

/// A control socket that is served until this is dropped.
#[derive(Debug)]
pub struct ControlServer {
    connections: Arc<Connections>,
    listener: UnixListener,
    path: PathBuf,
    inode: u64,
    thread: Option<JoinHandle<()>>,
}

impl Drop for ControlServer {
    /// Accepts no one, lets each client have the answer that it waits for (within the limit for
    /// answers), removes the socket.
    fn drop(&mut self) {
        self.connections.closing.store(true, Ordering::SeqCst);
        // Wakes the thread. (A connection would too, if the path still led here.)
        match rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both) {
            Ok(()) => {
                if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
                    tracing::error!("the control thread panicked");
                }
            }
            Err(error) => tracing::warn!(%error, "the control thread cannot be ended"),
        }
        self.connections.empty();
        let ours = self.path.symlink_metadata().is_ok_and(|found| found.ino() == self.inode);
        if ours {
            if let Err(error) = std::fs::remove_file(&self.path) {
                tracing::warn!(path = %self.path.display(), %error, "cannot remove the socket");
            }
        }
    }
}

/// Where the clients are.
struct Connections {
    limits: Limits,
    commands: Arc<dyn Commands>,
    closing: AtomicBool,
    clients: Mutex<HashMap<u64, UnixStream>>,
    one_left: Condvar,
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Connections").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Connections {
    fn clients(&self) -> MutexGuard<'_, HashMap<u64, UnixStream>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Let clients in until the server ends, and do the chores in between.
    fn attend_clients(
        self: &Arc<Self>,
        listener: &UnixListener,
        mut chores: Option<Box<dyn Chores>>,
    ) {
        let mut number = 0;
        let mut due = Instant::now();
        while !self.closing.load(Ordering::SeqCst) {
            let woken = wait_for_client(listener, chores.as_deref(), due);
            if let Some(chores) = chores.as_deref_mut().filter(|_| woken || Instant::now() >= due) {
                chores.run();
                due = Instant::now() + chores.interval();
            }
            match listener.accept() {
                Ok((stream, _)) if !self.closing.load(Ordering::SeqCst) => {
                    number += 1;
                    if let Err(error) = self.admit(number, stream) {
                        tracing::warn!(%error, "cannot serve a control client");
                    }
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) if self.closing.load(Ordering::SeqCst) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a control client");
                    // Out of descriptors, most likely: try again, but not in a busy loop.
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    fn admit(self: &Arc<Self>, number: u64, mut stream: UnixStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(self.limits.answer))?;
        let known = stream.try_clone()?;
        {
            let mut clients = self.clients();
            if clients.len() >= self.limits.clients {
                drop(clients);
                // Never waited for: the line fits any socket's buffer.
                return stream.write_all(render_answer(&Err(too_many())).as_bytes());
            }
            clients.insert(number, known);
        }
        let connections = Arc::clone(self);
        let spawned =
            std::thread::Builder::new().name("control-client".to_owned()).spawn(move || {
                if let Err(error) = connections.attend(&mut stream) {
                    tracing::debug!(%error, "a control client was lost");
                }
                connections.forget(number);
            });
        spawned.map(drop).inspect_err(|_| self.forget(number))
    }

    fn forget(&self, number: u64) {
        self.clients().remove(&number);
        self.one_left.notify_all();
    }

    /// End every conversation after the answer that is due.
    fn empty(&self) {
        let clients = self.clients();
        for stream in clients.values() {
            // One that is gone needs no end.
            drop(stream.shutdown(Shutdown::Read));
        }
        let waited =
            self.one_left.wait_timeout_while(clients, self.limits.answer, |left| !left.is_empty());
        drop(waited);
    }

    /// Answer requests until the client leaves, breaks a limit, or the server ends.
    fn attend(&self, stream: &mut UnixStream) -> io::Result<()> {
        let mut received = Vec::with_capacity(self.limits.line_bytes);
        loop {
            let line = match self.read_line(stream, &mut received)? {
                Heard::Line(line) => line,
                Heard::Nothing => return Ok(()),
                Heard::TooMuch(refused) => {
                    return stream.write_all(render_answer(&Err(refused)).as_bytes());
                }
            };
            let answer = parse_request(&line).and_then(|command| self.commands.carry_out(command));
            stream.write_all(render_answer(&answer).as_bytes())?;
        }
    }

    /// The next line, its end not included; what follows it stays in `received`.
    fn read_line(&self, stream: &mut UnixStream, received: &mut Vec<u8>) -> io::Result<Heard> {
        let mut deadline: Option<Instant> = None;
        let mut chunk = [0; 1024];
        loop {
            if let Some(end) = received.iter().position(|byte| *byte == b'\n') {
                let rest = received.split_off(end + 1);
                let mut line = std::mem::replace(received, rest);
                line.truncate(end);
                if line.len() <= self.limits.line_bytes {
                    return Ok(Heard::Line(line));
                }
                return Ok(Heard::TooMuch(self.too_long()));
            }
            if received.len() > self.limits.line_bytes {
                return Ok(Heard::TooMuch(self.too_long()));
            }
            let wait = if received.is_empty() {
                self.limits.idle
            } else {
                let now = Instant::now();
                deadline.get_or_insert(now + self.limits.line).saturating_duration_since(now)
            };
            if wait.is_zero() {
                return Ok(Heard::TooMuch(too_slow()));
            }
            stream.set_read_timeout(Some(wait))?;
            match stream.read(&mut chunk) {
                Ok(0) => return Ok(Heard::Nothing),
                Ok(count) => received.extend_from_slice(chunk.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Heard::TooMuch(too_slow()));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn too_long(&self) -> Refused {
        let limit = self.limits.line_bytes;
        Refused::new("line-too-long", format!("A request has at most {limit} bytes."))
    }
}

/// Wait for a client, or until the chores want to be done; whether these were asked for at once.
fn wait_for_client(listener: &UnixListener, chores: Option<&dyn Chores>, due: Instant) -> bool {
    let client = PollFd::new(listener, PollFlags::IN);
    let Some(chores) = chores else {
        // A wait that fails is no worse than one that is short: the caller looks for itself.
        poll(&mut [client], None).ok();
        return false;
    };
    let mut sources = [client, PollFd::from_borrowed_fd(chores.wake(), PollFlags::IN)];
    let left = Timespec::try_from(due.saturating_duration_since(Instant::now()));
    poll(&mut sources, Some(&left.unwrap_or_default())).ok();
    let [_, wake] = sources;
    wake.revents().contains(PollFlags::IN)
}

enum Heard {
    Line(Vec<u8>),
    Nothing,
    TooMuch(Refused),
}

fn too_many() -> Refused {
    Refused::new("too-many-clients", "Too many clients are connected. Try again later.")
}

fn too_slow() -> Refused {
    Refused::new("too-slow", "The request did not come in time. Connect again.")
}
