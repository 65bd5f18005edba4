//! Devices that a mount must cope with.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};

use grampus_blockdev::{
    BlockDevice, BlockSize, Buffer, Completion, DeviceError, Durability, Geometry, Outcome, Request,
};

use crate::stage::memory;

/// What was asked of a device, without the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Read,
    Write(Durability),
    WriteZeroes,
    Discard,
    Flush,
}

pub(crate) fn asked(request: &Request) -> Asked {
    match request {
        Request::Read { .. } => Asked::Read,
        Request::Write { durability, .. } => Asked::Write(*durability),
        Request::WriteZeroes { .. } => Asked::WriteZeroes,
        Request::Discard { .. } => Asked::Discard,
        Request::Flush => Asked::Flush,
    }
}

/// Notes what it is asked for.
pub(crate) struct Recorder {
    inner: Arc<dyn BlockDevice>,
    pub(crate) log: Mutex<Vec<Asked>>,
}

impl Recorder {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { inner: memory(), log: Mutex::default() })
    }
}

impl BlockDevice for Recorder {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, request: Request, completion: Completion) {
        self.log.lock().unwrap().push(asked(&request));
        self.inner.submit(request, completion);
    }
}

/// Shows only the first bytes of what it has, as many as it is told.
pub(crate) struct Growing {
    inner: Arc<dyn BlockDevice>,
    pub(crate) size_bytes: AtomicU64,
}

impl Growing {
    pub(crate) fn new(size_bytes: u64) -> Arc<Self> {
        Arc::new(Self { inner: memory(), size_bytes: AtomicU64::new(size_bytes) })
    }
}

impl BlockDevice for Growing {
    fn geometry(&self) -> Geometry {
        Geometry::new(self.size_bytes.load(Ordering::SeqCst), BlockSize::B4096).unwrap()
    }

    fn submit(&self, request: Request, completion: Completion) {
        self.inner.submit(request, completion);
    }
}

type Waiting = Arc<(Mutex<(VecDeque<(Request, Completion)>, bool)>, Condvar)>;

/// Answers on threads of its own, the youngest request first: as librbd does, and worse.
pub(crate) struct Foreign {
    inner: Arc<dyn BlockDevice>,
    waiting: Waiting,
    threads: Vec<JoinHandle<()>>,
}

impl Foreign {
    pub(crate) fn new() -> Arc<Self> {
        let inner = memory();
        let waiting = Waiting::default();
        let threads = (0..2)
            .map(|number| {
                let (inner, waiting) = (Arc::clone(&inner), Arc::clone(&waiting));
                thread::spawn(move || {
                    loop {
                        let mut state = waiting.0.lock().unwrap();
                        while state.0.is_empty() && !state.1 {
                            state = waiting.1.wait(state).unwrap();
                        }
                        let next =
                            if number == 0 { state.0.pop_back() } else { state.0.pop_front() };
                        drop(state);
                        let Some((request, completion)) = next else { return };
                        inner.submit(request, completion);
                    }
                })
            })
            .collect();
        Arc::new(Self { inner, waiting, threads })
    }
}

impl BlockDevice for Foreign {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, request: Request, completion: Completion) {
        self.waiting.0.lock().unwrap().0.push_back((request, completion));
        self.waiting.1.notify_one();
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.waiting.0.lock().unwrap().1 = true;
        self.waiting.1.notify_all();
        for thread in self.threads.drain(..) {
            // The last one to let go may be one of these threads, with a completion.
            if thread.thread().id() != thread::current().id() {
                thread.join().unwrap();
            }
        }
    }
}

/// How a device treats those who depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vice {
    /// Answers everything with an error.
    Fails,
    /// Forgets requests.
    Drops,
    /// Keeps requests for ever.
    Hangs,
    /// Gives another buffer back.
    Swaps,
    /// Claims success and keeps the buffer.
    Keeps,
    Panics,
}

/// A device that works until its vice is let loose on reads, writes and flushes.
pub(crate) struct Vicious {
    inner: Arc<dyn BlockDevice>,
    vice: Vice,
    pub(crate) loose: AtomicBool,
    held: Mutex<Vec<(Request, Completion)>>,
}

impl Vicious {
    pub(crate) fn new(vice: Vice) -> Arc<Self> {
        let loose = AtomicBool::new(true);
        Arc::new(Self { inner: memory(), vice, loose, held: Mutex::default() })
    }

    /// How many requests it has kept.
    pub(crate) fn held(&self) -> usize {
        self.held.lock().unwrap().len()
    }

    /// Answer what it has kept.
    pub(crate) fn release(&self) {
        self.loose.store(false, Ordering::SeqCst);
        for (request, completion) in self.held.lock().unwrap().drain(..) {
            self.inner.submit(request, completion);
        }
    }
}

impl BlockDevice for Vicious {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, request: Request, completion: Completion) {
        if !self.loose.load(Ordering::SeqCst) {
            return self.inner.submit(request, completion);
        }
        match self.vice {
            Vice::Fails => {
                let result = Err(DeviceError::Failed);
                completion.complete(Outcome { result, buffer: request.into_buffer() });
            }
            Vice::Drops => drop((request, completion)),
            Vice::Hangs => self.held.lock().unwrap().push((request, completion)),
            Vice::Swaps => {
                let other = request.into_buffer().map(|buffer| {
                    let mut other = Buffer::zeroed(buffer.capacity_bytes()).unwrap();
                    other.set_len(buffer.len()).unwrap();
                    other
                });
                completion.complete(Outcome { result: Ok(()), buffer: other });
            }
            Vice::Keeps => completion.complete(Outcome { result: Ok(()), buffer: None }),
            Vice::Panics => panic!("the device panics, as it should in this test"),
        }
    }
}
