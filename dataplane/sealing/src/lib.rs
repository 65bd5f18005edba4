//! Encryption of a volume's bytes wherever they lie outside its image.
//!
//! librbd encrypts the image of an encrypted volume (LUKS2). The journal, the log on the host's
//! disk and the read cache are not part of the image: this crate seals what they hold, with AES-256
//! in Galois/Counter Mode. Why so: `docs/adr/0018-encryption-at-rest.md`. What must hold: INV-10,
//! INV-47.
//!
//! # Main types
//! All keys come from one [`Secret`], which is also the image's passphrase. Each [`Use`] has a
//! [`Key`] of its own, and so has each opening of a volume, by its [`Salt`]. Sealing gives a [`Tag`],
//! and opening checks it.
//!
//! # Nonces
//! AES-GCM lets no (key, nonce) pair seal two different texts. Here a key is derived with a
//! [`Salt`], sixteen random bytes that every opening of a volume draws again, so no two owners share
//! one, not even when a cluster or a record was brought back to an earlier state. Within one opening
//! a nonce is a number that its user never gives twice: the last sequence of a frame, a counter of
//! the cache's writes.
//!
//! # Failure and recovery
//! Opening fails with [`Forged`] when a single bit differs; the bytes are unchanged then. Callers
//! treat such bytes as bytes with a wrong checksum. Without the secret nothing can be recovered.
//! Memory with keys is wiped when it is freed.
//!
//! # What can be cancelled
//! Nothing waits here: every function computes and returns.

#![forbid(unsafe_code)]

mod key;
mod secret;

pub use key::{Forged, Key, TAG_BYTES, Tag};
pub use secret::{SALT_BYTES, SECRET_BYTES, Salt, Secret, SecretError, Use};
