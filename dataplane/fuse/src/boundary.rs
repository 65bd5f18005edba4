//! The one call of the classic transport that has no safe form.

use std::os::fd::{AsFd, AsRawFd};

use rustix::io;
use rustix::ioctl::{Setter, ioctl, opcode};

/// `FUSE_DEV_IOC_CLONE`.
const DEVICE_CLONE: rustix::ioctl::Opcode = opcode::read::<u32>(229, 0);

/// Join the freshly opened `/dev/fuse` to the connection of `of`, with a queue of its own for
/// what it has read and not yet answered.
///
/// # Errors
/// As the ioctl.
#[allow(unsafe_code, reason = "rustix cannot know what an ioctl does with its argument")]
pub(crate) fn join_connection(fresh: impl AsFd, of: impl AsFd) -> io::Result<()> {
    // A descriptor is never negative.
    let number = u32::try_from(of.as_fd().as_raw_fd()).map_err(|_| io::Errno::BADF)?;
    // SAFETY: the kernel reads one u32 behind the pointer and keeps nothing of it.
    unsafe {
        let clone = Setter::<DEVICE_CLONE, u32>::new(number);
        ioctl(fresh, clone)
    }
}
