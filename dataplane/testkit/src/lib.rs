//! Exercisers and checkers for block devices.
//!
//! # Main types
//! - [`exercise`]: random operations against a model in memory; finds wrong bytes.
//! - [`sweep_zeros`]: every alignment of a zeroed range; finds bytes that stay, or go too far.
//! - [`ledger`]: self-describing blocks with an account, kept elsewhere, of what a flush
//!   acknowledged; finds writes that a crash lost or tore, and shows when a writer could write.
//!
//! They see a device through the [`Target`] port, as a user of its file does: they test the whole
//! path. Tests of their own use targets that lie.
//!
//! # Failure and recovery
//! A fault of the device is a result, not an error: it names the bytes and the seed that repeats
//! it. A ledger survives the crash of everything but its own storage; [`ledger::verify`] reads it
//! afterwards, and a writer can continue with it.
//!
//! # What can be cancelled
//! A plan may have a time limit, and ends between two operations. A killed writer leaves a ledger
//! that can be verified.

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
