//! Connecting, opening, closing, and what an image can do besides requests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::indexing_slicing, reason = "tests")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use grampus_blockdev::{
    BlockDevice, Completion, CompletionSink, DeviceError, Outcome, Token, execute,
};
use grampus_librbd::{
    Cluster, CompareOutcome, ConnectOptions, Errno, Features, ImageSpec, Libraries, LoadError,
    QuiesceHandler, RbdError, RbdImage,
};
use support::{Fake, completion, outcomes, read, spec, write};

const SOON: Duration = Duration::from_secs(20);

#[test]
fn what_the_library_can_do_is_found_out() {
    let all = Features {
        write_zeroes: true,
        quiesce: true,
        compare_and_write: true,
        client_address: true,
        encryption: true,
    };
    for (absent, expected) in [
        (None, all),
        (Some("rbd_aio_write_zeroes"), Features { write_zeroes: false, ..all }),
        (Some("rbd_quiesce_complete"), Features { quiesce: false, ..all }),
        (Some("rbd_compare_and_write"), Features { compare_and_write: false, ..all }),
        (Some("rados_buffer_free"), Features { client_address: false, ..all }),
        (Some("rbd_encryption_load2"), all),
    ] {
        let fake = Fake::without(absent.as_slice()).unwrap();
        assert_eq!(fake.libraries.features(), expected, "without {absent:?}");
        assert_eq!(fake.libraries.librbd_version(), (1, 20, 7));
    }
}

#[test]
fn a_library_that_is_absent_or_too_old_is_named() {
    let fake = Fake::load();
    let absent = Path::new("/nonexistent/librbd.so.1");
    let error = Libraries::load_from(&fake.path, absent).unwrap_err();
    assert!(matches!(&error, LoadError::Library { path, .. } if path == absent), "{error}");
    for symbol in ["rados_connect", "rbd_aio_write"] {
        match Fake::without(&[symbol]) {
            Err(LoadError::Symbol { symbol: named, .. }) => assert_eq!(named, symbol),
            _ => panic!("loaded without {symbol}"),
        }
    }
}

#[test]
fn what_an_old_library_lacks_is_refused() {
    let fake = Fake::without(&["rbd_compare_and_write", "rbd_quiesce_watch", "rados_getaddrs"]);
    let fake = fake.unwrap();
    assert_eq!(fake.cluster().client_address(), None);
    let image = fake.image();
    let compared = image.compare_and_write(0, b"a", b"b");
    assert!(matches!(compared, Err(RbdError::Unsupported { symbol: "rbd_compare_and_write" })));
    let (handler, _) = Handler::new(Ok(()));
    let watched = image.on_quiesce(Box::new(handler));
    assert!(matches!(watched, Err(RbdError::Unsupported { symbol: "rbd_quiesce_watch" })));
    drop(image);
    fake.assert_clean();
}

#[test]
fn a_refused_connection_says_what_was_refused_and_leaves_nothing() {
    let options = ConnectOptions { user: "tester".to_owned(), ..ConnectOptions::default() };
    let setting = ("no_such_option".to_owned(), "secret".to_owned());
    for (failure, options, expected, errno) in [
        ("fail rados_create2 -12", options.clone(), "start a client of the cluster as tester", 12),
        (
            "release",
            ConnectOptions { conf: Some(PathBuf::from("/missing.conf")), ..options.clone() },
            "read the configuration /missing.conf",
            2,
        ),
        ("fail rados_connect -110", options.clone(), "connect to the cluster as tester", 110),
        (
            "release",
            ConnectOptions { settings: vec![setting], ..options },
            "set the Ceph option no_such_option",
            2,
        ),
    ] {
        let fake = Fake::load();
        fake.tell(failure);
        let error = Cluster::connect(Arc::clone(&fake.libraries), &options).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot {expected}"));
        assert_eq!(error.errno(), Some(errno));
        fake.assert_clean();
    }
}

#[test]
fn an_encrypted_image_is_what_was_encrypted() {
    // Ceph 18 and newer load any version of LUKS for the whole chain of clones; older ones LUKS2.
    for (absent, call) in
        [(None, "rbd_encryption_load2"), (Some("rbd_encryption_load2"), "rbd_encryption_load")]
    {
        let fake = Fake::without(absent.as_slice()).unwrap();
        fake.tell("luks a passphrase");
        let image = RbdImage::open_encrypted(fake.cluster(), &spec(), b"a passphrase").unwrap();
        assert_eq!(fake.count(call), 1);
        assert_eq!(image.size_bytes(), 48 << 20, "without the header");
        execute(&*image, write(0, &[7; 4096])).result.unwrap();
        let outcome = execute(&*image, read(0, 4096));
        assert_eq!(outcome.buffer.unwrap().to_vec(), [7; 4096]);
        fake.tell("size 134217728");
        assert_eq!(image.refresh_size().unwrap(), 112 << 20);
        image.close().unwrap();
        let raw = fake.image();
        let outcome = execute(&*raw, read(0, 4096));
        assert_eq!(outcome.buffer.unwrap().to_vec(), [0; 4096], "the header lies there");
        drop(raw);
        fake.assert_clean();
    }
}

#[test]
fn an_image_opens_with_its_own_passphrase_only() {
    let both = ["rbd_encryption_load", "rbd_encryption_load2"];
    for (absent, told, given, expected) in [
        (&[][..], "luks right", "wrong", "the key does not open the image's encryption"),
        (&[], "release", "any", "the image is not encrypted"),
        (&[], "fail rbd_encryption_load2 -5", "any", "cannot load the encryption of rbd/disk"),
        (&both, "luks right", "right", "this librbd has no rbd_encryption_load"),
    ] {
        let fake = Fake::without(absent).unwrap();
        fake.tell(told);
        let opened = RbdImage::open_encrypted(fake.cluster(), &spec(), given.as_bytes());
        let error = opened.unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
        assert!(!error.contains("right") && !error.contains("wrong"), "{error}");
        fake.assert_clean();
    }
}

#[test]
fn options_reach_the_cluster_and_the_client_knows_its_address() {
    let fake = Fake::load();
    let options = ConnectOptions {
        user: "tester".to_owned(),
        settings: vec![("rbd_cache".to_owned(), "false".to_owned())],
        timeout: Some(Duration::from_secs(7)),
        ..ConnectOptions::default()
    };
    let cluster = Cluster::connect(Arc::clone(&fake.libraries), &options).unwrap();
    for setting in ["rbd_cache=false", "client_mount_timeout=7"] {
        assert_eq!(fake.tell(&format!("setting {setting}")), 1, "{setting}");
    }
    assert_eq!(cluster.client_address().as_deref(), Some("10.1.0.5:0/123456"));
    let namespace = Some("blue".to_owned());
    let image = RbdImage::open(cluster, &ImageSpec { namespace, ..spec() }).unwrap();
    assert_eq!(fake.tell("setting namespace=blue"), 1);
    assert!(format!("{image:?}").contains("rbd/blue/disk"));
    drop(image);
    fake.assert_clean();
}

#[test]
fn an_image_that_cannot_be_opened_leaves_nothing() {
    let named = |pool: &str, image: &str| {
        let (pool, image) = (pool.to_owned(), image.to_owned());
        ImageSpec { pool, image, ..ImageSpec::default() }
    };
    for (failure, spec, expected) in [
        ("release", named("gone", "disk"), "cannot open the pool gone"),
        ("release", named("rbd", "gone"), "cannot open the image rbd/gone"),
        ("release", named("rbd", "a\0b"), "the image's name contains a NUL character"),
        ("fail rbd_get_size -5", spec(), "cannot read the size of rbd/disk"),
        ("size 100", spec(), "the image makes no device"),
        ("fail rbd_update_watch -12", spec(), "cannot watch the image rbd/disk"),
        (
            "fail rbd_open -108",
            spec(),
            "this client was fenced: the cluster takes nothing more from it",
        ),
    ] {
        let fake = Fake::load();
        fake.tell(failure);
        let error = RbdImage::open(fake.cluster(), &spec).unwrap_err();
        assert_eq!(error.to_string(), expected);
        fake.assert_clean();
    }
}

#[test]
fn a_read_only_image_is_opened_so() {
    let fake = Fake::load();
    let snapshot = Some("before".to_owned());
    let spec = ImageSpec { snapshot, read_only: true, ..spec() };
    let image = RbdImage::open(fake.cluster(), &spec).unwrap();
    assert_eq!((fake.count("rbd_open"), fake.count("rbd_open_read_only")), (0, 1));
    drop(image);
    fake.assert_clean();
}

#[test]
fn the_size_follows_the_image() {
    let fake = Fake::load();
    let image = fake.image();
    let (sender, sizes) = mpsc::channel();
    image.on_resize(Box::new(move |size_bytes| sender.send(size_bytes).unwrap()));
    // By another client, and at last to a size that makes no device, which is not taken.
    for (size_bytes, block_bytes) in [(128 << 20, 4096), ((128 << 20) + 512, 512), (8192, 4096)] {
        fake.tell(&format!("size {size_bytes}"));
        assert_eq!(sizes.recv_timeout(SOON).unwrap(), size_bytes);
        assert_eq!(image.size_bytes(), size_bytes);
        assert_eq!(image.geometry().block_size().bytes(), block_bytes);
    }
    fake.tell("size 5");
    assert!(matches!(image.refresh_size(), Err(RbdError::Limit(_))));
    assert_eq!(image.size_bytes(), 8192);
    // By this one, larger only.
    image.resize(1 << 20).unwrap();
    assert_eq!(sizes.recv_timeout(SOON).unwrap(), 1 << 20);
    assert_eq!(image.resize(4096).unwrap_err().errno(), Some(22));
    assert_eq!(image.size_bytes(), 1 << 20);
    execute(&*image, write((1 << 20) - 4, b"tail")).result.unwrap();
    drop(image);
    assert!(sizes.recv().is_err(), "told of a size twice");
    fake.assert_clean();
}

struct Handler {
    answer: Result<(), Errno>,
    calls: Mutex<mpsc::Sender<(&'static str, thread::ThreadId)>>,
}

impl Handler {
    fn new(answer: Result<(), Errno>) -> (Self, mpsc::Receiver<(&'static str, thread::ThreadId)>) {
        let (sender, receiver) = mpsc::channel();
        (Self { answer, calls: Mutex::new(sender) }, receiver)
    }

    fn note(&self, call: &'static str) {
        self.calls.lock().unwrap().send((call, thread::current().id())).unwrap();
    }
}

impl QuiesceHandler for Handler {
    fn quiesce(&self) -> Result<(), Errno> {
        self.note("quiesce");
        self.answer
    }

    fn unquiesce(&self) {
        self.note("unquiesce");
    }
}

#[test]
fn a_snapshot_is_announced_and_may_be_refused() {
    let fake = Fake::load();
    let image = fake.image();
    let (handler, calls) = Handler::new(Ok(()));
    image.on_quiesce(Box::new(handler)).unwrap();
    assert_eq!(fake.tell("quiesce"), 0);
    fake.tell("unquiesce");
    let told = [calls.recv_timeout(SOON).unwrap(), calls.recv_timeout(SOON).unwrap()];
    assert_eq!(told.map(|(call, _)| call), ["quiesce", "unquiesce"]);
    // librbd's own thread must not be held up, and the fake calls back on the one that tells it.
    let here = thread::current().id();
    assert!(told.iter().all(|(_, thread)| *thread != here), "on a thread that was made for it");

    let (refusing, refused) = Handler::new(Err(Errno(11)));
    image.on_quiesce(Box::new(refusing)).unwrap();
    assert_eq!(fake.tell("quiesce"), -11);
    assert_eq!(refused.recv_timeout(SOON).unwrap().0, "quiesce");
    assert!(calls.recv().is_err(), "the first handler is gone");
    drop(image);
    fake.assert_clean();
}

#[test]
fn the_lock_is_taken_kept_and_given_back() {
    let fake = Fake::load();
    let image = fake.image();
    assert_eq!((image.is_lock_owner().unwrap(), image.lock_owners().unwrap().len()), (false, 0));
    image.acquire_lock().unwrap();
    assert!(image.is_lock_owner().unwrap());
    assert_eq!(image.lock_owners().unwrap(), ["me"]);
    image.release_lock().unwrap();
    assert!(!image.is_lock_owner().unwrap());
    assert_eq!(image.release_lock().unwrap_err().errno(), Some(22));

    fake.tell("owner 10.0.0.9:0/77");
    let error = image.acquire_lock().unwrap_err();
    assert_eq!(error.to_string(), "the image's exclusive lock is held by 10.0.0.9:0/77");
    assert_eq!(image.break_lock("10.0.0.8:0/1").unwrap_err().errno(), Some(16));
    image.break_lock("10.0.0.9:0/77").unwrap();
    assert_eq!(image.break_lock("10.0.0.9:0/77").unwrap_err().errno(), Some(2));
    image.acquire_lock().unwrap();
    drop(image);
    fake.assert_clean();
}

#[test]
fn asking_for_the_lock_finds_a_fence_out() {
    let fake = Fake::load();
    let image = fake.image();
    image.acquire_lock().unwrap();
    fake.tell("blocklist");
    assert!(matches!(image.is_lock_owner(), Err(RbdError::Fenced)));
    assert!(image.is_fenced());
    let outcome = execute(&*image, read(0, 1));
    assert!(matches!(outcome.result, Err(DeviceError::Fenced)));
    drop(image);
    fake.assert_clean();
}

#[test]
fn metadata_and_snapshots_of_any_number_and_length_are_read() {
    let fake = Fake::load();
    let image = fake.image();
    assert_eq!(image.metadata("owner").unwrap(), None);
    for value in ["", "short", &"long ".repeat(2000)] {
        image.set_metadata("owner", value).unwrap();
        assert_eq!(image.metadata("owner").unwrap().as_deref(), Some(value));
    }
    assert!(matches!(image.set_metadata("a\0b", ""), Err(RbdError::Text { what: "key" })));

    assert_eq!(image.snapshots().unwrap(), []);
    for number in 0..70 {
        image.create_snapshot(&format!("snapshot-{number}")).unwrap();
    }
    assert_eq!(image.create_snapshot("snapshot-3").unwrap_err().errno(), Some(17));
    let listed = image.snapshots().unwrap();
    assert_eq!(listed.len(), 70);
    assert_eq!((listed[69].name.as_str(), listed[69].size_bytes), ("snapshot-69", 64 << 20));
    drop(image);
    fake.assert_clean();
}

#[test]
fn compare_and_write_changes_only_what_is_as_expected() {
    let fake = Fake::load();
    let image = fake.image();
    assert_eq!(image.compare_and_write(9, &[0; 4], b"mine").unwrap(), CompareOutcome::Written);
    let outcome = image.compare_and_write(9, b"mile", b"gone").unwrap();
    assert_eq!(outcome, CompareOutcome::Mismatch { offset_bytes: 11 });
    assert_eq!(&*execute(&*image, read(9, 4)).buffer.unwrap(), b"mine");
    assert_eq!(image.compare_and_write(9, b"mine", b"longer").unwrap_err().errno(), Some(22));
    drop(image);
    fake.assert_clean();
}

#[test]
fn closing_waits_for_what_is_in_flight_and_flushes() {
    let fake = Fake::load();
    let image = fake.image();
    let (sink, receiver) = outcomes();
    fake.tell("hold");
    image.submit(write(0, b"in flight"), completion(&sink, 1));
    let closing = {
        let image = Arc::clone(&image);
        thread::spawn(move || image.close())
    };
    fake.tell("release");
    closing.join().unwrap().unwrap();
    receiver.try_recv().expect("answered before the image was closed").1.result.unwrap();
    assert_eq!((fake.count("rbd_flush"), fake.count("rbd_close")), (1, 1));

    // From now on all is refused, and nothing reaches librbd.
    let outcome = execute(&*image, write(0, b"late"));
    assert!(matches!(outcome.result, Err(DeviceError::Abandoned)));
    assert_eq!(outcome.buffer.as_deref(), Some(&b"late"[..]));
    assert!(matches!(image.is_lock_owner(), Err(RbdError::Closed)));
    assert!(matches!(image.resize(1 << 30), Err(RbdError::Closed)));
    image.close().unwrap();
    drop(image);
    assert_eq!(fake.count("rbd_close"), 1);
    fake.assert_clean();
}

#[test]
fn a_close_that_could_not_flush_says_so_and_closes() {
    for (failure, expected) in [("fail rbd_flush -5", "flush"), ("fail rbd_close -5", "close")] {
        let fake = Fake::load();
        let image = fake.image();
        execute(&*image, write(0, b"changed")).result.unwrap();
        fake.tell(failure);
        let error = image.close().unwrap_err();
        assert_eq!(error.to_string(), format!("cannot {expected} rbd/disk"));
        drop(image);
        fake.assert_clean();
    }
}

#[test]
fn only_a_change_is_flushed_when_the_image_is_closed() {
    let changes: [fn(&RbdImage); 5] = [
        |_| {},
        |image| drop(execute(image, read(0, 9))),
        |image| drop(execute(image, write(0, b"changed"))),
        |image| drop(image.compare_and_write(0, &[0], &[1])),
        |image| {
            image.acquire_lock().unwrap();
            drop(execute(image, write(0, b"changed")));
            image.release_lock().unwrap();
        },
    ];
    for (change, flushes) in changes.iter().zip([0, 0, 1, 1, 0]) {
        let fake = Fake::load();
        let image = fake.image();
        change(&image);
        image.close().unwrap();
        assert_eq!(fake.count("rbd_flush"), flushes);
        drop(image);
        fake.assert_clean();
    }
}

/// Holds the image itself, and lets go of it when an outcome arrives.
struct LastHolder(Mutex<Option<Arc<RbdImage>>>);

impl CompletionSink for LastHolder {
    fn complete(&self, _token: Token, _outcome: Outcome) {
        drop(self.0.lock().unwrap().take());
    }
}

#[test]
fn an_image_dropped_in_a_callback_is_closed_elsewhere() {
    let fake = Fake::load();
    let image = fake.image();
    let holder = Arc::new(LastHolder(Mutex::new(Some(Arc::clone(&image)))));
    fake.tell("hold");
    image.submit(write(0, b"last words"), Completion::new(holder, Token(0)));
    drop(image);
    fake.tell("release");
    fake.tell("shut-down");
    fake.assert_clean();

    // And in a callback of a resize.
    let fake = Fake::load();
    let image = fake.image();
    let held = Mutex::new(Some(Arc::clone(&image)));
    image.on_resize(Box::new(move |_| drop(held.lock().unwrap().take())));
    drop(image);
    fake.tell("size 1048576");
    fake.tell("shut-down");
    fake.assert_clean();
}

#[test]
fn a_handler_that_holds_the_image_goes_when_it_is_closed() {
    let fake = Fake::load();
    let image = fake.image();
    let held = Arc::clone(&image);
    image.on_resize(Box::new(move |_| assert!(held.size_bytes() > 0)));
    image.close().unwrap();
    assert_eq!(Arc::strong_count(&image), 1);
    drop(image);
    fake.assert_clean();
}
