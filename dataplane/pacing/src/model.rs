//! How long a disk takes.

use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

/// Longer than any disk needs: a greater number was meant in another unit.
const MAX_TIME_US: u64 = 1_000_000;

/// How long a disk with one arm takes.
///
/// It is written as three whole numbers, such as `6550,100,209715200`: microseconds to another
/// place, microseconds a request, bytes a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskModel {
    /// To begin at another place than where the last request ended: the arm's way, and half a turn of
    /// the disk. The most that it takes: what is near ahead comes by in less.
    pub position: Duration,
    /// What each request costs, wherever it is and however short.
    pub command: Duration,
    /// What passes under the head.
    pub bytes_per_s: NonZeroU64,
}

impl DiskModel {
    /// How long so many bytes take to pass under the head.
    #[must_use]
    pub fn transfer(self, bytes: u64) -> Duration {
        let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s.get());
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

/// A text describes no disk.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ModelError {
    /// Not three parts.
    #[error(
        "this needs three numbers, POSITION_US,COMMAND_US,BYTES_PER_S, such as 6550,100,209715200"
    )]
    Parts,
    /// A part is no number.
    #[error("{name} is {text:?}: write a whole number, without its unit")]
    Number {
        /// Which part.
        name: &'static str,
        /// What stands there.
        text: String,
    },
    /// A time that no disk takes.
    #[error("{name} is {found_us}, more than a second: write it in microseconds")]
    TooLong {
        /// Which part.
        name: &'static str,
        /// What stands there.
        found_us: u64,
    },
    /// No byte would ever arrive.
    #[error(
        "BYTES_PER_S is 0, and no request would ever end: write how many bytes a second it moves"
    )]
    NoRate,
}

impl FromStr for DiskModel {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let parts: Vec<&str> = text.split(',').collect();
        let [position, command, rate] = parts.as_slice() else { return Err(ModelError::Parts) };
        Ok(Self {
            position: parse_time("POSITION_US", position)?,
            command: parse_time("COMMAND_US", command)?,
            bytes_per_s: NonZeroU64::new(parse_number("BYTES_PER_S", rate)?)
                .ok_or(ModelError::NoRate)?,
        })
    }
}

fn parse_time(name: &'static str, text: &str) -> Result<Duration, ModelError> {
    let found_us = parse_number(name, text)?;
    if found_us > MAX_TIME_US {
        return Err(ModelError::TooLong { name, found_us });
    }
    Ok(Duration::from_micros(found_us))
}

fn parse_number(name: &'static str, text: &str) -> Result<u64, ModelError> {
    text.parse().map_err(|_| ModelError::Number { name, text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_described_by_three_numbers() {
        let disk: DiskModel = "6550,100,209715200".parse().unwrap();
        assert_eq!(disk.position, Duration::from_micros(6550));
        assert_eq!(disk.command, Duration::from_micros(100));
        assert_eq!(disk.bytes_per_s.get(), 200 << 20);
        assert_eq!(disk.transfer(1 << 20), Duration::from_millis(5));
        assert_eq!(disk.transfer(0), Duration::ZERO);
        let slowest: DiskModel = "0,0,1".parse().unwrap();
        assert!(slowest.transfer(u64::MAX) > Duration::from_secs(1 << 30), "and no overflow");
    }

    #[test]
    fn what_describes_no_disk_is_refused_with_advice() {
        for (text, words) in [
            ("", "three numbers"),
            ("6550", "three numbers"),
            ("6550,100,1,1", "three numbers"),
            ("6550,100,", "BYTES_PER_S is \"\""),
            ("6.5,100,1", "POSITION_US is \"6.5\""),
            ("6550,-1,1", "COMMAND_US is \"-1\""),
            ("6550, 100,1", "COMMAND_US is \" 100\""),
            ("6550,100,200M", "BYTES_PER_S is \"200M\""),
            ("1000001,100,1", "POSITION_US is 1000001, more than a second"),
            ("6550,2000000,1", "COMMAND_US is 2000000, more than a second"),
            ("6550,100,0", "BYTES_PER_S is 0"),
        ] {
            let error = text.parse::<DiskModel>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
