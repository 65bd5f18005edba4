//! librados and librbd in one library, in memory, with the C interface that the binding loads.
//!
//! It answers on a thread of its own, as librbd does, and counts as a *violation* whatever the
//! real library may hang or crash on: a call from within a callback, on a closed handle, or an
//! image or pool closed with requests in flight.
//!
//! # Main types
//! `state` holds the one cluster of a loaded copy: a pool, an image, objects. `image`, `rados`,
//! `objects` and `pairs` are the C functions on it, `asynchronous` those that answer later. Each
//! loaded copy of the file has a state of its own: tests copy it to be independent of each other.
//!
//! # Failure and recovery
//! [`fake_control`] makes the library misbehave on command: it refuses calls, fails requests, holds
//! them, fences the client, fills the pool. Nothing is durable; a copy begins empty.
//!
//! # What can be cancelled
//! Nothing, as in the real library. `hold` and `release` delay requests.

#![allow(unsafe_code, reason = "it is a C library")]

mod asynchronous;
mod control;
mod image;
mod objects;
mod pairs;
mod rados;
mod state;

pub use control::fake_control;
