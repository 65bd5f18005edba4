//! The threads, and the calls that they make.
//!
//! One for the journal: appends, records, time, and changes that were parked. One for the image,
//! so that a slow image holds up no append. In `cache` mode some for the log on the host, whose
//! calls wait for the disk.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle, Thread};

use grampus_blockdev::{Completion, Request, Token};
use grampus_journal::{Failure, Record};

use crate::core::{Next, Origin};
use crate::engine::{Engine, ImageSink, Reply, send_append};
use crate::ports::Ports;
use crate::work::{Asked, ClusterWork, ImageWork, LogWork, request_of};

/// More threads than any disk wants writes at once.
const MAX_LOG_THREADS: usize = 16;

/// What their names begin with.
const LOG_THREAD: &str = "journal-log-";

/// Whether a thread is one of those that wait for the host's disk.
pub(crate) fn waits_for_disk(thread: &Thread) -> bool {
    thread.name().is_some_and(|name| name.starts_with(LOG_THREAD))
}

/// Start all threads.
///
/// # Errors
/// Those that were started are in `into` all the same, and must be stopped.
pub(crate) fn start(
    engine: &Arc<Engine>,
    ports: &Arc<Ports>,
    log_threads: usize,
    into: &mut Vec<JoinHandle<()>>,
) -> io::Result<()> {
    let mut spawn = |name: String, run: fn(&Arc<Engine>, &Ports)| {
        let (engine, ports) = (Arc::clone(engine), Arc::clone(ports));
        let thread = thread::Builder::new().name(name).spawn(move || run(&engine, &ports))?;
        into.push(thread);
        io::Result::Ok(())
    };
    spawn("journal".into(), run_journal)?;
    spawn("journal-image".into(), run_image)?;
    if ports.local.is_some() {
        for number in 0..log_threads.clamp(1, MAX_LOG_THREADS) {
            spawn(format!("{LOG_THREAD}{number}"), run_log)?;
        }
    }
    Ok(())
}

fn run_journal(engine: &Arc<Engine>, ports: &Ports) {
    loop {
        match engine.next() {
            Next::Send(ClusterWork::Append { frame, place }) => {
                send_append(engine, ports, &frame, place);
            }
            Next::Send(ClusterWork::Record { expected, record }) => {
                send_record(engine, ports, &expected, &record);
            }
            Next::Send(ClusterWork::FreeSlot { owner, slot, before }) => {
                let reply = Reply::new(engine, Asked::FreeSlot(slot));
                let done = Box::new(move |result| reply.answer(result));
                ports.slots.start_free(slot, owner, before, done);
            }
            Next::Offer(intake) => engine.take_in(intake, Origin::Parked),
            Next::CarryOut(effects) => engine.carry_out(effects, None),
            Next::Sleep(_) => {} // slept
            Next::Stop => return,
        }
    }
}

fn send_record(engine: &Arc<Engine>, ports: &Ports, expected: &Record, record: &Record) {
    let reply = Reply::new(engine, Asked::Record);
    let done = Box::new(move |swapped: Result<bool, Failure>| {
        reply.answer(
            swapped.and_then(|swapped| if swapped { Ok(()) } else { Err(Failure::Fenced) }),
        );
    });
    ports.slots.start_swap_record(expected.encode().to_vec(), record.encode().to_vec(), done);
}

fn run_image(engine: &Arc<Engine>, ports: &Ports) {
    while let Some(work) = engine.image_work.pop() {
        let (asked, request) = match work {
            ImageWork::Apply { id, span, change } => (Asked::Apply(id), request_of(span, &change)),
            ImageWork::Flush => (Asked::FlushImage, Ok(Request::Flush)),
        };
        match request {
            Ok(request) => {
                let sink = ImageSink { engine: Arc::clone(engine), asked };
                ports.image.submit(request, Completion::new(Arc::new(sink), Token(0)));
            }
            // What the journal took lies on a device and fits a buffer, so this never happens.
            Err(_) => engine.event(asked.answered(Err(Failure::Io))),
        }
    }
}

fn run_log(engine: &Arc<Engine>, ports: &Ports) {
    let Some(local) = &ports.local else { return };
    let mut bytes = Vec::new();
    while let Some(work) = engine.log_work.pop() {
        let (asked, result) = match work {
            LogWork::Append { frame, place } => {
                bytes.clear();
                frame.encode(&mut bytes);
                let (_, last) = frame.sequences();
                (Asked::AppendLocally(last), local.append(place.slot, place.offset, &bytes))
            }
            LogWork::Record(record) => (Asked::RecordLocally, local.write_record(&record.encode())),
        };
        engine.event(asked.answered(result));
    }
}
