//! What a message of the kernel asks for. Pure; any bytes give an answer.

use zerocopy::FromBytes;

use crate::protocol::{
    FallocateIn, InHeader, ROOT_NODE, ReadIn, SetattrIn, WriteIn, opcode, setattr_valid,
};

/// Whether the open file's flags ask for durable writes; `O_SYNC` contains `O_DSYNC`.
fn wants_durable(flags: u32) -> bool {
    i32::from_ne_bytes(flags.to_ne_bytes()) & libc::O_DSYNC != 0
}

/// A message, understood as far as this server needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message {
    /// Names the request in its answer; never 0 where one is expected.
    pub(crate) unique: u64,
    pub(crate) operation: Operation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Wants no answer: FORGET, and INTERRUPT, which a server may ignore.
    Silent,
    GetAttributes,
    SetAttributes {
        size_bytes: Option<u64>,
        /// Whether it would change mode or owner.
        ownership: bool,
    },
    Open,
    /// Nothing to be done, successfully: a close, for one.
    Nothing,
    StatFs,
    /// A name below the file, which has none.
    Lookup,
    Read {
        offset: u64,
        bytes: u32,
    },
    Write {
        offset: u64,
        bytes: u32,
        /// Durable before it is answered: `O_DSYNC`, which the kernel leaves to the server where
        /// direct I/O bypasses its cache.
        durable: bool,
    },
    Sync,
    Allocate {
        offset: u64,
        length: u64,
        mode: u32,
    },
    Ioctl,
    /// Not for a single file, or newer than this server.
    Unknown,
}

impl Operation {
    /// What it carries in its payload, there or back.
    pub(crate) fn carried_bytes(self) -> usize {
        match self {
            Self::Read { bytes, .. } | Self::Write { bytes, .. } => {
                usize::try_from(bytes).unwrap_or(usize::MAX)
            }
            _ => 0,
        }
    }
}

/// A message that makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// It cannot be answered, so its sender would wait for ever: the session must end.
    Unanswerable(&'static str),
    /// It can be answered with an error.
    Answerable { unique: u64 },
}

/// Read a message.
///
/// `argument` begins with the operation's own structure; bytes after it do not matter.
/// `payload_bytes` is how much data came with a write.
///
/// # Errors
/// [`Malformed`].
pub(crate) fn parse_message(
    header: &[u8],
    argument: &[u8],
    payload_bytes: usize,
) -> Result<Message, Malformed> {
    let Ok((header, _)) = InHeader::read_from_prefix(header) else {
        return Err(Malformed::Unanswerable("its header is cut short"));
    };
    let unique = header.unique;
    if is_silent(header.opcode) {
        return Ok(Message { unique, operation: Operation::Silent });
    }
    if unique == 0 {
        return Err(Malformed::Unanswerable("it has no number to answer to"));
    }
    let malformed = Malformed::Answerable { unique };
    // STATFS and DESTROY may name no node.
    if header.nodeid != ROOT_NODE && names_a_node(header.opcode) {
        return Err(malformed);
    }
    let operation = parse_operation(header.opcode, argument, payload_bytes).ok_or(malformed)?;
    Ok(Message { unique, operation })
}

fn is_silent(code: u32) -> bool {
    matches!(code, opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT)
}

fn names_a_node(code: u32) -> bool {
    !matches!(code, opcode::STATFS | opcode::DESTROY | opcode::INIT)
}

/// None when the argument is shorter than its structure or belies its payload.
fn parse_operation(code: u32, argument: &[u8], payload_bytes: usize) -> Option<Operation> {
    let operation = match code {
        opcode::LOOKUP => Operation::Lookup,
        opcode::GETATTR => Operation::GetAttributes,
        opcode::SETATTR => {
            let (wanted, _) = SetattrIn::read_from_prefix(argument).ok()?;
            let has = |bits: u32| wanted.valid & bits != 0;
            Operation::SetAttributes {
                size_bytes: has(setattr_valid::SIZE).then_some(wanted.size),
                ownership: has(setattr_valid::MODE | setattr_valid::UID | setattr_valid::GID),
            }
        }
        opcode::OPEN => Operation::Open,
        opcode::READ => {
            let (read, _) = ReadIn::read_from_prefix(argument).ok()?;
            Operation::Read { offset: read.offset, bytes: read.size }
        }
        opcode::WRITE => {
            let (write, _) = WriteIn::read_from_prefix(argument).ok()?;
            if usize::try_from(write.size).ok()? != payload_bytes {
                return None;
            }
            let durable = wants_durable(write.flags);
            Operation::Write { offset: write.offset, bytes: write.size, durable }
        }
        opcode::STATFS => Operation::StatFs,
        opcode::FLUSH | opcode::RELEASE | opcode::ACCESS | opcode::DESTROY => Operation::Nothing,
        opcode::FSYNC | opcode::SYNCFS => Operation::Sync,
        opcode::FALLOCATE => {
            let (range, _) = FallocateIn::read_from_prefix(argument).ok()?;
            let FallocateIn { offset, length, mode, .. } = range;
            Operation::Allocate { offset, length, mode }
        }
        opcode::IOCTL => Operation::Ioctl,
        _ => Operation::Unknown,
    };
    Some(operation)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerocopy::IntoBytes;

    use super::*;

    fn header(code: u32, unique: u64, nodeid: u64) -> Vec<u8> {
        let header = InHeader {
            len: 0,
            opcode: code,
            unique,
            nodeid,
            uid: 0,
            gid: 0,
            pid: 0,
            total_extlen: 0,
            padding: 0,
        };
        header.as_bytes().to_vec()
    }

    fn write(size: u32, flags: u32) -> WriteIn {
        WriteIn { fh: 0, offset: 4096, size, write_flags: 0, lock_owner: 0, flags, padding: 0 }
    }

    #[test]
    fn a_write_must_bring_what_it_announces() {
        let head = header(opcode::WRITE, 7, ROOT_NODE);
        for (announced, brought, valid) in
            [(512, 512, true), (0, 0, true), (512, 511, false), (0, 1, false), (u32::MAX, 0, false)]
        {
            let parsed = parse_message(&head, write(announced, 0).as_bytes(), brought);
            assert_eq!(parsed.is_ok(), valid, "{announced} {brought}");
        }
    }

    #[test]
    fn a_write_is_durable_where_its_flags_say_so() {
        let head = header(opcode::WRITE, 7, ROOT_NODE);
        for (flags, wanted) in
            [(0, false), (libc::O_DSYNC, true), (libc::O_SYNC, true), (libc::O_RDWR, false)]
        {
            let flags = u32::try_from(flags).unwrap();
            let parsed = parse_message(&head, write(1, flags).as_bytes(), 1).unwrap();
            let expected = Operation::Write { offset: 4096, bytes: 1, durable: wanted };
            assert_eq!(parsed, Message { unique: 7, operation: expected });
        }
    }

    #[test]
    fn what_cannot_be_answered_ends_the_session_and_the_rest_does_not() {
        let parse = |head: &[u8]| parse_message(head, &[], 0);
        assert!(matches!(parse(&[0; 39]), Err(Malformed::Unanswerable(_))));
        let nameless = header(opcode::READ, 0, ROOT_NODE);
        assert!(matches!(parse(&nameless), Err(Malformed::Unanswerable(_))));
        let forget = parse(&header(opcode::FORGET, 0, 5)).unwrap();
        assert_eq!(forget.operation, Operation::Silent);
        for (code, node) in [(opcode::READ, ROOT_NODE), (opcode::FALLOCATE, ROOT_NODE), (3, 2)] {
            let parsed = parse(&header(code, 9, node));
            assert_eq!(parsed, Err(Malformed::Answerable { unique: 9 }), "{code}");
        }
        let later = parse(&header(60_000, 9, ROOT_NODE)).unwrap();
        assert_eq!(later.operation, Operation::Unknown);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic_and_keep_their_number(
            code in prop_oneof![0..60_u32, any::<u32>()],
            unique: u64,
            node in prop_oneof![Just(ROOT_NODE), any::<u64>()],
            argument in prop::collection::vec(any::<u8>(), 0..200),
            payload_bytes in prop_oneof![0..10_usize, any::<usize>()],
            cut in 0..41_usize,
        ) {
            let mut head = header(code, unique, node);
            head.truncate(cut);
            match parse_message(&head, &argument, payload_bytes) {
                Ok(message) => prop_assert_eq!(message.unique, unique),
                Err(Malformed::Answerable { unique: answered }) => {
                    prop_assert_eq!(answered, unique);
                    prop_assert_ne!(answered, 0);
                }
                Err(Malformed::Unanswerable(_)) => {
                    prop_assert!(cut < 40 || unique == 0);
                }
            }
        }
    }
}
