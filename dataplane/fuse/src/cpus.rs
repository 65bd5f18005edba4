//! Lists of CPUs as the kernel writes them.

use std::fs;

use crate::error::FuseError;

/// More CPUs than any machine has.
const MAX_CPUS: u16 = 8192;

/// `0-3,8` as numbers; None when it is something else.
pub(crate) fn parse_cpu_list(list: &str) -> Option<Vec<u16>> {
    let mut cpus = Vec::new();
    for part in list.trim().split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high) = (low.parse::<u16>().ok()?, high.parse::<u16>().ok()?);
        if low > high || high >= MAX_CPUS {
            return None;
        }
        cpus.extend(low..=high);
    }
    Some(cpus)
}

/// CPUs in the state `possible` or `online`.
///
/// # Errors
/// [`FuseError::Io`] when the kernel does not say.
pub(crate) fn observe_cpus(state: &str) -> Result<Vec<u16>, FuseError> {
    let failed = FuseError::std_io("read the list of CPUs");
    let list = fs::read_to_string(format!("/sys/devices/system/cpu/{state}")).map_err(failed)?;
    parse_cpu_list(&list).ok_or_else(|| {
        FuseError::std_io("read the list of CPUs")(std::io::ErrorKind::InvalidData.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_nonsense_is_not() {
        for (list, cpus) in [
            ("0\n", Some(vec![0])),
            ("0-1\n", Some(vec![0, 1])),
            ("0-2,5,7-8", Some(vec![0, 1, 2, 5, 7, 8])),
            ("", None),
            ("3-1", None),
            ("0-", None),
            ("0-65535", None),
            ("a", None),
        ] {
            assert_eq!(parse_cpu_list(list), cpus, "{list:?}");
        }
    }
}
