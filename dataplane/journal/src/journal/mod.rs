//! The journal of an open volume: a state machine that takes changes and says what to do about them.
//!
//! `state` is what it knows, with reads and status. On top of it, each in a file of its own,
//! `replication` brings batches into the logs, `writeback` brings them from there into the image
//! and trims the log, and `intake` is what a shell calls for changes, flushes and events. The rest
//! are their parts: `batch` and `version` before a batch is durable in the cluster, `unapplied`
//! afterwards, `local` for the log on the host, `throttle` for how fast changes are taken.

pub(crate) mod action;
pub(crate) mod batch;
mod checkpoint;
pub(crate) mod config;
pub(crate) mod error;
mod in_flight;
pub(crate) mod intake;
mod local;
pub(crate) mod opened;
pub(crate) mod read;
mod replication;
pub(crate) mod state;
pub(crate) mod throttle;
pub(crate) mod unapplied;
mod version;
mod writeback;
