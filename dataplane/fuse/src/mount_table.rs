//! The kernel's mount table, `/proc/self/mountinfo`. Pure.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MountEntry {
    /// Such as `fuse.grampus` or `ext4`.
    pub(crate) file_system: String,
    /// The minor device number: of a FUSE mount also the number of its connection.
    pub(crate) minor: u32,
}

/// The mount that is seen at `mountpoint`: the last in the table, which covers those before it.
pub(crate) fn find_mount(table: &[u8], mountpoint: &Path) -> Option<MountEntry> {
    table.split(|byte| *byte == b'\n').rev().find_map(|line| parse_line(line, mountpoint))
}

/// `ID PARENT MAJOR:MINOR ROOT MOUNTPOINT OPTIONS [TAG...] - TYPE SOURCE SUPER_OPTIONS`
fn parse_line(line: &[u8], mountpoint: &Path) -> Option<MountEntry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = std::str::from_utf8(fields.nth(2)?).ok()?;
    let place = unescape(fields.nth(1)?);
    if place.as_bytes() != mountpoint.as_os_str().as_bytes() {
        return None;
    }
    let (_, minor) = device.split_once(':')?;
    let file_system = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some(MountEntry {
        file_system: String::from_utf8_lossy(file_system).into_owned(),
        minor: minor.parse().ok()?,
    })
}

/// Spaces, tabs, newlines and backslashes are written as a backslash and three octal digits.
fn unescape(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let escaped = match (first, after) {
            (b'\\', [a, b, c, ..]) => octal([*a, *b, *c]),
            _ => None,
        };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { after.get(3..).unwrap_or_default() } else { after };
    }
    OsString::from_vec(bytes)
}

fn octal(digits: [u8; 3]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"\
24 30 0:22 / /proc rw,nosuid - proc proc rw
61 30 0:50 / /v/a\\040b rw shared:3 master:1 - fuse.grampus pool/image rw
62 61 0:51 / /v/a\\040b rw - fuse.grampus pool/other rw
63 30 254:0 / / rw - ext4 /dev/vda rw
garbage
64 30 x:y / /bad rw - ext4 /dev/vda rw
65 30 0:9 / /short rw -
";

    #[test]
    fn the_last_mount_at_a_place_is_the_one_seen() {
        let entry = |kind: &str, minor| Some(MountEntry { file_system: kind.to_owned(), minor });
        for (place, expected) in [
            ("/v/a b", entry("fuse.grampus", 51)),
            ("/proc", entry("proc", 22)),
            ("/", entry("ext4", 0)),
            ("/v", None),
            ("/v/a\\040b", None),
            ("/bad", None),
            ("/short", None),
        ] {
            assert_eq!(find_mount(TABLE, Path::new(place)), expected, "{place}");
        }
    }

    #[test]
    fn half_an_escape_is_taken_as_it_stands() {
        for (field, plain) in [
            (r"a\040b", "a b"),
            (r"\134\011", "\\\t"),
            (r"a\", r"a\"),
            (r"a\04", r"a\04"),
            (r"\999", r"\999"),
            (r"\777", r"\777"),
        ] {
            assert_eq!(unescape(field.as_bytes()), plain, "{field}");
        }
    }
}
