//! What this machine offers to a daemon.

use std::error::Error;

use grampus_librbd::Libraries;
use serde_json::{Value, json};

/// FUSE, its `io_uring` transport and librbd: whether they are there, and why not. Changes
/// nothing.
#[must_use]
pub fn observe_machine() -> Value {
    let fuse = grampus_fuse::probe();
    let (librbd_version, librbd_reason) = match Libraries::load() {
        Ok(libraries) => {
            let (major, minor, extra) = libraries.librbd_version();
            (Some(format!("{major}.{minor}.{extra}")), None)
        }
        Err(error) => {
            let cause = error.source().map_or(String::new(), |source| format!(": {source}"));
            (None, Some(format!("{error}{cause}")))
        }
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "fuse": fuse.fuse,
        "uring": fuse.uring,
        "reason": fuse.reason,
        "librbd_version": librbd_version,
        "librbd_reason": librbd_reason,
    })
}
