//! A world in which the journal runs on a clock that is only a number, over devices that tear,
//! lose, reorder, delay and fail, and crashes at any moment. One seed makes one world, always the
//! same; the checker (`history`) says whether each recovered volume is a prefix of what was
//! written. See `tests` for how to replay a seed.

mod damage;
mod devices;
mod history;
mod random;
mod recovering;
mod tests;
mod workload;
mod world;
