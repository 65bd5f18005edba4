//! The binary, with a volume in memory or a file: start, commands, signals, death.
//!
//! They need root and FUSE; elsewhere they say so and do nothing.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail loudly, and says why it does nothing"
)]

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

const VOLUMED: &str = env!("CARGO_BIN_EXE_volumed");
const PATIENCE: Duration = Duration::from_secs(30);
const SIZE_BYTES: u64 = 16 << 20;

/// Why a mount cannot be tried here; None when it can.
fn obstacle() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("mounting needs root");
    }
    if OpenOptions::new().read(true).write(true).open("/dev/fuse").is_err() {
        return Some("there is no usable /dev/fuse");
    }
    None
}

/// Tests that mount begin with this.
macro_rules! need_mount {
    () => {
        if let Some(obstacle) = obstacle() {
            eprintln!("skipped: {obstacle}");
            return;
        }
    };
}

struct Daemon {
    child: Child,
    log: BufReader<ChildStderr>,
    seen: String,
    directory: tempfile::TempDir,
}

impl Daemon {
    /// Start `volumed serve`; does not wait until it serves.
    fn spawn(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        File::create(directory.path().join("image")).unwrap();
        Self::spawn_in(directory, arguments)
    }

    fn spawn_in(directory: tempfile::TempDir, arguments: &[&str]) -> Self {
        let mut child = Command::new(VOLUMED)
            .args(["serve", "--log-format", "json", "--mountpoint"])
            .arg(directory.path().join("image"))
            .arg("--socket")
            .arg(directory.path().join("control"))
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        Self { child, log, seen: String::new(), directory }
    }

    /// Start one with a volume in memory and wait until it serves.
    fn serving(arguments: &[&str]) -> Self {
        let size = SIZE_BYTES.to_string();
        let mut daemon = Self::spawn(&[&["--memory", &size], arguments].concat());
        daemon.wait_for_log("serving");
        daemon
    }

    /// Read the log up to the first line with this message.
    fn wait_for_log(&mut self, message: &str) -> Value {
        let mut line = String::new();
        while self.log.read_line(&mut line).unwrap() > 0 {
            let entry: Value = serde_json::from_str(&line).unwrap();
            if entry["message"].as_str().unwrap().contains(message) {
                return entry;
            }
            self.seen.push_str(&line);
            line.clear();
        }
        panic!("the log ended without {message:?}:\n{}", self.seen);
    }

    fn rest_of_log(&mut self) -> String {
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        rest
    }

    fn image(&self) -> PathBuf {
        self.directory.path().join("image")
    }

    fn open(&self) -> File {
        OpenOptions::new().read(true).write(true).open(self.image()).unwrap()
    }

    fn ctl(&self, arguments: &[&str]) -> Output {
        Command::new(VOLUMED)
            .args(["ctl", "--socket"])
            .arg(self.directory.path().join("control"))
            .args(arguments)
            .output()
            .unwrap()
    }

    fn result(&self, arguments: &[&str]) -> Value {
        let output = self.ctl(arguments);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::yield_now();
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Unmount it as an operator does. A child that another test starts just now has our files
    /// until it executes its program: the mount is busy for that long after they were closed.
    fn unmount(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let said = Command::new("umount").arg(self.image()).output().unwrap();
            if said.status.success() {
                return;
            }
            assert!(Instant::now() < deadline, "{said:?}");
            std::thread::yield_now();
        }
    }

    fn is_mounted(&self) -> bool {
        let image = self.image();
        fs::read_to_string("/proc/self/mountinfo")
            .unwrap()
            .lines()
            .any(|line| line.split(' ').nth(4) == image.to_str())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
        if self.is_mounted() {
            Command::new("umount").arg("--lazy").arg(self.image()).status().unwrap();
        }
    }
}

#[test]
fn what_is_written_is_read_counted_and_reported_with_each_transport() {
    need_mount!();
    for transport in ["auto", "classic"] {
        let daemon = Daemon::serving(&["--transport", transport]);
        let file = daemon.open();
        assert_eq!(file.metadata().unwrap().len(), SIZE_BYTES);
        let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
        file.write_all_at(&bytes, 12_345).unwrap();
        file.sync_data().unwrap();
        let mut read = vec![0; bytes.len()];
        file.read_exact_at(&mut read, 12_345).unwrap();
        assert_eq!(read, bytes);

        let status = daemon.result(&["status"]);
        for (field, expected) in [
            ("state", json!("running")),
            ("state_reason", Value::Null),
            ("device", json!("memory")),
            ("image", Value::Null),
            ("size_bytes", json!(SIZE_BYTES)),
            ("block_size_bytes", json!(4096)),
            ("lock_owner", Value::Null),
            ("in_flight", json!(0)),
            ("oldest_in_flight_ms", Value::Null),
            ("pid", json!(daemon.child.id())),
        ] {
            assert_eq!(status[field], expected, "{field}");
        }
        if transport == "classic" {
            assert_eq!(status["transport"]["name"], json!("classic"));
        }
        let statistics = daemon.result(&["statistics"]);
        assert_eq!(statistics["kinds"]["write"]["bytes"], json!(300_000));
        assert_eq!(statistics["kinds"]["flush"]["operations"], json!(1));
        assert!(statistics["kinds"]["read"]["latency_us"]["p50"].as_f64().unwrap() > 0.0);
        let metrics = daemon.result(&["metrics"]);
        let written = "volumed_bytes_total{image=\"memory\",kind=\"write\"} 300000\n";
        assert!(metrics["text"].as_str().unwrap().contains(written));
    }
}

#[test]
fn stop_ends_it_well_and_leaves_nothing() {
    need_mount!();
    let mut daemon = Daemon::serving(&[]);
    assert!(daemon.is_mounted());
    let answer = daemon.result(&["stop"]);
    assert_eq!(answer, json!({"stopped": true, "users_cut_off": false}));
    assert!(daemon.wait().success());
    assert!(!daemon.is_mounted());
    assert!(!daemon.directory.path().join("control").exists());
    assert_eq!(daemon.ctl(&["status"]).status.code(), Some(3));
}

#[test]
fn signals_end_it_as_stop_does() {
    need_mount!();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut daemon = Daemon::serving(&[]);
        daemon.signal(signal);
        assert!(daemon.wait().success(), "{signal:?}");
        assert!(!daemon.is_mounted());
        assert!(daemon.rest_of_log().contains("\"clean\":true"));
    }
}

#[test]
fn a_user_that_does_not_let_go_is_cut_off_in_the_end() {
    need_mount!();
    let mut daemon = Daemon::serving(&[]);
    let file = daemon.open();
    file.write_all_at(b"x", 0).unwrap();
    let answer = daemon.result(&["stop", "--timeout-s", "0.05"]);
    assert_eq!(answer["users_cut_off"], json!(true));
    assert!(daemon.wait().success());
    assert!(file.read_at(&mut [0], 0).is_err());
}

#[test]
fn unmounting_from_outside_ends_it_well() {
    need_mount!();
    let mut daemon = Daemon::serving(&[]);
    daemon.unmount();
    assert!(daemon.wait().success());
}

#[test]
fn after_a_kill_users_get_errors_and_a_new_daemon_takes_over_the_file() {
    need_mount!();
    let backing = tempfile::NamedTempFile::new().unwrap();
    backing.as_file().set_len(SIZE_BYTES).unwrap();
    let source = ["--file", backing.path().to_str().unwrap()];
    let mut daemon = Daemon::spawn(&source);
    daemon.wait_for_log("serving");
    let file = daemon.open();
    file.write_all_at(b"kept", 4096).unwrap();
    file.sync_all().unwrap();
    daemon.signal(Signal::KILL);
    daemon.wait();
    assert!(file.read_at(&mut [0], 0).is_err(), "a dead daemon must not hang its users");
    drop(file);
    daemon.unmount();

    let stale = daemon.directory.path().join("control");
    assert!(stale.exists());
    let directory = std::mem::replace(&mut daemon.directory, tempfile::tempdir().unwrap());
    let mut again = Daemon::spawn_in(directory, &source);
    again.wait_for_log("serving");
    let mut read = [0; 4];
    again.open().read_exact_at(&mut read, 4096).unwrap();
    assert_eq!(&read, b"kept");
}

#[test]
fn a_pause_holds_writers_and_a_quiesce_ends_by_itself() {
    need_mount!();
    let mut daemon = Daemon::serving(&[]);
    let file = daemon.open();
    assert_eq!(daemon.result(&["pause"])["state"], json!("paused"));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| file.write_all_at(b"later", 0));
        while daemon.result(&["status"])["held"] != json!(1) {
            std::thread::yield_now();
        }
        assert_eq!(daemon.result(&["statistics"])["kinds"]["write"]["operations"], json!(0));
        assert_eq!(daemon.result(&["flush"]), json!({"flushed": true}));
        assert_eq!(daemon.result(&["draw-down"]), json!({"held_bytes": 0}));
        assert_eq!(daemon.result(&["resume"])["state"], json!("running"));
        writer.join().unwrap().unwrap();
    });
    assert_eq!(daemon.result(&["quiesce"])["state"], json!("quiesced"));
    assert_eq!(daemon.result(&["unquiesce"])["state"], json!("running"));
    daemon.result(&["quiesce", "--timeout-s", "0.01"]);
    file.write_all_at(b"after", 0).unwrap(); // returns when the quiesce is over
    daemon.wait_for_log("the time for a quiesce is over");
}

#[test]
fn resize_answers_the_size_and_refuses_another() {
    need_mount!();
    let daemon = Daemon::serving(&[]);
    let size = SIZE_BYTES.to_string();
    let answer = daemon.result(&["resize", "--size-bytes", &size]);
    assert_eq!(answer, json!({"size_bytes": SIZE_BYTES}));
    let refused = daemon.ctl(&["resize", "--size-bytes", "4096"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("(size-mismatch)"));
    assert!(refused.stdout.is_empty());
}

#[test]
fn a_start_that_fails_says_why_in_a_sentence_with_advice() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ragged");
    fs::write(&file, "7 bytes").unwrap();
    let file = file.to_str().unwrap();
    let absent = directory.path().join("absent");
    let absent = absent.to_str().unwrap();
    for (arguments, has_mountpoint, words) in [
        (["--memory", "4097"], true, "Choose another --memory."),
        (["--file", file], true, "The file makes no volume"),
        (["--file", absent], true, "The file makes no volume"),
        (["--memory", "4096"], false, "The mountpoint must be an existing empty file"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        if has_mountpoint {
            File::create(directory.path().join("image")).unwrap();
        }
        let mut daemon = Daemon::spawn_in(directory, &arguments);
        let entry = daemon.wait_for_log(words);
        assert_eq!(entry["level"], json!("ERROR"));
        assert_eq!(daemon.wait().code(), Some(1));
        assert!(!daemon.directory.path().join("control").exists());
    }
}

#[test]
fn writers_wait_while_the_image_is_closed_and_go_on_after_it() {
    need_mount!();
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(SIZE_BYTES).unwrap();
    let mut daemon = Daemon::spawn(&["--file", file.path().to_str().unwrap()]);
    daemon.wait_for_log("serving");
    let closed = daemon.result(&["close-image", "--limit-s", "3600"]);
    assert_eq!(closed["open"], json!(false));
    assert_eq!(daemon.result(&["status"])["state"], json!("detached"));
    let image = daemon.open();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| image.write_all_at(&[7; 4096], 8192).unwrap());
        let deadline = Instant::now() + PATIENCE;
        while daemon.result(&["status"])["held"] != json!(1) {
            assert!(Instant::now() < deadline && !writer.is_finished());
        }
        let refused = daemon.ctl(&["open-image", "--image", "p/i"]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("(open-failed)"));
        assert_eq!(daemon.result(&["open-image"])["open"], json!(true));
        writer.join().unwrap();
    });
    assert_eq!(daemon.result(&["status"])["state"], json!("running"));
    let mut written = [0; 4096];
    file.as_file().read_exact_at(&mut written, 8192).unwrap();
    assert_eq!(written, [7; 4096]);
}

#[test]
fn a_stop_while_the_image_is_closed_fails_what_waits_and_says_so() {
    need_mount!();
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(SIZE_BYTES).unwrap();
    let mut daemon = Daemon::spawn(&["--file", file.path().to_str().unwrap()]);
    daemon.wait_for_log("serving");
    daemon.result(&["close-image"]);
    let image = daemon.open();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| image.write_all_at(&[7; 4096], 0));
        let deadline = Instant::now() + PATIENCE;
        while daemon.result(&["status"])["held"] != json!(1) {
            assert!(Instant::now() < deadline && !writer.is_finished());
        }
        let stopped = daemon.ctl(&["stop", "--timeout-s", "0"]);
        assert!(String::from_utf8_lossy(&stopped.stderr).contains("1 requests that waited"));
        assert!(writer.join().unwrap().is_err());
    });
    assert_eq!(daemon.wait().code(), Some(1));
}

#[test]
fn a_file_served_as_a_disk_takes_the_disks_time_until_told_not_to() {
    need_mount!();
    let backing = tempfile::NamedTempFile::new().unwrap();
    backing.as_file().set_len(SIZE_BYTES).unwrap();
    let path = backing.path().to_str().unwrap();
    let mut daemon = Daemon::spawn(&["--file", path, "--emulate-disk", "20000,100,209715200"]);
    daemon.wait_for_log("serving");
    let file = daemon.open();
    // No block goes on where the last one ended.
    let write_scattered = |byte: u8| {
        let start = Instant::now();
        for number in (1..=20).rev() {
            file.write_all_at(&[byte; 4096], number * 65536).unwrap();
        }
        start.elapsed()
    };
    assert!(write_scattered(7) >= Duration::from_millis(400));
    file.sync_data().unwrap();
    let disk = &daemon.result(&["status"])["emulated_disk"];
    for (field, expected) in [
        ("position_us", json!(20_000)),
        ("command_us", json!(100)),
        ("bytes_per_s", json!(209_715_200)),
        ("paced", json!(true)),
    ] {
        assert_eq!(disk[field], expected, "{field}");
    }
    let served = disk["served"].as_u64().unwrap();
    assert!(served > 20, "{disk}"); // the flush too
    assert!(disk["busy_ms"].as_f64().unwrap() >= 402.0, "{disk}");
    assert!(disk["late_ms"].as_f64().is_some(), "{disk}");

    assert_eq!(daemon.result(&["pace", "off"]), json!({"paced": false}));
    write_scattered(8);
    let disk = &daemon.result(&["status"])["emulated_disk"];
    assert_eq!((&disk["paced"], &disk["served"]), (&json!(false), &json!(served)));
    let mut written = [0; 4096];
    backing.as_file().read_exact_at(&mut written, 65536).unwrap();
    assert_eq!(written, [8; 4096]);

    assert_eq!(daemon.result(&["pace", "on"]), json!({"paced": true}));
    assert!(write_scattered(9) >= Duration::from_millis(400));
}

#[test]
fn only_an_emulated_disk_has_a_pace() {
    need_mount!();
    let daemon = Daemon::serving(&[]);
    assert!(daemon.result(&["status"])["emulated_disk"].is_null());
    let refused = daemon.ctl(&["pace", "off"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("(no-emulated-disk)") && said.contains("--emulate-disk"), "{said}");
}

#[test]
fn two_daemons_do_not_share_a_socket() {
    need_mount!();
    let daemon = Daemon::serving(&[]);
    let other = tempfile::NamedTempFile::new().unwrap();
    let output = Command::new(VOLUMED)
        .args(["serve", "--memory", "4096", "--mountpoint"])
        .arg(other.path())
        .arg("--socket")
        .arg(daemon.directory.path().join("control"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("another daemon serves"));
    assert_eq!(daemon.result(&["status"])["state"], json!("running"));
}

#[test]
fn probe_says_what_there_is_and_why_not() {
    let output = Command::new(VOLUMED).arg("probe").output().unwrap();
    assert!(output.status.success());
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(found["fuse"].is_boolean() && found["uring"].is_boolean(), "{found}");
    assert!(found["reason"].is_string(), "{found}");
    assert_ne!(found["librbd_version"].is_null(), found["librbd_reason"].is_null(), "{found}");
}

#[test]
fn wrong_use_is_exit_code_2() {
    for arguments in [&["serve"][..], &["ctl", "status"], &["fly"], &[]] {
        let output = Command::new(VOLUMED).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}
