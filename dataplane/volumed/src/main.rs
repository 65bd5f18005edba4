//! The command `volumed`: parse the command line, then call the library.
//!
//! `serve` runs the daemon of one volume until it is asked to stop. `ctl` sends one command to it.
//! `replay` and `remove-journal` work on an image that no daemon serves; `probe` looks at this
//! machine. All of them but `serve` print one JSON document on stdout; logs and errors go to stderr.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong use, 3 `ctl` found no daemon. SIGTERM stops `serve` as
//! `ctl stop` does. A killed daemon loses nothing that a flush acknowledged; `replay` can be killed
//! and repeated.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use grampus_volumed::client::{AskError, ask};
use grampus_volumed::command_line::{CommandLine, CtlArguments, LogFormat, ServeArguments, Verb};
use grampus_volumed::journaled_volume::{remove_journal, replay_volume};
use grampus_volumed::probe::observe_machine;
use grampus_volumed::process;
use grampus_volumed::rbd_source::RbdSource;
use grampus_volumed::serve::{End, ServeError, serve};
use grampus_volumed::volume::VolumeError;
use serde_json::{Value, json};
use tracing::level_filters::LevelFilter;

/// Past what the daemon itself waits, of which `stop` does three times: users, flush, close.
const ASK_MARGIN: Duration = Duration::from_secs(30);
const DEFAULT_WAIT_S: f64 = 60.0;

const FAILED: u8 = 1;
const NO_DAEMON: u8 = 3;

fn main() -> ExitCode {
    match CommandLine::parse().verb {
        Verb::Serve(arguments) => run_daemon(&arguments),
        Verb::Ctl(arguments) => run_ctl(&arguments),
        Verb::Replay(arguments) => run_on_image(arguments.source(), |source| {
            let replayed = replay_volume(source)?;
            Ok(json!({
                "replayed_frames": replayed.frames,
                "replayed_bytes": replayed.frame_bytes,
                "given_up": replayed.given_up.map(|damage| damage.to_string()),
            }))
        }),
        Verb::RemoveJournal(arguments) => run_on_image(arguments.source(), |source| {
            Ok(json!({"removed": remove_journal(source)?}))
        }),
        Verb::Probe => print(&observe_machine()),
    }
}

fn run_daemon(arguments: &ServeArguments) -> ExitCode {
    let (format, level) = arguments.log();
    start_log(format, level);
    let Some(settings) = arguments.settings() else {
        tracing::error!("Nothing to serve was named. See `volumed serve --help`.");
        return ExitCode::from(2);
    };
    let failed = |error: &ServeError| tracing::error!("{error}");
    match serve(&settings) {
        Ok(End::Clean) => ExitCode::SUCCESS,
        Ok(End::Abrupt(Ok(()))) => process::exit_now(0),
        Ok(End::Abrupt(Err(error))) => {
            failed(&error);
            process::exit_now(FAILED.into())
        }
        Err(error) => {
            failed(&error);
            ExitCode::from(FAILED)
        }
    }
}

fn run_on_image(
    source: Option<RbdSource>,
    action: impl FnOnce(&RbdSource) -> Result<Value, VolumeError>,
) -> ExitCode {
    start_log(LogFormat::Text, LevelFilter::INFO);
    let Some(source) = source else {
        tracing::error!("No image was named. See `volumed replay --help`.");
        return ExitCode::from(2);
    };
    match action(&source) {
        Ok(result) => print(&result),
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::from(FAILED)
        }
    }
}

fn start_log(format: LogFormat, level: LevelFilter) {
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr);
    match format {
        LogFormat::Json => log.json().flatten_event(true).with_target(false).init(),
        LogFormat::Text => log.with_ansi(false).with_target(false).init(),
    }
}

fn run_ctl(arguments: &CtlArguments) -> ExitCode {
    let (command, fields, timeout_s) = arguments.command.request();
    let wait = Duration::try_from_secs_f64(timeout_s.unwrap_or(DEFAULT_WAIT_S)).unwrap_or_default();
    match ask(&arguments.socket, command, fields, wait.saturating_mul(4) + ASK_MARGIN) {
        Ok(result) => print(&result),
        Err(error) => {
            let code = if matches!(error, AskError::NoDaemon { .. }) { NO_DAEMON } else { FAILED };
            let written = match &error {
                AskError::Refused { code, message } => {
                    writeln!(io::stderr(), "volumed: {message} ({code})")
                }
                error => writeln!(io::stderr(), "volumed: {error}"),
            };
            // Without a standard error the exit code says it alone.
            written.map_or(ExitCode::from(code), |()| ExitCode::from(code))
        }
    }
}

fn print(result: &Value) -> ExitCode {
    match writeln!(io::stdout(), "{result:#}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(FAILED),
    }
}
