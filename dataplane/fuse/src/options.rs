//! What a caller may choose.

use std::path::PathBuf;

use crate::error::FuseError;

/// How requests reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransportChoice {
    /// `io_uring` where the kernel has it, else classic; the status says why.
    #[default]
    Auto,
    /// `io_uring`, or an error.
    Uring,
    /// `read` and `write` on `/dev/fuse`.
    Classic,
}

/// How to serve a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeOptions {
    /// An existing regular file, which the mount covers.
    pub mountpoint: PathBuf,
    /// Which transport.
    pub transport: TransportChoice,
    /// The most that one read or write carries: 64 KiB to 1 MiB, a multiple of 64 KiB.
    pub max_transfer_bytes: u32,
    /// Threads of the classic transport: 1 to 64.
    pub classic_threads: u16,
    /// Requests that one queue of the `io_uring` transport holds at a time: 1 to 1024. Fewer are
    /// made where the machine has so many CPUs that their buffers would pass 1 GiB.
    pub ring_entries: u16,
    /// Asynchronous requests that the kernel keeps in flight on the whole mount: at least 1.
    pub max_background: u16,
    /// Shown as the source in the mount table, such as `pool/image`.
    pub source_name: String,
    /// Pin each thread of the `io_uring` transport to its queue's CPU.
    pub pin_threads: bool,
}

impl ServeOptions {
    /// The defaults for `mountpoint`: 1 MiB transfers, 4 classic threads, 32 entries a queue, 256
    /// requests in the background, pinned.
    #[must_use]
    pub fn new(mountpoint: impl Into<PathBuf>) -> Self {
        Self {
            mountpoint: mountpoint.into(),
            transport: TransportChoice::Auto,
            max_transfer_bytes: 1 << 20,
            classic_threads: 4,
            ring_entries: 32,
            max_background: 256,
            source_name: "grampus".to_owned(),
            pin_threads: true,
        }
    }

    /// # Errors
    /// [`FuseError::Option`] names the first value outside its limits.
    pub(crate) fn validate(&self) -> Result<(), FuseError> {
        let refused = |what: &str| Err(FuseError::Option { what: what.to_owned() });
        let transfer = self.max_transfer_bytes;
        // Whole pages on every machine: pages have 4, 16 or 64 KiB.
        if !(64 << 10..=1 << 20).contains(&transfer) || transfer % (64 << 10) != 0 {
            return refused("max_transfer_bytes must be a multiple of 64 KiB up to 1 MiB");
        }
        if !(1..=64).contains(&self.classic_threads) {
            return refused("classic_threads must be 1 to 64");
        }
        if !(1..=1024).contains(&self.ring_entries) {
            return refused("ring_entries must be 1 to 1024");
        }
        if self.max_background == 0 {
            return refused("max_background must be at least 1");
        }
        if self.source_name.is_empty() || self.source_name.contains('\0') {
            return refused("source_name must not be empty and holds no NUL");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_outside_their_limits_are_refused() {
        let good = ServeOptions::new("/x");
        assert!(good.validate().is_ok());
        for bytes in [0, 4096, 65535, 65537, 100 << 10, (1 << 20) + (64 << 10), u32::MAX] {
            let options = ServeOptions { max_transfer_bytes: bytes, ..good.clone() };
            assert!(options.validate().is_err(), "{bytes}");
        }
        for bytes in [64 << 10, 128 << 10, 1 << 20] {
            let options = ServeOptions { max_transfer_bytes: bytes, ..good.clone() };
            assert!(options.validate().is_ok(), "{bytes}");
        }
        for (threads, entries, background, valid) in [
            (1, 1, 1, true),
            (64, 1024, u16::MAX, true),
            (0, 1, 1, false),
            (65, 1, 1, false),
            (1, 0, 1, false),
            (1, 1025, 1, false),
            (1, 1, 0, false),
        ] {
            let options = ServeOptions {
                classic_threads: threads,
                ring_entries: entries,
                max_background: background,
                ..good.clone()
            };
            assert_eq!(options.validate().is_ok(), valid, "{options:?}");
        }
        for name in ["", "a\0b"] {
            let options = ServeOptions { source_name: name.to_owned(), ..good.clone() };
            assert!(options.validate().is_err(), "{name:?}");
        }
    }
}
