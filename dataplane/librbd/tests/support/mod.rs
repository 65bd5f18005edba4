//! A loaded copy of the library in memory, for one test alone.
#![allow(dead_code, reason = "each test file uses what it needs")]
#![allow(unsafe_code, reason = "telling the library what to do")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::indexing_slicing, reason = "tests")]

pub(crate) mod guarded;

use std::ffi::{CString, c_char};
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use grampus_blockdev::{
    Buffer, ByteRange, Completion, CompletionSink, Durability, Length, Offset, Outcome, Request,
    Token,
};
use grampus_librbd::{Cluster, ConnectOptions, ImageSpec, Libraries, LoadError, RbdImage};
use libloading::os::unix::{Library, Symbol};
use tempfile::TempDir;

/// The copy, and the way to tell it what to do.
pub(crate) struct Fake {
    pub(crate) path: PathBuf,
    pub(crate) libraries: Arc<Libraries>,
    control: Symbol<unsafe extern "C" fn(*const c_char) -> i64>,
    _library: Library,
    _directory: TempDir,
}

impl Fake {
    pub(crate) fn load() -> Self {
        Self::without(&[]).unwrap()
    }

    /// A build that lacks these functions: their names in the file's table are altered.
    pub(crate) fn without(symbols: &[&str]) -> Result<Self, LoadError> {
        let built = std::env::current_exe().unwrap();
        let built = built.parent().unwrap().join("libgrampus_librbd_fake.so");
        let mut bytes = fs::read(&built).unwrap();
        for symbol in symbols {
            let name = [b"\0", symbol.as_bytes(), b"\0"].concat();
            let mut found = 0;
            for at in 0..bytes.len() - name.len() {
                if bytes[at..at + name.len()] == name {
                    bytes[at + 1] = b'X';
                    found += 1;
                }
            }
            assert!(found > 0, "{symbol} is not in the library");
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("librbd.so");
        fs::write(&path, bytes).unwrap();
        let libraries = Libraries::load_from(&path, &path)?;
        // SAFETY: the library was loaded above; loading it again runs nothing.
        let library = unsafe { Library::new(&path) }.unwrap();
        // SAFETY: the function has this type.
        let control = unsafe { library.get(b"fake_control") }.unwrap();
        Ok(Self { path, libraries, control, _library: library, _directory: directory })
    }

    /// See `fake_control` in fake/src/control.rs.
    pub(crate) fn tell(&self, command: &str) -> i64 {
        let command = CString::new(command).unwrap();
        // SAFETY: the text ends in NUL.
        unsafe { (self.control)(command.as_ptr()) }
    }

    pub(crate) fn count(&self, function: &str) -> i64 {
        self.tell(&format!("count {function}"))
    }

    pub(crate) fn cluster(&self) -> Arc<Cluster> {
        self.cluster_with(&[])
    }

    fn cluster_with(&self, settings: &[(&str, &str)]) -> Arc<Cluster> {
        let settings =
            settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let options =
            ConnectOptions { user: "tester".to_owned(), settings, ..ConnectOptions::default() };
        Cluster::connect(Arc::clone(&self.libraries), &options).unwrap()
    }

    pub(crate) fn image(&self) -> Arc<RbdImage> {
        RbdImage::open(self.cluster(), &spec()).unwrap()
    }

    /// One whose librbd has no cache of its own.
    pub(crate) fn image_without_cache(&self) -> Arc<RbdImage> {
        RbdImage::open(self.cluster_with(&[("rbd_cache", "false")]), &spec()).unwrap()
    }

    /// All is closed, and nothing was done that the real library may not survive.
    pub(crate) fn assert_clean(&self) {
        assert_eq!((self.tell("open"), self.tell("violations")), (0, 0));
    }
}

pub(crate) fn spec() -> ImageSpec {
    let (pool, image) = ("rbd".to_owned(), "disk".to_owned());
    ImageSpec { pool, image, ..ImageSpec::default() }
}

pub(crate) fn range(offset: u64, length: u64) -> ByteRange {
    ByteRange { offset: Offset::new(offset).unwrap(), length: Length::new(length).unwrap() }
}

pub(crate) fn read(offset: u64, length: usize) -> Request {
    Request::Read { offset: Offset::new(offset).unwrap(), buffer: Buffer::zeroed(length).unwrap() }
}

pub(crate) fn write(offset: u64, bytes: &[u8]) -> Request {
    write_with(offset, bytes, Durability::OnFlush)
}

pub(crate) fn write_with(offset: u64, bytes: &[u8], durability: Durability) -> Request {
    let buffer = Buffer::try_from(bytes.to_vec()).unwrap();
    Request::Write { offset: Offset::new(offset).unwrap(), buffer, durability }
}

/// A sink that passes outcomes on.
pub(crate) struct Outcomes(mpsc::Sender<(Token, Outcome)>);

impl CompletionSink for Outcomes {
    fn complete(&self, token: Token, outcome: Outcome) {
        drop(self.0.send((token, outcome)));
    }
}

pub(crate) fn outcomes() -> (Arc<Outcomes>, mpsc::Receiver<(Token, Outcome)>) {
    let (sender, receiver) = mpsc::channel();
    (Arc::new(Outcomes(sender)), receiver)
}

pub(crate) fn completion(sink: &Arc<Outcomes>, token: u64) -> Completion {
    Completion::new(Arc::<Outcomes>::clone(sink), Token(token))
}
