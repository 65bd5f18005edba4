//! Sealing and opening.

use std::fmt;

use aes_gcm::{AeadInPlace, Aes256Gcm, KeyInit};
use thiserror::Error;

/// The length of a tag.
pub const TAG_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;

/// What proves that sealed bytes are as they were sealed.
pub type Tag = [u8; TAG_BYTES];

/// The bytes, what belongs to them, their nonce, tag or key are not those that were sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the sealed bytes are not authentic")]
pub struct Forged;

/// A key of one use in one opening. Its memory is wiped when it is dropped.
///
/// One without a cipher, which the derivation of a key never makes, seals and opens nothing.
pub struct Key(Option<Aes256Gcm>);

impl Key {
    pub(crate) fn new(bytes: Option<&[u8; 32]>) -> Self {
        Self(bytes.map(|bytes| Aes256Gcm::new(bytes.into())))
    }

    /// Encrypt `bytes` in place; the tag proves them, and `associated`, which stays readable.
    ///
    /// `nonce` is given once in the life of a key, or again for the same bytes.
    #[must_use]
    pub fn seal(&self, nonce: u64, associated: &[u8], bytes: &mut [u8]) -> Tag {
        let sealed = self.0.as_ref().and_then(|cipher| {
            let nonce = expand(nonce);
            cipher.encrypt_in_place_detached((&nonce).into(), associated, bytes).ok()
        });
        if let Some(tag) = sealed {
            return tag.into();
        }
        // Only for more than 64 GiB: whatever happens, nothing readable leaves.
        bytes.fill(0);
        [0; TAG_BYTES]
    }

    /// Decrypt `bytes` in place.
    ///
    /// # Errors
    /// [`Forged`]; the bytes are as they were then.
    pub fn open(
        &self,
        nonce: u64,
        associated: &[u8],
        bytes: &mut [u8],
        tag: &Tag,
    ) -> Result<(), Forged> {
        let (cipher, nonce) = (self.0.as_ref().ok_or(Forged)?, expand(nonce));
        cipher
            .decrypt_in_place_detached((&nonce).into(), associated, bytes, tag.into())
            .map_err(|_| Forged)
    }
}

fn expand(nonce: u64) -> [u8; NONCE_BYTES] {
    let mut bytes = [0; NONCE_BYTES];
    for (to, from) in bytes.iter_mut().zip(nonce.to_le_bytes()) {
        *to = from;
    }
    bytes
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key(..)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::{Secret, Use};

    fn key() -> Key {
        Secret::parse(&[b'5'; 64]).unwrap().key(Use::Journal, &[3; 16], &[])
    }

    proptest! {
        #[test]
        fn what_is_sealed_is_opened_and_nothing_else(
            plain in vec(any::<u8>(), 1..300),
            associated in vec(any::<u8>(), 1..40),
            nonce in any::<u64>(),
            at in any::<prop::sample::Index>(),
            bit in 0..8_u32,
        ) {
            let key = key();
            let mut sealed = plain.clone();
            let tag = key.seal(nonce, &associated, &mut sealed);
            let mut opened = sealed.clone();
            prop_assert_eq!(key.open(nonce, &associated, &mut opened, &tag), Ok(()));
            prop_assert_eq!(&opened, &plain);

            let flipped = |bytes: &[u8]| {
                let mut bytes = bytes.to_vec();
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
                bytes
            };
            let mut torn = flipped(&sealed);
            let before = torn.clone();
            prop_assert_eq!(key.open(nonce, &associated, &mut torn, &tag), Err(Forged));
            prop_assert_eq!(torn, before, "nothing unproven is shown");
            let mut bytes = sealed.clone();
            prop_assert!(key.open(nonce, &flipped(&associated), &mut bytes, &tag).is_err());
            let other: Tag = flipped(&tag).try_into().unwrap();
            prop_assert!(key.open(nonce, &associated, &mut bytes, &other).is_err());
            prop_assert!(key.open(nonce ^ (1 << bit), &associated, &mut bytes, &tag).is_err());
        }
    }

    #[test]
    fn a_key_that_is_none_shows_and_opens_nothing() {
        let none = Key::new(None);
        let mut bytes = *b"plain";
        let tag = none.seal(1, b"", &mut bytes);
        assert_eq!(bytes, [0; 5]);
        assert_eq!(none.open(1, b"", &mut bytes, &tag), Err(Forged));
    }

    /// Test cases 13 and 14 of the specification.
    #[test]
    fn it_is_aes_256_gcm() {
        let key = Key::new(Some(&[0; 32]));
        let tag = key.seal(0, b"", &mut []);
        assert_eq!(u128::from_be_bytes(tag), 0x530f_8afb_c745_36b9_a963_b4f1_c4cb_738b);
        let mut block = [0; 16];
        let tag = key.seal(0, b"", &mut block);
        assert_eq!(u128::from_be_bytes(block), 0xcea7_403d_4d60_6b6e_074e_c5d3_baf3_9d18);
        assert_eq!(u128::from_be_bytes(tag), 0xd0d1_c8a7_9999_6bf0_265b_98b5_d48a_b919);
    }
}
