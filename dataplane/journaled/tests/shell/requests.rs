//! One request after the other: where its bytes come from and go, and on whose thread.

use grampus_blockdev::{BlockDevice, Buffer, DeviceError, Durability, MAX_DEVICE_BYTES, Request};

use crate::user::{
    CACHE, CONFIG, LAZY, flush, offset, opened, range, read, reading, submit, write, writing,
};
use crate::world::{Kind, PATIENCE, World};

const SIZE: usize = 64 << 10;

#[test]
fn a_write_is_done_in_memory_and_a_flush_when_the_journal_has_it() {
    let world = World::new(SIZE, 1);
    world.hold(Kind::Append);
    let device = opened(&world.take_over(), LAZY);
    write(&device, 100, b"hello").result().unwrap();
    assert_eq!(read(&device, 99, 7), b"\0hello\0");
    let flushed = flush(&device);
    drop(world.await_pending(Kind::Append, 1));
    assert!(!flushed.is_answered());
    world.step(Kind::Append);
    flushed.result().unwrap();
    flush(&device).result().unwrap();
    assert_eq!(world.lock().pending(Kind::Append), 0, "nothing to flush needs no append");
    assert!(world.lock().image.iter().all(|byte| *byte == 0), "nothing was to be applied yet");
    world.end();
}

/// A commit of one thread waits for no other thread of ours: the append leaves on its own.
#[test]
fn the_append_of_a_lone_flush_leaves_from_the_thread_that_asked() {
    let world = World::new(SIZE, 1);
    let device = opened(&world.take_over(), LAZY);
    let own = std::thread::current().name().unwrap().to_owned();
    for turn in 0..20 {
        write(&device, 512 * turn, &[1; 512]).result().unwrap();
        flush(&device).result().unwrap();
    }
    let fua = submit(&device, writing(0, &[2; 512], Durability::Fua));
    fua.result().unwrap();
    assert_eq!(world.lock().senders, vec![own; 21]);
    world.end();
}

/// Flushes that come while appends are under way share the next one.
#[test]
fn flushes_gather_while_appends_are_under_way() {
    let world = World::new(SIZE, 1);
    world.hold(Kind::Append);
    let device = opened(&world.take_over(), LAZY);
    let mut flushes = Vec::new();
    for turn in 0..40 {
        write(&device, 512 * turn, &[1; 512]).result().unwrap();
        flushes.push(flush(&device));
    }
    assert_eq!(world.await_pending(Kind::Append, LAZY.max_appends).pending(Kind::Append), 4);
    world.release(Kind::Append);
    for flush in flushes {
        flush.result().unwrap();
    }
    assert!(world.lock().appends <= 6, "{} appends for 40 flushes", world.lock().appends);
    world.end();
}

#[test]
fn what_is_not_held_is_read_by_the_image_into_the_very_buffer() {
    let world = World::new(SIZE, 1);
    world.lock().image[5000] = 9;
    let device = opened(&world.take_over(), LAZY);
    let buffer = Buffer::zeroed(4096).unwrap();
    let address = buffer.as_ptr();
    let outcome = submit(&device, Request::Read { offset: offset(4096), buffer }).outcome();
    let buffer = outcome.buffer.unwrap();
    assert_eq!((buffer.as_ptr(), buffer[904]), (address, 9));
    assert_eq!(world.lock().image_reads, 1);
    world.end();
}

#[test]
fn a_read_of_several_sources_asks_the_image_once_and_sees_the_newest() {
    let world = World::new(SIZE, 1);
    world.lock().image.fill(1);
    let device = opened(&world.take_over(), LAZY);
    write(&device, 1000, &[2; 100]).result().unwrap();
    flush(&device).result().unwrap();
    write(&device, 1050, &[3; 100]).result().unwrap();
    let zeroes = Request::WriteZeroes { range: range(3000, 10), durability: Durability::OnFlush };
    submit(&device, zeroes).result().unwrap();
    submit(&device, Request::Discard { range: range(3990, 200) }).result().unwrap();
    let mut expected = vec![1; 4096];
    expected[1000..1050].fill(2);
    expected[1050..1150].fill(3);
    expected[3000..3010].fill(0);
    expected[3990..].fill(0);
    world.hold(Kind::Read);
    let pending = reading(&device, 0, 4096);
    // What comes later is newer than the read, wherever it is by then.
    write(&device, 1000, &[4; 200]).result().unwrap();
    world.step(Kind::Read);
    let buffer = pending.outcome().buffer.unwrap();
    assert_eq!(buffer.to_vec(), expected);
    assert_eq!(world.lock().image_reads, 1);
    assert_eq!(read(&device, 1000, 200), [4; 200], "wholly from memory");
    assert_eq!(read(&device, 3000, 10), [0; 10]);
    assert_eq!(world.lock().image_reads, 1);
    world.end();
}

/// Bytes on their way into the image are still held: a read needs neither the old nor the half.
#[test]
fn a_read_while_the_same_bytes_are_applied_sees_them() {
    let world = World::new(SIZE, 1);
    world.hold(Kind::Change);
    let device = opened(&world.take_over(), CONFIG);
    write(&device, 0, &[5; 8192]).result().unwrap();
    flush(&device).result().unwrap();
    drop(world.await_pending(Kind::Change, 1));
    assert_eq!(read(&device, 4000, 8192)[..4192], [5; 4192]);
    write(&device, 0, &[6; 100]).result().unwrap();
    world.step(Kind::Change);
    assert_eq!(read(&device, 0, 200), [[6; 100], [5; 100]].concat());
    world.release(Kind::Change);
    device.close(PATIENCE).unwrap();
    assert_eq!(world.lock().image[..8292], [vec![6; 100], vec![5; 8092], vec![0; 100]].concat());
    world.end();
}

#[test]
fn reads_and_flushes_go_on_while_the_image_takes_no_changes() {
    let world = World::new(SIZE, 1);
    world.hold(Kind::Change);
    let device = opened(&world.take_over(), CONFIG);
    for turn in 0..16 {
        write(&device, 1024 * turn, &[7; 512]).result().unwrap();
        flush(&device).result().unwrap();
        assert_eq!(read(&device, 1024 * turn, 1024), [[7; 512], [0; 512]].concat());
    }
    drop(world.await_pending(Kind::Change, 1));
    flush(&device).result().unwrap();
    world.release(Kind::Change);
    device.close(PATIENCE).unwrap();
    world.end();
}

#[test]
fn a_long_write_is_cut_and_answered_once_with_its_buffer() {
    for config in [CONFIG, CACHE] {
        let world = World::new(SIZE, 1);
        let device = opened(&world.take_over(), config);
        let bytes: Vec<u8> = (0..50_001_u32).map(|index| index.to_le_bytes()[1]).collect();
        for durability in [Durability::OnFlush, Durability::Fua] {
            let outcome = submit(&device, writing(777, &bytes, durability)).outcome();
            outcome.result.unwrap();
            assert_eq!(outcome.buffer.unwrap().to_vec(), bytes);
            assert_eq!(read(&device, 777, bytes.len()), bytes);
        }
        device.close(PATIENCE).unwrap();
        assert_eq!(world.lock().image[777..777 + bytes.len()], bytes);
        world.end();
    }
}

#[test]
fn ends_hold_and_empty_requests_are_done() {
    let world = World::new(SIZE, 1);
    let device = opened(&world.take_over(), LAZY);
    let limit = usize::try_from(MAX_DEVICE_BYTES).unwrap();
    for (at, length, fits) in [
        (SIZE - 1, 2, false),
        (SIZE, 1, false),
        (SIZE + 1, 0, false),
        (0, SIZE + 1, false),
        (limit, 1, false),
        (SIZE, 0, true),
        (0, 0, true),
        (SIZE - 1, 1, true),
        (SIZE - 513, 513, true),
    ] {
        let bytes = vec![1; length];
        let buffer = Buffer::try_from(bytes.clone()).unwrap();
        for request in [
            writing(at, &bytes, Durability::Fua),
            Request::Read { offset: offset(at), buffer },
            Request::WriteZeroes { range: range(at, length), durability: Durability::Fua },
            Request::Discard { range: range(at, length) },
        ] {
            let case = format!("{length} at {at}: {request:.40?}");
            let carries = matches!(request, Request::Read { .. } | Request::Write { .. });
            let outcome = submit(&device, request).outcome();
            match outcome.result {
                Ok(()) => assert!(fits, "{case}"),
                Err(DeviceError::OutOfRange { .. }) => assert!(!fits, "{case}"),
                Err(error) => panic!("{case}: {error}"),
            }
            assert_eq!(outcome.buffer.is_some(), carries, "{case}");
        }
    }
    let long = Request::Discard { range: range(0, limit) };
    assert!(matches!(submit(&device, long).result(), Err(DeviceError::OutOfRange { .. })));
    assert_eq!(device.geometry().size_bytes(), u64::try_from(SIZE).unwrap());
    world.end();
}

#[test]
fn a_failed_read_of_the_image_fails_the_read_and_nothing_else() {
    let world = World::new(SIZE, 1);
    let device = opened(&world.take_over(), LAZY);
    write(&device, 0, &[1; 512]).result().unwrap();
    world.lock().faults.read = Some(grampus_journal::Failure::Io);
    for (at, length) in [(4096, 512), (0, 1024)] {
        let outcome = reading(&device, at, length).outcome();
        assert!(matches!(outcome.result, Err(DeviceError::Io { .. })));
        assert_eq!(outcome.buffer.unwrap().len(), length);
    }
    assert_eq!(read(&device, 0, 512), [1; 512]);
    flush(&device).result().unwrap();
    world.end();
}
