//! The log on this host: finding it, or making it, when a volume is opened.

use std::sync::Arc;

use grampus_journal::Config;
use grampus_journaled::{LocalLog, LocalLogError, LogFile};

use crate::local_place::LocalPlace;
use crate::rbd_source::{RbdSource, WritePath};
use crate::volume::{VolumeError, chain};

/// The log of a volume that is being opened.
#[derive(Debug)]
pub(crate) struct FoundLog {
    pub(crate) log: Option<Arc<LogFile>>,
    /// It was there before.
    was_there: bool,
    /// Why there is none although the write path wants one.
    pub(crate) degraded: Option<String>,
}

/// The log on this host: the one that is there, or, for the write path `cache`, a new one.
///
/// A disk that gives no room for a new one costs speed and nothing else. One that is there and
/// cannot be read may hold what was acknowledged: its user decides.
pub(crate) fn find_log(source: &RbdSource) -> Result<FoundLog, VolumeError> {
    let wanted = source.write_path == WritePath::Cache;
    let none = |degraded| FoundLog { log: None, was_there: false, degraded };
    let Some(place) = &source.local else { return Ok(none(None)) };
    let path = place.log_path();
    let refused = |reason: String| {
        VolumeError::new(format!("The log {} cannot be used: {reason}", path.display()))
    };
    let is_there = path.try_exists().map_err(|error| refused(format!("{error}.")))?;
    if !is_there && !wanted {
        return Ok(none(None));
    }
    match LogFile::open(&path, place.config().ring) {
        Ok(log) => Ok(FoundLog { log: Some(Arc::new(log)), was_there: is_there, degraded: None }),
        Err(error @ (LocalLogError::NoSpace { .. } | LocalLogError::Io { .. })) if !is_there => {
            let reason = chain(&error);
            tracing::warn!(
                reason,
                "there is no log on this host's disk: flushes wait for the cluster"
            );
            Ok(none(Some(reason)))
        }
        Err(error) => Err(refused(format!(
            "{}. It may hold what was acknowledged and is nowhere else; moved away, it is lost to \
             the volume.",
            chain(&error)
        ))),
    }
}

/// The journal's settings for `source`, of `size_bytes`, with the log that was found.
pub(crate) fn decide_config(source: &RbdSource, found: &FoundLog, size_bytes: u64) -> Config {
    let caches = source.write_path == WritePath::Cache && found.log.is_some();
    let place = source.local.as_ref().filter(|_| caches);
    let config = Config {
        cache: place.map(LocalPlace::config),
        max_held_bytes: source.journal_memory_bytes,
        ..Config::for_volume(size_bytes)
    };
    if source.is_ordered { config.for_order() } else { config }
}

impl FoundLog {
    pub(crate) fn port(&self) -> Option<Arc<dyn LocalLog>> {
        let log = Arc::clone(self.log.as_ref()?);
        Some(log)
    }

    /// Its host and path; nothing where there is none.
    pub(crate) fn place(&self) -> String {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        self.log.as_ref().map_or(String::new(), |log| format!("{host}:{}", log.path().display()))
    }

    /// Whether this log, as it was found, is not the one at `place`.
    pub(crate) fn was_not(&self, place: &str) -> bool {
        !self.was_there || self.place() != place
    }

    /// The logs that were set aside beside it: each may hold what was acknowledged and the volume
    /// lacks.
    pub(crate) fn asides(&self) -> Vec<String> {
        let found = self.log.as_ref().map(|log| log.asides());
        let paths = found.unwrap_or(Ok(Vec::new())).unwrap_or_else(|error| {
            tracing::warn!(reason = chain(&error), "cannot look for logs that were set aside");
            Vec::new()
        });
        paths.iter().map(|path| path.display().to_string()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::local_place::MIN_LOG_BYTES;
    use crate::rbd_source::MIN_JOURNAL_MEMORY_BYTES;

    fn source(write_path: WritePath, local: Option<LocalPlace>) -> RbdSource {
        RbdSource {
            pool: "rbd".to_owned(),
            namespace: None,
            image: "disk".to_owned(),
            user: "admin".to_owned(),
            conf: None,
            ceph_options: Vec::new(),
            lock: true,
            write_path,
            local,
            journal_pool: None,
            journal_memory_bytes: MIN_JOURNAL_MEMORY_BYTES,
            is_ordered: false,
            accept_damage: false,
            secret: None,
        }
    }

    fn place(directory: PathBuf) -> LocalPlace {
        LocalPlace { log_bytes: MIN_LOG_BYTES, ..LocalPlace::new(directory) }
    }

    #[test]
    fn a_log_is_made_for_cache_and_found_by_all_write_paths() {
        let directory = tempfile::tempdir().unwrap();
        let place = place(directory.path().join("volume"));
        let direct = source(WritePath::Direct, Some(place.clone()));
        assert!(find_log(&direct).unwrap().log.is_none());
        assert!(!place.directory.exists());
        let cache = source(WritePath::Cache, Some(place));
        let found = find_log(&cache).unwrap();
        let config = decide_config(&cache, &found, 1 << 30);
        assert!(config.cache.is_some());
        assert_eq!(config.max_held_bytes, cache.journal_memory_bytes);
        assert_eq!(config.validate(), Ok(()), "also with the least memory");
        let ordered = RbdSource { is_ordered: true, ..cache.clone() };
        let bounded = decide_config(&ordered, &found, 1 << 30);
        assert!(bounded.max_undurable_bytes < config.max_undurable_bytes);
        assert!(bounded.close_after < config.close_after);
        assert_eq!(bounded.validate(), Ok(()));
        assert!(found.asides().is_empty());
        let in_use = find_log(&direct).unwrap_err().to_string();
        assert!(in_use.contains("in use"), "{in_use}");
        drop(found);
        let found = find_log(&direct).unwrap();
        assert!(found.port().is_some());
        assert!(decide_config(&direct, &found, 1 << 30).cache.is_none());
    }

    #[test]
    fn a_disk_without_room_costs_speed_and_a_log_that_cannot_be_read_is_asked_about() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, b"").unwrap();
        std::fs::create_dir_all(directory.path().join("broken").join("log")).unwrap();
        // Its parent cannot be made: as on a disk that takes nothing.
        let cache = source(WritePath::Cache, Some(place(PathBuf::from("/proc/none/volume"))));
        let found = find_log(&cache).unwrap();
        assert!(found.log.is_none());
        assert!(found.degraded.as_deref().is_some_and(|reason| reason.contains("/proc/none")));
        assert!(decide_config(&cache, &found, 1 << 30).cache.is_none());
        let broken = source(WritePath::Cache, Some(place(directory.path().join("broken"))));
        let refused = find_log(&broken).unwrap_err().to_string();
        assert!(refused.contains("may hold what was acknowledged"), "{refused}");
    }
}
