//! Mounts made, refused, taken away.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use grampus_fuse::{FuseError, ServeOptions, Session, TransportChoice};

use crate::devices::Foreign;
use crate::stage::{SIZE_BYTES, Stage, is_mounted, memory, transports};

#[test]
fn two_mounts_know_nothing_of_each_other() {
    for transport in transports() {
        let first = Stage::new(memory(), transport);
        let second = Stage::new(memory(), transport);
        let (one, two) = (first.open(), second.open());
        one.write_all_at(&[1; 8192], 0).unwrap();
        two.write_all_at(&[2; 8192], 0).unwrap();
        drop(one);
        first.end();
        let mut back = [0; 8192];
        two.read_exact_at(&mut back, 0).unwrap();
        assert_eq!(back, [2; 8192]);
        drop(two);
        second.end();
    }
}

#[test]
fn an_unmount_under_load_lets_those_finish_who_have_the_file_open() {
    for transport in transports() {
        let mut stage = Stage::new(Foreign::new(), transport);
        let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
        let session = stage.session.take().unwrap();
        let handle = session.handle();
        thread::scope(|scope| {
            for number in 0..4_u64 {
                let file = stage.open();
                let (stop, rounds) = (&stop, &rounds);
                scope.spawn(move || {
                    let mut back = [0; 4096];
                    while !stop.load(Ordering::SeqCst) {
                        file.write_all_at(&[7; 4096], number * 4096).unwrap();
                        file.read_exact_at(&mut back, number * 4096).unwrap();
                        assert_eq!(back, [7; 4096]);
                        rounds.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            let some_more = || {
                let before = rounds.load(Ordering::SeqCst);
                while rounds.load(Ordering::SeqCst) < before + 50 {
                    thread::yield_now();
                }
            };
            some_more();
            handle.unmount().unwrap();
            assert!(!is_mounted(&stage.mountpoint));
            handle.unmount().unwrap();
            some_more();
            assert!(handle.is_alive());
            stop.store(true, Ordering::SeqCst);
        });
        session.wait().unwrap();
        assert!(!handle.is_alive());
        handle.unmount().unwrap();
        assert_eq!(fs::metadata(&stage.mountpoint).unwrap().len(), 0, "the file underneath");
    }
}

#[test]
fn an_unmount_by_someone_else_ends_the_session() {
    for transport in transports() {
        let mut stage = Stage::new(memory(), transport);
        stage.open().write_all_at(&[1; 512], 0).unwrap();
        rustix::mount::unmount(&stage.mountpoint, rustix::mount::UnmountFlags::empty()).unwrap();
        stage.session.take().unwrap().wait().unwrap();
    }
}

#[test]
fn a_session_that_is_dropped_takes_its_mount_away() {
    for transport in transports() {
        let mut stage = Stage::new(memory(), transport);
        drop(stage.session.take());
        assert!(!is_mounted(&stage.mountpoint));
    }
}

#[test]
fn what_a_dead_server_left_behind_makes_way() {
    for transport in transports() {
        let stage = Stage::new(memory(), transport);
        let options = ServeOptions { transport, ..ServeOptions::new(&stage.mountpoint) };
        let live = Session::mount(memory(), &options);
        assert!(matches!(live, Err(FuseError::Mountpoint { .. })), "a live one stays");
        stage.session().handle().abort().unwrap();
        assert!(fs::metadata(&stage.mountpoint).is_err(), "dead");
        let next = Session::mount(memory(), &options).unwrap();
        assert_eq!(fs::metadata(&stage.mountpoint).unwrap().len(), SIZE_BYTES);
        // The first one's end must not take the second one's mount.
        drop(stage.session);
        assert_eq!(fs::metadata(&stage.mountpoint).unwrap().len(), SIZE_BYTES);
        next.handle().unmount().unwrap();
        next.wait().unwrap();
    }
}

#[test]
fn only_an_existing_regular_file_is_a_mountpoint() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    std::os::unix::fs::symlink("nowhere", place("link")).unwrap();
    for transport in transports() {
        for path in [directory.path().to_owned(), place("missing"), place("link"), "/".into()] {
            let options = ServeOptions { transport, ..ServeOptions::new(&path) };
            let refused = Session::mount(memory(), &options);
            assert!(matches!(refused, Err(FuseError::Mountpoint { .. })), "{path:?} {refused:?}");
        }
        let options = ServeOptions { max_transfer_bytes: 1, ..ServeOptions::new(place("x")) };
        assert!(matches!(Session::mount(memory(), &options), Err(FuseError::Option { .. })));
    }
}

#[test]
fn the_automatic_choice_says_what_it_chose_and_why() {
    if transports().is_empty() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("volume");
    File::create(&path).unwrap();
    let options = ServeOptions::new(&path);
    assert_eq!(options.transport, TransportChoice::Auto);
    let session = Session::mount(memory(), &options).unwrap();
    let status = session.transport().clone();
    assert!(!status.reason.is_empty() && status.threads > 0 && status.entries_per_queue > 0);
    session.handle().unmount().unwrap();
    assert_eq!(session.wait_at_most(Duration::from_secs(20)).unwrap(), 0);
}
