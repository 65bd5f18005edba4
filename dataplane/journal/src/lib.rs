//! The write journal of a volume: a state machine that does no I/O.
//!
//! The journal holds writes as a disk's volatile cache does. A flush closes them into a batch.
//! Batches are appended in order to a ring of objects in the cluster, and in `cache` mode first to a
//! log on the host's disk. What is durable in the cluster is applied to the image, newest version
//! only, and trimmed. Why so: `docs/adr/0008-journal-before-apply.md`. What must hold: INV-1 to
//! INV-6.
//!
//! # Main types
//! [`Journal`] is the machine of an open volume: it takes changes, plans reads, wants an [`Action`]
//! done and is told an [`Event`]. [`Recovery`] is the machine that opens a volume: it wants a
//! [`Step`] done and is given an [`Answer`]. A [`Frame`] is one or more batches as they lie in a
//! log; a [`Record`] says where a log begins and who owns it; a [`Ring`] is a log's shape.
//!
//! # The layers
//! Newest first, as reads look through them: the **open** batch; what is **closed** and not yet
//! durable in the cluster; what is **unapplied**, durable and not yet in the image; the image. Only
//! unapplied data is applied. Data leaves a layer only for the one below, or for newer data.
//!
//! # How to drive it
//! A shell (`dataplane/journaled`) does all I/O and has the only clock. It keeps a [`Journal`]
//! behind one lock, or on one thread, and
//!
//! 1. opens the volume with a [`Recovery`]: take the [`Step`], do it, give the [`Answer`], until
//!    [`Step::Open`];
//! 2. for each write asks [`Journal::admission`], waits if told so, copies the bytes once into a
//!    [`Payload`] and calls [`Journal::write`]; a write without FUA is complete then;
//! 3. for each read calls [`Journal::plan_read`] and reads from the image what the plan says, which
//!    needs no lock while the image answers;
//! 4. after each call takes every [`Journal::next_action`], carries it out, and gives what came of
//!    it to [`Journal::handle`]. Actions may end in any order. [`Frame::encode`] copies and
//!    checksums the data: it belongs on the thread that sends, outside the lock;
//! 5. gives [`Event::Tick`] at [`Journal::next_tick`].
//!
//! A snapshot, a shrinking resize or a detach is [`Event::Quiesce`], then the thing itself, then
//! [`Event::Unquiesce`]. For a snapshot, [`Event::HoldImage`] can come in between: then changes are
//! taken while the snapshot is made. Times are durations since any fixed moment of a clock that does not run
//! backwards.
//!
//! What the shell must keep: an append is conditional on the slot's epoch *in the same operation*;
//! the record is replaced by comparison of the whole of it; [`Step::Fence`] is done when every slot
//! has the new epoch and the old clients are on the blocklist, confirmed; an answer is given only
//! when what was asked for is durable (for an apply: visible); one process at a time uses a local
//! log, by a lock.
//!
//! # Failure and recovery
//! Want of space, and a failed apply, are tried again; [`Report::Retrying`] says so. A failed local
//! log degrades the journal to `journal` mode. Every other failure is final (INV-6): the journal
//! answers everyone who waits, takes nothing more, and must be opened again. Recovery can stop at
//! any step and begin again from the start. It refuses a log that lost what was durable (INV-67),
//! unless [`RecoveryConfig::accept_damage`] says otherwise.
//!
//! # What can be cancelled
//! [`Event::Unquiesce`] ends a quiesce that is under way, and [`Event::DrawDown`] a drawdown. A
//! change that was taken cannot be cancelled, nor can an action; each of them needs its answer. A
//! [`Recovery`] may be dropped at any step.
//!
//! # The modules
//! They import one way, each of them those before it (`scripts/check_crates.py`):
//! `extent`, what a range of the volume becomes; `format`, what lies in a log, as bytes; `ring`, the
//! space of a log; `journal`, the machine of an open volume; `recovery`, the machine that opens one.
//!
//! # Encrypted volumes
//! With a [`Sealing`], frames carry what they change encrypted and authenticated; lengths, epochs
//! and sequences stay readable. A frame that is not authentic ends a scan as one with a wrong
//! checksum does. A journal that was begun with one key, or with none, opens with nothing else.
//!
//! # Proof
//! `simulator` (in tests) drives all of this through devices that tear, lose, reorder and fail,
//! with crashes at any event, also in recovery, and takeovers from owners and recoveries that live
//! on. It also breaks the journal on purpose in each way named in `sabotage`, and must notice.

#![forbid(unsafe_code)]
mod extent;
mod format;
mod journal;
mod recovery;
mod ring;
mod sabotage;
#[cfg(test)]
mod simulator;

pub use extent::content::{Content, Payload, ZEROS_PER_BYTE};
pub use extent::interval::{IntervalMap, Part};
pub use extent::span::Span;
pub use format::error::{FormatError, SealMismatch};
pub use format::frame::{Frame, SMALL_FRAME_BYTES};
pub use format::ids::{Epoch, Log, Owner, VolumeId};
pub use format::record::{RECORD_BYTES, Record};
pub use format::ring::{Place, Ring, RingError, Segment};
pub use format::seal::Sealing;
pub use journal::action::{Action, Event, Report, State, Statistics, Status};
pub use journal::config::{CacheConfig, Config};
pub use journal::error::{ConfigError, Failure, Refusal};
pub use journal::intake::Accepted;
pub use journal::opened::Opened;
pub use journal::read::{ReadPlan, Source};
pub use journal::state::Journal;
pub use journal::throttle::Admission;
pub use journal::unapplied::Change;
pub use recovery::error::{Damage, RecoveryError, SlotFault};
pub use recovery::local_log::{LocalLog, decide_local_log};
pub use recovery::state::Recovery;
pub use recovery::step::{Answer, Aside, Progress, RecoveryConfig, Step};
