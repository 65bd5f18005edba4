//! What happens at and past the end of a device, to every kind of request (INV-8).

#![allow(clippy::expect_used, reason = "a test may fail loudly")]

use grampus_blockdev::{
    BlockDevice, BlockSize, ByteRange, DeviceError, Durability, FileDevice, Geometry, Length,
    MAX_DEVICE_BYTES, MemoryDevice, Offset, Request, execute,
};

const SIZE_BYTES: u64 = 8192;

/// Both devices, full of ones.
fn devices() -> Vec<(&'static str, Box<dyn BlockDevice>)> {
    let geometry = Geometry::new(SIZE_BYTES, BlockSize::B4096).expect("whole blocks");
    let file = tempfile::tempfile().expect("a temporary file");
    file.set_len(SIZE_BYTES).expect("room");
    let devices: Vec<(&'static str, Box<dyn BlockDevice>)> = vec![
        ("memory", Box::new(MemoryDevice::new(geometry).expect("small"))),
        ("file", Box::new(FileDevice::over(file, BlockSize::B4096).expect("a device"))),
    ];
    for (_, device) in &devices {
        let ones = vec![1; 8192].try_into().expect("small");
        let durability = Durability::OnFlush;
        let request = Request::Write { offset: Offset::ZERO, buffer: ones, durability };
        execute(&**device, request).result.expect("the whole device");
    }
    devices
}

/// One request of each kind on the range.
fn requests(offset_bytes: u64, length_bytes: u64) -> Vec<Request> {
    let offset = Offset::new(offset_bytes).expect("within the limit");
    let range = ByteRange { offset, length: Length::new(length_bytes).expect("within the limit") };
    let mut requests = vec![
        Request::WriteZeroes { range, durability: Durability::Fua },
        Request::Discard { range },
    ];
    if let Ok(count @ 0..=16384) = usize::try_from(length_bytes) {
        let buffer = || vec![1; count].try_into().expect("small");
        requests.push(Request::Read { offset, buffer: buffer() });
        requests.push(Request::Write { offset, buffer: buffer(), durability: Durability::Fua });
    }
    requests
}

fn content(device: &dyn BlockDevice) -> Vec<u8> {
    let buffer = vec![0xEE; 8192].try_into().expect("small");
    let outcome = execute(device, Request::Read { offset: Offset::ZERO, buffer });
    outcome.result.expect("a read of the whole device");
    outcome.buffer.expect("given back").to_vec()
}

#[test]
fn a_request_past_the_end_changes_nothing_and_gives_its_buffer_back() {
    for (name, device) in devices() {
        for (offset_bytes, length_bytes) in [
            (8191, 2),
            (8192, 1),
            (8193, 0),
            (0, 8193),
            (4096, 4097),
            (MAX_DEVICE_BYTES, 1),
            (0, MAX_DEVICE_BYTES),
            (MAX_DEVICE_BYTES, MAX_DEVICE_BYTES),
        ] {
            for request in requests(offset_bytes, length_bytes) {
                let case = format!("{name}: {length_bytes} at {offset_bytes}, {request:?}");
                let carries = matches!(request, Request::Read { .. } | Request::Write { .. });
                let outcome = execute(&*device, request);
                assert!(
                    matches!(outcome.result, Err(DeviceError::OutOfRange { .. })),
                    "{case:.80}: {:?}",
                    outcome.result
                );
                assert_eq!(outcome.buffer.is_some(), carries, "{case:.80}");
            }
        }
        assert_eq!(content(&*device), [1; 8192], "{name}");
    }
}

#[test]
fn a_request_that_ends_at_the_end_or_is_empty_is_done() {
    for (name, device) in devices() {
        for (offset_bytes, length_bytes) in
            [(8191, 1), (8192, 0), (0, 0), (0, 8192), (4096, 4096), (8192 - 513, 513)]
        {
            for request in requests(offset_bytes, length_bytes) {
                let case = format!("{name}: {length_bytes} at {offset_bytes}, {request:?}");
                let result = execute(&*device, request).result;
                assert!(result.is_ok(), "{case:.80}: {result:?}");
            }
        }
    }
}
