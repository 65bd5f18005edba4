//! Plain RADOS objects, changed only if they are as expected.

use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::thread;

use crate::cluster::{Cluster, Pool};
use crate::error::RbdError;
use crate::object_reads;
use crate::operation;
use crate::settings::c_text;
use crate::write_op::{self, Finish, Flight, Flights, MISMATCH, Step};

/// The attribute in which [`Objects::replace`] keeps an object's length, in decimal. RADOS can
/// compare the bytes of an object in the operation that changes it, but not their number: zeros
/// behind them, and others, would go unseen.
const LENGTH_KEY: &CStr = c"grampus.length";

/// Called once with what came of a started operation, on a thread of librados; on the caller's own
/// for one that could not be started. It must not wait, nor call anything of [`Objects`].
pub type ObjectDone<T> = Box<dyn FnOnce(Result<T, RbdError>) + Send>;

/// How [`Objects::start_guarded_write`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardedWrite {
    /// The changes are on all copies.
    Written,
    /// The guard had another value, or there is no such object; nothing was changed.
    Refused,
}

/// A part of what [`Objects::start_guarded_write`] does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Write into the object's bytes.
    Write {
        /// The first byte.
        offset_bytes: u64,
        /// What is there then.
        bytes: Vec<u8>,
    },
    /// Set one of the object's key-value pairs (its omap). An OSD keeps these in its own log, so
    /// that a small value is durable after one write where bytes take two; but a large one costs it
    /// more in the end.
    SetKey {
        /// Without NUL.
        key: String,
        /// Of any bytes.
        value: Vec<u8>,
    },
    /// Remove the pairs whose key is before this one. Only together with [`Change::SetKey`]:
    /// some releases of Ceph 16 note of a removal alone that the pairs are as they were, and leave
    /// them out when they bring a copy up to date (Ceph's issue 54592).
    RemoveKeysBefore(String),
}

/// A key-value pair of an object.
pub type Pair = (String, Vec<u8>);

/// Plain RADOS objects of a pool (and namespace), beside its images.
///
/// Each change is one operation that happens as a whole, on all copies, or not at all. One that
/// does not answer, because the connection is gone, may have happened or not.
///
/// A cluster that cannot be reached is waited for without end. One that is full, or a quota that
/// is used up, is not: a change that takes space fails ([`RbdError::is_no_space`]), and others are
/// done. Starting waits only where too much is in flight (1,024 operations or 100 MiB of a
/// connection, as Ceph is set up by default).
///
/// Dropping it waits until all that was started has been answered; on a thread of librados or of
/// an image, such as in a callback, that goes on in the background.
pub struct Objects {
    /// As in `pool` or `pool/namespace`, for messages.
    name: String,
    flights: Arc<Flights>,
    pool: ManuallyDrop<Pool>,
}

impl Objects {
    /// Open a pool. Blocks until the cluster answers.
    ///
    /// # Errors
    /// [`RbdError::Call`] (ENOENT for a pool that is not there), [`RbdError::Text`],
    /// [`RbdError::Fenced`].
    pub fn open(
        cluster: Arc<Cluster>,
        pool: &str,
        namespace: Option<&str>,
    ) -> Result<Arc<Self>, RbdError> {
        let name = match namespace {
            None | Some("") => pool.to_owned(),
            Some(namespace) => format!("{pool}/{namespace}"),
        };
        let pool = Pool::open(cluster, pool, namespace)?;
        let flights = Flights::new(pool.rados());
        Ok(Arc::new(Self { name, flights, pool: ManuallyDrop::new(pool) }))
    }

    /// The bytes of an object, of a larger one the first `max_bytes`; None when there is none.
    ///
    /// # Errors
    /// [`RbdError::Call`], [`RbdError::Text`], [`RbdError::Fenced`].
    pub fn read(&self, name: &str, max_bytes: usize) -> Result<Option<Vec<u8>>, RbdError> {
        let c_name = object_text(name)?;
        match object_reads::read(&self.pool, &c_name, max_bytes) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(code) if is(code, libc::ENOENT) => Ok(None),
            Err(code) => Err(RbdError::of("read the object", self.subject(name), code)),
        }
    }

    /// An attribute of an object; None when there is no such attribute or object.
    ///
    /// # Errors
    /// [`RbdError::Call`], [`RbdError::Text`], [`RbdError::Fenced`].
    pub fn attribute(&self, name: &str, key: &str) -> Result<Option<Vec<u8>>, RbdError> {
        const ACTION: &str = "read an attribute of the object";
        let (c_name, c_key) = (object_text(name)?, key_text(key)?);
        match object_reads::attribute(&self.pool, &c_name, &c_key) {
            Ok(value) => Ok(Some(value)),
            Err(code) if is(code, libc::ENOENT) || is(code, libc::ENODATA) => Ok(None),
            Err(code) => Err(RbdError::of(ACTION, self.subject(name), code)),
        }
    }

    /// The key-value pairs of an object with keys after `after` and before `before`, in order of
    /// the keys' bytes; none when there is no object. Of one that is changed meanwhile, a mix.
    ///
    /// # Errors
    /// [`RbdError::Call`] (EBADMSG for a key that is no text), [`RbdError::Text`],
    /// [`RbdError::Fenced`].
    pub fn pairs(&self, name: &str, after: &str, before: &str) -> Result<Vec<Pair>, RbdError> {
        self.read_pairs(name, after, before, None)
    }

    fn read_pairs(
        &self,
        name: &str,
        after: &str,
        before: &str,
        at_most: Option<u64>,
    ) -> Result<Vec<Pair>, RbdError> {
        const ACTION: &str = "read the keys of the object";
        let c_name = object_text(name)?;
        let (after, before) = (key_text(after)?, key_text(before)?);
        let found = match object_reads::pairs(&self.pool, &c_name, &after, &before, at_most) {
            Err(code) if is(code, libc::ENOENT) => Ok(Vec::new()),
            found => found,
        };
        let text = |(key, value): object_reads::RawPair| match key.into_string() {
            Ok(key) => Ok((key, value)),
            Err(_) => Err(-i64::from(libc::EBADMSG)),
        };
        found
            .and_then(|pairs| pairs.into_iter().map(text).collect())
            .map_err(|code| RbdError::of(ACTION, self.subject(name), code))
    }

    /// As [`Objects::pairs`], the first `at_most` of them.
    ///
    /// # Errors
    /// As [`Objects::pairs`].
    pub fn first_pairs(
        &self,
        name: &str,
        after: &str,
        before: &str,
        at_most: u64,
    ) -> Result<Vec<Pair>, RbdError> {
        self.read_pairs(name, after, before, Some(at_most))
    }

    /// Whether there is such an object.
    ///
    /// # Errors
    /// [`RbdError::Call`], [`RbdError::Text`], [`RbdError::Fenced`].
    pub fn exists(&self, name: &str) -> Result<bool, RbdError> {
        Ok(self.read(name, 1)?.is_some())
    }

    /// Give an object that is there an attribute that it does not have; whether it was so. Blocks.
    ///
    /// # Errors
    /// As [`Objects::swap_attribute`].
    pub fn add_attribute(&self, name: &str, key: &str, value: &[u8]) -> Result<bool, RbdError> {
        const ACTION: &str = "add an attribute to the object";
        let c_key = &*key_text(key)?;
        if value.is_empty() {
            return Err(self.invalid(ACTION, name));
        }
        let steps = [
            Step::AssertExists,
            // An attribute that is not there counts as empty.
            Step::CompareAttribute { key: c_key.into(), value: (&[]).into() },
            Step::SetAttribute { key: c_key.into(), value: value.into() },
        ];
        self.run(ACTION, name, Guard::Present, &steps)
    }

    /// Make the object (`expected` is None) or replace all its bytes (by what they must be, to the
    /// last); whether it was as expected. Blocks.
    ///
    /// It knows an object's length from the last replacement: an object made otherwise is never
    /// as expected, and one that is replaced must not be written otherwise.
    ///
    /// # Errors
    /// [`RbdError::Call`], [`RbdError::Text`], [`RbdError::Fenced`].
    pub fn replace(
        &self,
        name: &str,
        expected: Option<&[u8]>,
        bytes: &[u8],
    ) -> Result<bool, RbdError> {
        let guard = Guard::of(expected);
        let steps = replacement(expected.map(Cow::Borrowed), Cow::Borrowed(bytes));
        self.run(REPLACE, name, guard, &steps)
    }

    /// As [`Objects::replace`], of an object that must be there, without waiting.
    pub fn start_replace(
        &self,
        name: &str,
        expected: Vec<u8>,
        bytes: Vec<u8>,
        done: ObjectDone<bool>,
    ) {
        let steps = replacement(Some(Cow::Owned(expected)), Cow::Owned(bytes));
        self.start(REPLACE, name, Ok(steps), done);
    }

    /// Make the object with an attribute (`expected` is None), or replace the attribute's value
    /// (by what it must be); whether it was as expected. Blocks.
    ///
    /// # Errors
    /// [`RbdError::Call`] (EINVAL for an empty value, which RADOS does not tell from none),
    /// [`RbdError::Text`], [`RbdError::Fenced`].
    pub fn swap_attribute(
        &self,
        name: &str,
        key: &str,
        expected: Option<&[u8]>,
        value: &[u8],
    ) -> Result<bool, RbdError> {
        const ACTION: &str = "set an attribute of the object";
        let c_key = &*key_text(key)?;
        if value.is_empty() || expected.is_some_and(<[u8]>::is_empty) {
            return Err(self.invalid(ACTION, name));
        }
        let set = Step::SetAttribute { key: c_key.into(), value: value.into() };
        let steps = match expected {
            None => vec![Step::Create, set],
            Some(expected) => {
                let (key, value) = (c_key.into(), expected.into());
                vec![Step::AssertExists, Step::CompareAttribute { key, value }, set]
            }
        };
        self.run(ACTION, name, Guard::of(expected), &steps)
    }

    /// Change the object, which must be there, if its attribute `key` has this `value`, in one
    /// operation, without waiting. The changes are made in their order.
    ///
    /// `done` gets the errors of [`Objects::swap_attribute`].
    pub fn start_guarded_write(
        &self,
        name: &str,
        key: &str,
        value: &[u8],
        changes: Vec<Change>,
        done: ObjectDone<GuardedWrite>,
    ) {
        const ACTION: &str = "write to the object";
        let guarded = || {
            if value.is_empty() {
                return Err(self.invalid(ACTION, name));
            }
            let (key, value) = (Cow::Owned(key_text(key)?), Cow::Owned(value.to_vec()));
            let mut steps = vec![Step::AssertExists, Step::CompareAttribute { key, value }];
            for change in changes {
                steps.push(match change {
                    Change::Write { offset_bytes, bytes } => {
                        Step::Write { offset_bytes, bytes: Cow::Owned(bytes) }
                    }
                    Change::SetKey { key, value } => {
                        let key = Cow::Owned(key_text(&key)?);
                        Step::SetKey { key, value: Cow::Owned(value) }
                    }
                    Change::RemoveKeysBefore(key) => {
                        Step::RemoveKeysBefore { key: Cow::Owned(key_text(&key)?) }
                    }
                });
            }
            Ok(steps)
        };
        let outcome = |done| if done { GuardedWrite::Written } else { GuardedWrite::Refused };
        self.start(ACTION, name, guarded(), Box::new(move |ended| done(ended.map(outcome))));
    }

    /// Remove an object; whether it was there. Blocks.
    ///
    /// # Errors
    /// [`RbdError::Call`], [`RbdError::Text`], [`RbdError::Fenced`].
    pub fn remove(&self, name: &str) -> Result<bool, RbdError> {
        self.run("remove the object", name, Guard::Present, &[Step::Remove])
    }

    /// Operations started whose callback has not returned.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        *self.flights.count()
    }

    fn run(
        &self,
        action: &'static str,
        name: &str,
        guard: Guard,
        steps: &[Step],
    ) -> Result<bool, RbdError> {
        let answer = write_op::run(&self.pool, &object_text(name)?, steps);
        decide_done(guard, answer).map_err(|code| RbdError::of(action, self.subject(name), code))
    }

    /// Start what only an object that is there lets be done.
    fn start(
        &self,
        action: &'static str,
        name: &str,
        steps: Result<Vec<Step<'static>>, RbdError>,
        done: ObjectDone<bool>,
    ) {
        let (c_name, steps) = match (object_text(name), steps) {
            (Ok(c_name), Ok(steps)) => (c_name, steps),
            (Err(error), _) | (_, Err(error)) => return done(Err(error)),
        };
        let subject = self.subject(name);
        let finish: Finish = Box::new(move |answer| {
            let ended = decide_done(Guard::Present, answer);
            done(ended.map_err(|code| RbdError::of(action, subject, code)));
        });
        write_op::start(&self.pool, Flight::new(steps, c_name, finish, self.flights.ticket()));
    }

    fn invalid(&self, action: &'static str, name: &str) -> RbdError {
        RbdError::of(action, self.subject(name), -i64::from(libc::EINVAL))
    }

    fn subject(&self, name: &str) -> String {
        format!("{}/{name}", self.name)
    }
}

impl Drop for Objects {
    #[allow(unsafe_code, reason = "the order of closing is this function's to see to")]
    fn drop(&mut self) {
        // SAFETY: taken once, here, where nothing uses it any more.
        let pool = unsafe { ManuallyDrop::take(&mut self.pool) };
        if !operation::must_not_close() {
            self.flights.wait();
            return drop(pool);
        }
        let (flights, pool) = (Arc::clone(&self.flights), ManuallyDrop::new(pool));
        let closer = thread::Builder::new().name("rados-close".to_owned());
        // Where no thread can be had the pool stays open: here, closing would wait for itself.
        drop(closer.spawn(move || {
            flights.wait();
            drop(ManuallyDrop::into_inner(pool));
        }));
    }
}

impl fmt::Debug for Objects {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Objects")
            .field("pool", &self.name)
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}

const REPLACE: &str = "replace the object";

fn object_text(name: &str) -> Result<CString, RbdError> {
    c_text("object's name", name)
}

fn key_text(key: &str) -> Result<CString, RbdError> {
    c_text("name of an attribute or key", key)
}

/// The steps of [`Objects::replace`].
fn replacement<'a>(expected: Option<Cow<'a, [u8]>>, bytes: Cow<'a, [u8]>) -> Vec<Step<'a>> {
    let key = || Cow::Borrowed(LENGTH_KEY);
    let length = |bytes: &[u8]| Cow::Owned(bytes.len().to_string().into_bytes());
    let value = length(&bytes);
    let mut steps = match expected {
        None => vec![Step::Create],
        Some(bytes) => vec![
            Step::AssertExists,
            Step::CompareAttribute { key: key(), value: length(&bytes) },
            Step::CompareStart { bytes },
        ],
    };
    steps.extend([Step::Replace { bytes }, Step::SetAttribute { key: key(), value }]);
    steps
}

/// What an operation demands of the object before it.
#[derive(Debug, Clone, Copy)]
enum Guard {
    /// That there is none.
    Absent,
    /// That it is there, perhaps with bytes or an attribute.
    Present,
}

impl Guard {
    fn of(expected: Option<&[u8]>) -> Self {
        if expected.is_some() { Self::Present } else { Self::Absent }
    }
}

/// Whether an operation was done or refused by its guard; Err is the answer if it was neither.
fn decide_done(guard: Guard, answer: i64) -> Result<bool, i64> {
    let refused = match guard {
        Guard::Absent => is(answer, libc::EEXIST),
        Guard::Present => {
            is(answer, libc::ENOENT) || is(answer, libc::ECANCELED) || answer <= MISMATCH
        }
    };
    match answer {
        0.. => Ok(true),
        _ if refused => Ok(false),
        _ => Err(answer),
    }
}

fn is(answer: i64, errno: i32) -> bool {
    answer == -i64::from(errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_by_the_guard_is_no_failure_and_a_failure_no_refusal() {
        for (guard, answer, expected) in [
            (Guard::Absent, 0, Ok(true)),
            (Guard::Absent, -17, Ok(false)),
            (Guard::Absent, -2, Err(-2)),
            (Guard::Absent, -125, Err(-125)),
            (Guard::Absent, -4095, Err(-4095)),
            (Guard::Absent, -28, Err(-28)),
            (Guard::Present, 0, Ok(true)),
            (Guard::Present, 3, Ok(true)),
            (Guard::Present, -2, Ok(false)),
            (Guard::Present, -125, Ok(false)),
            (Guard::Present, -4095, Ok(false)),
            (Guard::Present, -4095 - 99, Ok(false)),
            (Guard::Present, -4094, Err(-4094)),
            (Guard::Present, -17, Err(-17)),
            (Guard::Present, -122, Err(-122)),
            (Guard::Present, -108, Err(-108)),
        ] {
            assert_eq!(decide_done(guard, answer), expected, "{guard:?} {answer}");
        }
    }
}
