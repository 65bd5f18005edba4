//! Memory that the allocator keeps for nobody.
//!
//! librbd and the journal allocate much, and an allocator keeps what was given back to it. Where
//! memory is locked it cannot even give it back: the kernel refuses. So a volume that was busy once
//! would hold its memory for good.
#![allow(unsafe_code, reason = "calls into whichever allocator is there")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;

use crate::process;

/// Less than this is not worth the call, and is soon needed again.
const KEPT_BYTES: usize = 1 << 20;
/// So much is given back at a time: the allocator's users wait meanwhile.
const STEP_BYTES: usize = 64 << 20;
/// What freed pieces may wait in for the thread that freed them, over all threads. tcmalloc's own
/// 32 MiB are as much as everything else that an idle daemon has.
const THREAD_CACHES_BYTES: usize = 8 << 20;

const FREE_PAGES: &CStr = c"tcmalloc.pageheap_free_bytes";
const THREAD_CACHES: &CStr = c"tcmalloc.max_total_thread_cache_bytes";

type ReadNumber = unsafe extern "C" fn(*const c_char, *mut usize) -> c_int;
type SetNumber = unsafe extern "C" fn(*const c_char, usize) -> c_int;
type Release = unsafe extern "C" fn(usize);

/// The allocator of this process.
pub(crate) enum Heap {
    /// tcmalloc, as preloaded for librbd.
    Tcmalloc {
        /// Reads one of its numbers.
        read: ReadNumber,
        /// Gives so many bytes back.
        release: Release,
    },
    /// The C library's own.
    System,
}

impl Heap {
    /// The allocator that is there, told to keep little.
    pub(crate) fn find() -> Self {
        let read = find(c"MallocExtension_GetNumericProperty");
        let set = find(c"MallocExtension_SetNumericProperty");
        let release = find(c"MallocExtension_ReleaseToSystem");
        let (Some(read), Some(set), Some(release)) = (read, set, release) else {
            return Self::System;
        };
        // SAFETY: functions of tcmalloc by these names have these types (gperftools'
        // malloc_extension_c.h).
        let (read, set, release) = unsafe {
            (
                mem::transmute::<*mut c_void, ReadNumber>(read),
                mem::transmute::<*mut c_void, SetNumber>(set),
                mem::transmute::<*mut c_void, Release>(release),
            )
        };
        // SAFETY: the name ends in NUL. Were it refused, the caches would be bigger.
        unsafe { set(THREAD_CACHES.as_ptr(), THREAD_CACHES_BYTES) };
        Self::Tcmalloc { read, release }
    }

    /// Give back what nobody has needed, if there is enough of it.
    pub(crate) fn trim(&self, is_locked: bool) {
        let Some(step) = decide_step(self.free_bytes()) else { return };
        let released = if is_locked {
            process::unlocked(|| self.release(step))
        } else {
            self.release(step);
            Ok(())
        };
        if let Err(error) = released {
            tracing::warn!(%error, "memory is not locked any more");
        }
    }

    fn free_bytes(&self) -> usize {
        match self {
            Self::Tcmalloc { read, .. } => {
                let mut bytes = 0;
                // SAFETY: the name ends in NUL, and the number's place outlives the call.
                let known = unsafe { read(FREE_PAGES.as_ptr(), &raw mut bytes) };
                if known == 0 { 0 } else { bytes }
            }
            // SAFETY: the call takes nothing and only reads.
            Self::System => unsafe { libc::mallinfo2() }.fordblks,
        }
    }

    fn release(&self, bytes: usize) {
        match self {
            // SAFETY: tcmalloc locks for itself, and gives back only what nobody has.
            Self::Tcmalloc { release, .. } => unsafe { release(bytes) },
            Self::System => {
                // SAFETY: as above; it gives back all that it can.
                unsafe { libc::malloc_trim(KEPT_BYTES) };
            }
        }
    }
}

fn find(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends in NUL; a look among what is loaded changes nothing.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// How much of what is free to give back now.
fn decide_step(free_bytes: usize) -> Option<usize> {
    (free_bytes >= KEPT_BYTES).then(|| free_bytes.min(STEP_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_free_is_given_back_in_steps_and_a_little_is_kept() {
        for (free_mib, step_mib) in [(0, None), (1, Some(1)), (4, Some(4)), (600, Some(64))] {
            assert_eq!(decide_step(free_mib << 20), step_mib.map(|mib: usize| mib << 20));
        }
    }

    #[test]
    fn any_allocator_can_be_asked() {
        let heap = Heap::find();
        drop(vec![7_u8; 100_000]);
        heap.trim(false);
        assert!(heap.free_bytes() < 1 << 40);
    }
}
