//! Memory that requests needed is given back, and nothing else (INV-83). Alone in its program, since
//! it measures the whole process, with its memory locked as volumed's is.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test may fail loudly"
)]

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use grampus_blockdev::{BlockDevice, BlockSize, Buffer, Geometry, MemoryDevice};
use grampus_fuse::{ServeOptions, Session, TransportChoice, probe};
use rustix::mm::{MlockAllFlags, mlockall};

const THREADS: usize = 24;
const SHARE_BYTES: usize = 1 << 20;
/// What is left is of other things.
const SLACK_BYTES: usize = 4 << 20;
const GIVEN_BACK_WITHIN: Duration = Duration::from_secs(20);
const ROUNDS: usize = 5;

fn resident_bytes() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

/// Not of the allocator, which would keep it: locked memory is not taken back from it.
fn filled(byte: u8, length: usize) -> Buffer {
    let mut buffer = Buffer::zeroed(length).unwrap();
    buffer.fill(byte);
    buffer
}

/// Each thread writes to its share and reads it back, so many times, with pauses in which memory is
/// given back.
fn use_shares(file: &File, rounds: usize, lengths: &(dyn Fn(usize) -> usize + Sync)) {
    thread::scope(|scope| {
        for number in 0..THREADS {
            scope.spawn(move || {
                let place = u64::try_from(number * SHARE_BYTES).unwrap();
                for round in 0..rounds {
                    let length = lengths(round + number);
                    let byte = u8::try_from((round * THREADS + number) % 251).unwrap();
                    file.write_all_at(&filled(byte, length), place).unwrap();
                    // From no pause to one that is longer than a sweep's interval.
                    if rounds > 1 {
                        let pause = (number * 97 + round * 311) % 1300;
                        thread::sleep(Duration::from_millis(u64::try_from(pause).unwrap()));
                    }
                    let mut back = filled(0, length);
                    file.read_exact_at(&mut back, place).unwrap();
                    assert!(back.iter().all(|found| *found == byte), "{number} in round {round}");
                }
            });
        }
    });
}

#[test]
fn memory_is_given_back_after_long_requests_and_no_request_loses_its_own() {
    let found = probe();
    if !found.fuse || !rustix::process::geteuid().is_root() {
        eprintln!("skipped: a mount needs root and FUSE ({})", found.reason);
        return;
    }
    if mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT).is_err() {
        eprintln!("memory may not be locked here: only what is not locked is tried");
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("volume");
    File::create(&path).unwrap();
    for transport in [TransportChoice::Classic, TransportChoice::Auto] {
        let size_bytes = u64::try_from(THREADS * SHARE_BYTES).unwrap();
        let geometry = Geometry::new(size_bytes, BlockSize::B4096).unwrap();
        let device = Arc::new(MemoryDevice::new(geometry).unwrap());
        let options = ServeOptions { transport, ..ServeOptions::new(&path) };
        let session = Session::mount(Arc::<MemoryDevice>::clone(&device), &options).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        use_shares(&file, 1, &|_| 4096); // what threads and allocators take once
        let before = resident_bytes();
        use_shares(&file, 1, &|_| SHARE_BYTES);
        let deadline = Instant::now() + GIVEN_BACK_WITHIN;
        let limit = before + THREADS * SHARE_BYTES + SLACK_BYTES; // the device is memory
        loop {
            let now = resident_bytes();
            if now <= limit {
                break;
            }
            assert!(Instant::now() < deadline, "{now} of {limit} bytes, {transport:?}");
            thread::sleep(Duration::from_millis(50));
        }
        use_shares(&file, ROUNDS, &|turn| [4096, SHARE_BYTES, 16 << 10, 128 << 10][turn % 4]);
        drop(file);
        session.handle().unmount().unwrap();
        session.wait().unwrap();
        assert_eq!(device.geometry().size_bytes(), size_bytes);
    }
}
