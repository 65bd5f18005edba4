//! The one cluster of a loaded copy.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, c_char, c_void};
use std::iter;
use std::ops::Range;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

const PAGE_BYTES: u64 = 4096;

/// What a callback of a watch is called with.
#[derive(Clone, Copy)]
pub(crate) struct Watch {
    pub(crate) id: u64,
    pub(crate) callbacks: [Option<unsafe extern "C" fn(*mut c_void)>; 2],
    pub(crate) argument: *mut c_void,
}

// SAFETY: the binding says that its callbacks take their argument on any thread.
unsafe impl Send for Watch {}

/// What lies in a pool under one name.
#[derive(Default, Clone)]
pub(crate) struct Object {
    pub(crate) bytes: Vec<u8>,
    pub(crate) attributes: HashMap<String, Vec<u8>>,
    pub(crate) pairs: BTreeMap<String, Vec<u8>>,
}

/// All state of one copy: one pool `rbd`, one image `disk`.
pub(crate) struct State {
    pub(crate) image_id: String,
    pub(crate) size_bytes: u64,
    /// What the image was formatted with, if it was.
    pub(crate) passphrase: Option<String>,
    /// The image was opened with it: what it shows begins behind the header.
    pub(crate) is_decrypted: bool,
    /// Sparse; pages that are not there read as zeros.
    pages: BTreeMap<u64, Vec<u8>>,
    pub(crate) metadata: HashMap<String, String>,
    pub(crate) snapshots: Vec<(u64, String, u64)>,
    pub(crate) owner: Option<String>,
    pub(crate) is_blocklisted: bool,
    pub(crate) update_watches: Vec<Watch>,
    pub(crate) quiesce_watches: Vec<Watch>,
    pub(crate) quiesce_answers: Vec<i32>,
    pub(crate) watches_made: u64,
    /// By namespace and name.
    pub(crate) objects: HashMap<(String, String), Object>,
    /// What a change of an object that takes space is answered; 0 where there is space.
    pub(crate) full_errno: i32,
    /// Answers to give instead of doing the work, by function.
    pub(crate) failures: HashMap<String, Vec<i64>>,
    /// Calls so far, by function.
    pub(crate) calls: HashMap<String, i64>,
    /// What was passed to `rados_conf_set`, as `key=value`.
    pub(crate) settings: Vec<String>,
    /// Requests wait while this is set.
    pub(crate) is_held: bool,
    pub(crate) violations: Vec<String>,
    pub(crate) open_clusters: i64,
    pub(crate) open_pools: i64,
    pub(crate) open_images: i64,
    pub(crate) open_completions: i64,
    /// Operations on objects, and completions of these.
    pub(crate) open_operations: i64,
}

/// Work for the library's own thread.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

pub(crate) static CHANGED: Condvar = Condvar::new();

static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| {
    Mutex::new(State {
        image_id: "10a6f5b3c2d1".to_owned(),
        size_bytes: 64 << 20,
        passphrase: None,
        is_decrypted: false,
        pages: BTreeMap::new(),
        metadata: HashMap::new(),
        snapshots: Vec::new(),
        owner: None,
        is_blocklisted: false,
        update_watches: Vec::new(),
        quiesce_watches: Vec::new(),
        quiesce_answers: Vec::new(),
        watches_made: 0,
        objects: HashMap::new(),
        full_errno: 0,
        failures: HashMap::new(),
        calls: HashMap::new(),
        settings: Vec::new(),
        is_held: false,
        violations: Vec::new(),
        open_clusters: 0,
        open_pools: 0,
        open_images: 0,
        open_completions: 0,
        open_operations: 0,
    })
});

static JOBS: LazyLock<Mutex<mpsc::Sender<Job>>> = LazyLock::new(|| {
    let (sender, receiver) = mpsc::channel::<Job>();
    thread::spawn(move || receiver.into_iter().for_each(|job| job()));
    Mutex::new(sender)
});

static DELIVERING: Mutex<()> = Mutex::new(());

thread_local! {
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

pub(crate) fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Do `job` on the library's thread.
pub(crate) fn post(job: Job) {
    drop(JOBS.lock().unwrap_or_else(PoisonError::into_inner).send(job));
}

/// Run a callback of the binding; calls of the library in it are violations.
pub(crate) fn call_back(callback: impl FnOnce()) {
    IN_CALLBACK.set(true);
    callback();
    IN_CALLBACK.set(false);
}

/// Held while a watch's callback runs, and by whoever must wait until none does.
pub(crate) fn deliver() -> MutexGuard<'static, ()> {
    DELIVERING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Note a call; Err is the answer to give at once.
pub(crate) fn enter(function: &str) -> Result<MutexGuard<'static, State>, i64> {
    let mut state = state();
    *state.calls.entry(function.to_owned()).or_default() += 1;
    if IN_CALLBACK.get() {
        state.violations.push(format!("{function} was called from a callback"));
    }
    match state.failures.get_mut(function) {
        Some(answers) if !answers.is_empty() => Err(answers.remove(0)),
        _ => Ok(state),
    }
}

/// What LUKS2 puts before the data.
const HEADER_BYTES: u64 = 16 << 20;

impl State {
    /// Where a byte of what the image shows lies.
    pub(crate) fn place(&self, offset_bytes: u64) -> u64 {
        offset_bytes + if self.is_decrypted { HEADER_BYTES } else { 0 }
    }

    /// The size of what the image shows.
    pub(crate) fn shown_bytes(&self) -> u64 {
        self.size_bytes.saturating_sub(self.place(0))
    }

    pub(crate) fn is_watched(&self, id: u64) -> bool {
        self.update_watches.iter().chain(&self.quiesce_watches).any(|watch| watch.id == id)
    }

    pub(crate) fn read(&self, offset_bytes: u64, into: &mut [u8]) {
        for (number, start, part) in parts(offset_bytes, into.len()) {
            let (Some(into), page) = (into.get_mut(part), self.pages.get(&number)) else {
                return;
            };
            match page.and_then(|page| page.get(start..start + into.len())) {
                Some(from) => into.copy_from_slice(from),
                None => into.fill(0),
            }
        }
    }

    pub(crate) fn write(&mut self, offset_bytes: u64, from: &[u8]) {
        for (number, start, part) in parts(offset_bytes, from.len()) {
            let page = self.pages.entry(number).or_insert_with(|| vec![0; 4096]);
            let end = start + part.len();
            if let (Some(into), Some(from)) = (page.get_mut(start..end), from.get(part)) {
                into.copy_from_slice(from);
            }
        }
    }

    pub(crate) fn zero(&mut self, offset_bytes: u64, length: u64) {
        let end_bytes = offset_bytes + length;
        let touched = offset_bytes / PAGE_BYTES..=end_bytes / PAGE_BYTES;
        for (number, page) in self.pages.range_mut(touched) {
            let within = |at: u64| {
                usize::try_from(
                    at.clamp(number * PAGE_BYTES, (number + 1) * PAGE_BYTES) % PAGE_BYTES,
                )
            };
            let start = within(offset_bytes).unwrap_or(0);
            let ends_here = end_bytes < (number + 1) * PAGE_BYTES;
            let end = if ends_here { within(end_bytes).unwrap_or(0) } else { page.len() };
            if let Some(zeroed) = page.get_mut(start..end) {
                zeroed.fill(0);
            }
        }
    }
}

/// The pages of a range: number, where in the page it starts, and which part of the range it is.
fn parts(offset_bytes: u64, length: usize) -> impl Iterator<Item = (u64, usize, Range<usize>)> {
    let mut done = 0;
    iter::from_fn(move || {
        let at = offset_bytes + u64::try_from(done).ok()?;
        let start = usize::try_from(at % PAGE_BYTES).ok()?;
        let part = done..length.min(done + 4096 - start);
        done = part.end;
        (!part.is_empty()).then_some((at / PAGE_BYTES, start, part))
    })
}

/// # Safety
/// `text` is NULL or ends in NUL.
pub(crate) unsafe fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as the caller says.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
