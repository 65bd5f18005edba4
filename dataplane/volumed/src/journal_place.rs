//! Where the objects of a journal are, as the image's metadata notes it: pure.
//!
//! A journal may be in another pool than its image, such as one on flash in front of an image on
//! hard disks. Its namespace there has the name of the image's. One key of the metadata has both the
//! pool and the names of the objects, so that no half of it can be from another time.

use std::fmt;

/// A journal's objects: their pool, and what their names begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalPlace {
    /// The pool; None for that of the image.
    pub pool: Option<String>,
    /// What the names of the objects begin with; the record's is just this.
    pub prefix: String,
}

/// Where the journal of the image with this id is, or shall be.
///
/// A journal that is there stays where it is: it may hold what the image does not. `mark` is what
/// the metadata says. A clone and a migrated image have that of another image, whose journal is
/// none of theirs. `wanted` is the pool of a journal that begins, `image_pool` the image's own.
#[must_use]
pub fn decide_place(
    mark: Option<&str>,
    image_id: &str,
    wanted: Option<&str>,
    image_pool: &str,
) -> JournalPlace {
    let prefix = format!("grampus_journal.{image_id}");
    let other = |pool: &str| (pool != image_pool).then(|| pool.to_owned());
    let found = mark.map(parse_mark).filter(|(_, found)| *found == prefix);
    let pool = match found {
        Some((pool, _)) => pool.and_then(other),
        None => wanted.and_then(other),
    };
    JournalPlace { pool, prefix }
}

/// The pool, if the mark has one, and the prefix.
fn parse_mark(mark: &str) -> (Option<&str>, &str) {
    // No prefix has a slash; a pool may.
    mark.rsplit_once('/').map_or((None, mark), |(pool, prefix)| (Some(pool), prefix))
}

impl fmt::Display for JournalPlace {
    /// As the metadata has it: `PREFIX`, or `POOL/PREFIX`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pool {
            Some(pool) => write!(formatter, "{pool}/{}", self.prefix),
            None => formatter.write_str(&self.prefix),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_stays_where_it_is_and_a_new_one_is_where_it_is_wanted() {
        const OWN: &str = "grampus_journal.7";
        for (mark, wanted, pool) in [
            (None, None, None),
            (None, Some("flash"), Some("flash")),
            (None, Some("disks"), None),
            (Some(""), Some("flash"), Some("flash")),
            (Some("grampus_journal.8"), Some("flash"), Some("flash")),
            (Some("other/grampus_journal.8"), None, None),
            (Some(OWN), None, None),
            (Some(OWN), Some("flash"), None),
            (Some("flash/grampus_journal.7"), None, Some("flash")),
            (Some("flash/grampus_journal.7"), Some("other"), Some("flash")),
            (Some("a/b/grampus_journal.7"), None, Some("a/b")),
            (Some("disks/grampus_journal.7"), None, None),
        ] {
            let place = decide_place(mark, "7", wanted, "disks");
            let expected = JournalPlace { pool: pool.map(str::to_owned), prefix: OWN.to_owned() };
            assert_eq!(place, expected, "{mark:?} {wanted:?}");
            let noted = place.to_string();
            assert_eq!(decide_place(Some(&noted), "7", Some("else"), "disks"), place, "{noted}");
        }
    }
}
