//! Account kept in files.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use grampus_testkit::ledger::{Account, LedgerFile, Record, Stamp};

/// A ledger, a file of stamps if wanted, and a file whose being there ends the writers.
pub(crate) struct FileAccount {
    ledger: LedgerFile,
    stamps: Option<File>,
    stop_file: Option<PathBuf>,
}

impl FileAccount {
    pub(crate) fn new(
        ledger: LedgerFile,
        stamps: Option<&Path>,
        stop_file: Option<PathBuf>,
    ) -> io::Result<Self> {
        let open = |path| OpenOptions::new().append(true).create(true).open(path);
        Ok(Self { ledger, stamps: stamps.map(open).transpose()?, stop_file })
    }
}

impl Account for FileAccount {
    fn record(&mut self, record: &Record) -> io::Result<()> {
        self.ledger.append(record)
    }

    fn stamp(&mut self, stamp: &Stamp) -> io::Result<()> {
        match &mut self.stamps {
            Some(file) => file.write_all(format!("{stamp}\n").as_bytes()),
            None => Ok(()),
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop_file.as_ref().is_some_and(|path| path.exists())
    }
}
