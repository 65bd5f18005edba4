//! Opening a volume: fence, replay, ship what only the host has, open (INV-2, INV-3).
//!
//! Stopped at any step it can be begun again from the start: frames are not freed before what they
//! carry is durable in the image, and a local log not before it is durable in the cluster.
//!
//! `machine` has the order of the steps; `cluster_log` and `local_log` judge what was read of each
//! log, with the frames that `scan` finds; `state` is what all of them know.

mod cluster_log;
pub(crate) mod error;
pub(crate) mod local_log;
mod machine;
pub(crate) mod scan;
pub(crate) mod state;
pub(crate) mod step;
