//! Operations on objects, waited for.

use std::sync::mpsc;
use std::time::Duration;

use grampus_librbd::{GuardedWrite, ObjectDone, Objects, RbdError};

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
    let (done, ended) = told();
    let (epoch, bytes) = (epoch.as_bytes(), bytes.to_vec());
    objects.start_guarded_write(name, EPOCH, epoch, offset_bytes, bytes, done);
    ended.recv_timeout(SOON).unwrap()
}
