//! `volume-exerciser`: tries a volume's file or block device, and keeps account of it.
//!
//! `command_line` has its commands; the library does them. The program prints one JSON document on
//! stdout; what is wrong, and how to repeat it, on stderr. Exit codes: 0 as it should be, 1 a fault
//! of the device was found, 2 wrong use, 3 the device failed, 4 anything else. It may be killed at
//! any moment: a ledger can be verified afterwards.

#![forbid(unsafe_code)]

mod command_line;
mod file_account;

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use serde_json::{Value, json};

use command_line::{Command, Device, LedgerCommand, LedgerVerify, LedgerWrite, Model, Stamps};
use file_account::FileAccount;
use grampus_testkit::exercise::{ExerciseError, Plan, exercise};
use grampus_testkit::ledger::{
    BLOCK_BYTES, History, LedgerFile, Overlap, WriteError, WritePlan, WriteSummary,
    classify_overlap, observe_window, parse_stamps, read_records, verify, write_ledger,
};
use grampus_testkit::{OpenTarget, Random, SweepError, Target, sweep_zeros};

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Right,
    Fault,
    DeviceFailed,
    Unable,
}

/// Why a command has no document.
struct Stop(Ending, String);

fn main() -> ExitCode {
    let arguments = command_line::Arguments::parse();
    let result = match arguments.command {
        Command::Model(model) => run_model(&model),
        Command::Zeros(zeros) => run_zeros(&zeros.device, zeros.offset),
        Command::Ledger { command: LedgerCommand::Write(write) } => run_ledger_write(&write),
        Command::Ledger { command: LedgerCommand::Verify(verify) } => run_ledger_verify(&verify),
        Command::Stamps(stamps) => run_stamps(&stamps),
    };
    let ending = match result {
        Ok((ending, document)) if print_document(&document).is_ok() => ending,
        Ok(_) => Ending::Unable,
        Err(Stop(ending, message)) => {
            // Nobody is left to tell when stderr is closed.
            drop(writeln!(io::stderr(), "volume-exerciser: {message}"));
            ending
        }
    };
    ExitCode::from(match ending {
        Ending::Right => 0,
        Ending::Fault => 1,
        Ending::DeviceFailed => 3,
        Ending::Unable => 4,
    })
}

fn print_document(document: &Value) -> io::Result<()> {
    writeln!(io::stdout(), "{document}")
}

fn open(device: &Device, create: bool) -> Result<OpenTarget, Stop> {
    OpenTarget::open(&device.path, device.direct, device.align, create)
        .map_err(|error| unable(&format!("open {}", device.path.display()), &error))
}

fn run_model(model: &Model) -> Result<(Ending, Value), Stop> {
    let target = open(&model.device, false)?;
    let size = target.size_bytes().map_err(|error| unable("ask the size", &error))?;
    let seed = model.region.seed.unwrap_or_else(random_seed);
    let end = model.region.length.map_or(size, |length| model.region.offset.saturating_add(length));
    let plan = Plan {
        seed,
        operations: model.operations,
        workers: model.workers,
        range: model.region.offset..end,
        max_transfer_bytes: model.max_transfer,
        time_limit: model.region.seconds,
    };
    match exercise(&target, &plan) {
        Ok(summary) => Ok((Ending::Right, json!({"seed": seed, "summary": summary}))),
        Err(error) => {
            let ending = match error {
                ExerciseError::Mismatch(_) => Ending::Fault,
                ExerciseError::Io { .. } => Ending::DeviceFailed,
                ExerciseError::Plan(_) => Ending::Unable,
            };
            let align = model.device.align.map(|align| format!(" --align {align}"));
            let repeat = format!(
                "repeat with: model --path {}{}{} --offset {} --length {} --seed {seed} \
                 --operations {} --workers {} --max-transfer {}",
                model.device.path.display(),
                if model.device.direct { " --direct" } else { "" },
                align.unwrap_or_default(),
                model.region.offset,
                end.saturating_sub(model.region.offset),
                model.operations,
                model.workers,
                model.max_transfer,
            );
            Err(Stop(ending, format!("{error}\n{repeat}")))
        }
    }
}

fn run_zeros(device: &Device, offset: u64) -> Result<(Ending, Value), Stop> {
    let target = open(device, false)?;
    match sweep_zeros(&target, offset) {
        Ok(summary) => Ok((Ending::Right, json!(summary))),
        Err(error) => {
            let ending = match error {
                SweepError::Wrong { .. } => Ending::Fault,
                SweepError::Io { .. } => Ending::DeviceFailed,
                SweepError::TooSmall => Ending::Unable,
            };
            Err(Stop(ending, error.to_string()))
        }
    }
}

fn run_ledger_write(write: &LedgerWrite) -> Result<(Ending, Value), Stop> {
    let target = open(&write.device, write.region.length.is_some())?;
    let (ledger, history) = if write.go_on {
        let history = read_history(&write.ledger)?;
        (LedgerFile::append_to(&write.ledger), Some(history))
    } else {
        (LedgerFile::create(&write.ledger), None)
    };
    let ledger =
        ledger.map_err(|error| unable(&format!("open {}", write.ledger.display()), &error))?;
    let mut account = FileAccount::new(ledger, write.stamp.as_deref(), write.stop_file.clone())
        .map_err(|error| unable("open the file of stamps", &error))?;
    let blocks = match (&history, write.region.length) {
        (Some(history), _) => u64::try_from(history.expectations.len()).unwrap_or_default(),
        (None, Some(length)) => length / block_bytes(),
        (None, None) => {
            let size = target.size_bytes().map_err(|error| unable("ask the size", &error))?;
            size.saturating_sub(write.region.offset) / block_bytes()
        }
    };
    let plan = WritePlan {
        run: history.as_ref().map_or_else(random_seed, |history| history.run),
        seed: write.region.seed.unwrap_or_else(random_seed),
        offset_bytes: history.as_ref().map_or(write.region.offset, |history| history.offset_bytes),
        blocks,
        writers: write.writers,
        writes_per_flush: write.writes_per_flush,
        writes_per_s: write.rate,
        time_limit: write.region.seconds,
        keep_trying: write.keep_trying,
    };
    match write_ledger(&target, &mut account, &plan, history.as_ref()) {
        Ok(summary) => Ok((ending_of(&summary), json!(summary))),
        Err(error) => {
            let ending = match error {
                WriteError::Prepare(_) => Ending::DeviceFailed,
                WriteError::Plan(_) | WriteError::Account(_) => Ending::Unable,
            };
            Err(Stop(ending, error.to_string()))
        }
    }
}

fn ending_of(summary: &WriteSummary) -> Ending {
    if summary.failures == 0 { Ending::Right } else { Ending::DeviceFailed }
}

fn run_ledger_verify(arguments: &LedgerVerify) -> Result<(Ending, Value), Stop> {
    let history = read_history(&arguments.ledger)?;
    let target = open(&arguments.device, false)?;
    let result = verify(&target, &history)
        .map_err(|error| Stop(Ending::DeviceFailed, format!("reading failed: {error}")))?;
    let is_right = result.faults == 0;
    if arguments.settle && is_right && !result.settled.is_empty() {
        LedgerFile::append_to(&arguments.ledger)
            .and_then(|mut ledger| ledger.append(&result.settlement()))
            .map_err(|error| unable("write the ledger", &error))?;
    }
    Ok((if is_right { Ending::Right } else { Ending::Fault }, json!(result)))
}

fn run_stamps(arguments: &Stamps) -> Result<(Ending, Value), Stop> {
    let mut windows = Vec::new();
    for path in &arguments.files {
        let text = read_text(path)?;
        let stamps = parse_stamps(&text)
            .map_err(|line| Stop(Ending::Unable, format!("'{line}' is no stamp")))?;
        let window = observe_window(&stamps).ok_or_else(|| {
            Stop(Ending::Unable, format!("{} has no acknowledged write", path.display()))
        })?;
        windows.push(window);
    }
    let mut pairs = Vec::new();
    for (number, one) in windows.iter().enumerate() {
        pairs.extend(windows.iter().skip(number + 1).map(|other| classify_overlap(one, other)));
    }
    let is_apart = pairs.iter().all(|pair| matches!(pair, Overlap::Apart { .. }));
    let ending = if is_apart { Ending::Right } else { Ending::Fault };
    Ok((ending, json!({"windows": windows, "pairs": pairs})))
}

fn read_history(ledger: &Path) -> Result<History, Stop> {
    History::replay(&read_records(&read_text(ledger)?))
        .map_err(|error| Stop(Ending::Unable, error.to_string()))
}

fn read_text(path: &Path) -> Result<String, Stop> {
    fs::read_to_string(path).map_err(|error| unable(&format!("read {}", path.display()), &error))
}

fn unable(what: &str, error: &io::Error) -> Stop {
    Stop(Ending::Unable, format!("cannot {what}: {error}"))
}

fn block_bytes() -> u64 {
    u64::try_from(BLOCK_BYTES).unwrap_or(u64::MAX)
}

fn random_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_ns = since.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or_default());
    Random::of_stream(now_ns, u64::from(std::process::id())).next_u64()
}
