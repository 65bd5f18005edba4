//! Asynchronous direct I/O, as a loop device does it: many requests in flight from one thread.

use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use grampus_fuse::ServeOptions;
use io_uring::{IoUring, opcode, types};

use crate::devices::Foreign;
use crate::stage::{Stage, memory, transports};

const BLOCK_BYTES: usize = 4096;
const BLOCKS: usize = 512;
const DEPTH: usize = 64;

/// Memory for direct I/O.
#[derive(Clone)]
#[repr(align(4096))]
struct Block([u8; BLOCK_BYTES]);

#[allow(unsafe_code, reason = "the kernel uses the blocks, which outlive the ring's requests")]
fn in_flight(file: &std::fs::File, blocks: &mut [Block], write: bool) {
    let mut ring = IoUring::new(128).unwrap();
    let fd = types::Fd(file.as_raw_fd());
    let length = u32::try_from(BLOCK_BYTES).unwrap();
    let (mut next, mut done) = (0, 0);
    while done < blocks.len() {
        while next < blocks.len() && next - done < DEPTH {
            // Every place once, far from the one before.
            let place = next * 211 % blocks.len();
            let offset = (place * BLOCK_BYTES) as u64;
            let address = blocks[place].0.as_mut_ptr();
            let request = if write {
                opcode::Write::new(fd, address, length).offset(offset).build()
            } else {
                opcode::Read::new(fd, address, length).offset(offset).build()
            };
            // SAFETY: `blocks` is borrowed until every request has completed.
            unsafe { ring.submission().push(&request).unwrap() };
            next += 1;
        }
        ring.submit_and_wait(1).unwrap();
        for completion in ring.completion() {
            assert_eq!(completion.result(), i32::try_from(BLOCK_BYTES).unwrap());
            done += 1;
        }
    }
}

#[test]
fn many_requests_in_flight_keep_their_data_apart() {
    let limits: [fn(&mut ServeOptions); 2] =
        [|_| {}, |options| (options.ring_entries, options.max_background) = (2, 3)];
    for transport in transports() {
        for change in limits {
            for device in [memory(), Foreign::new()] {
                let stage = Stage::with(device, transport, change);
                let mut options = std::fs::OpenOptions::new();
                options.read(true).write(true).custom_flags(libc::O_DIRECT);
                let file = options.open(&stage.mountpoint).unwrap();
                let mut blocks: Vec<Block> = (0..BLOCKS)
                    .map(|n| Block([u8::try_from(n % 251).unwrap(); BLOCK_BYTES]))
                    .collect();
                in_flight(&file, &mut blocks, true);
                let mut back = vec![Block([0xff; BLOCK_BYTES]); BLOCKS];
                in_flight(&file, &mut back, false);
                for (n, (block, wanted)) in back.iter().zip(&blocks).enumerate() {
                    assert!(block.0 == wanted.0, "block {n}");
                }
                drop(file);
                stage.end();
            }
        }
    }
}
