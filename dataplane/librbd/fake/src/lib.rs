//! librados and librbd in one library, in memory, with the C interface that the binding loads.
//!
//! It answers on a thread of its own, as librbd does, and counts as a *violation* whatever the
//! real library may hang or crash on: a call from within a callback, on a closed handle, or an
//! image or pool closed with requests in flight. [`fake_control`] makes it misbehave on command.
//!
//! Each loaded copy of the file has a state of its own: tests copy it to stay apart.
#![allow(unsafe_code, reason = "it is a C library")]

mod asynchronous;
mod control;
mod image;
mod objects;
mod pairs;
mod rados;
mod state;

pub use control::fake_control;
