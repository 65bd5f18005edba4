//! Quiet, size, end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use grampus_blockdev::{DeviceError, Durability, Request};
use grampus_journal::{Config, State};
use grampus_journaled::{QuiesceError, needs_replay};

use crate::random::Random;
use crate::user::{
    CACHE, CONFIG, LAZY, await_status, flush, opened, range, read, submit, write, writing,
};
use crate::world::{Kind, PATIENCE, RING, World};

const SIZE: usize = 64 << 10;
const SHORT: Duration = Duration::from_millis(30);

/// INV-4, with writers that do not stop.
#[test]
fn a_quiesced_image_holds_what_was_answered_and_nothing_else() {
    for config in [CONFIG, CACHE] {
        let roomy = Config { max_held_bytes: 32 << 20, ..config };
        let world = World::new(SIZE, 1);
        let device = Arc::new(opened(&world.take_over(), roomy));
        let (model, over) = (Arc::new(Mutex::new(vec![0; SIZE])), Arc::new(AtomicBool::new(false)));
        let writers: Vec<_> = (0..2)
            .map(|seed| {
                let (device, model, over) =
                    (Arc::clone(&device), Arc::clone(&model), Arc::clone(&over));
                std::thread::spawn(move || {
                    let mut random = Random::new(seed);
                    while !over.load(Ordering::Relaxed) {
                        let at = random.below(SIZE - 2000);
                        let bytes = vec![u8::try_from(random.below(256)).unwrap(); 2000];
                        let mut model = model.lock().unwrap();
                        let pending = write(&*device, at, &bytes);
                        if pending.is_answered() {
                            model[at..at + 2000].copy_from_slice(&bytes);
                            drop(model);
                        } else {
                            // It waits for the end of the quiet; nobody may write meanwhile, or
                            // the order of the two would be unknown.
                            pending.result().unwrap();
                            model[at..at + 2000].copy_from_slice(&bytes);
                        }
                        if random.below(5) == 0 {
                            flush(&*device).result().unwrap();
                        }
                    }
                })
            })
            .collect();
        for round in 0..20 {
            if round % 2 == 0 {
                device.draw_down(4096, SHORT);
            }
            device.quiesce(PATIENCE).unwrap();
            {
                let state = world.lock();
                let image = state.image.clone();
                assert_eq!(image, state.durable, "and it is durable");
                drop(state);
                // A writer that waits holds the model, without its write in it.
                let seen = read(&*device, 0, SIZE);
                assert!(image == seen, "the image lacks what was written");
                assert_eq!(device.status().state, State::Quiesced);
            }
            device.unquiesce();
        }
        over.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.join().unwrap();
        }
        device.close(PATIENCE).unwrap();
        assert_eq!(world.lock().image, *model.lock().unwrap());
        world.end();
    }
}

/// INV-4: what a snapshot takes, while its volume is written to.
#[test]
fn a_held_image_stays_as_it_is_while_writes_are_flushed() {
    for config in [CONFIG, CACHE] {
        let world = World::new(SIZE, 1);
        let device = opened(&world.take_over(), config);
        assert!(!device.hold_image(), "it was not quiet");
        write(&device, 0, &[1; 512]).result().unwrap();
        device.quiesce(PATIENCE).unwrap();
        assert!(device.hold_image());
        let image = world.lock().image.clone();
        assert_eq!(image[..512], [1; 512]);
        for turn in 2..20 {
            write(&device, 0, &[turn; 512]).result().unwrap();
            flush(&device).result().unwrap();
            assert_eq!(read(&device, 0, 512), [turn; 512]);
        }
        assert!(world.lock().image == image, "the image was written to");
        device.release_image();
        device.close(PATIENCE).unwrap();
        assert_eq!(world.lock().image[..512], [19; 512]);
        world.end();
    }
}

#[test]
fn an_image_is_not_held_under_somebody_elses_quiet() {
    let world = World::new(SIZE, 1);
    let device = opened(&world.take_over(), CONFIG);
    device.quiesce(PATIENCE).unwrap();
    device.quiesce(PATIENCE).unwrap();
    assert!(!device.hold_image());
    let waiting = write(&device, 0, &[2; 512]);
    device.unquiesce();
    assert!(!waiting.is_answered());
    device.unquiesce();
    waiting.result().unwrap();
    world.end();
}

#[test]
fn what_was_flushed_while_the_image_was_held_outlives_a_crash() {
    let world = World::new(SIZE, 1);
    let device = opened(&world.take_over(), CONFIG);
    device.quiesce(PATIENCE).unwrap();
    assert!(device.hold_image());
    write(&device, 0, &[7; 512]).result().unwrap();
    flush(&device).result().unwrap();
    let next = opened(&world.take_over(), CONFIG);
    assert_eq!(read(&next, 0, 512), [7; 512]);
    drop(device);
    world.end();
}

#[test]
fn quiet_lasts_until_the_last_one_ends_it() {
    let world = World::new(SIZE, 1);
    let device = opened(&world.take_over(), LAZY);
    device.unquiesce(); // nothing to end
    write(&device, 0, &[1; 512]).result().unwrap();
    device.quiesce(PATIENCE).unwrap();
    assert_eq!(world.lock().image[..512], [1; 512]);
    device.quiesce(PATIENCE).unwrap();
    let waiting = write(&device, 0, &[2; 512]);
    let durable = submit(&device, writing(512, &[3; 512], Durability::Fua));
    flush(&device).result().unwrap();
    assert_eq!(read(&device, 0, 1024), [[1; 512], [0; 512]].concat());
    device.unquiesce();
    assert!(!waiting.is_answered(), "another one still wants quiet");
    assert_eq!(device.parked(), 2);
    device.unquiesce();
    waiting.result().unwrap();
    durable.result().unwrap();
    assert_eq!(read(&device, 0, 1024), [[2; 512], [3; 512]].concat());
    world.end();
}

/// They are not left until they happen to ask again, which is every half second.
#[test]
fn changes_that_waited_for_the_end_of_the_quiet_come_in_at_once() {
    let world = World::new(SIZE, 1);
    let device = opened(&world.take_over(), CONFIG);
    let start = Instant::now();
    for turn in 0..12 {
        device.quiesce(PATIENCE).unwrap();
        let waiting = [write(&device, 0, &[turn; 512]), write(&device, 512, &[turn; 512])];
        device.unquiesce();
        for waiting in waiting {
            waiting.result().unwrap();
        }
    }
    let taken = start.elapsed();
    assert!(taken < Duration::from_secs(3), "{taken:?} for 12 times");
    world.end();
}

#[test]
fn a_quiesce_that_takes_too_long_lets_writes_go_on_but_not_through_anothers_quiet() {
    let world = World::new(SIZE, 1);
    let device = opened(&world.take_over(), CONFIG);
    world.hold(Kind::Change);
    write(&device, 0, &[1; 512]).result().unwrap();
    assert_eq!(device.quiesce(SHORT), Err(QuiesceError::TimedOut { after: SHORT }));
    write(&device, 512, &[2; 512]).result().unwrap();
    flush(&device).result().unwrap();
    std::thread::scope(|scope| {
        let patient = scope.spawn(|| device.quiesce(PATIENCE));
        await_status(&device, "quiescing", |status| status.state == State::Quiescing);
        assert_eq!(device.quiesce(SHORT), Err(QuiesceError::TimedOut { after: SHORT }));
        let waiting = write(&device, 0, &[3; 512]);
        world.release(Kind::Change);
        patient.join().unwrap().unwrap();
        assert!(!waiting.is_answered());
        assert_eq!(world.lock().image[..1024], [[1; 512], [2; 512]].concat());
        device.unquiesce();
        waiting.result().unwrap();
    });
    device.close(PATIENCE).unwrap();
    world.end();
}

#[test]
fn a_volume_is_resized_while_it_is_quiet() {
    let world = World::new(SIZE, 1);
    let device = opened(&world.take_over(), LAZY);
    for (size, mark) in [(2 * SIZE, 1), (SIZE / 2, 2)] {
        device.quiesce(PATIENCE).unwrap();
        let past = write(&device, size, &[9; 512]);
        let last = write(&device, size - 512, &[mark; 512]);
        world.lock().resize(size);
        device.resized(u64::try_from(size).unwrap());
        device.unquiesce();
        assert!(matches!(past.result(), Err(DeviceError::OutOfRange { .. })));
        if size > SIZE {
            // Past the end when it was asked for.
            assert!(matches!(last.result(), Err(DeviceError::OutOfRange { .. })));
            write(&device, size - 512, &[mark; 512]).result().unwrap();
        } else {
            last.result().unwrap();
        }
        assert_eq!(read(&device, size - 512, 512), [mark; 512]);
    }
    device.close(PATIENCE).unwrap();
    world.end();
}

/// Threads hold on to the ports: when they are gone, so are the threads.
#[test]
fn an_end_leaves_no_thread_behind_and_an_empty_journal() {
    let world = World::new(SIZE, 1);
    let idle = Arc::strong_count(&world);
    let port = world.take_over();
    let device = opened(&port, CACHE);
    write(&device, 0, &[1; 512]).result().unwrap();
    device.close(PATIENCE).unwrap();
    assert_eq!(device.close(PATIENCE), Ok(()), "again");
    for request in [write(&device, 0, &[2; 512]), flush(&device)] {
        assert!(matches!(request.result(), Err(DeviceError::Abandoned)));
    }
    assert_eq!(device.quiesce(PATIENCE), Err(QuiesceError::Closed));
    assert!(!needs_replay(&port).unwrap());
    drop(device);
    drop(port);
    assert_eq!(Arc::strong_count(&world), idle);
    assert_eq!(world.lock().image[..512], [1; 512]);
    world.end();
}

#[test]
fn an_end_that_does_not_drain_answers_everyone_and_leaves_no_thread_behind() {
    for close in [true, false] {
        let world = World::new(SIZE, 1);
        let idle = Arc::strong_count(&world);
        let port = world.take_over();
        let device = opened(&port, CONFIG);
        write(&device, 0, &[1; 512]).result().unwrap();
        flush(&device).result().unwrap();
        for kind in [Kind::Append, Kind::Change] {
            world.hold(kind);
        }
        write(&device, 512, &[2; 512]).result().unwrap();
        let flushed = flush(&device);
        drop(world.await_pending(Kind::Append, 1));
        if close {
            assert_eq!(device.close(SHORT), Err(QuiesceError::TimedOut { after: SHORT }));
        }
        drop(device);
        assert!(matches!(flushed.result(), Err(DeviceError::Abandoned)));
        // Answers that come to nobody.
        for kind in [Kind::Append, Kind::Change] {
            world.release(kind);
        }
        drop(world.wait_until("nothing under way", |state| {
            state.pending(Kind::Append) + state.pending(Kind::Change) == 0
        }));
        assert!(needs_replay(&port).unwrap());
        drop(port);
        drop(world.wait_until("no thread", |_| Arc::strong_count(&world) <= idle));
        world.end();
    }
}

/// What nobody asks to be applied stays for overwrites; drawn down, it goes while writes are let in.
#[test]
fn a_device_is_drawn_down_while_it_is_written_to() {
    let world = World::new(SIZE, 1);
    let device = opened(&world.take_over(), LAZY);
    write(&device, 0, &[7; 4096]).result().unwrap();
    flush(&device).result().unwrap();
    assert!(device.status().held_bytes > 0);
    device.draw_down(0, PATIENCE);
    assert_eq!(device.status().held_bytes, 0);
    assert_eq!(world.lock().image[..4096], [7; 4096]);
    submit(&device, Request::Discard { range: range(0, 4096) }).result().unwrap();
    flush(&device).result().unwrap();
    device.draw_down(u64::MAX, PATIENCE);
    assert_eq!(world.lock().image[..4096], [0; 4096], "a discard holds no bytes to speak of");
    write(&device, 0, &[8; 4096]).result().unwrap();
    flush(&device).result().unwrap();
    let start = Instant::now();
    device.close(PATIENCE).unwrap();
    device.draw_down(0, PATIENCE);
    assert!(start.elapsed() < PATIENCE, "there is nobody to wait for");
}

/// What a journal takes of the cluster is given back at the end, and by the next owner after a
/// crash.
#[test]
fn a_closed_journal_has_freed_its_slots_and_a_slow_cluster_is_not_waited_for() {
    let world = World::new(SIZE, 1);
    let device = opened(&world.take_over(), LAZY);
    write(&device, 0, &[1; 512]).result().unwrap();
    flush(&device).result().unwrap();
    assert_eq!(world.lock().freed, [], "it is needed");
    device.close(PATIENCE).unwrap();
    assert_eq!(world.lock().freed, [(0, 1024)]);

    let device = opened(&world.take_over(), LAZY);
    write(&device, 0, &[2; 512]).result().unwrap();
    flush(&device).result().unwrap();
    device.close_undrained();
    world.lock().freed.clear();
    let device = opened(&world.take_over(), LAZY);
    let slots = usize::try_from(RING.segments).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while world.lock().freed.len() < slots {
        assert!(Instant::now() < deadline, "{:?}", world.lock().freed);
        std::thread::yield_now();
    }

    world.hold(Kind::Free);
    write(&device, 0, &[3; 512]).result().unwrap();
    let start = Instant::now();
    device.close(SHORT).unwrap();
    assert!(start.elapsed() < PATIENCE);
    assert_eq!(world.lock().image[..512], [3; 512]);
    world.release(Kind::Free);
    world.end();
}
