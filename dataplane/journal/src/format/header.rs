//! The header of a frame: what a frame says of itself in the clear. `frame` has its layout.

use crate::extent::number::{narrow, wide};
use crate::format::error::FormatError;
use crate::format::ids::{Epoch, VolumeId};
use crate::format::wire::{array, require_checksum, u32_at, u64_at};

pub(super) const MAGIC: [u8; 8] = *b"GRMPFRM1";
pub(super) const SEALED_MAGIC: [u8; 8] = *b"GRMPFRS1";
pub(crate) const HEADER_BYTES: usize = 72;
pub(super) const SALT_AT: usize = HEADER_BYTES;
pub(super) const TAG_AT: usize = 88;
/// What is more in it fits where an extent is counted as 128 bytes of a batch and takes 24.
pub(super) const SEALED_HEADER_BYTES: usize = 104;
pub(super) const HEADER_CHECKSUM_AT: usize = 68;
pub(super) const EXTENT_BYTES: usize = 24;

/// What the header of a frame shows, whether or not all of the frame is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Glimpse {
    pub(crate) epoch: Epoch,
    pub(crate) first: u64,
    /// As `Frame::durable`.
    pub(crate) durable: u64,
    pub(crate) length: u64,
}

/// What a frame says of itself in the clear.
pub(super) struct Header {
    pub(super) epoch: Epoch,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) length: u64,
    pub(super) durable: u64,
    pub(super) table_bytes: u64,
    pub(super) body_bytes: u64,
}

impl Header {
    pub(super) fn decode(
        bytes: &[u8],
        volume: VolumeId,
        expected: ([u8; 8], usize),
    ) -> Result<Self, FormatError> {
        let header = Self::parse(bytes, volume, expected)?;
        if header.length > wide(bytes.len()) { Err(FormatError::Short) } else { Ok(header) }
    }

    pub(super) fn parse(
        bytes: &[u8],
        volume: VolumeId,
        (magic, header_bytes): ([u8; 8], usize),
    ) -> Result<Self, FormatError> {
        if array::<8>(bytes, 0)? != magic {
            return Err(FormatError::Magic);
        }
        require_checksum(bytes, HEADER_CHECKSUM_AT, "frame's header")?;
        let found = VolumeId(array(bytes, 8)?);
        if found != volume {
            return Err(FormatError::OtherVolume(found));
        }
        let epoch = Epoch(u64_at(bytes, 24)?);
        let (first, last) = (u64_at(bytes, 32)?, u64_at(bytes, 40)?);
        let length = u64::from(u32_at(bytes, 48)?);
        let table_bytes = u64::from(u32_at(bytes, 52)?) * wide(EXTENT_BYTES);
        let body_bytes = table_bytes + u64::from(u32_at(bytes, 56)?);
        if first == 0 || first > last || last == u64::MAX {
            return Err(FormatError::Nonsense("the frame's sequences are out of order"));
        }
        if wide(header_bytes) + body_bytes > length {
            return Err(FormatError::Nonsense("the frame is longer than it says"));
        }
        let durable = decode_durable(first, u32_at(bytes, 64)?);
        Ok(Self { epoch, first, last, length, durable, table_bytes, body_bytes })
    }

    pub(super) fn body<'a>(
        &self,
        bytes: &'a [u8],
        header_bytes: usize,
    ) -> Result<&'a [u8], FormatError> {
        let end = header_bytes + narrow(self.body_bytes);
        bytes.get(header_bytes..end).ok_or(FormatError::Short)
    }
}

/// How a frame tells what was durable when it was made: as a distance, which fits where earlier
/// versions wrote a zero and looked at nothing.
pub(super) fn encode_durable(first: u64, durable: u64) -> u32 {
    let distance = first.checked_sub(durable).filter(|_| durable > 0);
    distance.and_then(|distance| u32::try_from(distance).ok()).unwrap_or(0)
}

fn decode_durable(first: u64, distance: u32) -> u64 {
    if distance == 0 { 0 } else { first.saturating_sub(distance.into()) }
}
