//! Targets that lie, for the tests of what shall find them out.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::target::{Alignment, Target};

/// What a target does wrong, once, the next time that it can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A write is acknowledged and not done.
    LostWrite,
    /// A write's second half is not done.
    TornWrite,
    /// A write begins one byte late.
    ShiftedWrite,
    /// A write changes the byte after its end.
    WidenedWrite,
    /// A read gives what was there before the last change of those bytes.
    StaleRead,
    /// A hole's, zeroed range's or discard's last byte stays.
    ShortZero,
    /// A hole's, zeroed range's or discard's next byte becomes zero too.
    LongZero,
    /// A discard does nothing (as one smaller than a device's granularity).
    SkippedDiscard,
    /// A write fails.
    FailedWrite,
    /// A flush fails.
    FailedSync,
}

#[derive(Debug)]
struct State {
    bytes: Vec<u8>,
    before: Vec<u8>,
    fault: Option<(Fault, u32)>, // with how many of its occasions pass by first
    struck: u32,
}

/// Bytes in memory with one fault.
#[derive(Debug)]
pub(crate) struct FaultyTarget {
    state: Mutex<State>,
    align_bytes: u64,
}

impl FaultyTarget {
    /// `size` bytes of `0x5a`.
    pub(crate) fn new(size: usize, align_bytes: u64, fault: Option<(Fault, u32)>) -> Self {
        let bytes = vec![0x5a; size];
        let before = bytes.clone();
        Self { state: Mutex::new(State { bytes, before, fault, struck: 0 }), align_bytes }
    }

    /// How often the fault struck.
    pub(crate) fn struck(&self) -> u32 {
        self.lock().struck
    }

    /// Change what is there, past everything.
    pub(crate) fn corrupt(&self, change: impl FnOnce(&mut [u8])) {
        change(&mut self.lock().bytes);
    }

    /// What is there.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.lock().bytes.clone()
    }

    pub(crate) fn inject(&self, fault: Fault, after: u32) {
        self.lock().fault = Some((fault, after));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn zero(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
        let mut state = self.lock();
        let (from, mut to) = span(offset_bytes, length_bytes);
        if to > state.bytes.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if to < state.bytes.len() && state.bytes[to] != 0 && state.strikes(Fault::LongZero) {
            to += 1;
        } else if state.bytes[to - 1] != 0 && state.strikes(Fault::ShortZero) {
            to -= 1;
        }
        state.remember(from, to);
        state.bytes[from..to].fill(0);
        Ok(())
    }
}

impl State {
    fn remember(&mut self, from: usize, to: usize) {
        self.before[from..to].copy_from_slice(&self.bytes[from..to]);
    }

    fn strikes(&mut self, fault: Fault) -> bool {
        match self.fault {
            Some((wanted, 0)) if wanted == fault => {
                self.fault = None;
                self.struck += 1;
                true
            }
            Some((wanted, after)) if wanted == fault => {
                self.fault = Some((wanted, after - 1));
                false
            }
            _ => false,
        }
    }
}

fn span(offset_bytes: u64, length_bytes: u64) -> (usize, usize) {
    let from = usize::try_from(offset_bytes).expect("fits");
    (from, from + usize::try_from(length_bytes).expect("fits"))
}

impl Target for FaultyTarget {
    fn size_bytes(&self) -> io::Result<u64> {
        Ok(u64::try_from(self.lock().bytes.len()).expect("fits"))
    }

    fn alignment(&self) -> Alignment {
        Alignment {
            io_bytes: self.align_bytes,
            range_bytes: self.align_bytes,
            stripe_bytes: self.align_bytes,
        }
    }

    fn has_discard(&self) -> bool {
        true
    }

    fn read_at(&self, into: &mut [u8], offset_bytes: u64) -> io::Result<()> {
        let mut state = self.lock();
        let (from, to) = span(offset_bytes, u64::try_from(into.len()).expect("fits"));
        if to > state.bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let is_stale =
            state.before[from..to] != state.bytes[from..to] && state.strikes(Fault::StaleRead);
        into.copy_from_slice(if is_stale {
            &state.before[from..to]
        } else {
            &state.bytes[from..to]
        });
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> io::Result<()> {
        let mut state = self.lock();
        let (from, to) = span(offset_bytes, u64::try_from(bytes.len()).expect("fits"));
        if to > state.bytes.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if state.strikes(Fault::FailedWrite) {
            return Err(io::Error::from_raw_os_error(5));
        }
        state.remember(from, to);
        let half = bytes.len() / 2;
        if state.strikes(Fault::LostWrite) {
            // Acknowledged.
        } else if half > 0 && state.strikes(Fault::TornWrite) {
            state.bytes[from..from + half].copy_from_slice(&bytes[..half]);
        } else if half > 0 && state.strikes(Fault::ShiftedWrite) {
            state.bytes[from + 1..to].copy_from_slice(&bytes[..bytes.len() - 1]);
        } else {
            state.bytes[from..to].copy_from_slice(bytes);
            if to < state.bytes.len() && state.strikes(Fault::WidenedWrite) {
                state.bytes[to] ^= 1;
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        if self.lock().strikes(Fault::FailedSync) {
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(())
    }

    fn punch_hole(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
        self.zero(offset_bytes, length_bytes)
    }

    fn zero_range(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
        self.zero(offset_bytes, length_bytes)
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
        let (from, to) = span(offset_bytes, length_bytes);
        {
            let mut state = self.lock();
            let has_bytes = state.bytes[from..to].iter().any(|&byte| byte != 0);
            if has_bytes && state.strikes(Fault::SkippedDiscard) {
                return Ok(());
            }
        }
        self.zero(offset_bytes, length_bytes)
    }
}
