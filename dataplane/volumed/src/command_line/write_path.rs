//! How writes come to an image, as the command line says it.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::local_place::{LocalPlace, MAX_LOG_BYTES, MIN_LOG_BYTES};
use crate::rbd_source::{
    DEFAULT_JOURNAL_MEMORY_BYTES, MAX_JOURNAL_MEMORY_BYTES, MIN_JOURNAL_MEMORY_BYTES, RbdSource,
    WritePath,
};

/// How writes come to the image, and what the volume keeps for that.
#[derive(Debug, Args)]
pub(super) struct WriteArguments {
    /// How writes come to the image
    #[arg(long, value_enum, default_value_t = WritePathName::Direct)]
    write_path: WritePathName,
    /// With `journal` and `cache`: the pool of a journal that begins, if it is not to be the
    /// image's; one that is there stays where it is
    #[arg(long, value_name = "POOL", requires = "image")]
    journal_pool: Option<String>,
    /// With `journal` and `cache`: what data that waits to be applied may take of this process's
    /// memory; writes wait when it is full
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_JOURNAL_MEMORY_BYTES,
        value_parser = clap::value_parser!(u64)
            .range(MIN_JOURNAL_MEMORY_BYTES..=MAX_JOURNAL_MEMORY_BYTES))]
    journal_memory: u64,
    /// With `journal` and `cache`: flushes do not come here, since they are about the order of
    /// writes alone; a write is durable after 100 ms, and one with `O_DSYNC` when it is done
    #[arg(long)]
    ordered: bool,
    /// What the volume keeps on this host's own disk.
    #[command(flatten)]
    local: LocalArguments,
}

impl WriteArguments {
    /// The write path, and the directory on the host.
    pub(super) fn ways(&self) -> (WritePath, Option<LocalPlace>) {
        let write_path = match self.write_path {
            WritePathName::Direct => WritePath::Direct,
            WritePathName::Journal => WritePath::Journal,
            WritePathName::Cache => WritePath::Cache,
        };
        (write_path, self.local.place())
    }

    /// The source with the settings of its journal.
    pub(super) fn apply_to(&self, source: RbdSource) -> RbdSource {
        RbdSource {
            journal_pool: self.journal_pool.clone(),
            journal_memory_bytes: self.journal_memory,
            is_ordered: self.ordered,
            ..source
        }
    }
}

/// What a volume keeps on the host's own disk.
#[derive(Debug, Args)]
struct LocalArguments {
    /// The volume's directory on this host, for `--write-path cache`. A log that an earlier life
    /// left there is brought into the volume with any write path
    #[arg(long, value_name = "DIR", required_if_eq("write_path", "cache"))]
    local_dir: Option<PathBuf>,
    /// With `cache`: what the loss of this host may cost; flushes wait when the cluster is farther
    /// behind
    #[arg(long, value_name = "N", default_value_t = 100,
        value_parser = clap::value_parser!(u64).range(1..=60_000))]
    max_lag_ms: u64,
    /// With `cache`: the size of a log that is made
    #[arg(long, value_name = "N", default_value_t = 256 << 20,
        value_parser = clap::value_parser!(u64).range(MIN_LOG_BYTES..=MAX_LOG_BYTES))]
    local_log_bytes: u64,
    /// With `cache`: the size of the read cache; 0 for none
    #[arg(long, value_name = "N", default_value_t = 1 << 30)]
    read_cache_bytes: u64,
}

impl LocalArguments {
    fn place(&self) -> Option<LocalPlace> {
        let directory = self.local_dir.clone()?;
        Some(LocalPlace {
            max_lag: Duration::from_millis(self.max_lag_ms),
            log_bytes: self.local_log_bytes,
            read_cache_bytes: self.read_cache_bytes,
            ..LocalPlace::new(directory)
        })
    }
}

/// Which write path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WritePathName {
    /// A write is a write to the image
    Direct,
    /// A flush appends what was written to a journal beside the image
    Journal,
    /// A flush appends what was written to a log on this host's disk, which is shipped to the
    /// journal behind it; with a read cache on the same disk
    Cache,
}
