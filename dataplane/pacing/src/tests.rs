//! The order and the times of an arm, and the device over one that counts and can be held up.

mod arm;
mod device;
