//! What the program is told.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

/// Tries a volume's file or block device, and keeps account of what it acknowledged.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Random operations against a model in memory; overwrites what is there.
    Model(Model),
    /// Every alignment of a hole, zeroed range and discard; overwrites what is there.
    Zeros(Zeros),
    /// Blocks with an account, kept elsewhere, of what a flush acknowledged.
    Ledger {
        #[command(subcommand)]
        command: LedgerCommand,
    },
    /// When writers could write, from their stamps; ends with 1 when two could at one moment.
    Stamps(Stamps),
}

#[derive(Debug, Args)]
pub(crate) struct Device {
    /// The file or block device.
    #[arg(long)]
    pub(crate) path: PathBuf,
    /// Past the page cache (`O_DIRECT`).
    #[arg(long)]
    pub(crate) direct: bool,
    /// Reads and writes are multiples of so many bytes (default: as the path needs).
    #[arg(long, value_parser = parse_align)]
    pub(crate) align: Option<u64>,
}

/// Where on the device to work, for how long, and what repeats it.
#[derive(Debug, Args)]
pub(crate) struct Region {
    /// The first byte to use.
    #[arg(long, default_value_t = 0)]
    pub(crate) offset: u64,
    /// How many bytes to use (default: to the end); a ledger's file that is not there is made.
    #[arg(long)]
    pub(crate) length: Option<u64>,
    /// Repeats the choices (default: a new one; the model prints it).
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// End after so many seconds.
    #[arg(long, value_parser = parse_seconds)]
    pub(crate) seconds: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct Model {
    #[command(flatten)]
    pub(crate) device: Device,
    #[command(flatten)]
    pub(crate) region: Region,
    /// Operations of all workers together.
    #[arg(long, default_value_t = 10_000)]
    pub(crate) operations: u64,
    /// Threads with a stripe each; a checker reads across them.
    #[arg(long, default_value_t = 4)]
    pub(crate) workers: usize,
    /// The longest operation, in bytes.
    #[arg(long, default_value_t = 131_072)]
    pub(crate) max_transfer: u64,
}

#[derive(Debug, Args)]
pub(crate) struct Zeros {
    #[command(flatten)]
    pub(crate) device: Device,
    /// Where the 256 KiB begin that are used.
    #[arg(long, default_value_t = 0)]
    pub(crate) offset: u64,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LedgerCommand {
    /// Write until stopped or the device fails (3); a summary is printed in both cases.
    Write(LedgerWrite),
    /// Compare a device with its ledger; ends with 1 when it holds what it must not.
    Verify(LedgerVerify),
}

#[derive(Debug, Args)]
pub(crate) struct LedgerWrite {
    #[command(flatten)]
    pub(crate) device: Device,
    #[command(flatten)]
    pub(crate) region: Region,
    /// The ledger, on other storage.
    #[arg(long)]
    pub(crate) ledger: PathBuf,
    /// Go on with the ledger that is there, rather than begin one.
    #[arg(long = "continue")]
    pub(crate) go_on: bool,
    /// Threads; each flushes what it has written itself.
    #[arg(long, default_value_t = 4)]
    pub(crate) writers: u64,
    /// Writes between two flushes, on average.
    #[arg(long, default_value_t = 4)]
    pub(crate) writes_per_flush: u64,
    /// At most so many writes a second, of all writers together.
    #[arg(long)]
    pub(crate) rate: Option<u64>,
    /// End once this file is there.
    #[arg(long)]
    pub(crate) stop_file: Option<PathBuf>,
    /// Append a line for each answer: w, f or e (a failure), when issued, when answered (ns).
    #[arg(long)]
    pub(crate) stamp: Option<PathBuf>,
    /// Go on after a failure, and write whatever can be written.
    #[arg(long)]
    pub(crate) keep_trying: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LedgerVerify {
    #[command(flatten)]
    pub(crate) device: Device,
    /// The ledger.
    #[arg(long)]
    pub(crate) ledger: PathBuf,
    /// Record what blocks in doubt held: no other version of them may appear later.
    #[arg(long)]
    pub(crate) settle: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Stamps {
    /// Files of stamps, one a writer.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
}

fn parse_align(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(align) if (1..=4096).contains(&align) && u64::is_power_of_two(align) => Ok(align),
        _ => Err("give a power of two up to 4096".to_owned()),
    }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "give a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn numbers_are_checked() {
        assert_eq!(parse_align("512"), Ok(512));
        assert!(["0", "513", "8192", "x"].iter().all(|text| parse_align(text).is_err()));
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        assert!(["-1", "x", "1e300"].iter().all(|text| parse_seconds(text).is_err()));
    }
}
