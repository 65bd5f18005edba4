//! Requests on an image whose librbd is in memory: data, order, failures, fences.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::indexing_slicing, reason = "tests")]

mod support;

use std::collections::HashSet;
use std::sync::{Arc, Barrier, LazyLock};
use std::thread;

use grampus_blockdev::{
    BlockDevice, BlockSize, DeviceError, Durability, Geometry, MemoryDevice, Request, execute,
};
use proptest::prelude::*;
use support::{Fake, completion, outcomes, range, read, write, write_with};

const FENCED: i64 = -108;

fn errno(error: &DeviceError) -> Option<i32> {
    match error {
        DeviceError::Io { source, .. } => source.raw_os_error(),
        _ => None,
    }
}

#[derive(Debug, Clone)]
enum Step {
    Read(u64, usize),
    Write(u64, usize, u8, Durability),
    Zero(u64, u64, Durability),
    Discard(u64, u64),
    Flush,
}

const MODEL_BYTES: u64 = 3 << 20;

fn step() -> impl Strategy<Value = Step> {
    let durability = || prop_oneof![Just(Durability::OnFlush), Just(Durability::Fua)];
    let at = || 0..MODEL_BYTES + 4096;
    prop_oneof![
        (at(), 0..20_000_usize).prop_map(|(at, length)| Step::Read(at, length)),
        (at(), 0..20_000_usize, any::<u8>(), durability())
            .prop_map(|(at, length, byte, durability)| Step::Write(at, length, byte, durability)),
        (at(), 0..MODEL_BYTES, durability())
            .prop_map(|(at, length, durability)| Step::Zero(at, length, durability)),
        (at(), 0..MODEL_BYTES).prop_map(|(at, length)| Step::Discard(at, length)),
        Just(Step::Flush),
    ]
}

fn request(step: &Step) -> Request {
    match *step {
        Step::Read(at, length) => read(at, length),
        Step::Write(at, length, byte, durability) => {
            write_with(at, &vec![byte; length], durability)
        }
        Step::Zero(at, length, durability) => {
            Request::WriteZeroes { range: range(at, length), durability }
        }
        Step::Discard(at, length) => Request::Discard { range: range(at, length) },
        Step::Flush => Request::Flush,
    }
}

fn check_against_model(fake: &Fake, steps: &[Step]) {
    fake.tell(&format!("size {MODEL_BYTES}"));
    let image = fake.image();
    let model = MemoryDevice::new(Geometry::new(MODEL_BYTES, BlockSize::B4096).unwrap()).unwrap();
    execute(&*image, Request::Discard { range: range(0, MODEL_BYTES) }).result.unwrap();
    for step in steps {
        let (is, should) = (execute(&*image, request(step)), execute(&model, request(step)));
        assert_eq!(is.result.is_ok(), should.result.is_ok(), "{step:?}");
        assert_eq!(is.buffer.is_some(), should.buffer.is_some(), "{step:?}");
        if should.result.is_ok() {
            assert!(is.buffer.as_deref() == should.buffer.as_deref(), "{step:?} differs");
        }
    }
    image.close().unwrap();
    drop(image);
    fake.assert_clean();
}

/// One copy each for all cases of a property: a case begins by zeroing the image.
static WHOLE: LazyLock<Fake> = LazyLock::new(Fake::load);
static OLD: LazyLock<Fake> = LazyLock::new(|| Fake::without(&["rbd_aio_write_zeroes"]).unwrap());

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() })]

    #[test]
    fn an_image_is_a_device(steps in proptest::collection::vec(step(), 1..24)) {
        check_against_model(&WHOLE, &steps);
    }

    #[test]
    fn an_image_is_a_device_where_librbd_cannot_zero(
        steps in proptest::collection::vec(step(), 1..12)
    ) {
        check_against_model(&OLD, &steps);
    }
}

#[test]
fn a_change_with_fua_is_flushed_before_it_completes_and_others_are_not() {
    let fake = Fake::load();
    let image = fake.image();
    execute(&*image, write(0, b"loose")).result.unwrap();
    assert_eq!(fake.count("rbd_aio_flush"), 0);
    execute(&*image, write_with(0, b"tight", Durability::Fua)).result.unwrap();
    assert_eq!(fake.count("rbd_aio_flush"), 1);
    let zeros = Request::WriteZeroes { range: range(0, 5), durability: Durability::Fua };
    execute(&*image, zeros).result.unwrap();
    assert_eq!(fake.count("rbd_aio_flush"), 2);
    drop(image);
    fake.assert_clean();
}

#[test]
fn zeros_keep_their_space_and_a_discard_does_not() {
    let fake = Fake::load();
    let image = fake.image();
    let zeros = Request::WriteZeroes { range: range(1, 5), durability: Durability::OnFlush };
    execute(&*image, zeros).result.unwrap();
    assert_eq!((fake.count("zero-flags-1"), fake.count("zero-flags-0")), (1, 0));
    execute(&*image, Request::Discard { range: range(1, 5) }).result.unwrap();
    assert_eq!((fake.count("zero-flags-1"), fake.count("zero-flags-0")), (1, 1));
    drop(image);
    fake.assert_clean();
}

#[test]
fn a_long_range_of_zeros_goes_in_pieces_and_a_failed_piece_ends_it() {
    const GIB: u64 = 1 << 30;
    let fake = Fake::load();
    fake.tell(&format!("size {}", 8 * GIB));
    let image = fake.image();
    execute(&*image, write(3 * GIB, b"in the middle")).result.unwrap();
    execute(&*image, Request::Discard { range: range(7, 4 * GIB) }).result.unwrap();
    assert_eq!(fake.count("rbd_aio_write_zeroes"), 5);
    let middle = execute(&*image, read(3 * GIB, 13)).buffer.unwrap();
    assert_eq!(&*middle, [0; 13]);

    fake.tell("fail rbd_aio_write_zeroes -28");
    let outcome = execute(&*image, Request::Discard { range: range(0, 4 * GIB) });
    assert_eq!(errno(&outcome.result.unwrap_err()), Some(28));
    assert_eq!(fake.count("rbd_aio_write_zeroes"), 6);
    drop(image);
    fake.assert_clean();
}

#[test]
fn every_failure_gives_the_buffer_back_and_leaves_the_device_usable() {
    let fake = Fake::load();
    let image = fake.image();
    for (function, answer, request, expected) in [
        ("rbd_aio_read", -5, read(0, 9), 5),
        ("rbd_aio_read", 12, read(0, 9), 12),
        ("rbd_aio_write", -28, write(0, b"nine byte"), 28),
        ("rbd_aio_write", 22, write(0, b"nine byte"), 22),
        // The lock was never taken explicitly: this says that the image is read-only.
        ("rbd_aio_write", -30, write(0, b"nine byte"), 30),
        ("rbd_aio_create_completion", -12, write(0, b"nine byte"), 12),
    ] {
        fake.tell(&format!("fail {function} {answer}"));
        let outcome = execute(&*image, request);
        assert_eq!(errno(&outcome.result.unwrap_err()), Some(expected), "{function} {answer}");
        assert_eq!(outcome.buffer.unwrap().len(), 9);
    }
    execute(&*image, write(0, b"still here")).result.unwrap();
    assert_eq!(&*execute(&*image, read(0, 10)).buffer.unwrap(), b"still here");
    drop(image);
    fake.assert_clean();
}

#[test]
fn a_read_that_is_cut_short_fails() {
    let fake = Fake::load();
    let image = fake.image();
    fake.tell("fail rbd_aio_read -0");
    // A zero is no failure of the call, but no byte was read either.
    let outcome = execute(&*image, read(0, 512));
    assert!(matches!(outcome.result, Err(DeviceError::Io { action: "read", .. })));
    drop(image);
    fake.assert_clean();
}

#[test]
fn nothing_past_the_end_reaches_librbd() {
    // INV-8
    let fake = Fake::load();
    let image = fake.image();
    let end = image.size_bytes();
    for request in [
        read(end, 1),
        read(end - 1, 2),
        write(end - 1, b"ab"),
        Request::Discard { range: range(end - 1, 2) },
        Request::WriteZeroes { range: range(0, end + 1), durability: Durability::Fua },
    ] {
        let outcome = execute(&*image, request);
        assert!(matches!(outcome.result, Err(DeviceError::OutOfRange { .. })), "{outcome:?}");
    }
    execute(&*image, read(end, 0)).result.unwrap();
    let functions = ["rbd_aio_read", "rbd_aio_write", "rbd_aio_write_zeroes", "rbd_aio_flush"];
    assert_eq!(functions.map(|function| fake.count(function)), [0; 4]);
    drop(image);
    fake.assert_clean();
}

#[test]
fn without_a_cache_a_flush_waits_for_nothing_and_fua_is_a_write() {
    let fake = Fake::load();
    let image = fake.image_without_cache();
    let fua = write_with(0, &[1; 512], Durability::Fua);
    execute(&*image, fua).result.unwrap();
    fake.tell("hold");
    let (sink, answers) = outcomes();
    image.submit(write(4096, &[2; 512]), completion(&sink, 1));
    // Not covered by the flush, since it has not completed; librbd's own would wait for it.
    execute(&*image, Request::Flush).result.unwrap();
    assert!(answers.try_recv().is_err());
    fake.tell("release");
    assert!(answers.recv().unwrap().1.result.is_ok());
    assert_eq!(fake.count("rbd_aio_flush"), 0);

    fake.tell("blocklist");
    assert!(execute(&*image, write(0, &[3; 512])).result.is_err());
    assert!(matches!(execute(&*image, Request::Flush).result, Err(DeviceError::Fenced)));
    drop(answers);
    drop(image);
    fake.assert_clean();
}

#[test]
fn a_library_that_cannot_tell_of_its_cache_is_asked_to_flush() {
    for symbol in ["rbd_config_image_list", "rbd_get_features"] {
        let fake = Fake::without(&[symbol]).unwrap();
        let image = fake.image_without_cache();
        execute(&*image, Request::Flush).result.unwrap();
        assert_eq!(fake.count("rbd_aio_flush"), 1, "{symbol}");
        drop(image);
        fake.assert_clean();
    }
}

#[test]
fn after_a_failed_flush_nothing_is_called_durable() {
    // INV-6, by a flush and by the flush behind a FUA write
    for request in [Request::Flush, write_with(0, b"tight", Durability::Fua)] {
        let fake = Fake::load();
        let image = fake.image();
        fake.tell("fail rbd_aio_flush -5");
        let outcome = execute(&*image, request);
        assert_eq!(errno(&outcome.result.unwrap_err()), Some(5));
        for request in [Request::Flush, read(0, 1), write(0, b"x")] {
            let outcome = execute(&*image, request);
            assert!(matches!(outcome.result, Err(DeviceError::Failed)), "{outcome:?}");
        }
        assert!(!image.is_fenced());
        drop(image);
        fake.assert_clean();
    }
}

#[test]
fn a_flush_that_overlaps_a_failed_one_proves_nothing() {
    let fake = Fake::load();
    let image = fake.image();
    let (sink, receiver) = outcomes();
    fake.tell("hold");
    fake.tell("fail rbd_aio_flush -5");
    for token in [1, 2] {
        image.submit(Request::Flush, completion(&sink, token));
    }
    assert_eq!(image.in_flight(), 2);
    fake.tell("release");
    let results = [receiver.recv().unwrap().1.result, receiver.recv().unwrap().1.result];
    assert_eq!(errno(results[0].as_ref().unwrap_err()), Some(5));
    assert!(matches!(results[1], Err(DeviceError::Failed)), "{results:?}");
    drop(image);
    fake.assert_clean();
}

#[test]
fn once_fenced_every_request_fails_at_once() {
    for function in ["rbd_aio_read", "rbd_aio_write", "rbd_aio_flush"] {
        let fake = Fake::load();
        let image = fake.image();
        fake.tell(&format!("fail {function} {FENCED}"));
        let request = match function {
            "rbd_aio_read" => read(0, 9),
            "rbd_aio_write" => write(0, b"nine byte"),
            _ => Request::Flush,
        };
        let outcome = execute(&*image, request);
        assert!(matches!(outcome.result, Err(DeviceError::Fenced)), "{function}: {outcome:?}");
        assert!(image.is_fenced());
        // Held: only what never reaches librbd is answered.
        fake.tell("hold");
        for request in [Request::Flush, read(0, 1), write(0, b"x")] {
            let has_buffer = request.range().is_some();
            let outcome = execute(&*image, request);
            assert!(matches!(outcome.result, Err(DeviceError::Fenced)), "{outcome:?}");
            assert_eq!(outcome.buffer.is_some(), has_buffer);
        }
        // Nor is there a flush at the end.
        image.close().unwrap();
        assert_eq!(fake.count("rbd_flush"), 0);
        drop(image);
        fake.assert_clean();
    }
}

#[test]
fn a_lost_lock_is_a_fence() {
    let fake = Fake::load();
    let image = fake.image();
    image.acquire_lock().unwrap();
    fake.tell("owner 10.0.0.9:0/77");
    let outcome = execute(&*image, write(0, b"too late"));
    assert!(matches!(outcome.result, Err(DeviceError::Fenced)), "{outcome:?}");
    assert!(image.is_fenced());
    drop(image);
    fake.assert_clean();
}

#[test]
fn many_threads_at_once_get_each_answer_once() {
    const THREADS: u64 = 4;
    const EACH: u64 = 300;
    let fake = Fake::load();
    let image = fake.image();
    let (sink, receiver) = outcomes();
    let together = Barrier::new(usize::try_from(THREADS).unwrap());
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (image, sink, together) = (&image, &sink, &together);
            scope.spawn(move || {
                together.wait();
                for number in 0..EACH {
                    let token = thread * EACH + number;
                    let request = match number % 4 {
                        0 => read(token * 512, 512),
                        1 => write_with(token * 512, &[7; 512], Durability::Fua),
                        2 => Request::Discard { range: range(token * 512, 512) },
                        _ => Request::Flush,
                    };
                    image.submit(request, completion(sink, token));
                }
            });
        }
    });
    // Closing waits for all of them.
    image.close().unwrap();
    assert_eq!(image.in_flight(), 0);
    let tokens: HashSet<u64> = receiver
        .try_iter()
        .map(|(token, outcome)| {
            outcome.result.unwrap();
            token.0
        })
        .collect();
    assert_eq!(tokens.len(), usize::try_from(THREADS * EACH).unwrap());
    assert_eq!(Arc::strong_count(&image), 1);
    drop(image);
    fake.assert_clean();
}
