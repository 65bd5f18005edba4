//! What the users of the volume do.

use grampus_blockdev::{Durability, Offset, Token};

use super::history::Op;
use super::world::{Owner, Waiting, Work, World};
use crate::extent::content::{Payload, ZEROS_PER_BYTE};
use crate::extent::span::Span;
use crate::journal::throttle::Admission;
use crate::{Event, ReadPlan, Refusal, Source};

impl World {
    /// One random request to owner `index`. Only what the newest owner takes, or the one before
    /// it until the takeover is checked, is history.
    pub(super) fn request(&mut self, index: usize) {
        if self.owners[index].held.is_some() && self.random.chance(10) {
            self.release_image(index);
        }
        match self.random.below(100) {
            0..80 if self.hasty => {
                self.change(index);
                self.flush(index);
            }
            0..62 => self.change(index),
            62..80 => drop(self.flush(index)),
            80..97 => self.read(index),
            97..99 if index + 1 == self.owners.len() => {
                let token = self.wait(index, Waiting::Quiesce);
                self.owners[index].journal.handle(self.now, Event::Quiesce(token));
            }
            99 => {
                let wanted = self.random.below(2) == 0;
                self.owners[index].journal.handle(self.now, Event::DrawDown(wanted));
            }
            _ => {}
        }
        self.drive(index);
    }

    /// End what holds the image. Unless somebody else has taken the volume over, it is as it was
    /// (INV-4): a snapshot taken meanwhile has no part of what came later.
    fn release_image(&mut self, index: usize) {
        let Some(held) = self.owners[index].held.take() else { return };
        let is_own =
            index + 1 == self.owners.len() && self.owners[index].epoch >= self.image.fenced_below();
        if is_own && self.image.bytes() != held {
            self.violate("an image that was held has changed (INV-4)");
        }
        self.owners[index].journal.handle(self.now, Event::HoldImage(false));
    }

    fn wait(&mut self, index: usize, waiting: Waiting) -> Token {
        let token = self.unique();
        self.owners[index].waiting.insert(token, waiting);
        Token(token)
    }

    fn covers(&self, index: usize) -> usize {
        // What a fenced owner takes after its fork was never part of the volume.
        match self.owners[index] {
            Owner { strayed: true, .. } => usize::MAX,
            Owner { fork: Some(kept), .. } => kept,
            _ => self.history.len(),
        }
    }

    pub(super) fn flush(&mut self, index: usize) -> Token {
        let covers = self.covers(index);
        let token = self.wait(index, Waiting::Flush { covers });
        self.owners[index].journal.flush(self.now, token);
        token
    }

    /// Hot pages, aligned pages, anything.
    fn somewhere(&mut self) -> Span {
        let random = &mut self.random;
        let (start, length) = match random.below(10) {
            _ if self.hasty => (random.between(0, 16) * 4096, 4096),
            0..5 => (random.between(0, 6) * 4096, 4096),
            5..7 => (random.between(0, 16) * 4096, random.between(1, 9) * 512),
            _ => (random.between(0, 1 << 16), random.between(1, 4097)),
        };
        let start = start.min(self.size_bytes - 1);
        Span::new(start, length.min(self.size_bytes - start)).unwrap()
    }

    pub(super) fn change(&mut self, index: usize) {
        let mut span = self.somewhere();
        let kind = self.random.below(20);
        let kind = if self.hasty { 3 } else { kind };
        if kind < 3 {
            let length = self.random.between(1, 20_000).min(self.size_bytes - span.start());
            span = Span::new(span.start(), length).unwrap();
        }
        let length = usize::try_from(span.length()).unwrap();
        let weight_bytes = if kind < 3 { span.length() / ZEROS_PER_BYTE } else { span.length() };
        match self.owners[index].journal.admission(self.now, weight_bytes) {
            Admission::Now => {}
            Admission::At(_) | Admission::Wait => {
                self.tally.waits += 1;
                return;
            }
            Admission::Refused(_) => {
                self.tally.refused += 1;
                return;
            }
        }
        let fua = self.random.chance(8);
        let durability = if fua { Durability::Fua } else { Durability::OnFlush };
        let stray = self.owners[index].fork.is_some();
        let covers = if stray { usize::MAX } else { self.history.len() + 1 };
        let stamp = self.unique().wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        let bytes: Vec<u8> = if kind < 3 {
            vec![0; length]
        } else {
            stamp.iter().copied().cycle().take(length).collect()
        };
        let token = self.unique();
        if fua {
            self.owners[index].waiting.insert(token, Waiting::Flush { covers });
        }
        let (now, token) = (self.now, Token(token));
        let journal = &mut self.owners[index].journal;
        let answer = if kind < 3 {
            journal.zero(now, span, kind == 0, durability, token)
        } else {
            let offset = Offset::new(span.start()).unwrap();
            journal.write(now, offset, Payload::copy_of(&bytes), durability, token)
        };
        match answer {
            Ok(accepted) => {
                let number = self.history.len() + 1;
                self.trace(|| format!("owner {index}: operation {number}, {span} in {accepted:?}"));
                if self.owners[index].fork.is_some() {
                    self.owners[index].strayed = true;
                } else {
                    self.history.push(Op { span, bytes, sequence: accepted.sequence });
                }
            }
            Err(Refusal::OutOfRange { .. }) if self.owners[index].fork.is_some() => {
                self.owners[index].waiting.remove(&token.0);
            }
            Err(refusal) => {
                self.violate(&format!("a write that was let in was refused: {refusal}"));
            }
        }
    }

    fn read(&mut self, index: usize) {
        if index + 1 != self.owners.len() || self.owners[index].failed {
            return;
        }
        let span = self.somewhere();
        let mut plan = ReadPlan::default();
        self.owners[index].journal.plan_read(span, &mut plan);
        let mut end = span.start();
        for (piece, source) in plan.pieces() {
            assert_eq!(piece.start(), end, "pieces lie side by side");
            end = piece.end();
            let expected = self.history.bytes(*piece).to_vec();
            let right = match source {
                Source::Memory(payload) => payload.as_slice() == expected,
                Source::Zeros => expected.iter().all(|byte| *byte == 0),
                Source::Image => {
                    let since = self.history.len();
                    let work = Work::Read { span: *piece, expected, since };
                    self.begin(index, work, 100, 2000);
                    true
                }
            };
            self.tally.reads_checked += 1;
            if !right {
                self.violate(&format!("a read of {piece} from memory brought other bytes"));
            }
        }
        assert_eq!(end, span.end(), "pieces fill the span");
    }

    /// With the devices sound again everything must come through: more writes than the journal
    /// holds, a flush, and quiescing (INV-5: it never hangs).
    pub(super) fn must_live(&mut self) {
        self.failures = 0;
        let index = self.owner();
        if self.has_failed() {
            return;
        }
        self.release_image(index);
        let wanted = self.history.len() + 60;
        for _ in 0..5000 {
            if self.history.len() >= wanted {
                break;
            }
            self.change(index);
            self.drive(index);
            self.proceed();
        }
        if self.history.len() < wanted {
            let status = self.owners[index].journal.status();
            return self.violate(&format!("writes wait for ever: {status:?}"));
        }
        let flushed = self.flush(index);
        self.must_answer(index, flushed);
        let quiesced = self.wait(index, Waiting::Quiesce);
        self.owners[index].journal.handle(self.now, Event::Quiesce(quiesced));
        self.must_answer(index, quiesced);
    }

    fn must_answer(&mut self, index: usize, token: Token) {
        self.drive(index);
        for _ in 0..5000 {
            if !self.owners[index].waiting.contains_key(&token.0) {
                return;
            }
            if !self.proceed() {
                break;
            }
        }
        let status = self.owners[index].journal.status();
        self.violate(&format!("a flush was never answered: {status:?}"));
    }
}
