//! The frame: one or more batches as they lie in a log.
//!
//! All numbers are little-endian. A frame is padded with zeros to the ring's alignment.
//!
//! | at | bytes | field |
//! |---|---|---|
//! | 0 | 8 | `GRMPFRM1` |
//! | 8 | 16 | volume |
//! | 24 | 8 | owner epoch |
//! | 32 | 8 | first sequence |
//! | 40 | 8 | last sequence: a frame may carry several batches, merged |
//! | 48 | 4 | length of the whole frame, padding included |
//! | 52 | 4 | number of extents |
//! | 56 | 4 | bytes of payload |
//! | 60 | 4 | CRC-32C of extents and payload |
//! | 64 | 4 | zero |
//! | 68 | 4 | CRC-32C of the 68 bytes before |
//! | 72 | 24 each | extents in order: start (8), length (8), kind (4), zero (4) |
//! | | | payload: the bytes of the data extents, in their order |
//!
//! Kinds: 1 data, 2 zeros that keep their space, 3 discarded.

use std::sync::Arc;

use crate::content::{Content, Payload};
use crate::error::FormatError;
use crate::ids::{Epoch, VolumeId};
use crate::number::{narrow, wide};
use crate::span::Span;
use crate::wire::{array, require_checksum, u32_at, u64_at};

const MAGIC: [u8; 8] = *b"GRMPFRM1";
pub(crate) const HEADER_BYTES: usize = 72;
const HEADER_CHECKSUM_AT: usize = 68;
const EXTENT_BYTES: usize = 24;
const DATA: u32 = 1;
const ZEROS: u32 = 2;
const DISCARD: u32 = 3;

/// A frame, ready to be encoded where it is sent: cloning it copies no data.
#[derive(Debug, Clone)]
pub struct Frame {
    pub(crate) volume: VolumeId,
    pub(crate) epoch: Epoch,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) extents: Arc<[(Span, Content)]>,
    pub(crate) length: u64,
}

/// The length of a frame of `extents` with `payload_bytes`, padded to `align_bytes`.
pub(crate) fn frame_bytes(extents: u64, payload_bytes: u64, align_bytes: u32) -> u64 {
    let align = u64::from(align_bytes);
    let body = extents.saturating_mul(wide(EXTENT_BYTES)).saturating_add(payload_bytes);
    body.saturating_add(wide(HEADER_BYTES)).div_ceil(align).saturating_mul(align)
}

impl Frame {
    pub(crate) fn new(
        (volume, epoch): (VolumeId, Epoch),
        (first, last): (u64, u64),
        extents: Arc<[(Span, Content)]>,
        align_bytes: u32,
    ) -> Self {
        let payload_bytes = extents.iter().map(|(_, content)| content.payload_bytes()).sum();
        let length = frame_bytes(wide(extents.len()), payload_bytes, align_bytes);
        Self { volume, epoch, first, last, extents, length }
    }

    /// The owner it is written by.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The first and last batch it carries.
    #[must_use]
    pub fn sequences(&self) -> (u64, u64) {
        (self.first, self.last)
    }

    /// Its length in a log, padding included.
    #[must_use]
    pub fn length_bytes(&self) -> u64 {
        self.length
    }

    /// What it changes, in order of place.
    #[must_use]
    pub fn extents(&self) -> &[(Span, Content)] {
        &self.extents
    }

    /// Append the frame to `into`: the one copy of the data that leaves for a log. Meant for the
    /// thread that sends it, outside any lock on the journal.
    pub fn encode(&self, into: &mut Vec<u8>) {
        let start = into.len();
        into.reserve(narrow(self.length));
        into.extend_from_slice(&[0; HEADER_BYTES]);
        for (span, content) in &*self.extents {
            into.extend_from_slice(&span.start().to_le_bytes());
            into.extend_from_slice(&span.length().to_le_bytes());
            let kind = match content {
                Content::Data(_) => DATA,
                Content::Zeros => ZEROS,
                Content::Discard => DISCARD,
            };
            into.extend_from_slice(&kind.to_le_bytes());
            into.extend_from_slice(&[0; 4]);
        }
        let mut payload_bytes = 0;
        for (_, content) in &*self.extents {
            if let Content::Data(payload) = content {
                into.extend_from_slice(payload.as_slice());
                payload_bytes += payload.length_bytes();
            }
        }
        let body = into.get(start + HEADER_BYTES..).unwrap_or_default();
        let header = self.header(payload_bytes, crc32c::crc32c(body));
        if let Some(place) = into.get_mut(start..start + HEADER_BYTES) {
            place.copy_from_slice(&header);
        }
        into.resize(start + narrow(self.length), 0);
    }

    fn header(&self, payload_bytes: u64, body_checksum: u32) -> [u8; HEADER_BYTES] {
        // A frame is shorter than a segment, at most 1 GiB: these lengths fit.
        let short = |number: u64| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
        let mut header = [0; HEADER_BYTES];
        let mut at = 0;
        for field in [
            MAGIC.as_slice(),
            &self.volume.0,
            &self.epoch.0.to_le_bytes(),
            &self.first.to_le_bytes(),
            &self.last.to_le_bytes(),
            &short(self.length),
            &short(wide(self.extents.len())),
            &short(payload_bytes),
            &body_checksum.to_le_bytes(),
        ] {
            if let Some(place) = header.get_mut(at..at + field.len()) {
                place.copy_from_slice(field);
            }
            at += field.len();
        }
        let (covered, checksum) = header.split_at_mut(HEADER_CHECKSUM_AT);
        checksum.copy_from_slice(&crc32c::crc32c(covered).to_le_bytes());
        header
    }

    /// The frame of `volume` at the beginning of `bytes`, which may go on after it.
    ///
    /// # Errors
    /// [`FormatError`] when there is none, whatever the bytes are.
    pub fn decode(bytes: &[u8], volume: VolumeId) -> Result<Self, FormatError> {
        Self::decode_checked(bytes, volume, true)
    }

    /// As `decode`; without `check`, a torn body goes unnoticed (for tests of the tests).
    pub(crate) fn decode_checked(
        bytes: &[u8],
        volume: VolumeId,
        check: bool,
    ) -> Result<Self, FormatError> {
        if array::<8>(bytes, 0)? != MAGIC {
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
        if wide(HEADER_BYTES) + body_bytes > length {
            return Err(FormatError::Nonsense("the frame is longer than it says"));
        }
        if length > wide(bytes.len()) {
            return Err(FormatError::Short);
        }
        let body = bytes.get(HEADER_BYTES..HEADER_BYTES + narrow(body_bytes));
        let body = body.ok_or(FormatError::Short)?;
        if check && crc32c::crc32c(body) != u32_at(bytes, 60)? {
            return Err(FormatError::Checksum("frame's body"));
        }
        let (table, payload) =
            body.split_at_checked(narrow(table_bytes)).ok_or(FormatError::Short)?;
        let extents = decode_extents(table, &Payload::copy_of(payload))?;
        Ok(Self { volume, epoch, first, last, extents, length })
    }
}

fn decode_extents(table: &[u8], payload: &Payload) -> Result<Arc<[(Span, Content)]>, FormatError> {
    let (mut volume_end, mut payload_end) = (0, 0);
    let mut extents = Vec::with_capacity(table.len() / EXTENT_BYTES);
    for entry in table.chunks_exact(EXTENT_BYTES) {
        let span = Span::new(u64_at(entry, 0)?, u64_at(entry, 8)?)
            .filter(|span| span.start() >= volume_end && !span.is_empty())
            .ok_or(FormatError::Nonsense("an extent is out of place"))?;
        volume_end = span.end();
        let content = match u32_at(entry, 16)? {
            DATA => {
                let data = payload.slice(payload_end, span.length());
                payload_end += data.length_bytes();
                if data.length_bytes() != span.length() {
                    return Err(FormatError::Nonsense("an extent has less data than it says"));
                }
                Content::Data(data)
            }
            ZEROS => Content::Zeros,
            DISCARD => Content::Discard,
            _ => return Err(FormatError::Nonsense("an extent is of no known kind")),
        };
        extents.push((span, content));
    }
    if payload_end != payload.length_bytes() {
        return Err(FormatError::Nonsense("there is data that no extent claims"));
    }
    Ok(Arc::from(extents))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const VOLUME: VolumeId = VolumeId(*b"the volume's id.");

    fn extents() -> impl Strategy<Value = Vec<(Span, Content)>> {
        let bytes = vec(any::<u8>(), 1..200);
        vec((0..50_u64, 0..3_u8, bytes), 0..12).prop_map(|pieces| {
            let mut end = 0;
            let mut extents = Vec::new();
            for (gap, kind, bytes) in pieces {
                let span = Span::new(end + gap, wide(bytes.len())).unwrap();
                end = span.end();
                extents.push((
                    span,
                    match kind {
                        0 => Content::Zeros,
                        1 => Content::Discard,
                        _ => Content::Data(Payload::copy_of(&bytes)),
                    },
                ));
            }
            extents
        })
    }

    fn encoded(extents: Vec<(Span, Content)>) -> Vec<u8> {
        let mut bytes = Vec::new();
        Frame::new((VOLUME, Epoch(3)), (7, 9), Arc::from(extents), 512).encode(&mut bytes);
        bytes
    }

    fn plain(extents: &[(Span, Content)]) -> Vec<(Span, u8, Vec<u8>)> {
        let one = |(span, content): &(Span, Content)| match content {
            Content::Data(payload) => (*span, 1, payload.as_slice().to_vec()),
            Content::Zeros => (*span, 2, Vec::new()),
            Content::Discard => (*span, 3, Vec::new()),
        };
        extents.iter().map(one).collect()
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(extents in extents(), behind in vec(any::<u8>(), 0..700)) {
            let mut bytes = encoded(extents.clone());
            prop_assert_eq!(bytes.len() % 512, 0);
            let length = wide(bytes.len());
            bytes.extend(behind);
            let frame = Frame::decode(&bytes, VOLUME).unwrap();
            prop_assert_eq!((frame.epoch(), frame.sequences()), (Epoch(3), (7, 9)));
            prop_assert_eq!(frame.length_bytes(), length);
            prop_assert_eq!(plain(frame.extents()), plain(&extents));
        }

        #[test]
        fn any_change_of_what_counts_is_noticed(
            extents in extents(), at in any::<prop::sample::Index>(), flip in 1..=255_u8,
        ) {
            let mut bytes = encoded(extents.clone());
            let payload: u64 = extents.iter().map(|(_, content)| content.payload_bytes()).sum();
            let counts = HEADER_BYTES + extents.len() * EXTENT_BYTES + narrow(payload);
            let at = at.index(counts);
            bytes[at] ^= flip;
            prop_assert!(Frame::decode(&bytes, VOLUME).is_err());
        }

        #[test]
        fn arbitrary_bytes_are_no_frame_and_no_panic(bytes in vec(any::<u8>(), 0..2000)) {
            prop_assert!(Frame::decode(&bytes, VOLUME).is_err());
        }

        /// Past the checksums: nonsense that a fault of ours could write.
        #[test]
        fn sealed_nonsense_is_refused_or_sound(
            extents in extents(), at in any::<prop::sample::Index>(), word in any::<u32>(),
        ) {
            let mut bytes = encoded(extents);
            let at = 24 + at.index((bytes.len() - 28) / 4) * 4;
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
            let table = wide(EXTENT_BYTES) * u64::from(u32_at(&bytes, 52).unwrap());
            let body_end = wide(HEADER_BYTES) + table + u64::from(u32_at(&bytes, 56).unwrap());
            if let Some(body) = bytes.get(HEADER_BYTES..narrow(body_end)) {
                let checksum = crc32c::crc32c(body).to_le_bytes();
                bytes[60..64].copy_from_slice(&checksum);
            }
            let checksum = crc32c::crc32c(&bytes[..HEADER_CHECKSUM_AT]).to_le_bytes();
            bytes[68..72].copy_from_slice(&checksum);
            if let Ok(frame) = Frame::decode(&bytes, VOLUME) {
                let mut end = 0;
                for (span, content) in frame.extents() {
                    prop_assert!(span.start() >= end && !span.is_empty());
                    end = span.end();
                    if let Content::Data(payload) = content {
                        prop_assert_eq!(payload.length_bytes(), span.length());
                    }
                }
                prop_assert!(frame.length_bytes() <= wide(bytes.len()));
            }
        }
    }

    #[test]
    fn a_frame_of_another_volume_is_not_ours() {
        let other = VolumeId([1; 16]);
        let answer = Frame::decode(&encoded(Vec::new()), other).unwrap_err();
        assert_eq!(answer, FormatError::OtherVolume(VOLUME));
        assert!(answer.to_string().contains("7468652076"), "{answer}");
    }
}
