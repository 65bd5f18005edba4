//! What this machine's FUSE can do.

use std::fs::{self, OpenOptions};
use std::path::Path;

use io_uring::{IoUring, cqueue, squeue};

const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// What this machine offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Whether there is a `/dev/fuse` that can be opened.
    pub fuse: bool,
    /// Whether requests can come over `io_uring`.
    pub uring: bool,
    /// Why `io_uring` can be used or not, or why there is no FUSE: one sentence.
    pub reason: String,
}

/// Look what this machine offers; changes nothing.
#[must_use]
pub fn probe() -> Probe {
    decide_probe(&observe())
}

/// Switch FUSE over `io_uring` on where it is off and that is allowed; what can be used then.
pub(crate) fn ensure_uring() -> Probe {
    let observed = observe();
    if observed.switch == Switch::OffWritable {
        // Whether it worked is seen by looking again.
        drop(fs::write(SWITCH, "Y"));
        let again = observe();
        if again.switch == Switch::OffWritable {
            return decide_probe(&Observation { switch: Switch::OffReadOnly, ..again });
        }
        return decide_probe(&again);
    }
    decide_probe(&observed)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Switch {
    /// A kernel without FUSE over `io_uring`: older than 6.14, or built without it.
    Missing,
    On,
    OffWritable,
    OffReadOnly,
}

#[derive(Debug, Clone)]
struct Observation {
    /// Why `/dev/fuse` cannot be opened.
    device: Result<(), String>,
    switch: Switch,
    /// Why no `io_uring` can be made.
    ring: Result<(), String>,
}

fn observe() -> Observation {
    let opened = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let ring = IoUring::<squeue::Entry128, cqueue::Entry>::builder().build(2);
    Observation {
        device: opened.map(drop).map_err(|error| error.to_string()),
        switch: observe_switch(Path::new(SWITCH)),
        ring: ring.map(drop).map_err(|error| error.to_string()),
    }
}

fn observe_switch(path: &Path) -> Switch {
    match fs::read_to_string(path) {
        Err(_) => Switch::Missing,
        Ok(value) if value.trim() == "Y" => Switch::On,
        // Opening for writing changes nothing yet.
        Ok(_) if OpenOptions::new().write(true).open(path).is_ok() => Switch::OffWritable,
        Ok(_) => Switch::OffReadOnly,
    }
}

fn decide_probe(observed: &Observation) -> Probe {
    let answer = |fuse, uring, reason: String| Probe { fuse, uring, reason };
    if let Err(error) = &observed.device {
        return answer(false, false, format!("/dev/fuse cannot be opened: {error}"));
    }
    match (observed.switch, &observed.ring) {
        (Switch::Missing, _) => answer(
            true,
            false,
            "the kernel has no FUSE over io_uring (Linux 6.14 brought it)".to_owned(),
        ),
        (Switch::OffReadOnly, _) => answer(
            true,
            false,
            format!(
                "FUSE over io_uring is off and may not be switched on from here: as root, echo Y > {SWITCH}"
            ),
        ),
        (_, Err(error)) => answer(true, false, format!("no io_uring can be made: {error}")),
        (Switch::On, Ok(())) => answer(true, true, "FUSE over io_uring is on".to_owned()),
        (Switch::OffWritable, Ok(())) => {
            answer(true, true, "FUSE over io_uring is off and a mount switches it on".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rings_need_the_device_the_switch_and_io_uring() {
        let no = || Err("no".to_owned());
        for (device, switch, ring, fuse, uring, word) in [
            (Ok(()), Switch::On, Ok(()), true, true, "is on"),
            (Ok(()), Switch::OffWritable, Ok(()), true, true, "switches it on"),
            (Ok(()), Switch::OffReadOnly, Ok(()), true, false, "echo Y"),
            (Ok(()), Switch::Missing, Ok(()), true, false, "6.14"),
            (Ok(()), Switch::On, no(), true, false, "no io_uring"),
            (no(), Switch::On, Ok(()), false, false, "/dev/fuse"),
        ] {
            let found = decide_probe(&Observation { device, switch, ring });
            assert_eq!((found.fuse, found.uring), (fuse, uring), "{found:?}");
            assert!(found.reason.contains(word), "{found:?}");
        }
    }
}
