//! Which bytes of a read come from memory.

use crate::extent::content::{Content, Payload};
use crate::extent::span::Span;

/// Where a piece of a read comes from.
#[derive(Debug, Clone)]
pub enum Source {
    /// These bytes.
    Memory(Payload),
    /// Zeros.
    Zeros,
    /// The image. What is held of the piece later is newer than the read and need not be seen.
    Image,
}

/// A read cut into pieces that lie side by side. Kept and used again, it allocates nothing.
#[derive(Debug, Default)]
pub struct ReadPlan {
    pieces: Vec<(Span, Source)>,
    gaps: Vec<Span>,
    next_gaps: Vec<Span>,
}

impl ReadPlan {
    /// The pieces in order; together the span that was asked for.
    #[must_use]
    pub fn pieces(&self) -> &[(Span, Source)] {
        &self.pieces
    }

    pub(crate) fn begin(&mut self, span: Span) {
        self.pieces.clear();
        self.gaps.clear();
        if !span.is_empty() {
            self.gaps.push(span);
        }
    }

    /// Fill from a layer what newer layers left open.
    pub(crate) fn fill<'a, I>(&mut self, layer: impl Fn(Span) -> I)
    where
        I: Iterator<Item = (Span, &'a Content)>,
    {
        self.next_gaps.clear();
        for gap in &self.gaps {
            let mut open_from = gap.start();
            for (held, content) in layer(*gap) {
                let Some(piece) = held.intersection(*gap) else { continue };
                if open_from < piece.start() {
                    self.next_gaps.push(Span::between(open_from, piece.start()));
                }
                open_from = piece.end();
                let source = match content.slice(piece.start() - held.start(), piece.length()) {
                    Content::Data(payload) => Source::Memory(payload),
                    Content::Zeros | Content::Discard => Source::Zeros,
                };
                self.pieces.push((piece, source));
            }
            if open_from < gap.end() {
                self.next_gaps.push(Span::between(open_from, gap.end()));
            }
        }
        std::mem::swap(&mut self.gaps, &mut self.next_gaps);
    }

    pub(crate) fn finish(&mut self) {
        self.pieces.extend(self.gaps.drain(..).map(|gap| (gap, Source::Image)));
        self.pieces.sort_unstable_by_key(|(span, _)| span.start());
    }
}
