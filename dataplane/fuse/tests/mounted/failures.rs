//! Devices that fail, forget, hang, cheat and panic, and kernels that hang up.

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use grampus_fuse::{FuseError, TransportChoice};
use rustix::io::Errno;

use crate::devices::{Vice, Vicious};
use crate::stage::{Stage, is_mounted, transports};

fn errno<T>(result: Result<T, std::io::Error>) -> Option<Errno> {
    result.err().and_then(|error| Errno::from_io_error(&error))
}

/// Wait for something that another thread brings about.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        thread::yield_now();
    }
}

#[test]
fn a_failure_is_an_error_of_its_request_and_nothing_more() {
    for transport in transports() {
        let device = Vicious::new(Vice::Fails);
        let stage = Stage::new(device.clone(), transport);
        let file = stage.open();
        let io = Some(Errno::IO);
        assert_eq!(errno(file.read_at(&mut [0; 512], 0)), io);
        assert_eq!(errno(file.write_at(&[0; 512], 0)), io);
        assert_eq!(errno(file.sync_data()), io);
        let punch = rustix::fs::FallocateFlags::PUNCH_HOLE;
        let punched =
            rustix::fs::fallocate(&file, punch | rustix::fs::FallocateFlags::KEEP_SIZE, 0, 4096);
        assert_eq!(punched, Err(Errno::IO));
        device.loose.store(false, Ordering::SeqCst);
        file.write_all_at(&[3; 512], 0).unwrap();
        file.sync_data().unwrap();
        drop(file);
        stage.end();
    }
}

/// A request whose memory is lost: an error to its user. The classic transport goes on with other
/// memory; the rings cannot, since the kernel knows the memory that is gone.
#[test]
fn memory_that_a_device_loses_is_never_given_to_the_kernel_again() {
    for transport in transports() {
        for vice in [Vice::Drops, Vice::Swaps, Vice::Keeps] {
            if transport == TransportChoice::Classic && vice == Vice::Swaps {
                // A buffer is a buffer there: to swap it is no loss.
                continue;
            }
            let device = Vicious::new(vice);
            let mut stage = Stage::new(device.clone(), transport);
            let file = stage.open();
            let failed = errno(file.read_at(&mut [0; 512], 0));
            device.loose.store(false, Ordering::SeqCst);
            if transport == TransportChoice::Classic {
                assert_eq!(failed, Some(Errno::IO), "{vice:?}");
                file.write_all_at(&[3; 512], 0).unwrap();
                drop(file);
                stage.end();
                continue;
            }
            assert!(failed.is_some(), "{vice:?}");
            assert!(file.write_at(&[3; 512], 0).is_err());
            let session = stage.session.take().unwrap();
            let handle = session.handle();
            let ended = session.wait();
            assert!(matches!(ended, Err(FuseError::GivenUp { .. })), "{ended:?}");
            assert!(!handle.is_alive());
            assert!(!is_mounted(&stage.mountpoint));
        }
    }
}

#[test]
fn a_forgotten_flush_is_an_error_and_the_mount_goes_on() {
    for transport in transports() {
        let device = Vicious::new(Vice::Drops);
        let stage = Stage::new(device.clone(), transport);
        let file = stage.open();
        assert_eq!(errno(file.sync_data()), Some(Errno::IO));
        device.loose.store(false, Ordering::SeqCst);
        file.sync_data().unwrap();
        drop(file);
        stage.end();
    }
}

#[test]
fn a_device_that_panics_ends_the_session_and_not_its_users() {
    for transport in transports() {
        let mut stage = Stage::new(Vicious::new(Vice::Panics), transport);
        let file = stage.open();
        assert!(file.read_at(&mut [0; 512], 0).is_err());
        let ended = stage.session.take().unwrap().wait();
        assert!(matches!(ended, Err(FuseError::GivenUp { .. })), "{ended:?}");
    }
}

/// As many users as there are entries, and more, wait for a device that never answers.
#[test]
fn a_device_that_hangs_can_be_left() {
    const USERS: usize = 6;
    for transport in transports() {
        let device = Vicious::new(Vice::Hangs);
        let mut stage = Stage::with(device.clone(), transport, |options| {
            (options.ring_entries, options.classic_threads) = (1, 2);
        });
        let file = Arc::new(stage.open());
        let users: Vec<_> = (0..USERS)
            .map(|n| {
                let file = Arc::clone(&file);
                thread::spawn(move || errno(file.read_at(&mut [0; 512], n as u64 * 512)))
            })
            .collect();
        until("the device has requests", || device.held() > 0);
        let session = stage.session.take().unwrap();
        assert!(session.in_flight() > 0);
        let handle = session.handle();
        handle.abort().unwrap();
        for user in users {
            assert!(user.join().unwrap().is_some(), "an error, and at once");
        }
        let left = session.wait_at_most(Duration::from_millis(10)).unwrap();
        assert!(left > 0);
        assert!(!handle.is_alive());
        assert!(!is_mounted(&stage.mountpoint));
        // What the device answers now goes nowhere, and harms no one.
        device.release();
    }
}

#[test]
fn waiting_lasts_until_the_device_has_answered() {
    for transport in transports() {
        let device = Vicious::new(Vice::Hangs);
        let mut stage = Stage::new(device.clone(), transport);
        let file = stage.open();
        let user = thread::spawn(move || errno(file.read_at(&mut [0; 512], 0)));
        until("the device has the request", || device.held() > 0);
        let session = stage.session.take().unwrap();
        let handle = session.handle();
        let waiting = thread::spawn(move || session.wait());
        handle.abort().unwrap();
        assert!(user.join().unwrap().is_some());
        until("the end is noted", || !handle.is_alive());
        assert!(!waiting.is_finished(), "the device still has a request");
        device.release();
        waiting.join().unwrap().unwrap();
    }
}
