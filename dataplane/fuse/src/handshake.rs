//! INIT: what kernel and server agree on. Pure.

use zerocopy::FromBytes;

use crate::error::FuseError;
use crate::protocol::{
    IN_HEADER_BYTES, InHeader, InitIn, InitOut, MAJOR, MINOR, OLDEST_MINOR, init_flag, opcode,
};

/// What the server would like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wishes {
    pub(crate) max_transfer_bytes: u32,
    pub(crate) page_bytes: u32,
    pub(crate) max_background: u16,
    pub(crate) uring: bool,
}

/// The end of a handshake that succeeded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Agreement {
    pub(crate) unique: u64,
    pub(crate) answer: InitOut,
    /// Whether the rings were agreed on.
    pub(crate) uring: bool,
}

/// Answer the kernel's first message.
///
/// # Errors
/// [`FuseError::Protocol`] when it is not an INIT or has another major version,
/// [`FuseError::Unavailable`] when the kernel is too old.
pub(crate) fn negotiate(message: &[u8], wishes: &Wishes) -> Result<Agreement, FuseError> {
    let (header, offer) = parse_init(message)?;
    if offer.major != MAJOR {
        return Err(FuseError::Protocol { what: "it has another major version" });
    }
    if offer.minor < OLDEST_MINOR {
        let found = format!("{}.{}", offer.major, offer.minor);
        return Err(FuseError::Unavailable {
            reason: format!("the kernel's FUSE {found} is too old: use Linux 4.20 or later"),
        });
    }
    let offered = offered_flags(message, &offer);
    let uring = wishes.uring && offered & init_flag::OVER_IO_URING != 0;
    let wanted = init_flag::ASYNC_READ
        | init_flag::BIG_WRITES
        | init_flag::ASYNC_DIO
        | init_flag::MAX_PAGES
        // Spares a look at the file's capabilities before each write; the file has none.
        | init_flag::HANDLE_KILLPRIV_V2
        | init_flag::INIT_EXT
        | if uring { init_flag::OVER_IO_URING } else { 0 };
    let agreed = wanted & offered;
    let pages = wishes.max_transfer_bytes / wishes.page_bytes.max(1);
    let answer = InitOut {
        major: MAJOR,
        minor: MINOR.min(offer.minor),
        max_readahead: offer.max_readahead,
        flags: low_half(agreed),
        max_background: wishes.max_background,
        // Congestion only slows readahead down, which direct I/O has none of.
        congestion_threshold: wishes.max_background,
        max_write: wishes.max_transfer_bytes,
        time_gran: 1,
        max_pages: u16::try_from(pages).unwrap_or(u16::MAX).max(1),
        flags2: low_half(agreed >> 32),
        ..InitOut::default()
    };
    Ok(Agreement { unique: header.unique, answer, uring })
}

fn parse_init(message: &[u8]) -> Result<(InHeader, InitIn), FuseError> {
    let cut_short = || FuseError::Protocol { what: "its first message is cut short" };
    let (header, argument) = InHeader::read_from_prefix(message).map_err(|_| cut_short())?;
    if header.opcode != opcode::INIT || header.unique == 0 {
        return Err(FuseError::Protocol { what: "its first message is not INIT" });
    }
    let (offer, _) = InitIn::read_from_prefix(argument).map_err(|_| cut_short())?;
    Ok((header, offer))
}

fn offered_flags(message: &[u8], offer: &InitIn) -> u64 {
    let low = u64::from(offer.flags);
    if low & init_flag::INIT_EXT == 0 {
        return low;
    }
    let rest = message.get(IN_HEADER_BYTES + size_of::<InitIn>()..).unwrap_or_default();
    u32::read_from_prefix(rest).map_or(low, |(high, _)| low | u64::from(high) << 32)
}

fn low_half(flags: u64) -> u32 {
    u32::try_from(flags & u64::from(u32::MAX)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerocopy::IntoBytes;

    use super::*;

    const WISHES: Wishes =
        Wishes { max_transfer_bytes: 1 << 20, page_bytes: 4096, max_background: 256, uring: true };

    fn message(code: u32, major: u32, minor: u32, flags: u64) -> Vec<u8> {
        let header = InHeader {
            len: 104,
            opcode: code,
            unique: 2,
            nodeid: 0,
            uid: 0,
            gid: 0,
            pid: 0,
            total_extlen: 0,
            padding: 0,
        };
        let offer = InitIn { major, minor, max_readahead: 131_072, flags: low_half(flags) };
        [header.as_bytes(), offer.as_bytes(), low_half(flags >> 32).as_bytes(), &[0; 44]].concat()
    }

    #[test]
    fn only_what_both_can_is_agreed() {
        let all = u64::MAX;
        for (minor, flags, uring) in [
            (45, all, true),
            (42, all, true),
            (42, all & !init_flag::OVER_IO_URING, false),
            (28, all & !init_flag::INIT_EXT, false),
            (36, 0, false),
        ] {
            let agreed = negotiate(&message(opcode::INIT, 7, minor, flags), &WISHES).unwrap();
            assert_eq!(agreed.uring, uring, "{minor} {flags:#x}");
            assert_eq!(u64::from(agreed.answer.flags) & !flags, 0);
            assert_eq!(agreed.answer.flags2 & (1 << 9) != 0, uring);
            assert_eq!(agreed.answer.minor, minor.min(MINOR));
            assert_eq!((agreed.answer.max_pages, agreed.answer.max_write), (256, 1 << 20));
            assert_eq!(agreed.unique, 2);
        }
        let classic = Wishes { uring: false, ..WISHES };
        let agreed = negotiate(&message(opcode::INIT, 7, 45, all), &classic).unwrap();
        assert!(!agreed.uring);
        assert_eq!(agreed.answer.flags2, 0);
    }

    #[test]
    fn another_version_or_message_is_refused() {
        for (code, major, minor) in [
            (opcode::INIT, 6, 40),
            (opcode::INIT, 8, 0),
            (opcode::INIT, 7, 27),
            (opcode::READ, 7, 40),
        ] {
            assert!(negotiate(&message(code, major, minor, 0), &WISHES).is_err());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..120),
            is_init: bool,
        ) {
            if is_init && bytes.len() > 8 {
                bytes[4..8].copy_from_slice(&opcode::INIT.to_ne_bytes());
            }
            drop(negotiate(&bytes, &WISHES));
        }
    }
}
