//! A loop device on the file, which is what the file is for.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;

use crate::devices::{Asked, Growing, Recorder};
use crate::stage::{SIZE_BYTES, Stage, transports};

/// A loop device in direct mode, detached when dropped.
struct Loop(String);

impl Loop {
    /// None, and a word about it, where no loop device can be had.
    fn attach(file: &Path) -> Option<Self> {
        let asked = ["-f", "--show", "--direct-io=on", "-b", "4096"];
        let attached = Command::new("losetup").args(asked).arg(file).output();
        match attached {
            Ok(output) if output.status.success() => {
                Some(Self(String::from_utf8(output.stdout).unwrap().trim().to_owned()))
            }
            other => {
                eprintln!("skipped: no loop device ({other:?})");
                None
            }
        }
    }

    fn size_bytes(&self) -> u64 {
        let name = Path::new(&self.0).file_name().unwrap().to_str().unwrap();
        let sectors = fs::read_to_string(format!("/sys/block/{name}/size")).unwrap();
        sectors.trim().parse::<u64>().unwrap() * 512
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let detached = Command::new("losetup").args(["-d", &self.0]).status();
        assert!(detached.is_ok_and(|status| status.success()));
    }
}

#[test]
fn a_loop_device_passes_data_flushes_and_discards_on() {
    for transport in transports() {
        let device = Recorder::new();
        let stage = Stage::new(device.clone(), transport);
        let Some(attached) = Loop::attach(&stage.mountpoint) else { return };
        assert_eq!(attached.size_bytes(), SIZE_BYTES);
        let block = OpenOptions::new().read(true).write(true).open(&attached.0).unwrap();
        let data: Vec<u8> = (0..1_u32 << 20).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
        block.write_all_at(&data, 4096).unwrap();
        block.sync_all().unwrap();
        let seen = |wanted| device.log.lock().unwrap().contains(&wanted);
        assert!(seen(Asked::Flush), "a sync reaches the device");
        let mut back = vec![0; data.len()];
        stage.open().read_exact_at(&mut back, 4096).unwrap();
        assert!(back == data);
        let discard = |how: &[&str]| {
            let ended = Command::new("blkdiscard").args(how).arg(&attached.0).status().unwrap();
            assert!(ended.success());
        };
        discard(&["-o", "8192", "-l", "65536"]);
        assert!(seen(Asked::Discard));
        discard(&["-z", "-o", "131072", "-l", "65536"]);
        stage.open().read_exact_at(&mut back, 0).unwrap();
        for zeros in [8192..73728, 131_072..196_608] {
            assert!(back[zeros].iter().all(|byte| *byte == 0));
        }
        drop((block, attached));
        stage.end();
    }
}

#[test]
fn a_loop_device_follows_a_resize() {
    for transport in transports() {
        let device = Growing::new(1 << 20);
        let stage = Stage::new(device.clone(), transport);
        let Some(attached) = Loop::attach(&stage.mountpoint) else { return };
        for (size_bytes, tell) in [(2 << 20, true), (3 << 20, false)] {
            device.size_bytes.store(size_bytes, Ordering::SeqCst);
            if tell {
                stage.session().notify_resized().unwrap();
            }
            let updated = Command::new("losetup").args(["-c", &attached.0]).status().unwrap();
            assert!(updated.success());
            assert_eq!(attached.size_bytes(), size_bytes, "{tell}");
            let block = OpenOptions::new().read(true).write(true).open(&attached.0).unwrap();
            block.write_all_at(&[5; 4096], size_bytes - 4096).unwrap();
            block.sync_all().unwrap();
        }
        drop(attached);
        stage.end();
    }
}
