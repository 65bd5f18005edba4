//! Random requests at all alignments against a model, a vector of bytes (INV-7, INV-8).
//!
//! The seed is fixed, so a run can be repeated, and printed with a failure;
//! `GRAMPUS_TEST_SEED=NUMBER` explores elsewhere and `PROPTEST_CASES=NUMBER` further.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail loudly"
)]

use std::fs::File;
use std::sync::Arc;
use std::thread;

use grampus_blockdev::{
    BlockDevice, BlockSize, Buffer, ByteRange, DeviceError, Durability, FileDevice, Geometry,
    Length, MemoryDevice, Offset, Request, execute,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use rustix::fs::{MemfdFlags, memfd_create};

const SIZE_BYTES: usize = 96 * 512;
const DEFAULT_SEED: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Debug, Clone)]
enum Op {
    Read { at: usize, count: usize },
    Write { at: usize, count: usize, fill: u8, fua: bool },
    WriteZeroes { at: usize, count: usize, fua: bool },
    Discard { at: usize, count: usize },
    Flush,
}

/// Anywhere, on a block's edge, next to one, and around the end of the device.
fn place() -> impl Strategy<Value = usize> {
    prop_oneof![
        0..SIZE_BYTES,
        (0..=96_usize).prop_map(|block| block * 512),
        (1..=12_usize, 0..3_usize).prop_map(|(page, shift)| page * 4096 + shift - 1),
        SIZE_BYTES - 20..SIZE_BYTES + 20,
    ]
}

/// Nothing, a few bytes, whole blocks and pages, and most of the device.
fn count() -> impl Strategy<Value = usize> {
    prop_oneof![
        0..20_usize,
        (1..=16_usize).prop_map(|blocks| blocks * 512),
        500..9000_usize,
        0..=SIZE_BYTES,
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (place(), count()).prop_map(|(at, count)| Op::Read { at, count }),
        4 => (place(), count(), 1..=u8::MAX, any::<bool>())
            .prop_map(|(at, count, fill, fua)| Op::Write { at, count, fill, fua }),
        2 => (place(), count(), any::<bool>())
            .prop_map(|(at, count, fua)| Op::WriteZeroes { at, count, fua }),
        2 => (place(), count()).prop_map(|(at, count)| Op::Discard { at, count }),
        1 => Just(Op::Flush),
    ]
}

/// Bytes of which no two neighbours are alike, so that a shift by one shows.
fn pattern(count: usize, fill: u8) -> Vec<u8> {
    (0_u8..=250).cycle().map(|step| step.wrapping_add(fill)).take(count).collect()
}

fn range(at: usize, count: usize) -> ByteRange {
    ByteRange {
        offset: offset(at),
        length: Length::new(u64::try_from(count).expect("small")).expect("small"),
    }
}

fn offset(at: usize) -> Offset {
    Offset::new(u64::try_from(at).expect("small")).expect("small")
}

fn durability(fua: bool) -> Durability {
    if fua { Durability::Fua } else { Durability::OnFlush }
}

fn request(op: &Op) -> Request {
    match *op {
        Op::Read { at, count } => Request::Read {
            offset: offset(at),
            // Not zeros, so that a read that fills nothing shows.
            buffer: vec![0xEE; count].try_into().expect("small"),
        },
        Op::Write { at, count, fill, fua } => Request::Write {
            offset: offset(at),
            buffer: pattern(count, fill).try_into().expect("small"),
            durability: durability(fua),
        },
        Op::WriteZeroes { at, count, fua } => {
            Request::WriteZeroes { range: range(at, count), durability: durability(fua) }
        }
        Op::Discard { at, count } => Request::Discard { range: range(at, count) },
        Op::Flush => Request::Flush,
    }
}

/// What a read returns, or None for an operation past the end, which changes nothing.
fn apply_to_model(model: &mut [u8], op: &Op) -> Option<Vec<u8>> {
    let window = |at: usize, count: usize| at..at + count;
    match *op {
        Op::Read { at, count } => model.get(window(at, count)).map(<[u8]>::to_vec),
        Op::Write { at, count, fill, .. } => model.get_mut(window(at, count)).map(|bytes| {
            bytes.copy_from_slice(&pattern(count, fill));
            bytes.to_vec()
        }),
        Op::WriteZeroes { at, count, .. } | Op::Discard { at, count } => {
            model.get_mut(window(at, count)).map(|bytes| {
                bytes.fill(0);
                Vec::new()
            })
        }
        Op::Flush => Some(Vec::new()),
    }
}

fn behaves_like_the_model(device: &dyn BlockDevice, ops: &[Op]) -> Result<(), TestCaseError> {
    let mut model = vec![0; SIZE_BYTES];
    for op in ops {
        let expected = apply_to_model(&mut model, op);
        let outcome = execute(device, request(op));
        match (outcome.result, expected) {
            (Ok(()), Some(bytes)) => {
                prop_assert_eq!(outcome.buffer.as_deref().unwrap_or_default(), &bytes[..]);
            }
            (Err(DeviceError::OutOfRange { .. }), None) => {}
            (result, expected) => {
                prop_assert!(false, "{op:?}: {result:?}, in range: {}", expected.is_some());
            }
        }
    }
    let whole = execute(device, request(&Op::Read { at: 0, count: SIZE_BYTES }));
    prop_assert!(whole.result.is_ok());
    prop_assert!(whole.buffer.as_deref() == Some(&model[..]), "the device differs at the end");
    Ok(())
}

fn check(test: impl Fn(&[Op]) -> Result<(), TestCaseError>) {
    let seed = std::env::var("GRAMPUS_TEST_SEED")
        .map_or(DEFAULT_SEED, |text| text.parse().expect("GRAMPUS_TEST_SEED is a number"));
    let config = Config {
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None, // the seed says it all
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&vec(op(), 1..40), |ops| test(&ops));
    if let Err(error) = outcome {
        panic!("GRAMPUS_TEST_SEED={seed} shows it again: {error}");
    }
}

fn geometry() -> Geometry {
    Geometry::new(u64::try_from(SIZE_BYTES).expect("small"), BlockSize::B512).expect("valid")
}

fn blank(file: File) -> File {
    file.set_len(geometry().size_bytes()).expect("room for the file");
    file
}

fn check_file(new_file: impl Fn() -> File) {
    check(|ops| {
        let file = blank(new_file());
        let same_file = file.try_clone().expect("a second descriptor");
        let device = FileDevice::over(file, BlockSize::B512).expect("a device");
        behaves_like_the_model(&device, ops)?;
        prop_assert_eq!(same_file.metadata().expect("metadata").len(), geometry().size_bytes());
        Ok(())
    });
}

#[test]
fn memory_device() {
    check(|ops| {
        behaves_like_the_model(&MemoryDevice::new(geometry()).expect("a small device"), ops)
    });
}

/// On the file system of the temporary directory, which most likely zeroes ranges itself.
#[test]
fn file_device_on_disk() {
    check_file(|| tempfile::tempfile().expect("a temporary file"));
}

/// On tmpfs, which punches holes but cannot zero a range: the zeros are written.
#[test]
fn file_device_on_tmpfs() {
    check_file(|| File::from(memfd_create("blockdev", MemfdFlags::CLOEXEC).expect("a memfd")));
}

/// Requests of several threads at once, on neighbouring ranges that share blocks and pages.
#[test]
fn neighbours_written_at_once_keep_their_bytes() {
    let file = blank(tempfile::tempfile().expect("a temporary file"));
    let memory: Arc<dyn BlockDevice> =
        Arc::new(MemoryDevice::new(geometry()).expect("a small device"));
    let on_disk: Arc<dyn BlockDevice> =
        Arc::new(FileDevice::over(file, BlockSize::B512).expect("a device"));
    for device in [memory, on_disk] {
        thread::scope(|scope| {
            for writer in 0..4_u8 {
                let device = &device;
                scope.spawn(move || {
                    for stripe in 0..64_usize {
                        let at = (stripe * 4 + usize::from(writer)) * 101;
                        let op = Op::Write { at, count: 101, fill: writer + 1, fua: stripe == 9 };
                        execute(&**device, request(&op)).result.expect("in range");
                    }
                });
            }
        });
        let read = execute(&*device, request(&Op::Read { at: 0, count: 256 * 101 }));
        let bytes: Buffer = read.buffer.expect("given back");
        for (stripe, stripe_bytes) in bytes.chunks(101).enumerate() {
            let writer = u8::try_from(stripe % 4).expect("small");
            assert_eq!(stripe_bytes, pattern(101, writer + 1), "stripe {stripe}");
        }
    }
}
