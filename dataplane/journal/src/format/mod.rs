//! What lies in a log: the record that says where it begins, the frames, and the shape of the ring
//! that they lie in. Pure: encodes, decodes, checks, and knows nothing of what is used or why.

pub(crate) mod error;
pub(crate) mod frame;
pub(crate) mod header;
pub(crate) mod ids;
pub(crate) mod record;
pub(crate) mod ring;
pub(crate) mod seal;
mod wire;
