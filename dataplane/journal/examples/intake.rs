//! How much of a core the journal itself takes: 16 KiB writes at random over 1 GiB, a flush after
//! every eight, everything below done at once.
//!
//! `cargo run --release -p grampus-journal --example intake [WRITES]`

#![allow(clippy::print_stdout, reason = "it is a program")]

use std::env;
use std::error::Error;
use std::time::{Duration, Instant};

use grampus_blockdev::{Durability, Offset, Token};
use grampus_journal::{
    Action, Admission, CacheConfig, Config, Epoch, Event, Journal, Opened, Payload, Record, Ring,
    VolumeId,
};

const PAGE: [u8; 16 << 10] = [7; 16 << 10];

fn main() -> Result<(), Box<dyn Error>> {
    let writes = env::args().nth(1).map_or(Ok(400_000), |count| count.parse::<u64>())?;
    for cache in [None, Some(CacheConfig::default())] {
        for encode in [false, true] {
            run(writes, cache, encode)?;
        }
    }
    Ok(())
}

fn run(writes: u64, cache: Option<CacheConfig>, encode: bool) -> Result<(), Box<dyn Error>> {
    let config = Config { cache, ..Config::default() };
    let volume = VolumeId([1; 16]);
    let record = |ring: Ring| Record { epoch: Epoch(1), ..Record::fresh(volume, ring) };
    let opened = Opened {
        record: record(config.ring),
        local: cache.map(|cache| record(cache.ring)),
        size_bytes: 1 << 30,
    };
    let mut journal = Journal::new(config, opened, Duration::ZERO)?;
    let (started, mut frame_bytes, mut answered) = (Instant::now(), Vec::new(), 0);
    let mut place = 1_u64;
    for number in 0..writes {
        place =
            place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let start = (place >> 48) << 14;
        while let Admission::At(_) | Admission::Wait =
            journal.admission(started.elapsed(), 16 << 10)
        {
            answer_all(&mut journal, started, encode, &mut frame_bytes, &mut answered);
            journal.handle(started.elapsed(), Event::Tick);
        }
        let (payload, token) = (Payload::copy_of(&PAGE), Token(number));
        let offset = Offset::new(start)?;
        journal.write(started.elapsed(), offset, payload, Durability::OnFlush, token)?;
        if number % 8 == 7 {
            journal.flush(started.elapsed(), token);
            answer_all(&mut journal, started, encode, &mut frame_bytes, &mut answered);
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let mode = if cache.is_some() { "cache" } else { "journal" };
    let frames = if encode { "encoded" } else { "not encoded" };
    println!(
        "{mode}, frames {frames}: {:.2} us a write, {answered} flushes",
        seconds * 1e6 / {
            // A few hundred thousand: exact in a float.
            f64::from(u32::try_from(writes)?)
        }
    );
    println!("  {:?}", journal.statistics());
    Ok(())
}

fn answer_all(
    journal: &mut Journal,
    started: Instant,
    encode: bool,
    bytes: &mut Vec<u8>,
    answered: &mut u64,
) {
    while let Some(action) = journal.next_action() {
        let event = match action {
            Action::Append { frame, .. } => {
                if encode {
                    bytes.clear();
                    frame.encode(bytes);
                }
                Event::Appended { last: frame.sequences().1, result: Ok(()) }
            }
            Action::AppendLocally { frame, .. } => {
                if encode {
                    bytes.clear();
                    frame.encode(bytes);
                }
                Event::AppendedLocally { last: frame.sequences().1, result: Ok(()) }
            }
            Action::Apply { id, .. } => Event::Applied { id, result: Ok(()) },
            Action::FlushImage => Event::ImageFlushed(Ok(())),
            Action::Record { .. } => Event::Recorded(Ok(())),
            Action::RecordLocally { .. } => Event::RecordedLocally(Ok(())),
            Action::Complete { .. } => {
                *answered += 1;
                continue;
            }
            Action::FreeSlot { slot, .. } => Event::SlotFreed { slot, result: Ok(()) },
            Action::Report(_) => continue,
        };
        journal.handle(started.elapsed(), event);
    }
}
