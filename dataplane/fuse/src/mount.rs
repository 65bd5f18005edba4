//! The mount itself: made, taken away, given up.

use std::ffi::CString;
use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, openat, statx};
use rustix::io::{Errno, write};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, UnmountFlags, fsconfig_create, fsmount,
    fsopen, mount, unmount,
};

use crate::channel::Channel;
use crate::error::FuseError;
use crate::mount_table::{MountEntry, find_mount};
use crate::options::ServeOptions;

/// How long a server is given to answer for its file's attributes.
const LOOK_TIMEOUT: Duration = Duration::from_secs(10);
const FILE_SYSTEM: &str = "fuse.grampus";

/// A mount of ours.
#[derive(Debug)]
pub(crate) struct Mount {
    mountpoint: PathBuf,
    /// The number of its connection under `/sys/fs/fuse/connections`. The kernel gives it out
    /// again once the connection is gone.
    connection: u32,
    /// The number of the mount, which is never given out again; None before Linux 6.8.
    unique: Option<u64>,
}

impl Mount {
    /// Put `channel`'s file over the mountpoint. The kernel's INIT waits in `channel` after it.
    ///
    /// # Errors
    /// [`FuseError::Mountpoint`], [`FuseError::Io`].
    pub(crate) fn attach(channel: &Channel, options: &ServeOptions) -> Result<Self, FuseError> {
        let mountpoint = ensure_mountpoint(&options.mountpoint)?;
        let data = format!(
            "fd={},rootmode={:o},user_id=0,group_id=0,allow_other,default_permissions,max_read={}",
            channel.as_fd().as_raw_fd(),
            libc::S_IFREG,
            options.max_transfer_bytes,
        );
        let data = CString::new(data)
            .map_err(|_| FuseError::Option { what: "the mount's options hold a NUL".to_owned() })?;
        let flags =
            MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::NOATIME;
        mount(options.source_name.as_str(), &mountpoint, FILE_SYSTEM, flags, data.as_c_str())
            .map_err(FuseError::io("mount the FUSE file system"))?;
        match seen_at(&mountpoint)? {
            Some(entry) if entry.file_system == FILE_SYSTEM => {
                let unique = unique_at(&mountpoint);
                Ok(Self { mountpoint, connection: entry.minor, unique })
            }
            _ => Err(FuseError::Mountpoint {
                path: mountpoint,
                reason: "the mount was made and is not seen there: look for other mounts"
                    .to_owned(),
            }),
        }
    }

    /// A mount that is not there, for tests that stand in for the kernel.
    #[cfg(test)]
    pub(crate) fn imaginary() -> Self {
        Self { mountpoint: PathBuf::from("/no such place"), connection: u32::MAX, unique: None }
    }

    /// Whether the mountpoint still shows this mount.
    pub(crate) fn is_seen(&self) -> bool {
        let seen = seen_at(&self.mountpoint);
        seen.is_ok_and(|entry| entry.is_some_and(|entry| entry.minor == self.connection))
            && unique_at(&self.mountpoint) == self.unique
    }

    /// Take the mount away; while someone has its file open, it lives on for them alone.
    /// Nothing happens when it is gone already.
    ///
    /// # Errors
    /// [`FuseError::Io`].
    pub(crate) fn detach(&self) -> Result<(), FuseError> {
        if !self.is_seen() {
            return Ok(());
        }
        let plain = unmount(&self.mountpoint, UnmountFlags::NOFOLLOW);
        let done = match plain {
            Err(Errno::BUSY) => {
                unmount(&self.mountpoint, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH)
            }
            done => done,
        };
        match done {
            // Someone else was faster.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
            Err(errno) => Err(FuseError::io("unmount")(errno)),
        }
    }

    /// End the connection: whoever waits for an answer gets an error at once.
    ///
    /// # Errors
    /// [`FuseError::Io`].
    pub(crate) fn abort(&self) -> Result<(), FuseError> {
        match abort_connection(self.connection) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(_) if self.is_seen() => {
                let flags = UnmountFlags::NOFOLLOW | UnmountFlags::FORCE | UnmountFlags::DETACH;
                unmount(&self.mountpoint, flags).map_err(FuseError::io("abort the connection"))
            }
            Err(errno) => Err(FuseError::io("abort the connection")(errno)),
        }
    }

    /// Look at the file through the mount: proof that requests are answered.
    ///
    /// # Errors
    /// [`FuseError::Unavailable`] when there is no right answer in time. The thread that looks
    /// then ends with the connection.
    pub(crate) fn verify(&self, size_bytes: u64) -> Result<(), FuseError> {
        let failed = |reason: String| Err(FuseError::Unavailable { reason });
        match look_at(&self.mountpoint) {
            Some(Ok(found)) if found == size_bytes => Ok(()),
            Some(Ok(found)) => failed(format!("the mount shows {found} bytes, not {size_bytes}")),
            Some(Err(error)) => failed(format!("the mount does not work: {error}")),
            None => failed(format!("the mount did not answer in {} s", LOOK_TIMEOUT.as_secs())),
        }
    }
}

/// The file's size; None when no answer comes in time.
fn look_at(path: &Path) -> Option<std::io::Result<u64>> {
    let (sender, receiver) = mpsc::channel();
    let path = path.to_owned();
    // A thread, since nothing else can leave a call behind that waits for a FUSE server.
    let looking = thread::Builder::new().name("fuse-look".to_owned()).spawn(move || {
        // The receiver may have lost patience.
        drop(sender.send(fs::metadata(&path).map(|metadata| metadata.len())));
    });
    match looking {
        Ok(_) => receiver.recv_timeout(LOOK_TIMEOUT).ok(),
        Err(error) => Some(Err(error)),
    }
}

/// The mountpoint's full path, once it is free. What a server left behind that was killed is
/// taken away.
fn ensure_mountpoint(asked: &Path) -> Result<PathBuf, FuseError> {
    let refused = |reason: String| FuseError::Mountpoint { path: asked.to_owned(), reason };
    let absolute = std::path::absolute(asked).map_err(|error| refused(error.to_string()))?;
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        return Err(refused("it is no file".to_owned()));
    };
    // Not the file itself: to resolve it may mean to ask a server that is dead.
    let parent = parent.canonicalize().map_err(|error| refused(error.to_string()))?;
    let mountpoint = parent.join(name);
    if let Some(entry) = seen_at(&mountpoint)? {
        let in_use = || {
            refused(format!("something is mounted there ({}): unmount it first", entry.file_system))
        };
        let dead = entry.file_system == FILE_SYSTEM
            && matches!(look_at(&mountpoint), Some(Err(error))
                if error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()));
        if !dead {
            return Err(in_use());
        }
        unmount(&mountpoint, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH)
            .map_err(FuseError::io("unmount what a dead server left"))?;
        if seen_at(&mountpoint)?.is_some() {
            return Err(in_use());
        }
    }
    let metadata = fs::symlink_metadata(&mountpoint).map_err(|error| refused(error.to_string()))?;
    if !metadata.is_file() {
        return Err(refused("it is not a regular file: create an empty one".to_owned()));
    }
    Ok(mountpoint)
}

fn seen_at(mountpoint: &Path) -> Result<Option<MountEntry>, FuseError> {
    let table =
        fs::read("/proc/self/mountinfo").map_err(FuseError::std_io("read /proc/self/mountinfo"))?;
    Ok(find_mount(&table, mountpoint))
}

/// The number of the mount that is seen there, without asking its server for anything.
fn unique_at(mountpoint: &Path) -> Option<u64> {
    /// `STATX_MNT_ID_UNIQUE`
    const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
    let quietly = AtFlags::STATX_DONT_SYNC | AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let found = statx(CWD, mountpoint, quietly, UNIQUE).ok()?;
    (found.stx_mask & UNIQUE.bits() != 0).then_some(found.stx_mnt_id)
}

/// Through a private mount of the control file system, which need not be mounted anywhere.
fn abort_connection(number: u32) -> Result<(), Errno> {
    let context = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let control = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let switch = openat(&control, format!("{number}/abort"), flags, Mode::empty())?;
    write(&switch, b"1").map(drop)
}
