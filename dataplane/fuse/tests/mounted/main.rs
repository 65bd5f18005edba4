//! Real mounts, with both transports. They need root and `/dev/fuse`: where one is missing each
//! test says so and passes, or fails if `GRAMPUS_REQUIRE_FUSE=1` is set.

#![allow(
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::similar_names,
    clippy::unwrap_used,
    reason = "a test may fail loudly"
)]

mod devices;
mod failures;
mod lifecycle;
mod loop_device;
mod queue_depth;
mod semantics;
mod stage;
mod stress;
