//! Operations on objects, waited for.

use std::sync::mpsc;
use std::time::Duration;

use grampus_librbd::{Change, GuardedWrite, ObjectDone, Objects, RbdError};

pub(crate) const SOON: Duration = Duration::from_secs(30);
/// The attribute that guards writes.
pub(crate) const EPOCH: &str = "epoch";

/// A `done`, and what it was called with.
pub(crate) fn told<T: Send + 'static>() -> (ObjectDone<T>, mpsc::Receiver<Result<T, RbdError>>) {
    let (sender, receiver) = mpsc::channel();
    (Box::new(move |ended| sender.send(ended).unwrap()), receiver)
}

pub(crate) fn guarded_write(
    objects: &Objects,
    name: &str,
    epoch: &str,
    offset_bytes: u64,
    bytes: &[u8],
) -> Result<GuardedWrite, RbdError> {
    guarded_changes(objects, name, epoch, written(offset_bytes, bytes))
}

pub(crate) fn guarded_changes(
    objects: &Objects,
    name: &str,
    epoch: &str,
    changes: Vec<Change>,
) -> Result<GuardedWrite, RbdError> {
    let (done, ended) = told();
    objects.start_guarded_write(name, EPOCH, epoch.as_bytes(), changes, done);
    ended.recv_timeout(SOON).unwrap()
}

/// A change of an object's bytes alone.
pub(crate) fn written(offset_bytes: u64, bytes: &[u8]) -> Vec<Change> {
    vec![Change::Write { offset_bytes, bytes: bytes.to_vec() }]
}
