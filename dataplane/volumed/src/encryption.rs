//! The key of an encrypted volume: where it comes from, and which images take it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use grampus_journal::Sealing;
use grampus_sealing::{SALT_BYTES, Salt, Secret};
use rustix::rand::{GetRandomFlags, getrandom};
use zeroize::Zeroizing;

use crate::volume::VolumeError;

/// Metadata of an image that is encrypted: how.
pub const ENCRYPTION_KEY: &str = "grampus.encryption";
/// The one way there is, as the mark and the protocol spell it.
pub const LUKS2: &str = "luks2";
/// Whoever else may read a key's file.
const OTHERS: u32 = 0o077;

/// Read a volume's key; for the command line.
///
/// # Errors
/// Why the file holds no key that may be used, without a word of what it holds.
pub fn read_key_file(path: &str) -> Result<Secret, String> {
    let found = fs::metadata(Path::new(path)).map_err(|error| format!("{error}"))?;
    if found.permissions().mode() & OTHERS != 0 {
        return Err("others than its owner may read it: `chmod 600` it".to_owned());
    }
    let text = Zeroizing::new(fs::read(path).map_err(|error| format!("{error}"))?);
    Secret::parse(&text).map_err(|error| error.to_string())
}

/// Whether an image with this mark may be opened with or without a key. The wrong one of both would
/// show ciphertext for data, or write data where only ciphertext may lie.
///
/// # Errors
/// [`VolumeError`].
pub(crate) fn require_fit(
    image: &str,
    mark: Option<&str>,
    has_key: bool,
) -> Result<(), VolumeError> {
    match (mark.filter(|mark| !mark.is_empty()), has_key) {
        (None, false) | (Some(LUKS2), true) => Ok(()),
        (Some(LUKS2), false) => Err(VolumeError::new(format!(
            "The image {image} is encrypted, and no key was given. Give its key with \
             --encryption-key-file."
        ))),
        (None, true) => Err(VolumeError::new(format!(
            "A key was given, but the image {image} is not marked as encrypted ({ENCRYPTION_KEY}). \
             Leave out --encryption-key-file, or check that it is the right image."
        ))),
        (Some(mark), _) => Err(VolumeError::new(format!(
            "The image {image} is encrypted in a way that this volumed does not know: {mark}. Use \
             the release that wrote it, or a newer one."
        ))),
    }
}

/// What the frames of one opening are sealed with.
///
/// # Errors
/// [`VolumeError`] when the kernel gives no random bytes.
pub(crate) fn new_sealing(secret: Option<&Secret>) -> Result<Option<Sealing>, VolumeError> {
    let seal = |secret: &Secret| Ok(Sealing::new(secret.clone(), new_salt()?));
    secret.map(seal).transpose()
}

/// Random, for one opening of a volume.
pub(crate) fn new_salt() -> Result<Salt, VolumeError> {
    let mut salt = [0; SALT_BYTES];
    match getrandom(&mut salt, GetRandomFlags::empty()) {
        Ok(SALT_BYTES) => Ok(salt),
        Ok(_) => Err(VolumeError::new("The kernel gave too few random bytes. Try again.")),
        Err(error) => Err(VolumeError::new(format!("No random bytes: {error}. Try again."))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    #[test]
    fn an_image_opens_as_it_is_marked() {
        for (mark, has_key, refusal) in [
            (None, false, None),
            (Some(""), false, None),
            (Some("luks2"), true, None),
            (Some("luks2"), false, Some("no key was given")),
            (None, true, Some("not marked as encrypted")),
            (Some("new"), true, Some("does not know: new")),
            (Some("new"), false, Some("does not know: new")),
        ] {
            let error = require_fit("rbd/disk", mark, has_key).err().map(|error| error.to_string());
            match (&error, refusal) {
                (None, None) => {}
                (Some(error), Some(refusal)) => {
                    assert!(error.contains("rbd/disk") && error.contains(refusal), "{error}");
                }
                _ => panic!("{mark:?} {has_key}: {error:?}"),
            }
        }
    }

    #[test]
    fn a_key_file_holds_a_key_that_nobody_else_may_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        for (text, mode, expected) in [
            ("a".repeat(64), 0o600, None),
            ("a".repeat(64), 0o400, None),
            ("a".repeat(64), 0o640, Some("chmod 600")),
            ("a".repeat(63) + "\n", 0o600, Some("64 lower-case hexadecimal digits")),
        ] {
            fs::write(path, &text).unwrap();
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
            match (read_key_file(path), expected) {
                (Ok(secret), None) => assert_eq!(secret.passphrase(), text.as_bytes()),
                (Err(error), Some(expected)) => {
                    assert!(error.contains(expected) && !error.contains("aaa"), "{error}");
                }
                (found, _) => panic!("{mode:o}: {found:?}"),
            }
            fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
        }
        assert!(read_key_file("/nonexistent").is_err());
    }

    #[test]
    fn no_two_openings_have_one_salt() {
        assert_ne!(new_salt().unwrap(), new_salt().unwrap());
        assert!(new_sealing(None).unwrap().is_none());
    }
}
