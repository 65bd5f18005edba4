//! What a user of the file sees.

use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::sync::atomic::Ordering;

use grampus_blockdev::Durability;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, fstatfs, ftruncate, seek};
use rustix::io::Errno;

use crate::devices::{Asked, Growing, Recorder};
use crate::stage::{SIZE_BYTES, Stage, memory, transports};

fn errno<T>(result: Result<T, std::io::Error>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

#[test]
fn it_is_a_regular_file_of_the_devices_size_that_only_root_opens() {
    for transport in transports() {
        let stage = Stage::new(memory(), transport);
        let seen = fs::metadata(&stage.mountpoint).unwrap();
        assert!(seen.is_file());
        assert_eq!((seen.len(), seen.mode() & 0o7777), (SIZE_BYTES, 0o600));
        assert_eq!((seen.uid(), seen.nlink(), seen.blocks()), (0, 1, SIZE_BYTES / 512));
        let file = stage.open();
        assert_eq!(fstatfs(&file).unwrap().f_blocks, SIZE_BYTES / 4096);
        let options = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(options.contains("fuse.grampus test/image"), "{options}");
        drop(file);
        stage.end();
    }
}

#[test]
fn what_is_written_is_read_at_any_alignment() {
    for transport in transports() {
        let stage = Stage::new(memory(), transport);
        let file = stage.open();
        let data: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
        file.write_all_at(&data, 4093).unwrap();
        let mut back = vec![0; data.len()];
        file.read_exact_at(&mut back, 4093).unwrap();
        assert!(back == data);
        file.read_exact_at(&mut back[..7], 4090).unwrap();
        assert_eq!(back[..3], [0; 3]);
        assert_eq!(back[3..7], data[..4]);
        drop(file);
        stage.end();
    }
}

#[test]
fn the_end_of_the_device_is_the_end_of_the_file() {
    for transport in transports() {
        let stage = Stage::new(memory(), transport);
        let file = stage.open();
        file.write_all_at(&[7; 100], SIZE_BYTES - 100).unwrap();
        let mut back = [0; 4096];
        assert_eq!(file.read_at(&mut back, SIZE_BYTES - 100).unwrap(), 100);
        assert_eq!(back[..100], [7; 100]);
        assert_eq!(file.read_at(&mut back, SIZE_BYTES).unwrap(), 0);
        assert_eq!(file.read_at(&mut back, SIZE_BYTES + 12345).unwrap(), 0);
        let full = Some(Errno::NOSPC.raw_os_error());
        assert_eq!(errno(file.write_at(&[9; 200], SIZE_BYTES - 100)), full);
        assert_eq!(errno(file.write_at(&[9; 1], SIZE_BYTES)), full);
        assert_eq!(file.read_at(&mut back, SIZE_BYTES - 100).unwrap(), 100);
        assert_eq!(back[..100], [7; 100], "a write that crosses the end changes nothing");
        assert_eq!(fs::metadata(&stage.mountpoint).unwrap().len(), SIZE_BYTES);
        drop(file);
        stage.end();
    }
}

#[test]
fn punched_and_zeroed_ranges_read_as_zeros() {
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let zero = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
    for transport in transports() {
        let device = Recorder::new();
        let stage = Stage::new(device.clone(), transport);
        let file = stage.open();
        for (mode, expected) in [
            (punch, Asked::Discard),
            (zero, Asked::WriteZeroes),
            (FallocateFlags::ZERO_RANGE, Asked::WriteZeroes),
        ] {
            for (offset, length) in [(0_usize, 4096_usize), (1, 1), (4095, 8194), (777, 3_000_000)]
            {
                let all = vec![0xa5; 4 << 20];
                file.write_all_at(&all, 0).unwrap();
                device.log.lock().unwrap().clear();
                fallocate(&file, mode, offset as u64, length as u64).unwrap();
                assert_eq!(*device.log.lock().unwrap(), [expected]);
                let mut back = vec![1; all.len()];
                file.read_exact_at(&mut back, 0).unwrap();
                let mut model = all;
                model[offset..offset + length].fill(0);
                assert!(back == model, "{mode:?} {offset} {length}");
            }
        }
        let unsupported = Err(Errno::OPNOTSUPP);
        assert_eq!(fallocate(&file, FallocateFlags::empty(), 0, 4096), unsupported);
        assert_eq!(fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096), unsupported);
        assert_eq!(fallocate(&file, zero, SIZE_BYTES - 1, 2), Err(Errno::NOSPC));
        assert_eq!(fallocate(&file, punch, SIZE_BYTES, 4096), Ok(()));
        assert_eq!(fallocate(&file, punch, 0, 1), Ok(()), "still supported after refusals");
        drop(file);
        stage.end();
    }
}

#[test]
fn a_sync_flushes_a_close_does_not_and_synchronous_writes_are_durable() {
    for transport in transports() {
        let device = Recorder::new();
        let stage = Stage::new(device.clone(), transport);
        let told = || std::mem::take(&mut *device.log.lock().unwrap());
        let file = stage.open();
        file.write_all_at(&[1; 512], 0).unwrap();
        assert_eq!(told(), [Asked::Write(Durability::OnFlush)]);
        file.sync_all().unwrap();
        file.sync_data().unwrap();
        assert_eq!(told(), [Asked::Flush, Asked::Flush]);
        drop(file);
        assert_eq!(told(), []);
        for flag in [libc::O_DSYNC, libc::O_SYNC] {
            let mut durable = OpenOptions::new();
            let file = durable.write(true).custom_flags(flag).open(&stage.mountpoint).unwrap();
            file.write_all_at(&[2; 512], 512).unwrap();
            let log = told();
            assert_eq!(log.first(), Some(&Asked::Write(Durability::Fua)), "{log:?}");
        }
        stage.end();
    }
}

#[test]
fn the_size_and_the_owner_cannot_be_changed() {
    for transport in transports() {
        let stage = Stage::new(memory(), transport);
        let file = stage.open();
        for size in [0, SIZE_BYTES - 1, SIZE_BYTES * 2] {
            assert_eq!(ftruncate(&file, size), Err(Errno::PERM));
        }
        ftruncate(&file, SIZE_BYTES).unwrap();
        let changed = fs::set_permissions(&stage.mountpoint, Permissions::from_mode(0o666));
        assert_eq!(errno(changed), Some(Errno::PERM.raw_os_error()));
        let shortened = OpenOptions::new().write(true).truncate(true).open(&stage.mountpoint);
        assert_eq!(errno(shortened), Some(Errno::PERM.raw_os_error()));
        // What a server does not know, the kernel does itself or refuses, and goes on.
        assert_eq!(seek(&file, SeekFrom::Hole(0)), Ok(SIZE_BYTES));
        assert!(fs::metadata(stage.mountpoint.join("below")).is_err());
        assert_eq!(fs::metadata(&stage.mountpoint).unwrap().len(), SIZE_BYTES);
        drop(file);
        stage.end();
    }
}

#[test]
fn a_device_that_grows_is_seen_to_grow_by_those_who_have_it_open() {
    for transport in transports() {
        let device = Growing::new(1 << 20);
        let stage = Stage::new(device.clone(), transport);
        let file = stage.open();
        assert!(file.write_at(&[1; 512], 1 << 20).is_err());
        device.size_bytes.store(2 << 20, Ordering::SeqCst);
        stage.session().notify_resized().unwrap();
        assert_eq!(file.metadata().unwrap().len(), 2 << 20);
        file.write_all_at(&[1; 512], (2 << 20) - 512).unwrap();
        // Again, and nobody is told: attributes are never kept.
        device.size_bytes.store(3 << 20, Ordering::SeqCst);
        assert_eq!(file.metadata().unwrap().len(), 3 << 20);
        drop(file);
        stage.end();
    }
}
