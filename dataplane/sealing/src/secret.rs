//! The secret of a volume, and the keys that come of it.

use std::fmt;
use std::sync::Arc;

use hkdf::Hkdf;
use sha2::Sha256;
use thiserror::Error;
use zeroize::{Zeroize, Zeroizing};

use crate::key::Key;

/// The length of a secret's text: 256 random bits as lower-case hexadecimal digits.
pub const SECRET_BYTES: usize = 64;
/// The length of a salt.
pub const SALT_BYTES: usize = 16;

/// Drawn at random for each opening of a volume. It is no secret.
pub type Salt = [u8; SALT_BYTES];

/// What a key seals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Frames of the journal in the cluster.
    Journal,
    /// Frames of the log on the host's disk.
    LocalLog,
    /// Blocks of the read cache on the host's disk.
    ReadCache,
}

impl Use {
    fn label(self) -> &'static [u8] {
        match self {
            Self::Journal => b"grampus 1 journal",
            Self::LocalLog => b"grampus 1 local log",
            Self::ReadCache => b"grampus 1 read cache",
        }
    }
}

const FINGERPRINT: &[u8] = b"grampus 1 fingerprint";

/// Why a text is no secret. What it was is not said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "the encryption key is not {SECRET_BYTES} lower-case hexadecimal digits and nothing else. Give \
     the file that holds the volume's key."
)]
pub struct SecretError;

/// The one secret of an encrypted volume. It is in memory once, however often it is cloned, and
/// wiped when the last clone is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<Zeroizing<[u8; SECRET_BYTES]>>);

impl Secret {
    /// # Errors
    /// [`SecretError`] unless `text` is wholly as a secret must be.
    pub fn parse(text: &[u8]) -> Result<Self, SecretError> {
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let digits = <[u8; SECRET_BYTES]>::try_from(text).map_err(|_| SecretError)?;
        let secret = Self(Arc::new(Zeroizing::new(digits)));
        if secret.0.iter().all(is_digit) { Ok(secret) } else { Err(SecretError) }
    }

    /// What the image was formatted with: the digits themselves.
    #[must_use]
    pub fn passphrase(&self) -> &[u8] {
        self.0.as_slice()
    }

    /// The key of one use in one opening. `context` says of what, such as the volume's id and the
    /// owner's epoch: another one is another key.
    #[must_use]
    pub fn key(&self, purpose: Use, salt: &Salt, context: &[&[u8]]) -> Key {
        let mut bytes = [0; 32];
        let is_filled = self.expand(purpose.label(), salt, context, &mut bytes);
        let key = Key::new(is_filled.then_some(&bytes));
        bytes.zeroize();
        key
    }

    /// A number that tells whether two are the same secret, of `context`; never 0. It may be stored
    /// beside what is sealed: nothing else follows from it.
    #[must_use]
    pub fn fingerprint(&self, context: &[&[u8]]) -> u64 {
        let mut bytes = [0; 8];
        self.expand(FINGERPRINT, &[], context, &mut bytes);
        u64::from_le_bytes(bytes).max(1)
    }

    /// HKDF-SHA256 (RFC 5869). Each part of the info is preceded by its length, so that no two
    /// lists of parts make one text.
    fn expand(&self, label: &[u8], salt: &[u8], context: &[&[u8]], into: &mut [u8]) -> bool {
        let lengths: Vec<[u8; 8]> = context
            .iter()
            .map(|part| u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes())
            .collect();
        let mut parts = vec![label];
        for (length, part) in lengths.iter().zip(context) {
            parts.push(length);
            parts.push(part);
        }
        let derived = Hkdf::<Sha256>::new(Some(salt), self.passphrase());
        // Refused for more than 8,160 bytes only.
        derived.expand_multi_info(&parts, into).is_ok()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8; 64] = b"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    #[test]
    fn a_secret_is_sixty_four_digits_and_nothing_else() {
        assert_eq!(Secret::parse(TEXT).unwrap().passphrase(), TEXT);
        let upper = TEXT.to_ascii_uppercase();
        let with_newline = [&TEXT[..], b"\n"].concat();
        for wrong in [&b""[..], &TEXT[1..], &with_newline, &upper, &[b'g'; 64]] {
            assert_eq!(Secret::parse(wrong), Err(SecretError), "{wrong:?}");
        }
    }

    #[test]
    fn it_does_not_show() {
        let secret = Secret::parse(TEXT).unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        assert!(!SecretError.to_string().contains("0011"));
        let key = secret.key(Use::Journal, &[0; 16], &[]);
        assert_eq!(format!("{key:?}"), "Key(..)");
    }

    /// Every part that goes into a key makes another key; the same parts make the same.
    #[test]
    fn each_use_salt_and_context_has_a_key_of_its_own() {
        let secret = Secret::parse(TEXT).unwrap();
        let other = Secret::parse(&[b'7'; 64]).unwrap();
        let context: &[&[u8]] = &[b"volume", b"\x01"];
        let keys = [
            secret.key(Use::Journal, &[1; 16], context),
            secret.key(Use::LocalLog, &[1; 16], context),
            secret.key(Use::ReadCache, &[1; 16], context),
            secret.key(Use::Journal, &[2; 16], context),
            secret.key(Use::Journal, &[1; 16], &[b"volume", b"\x02"]),
            secret.key(Use::Journal, &[1; 16], &[b"volum", b"e\x01"]),
            secret.key(Use::Journal, &[1; 16], &[b"volume\x01"]),
            other.key(Use::Journal, &[1; 16], context),
        ];
        for (index, key) in keys.iter().enumerate() {
            let mut bytes = *b"a text to be sealed";
            let tag = key.seal(1, b"", &mut bytes);
            for (reader, key) in keys.iter().enumerate() {
                let mut bytes = bytes;
                let opened = key.open(1, b"", &mut bytes, &tag);
                assert_eq!(opened.is_ok(), reader == index, "{index} by {reader}");
            }
        }
        let again = secret.key(Use::Journal, &[1; 16], context);
        let (mut one, mut two) = (*b"same", *b"same");
        assert_eq!(keys[0].seal(9, b"", &mut one), again.seal(9, b"", &mut two));
        assert_eq!(one, two);
    }

    #[test]
    fn a_fingerprint_tells_secrets_and_volumes_apart() {
        let secret = Secret::parse(TEXT).unwrap();
        let other = Secret::parse(&[b'7'; 64]).unwrap();
        assert_eq!(secret.fingerprint(&[b"a"]), secret.clone().fingerprint(&[b"a"]));
        assert_ne!(secret.fingerprint(&[b"a"]), other.fingerprint(&[b"a"]));
        assert_ne!(secret.fingerprint(&[b"a"]), secret.fingerprint(&[b"b"]));
    }

    /// RFC 5869 has no vector of our shape; this one was worked out with another implementation.
    #[test]
    fn keys_are_what_hkdf_says() {
        let secret = Secret::parse(TEXT).unwrap();
        let mut key = [0; 32];
        assert!(secret.expand(Use::Journal.label(), &[1; 16], &[b"volume"], &mut key));
        let half = |at: usize| u128::from_be_bytes(key[at..at + 16].try_into().unwrap());
        assert_eq!([half(0), half(16)], EXPECTED);
    }

    const EXPECTED: [u128; 2] =
        [0xa566_786f_35e4_8f72_e5b6_231b_c21b_8f60, 0x18eb_d5ee_e574_212b_4918_f6b8_d66c_69cf];
}
