//! A file that does less than asked for, fails, or is changed underneath (INV-6, INV-7).

#![allow(clippy::expect_used, clippy::panic, reason = "a test may fail loudly")]

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use grampus_blockdev::{
    BlockDevice, BlockSize, ByteRange, DeviceError, Durability, FileDevice, Length, Offset,
    OpenError, PositionedFile, Request, execute,
};
use rustix::io::Errno;

const SIZE_BYTES: u64 = 1 << 20;

/// A real file whose every other call is interrupted, which moves at most seven pages at a
/// time, and which fails as it is told to.
struct UnwillingFile {
    file: File,
    calls: AtomicU32,
    log: Mutex<Vec<&'static str>>,
    fallocate_answers: Errno,
    sync_fails_once: AtomicBool,
}

/// Shared with the test, which looks at it while the device uses it.
#[derive(Clone)]
struct Shared(Arc<UnwillingFile>);

impl Shared {
    fn new(fallocate_answers: Errno) -> Self {
        let file = tempfile::tempfile().expect("a temporary file");
        file.set_len(SIZE_BYTES).expect("room");
        Self(Arc::new(UnwillingFile {
            file,
            calls: AtomicU32::new(0),
            log: Mutex::default(),
            fallocate_answers,
            sync_fails_once: AtomicBool::new(false),
        }))
    }

    fn device(&self) -> FileDevice<Self> {
        FileDevice::over(self.clone(), BlockSize::B4096).expect("a device")
    }

    fn begin(&self, call: &'static str) -> io::Result<()> {
        if self.0.calls.fetch_add(1, Ordering::Relaxed) % 2 == 0 {
            return Err(ErrorKind::Interrupted.into());
        }
        let mut log = self.0.log.lock().expect("no test thread panicked");
        if log.last() != Some(&call) {
            log.push(call);
        }
        Ok(())
    }

    fn calls_made(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.0.log.lock().expect("no test thread panicked"))
    }
}

impl PositionedFile for Shared {
    fn length_bytes(&self) -> io::Result<u64> {
        self.0.file.length_bytes()
    }

    fn read_at(&self, into: &mut [u8], offset_bytes: u64) -> io::Result<usize> {
        self.begin("read")?;
        let count = into.len().min(7 * 4096);
        PositionedFile::read_at(&self.0.file, into.split_at_mut(count).0, offset_bytes)
    }

    fn write_at(&self, from: &[u8], offset_bytes: u64) -> io::Result<usize> {
        self.begin("write")?;
        let count = from.len().min(7 * 4096);
        PositionedFile::write_at(&self.0.file, from.split_at(count).0, offset_bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.log.lock().expect("no test thread panicked").push("sync");
        if self.0.sync_fails_once.swap(false, Ordering::Relaxed) {
            return Err(Errno::IO.into());
        }
        Ok(())
    }

    fn zero_range(&self, _offset_bytes: u64, _length_bytes: u64) -> io::Result<()> {
        self.begin("zero")?;
        Err(self.0.fallocate_answers.into())
    }

    fn punch_hole(&self, _offset_bytes: u64, _length_bytes: u64) -> io::Result<()> {
        self.begin("punch")?;
        Err(self.0.fallocate_answers.into())
    }
}

fn offset(bytes: u64) -> Offset {
    Offset::new(bytes).expect("small")
}

fn range(offset_bytes: u64, length_bytes: u64) -> ByteRange {
    ByteRange { offset: offset(offset_bytes), length: Length::new(length_bytes).expect("small") }
}

fn write(bytes: Vec<u8>, offset_bytes: u64, durability: Durability) -> Request {
    let buffer = bytes.try_into().expect("small");
    Request::Write { offset: offset(offset_bytes), buffer, durability }
}

fn read(device: &dyn BlockDevice, count: usize, offset_bytes: u64) -> Result<Vec<u8>, DeviceError> {
    let buffer = vec![0xEE; count].try_into().expect("small");
    let outcome = execute(device, Request::Read { offset: offset(offset_bytes), buffer });
    outcome.result.map(|()| outcome.buffer.expect("given back").to_vec())
}

#[test]
fn short_and_interrupted_transfers_are_carried_on() {
    let device = Shared::new(Errno::OPNOTSUPP).device();
    let bytes: Vec<u8> = (0..=250).cycle().take(300_001).collect();
    execute(&device, write(bytes.clone(), 77, Durability::Fua)).result.expect("written");
    assert_eq!(read(&device, bytes.len(), 77).expect("read"), bytes);
}

#[test]
fn zeros_are_written_where_the_file_system_cannot_make_them() {
    for unsupported in [Errno::OPNOTSUPP, Errno::NOSYS] {
        for make_request in [
            |range| Request::WriteZeroes { range, durability: Durability::OnFlush },
            |range| Request::Discard { range },
        ] {
            let device = Shared::new(unsupported).device();
            execute(&device, write(vec![1; 400_000], 0, Durability::OnFlush))
                .result
                .expect("written");
            execute(&device, make_request(range(3, 300_000))).result.expect("zeroed");
            let after = read(&device, 400_000, 0).expect("read");
            let expected = [vec![1; 3], vec![0; 300_000], vec![1; 99_997]].concat();
            assert!(after == expected, "{unsupported}");
        }
    }
}

#[test]
fn another_failure_to_make_zeros_is_reported_with_its_cause() {
    let device = Shared::new(Errno::NOSPC).device();
    match execute(&device, Request::Discard { range: range(0, 4096) }).result {
        Err(DeviceError::Io { action: "punch a hole", source }) => {
            assert_eq!(source.kind(), ErrorKind::StorageFull);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_a_flush_and_fua_sync_and_only_after_the_write() {
    let fua = Durability::Fua;
    let on_flush = Durability::OnFlush;
    for (request, calls) in [
        (write(vec![1; 9], 0, on_flush), &["write"][..]),
        (write(vec![1; 9], 0, fua), &["write", "sync"]),
        (Request::WriteZeroes { range: range(0, 9), durability: on_flush }, &["zero", "write"]),
        (Request::WriteZeroes { range: range(0, 9), durability: fua }, &["zero", "write", "sync"]),
        (Request::Discard { range: range(0, 9) }, &["punch", "write"]),
        (Request::Flush, &["sync"]),
    ] {
        let file = Shared::new(Errno::OPNOTSUPP);
        let case = format!("{request:?}");
        execute(&file.device(), request).result.expect("done");
        assert_eq!(file.calls_made(), calls, "{case}");
    }
}

#[test]
fn without_syncs_a_flush_and_fua_never_sync_but_still_see_lost_data() {
    let file = Shared::new(Errno::OPNOTSUPP);
    let device = file.device().without_syncs();
    for request in [write(vec![1; 9], 0, Durability::Fua), Request::Flush] {
        execute(&device, request).result.expect("done");
    }
    assert_eq!(file.calls_made(), ["write"]);
    file.0.file.set_len(4096).expect("truncated");
    let result = execute(&device, Request::Flush).result;
    assert!(matches!(result, Err(DeviceError::Truncated { .. })), "{result:?}");
}

#[test]
fn after_a_failed_flush_nothing_is_reported_durable_again() {
    for first in [Request::Flush, write(vec![1; 9], 0, Durability::Fua)] {
        let file = Shared::new(Errno::OPNOTSUPP);
        let device = file.device();
        file.0.sync_fails_once.store(true, Ordering::Relaxed);
        let failure = execute(&device, first).result;
        assert!(matches!(failure, Err(DeviceError::Io { action: "flush", .. })), "{failure:?}");
        for request in [
            Request::Flush,
            write(vec![1; 9], 0, Durability::Fua),
            write(vec![1; 9], 0, Durability::OnFlush),
            Request::Discard { range: range(0, 9) },
        ] {
            let result = execute(&device, request).result;
            assert!(matches!(result, Err(DeviceError::Failed)), "{result:?}");
        }
        assert!(matches!(read(&device, 9, 0), Err(DeviceError::Failed)));
        file.device(); // opened again it works: the caller knows that data was lost
    }
}

#[test]
fn a_file_truncated_underneath_is_an_error_for_every_request_and_for_good() {
    for request in [
        write(vec![1; 9], 0, Durability::OnFlush),
        Request::Read { offset: offset(0), buffer: vec![0; 9].try_into().expect("small") },
        Request::WriteZeroes { range: range(0, 9), durability: Durability::OnFlush },
        Request::Discard { range: range(0, 9) },
        Request::Flush,
    ] {
        let file = tempfile::tempfile().expect("a temporary file");
        file.set_len(SIZE_BYTES).expect("room");
        let same_file = file.try_clone().expect("a second descriptor");
        let device = FileDevice::over(file, BlockSize::B512).expect("a device");

        same_file.set_len(4096).expect("truncated");
        let result = execute(&device, request).result;
        assert!(
            matches!(
                result,
                Err(DeviceError::Truncated { file_bytes: 4096, size_bytes: SIZE_BYTES })
            ),
            "{result:?}"
        );
        assert_eq!(same_file.metadata().expect("metadata").len(), 4096, "a write grew the file");

        same_file.set_len(SIZE_BYTES).expect("grown again, its data gone");
        assert!(matches!(read(&device, 9, 0), Err(DeviceError::Failed)));
    }
}

#[test]
fn a_discard_gives_space_back_and_zeroed_space_is_kept() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("image");
    fs::write(&path, vec![1; 1 << 20]).expect("a file");
    let device = FileDevice::open(&path, BlockSize::B4096).expect("a device");
    let space_bytes = || rustix::fs::stat(&path).expect("stat").st_blocks * 512;

    execute(&device, Request::Flush).result.expect("flushed, so that space is allocated");
    let full_bytes = space_bytes();
    execute(
        &device,
        Request::WriteZeroes { range: range(0, 1 << 19), durability: Durability::Fua },
    )
    .result
    .expect("zeroed");
    assert_eq!(space_bytes(), full_bytes);
    execute(&device, Request::Discard { range: range(0, 1 << 19) }).result.expect("discarded");
    assert!(space_bytes() <= full_bytes - (1 << 19), "{} of {full_bytes}", space_bytes());
}

#[test]
fn only_a_regular_file_of_whole_blocks_makes_a_device() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str, size_bytes| {
        let path = directory.path().join(name);
        File::create(&path).and_then(|file| file.set_len(size_bytes)).expect("a file");
        path
    };
    let open = |path: &Path| FileDevice::open(path, BlockSize::B4096).err();
    assert!(open(&file("whole", 8192)).is_none());
    assert!(matches!(open(&file("ragged", 8191)), Some(OpenError::Limit(_))));
    assert!(matches!(open(&file("empty", 0)), Some(OpenError::Limit(_))));
    assert!(matches!(open(&directory.path().join("absent")), Some(OpenError::Io { .. })));
    assert!(matches!(open("/dev/null".as_ref()), Some(OpenError::NotRegular { .. })));
}
