//! FUSE over `io_uring`: few threads, each of which takes the requests of its CPUs' queues.

mod footprint;
mod layout;
mod mailbox;
mod shared;
mod worker;

use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::channel::Channel;
use crate::classic::{Reader, Service};
use crate::cpus::observe_cpus;
use crate::error::FuseError;
use crate::lifetime::{InFlight, PanicGuard};
use crate::options::ServeOptions;
use crate::ring::layout::{ThreadPlan, decide_layout};
use crate::ring::worker::Worker;

/// One thread and its requests.
pub(crate) struct Part {
    pub(crate) thread: JoinHandle<()>,
    pub(crate) in_flight: Arc<InFlight>,
}

/// What was started.
pub(crate) struct Shape {
    pub(crate) queues: u16,
    pub(crate) entries_per_queue: u16,
    pub(crate) threads: u16,
    /// What is not as asked for.
    pub(crate) remark: Option<String>,
}

/// What a thread says once its queues are registered: whether it is pinned.
type Started = Result<bool, FuseError>;

/// Start the threads and wait until the kernel has all their entries. The first one looks after
/// `reader` too. Each thread is handed to `keep` as soon as it exists, also when others fail.
///
/// # Errors
/// [`FuseError`]; the caller ends the connection, which ends the threads that did start.
pub(crate) fn start(
    channel: &Arc<Channel>,
    service: &Service,
    options: &ServeOptions,
    reader: Reader,
    mut keep: impl FnMut(Part),
) -> Result<Shape, FuseError> {
    let possible = observe_cpus("possible")?;
    let online = observe_cpus("online")?;
    let plans = decide_layout(&possible, &online, options.ring_entries, options.max_transfer_bytes);
    let threads = plans.len();
    let entries =
        plans.iter().filter_map(|plan| plan.queues.first()).map(|plan| plan.entries).max();
    let (sender, receiver) = mpsc::channel::<Started>();
    let mut reader = Some(reader);
    for plan in plans {
        let beside = (reader.take(), options.pin_threads);
        keep(start_thread(channel, service, plan, beside, sender.clone())?);
    }
    drop(sender);
    let mut unpinned = 0_usize;
    for started in receiver {
        unpinned += usize::from(!started?);
    }
    let remark = (options.pin_threads && unpinned > 0)
        .then(|| format!("{unpinned} of {threads} threads may not be pinned to their CPUs"));
    Ok(Shape {
        queues: u16::try_from(possible.len()).unwrap_or(u16::MAX),
        entries_per_queue: entries.unwrap_or_default(),
        threads: u16::try_from(threads).unwrap_or(u16::MAX),
        remark,
    })
}

fn start_thread(
    channel: &Arc<Channel>,
    service: &Service,
    plan: ThreadPlan,
    (reader, pin): (Option<Reader>, bool),
    sender: mpsc::Sender<Started>,
) -> Result<Part, FuseError> {
    let in_flight = Arc::new(InFlight::default());
    let (counted, channel, service) =
        (Arc::clone(&in_flight), Arc::clone(channel), service.clone());
    let name = format!("fuse-queue-{}", plan.cpus.first().copied().unwrap_or_default());
    let serving = move || {
        let _guard = PanicGuard(Arc::clone(&service.lifetime));
        let pinned = pin && pin_to(&plan.cpus);
        let worker = Worker::start(&channel, service, &plan.queues, reader, counted);
        let (started, worker) = match worker {
            Ok(worker) => (Ok(pinned), Some(worker)),
            Err(error) => (Err(error), None),
        };
        // Who started it may have given up.
        drop(sender.send(started));
        drop(sender);
        if let Some(worker) = worker {
            worker.run();
        }
    };
    let started = thread::Builder::new().name(name).spawn(serving);
    let thread = started.map_err(FuseError::std_io("start a thread"))?;
    Ok(Part { thread, in_flight })
}

fn pin_to(cpus: &[u16]) -> bool {
    let mut set = CpuSet::new();
    for cpu in cpus.iter().copied().map(usize::from) {
        if cpu >= CpuSet::MAX_CPU {
            return false;
        }
        set.set(cpu);
    }
    sched_setaffinity(None, &set).is_ok()
}
