//! The command line.

mod write_path;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use grampus_fuse::{ServeOptions, TransportChoice};
use grampus_pacing::DiskModel;
use grampus_sealing::Secret;
use serde_json::{Map, Value};
use tracing::level_filters::LevelFilter;

use crate::encryption::read_key_file;
use crate::image_name::{ImageName, parse_image};
use crate::local_place::LocalPlace;
use crate::rbd_source::{DEFAULT_JOURNAL_MEMORY_BYTES, RbdSource, WritePath};
use crate::serve::{Settings, Source};
use write_path::WriteArguments;

/// An RBD image as a block device: one process a volume.
#[derive(Debug, Parser)]
#[command(name = "volumed", version, max_term_width = 100)]
pub struct CommandLine {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Offer a volume as a file, until asked to stop
    #[command(after_help = "Example:\n  volumed serve --image rbd/disk --user admin \\\n    \
        --mountpoint /run/volumes/disk/image --socket /run/volumes/disk/control")]
    Serve(Box<ServeArguments>),
    /// Ask a daemon or tell it what to do; its answer is printed as JSON
    #[command(after_help = "Example:\n  volumed ctl --socket /run/volumes/disk/control status\n\n\
        Exit codes: 0 done, 1 refused or failed, 2 wrong use, 3 no daemon there")]
    Ctl(CtlArguments),
    /// Bring what the journal of an image that nobody serves holds into it; what was done is
    /// printed as JSON
    Replay(ReplayArguments),
    /// Remove the journal of an image that is to go, with all that it holds
    RemoveJournal(ImageArguments),
    /// Say what this machine offers, as JSON
    Probe,
}

/// Arguments of `serve`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("source").required(true))]
pub struct ServeArguments {
    /// The image to serve
    #[arg(long, group = "source", requires = "user", value_name = "POOL[/NAMESPACE]/IMAGE",
        value_parser = parse_image)]
    image: Option<ImageName>,
    /// How to reach its cluster.
    #[command(flatten)]
    connection: Connection,
    /// How writes come to the image, and what the volume keeps for that.
    #[command(flatten)]
    writes: WriteArguments,
    /// Do not take the image's exclusive lock: another client may write too
    #[arg(long)]
    no_lock: bool,
    /// Serve memory instead, for trials
    #[arg(long, group = "source", value_name = "SIZE_BYTES")]
    memory: Option<u64>,
    /// Serve a file instead, for trials
    #[arg(long, group = "source", value_name = "PATH")]
    file: Option<PathBuf>,
    /// Answer as slowly as a disk with one arm: microseconds to another place, microseconds a
    /// request, bytes a second
    // A requirement that --memory and --image exclude does not count, so these are named too.
    #[arg(long, requires = "file", conflicts_with_all = ["image", "memory"],
        value_name = "POSITION_US,COMMAND_US,BYTES_PER_S")]
    emulate_disk: Option<DiskModel>,
    /// Answer the emulated disk's flushes without waiting for this machine's disk: a crash of this
    /// machine may lose what was written
    #[arg(long, requires = "emulate_disk", conflicts_with_all = ["image", "memory"])]
    no_sync: bool,
    /// An existing file, which the volume covers
    #[arg(long, value_name = "FILE")]
    mountpoint: PathBuf,
    /// The control socket to make
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// How requests come from the kernel
    #[arg(long, value_enum, default_value_t = TransportName::Auto)]
    transport: TransportName,
    /// Threads of the classic transport
    #[arg(long, value_name = "N", default_value_t = 4,
        value_parser = clap::value_parser!(u16).range(1..=64))]
    classic_threads: u16,
    /// Requests that each queue of the `io_uring` transport holds
    #[arg(long, value_name = "N", default_value_t = 32,
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    ring_entries: u16,
    /// How the log on standard error is written
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// How much is logged: off, error, warn, info, debug, trace
    #[arg(long, default_value_t = LevelFilter::INFO)]
    log_level: LevelFilter,
}

/// How to reach a cluster.
#[derive(Debug, Args)]
struct Connection {
    /// The Ceph user, without "client."
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    /// ceph.conf; Ceph looks for it when not given
    #[arg(long, value_name = "FILE")]
    conf: Option<PathBuf>,
    /// An option of Ceph's, before those of ceph.conf; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_ceph_option)]
    ceph_option: Vec<(String, String)>,
    /// The key of an encrypted image: 64 lower-case hexadecimal digits in a file that nobody else
    /// may read. It is read once, at the start
    #[arg(long, requires = "image", value_name = "PATH", value_parser = read_key_file)]
    encryption_key_file: Option<Secret>,
}

/// Arguments of what is done to an image that nobody serves.
#[derive(Debug, Args)]
pub struct ImageArguments {
    /// The image
    #[arg(long, requires = "user", value_name = "POOL[/NAMESPACE]/IMAGE",
        value_parser = parse_image)]
    image: ImageName,
    /// How to reach its cluster.
    #[command(flatten)]
    connection: Connection,
    /// The volume's directory on this host: a log that an earlier life left there is brought in too
    #[arg(long, value_name = "DIR")]
    local_dir: Option<PathBuf>,
}

/// Arguments of `replay`.
#[derive(Debug, Args)]
pub struct ReplayArguments {
    /// Which image.
    #[command(flatten)]
    image: ImageArguments,
    /// Replay a damaged journal up to the damage: acknowledged writes behind it are lost
    #[arg(long)]
    accept_damage: bool,
}

impl ReplayArguments {
    /// Which image. None when the parser let through what it must not.
    #[must_use]
    pub fn source(&self) -> Option<RbdSource> {
        let source = self.image.source()?;
        Some(RbdSource { accept_damage: self.accept_damage, ..source })
    }
}

impl ImageArguments {
    /// Which image. None when the parser let through what it must not.
    #[must_use]
    pub fn source(&self) -> Option<RbdSource> {
        let local = self.local_dir.clone().map(LocalPlace::new);
        source_of(&self.image, &self.connection, true, (WritePath::Direct, local))
    }
}

fn source_of(
    name: &ImageName,
    connection: &Connection,
    lock: bool,
    (write_path, local): (WritePath, Option<LocalPlace>),
) -> Option<RbdSource> {
    Some(RbdSource {
        pool: name.pool.clone(),
        namespace: name.namespace.clone(),
        image: name.image.clone(),
        user: connection.user.clone()?,
        conf: connection.conf.clone(),
        ceph_options: connection.ceph_option.clone(),
        lock,
        write_path,
        local,
        journal_pool: None,
        journal_memory_bytes: DEFAULT_JOURNAL_MEMORY_BYTES,
        is_ordered: false,
        accept_damage: false,
        secret: connection.encryption_key_file.clone(),
    })
}

/// Arguments of `ctl`.
#[derive(Debug, Args)]
pub struct CtlArguments {
    /// The daemon's control socket
    #[arg(long, value_name = "PATH")]
    pub socket: PathBuf,
    /// What to ask.
    #[command(subcommand)]
    pub command: CtlCommand,
}

/// What a daemon can be asked.
#[derive(Debug, Subcommand)]
pub enum CtlCommand {
    /// How the volume is now
    Status,
    /// Operations, bytes and latencies so far
    Statistics,
    /// Status and statistics as Prometheus text, in "text"
    Metrics,
    /// Read the image's size again
    Resize {
        /// Fail unless it is this now
        #[arg(long)]
        size_bytes: Option<u64>,
        /// How long.
        #[command(flatten)]
        wait: Wait,
    },
    /// Make durable what was written
    Flush(Wait),
    /// Bring what the journal holds into the image, while requests go on, only slower
    DrawDown(Wait),
    /// Hold requests until resume
    Pause,
    /// End a pause
    Resume,
    /// Let a volume served with --emulate-disk answer as slowly as the disk, or as fast as it can
    Pace {
        /// Which
        pace: PaceName,
    },
    /// Hold requests and flush; ends by itself when the time is over
    Quiesce(Wait),
    /// End a quiesce
    Unquiesce,
    /// Ask the cluster whose the image's lock is: whether it still hears this daemon
    Check(Wait),
    /// Take a snapshot that holds everything flushed so far; one of that name is left as it is
    Snapshot {
        /// Its name
        name: String,
        /// How long.
        #[command(flatten)]
        wait: Wait,
    },
    /// Hold requests, flush, and close the image; the daemon, its mount and its users stay
    CloseImage {
        /// When the image is opened again without being asked for, in seconds
        #[arg(long, value_name = "SECONDS")]
        limit_s: Option<f64>,
        /// How long.
        #[command(flatten)]
        wait: Wait,
    },
    /// Open the image again, or another one of the same size, and let requests go on
    OpenImage {
        /// Which one; the last one when not given
        #[arg(long, value_name = "POOL[/NAMESPACE]/IMAGE", value_parser = parse_image)]
        image: Option<ImageName>,
        /// How long.
        #[command(flatten)]
        wait: Wait,
    },
    /// Unmount, flush, close, end
    Stop {
        /// Leave in the journal what it holds, for an image that is to be removed
        #[arg(long)]
        leave_journal: bool,
        /// How long.
        #[command(flatten)]
        wait: Wait,
    },
}

/// How fast an emulated disk answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PaceName {
    /// As slowly as the disk
    On,
    /// As fast as the file
    Off,
}

/// How long to wait.
#[derive(Debug, Clone, Copy, Args)]
pub struct Wait {
    /// In seconds, up to 3600
    #[arg(long, value_name = "SECONDS")]
    pub timeout_s: Option<f64>,
}

/// Which transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TransportName {
    /// `io_uring` where the kernel has it
    Auto,
    /// `io_uring`, or fail
    Uring,
    /// read and write on /dev/fuse
    Classic,
}

/// Which log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line
    Json,
    /// For people
    Text,
}

fn parse_ceph_option(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        // Others on this machine can read a command line.
        Some(("key", _)) => Err("a key belongs in a keyring file, not here".to_owned()),
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE".to_owned()),
    }
}

impl ServeArguments {
    /// How the log is to be.
    #[must_use]
    pub fn log(&self) -> (LogFormat, LevelFilter) {
        (self.log_format, self.log_level)
    }

    /// What is to be served, and how. None when the parser let through what it must not.
    #[must_use]
    pub fn settings(&self) -> Option<Settings> {
        let source = match (&self.image, self.memory, &self.file) {
            (Some(name), None, None) => {
                let ways = self.writes.ways();
                let source = source_of(name, &self.connection, !self.no_lock, ways)?;
                Source::Rbd(Box::new(self.writes.apply_to(source)))
            }
            (None, Some(size_bytes), None) => Source::Memory(size_bytes),
            (None, None, Some(path)) => Source::File {
                path: path.clone(),
                emulated_disk: self.emulate_disk,
                syncs: !self.no_sync,
            },
            _ => return None,
        };
        let source_name = match &source {
            Source::Rbd(source) => source.name(),
            Source::Memory(_) => "memory".to_owned(),
            Source::File { path, .. } => path.display().to_string(),
        };
        let front = ServeOptions {
            transport: match self.transport {
                TransportName::Auto => TransportChoice::Auto,
                TransportName::Uring => TransportChoice::Uring,
                TransportName::Classic => TransportChoice::Classic,
            },
            classic_threads: self.classic_threads,
            ring_entries: self.ring_entries,
            source_name,
            ..ServeOptions::new(&self.mountpoint)
        };
        Some(Settings { source, front, socket: self.socket.clone() })
    }
}

impl CtlCommand {
    /// Its name and arguments on the control socket, and how long the daemon may take, in
    /// seconds; None for its own default.
    #[must_use]
    pub fn request(&self) -> (&'static str, Map<String, Value>, Option<f64>) {
        let mut arguments = Map::new();
        let (name, wait) = match self {
            Self::Status => ("status", None),
            Self::Statistics => ("statistics", None),
            Self::Metrics => ("metrics", None),
            Self::Resize { size_bytes, wait } => {
                arguments.extend(size_bytes.map(|size| ("size_bytes".to_owned(), size.into())));
                ("resize", Some(wait))
            }
            Self::Flush(wait) => ("flush", Some(wait)),
            Self::DrawDown(wait) => ("draw-down", Some(wait)),
            Self::Pause => ("pause", None),
            Self::Resume => ("resume", None),
            Self::Pace { pace } => {
                arguments.insert("paced".to_owned(), (*pace == PaceName::On).into());
                ("pace", None)
            }
            Self::Quiesce(wait) => ("quiesce", Some(wait)),
            Self::Unquiesce => ("unquiesce", None),
            Self::Check(wait) => ("check", Some(wait)),
            Self::Snapshot { name, wait } => {
                arguments.insert("name".to_owned(), name.as_str().into());
                ("snapshot", Some(wait))
            }
            Self::CloseImage { limit_s, wait } => {
                arguments.extend(limit_s.map(|limit_s| ("limit_s".to_owned(), limit_s.into())));
                ("close-image", Some(wait))
            }
            Self::OpenImage { image, wait } => {
                let name = image.as_ref().map(ToString::to_string);
                arguments.extend(name.map(|name| ("image".to_owned(), name.into())));
                ("open-image", Some(wait))
            }
            Self::Stop { leave_journal, wait } => {
                arguments.extend(leave_journal.then(|| ("leave_journal".to_owned(), true.into())));
                ("stop", Some(wait))
            }
        };
        let timeout_s = wait.and_then(|wait| wait.timeout_s);
        arguments.extend(timeout_s.map(|seconds| ("timeout_s".to_owned(), seconds.into())));
        (name, arguments, timeout_s)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::protocol::{parse_request, render_request};

    fn parse(arguments: &str) -> Result<CommandLine, clap::Error> {
        CommandLine::try_parse_from(arguments.split_whitespace())
    }

    fn settings(arguments: &str) -> Settings {
        let line = format!("volumed serve --mountpoint /m --socket /s {arguments}");
        match parse(&line).unwrap().verb {
            Verb::Serve(arguments) => arguments.settings().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        CommandLine::command().debug_assert();
    }

    #[test]
    fn sources_are_read() {
        let Source::Rbd(source) = settings(
            "--image p/n/i --user u --conf /c --ceph-option a=b=c --ceph-option d= --no-lock",
        )
        .source
        else {
            panic!("no image");
        };
        assert_eq!(source.name(), "p/n/i");
        assert_eq!(
            source.ceph_options,
            [("a", "b=c"), ("d", "")].map(|(k, v)| (k.into(), v.into()))
        );
        assert!(!source.lock);
        let plain = settings("--image p/i --user u");
        assert!(matches!(
            &plain.source,
            Source::Rbd(source) if source.lock && source.write_path == WritePath::Direct
        ));
        let journaled = settings("--image p/i --user u --write-path journal");
        assert!(matches!(
            &journaled.source,
            Source::Rbd(source) if source.write_path == WritePath::Journal
                && source.journal_pool.is_none()
        ));
        let line = "--image p/i --user u --write-path journal --journal-pool flash --ordered";
        assert!(matches!(
            &settings(line).source,
            Source::Rbd(source) if source.is_ordered
                && source.journal_pool.as_deref() == Some("flash")
        ));
        let cached = settings(
            "--image p/i --user u --write-path cache --local-dir /l --max-lag-ms 250 \
             --read-cache-bytes 0",
        );
        assert!(matches!(
            &cached.source,
            Source::Rbd(source) if source.write_path == WritePath::Cache
                && source.local == Some(LocalPlace {
                    max_lag: Duration::from_millis(250),
                    read_cache_bytes: 0,
                    ..LocalPlace::new("/l".into())
                })
        ));
        assert_eq!(plain.front.source_name, "p/i");
        assert_eq!(settings("--memory 4096").source, Source::Memory(4096));
        let file = |emulated_disk, syncs| Source::File { path: "/f".into(), emulated_disk, syncs };
        assert_eq!(settings("--file /f").source, file(None, true));
        let disk = "6550,100,209715200";
        for (option, syncs) in [("", true), ("--no-sync", false)] {
            let line = format!("--file /f --emulate-disk {disk} {option}");
            assert_eq!(settings(&line).source, file(disk.parse().ok(), syncs));
        }
        assert_eq!(
            settings("--memory 1 --transport classic").front.transport,
            TransportChoice::Classic
        );
    }

    #[test]
    fn a_key_is_read_from_its_file_and_never_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (path, digits) = (file.path().display(), "0a".repeat(32));
        std::fs::write(file.path(), &digits).unwrap();
        let settings = settings(&format!("--image p/i --user u --encryption-key-file {path}"));
        let Source::Rbd(source) = &settings.source else { panic!("no image") };
        let passphrase = source.secret.as_ref().map(Secret::passphrase);
        assert_eq!(passphrase, Some(digits.as_bytes()));
        assert_eq!(source.encryption(), Some("luks2"));
        assert!(!format!("{settings:?}").contains("0a0a"));
        for verb in ["replay", "remove-journal"] {
            let line = format!("volumed {verb} --image p/i --user u --encryption-key-file {path}");
            assert!(parse(&line).is_ok(), "{verb}");
        }
        let line = "volumed serve --mountpoint /m --socket /s --memory 1";
        assert!(parse(&format!("{line} --encryption-key-file {path}")).is_err());
        std::fs::write(file.path(), digits + "\n").unwrap();
        let line = format!("volumed replay --image p/i --user u --encryption-key-file {path}");
        let error = parse(&line).unwrap_err().to_string();
        assert!(error.contains("hexadecimal") && !error.contains("0a0a"), "{error}");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for wrong in [
            "",
            "--image p/i",
            "--image p/i --user u --memory 1",
            "--memory 1 --file /f",
            "--image i --user u",
            "--image p//i --user u",
            "--image p/n/i/x --user u",
            "--image p/i@s --user u",
            "--image p/i --user u --ceph-option a",
            "--image p/i --user u --ceph-option key=SECRET",
            "--memory x",
            "--memory 1 --emulate-disk 6550,100,209715200",
            "--file /f --no-sync",
            "--file /f --emulate-disk 6550,100",
            "--file /f --emulate-disk 6550,100,0",
            "--memory 1 --classic-threads 0",
            "--memory 1 --ring-entries 1025",
            "--memory 1 --transport fast",
            "--memory 1 --log-level loud",
            "--image p/i --user u --write-path cache",
            "--image p/i --user u --write-path cache --local-dir /l --max-lag-ms 0",
            "--image p/i --user u --write-path cache --local-dir /l --local-log-bytes 1",
        ] {
            let line = format!("volumed serve --mountpoint /m --socket /s {wrong}");
            assert!(parse(&line).is_err(), "{wrong}");
        }
        assert!(parse("volumed serve --memory 1 --socket /s").is_err());
        assert!(parse("volumed replay --image p/i").is_err(), "as whom?");
        assert!(parse("volumed remove-journal --user u").is_err());
        assert!(parse("volumed ctl status").is_err());
    }

    #[test]
    fn every_command_of_the_control_socket_can_be_asked_for() {
        for command in [
            "status",
            "statistics",
            "metrics",
            "resize",
            "resize --size-bytes 4096 --timeout-s 1",
            "flush",
            "flush --timeout-s 0.5",
            "pause",
            "resume",
            "pace on",
            "pace off",
            "quiesce --timeout-s 7",
            "unquiesce",
            "check --timeout-s 1",
            "snapshot s --timeout-s 7",
            "stop",
        ] {
            let line = parse(&format!("volumed ctl --socket /s {command}")).unwrap();
            let Verb::Ctl(ctl) = line.verb else { panic!("{command}") };
            let (name, arguments, _) = ctl.command.request();
            let request = render_request(name, arguments);
            assert!(parse_request(request.trim_end().as_bytes()).is_ok(), "{request}");
        }
    }
}
