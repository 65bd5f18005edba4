//! Serve a device in memory, to try the transport:
//! `serve_memory MOUNTPOINT [size-mib=256] [transport=auto] [threads=4] [entries=32] [pin=yes]`
//!
//! Prints one line when it serves and ends when the file is unmounted.

#![allow(clippy::print_stdout, reason = "a program to try things with")]

use std::error::Error;
use std::sync::Arc;

use grampus_blockdev::{BlockSize, Geometry, MemoryDevice};
use grampus_fuse::{ServeOptions, Session, TransportChoice};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut options = ServeOptions::new(arguments.next().ok_or("which MOUNTPOINT?")?);
    "memory".clone_into(&mut options.source_name);
    let mut size_mib = 256_u64;
    for argument in arguments {
        let (name, value) = argument.split_once('=').ok_or("options look like name=value")?;
        match name {
            "size-mib" => size_mib = value.parse()?,
            "threads" => options.classic_threads = value.parse()?,
            "entries" => options.ring_entries = value.parse()?,
            "background" => options.max_background = value.parse()?,
            "pin" => options.pin_threads = value == "yes",
            "transport" => {
                options.transport = match value {
                    "uring" => TransportChoice::Uring,
                    "classic" => TransportChoice::Classic,
                    _ => TransportChoice::Auto,
                }
            }
            _ => return Err(format!("no option {name}").into()),
        }
    }
    let device = MemoryDevice::new(Geometry::new(size_mib << 20, BlockSize::B4096)?)?;
    let session = Session::mount(Arc::new(device), &options)?;
    println!("serving: {:?}", session.transport());
    session.wait()?;
    Ok(())
}
