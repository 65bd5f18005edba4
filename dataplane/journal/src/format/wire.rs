//! Little-endian fields at fixed places.

use crate::format::error::FormatError;

/// The bytes of `bytes` from `at` on, as many as asked for.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], FormatError> {
    let end = at.checked_add(N).ok_or(FormatError::Short)?;
    bytes.get(at..end).and_then(|field| field.try_into().ok()).ok_or(FormatError::Short)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Result<u32, FormatError> {
    array(bytes, at).map(u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Result<u64, FormatError> {
    array(bytes, at).map(u64::from_le_bytes)
}

/// Whether the CRC-32C of `bytes[..at]` stands at `at`.
pub(crate) fn require_checksum(
    bytes: &[u8],
    at: usize,
    what: &'static str,
) -> Result<(), FormatError> {
    let stored = u32_at(bytes, at)?;
    let covered = bytes.get(..at).ok_or(FormatError::Short)?;
    if crc32c::crc32c(covered) == stored { Ok(()) } else { Err(FormatError::Checksum(what)) }
}
