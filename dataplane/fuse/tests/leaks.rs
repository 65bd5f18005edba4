//! A mount that has ended leaves no descriptor, thread or mount behind. Alone in its program, since
//! it counts the whole process.

#![allow(
    clippy::expect_used,
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

use grampus_blockdev::{BlockSize, Geometry, MemoryDevice};
use grampus_fuse::{ServeOptions, Session, TransportChoice, probe};

const CYCLES: usize = 15;

/// A thread that was joined, or a worker of a ring that was closed, is still listed until the
/// kernel has reaped it, which takes as long as a busy machine takes to run it once more.
const REAPED_WITHIN: Duration = Duration::from_secs(10);

fn count(what: &str) -> usize {
    fs::read_dir(format!("/proc/self/{what}")).unwrap().count()
}

fn mounts() -> usize {
    fs::read_to_string("/proc/self/mountinfo").unwrap().matches("grampus-leaks").count()
}

/// Waits until no more threads than `threads` are listed; how many there are then.
fn threads_left(threads: usize) -> usize {
    let deadline = Instant::now() + REAPED_WITHIN;
    loop {
        let now = count("task");
        if now <= threads || Instant::now() >= deadline {
            return now;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn nothing_is_left_of_a_session() {
    let found = probe();
    if !found.fuse || !rustix::process::geteuid().is_root() {
        eprintln!("skipped: a mount needs root and FUSE ({})", found.reason);
        return;
    }
    let directory = tempfile::Builder::new().prefix("grampus-leaks").tempdir().unwrap();
    let path = directory.path().join("volume");
    File::create(&path).unwrap();
    let threads = count("task");
    let mut descriptors = None;
    for cycle in 0..CYCLES {
        for transport in [TransportChoice::Classic, TransportChoice::Auto] {
            let geometry = Geometry::new(1 << 20, BlockSize::B4096).unwrap();
            let device = Arc::new(MemoryDevice::new(geometry).unwrap());
            let options = ServeOptions { transport, ..ServeOptions::new(&path) };
            let session = Session::mount(device.clone(), &options).unwrap();
            let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
            file.write_all_at(&[1; 8192], 4096).unwrap();
            if cycle % 2 == 0 {
                drop(file);
                session.handle().unmount().unwrap();
                session.wait().unwrap();
            } else {
                session.handle().abort().unwrap();
                session.wait().unwrap();
                drop(file);
            }
            assert_eq!(Arc::strong_count(&device), 1, "the device is free again");
        }
        assert_eq!(threads_left(threads), threads, "threads after cycle {cycle}");
        // The first cycle opens what the runtime keeps open.
        let now = count("fd");
        assert_eq!(*descriptors.get_or_insert(now), now, "descriptors after cycle {cycle}");
        assert_eq!(mounts(), 0, "mounts after cycle {cycle}");
    }
}
