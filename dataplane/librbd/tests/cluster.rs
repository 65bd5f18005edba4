//! The binding against a real cluster, on a host that has librbd, `rbd` and `ceph`.
//!
//! `tests/integration/test_librbd_binding.py` runs them on a lab's host, one after the other.
//! `GRAMPUS_TEST_IMAGE=POOL/IMAGE` names an image that may be overwritten, of at least 64 MiB and
//! with the feature `exclusive-lock`; `GRAMPUS_TEST_USER` a user who may blocklist, `admin` if not
//! given.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::indexing_slicing, reason = "tests")]

use std::env;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use grampus_blockdev::{
    BlockDevice, BlockSize, Buffer, ByteRange, DeviceError, Durability, Geometry, Length,
    MemoryDevice, Offset, Outcome, Request, execute,
};
use grampus_librbd::{
    Cluster, CompareOutcome, ConnectOptions, Errno, ImageSpec, Libraries, QuiesceHandler, RbdError,
    RbdImage,
};

const SOON: Duration = Duration::from_secs(30);

fn image_name() -> String {
    env::var("GRAMPUS_TEST_IMAGE").expect("set GRAMPUS_TEST_IMAGE")
}

fn open() -> (Arc<Cluster>, Arc<RbdImage>) {
    let options = ConnectOptions {
        user: env::var("GRAMPUS_TEST_USER").unwrap_or_else(|_| "admin".to_owned()),
        settings: vec![("rbd_cache".to_owned(), "false".to_owned())],
        timeout: Some(SOON),
        ..ConnectOptions::default()
    };
    let cluster = Cluster::connect(Libraries::load().unwrap(), &options).unwrap();
    let name = image_name();
    let (pool, image) = name.split_once('/').unwrap();
    let spec = ImageSpec { pool: pool.to_owned(), image: image.to_owned(), ..ImageSpec::default() };
    let image = RbdImage::open(Arc::clone(&cluster), &spec).unwrap();
    (cluster, image)
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn range(offset: u64, length: u64) -> ByteRange {
    ByteRange { offset: Offset::new(offset).unwrap(), length: Length::new(length).unwrap() }
}

fn read(offset: u64, length: usize) -> Request {
    Request::Read { offset: Offset::new(offset).unwrap(), buffer: Buffer::zeroed(length).unwrap() }
}

fn write(offset: u64, bytes: Vec<u8>, durability: Durability) -> Request {
    let (offset, buffer) = (Offset::new(offset).unwrap(), Buffer::try_from(bytes).unwrap());
    Request::Write { offset, buffer, durability }
}

#[test]
#[ignore = "needs a cluster: tests/integration/test_librbd_binding.py runs it"]
fn a_client_knows_the_address_that_rbd_status_shows() {
    let (cluster, image) = open();
    let address = cluster.client_address().unwrap();
    let status = run("rbd", &["status", &image_name()]);
    assert!(status.contains(&format!("watcher={address} ")), "{address} in {status}");
    image.close().unwrap();
}

#[test]
#[ignore = "needs a cluster: tests/integration/test_librbd_binding.py runs it"]
fn an_image_is_a_device() {
    const BYTES: u64 = 16 << 20;
    let (_cluster, image) = open();
    let model = MemoryDevice::new(Geometry::new(BYTES, BlockSize::B4096).unwrap()).unwrap();
    execute(&*image, Request::Discard { range: range(0, BYTES) }).result.unwrap();
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    for number in 0..600_u64 {
        // Around a boundary of objects more often than not.
        let offset = if random(3) == 0 { random(BYTES) } else { (4 << 20) - random(9000) };
        let length = random(70_000).min(BYTES - offset);
        let size = usize::try_from(length).unwrap();
        let byte = u8::try_from(number % 255 + 1).unwrap();
        let durability = if number % 16 == 0 { Durability::Fua } else { Durability::OnFlush };
        let kind = random(4);
        let request = || match kind {
            0 => Request::Discard { range: range(offset, length) },
            1 => Request::WriteZeroes { range: range(offset, length), durability },
            _ => write(offset, vec![byte; size], durability),
        };
        let devices: [&dyn BlockDevice; 2] = [&*image, &model];
        for device in devices {
            execute(device, request()).result.unwrap();
        }
        let (offset, length) = (offset.saturating_sub(4096), size + 8192);
        let length = length.min(usize::try_from(BYTES - offset).unwrap());
        let (is, should) =
            (execute(&*image, read(offset, length)), execute(&model, read(offset, length)));
        is.result.unwrap();
        assert!(is.buffer.as_deref() == should.buffer.as_deref(), "step {number} differs");
    }
    execute(&*image, Request::Flush).result.unwrap();
    let all = |device: &dyn BlockDevice| execute(device, read(0, 16 << 20)).buffer.unwrap();
    assert!(*all(&*image) == *all(&model));
    image.close().unwrap();
}

#[test]
#[ignore = "needs a cluster: tests/integration/test_librbd_binding.py runs it"]
fn only_one_client_has_the_lock_and_the_other_is_told_who() {
    let (cluster, image) = open();
    let (_other_cluster, other) = open();
    image.acquire_lock().unwrap();
    assert!(image.is_lock_owner().unwrap());
    let address = cluster.client_address().unwrap();
    assert_eq!(other.lock_owners().unwrap(), [address.as_str()]);
    match other.acquire_lock() {
        Err(RbdError::LockHeld { owner }) => assert_eq!(owner, address),
        answer => panic!("{answer:?}"),
    }
    assert!(image.is_lock_owner().unwrap());
    // Without the lock nothing is written, and the other is not disturbed.
    let outcome = execute(&*other, write(0, vec![1; 512], Durability::OnFlush));
    assert!(matches!(outcome.result, Err(DeviceError::Io { .. })), "{outcome:?}");
    execute(&*image, write(0, vec![2; 512], Durability::OnFlush)).result.unwrap();
    image.release_lock().unwrap();
    other.acquire_lock().unwrap();
    other.close().unwrap();
    image.close().unwrap();
}

#[test]
#[ignore = "needs a cluster: tests/integration/test_librbd_binding.py runs it"]
fn every_client_hears_of_a_new_size() {
    let (_cluster, image) = open();
    let (_other_cluster, other) = open();
    image.acquire_lock().unwrap();
    let (sender, sizes) = mpsc::channel();
    for opened in [&image, &other] {
        let sender = sender.clone();
        opened.on_resize(Box::new(move |size_bytes| sender.send(size_bytes).unwrap()));
    }
    let larger = image.size_bytes() + (4 << 20);
    // Asked of the one who does not hold the lock, done by the one who does.
    other.resize(larger).unwrap();
    for _ in 0..2 {
        assert_eq!(sizes.recv_timeout(SOON).unwrap(), larger);
    }
    assert_eq!(image.geometry().size_bytes(), larger);
    execute(&*image, write(larger - 512, vec![9; 512], Durability::Fua)).result.unwrap();
    assert!(image.resize(4096).is_err());
    assert_eq!(image.refresh_size().unwrap(), larger);
    other.close().unwrap();
    image.close().unwrap();
}

struct Announced(mpsc::Sender<&'static str>, Result<(), Errno>);

impl QuiesceHandler for Announced {
    fn quiesce(&self) -> Result<(), Errno> {
        self.0.send("quiesce").unwrap();
        self.1
    }

    fn unquiesce(&self) {
        self.0.send("unquiesce").unwrap();
    }
}

#[test]
#[ignore = "needs a cluster: tests/integration/test_librbd_binding.py runs it"]
fn a_snapshot_of_another_client_is_announced() {
    let (_cluster, image) = open();
    image.acquire_lock().unwrap();
    let (sender, calls) = mpsc::channel();
    image.on_quiesce(Box::new(Announced(sender.clone(), Ok(())))).unwrap();
    let before = image.snapshots().unwrap().len();
    let snapshot = format!("{}@announced", image_name());
    run("rbd", &["snap", "create", &snapshot]);
    assert_eq!(calls.recv_timeout(SOON).unwrap(), "quiesce");
    assert_eq!(calls.recv_timeout(SOON).unwrap(), "unquiesce");
    assert_eq!(image.snapshots().unwrap().len(), before + 1);
    run("rbd", &["snap", "rm", &snapshot]);

    image.create_snapshot("own").unwrap();
    assert_eq!(calls.recv_timeout(SOON).unwrap(), "quiesce");
    assert_eq!(calls.recv_timeout(SOON).unwrap(), "unquiesce");
    run("rbd", &["snap", "rm", &format!("{}@own", image_name())]);

    image.on_quiesce(Box::new(Announced(sender, Err(Errno(5))))).unwrap();
    let refused = Command::new("rbd").args(["snap", "create", &snapshot]).output().unwrap();
    assert!(!refused.status.success(), "{refused:?}");
    image.close().unwrap();
}

#[test]
#[ignore = "needs a cluster: tests/integration/test_librbd_binding.py runs it"]
fn metadata_and_compare_and_write_work() {
    let (_cluster, image) = open();
    image.set_metadata("grampus-test", "value").unwrap();
    assert_eq!(image.metadata("grampus-test").unwrap().as_deref(), Some("value"));
    assert_eq!(image.metadata("grampus-absent").unwrap(), None);
    execute(&*image, write(0, b"one two".to_vec(), Durability::Fua)).result.unwrap();
    let changed = image.compare_and_write(4, b"two", b"six").unwrap();
    assert_eq!(changed, CompareOutcome::Written);
    let refused = image.compare_and_write(0, b"one two", b"gone...").unwrap();
    assert_eq!(refused, CompareOutcome::Mismatch { offset_bytes: 4 });
    assert_eq!(&*execute(&*image, read(0, 7)).buffer.unwrap(), b"one six");
    image.close().unwrap();
}

#[test]
#[ignore = "needs a cluster: tests/integration/test_librbd_binding.py runs it"]
fn a_fence_stops_one_client_and_not_its_neighbour() {
    let (cluster, image) = open();
    let (_neighbour_cluster, neighbour) = open();
    image.acquire_lock().unwrap();
    execute(&*image, write(0, vec![1; 4096], Durability::Fua)).result.unwrap();
    let address = cluster.client_address().unwrap();
    run("ceph", &["osd", "blocklist", "add", &address, "60"]);
    let fenced = |outcome: &Outcome| matches!(outcome.result, Err(DeviceError::Fenced));
    // The OSDs learn of it within a moment; what they took before that was not fenced.
    let mut outcome = execute(&*image, write(0, vec![2; 4096], Durability::OnFlush));
    for _ in 0..2000 {
        if outcome.result.is_err() {
            break;
        }
        outcome = execute(&*image, write(0, vec![2; 4096], Durability::OnFlush));
    }
    assert!(fenced(&outcome), "{outcome:?}");
    assert!(image.is_fenced());
    assert!(fenced(&execute(&*image, read(0, 512))));
    assert!(matches!(image.is_lock_owner(), Err(RbdError::Fenced)));

    neighbour.acquire_lock().unwrap();
    execute(&*neighbour, write(0, vec![3; 4096], Durability::Fua)).result.unwrap();
    let close = image.close();
    neighbour.close().unwrap();
    run("ceph", &["osd", "blocklist", "rm", &address]);
    assert!(close.is_ok() || matches!(close, Err(RbdError::Fenced)), "{close:?}");
}
