//! Pages of code that only the start needed.
//!
//! Most of what Ceph's libraries run happens once: constructors, options, the connection to the
//! cluster. Where memory is locked, these pages would stay in memory as long as the process does.
//! They are given back once; a page that is needed again is read from the host's own disk, never
//! from the volume, and is locked again then.
#![allow(unsafe_code, reason = "only the kernel can drop pages of a mapping")]

use std::fs;
use std::ops::Range;
use std::time::{Duration, Instant};

use rustix::mm::{Advice, madvise};

const MAPPINGS: &str = "/proc/self/smaps";

/// How long after the volume is offered they are needed: it is mounted right then.
const NEEDED_FOR: Duration = Duration::from_secs(20);

/// Whether they were given back yet.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartupPages {
    /// The volume was not offered yet.
    #[default]
    Needed,
    /// It was, and at this moment they are given back.
    Due(Instant),
    /// They were.
    Released,
}

impl StartupPages {
    /// Give them back when it is time; call it as long as the volume is offered.
    pub(crate) fn release_if_due(&mut self, now: Instant) {
        match *self {
            Self::Needed => *self = Self::Due(now + NEEDED_FOR),
            Self::Due(due) if now >= due => {
                *self = Self::Released;
                release();
            }
            Self::Due(_) | Self::Released => {}
        }
    }
}

fn release() {
    let mappings = match fs::read_to_string(MAPPINGS) {
        Ok(text) => parse_code(&text),
        Err(error) => {
            tracing::info!(%error, "cannot read {MAPPINGS}: pages of the start stay in memory");
            return;
        }
    };
    for mapping in mappings {
        let start = std::ptr::without_provenance_mut(mapping.start);
        // SAFETY: the mapping shows a file and cannot be written, and none of its pages has been
        // written ever, so each of them reads the same when the kernel brings it again. Libraries
        // are never unloaded by this process; were the mapping gone, the kernel would refuse.
        let dropped = unsafe {
            // A kernel before 5.18 knows only the second, and refuses it for locked memory.
            madvise(start, mapping.len(), Advice::LinuxDontneedLocked)
                .or_else(|_| madvise(start, mapping.len(), Advice::LinuxDontNeed))
        };
        if let Err(error) = dropped {
            tracing::debug!(%error, "pages of the start stay in memory");
        }
    }
}

/// Mappings of code in the text of `smaps` (proc(5)): private, executable, of a file, and without
/// any page that differs from it.
fn parse_code(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut of_code = None;
    for line in text.lines() {
        if let Some((mapping, is_code)) = parse_mapping(line) {
            of_code = is_code.then_some(mapping);
        } else if let Some(anonymous) = line.strip_prefix("Anonymous:")
            && let Some(mapping) = of_code.take()
            && anonymous.trim() == "0 kB"
        {
            found.push(mapping);
        }
    }
    found
}

/// The first line of a mapping, and whether it is the code of a file.
fn parse_mapping(line: &str) -> Option<(Range<usize>, bool)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let range = address(start)?..address(end)?;
    let is_code = words.next()? == "r-xp";
    let path = words.nth(3).unwrap_or_default();
    Some((range, is_code && path.starts_with('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
55a0-55b0 r--p 00000000 fe:00 12 /usr/bin/volumed
Rss:                   4 kB
Anonymous:             0 kB
55b0-55c0 r-xp 00001000 fe:00 12 /usr/bin/volumed
Rss:                   4 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
7f00-7f10 r-xp 00001000 fe:00 13 /usr/lib/librbd.so.1 (deleted)
Anonymous:             0 kB
7f10-7f20 r-xp 00001000 fe:00 14 /usr/lib/patched.so
Anonymous:             4 kB
7f20-7f30 rw-p 00001000 fe:00 14 /usr/lib/patched.so
Anonymous:             0 kB
7f30-7f40 r-xp 00000000 00:00 0
Anonymous:             0 kB
7f40-7f50 r-xp 00000000 00:00 0                          [vdso]
Anonymous:             0 kB
";

    #[test]
    fn only_code_that_its_file_holds_unchanged_is_dropped() {
        assert_eq!(parse_code(SMAPS), [0x55b0..0x55c0, 0x7f00..0x7f10]);
        assert_eq!(parse_code(""), []);
    }

    #[test]
    fn pages_are_dropped_once_and_not_while_the_volume_is_being_mounted() {
        let mut pages = StartupPages::default();
        let offered = Instant::now();
        let mut state_at = |after: Duration| {
            pages.release_if_due(offered + after);
            pages
        };
        assert_eq!(state_at(Duration::ZERO), StartupPages::Due(offered + NEEDED_FOR));
        assert_eq!(state_at(NEEDED_FOR / 2), StartupPages::Due(offered + NEEDED_FOR));
        assert_eq!(state_at(NEEDED_FOR), StartupPages::Released);
        assert_eq!(state_at(NEEDED_FOR * 2), StartupPages::Released);
    }

    #[test]
    fn code_runs_on_when_its_pages_were_dropped() {
        let own = || parse_code(&fs::read_to_string(MAPPINGS).expect("reads"));
        let before = own();
        assert!(!before.is_empty());
        for _ in 0..3 {
            release();
        }
        assert_eq!(own(), before);
    }
}
