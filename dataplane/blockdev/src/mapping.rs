//! Memory that takes no room before it is used, and that can be given back without moving.
//!
//! An allocator writes zeros over what it hands out, or keeps what was given back to it: a buffer
//! of 1 MiB then takes 1 MiB for good. Pages that come straight from the kernel take what was
//! touched.

#![allow(unsafe_code, reason = "mapping memory and giving it back are calls into the kernel")]

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Private pages of zeros, owned.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to this value alone, as that of a box does.
unsafe impl Send for Mapping {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Map so many bytes, at least one.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses an address where nothing is.
        let start =
            unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes })
    }

    /// Give back the pages that lie wholly behind the first `kept_bytes`; they read as zeros.
    pub(crate) fn release_behind(&mut self, kept_bytes: usize) {
        let kept = kept_bytes.next_multiple_of(rustix::param::page_size());
        let Some(left) = self.bytes.checked_sub(kept).filter(|left| *left > 0) else { return };
        // SAFETY: the range lies in this mapping, which `&mut self` says nobody else looks at; its
        // pages are private and of no file, so they become zeros, which are valid bytes.
        // Refused: the memory stays, with what it holds.
        unsafe {
            let behind = self.start.as_ptr().add(kept).cast();
            // Where memory is locked the plain advice is refused; before Linux 5.18 the other is
            // not known.
            madvise(behind, left, Advice::LinuxDontneedLocked)
                .or_else(|_| madvise(behind, left, Advice::LinuxDontNeed))
                .ok();
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with these values, and nobody has a reference any more.
        // Were it refused, the memory would stay mapped, which harms nobody.
        unsafe { munmap(self.start.as_ptr().cast(), self.bytes) }.ok();
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped for reading over this length until it is dropped; always initialised.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Mapping {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` is the only reference.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}
