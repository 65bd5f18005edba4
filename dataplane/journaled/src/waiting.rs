//! Who waits for the journal, and how they are answered.

use std::collections::HashMap;
use std::sync::mpsc;

use grampus_blockdev::{Buffer, Completion, DeviceError, Outcome, Token};
use grampus_journal::Failure;

use crate::error::lost;

/// Someone to be answered.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// A request, with the buffer that it gets back.
    Request { completion: Completion, buffer: Option<Buffer> },
    /// A thread that wants the journal drained.
    Quiesce(mpsc::Sender<Result<(), Failure>>),
}

/// An answer on its way, to be given without the lock.
#[derive(Debug)]
pub(crate) enum Answer {
    Request { completion: Completion, outcome: Outcome },
    Quiesce(mpsc::Sender<Result<(), Failure>>, Result<(), Failure>),
}

impl Waiter {
    /// As the journal says.
    pub(crate) fn with(self, result: Result<(), Failure>) -> Answer {
        match self {
            Self::Request { completion, buffer } => {
                let result = result.map_err(lost);
                Answer::Request { completion, outcome: Outcome { result, buffer } }
            }
            Self::Quiesce(sender) => Answer::Quiesce(sender, result),
        }
    }

    /// With an error of the shell's own.
    pub(crate) fn refused(self, error: DeviceError) -> Answer {
        match self {
            Self::Request { completion, buffer } => {
                Answer::Request { completion, outcome: Outcome { result: Err(error), buffer } }
            }
            Self::Quiesce(sender) => Answer::Quiesce(sender, Err(Failure::Io)),
        }
    }
}

impl Answer {
    pub(crate) fn give(self) {
        match self {
            Self::Request { completion, outcome } => completion.complete(outcome),
            // Whoever asked may have stopped waiting.
            Self::Quiesce(sender, result) => drop(sender.send(result)),
        }
    }
}

/// All who wait, by the tokens that the journal knows them by. A token is never used again.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    last: u64,
    waiting: HashMap<u64, Waiter>,
}

impl Waiters {
    /// A token for one who may come to wait.
    pub(crate) fn token(&mut self) -> Token {
        self.last += 1;
        Token(self.last)
    }

    pub(crate) fn add(&mut self, token: Token, waiter: Waiter) {
        self.waiting.insert(token.0, waiter);
    }

    /// None when nobody waits for it any more.
    pub(crate) fn take(&mut self, token: Token) -> Option<Waiter> {
        self.waiting.remove(&token.0)
    }

    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Waiter> {
        std::mem::take(&mut self.waiting).into_values()
    }
}
