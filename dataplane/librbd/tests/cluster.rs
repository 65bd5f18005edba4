//! The binding against a real cluster, on a host that has librbd, `rbd` and `ceph`.
//!
//! `tests/integration/test_librbd_binding.py` runs them on a lab's host, one after the other.
//! `GRAMPUS_TEST_IMAGE=POOL/IMAGE` names an image that may be overwritten, of at least 64 MiB and
//! with the feature `exclusive-lock`; `GRAMPUS_TEST_ENCRYPTED_IMAGE` another one, formatted with
//! the passphrase in the file `GRAMPUS_TEST_PASSPHRASE_FILE`; `GRAMPUS_TEST_USER` a user who may
//! blocklist, `admin` if not given.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::indexing_slicing, reason = "tests")]

mod support;

use std::env;
use std::process::Command;
use std::sync::{Arc, mpsc};

use grampus_blockdev::{
    BlockDevice, BlockSize, Buffer, DeviceError, Durability, Geometry, MemoryDevice, Offset,
    Outcome, Request, execute,
};
use grampus_librbd::{
    Change, Cluster, CompareOutcome, ConnectOptions, Errno, GuardedWrite, ImageSpec, Libraries,
    Objects, QuiesceHandler, RbdError, RbdImage,
};
use support::guarded::{EPOCH, SOON, guarded_changes, guarded_write, told, written};
use support::{range, read};

/// Where objects are made.
const NAMESPACE: &str = "grampus-test";

fn image_name() -> String {
    env::var("GRAMPUS_TEST_IMAGE").expect("set GRAMPUS_TEST_IMAGE")
}

fn connect() -> Arc<Cluster> {
    connect_with(&[])
}

fn connect_with(settings: &[(String, String)]) -> Arc<Cluster> {
    let no_cache = ("rbd_cache".to_owned(), "false".to_owned());
    let options = ConnectOptions {
        user: env::var("GRAMPUS_TEST_USER").unwrap_or_else(|_| "admin".to_owned()),
        settings: [&[no_cache], settings].concat(),
        timeout: Some(SOON),
        ..ConnectOptions::default()
    };
    Cluster::connect(Libraries::load().unwrap(), &options).unwrap()
}

fn open() -> (Arc<Cluster>, Arc<RbdImage>) {
    let cluster = connect();
    let name = image_name();
    let (pool, image) = name.split_once('/').unwrap();
    let spec = ImageSpec { pool: pool.to_owned(), image: image.to_owned(), ..ImageSpec::default() };
    let image = RbdImage::open(Arc::clone(&cluster), &spec).unwrap();
    (cluster, image)
}

/// The encrypted one, by a client that sees holes as volumed does.
fn open_encrypted(passphrase: &str) -> Result<Arc<RbdImage>, RbdError> {
    let name = env::var("GRAMPUS_TEST_ENCRYPTED_IMAGE").expect("set GRAMPUS_TEST_ENCRYPTED_IMAGE");
    let (pool, image) = name.split_once('/').unwrap();
    let spec = ImageSpec { pool: pool.to_owned(), image: image.to_owned(), ..ImageSpec::default() };
    let sparse = ("rbd_sparse_read_threshold_bytes".to_owned(), "1".to_owned());
    let cluster = connect_with(&[sparse]);
    if passphrase.is_empty() {
        return RbdImage::open(cluster, &spec);
    }
    RbdImage::open_encrypted(cluster, &spec, passphrase.as_bytes())
}

/// Objects in the image's pool, by a client of their own.
fn open_objects() -> (Arc<Cluster>, Arc<Objects>) {
    let cluster = connect();
    let name = image_name();
    let (pool, _) = name.split_once('/').unwrap();
    let objects = Objects::open(Arc::clone(&cluster), pool, Some(NAMESPACE)).unwrap();
    (cluster, objects)
}

/// Names of objects that are removed before and after a test.
struct Scratch<const COUNT: usize>(Arc<Objects>, [&'static str; COUNT]);

impl<const COUNT: usize> Scratch<COUNT> {
    fn new(objects: &Arc<Objects>, names: [&'static str; COUNT]) -> Self {
        let scratch = Self(Arc::clone(objects), names);
        scratch.clear();
        scratch
    }

    fn clear(&self) {
        for name in self.1 {
            self.0.remove(name).unwrap();
        }
    }
}

impl<const COUNT: usize> Drop for Scratch<COUNT> {
    fn drop(&mut self) {
        self.clear();
    }
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
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

#[test]
#[ignore = "needs a cluster: tests/integration/test_librbd_binding.py runs it"]
fn an_image_has_the_id_that_rbd_info_shows() {
    let (_cluster, image) = open();
    let info = run("rbd", &["info", &image_name()]);
    let id = image.id().unwrap();
    assert!(info.contains(&format!("\tid: {id}\n")), "{id} in {info}");
    image.close().unwrap();
}

#[test]
#[ignore = "needs a cluster: tests/integration/test_librbd_binding.py runs it"]
fn an_object_is_replaced_only_if_it_is_as_expected_to_the_last_byte() {
    let (_cluster, objects) = open_objects();
    let _scratch = Scratch::new(&objects, ["replaced"]);
    assert_eq!(objects.read("replaced", 100).unwrap(), None);
    assert!(!objects.replace("replaced", Some(b""), b"new").unwrap());
    let long = vec![7; 100_000];
    for (there, expected, is_same) in [
        (&b"as it was"[..], &b"as it was"[..], true),
        (b"", b"", true),
        (&long, &long, true),
        (b"As it was", b"as it was", false),
        (b"as it waS", b"as it was", false),
        (&long, &long[..99_999], false),
        (b"as it was\0\0", b"as it was", false),
        (b"as it was", b"as it was\0\0", false),
        (b"\0", b"", false),
        (b"", b"\0", false),
    ] {
        for later in [false, true] {
            assert!(objects.replace("replaced", None, there).unwrap());
            assert!(!objects.replace("replaced", None, b"other").unwrap());
            let replaced = if later {
                let (done, ended) = told();
                objects.start_replace("replaced", expected.to_vec(), b"new".to_vec(), done);
                ended.recv_timeout(SOON).unwrap()
            } else {
                objects.replace("replaced", Some(expected), b"new")
            };
            assert_eq!(replaced.unwrap(), is_same, "{later} {} bytes", there.len());
            let after = if is_same { b"new" } else { there };
            assert!(objects.read("replaced", 1 << 20).unwrap().as_deref() == Some(after));
            assert_eq!(objects.read("replaced", 0).unwrap(), Some(vec![]));
            assert!(objects.remove("replaced").unwrap());
            assert!(!objects.remove("replaced").unwrap());
        }
    }
}

#[test]
#[ignore = "needs a cluster: tests/integration/test_librbd_binding.py runs it"]
fn a_write_is_refused_once_another_client_has_raised_the_guard() {
    const WRITES: u64 = 64;
    let (_cluster, objects) = open_objects();
    let (_other_cluster, other) = open_objects();
    let _scratch = Scratch::new(&objects, ["guarded"]);
    let refused = GuardedWrite::Refused;
    assert_eq!(guarded_write(&objects, "guarded", "1", 0, b"too soon").unwrap(), refused);
    assert_eq!(objects.attribute("guarded", EPOCH).unwrap(), None);
    assert!(!objects.swap_attribute("guarded", EPOCH, Some(b"1"), b"2").unwrap());
    assert!(objects.swap_attribute("guarded", EPOCH, None, b"1").unwrap());
    assert!(!other.swap_attribute("guarded", EPOCH, None, b"2").unwrap());
    assert_eq!(objects.attribute("guarded", "absent").unwrap(), None);
    assert!(!objects.swap_attribute("guarded", "absent", Some(b"1"), b"2").unwrap());

    // While one writes, the other raises the guard: what was written by then stays, and from the
    // first refusal on there are refusals only.
    let ends: Vec<_> = (0..WRITES)
        .map(|number| {
            let (done, ended) = told();
            let changes = written(number * 4096, &[1; 4096]);
            objects.start_guarded_write("guarded", EPOCH, b"1", changes, done);
            ended
        })
        .collect();
    assert!(other.swap_attribute("guarded", EPOCH, Some(b"1"), b"2").unwrap());
    let ends = ends.iter().map(|ended| ended.recv_timeout(SOON).unwrap().unwrap());
    let ends: Vec<GuardedWrite> = ends.collect();
    let done = ends.iter().take_while(|ended| **ended == GuardedWrite::Written).count();
    assert!(ends[done..].iter().all(|ended| *ended == refused), "{ends:?}");
    let there = other.read("guarded", 1 << 20).unwrap().unwrap();
    assert!(there == vec![1; done * 4096], "{} bytes, {done} written", there.len());

    assert_eq!(other.attribute("guarded", EPOCH).unwrap(), Some(b"2".to_vec()));
    assert!(!objects.swap_attribute("guarded", EPOCH, Some(b"1"), b"3").unwrap());
    assert_eq!(guarded_write(&objects, "guarded", "1", 0, b"late").unwrap(), refused);
    assert!(other.read("guarded", 1 << 20).unwrap().unwrap() == there);
    let written = guarded_write(&other, "guarded", "2", 3, b"mine").unwrap();
    assert_eq!(written, GuardedWrite::Written);
    assert_eq!(&objects.read("guarded", 7).unwrap().unwrap()[3..], b"mine");
    let long = [0, 255, 10].repeat(1000);
    assert!(objects.swap_attribute("guarded", EPOCH, Some(b"2"), &long).unwrap());
    assert_eq!(other.attribute("guarded", EPOCH).unwrap(), Some(long));
}

#[test]
#[ignore = "needs a cluster: tests/integration/test_librbd_binding.py runs it"]
fn pairs_come_back_in_order_and_go_with_a_sweep_under_the_guard() {
    const PAIRS: usize = 1500;
    let (_cluster, objects) = open_objects();
    let (_other_cluster, other) = open_objects();
    let _scratch = Scratch::new(&objects, ["paired"]);
    assert_eq!(objects.pairs("paired", "", "z").unwrap(), []);
    assert!(objects.swap_attribute("paired", EPOCH, None, b"1").unwrap());
    assert_eq!(objects.pairs("paired", "", "z").unwrap(), []);
    let key = |number: usize| format!("{number:08}");
    let value = |number: usize| [0, 255, 10].repeat(number % 1000);
    let set = |number| Change::SetKey { key: key(number), value: value(number) };
    let change = |epoch, changes| guarded_changes(&objects, "paired", epoch, changes).unwrap();
    for first in (0..PAIRS).step_by(100) {
        let changes = (first..first + 100).map(set).collect();
        assert_eq!(change("1", changes), GuardedWrite::Written);
    }
    // More of them, and more bytes, than one read brings.
    let expect = |after: &str, before: &str, numbers: std::ops::Range<usize>| {
        let found = other.pairs("paired", after, before).unwrap();
        assert_eq!(found.len(), numbers.len(), "{after} {before}");
        for (number, found) in numbers.zip(found) {
            assert!(found == (key(number), value(number)), "{number}");
        }
    };
    expect("", "z", 0..PAIRS);
    expect(&key(699), &key(1400), 700..1400);
    let sweep = |before| Change::RemoveKeysBefore(key(before));
    assert_eq!(change("2", vec![sweep(900), set(0)]), GuardedWrite::Refused);
    expect("", "z", 0..PAIRS);
    let late = vec![sweep(900), set(PAIRS), Change::Write { offset_bytes: 3, bytes: vec![7] }];
    assert_eq!(change("1", late), GuardedWrite::Written);
    expect("", "z", 900..PAIRS + 1);
    assert_eq!(other.read("paired", 9).unwrap(), Some(vec![0, 0, 0, 7]));
}

#[test]
#[ignore = "needs a cluster: tests/integration/test_librbd_binding.py runs it"]
fn of_two_racing_clients_one_wins_each_round() {
    let (_cluster, objects) = open_objects();
    let (_other_cluster, other) = open_objects();
    let _scratch = Scratch::new(&objects, ["raced"]);
    assert!(objects.replace("raced", None, b"nobody").unwrap());
    for round in 0..50 {
        let was = objects.read("raced", 100).unwrap().unwrap();
        let is = [0, 1].map(|racer| format!("round {round}, racer {racer}").into_bytes());
        let racers = [&objects, &other];
        // The one to start first is not always the same.
        let mut ends = [0, 1].map(|place| {
            let racer = (place + round) % 2;
            let (done, ended) = told();
            racers[racer].start_replace("raced", was.clone(), is[racer].clone(), done);
            (racer, ended)
        });
        ends.sort_by_key(|(racer, _)| *racer);
        let wins = ends.map(|(_, ended)| ended.recv_timeout(SOON).unwrap().unwrap());
        let winner = usize::from(wins[1]);
        assert_eq!(wins, [winner == 0, winner == 1], "round {round}");
        assert_eq!(objects.read("raced", 100).unwrap().as_ref(), Some(&is[winner]));
    }
}

#[test]
#[ignore = "needs a cluster: tests/integration/test_librbd_binding.py runs it"]
fn a_fenced_client_changes_and_reads_no_object() {
    let (cluster, objects) = open_objects();
    let (_neighbour_cluster, neighbour) = open_objects();
    let _scratch = Scratch::new(&neighbour, ["fenced"]);
    assert!(objects.swap_attribute("fenced", EPOCH, None, b"1").unwrap());
    let address = cluster.client_address().unwrap();
    run("ceph", &["osd", "blocklist", "add", &address, "60"]);
    // The OSDs learn of it within a moment.
    let mut written = guarded_write(&objects, "fenced", "1", 0, b"mine");
    for _ in 0..2000 {
        if written.is_err() {
            break;
        }
        written = guarded_write(&objects, "fenced", "1", 0, b"mine");
    }
    assert!(matches!(written, Err(RbdError::Fenced)), "{written:?}");
    let swapped = objects.swap_attribute("fenced", EPOCH, Some(b"1"), b"2");
    assert!(matches!(swapped, Err(RbdError::Fenced)), "{swapped:?}");
    let read = objects.read("fenced", 9);
    assert!(matches!(read, Err(RbdError::Fenced)), "{read:?}");
    assert_eq!(neighbour.attribute("fenced", EPOCH).unwrap(), Some(b"1".to_vec()));
    drop(objects);
    run("ceph", &["osd", "blocklist", "rm", &address]);
}

#[test]
#[ignore = "needs a cluster: tests/integration/test_librbd_binding.py runs it"]
fn an_encrypted_image_holds_no_plain_text_and_its_zeros_are_zeros() {
    const BLOCK: usize = 4096;
    let file = env::var("GRAMPUS_TEST_PASSPHRASE_FILE").expect("set GRAMPUS_TEST_PASSPHRASE_FILE");
    let passphrase = std::fs::read_to_string(file).unwrap();
    let wrong = open_encrypted(&passphrase.chars().rev().collect::<String>());
    assert!(matches!(wrong, Err(RbdError::Passphrase)), "{wrong:?}");

    let image = open_encrypted(&passphrase).unwrap();
    let size_bytes = image.size_bytes();
    let bytes = |image: &RbdImage, at: u64, length: usize| {
        let outcome = execute(image, read(at, length));
        outcome.result.unwrap();
        outcome.buffer.unwrap().to_vec()
    };
    execute(&*image, Request::Discard { range: range(0, 4 << 20) }).result.unwrap();
    let page = [0x5a; BLOCK];
    let write = |at: u64| Request::Write {
        offset: Offset::new(at).unwrap(),
        buffer: Buffer::try_from(page.to_vec()).unwrap(),
        durability: Durability::OnFlush,
    };
    execute(&*image, write(8192)).result.unwrap();
    // In an object of which nothing was ever written, but for this.
    execute(&*image, write((8 << 20) + 8192)).result.unwrap();
    for object in [0, 8 << 20] {
        assert_eq!(bytes(&image, object + 8192, BLOCK), page);
        for around in [0, 4096, 12_288, 65_536] {
            assert_eq!(bytes(&image, object + around, BLOCK), [0; BLOCK], "{object} {around}");
        }
    }
    image.close().unwrap();

    let raw = open_encrypted("").unwrap();
    assert_eq!(raw.size_bytes(), size_bytes + (16 << 20), "the header");
    for at in (0..48_u64 << 20).step_by(1 << 20) {
        let found = bytes(&raw, at, 1 << 20);
        assert!(!found.windows(32).any(|window| window == [0x5a; 32]), "{at}");
    }
}
