//! What a volume's bytes are sealed with wherever they lie outside its image.
//!
//! The image of an encrypted volume is encrypted by librbd (LUKS2). Its journal, the log on the
//! host's disk and the read cache are not part of it: what they hold is sealed here, with AES-256
//! in Galois/Counter Mode. All keys come from one [`Secret`], which is also the image's passphrase;
//! each use has a key of its own, and each life of a volume too. Why so:
//! `docs/adr/0018-encryption-at-rest.md`. What must hold: INV-10, INV-47.
//!
//! # Nonces
//! AES-GCM lets no (key, nonce) pair seal two different texts. Here a key is derived with a
//! [`Salt`], sixteen random bytes that every opening of a volume draws anew, so no two owners share
//! one, also not when a cluster or a record was brought back to an earlier state; and within one
//! opening a nonce is a number that its user never gives twice: the last sequence of a frame, a
//! counter of the cache's writes.

#![forbid(unsafe_code)]

mod key;
mod secret;

pub use key::{Forged, Key, TAG_BYTES, Tag};
pub use secret::{SALT_BYTES, SECRET_BYTES, Salt, Secret, SecretError, Use};
