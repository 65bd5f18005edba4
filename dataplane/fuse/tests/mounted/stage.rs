//! A device mounted in a directory of its own.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use grampus_blockdev::{BlockDevice, BlockSize, Geometry, MemoryDevice};
use grampus_fuse::{ServeOptions, Session, TransportChoice, TransportKind, probe};
use tempfile::TempDir;

pub(crate) const SIZE_BYTES: u64 = 8 << 20;

/// The transports that this machine can be tested with; says which are left out, and why.
pub(crate) fn transports() -> Vec<TransportChoice> {
    let required = std::env::var("GRAMPUS_REQUIRE_FUSE").is_ok_and(|value| value == "1");
    let found = probe();
    let root = rustix::process::geteuid().is_root();
    let skip = |what: &str| {
        assert!(!required, "{what}, and GRAMPUS_REQUIRE_FUSE=1");
        eprintln!("skipped: {what}");
    };
    if !found.fuse || !root {
        skip(&format!("a mount needs root (here: {root}) and FUSE (here: {})", found.reason));
        return Vec::new();
    }
    if !found.uring {
        skip(&format!("only the classic transport: {}", found.reason));
        return vec![TransportChoice::Classic];
    }
    vec![TransportChoice::Classic, TransportChoice::Uring]
}

pub(crate) fn memory() -> Arc<dyn BlockDevice> {
    let geometry = Geometry::new(SIZE_BYTES, BlockSize::B4096).unwrap();
    Arc::new(MemoryDevice::new(geometry).unwrap())
}

pub(crate) struct Stage {
    /// None once a test has taken it.
    pub(crate) session: Option<Session>,
    pub(crate) mountpoint: PathBuf,
    _directory: TempDir,
}

impl Stage {
    pub(crate) fn new(device: Arc<dyn BlockDevice>, transport: TransportChoice) -> Self {
        Self::with(device, transport, |_| {})
    }

    pub(crate) fn with(
        device: Arc<dyn BlockDevice>,
        transport: TransportChoice,
        change: impl FnOnce(&mut ServeOptions),
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mountpoint = directory.path().join("a volume");
        File::create(&mountpoint).unwrap();
        let mut options = ServeOptions { transport, ..ServeOptions::new(&mountpoint) };
        "test/image".clone_into(&mut options.source_name);
        change(&mut options);
        let session = Session::mount(device, &options).unwrap();
        let kind = match transport {
            TransportChoice::Classic => TransportKind::Classic,
            _ => TransportKind::Uring,
        };
        assert_eq!(session.transport().kind, kind, "{:?}", session.transport());
        Self { session: Some(session), mountpoint, _directory: directory }
    }

    pub(crate) fn open(&self) -> File {
        OpenOptions::new().read(true).write(true).open(&self.mountpoint).unwrap()
    }

    pub(crate) fn session(&self) -> &Session {
        self.session.as_ref().unwrap()
    }

    /// Unmount and wait: the end that every test should have that breaks nothing.
    pub(crate) fn end(mut self) {
        let session = self.session.take().unwrap();
        session.handle().unmount().unwrap();
        session.wait().unwrap();
        assert!(!is_mounted(&self.mountpoint));
    }
}

pub(crate) fn is_mounted(path: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    table.contains(&path.to_str().unwrap().replace(' ', "\\040"))
}
