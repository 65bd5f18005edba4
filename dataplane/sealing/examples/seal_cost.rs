//! What sealing costs, for a page, for the largest frame that a flush sends by itself, and for the
//! largest frame: `cargo run --release --example seal_cost`.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use grampus_sealing::{SALT_BYTES, SECRET_BYTES, Secret, Use};

const LENGTHS_BYTES: [u32; 4] = [4 << 10, 16 << 10, 256 << 10, 4 << 20];
const WHILE: Duration = Duration::from_secs(1);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let secret = Secret::parse(&[b'0'; SECRET_BYTES])?;
    let start = Instant::now();
    let key = secret.key(Use::Journal, &[0; SALT_BYTES], &[b"a volume"]);
    writeln!(io::stdout(), "a key: {:.1} us", start.elapsed().as_secs_f64() * 1e6)?;
    for length in LENGTHS_BYTES {
        let mut bytes = vec![1; usize::try_from(length)?];
        let (start, mut turns) = (Instant::now(), 0_u32);
        while start.elapsed() < WHILE {
            std::hint::black_box(key.seal(turns.into(), b"header", &mut bytes));
            turns += 1;
        }
        let each_s = start.elapsed().as_secs_f64() / f64::from(turns);
        let (rate, us) = (f64::from(length) / each_s / 1e9, each_s * 1e6);
        writeln!(io::stdout(), "{} KiB: {us:.1} us, {rate:.2} GB/s", length >> 10)?;
    }
    Ok(())
}
