//! Which image a volume is, and how it is opened.

use std::path::PathBuf;

use grampus_sealing::Secret;

use crate::encryption::LUKS2;
use crate::local_place::LocalPlace;

/// Ceph options that hold unless the command line says otherwise.
///
/// Measured with librbd 1.20 on two busy cores, medians of four rounds, CPU time of this process
/// for each request: without copies 835 instead of 1013 us for a write of 1 MiB; without librbd's
/// scheduler 72 instead of 96 us for a read of 16 KiB, 122 instead of 144 us for such a write.
pub const DEFAULT_CEPH_OPTIONS: [(&str, &str); 7] = [
    // A cluster that is silent is waited for; a limit in somebody's ceph.conf would make an outage
    // an I/O error (INV-68).
    ("rados_osd_op_timeout", "0"),
    // The page cache above is the cache; a second one only adds copies and a dirty state.
    ("rbd_cache", "false"),
    // A write's memory is ours and stays as it is until its answer: librbd need not copy it.
    ("rbd_disable_zero_copy_writes", "false"),
    // It waits for neighbours to merge with. The kernel above has merged already.
    ("rbd_io_scheduler", "none"),
    // How many objects are copied at once when the image is flattened, migrated or rolled back:
    // librbd leaves that to whoever holds the lock, so what the asking command was told counts for
    // nothing. With librbd's own 10 writers of the same cluster waited for more than a second.
    ("rbd_concurrent_management_ops", "2"),
    // A host serves hundreds of volumes, and each is a client of its own. One thread for its
    // connections and one for its answers carry more than a cluster answers for one volume.
    ("ms_async_op_threads", "1"),
    ("librados_thread_count", "1"),
];

/// Besides, for an image that is encrypted.
///
/// What was never written of an object that is there reads as zeros from the OSD, which librbd
/// would decrypt, to bytes that nobody wrote. A sparse read says what is there; 1 means: always.
/// (Tried with librbd 1.20: with the default of 64 KiB such a place brought other bytes, with 1
/// zeros.)
pub const ENCRYPTED_CEPH_OPTIONS: [(&str, &str); 1] = [("rbd_sparse_read_threshold_bytes", "1")];

/// The journal's own default: a busy volume fills it, and an idle one takes none of it.
pub const DEFAULT_JOURNAL_MEMORY_BYTES: u64 = 256 << 20;
/// With less a single batch would fill it.
pub const MIN_JOURNAL_MEMORY_BYTES: u64 = 16 << 20;
/// More than the longest ring holds brings nothing.
pub const MAX_JOURNAL_MEMORY_BYTES: u64 = 1 << 30;

/// Which image, and how to reach its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RbdSource {
    /// The pool's name.
    pub pool: String,
    /// The namespace in the pool; None for the default one.
    pub namespace: Option<String>,
    /// The image's name.
    pub image: String,
    /// The Ceph user, without `client.`.
    pub user: String,
    /// ceph.conf; None for where Ceph itself looks.
    pub conf: Option<PathBuf>,
    /// Ceph options that go before [`DEFAULT_CEPH_OPTIONS`] and the file's.
    pub ceph_options: Vec<(String, String)>,
    /// Whether to take the exclusive lock.
    pub lock: bool,
    /// How writes come to the image.
    pub write_path: WritePath,
    /// What the volume has, or may have, on this host's own disk. Needed with
    /// [`WritePath::Cache`].
    pub local: Option<LocalPlace>,
    /// The pool of a journal that begins; None for that of the image.
    pub journal_pool: Option<String>,
    /// What the data in the journal that waits to be applied may take of this process's memory.
    pub journal_memory_bytes: u64,
    /// Its users flush it for the sake of order alone, and their flushes do not come here.
    pub is_ordered: bool,
    /// Open the volume without what a damaged journal has lost.
    pub accept_damage: bool,
    /// The key of an image that is encrypted. It stays: the image may be opened again.
    pub secret: Option<Secret>,
}

/// How writes come to the image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WritePath {
    /// A write is a write to the image.
    #[default]
    Direct,
    /// A flush appends what was written to a journal beside the image, which is applied behind it.
    Journal,
    /// A flush appends to a log on the host's own disk, which is shipped to the journal behind it;
    /// a read cache lies beside the log.
    Cache,
}

impl WritePath {
    /// As the command line and the protocol spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Journal => "journal",
            Self::Cache => "cache",
        }
    }
}

impl RbdSource {
    /// `pool/image` or `pool/namespace/image`.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{}/{namespace}/{}", self.pool, self.image),
            None => format!("{}/{}", self.pool, self.image),
        }
    }

    /// How it is encrypted, as the protocol spells it.
    #[must_use]
    pub fn encryption(&self) -> Option<&'static str> {
        self.secret.as_ref().map(|_| LUKS2)
    }

    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        let encrypted = self.secret.iter().flat_map(|_| ENCRYPTED_CEPH_OPTIONS);
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let defaults = DEFAULT_CEPH_OPTIONS.into_iter().chain(encrypted).map(owned);
        defaults.chain(self.ceph_options.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_command_line_come_after_the_defaults() {
        let source = RbdSource {
            pool: "rbd".to_owned(),
            namespace: None,
            image: "disk".to_owned(),
            user: "admin".to_owned(),
            conf: None,
            ceph_options: vec![("rbd_cache".to_owned(), "true".to_owned())],
            lock: true,
            write_path: WritePath::Direct,
            local: None,
            journal_pool: None,
            journal_memory_bytes: DEFAULT_JOURNAL_MEMORY_BYTES,
            is_ordered: false,
            accept_damage: false,
            secret: None,
        };
        // Ceph takes the last one.
        let last = source.settings().into_iter().rfind(|(key, _)| key == "rbd_cache");
        assert_eq!(last.map(|(_, value)| value).as_deref(), Some("true"));
        let sparse = ("rbd_sparse_read_threshold_bytes".to_owned(), "1".to_owned());
        assert!(!source.settings().contains(&sparse));
        let secret = Secret::parse(&[b'1'; 64]).ok();
        let encrypted = RbdSource { secret, ..source.clone() };
        assert!(encrypted.settings().contains(&sparse), "zeros are zeros (INV-7)");
        assert_eq!(source.name(), "rbd/disk");
        assert_eq!(RbdSource { namespace: Some("a".into()), ..source }.name(), "rbd/a/disk");
    }
}
