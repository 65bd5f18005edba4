//! The kinds of request that statistics tell apart.

use grampus_blockdev::Request;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Reads bytes.
    Read,
    /// Writes bytes.
    Write,
    /// Makes zeros and keeps their space.
    WriteZeroes,
    /// Makes zeros and gives their space back.
    Discard,
    /// Makes what was written durable.
    Flush,
}

impl Kind {
    /// Every kind, in the order in which they are reported.
    pub const ALL: [Self; 5] =
        [Self::Read, Self::Write, Self::WriteZeroes, Self::Discard, Self::Flush];

    /// The kind of a request.
    #[must_use]
    pub fn of(request: &Request) -> Self {
        match request {
            Request::Read { .. } => Self::Read,
            Request::Write { .. } => Self::Write,
            Request::WriteZeroes { .. } => Self::WriteZeroes,
            Request::Discard { .. } => Self::Discard,
            Request::Flush => Self::Flush,
        }
    }

    /// Its name in JSON and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::WriteZeroes => "write_zeroes",
            Self::Discard => "discard",
            Self::Flush => "flush",
        }
    }

    /// Its number, to keep it in an atomic.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::WriteZeroes => 2,
            Self::Discard => 3,
            Self::Flush => 4,
        }
    }

    /// The kind of a number; only numbers of [`Kind::code`] are ever asked for.
    pub(crate) fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Read,
            1 => Self::Write,
            2 => Self::WriteZeroes,
            3 => Self::Discard,
            _ => Self::Flush,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_survives_its_code() {
        for (place, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(kind.code()), place);
            assert_eq!(Kind::from_code(kind.code()), kind);
        }
    }
}
