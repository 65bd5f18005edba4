//! Conversions between lengths in memory and lengths on a volume.

/// A length in memory as one on a volume: never truncates where memory has 64-bit addresses.
pub(crate) fn wide(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// A length on a volume as one in memory. Past the address space it is more than any slice has,
/// so a bounds check refuses it.
pub(crate) fn narrow(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}
