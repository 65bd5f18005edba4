//! Objects of a librados in memory: guards, failures, and the end of what was started.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use grampus_librbd::{Change, GuardedWrite, Objects, RbdError, RbdImage};
use support::guarded::{EPOCH, SOON, guarded_changes, guarded_write, told, written};
use support::{Fake, spec};

fn open(fake: &Fake) -> Arc<Objects> {
    Objects::open(fake.cluster(), "rbd", None).unwrap()
}

fn replace_later(
    objects: &Objects,
    name: &str,
    expected: &[u8],
    bytes: &[u8],
) -> Result<bool, RbdError> {
    let (done, ended) = told();
    objects.start_replace(name, expected.to_vec(), bytes.to_vec(), done);
    ended.recv_timeout(SOON).unwrap()
}

fn content(objects: &Objects, name: &str) -> Option<Vec<u8>> {
    objects.read(name, 1 << 20).unwrap()
}

#[test]
fn objects_may_be_used_by_all_threads() {
    fn assert_shared<T: Send + Sync + std::fmt::Debug>() {}
    assert_shared::<Objects>();
}

#[test]
fn an_object_is_made_read_and_removed_once() {
    let fake = Fake::load();
    let objects = open(&fake);
    assert_eq!(content(&objects, "record"), None);
    assert!(!objects.remove("record").unwrap());
    assert!(objects.replace("record", None, b"0123456789").unwrap());
    assert!(!objects.replace("record", None, b"another").unwrap());
    // It is read in pieces of 4 MiB.
    let long: Vec<u8> = (0..9 << 20).map(|at: u32| at.to_le_bytes()[2]).collect();
    assert!(objects.replace("long", None, &long).unwrap());
    let two_pieces = &long[..8 << 20];
    assert!(objects.replace("two pieces", None, two_pieces).unwrap());
    assert!(objects.replace("empty", None, b"").unwrap());
    for (name, max_bytes, expected) in [
        ("record", 100, &b"0123456789"[..]),
        ("record", 10, b"0123456789"),
        ("record", 4, b"0123"),
        ("record", 0, b""),
        ("record", usize::MAX, b"0123456789"),
        ("long", usize::MAX, &long),
        ("long", (8 << 20) + 1, &long[..=8 << 20]),
        ("long", 8 << 20, two_pieces),
        ("two pieces", usize::MAX, two_pieces),
        ("empty", 9, b""),
    ] {
        assert_eq!(objects.read(name, max_bytes).unwrap().as_deref(), Some(expected), "{name}");
    }
    assert!(objects.remove("record").unwrap());
    assert!(!objects.remove("record").unwrap());
    assert_eq!(content(&objects, "record"), None);
    drop(objects);
    fake.assert_clean();
}

#[test]
fn an_object_is_replaced_only_if_it_is_as_expected_to_the_last_byte() {
    let fake = Fake::load();
    let objects = open(&fake);
    for (there, expected, is_same) in [
        (&b"as it was"[..], &b"as it was"[..], true),
        (b"", b"", true),
        (b"As it was", b"as it was", false),
        (b"as it waS", b"as it was", false),
        // Zeros are what RADOS compares with past an object's end.
        (b"as it was\0\0", b"as it was", false),
        (b"as it was", b"as it was\0\0", false),
        (b"as it was, and more", b"as it was", false),
        (b"\0", b"", false),
        (b"", b"\0", false),
    ] {
        for later in [false, true] {
            assert!(objects.replace("record", None, there).unwrap());
            let replaced = if later {
                replace_later(&objects, "record", expected, b"as it is")
            } else {
                objects.replace("record", Some(expected), b"as it is")
            };
            assert_eq!(replaced.unwrap(), is_same, "{there:?} {expected:?} {later}");
            let after = if is_same { b"as it is" } else { there };
            assert_eq!(content(&objects, "record").as_deref(), Some(after));
            assert!(objects.remove("record").unwrap());
        }
    }
    // Not there, or not made by a replacement.
    assert!(!objects.replace("record", Some(b""), b"as it is").unwrap());
    assert!(!replace_later(&objects, "record", b"", b"as it is").unwrap());
    fake.tell("append record text");
    assert!(!objects.replace("record", Some(b"text"), b"as it is").unwrap());
    assert_eq!(content(&objects, "record").as_deref(), Some(&b"text"[..]));
    drop(objects);
    fake.assert_clean();
}

#[test]
fn a_replaced_object_is_replaced_again_whatever_its_lengths() {
    let fake = Fake::load();
    let objects = open(&fake);
    assert!(objects.replace("record", None, b"one").unwrap());
    for (before, after) in [("one", "longer"), ("longer", ""), ("", "12"), ("12", "12")] {
        let (before, after) = (before.as_bytes(), after.as_bytes());
        assert!(objects.replace("record", Some(before), after).unwrap());
        assert_eq!(content(&objects, "record").as_deref(), Some(after));
    }
    drop(objects);
    fake.assert_clean();
}

#[test]
fn an_attribute_is_made_with_its_object_and_swapped_only_if_it_is_as_expected() {
    let fake = Fake::load();
    let objects = open(&fake);
    let swap = |name: &str, expected: Option<&str>, value: &str| {
        objects.swap_attribute(name, EPOCH, expected.map(str::as_bytes), value.as_bytes()).unwrap()
    };
    let epoch = |name: &str| objects.attribute(name, EPOCH).unwrap();
    assert_eq!(epoch("slot"), None);
    assert!(!swap("slot", Some("1"), "2"));
    assert_eq!(content(&objects, "slot"), None);
    assert!(swap("slot", None, "1"));
    assert!(!swap("slot", None, "2"));
    assert_eq!((epoch("slot"), content(&objects, "slot")), (Some(b"1".to_vec()), Some(vec![])));
    for (expected, value, is_same) in
        [("1", "2", true), ("1", "3", false), ("20", "3", false), ("2", "2", true)]
    {
        assert_eq!(swap("slot", Some(expected), value), is_same, "{expected} {value}");
        assert_eq!(epoch("slot"), Some(b"2".to_vec()));
    }
    // An object without the attribute; a value of any length and of any bytes.
    fake.tell("append slot-2 text");
    assert_eq!(epoch("slot-2"), None);
    assert!(!swap("slot-2", Some("1"), "2"));
    let long = [0, 255, 10].repeat(20_000);
    assert!(objects.swap_attribute("slot", EPOCH, Some(b"2"), &long).unwrap());
    assert_eq!(epoch("slot"), Some(long));
    drop(objects);
    fake.assert_clean();
}

#[test]
fn an_attribute_is_added_only_to_an_object_that_is_there_without_it() {
    let fake = Fake::load();
    let objects = open(&fake);
    let epoch = || objects.attribute("slot", "epoch").unwrap();
    assert!(!objects.exists("slot").unwrap());
    assert!(!objects.add_attribute("slot", "epoch", b"1").unwrap());
    fake.tell("append slot frames");
    assert!(objects.exists("slot").unwrap());
    // To make the object is refused as long as there is one: who tried that again and again hung.
    assert!(!objects.swap_attribute("slot", "epoch", None, b"1").unwrap());
    assert!(objects.add_attribute("slot", "epoch", b"1").unwrap());
    assert!(!objects.add_attribute("slot", "epoch", b"2").unwrap());
    assert_eq!(epoch().as_deref(), Some(&b"1"[..]));
    assert_eq!(content(&objects, "slot").as_deref(), Some(&b"frames"[..]));
    assert!(objects.add_attribute("slot", "other", b"").is_err());
    drop(objects);
    fake.assert_clean();
}

#[test]
fn a_write_is_refused_once_the_guard_was_raised() {
    let fake = Fake::load();
    let (objects, other) = (open(&fake), open(&fake));
    assert_eq!(
        guarded_write(&objects, "slot", "1", 0, b"too soon").unwrap(),
        GuardedWrite::Refused
    );
    assert_eq!(content(&objects, "slot"), None);
    assert!(objects.swap_attribute("slot", EPOCH, None, b"1").unwrap());
    assert_eq!(guarded_write(&objects, "slot", "1", 0, b"first").unwrap(), GuardedWrite::Written);
    assert_eq!(guarded_write(&objects, "slot", "1", 8, b"second").unwrap(), GuardedWrite::Written);
    assert!(other.swap_attribute("slot", EPOCH, Some(b"1"), b"2").unwrap());
    assert_eq!(guarded_write(&objects, "slot", "1", 0, b"late").unwrap(), GuardedWrite::Refused);
    assert_eq!(guarded_write(&other, "slot", "2", 14, b"!").unwrap(), GuardedWrite::Written);
    assert_eq!(content(&other, "slot").as_deref(), Some(&b"first\0\0\0second!"[..]));
    drop((objects, other));
    fake.assert_clean();
}

fn set(key: &str, value: &[u8]) -> Change {
    Change::SetKey { key: key.to_owned(), value: value.to_vec() }
}

#[test]
fn pairs_are_set_and_removed_beside_the_bytes_and_only_under_the_guard() {
    let fake = Fake::load();
    let objects = open(&fake);
    let pairs = |after: &str, before: &str| objects.pairs("slot", after, before).unwrap();
    let pair = |key: &str, value: &[u8]| (key.to_owned(), value.to_vec());
    assert_eq!(pairs("", "z"), [], "no object");
    assert!(objects.swap_attribute("slot", EPOCH, None, b"1").unwrap());
    assert_eq!(pairs("", "z"), [], "no pairs");
    let change = |epoch: &str, changes| guarded_changes(&objects, "slot", epoch, changes).unwrap();
    let binary = [0, 255, 10, 0];
    let first = vec![set("b", &binary), Change::Write { offset_bytes: 1, bytes: vec![7] }];
    assert_eq!(change("1", first), GuardedWrite::Written);
    assert_eq!(content(&objects, "slot"), Some(vec![0, 7]));
    assert_eq!(change("2", vec![set("c", b"late")]), GuardedWrite::Refused);
    for key in ["a", "c", "d", "e", "f", "g"] {
        assert_eq!(change("1", vec![set(key, key.as_bytes())]), GuardedWrite::Written);
    }
    assert_eq!(change("1", vec![set("c", b"")]), GuardedWrite::Written);
    // More than one read brings, from behind one key to before another.
    for (after, before, expected) in [
        ("", "z", "abcdefg"),
        ("", "d", "abc"),
        ("c", "z", "defg"),
        ("a", "g", "bcdef"),
        ("b", "c", ""),
        ("g", "z", ""),
    ] {
        let keys: String = pairs(after, before).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, expected, "{after} {before}");
    }
    assert_eq!(pairs("", "d"), [pair("a", b"a"), pair("b", &binary), pair("c", b"")]);
    let swept = vec![Change::RemoveKeysBefore("f".to_owned()), set("a", b"new")];
    assert_eq!(change("1", swept), GuardedWrite::Written);
    assert_eq!(pairs("", "z"), [pair("a", b"new"), pair("f", b"f"), pair("g", b"g")]);
    assert!(objects.remove("slot").unwrap());
    assert!(objects.swap_attribute("slot", EPOCH, None, b"1").unwrap());
    assert_eq!(pairs("", "z"), [], "they go with their object");
    drop(objects);
    fake.assert_clean();
}

#[test]
fn many_writes_are_in_flight_at_once() {
    let fake = Fake::load();
    let objects = open(&fake);
    assert!(objects.swap_attribute("slot", EPOCH, None, b"1").unwrap());
    fake.tell("hold");
    let ends: Vec<_> = (0..64_u8)
        .map(|number| {
            let (sender, ended) = mpsc::channel();
            let from_within = Arc::downgrade(&objects);
            let done = Box::new(move |ended| {
                let in_flight = from_within.upgrade().unwrap().in_flight();
                sender.send((ended, in_flight)).unwrap();
            });
            let changes = written(u64::from(number) * 512, &[number; 512]);
            objects.start_guarded_write("slot", EPOCH, b"1", changes, done);
            ended
        })
        .collect();
    assert_eq!(objects.in_flight(), 64);
    fake.tell("release");
    for (ended, expected) in ends.iter().zip((1..=64).rev()) {
        let (written, in_flight) = ended.recv_timeout(SOON).unwrap();
        assert_eq!(written.unwrap(), GuardedWrite::Written);
        // It is in flight until its callback has returned.
        assert_eq!(in_flight, expected);
    }
    let expected: Vec<u8> = (0..64).flat_map(|number| [number; 512]).collect();
    assert_eq!(content(&objects, "slot"), Some(expected));
    drop(objects);
    fake.assert_clean();
}

#[test]
fn of_racing_replacements_one_wins_each_time() {
    const ROUNDS: u32 = 200;
    let fake = Fake::load();
    let objects = open(&fake);
    assert!(objects.replace("counter", None, b"0").unwrap());
    let racers = [0, 1].map(|_| {
        let objects = Arc::clone(&objects);
        thread::spawn(move || {
            for _ in 0..ROUNDS {
                loop {
                    let was = content(&objects, "counter").unwrap();
                    let count: u32 = std::str::from_utf8(&was).unwrap().parse().unwrap();
                    let next = (count + 1).to_string().into_bytes();
                    if objects.replace("counter", Some(&was), &next).unwrap() {
                        break;
                    }
                }
            }
        })
    });
    for racer in racers {
        racer.join().unwrap();
    }
    assert_eq!(content(&objects, "counter"), Some((2 * ROUNDS).to_string().into_bytes()));
    drop(objects);
    fake.assert_clean();
}

#[test]
fn namespaces_are_apart() {
    let fake = Fake::load();
    let objects = open(&fake);
    let blue = Objects::open(fake.cluster(), "rbd", Some("blue")).unwrap();
    assert!(objects.replace("record", None, b"plain").unwrap());
    assert_eq!(content(&blue, "record"), None);
    assert!(blue.replace("record", None, b"blue").unwrap());
    assert_eq!(content(&objects, "record").as_deref(), Some(&b"plain"[..]));
    fake.tell("fail rados_read -5");
    let error = blue.read("record", 9).unwrap_err();
    assert_eq!(error.to_string(), "cannot read the object rbd/blue/record");
    let error = Objects::open(fake.cluster(), "gone", None).unwrap_err();
    assert_eq!((error.to_string().as_str(), error.errno()), ("cannot open the pool gone", Some(2)));
    drop((objects, blue));
    fake.assert_clean();
}

type Try = fn(&Objects) -> Result<(), RbdError>;

const READ: Try = |objects| objects.read("slot", 9).map(drop);
const ATTRIBUTE: Try = |objects| objects.attribute("slot", EPOCH).map(drop);
const MAKE: Try = |objects| objects.replace("new", None, b"new").map(drop);
const REPLACE: Try = |objects| objects.replace("slot", Some(b"old"), b"longer").map(drop);
const REPLACE_LATER: Try = |objects| replace_later(objects, "slot", b"old", b"longer").map(drop);
const SWAP: Try = |objects| objects.swap_attribute("slot", EPOCH, Some(b"1"), b"2").map(drop);
const WRITE: Try = |objects| guarded_write(objects, "slot", "1", 0, b"longer").map(drop);
const PAIRS: Try = |objects| objects.pairs("slot", "", "z").map(drop);
const REMOVE: Try = |objects| objects.remove("slot").map(drop);

#[test]
fn failures_are_told_and_leave_nothing() {
    for (failure, try_it, action, errno) in [
        ("fail rados_read -5", READ, "read the object", 5),
        ("fail rados_getxattr -13", ATTRIBUTE, "read an attribute of the object", 13),
        ("fail rados_read_op_operate -5", PAIRS, "read the keys of the object", 5),
        ("fail rados_read_op_operate 1", PAIRS, "read the keys of the object", 5),
        ("fail rados_write_op_operate -5", MAKE, "replace the object", 5),
        ("fail rados_write_op_operate -1", REPLACE, "replace the object", 1),
        ("fail rados_write_op_operate -5", SWAP, "set an attribute of the object", 5),
        ("fail rados_write_op_operate -5", REMOVE, "remove the object", 5),
        // Answered later; refused at once; not even that.
        ("fail rados_aio_write_op_operate -5", WRITE, "write to the object", 5),
        ("fail rados_aio_write_op_operate 22", WRITE, "write to the object", 22),
        ("fail rados_aio_create_completion2 -12", WRITE, "write to the object", 12),
        ("fail rados_aio_write_op_operate -5", REPLACE_LATER, "replace the object", 5),
        ("fail rados_aio_create_completion2 -12", REPLACE_LATER, "replace the object", 12),
    ] {
        let fake = Fake::load();
        let objects = open(&fake);
        assert!(objects.replace("slot", None, b"old").unwrap());
        fake.tell(failure);
        let error = try_it(&objects).unwrap_err();
        assert!(error.to_string().starts_with(&format!("cannot {action} rbd/")), "{error}");
        assert_eq!((error.errno(), error.is_no_space()), (Some(errno), false));
        assert_eq!(content(&objects, "slot").as_deref(), Some(&b"old"[..]));
        drop(objects);
        fake.assert_clean();
    }
}

#[test]
fn a_fenced_client_is_told_so_by_every_call() {
    for try_it in [READ, ATTRIBUTE, PAIRS, MAKE, REPLACE, REPLACE_LATER, SWAP, WRITE, REMOVE] {
        let fake = Fake::load();
        let objects = open(&fake);
        fake.tell("blocklist");
        assert!(matches!(try_it(&objects), Err(RbdError::Fenced)));
        drop(objects);
        fake.assert_clean();
    }
}

#[test]
fn a_full_pool_refuses_what_takes_space_and_nothing_else() {
    for errno in [libc::ENOSPC, libc::EDQUOT] {
        let fake = Fake::load();
        let objects = open(&fake);
        assert!(objects.swap_attribute("slot", EPOCH, None, b"1").unwrap());
        assert!(objects.replace("record", None, b"old").unwrap());
        fake.tell(&format!("full {errno}"));
        let longer: [Try; 4] = [
            MAKE,
            WRITE,
            |objects| objects.replace("record", Some(b"old"), b"longer").map(drop),
            |objects| replace_later(objects, "record", b"old", b"longer").map(drop),
        ];
        for try_it in longer {
            let error = try_it(&objects).unwrap_err();
            assert_eq!((error.errno(), error.is_no_space()), (Some(errno), true), "{error}");
        }
        assert!(objects.replace("record", Some(b"old"), b"new").unwrap());
        assert!(objects.swap_attribute("slot", EPOCH, Some(b"1"), b"2").unwrap());
        assert_eq!(guarded_write(&objects, "slot", "1", 0, b"x").unwrap(), GuardedWrite::Refused);
        assert!(objects.remove("record").unwrap());
        fake.tell("full 0");
        assert_eq!(guarded_write(&objects, "slot", "2", 0, b"x").unwrap(), GuardedWrite::Written);
        drop(objects);
        // Among these: an operation that the real library would not answer until there is space.
        fake.assert_clean();
    }
}

#[test]
fn what_rados_cannot_take_or_tell_apart_is_refused() {
    let fake = Fake::load();
    let objects = open(&fake);
    assert!(objects.swap_attribute("slot", EPOCH, None, b"1").unwrap());
    let calls: [Try; 11] = [
        |objects| objects.pairs("a\0b", "", "z").map(drop),
        |objects| objects.pairs("slot", "a\0b", "z").map(drop),
        |objects| guarded_changes(objects, "slot", "1", vec![set("a\0b", b"new")]).map(drop),
        |objects| objects.read("a\0b", 9).map(drop),
        |objects| objects.attribute("slot", "a\0b").map(drop),
        |objects| objects.replace("a\0b", None, b"new").map(drop),
        |objects| objects.swap_attribute("slot", "a\0b", None, b"1").map(drop),
        |objects| replace_later(objects, "a\0b", b"", b"new").map(drop),
        |objects| guarded_write(objects, "a\0b", "1", 0, b"new").map(drop),
        |objects| objects.remove("a\0b").map(drop),
        |objects| {
            let (done, ended) = told();
            objects.start_guarded_write("slot", "a\0b", b"1", written(0, b"new"), done);
            ended.recv_timeout(SOON).unwrap().map(drop)
        },
    ];
    for try_it in calls {
        let error = try_it(&objects).unwrap_err();
        assert!(matches!(error, RbdError::Text { .. }), "{error}");
    }
    // RADOS would take an attribute that is not there for an empty one.
    let calls: [Try; 4] = [
        |objects| objects.swap_attribute("slot", EPOCH, None, b"").map(drop),
        |objects| objects.swap_attribute("slot", EPOCH, Some(b"1"), b"").map(drop),
        |objects| objects.swap_attribute("slot", "absent", Some(b""), b"1").map(drop),
        |objects| guarded_write(objects, "slot", "", 0, b"new").map(drop),
    ];
    for try_it in calls {
        assert_eq!(try_it(&objects).unwrap_err().errno(), Some(22));
    }
    assert_eq!(objects.attribute("slot", EPOCH).unwrap(), Some(b"1".to_vec()));
    assert_eq!(content(&objects, "slot"), Some(vec![]));
    drop(objects);
    fake.assert_clean();
}

#[test]
fn dropping_waits_for_what_is_in_flight() {
    let fake = Fake::load();
    let objects = open(&fake);
    assert!(objects.swap_attribute("slot", EPOCH, None, b"1").unwrap());
    let (done, ended) = told();
    fake.tell("hold");
    objects.start_guarded_write("slot", EPOCH, b"1", written(0, b"in flight"), done);
    let dropping = thread::spawn(move || drop(objects));
    assert!(ended.try_recv().is_err());
    fake.tell("release");
    dropping.join().unwrap();
    // Answered by then, and the pool was not closed before.
    assert_eq!(ended.try_recv().unwrap().unwrap(), GuardedWrite::Written);
    fake.assert_clean();
}

#[test]
fn objects_and_an_image_share_a_connection_and_end_in_any_order() {
    for image_first in [true, false] {
        let fake = Fake::load();
        let cluster = fake.cluster();
        let image = RbdImage::open(Arc::clone(&cluster), &spec()).unwrap();
        let objects = Objects::open(cluster, "rbd", None).unwrap();
        if image_first {
            drop(image);
            assert!(objects.replace("record", None, b"new").unwrap());
            drop(objects);
        } else {
            drop(objects);
            assert_eq!(image.id().unwrap(), "10a6f5b3c2d1");
            drop(image);
        }
        fake.assert_clean();
    }
}

#[test]
fn objects_dropped_in_a_callback_are_closed_elsewhere() {
    let fake = Fake::load();
    let objects = open(&fake);
    assert!(objects.replace("record", None, b"old").unwrap());
    let held = Mutex::new(Some(Arc::clone(&objects)));
    fake.tell("hold");
    let last_holder = Box::new(move |ended: Result<bool, RbdError>| {
        assert!(ended.unwrap());
        drop(held.lock().unwrap().take());
    });
    objects.start_replace("record", b"old".to_vec(), b"new".to_vec(), last_holder);
    drop(objects);
    fake.tell("release");
    fake.tell("shut-down");
    fake.assert_clean();
}

#[test]
fn an_image_tells_its_id() {
    let fake = Fake::load();
    let image = fake.image();
    assert_eq!(image.id().unwrap(), "10a6f5b3c2d1");
    let long = "0123456789".repeat(30);
    fake.tell(&format!("id {long}"));
    assert_eq!(image.id().unwrap(), long);
    fake.tell(&format!("id {}", long.repeat(30)));
    assert_eq!(image.id().unwrap_err().errno(), Some(libc::ERANGE));
    fake.tell("fail rbd_get_id -5");
    assert_eq!(image.id().unwrap_err().to_string(), "cannot read the id of rbd/disk");
    fake.tell("blocklist");
    assert!(matches!(image.id(), Err(RbdError::Fenced)));
    image.close().unwrap();
    assert!(matches!(image.id(), Err(RbdError::Closed)));
    drop(image);
    fake.assert_clean();
}
