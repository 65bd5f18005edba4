//! What ranges of a volume become: the values that all other modules pass on. Pure.

pub(crate) mod content;
pub(crate) mod interval;
pub(crate) mod number;
pub(crate) mod span;
