//! Exercisers and checkers for block devices.
//!
//! - [`exercise`]: random operations against a model in memory; finds wrong bytes.
//! - [`sweep_zeros`]: every alignment of a zeroed range; finds bytes that stay, or go too far.
//! - [`ledger`]: self-describing blocks with an account, kept elsewhere, of what a flush
//!   acknowledged; finds writes that a crash lost or tore, and shows when a writer could write.
//!
//! They see a device through the [`Target`] port, as a user of its file does: what they test is
//! the whole path, and tests of their own put devices there that lie.

#![forbid(unsafe_code)]

pub mod exercise;
pub mod ledger;

mod aligned;
mod random;
mod target;
mod zeros;

#[cfg(test)]
mod faulty;

pub use aligned::AlignedBuffer;
pub use random::Random;
pub use target::{Alignment, OpenTarget, Target};
pub use zeros::{SweepError, SweepSummary, sweep_zeros};
