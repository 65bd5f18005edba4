//! Page-aligned memory that bytes go through on their way to and from the disk, as `O_DIRECT`
//! asks for.

use std::io;
use std::sync::{Mutex, PoisonError};

use grampus_blockdev::Buffer;

use super::disk::{DiskFile, uninterrupted};
use super::layout::BLOCK_BYTES;

/// More than any frame of the default settings, so that an append is one write.
const MAX_PIECE_BYTES: usize = 8 << 20;
/// What reading back is done in.
const READ_PIECE_BYTES: usize = 1 << 20;
const MIN_BUFFER_BYTES: usize = 64 << 10;
/// As many as appends are in flight by default.
const MAX_IDLE: usize = 4;

/// Buffers that are used again.
#[derive(Debug, Default)]
pub(super) struct BouncePool {
    idle: Mutex<Vec<Buffer>>,
}

impl BouncePool {
    /// Write all of `bytes` at `at`.
    pub(super) fn write(&self, file: &dyn DiskFile, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut at = at;
        for piece in bytes.chunks(MAX_PIECE_BYTES) {
            let mut buffer = self.take(piece.len())?;
            buffer.copy_from_slice(piece);
            let written = write_all(file, at, &buffer);
            self.give_back(buffer);
            written?;
            at += bytes_of(piece.len());
        }
        Ok(())
    }

    /// `count` bytes from `at` on.
    pub(super) fn read(&self, file: &dyn DiskFile, at: u64, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(count);
        while bytes.len() < count {
            let wanted = (count - bytes.len()).min(READ_PIECE_BYTES);
            let mut buffer = self.take(wanted)?;
            let read = read_all(file, at + bytes_of(bytes.len()), &mut buffer);
            bytes.extend_from_slice(&buffer);
            self.give_back(buffer);
            if read? < wanted {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(bytes)
    }

    /// The first block, or less of it if the file is shorter.
    pub(super) fn read_head(&self, file: &dyn DiskFile) -> io::Result<Vec<u8>> {
        let mut buffer = self.take(BLOCK_BYTES)?;
        let read = read_all(file, 0, &mut buffer)?;
        let head = buffer.get(..read).unwrap_or_default().to_vec();
        self.give_back(buffer);
        Ok(head)
    }

    fn take(&self, count: usize) -> io::Result<Buffer> {
        let fitting = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            let fits = |buffer: &Buffer| buffer.capacity_bytes() >= count;
            idle.iter().position(fits).map(|index| idle.swap_remove(index))
        };
        let mut buffer = match fitting {
            Some(buffer) => buffer,
            None => Buffer::zeroed(count.next_power_of_two().max(MIN_BUFFER_BYTES))
                .map_err(io::Error::other)?,
        };
        buffer.set_len(count).map_err(io::Error::other)?;
        Ok(buffer)
    }

    fn give_back(&self, buffer: Buffer) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(buffer);
        // Small ones first in line, so that a large one is there when it is needed.
        idle.sort_by_key(Buffer::capacity_bytes);
        if idle.len() > MAX_IDLE {
            idle.remove(0);
        }
    }
}

pub(super) fn write_all(file: &dyn DiskFile, at: u64, from: &[u8]) -> io::Result<()> {
    let (mut at, mut from) = (at, from);
    while !from.is_empty() {
        let written = uninterrupted(|| file.write_at(from, at))?;
        from = match from.get(written..) {
            Some(rest) if written > 0 => rest,
            _ => return Err(io::ErrorKind::WriteZero.into()),
        };
        at += bytes_of(written);
    }
    Ok(())
}

/// How much was read: less than asked for only at the end of the file.
pub(super) fn read_all(file: &dyn DiskFile, at: u64, into: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
        let read = uninterrupted(|| file.read_at(rest, at + bytes_of(done)))?;
        if read == 0 {
            break;
        }
        done += read;
    }
    Ok(done)
}

fn bytes_of(count: usize) -> u64 {
    // No platform has a usize wider than 64 bits.
    u64::try_from(count).unwrap_or(u64::MAX)
}
