//! The space of a log: which part is used, and which slots may be freed of small frames.

pub(crate) mod freeing;
pub(crate) mod space;
