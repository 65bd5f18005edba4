//! The shell around the journal, in a world that it cannot trust.

#![allow(
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a test may fail loudly"
)]

mod crash;
mod failing;
mod model;
mod opening;
mod quiescing;
mod random;
mod requests;
mod user;
mod world;
