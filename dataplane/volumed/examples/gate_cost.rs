//! What the gate adds to a request, in nanoseconds: `cargo run --release --example gate_cost`.
//!
//! Threads submit flushes to a device that answers at once, with and without a gate in between;
//! the difference is the cost of a claim of a slot, two looks at the clock and the counters.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use grampus_blockdev::{
    BlockDevice, BlockSize, Completion, CompletionSink, Geometry, LimitError, MemoryDevice,
    Outcome, Request, Token,
};
use grampus_volumed::clock::Clock;
use grampus_volumed::gate::{Gate, GateOptions};
use grampus_volumed::meter::Meter;
use rustix::time::{ClockId, clock_gettime};

const TURNS: u32 = 2_000_000;

#[derive(Default)]
#[repr(align(128))]
struct Count(AtomicU64);

impl CompletionSink for Count {
    fn complete(&self, _token: Token, _outcome: Outcome) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Nanoseconds of CPU time per request, with so many threads at it.
fn measure(device: &dyn BlockDevice, threads: u32) -> f64 {
    // Not the wall clock: what else runs here would be counted too.
    let cpu_s = || {
        let now = clock_gettime(ClockId::ProcessCPUTime);
        Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.try_into().unwrap_or(0)).as_secs_f64()
    };
    let start_s = cpu_s();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let count = Arc::new(Count::default());
                for turn in 0..u64::from(TURNS) {
                    let sink: Arc<dyn CompletionSink> = Arc::<Count>::clone(&count);
                    device.submit(Request::Flush, Completion::new(sink, Token(turn)));
                }
            });
        }
    });
    (cpu_s() - start_s) * 1e9 / f64::from(TURNS * threads)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let memory = || -> Result<Arc<dyn BlockDevice>, LimitError> {
        let geometry = Geometry::new(4096, BlockSize::B4096)?;
        Ok(Arc::new(MemoryDevice::new(geometry)?))
    };
    let cpus = std::thread::available_parallelism().map_or(1, Into::into);
    for threads in [1, 2] {
        let options = GateOptions {
            slots: 2048,
            cpus,
            meter: Arc::new(Meter::new(cpus)),
            clock: Clock::start(),
        };
        let bare_ns = measure(&*memory()?, threads);
        let gate_ns = measure(&Gate::new(&memory()?, options), threads);
        let added_ns = gate_ns - bare_ns;
        writeln!(
            io::stdout(),
            "{threads} threads: {bare_ns:.0} ns bare, {gate_ns:.0} ns gated, {added_ns:.0} ns added"
        )?;
    }
    Ok(())
}
