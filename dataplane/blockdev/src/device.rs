//! The trait.

use std::sync::{Arc, mpsc};

use crate::error::DeviceError;
use crate::geometry::Geometry;
use crate::request::{Completion, CompletionSink, Outcome, Request, Token};

/// A device of bytes that keeps what it is told to keep.
///
/// Every implementation promises:
///
/// - **Range.** A request that does not lie wholly on the device fails with
///   [`DeviceError::OutOfRange`] and changes nothing. (A file read that crosses the end is
///   clamped by the front end, whose concern files are.) An empty request succeeds.
/// - **Alignment.** Any offset and length is right; blocks only make it fast.
/// - **Sight.** Once a change has completed, each later read sees it, flushed or not.
/// - **Order.** Requests in flight together have no order. Where their ranges overlap, a read
///   sees any mix of the bytes before and after, and of two changes each byte holds one.
/// - **Durability.** When a flush completes, all changes that had completed before it was
///   submitted survive a crash. A change with [`crate::Durability::Fua`] survives from its own
///   completion on. Others may be lost or kept by a crash, also in part.
/// - **Zeros.** Discarded and zeroed ranges read back as zeros, to the byte.
/// - **Failure.** After a failed flush nothing not yet flushed may be reported durable again.
///
/// Failure, zeros, range and answering once are INV-6 to INV-9 in `docs/invariants/`; INV-1 rests
/// on them.
pub trait BlockDevice: Send + Sync {
    /// Its shape now; a device that is resized answers the new shape from then on.
    fn geometry(&self) -> Geometry;

    /// Take a request and answer it through `completion`, at once or later, on any thread.
    ///
    /// Waits only for the device to accept the request, which is how a device at its limit
    /// slows its callers down.
    fn submit(&self, request: Request, completion: Completion);
}

/// Submit `request` and wait for its outcome; for tests and tools. Blocks its thread, so never
/// call it from a [`CompletionSink`].
pub fn execute(device: &dyn BlockDevice, request: Request) -> Outcome {
    let abandoned = Outcome { result: Err(DeviceError::Abandoned), buffer: None };
    submit(device, request).recv().unwrap_or(abandoned)
}

/// Submit `request` and leave its outcome to whoever asks the receiver; for tests and tools.
pub fn submit(device: &dyn BlockDevice, request: Request) -> mpsc::Receiver<Outcome> {
    struct Reply(mpsc::Sender<Outcome>);

    impl CompletionSink for Reply {
        fn complete(&self, _token: Token, outcome: Outcome) {
            // Nobody waits for it any more where this fails.
            drop(self.0.send(outcome));
        }
    }

    let (sender, receiver) = mpsc::channel();
    device.submit(request, Completion::new(Arc::new(Reply(sender)), Token(0)));
    receiver
}
