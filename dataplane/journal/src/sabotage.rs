//! Faults that tests of the tests switch on: each breaks one rule, and the simulator must notice.
//! Outside tests nothing can be switched on and the checks compile to nothing.

/// Which rule is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Apply takes the newest bytes, of a closed batch or not.
    ApplyUnclosed,
    /// A frame counts as durable when its append begins.
    ApplyUndurable,
    /// A batch is acknowledged when its own frame is durable, whatever is before it.
    AcknowledgeOutOfOrder,
    /// The same in the local log: a batch is acknowledged though one before it is still being
    /// written there.
    AcknowledgeLocalOutOfOrder,
    /// A flush covers closed batches and forgets the open one.
    FlushForgetsOpen,
    /// Batches after a failed append are acknowledged.
    AcknowledgeAfterFailure,
    /// The journal is trimmed without a flush of the image.
    TrimUnflushed,
    /// The journal is trimmed up to what is durable, applied or not.
    TrimUnapplied,
    /// Ring space is used again before the record that frees it is durable.
    ReuseBeforeRecord,
    /// A slot is freed of frames that are not before the tail of a durable record.
    FreeUnrecorded,
    /// A finished apply frees its range, whatever the range holds by then.
    FreeOnOldApply,
    /// Two applies of the same bytes may be in flight together.
    OverlappingApplies,
    /// An image that is held is written to.
    ApplyToHeld,
    /// Reads do not see batches that are on their way into the journal.
    ForgetClosed,
    /// Flushes in cache mode do not wait for the lag to shrink.
    IgnoreLag,
    /// A local log that failed is taken to have worked.
    IgnoreLocalFailure,
    /// A scan takes frames of any owner.
    TakeAnyEpoch,
    /// A scan skips broken frames.
    SkipBroken,
    /// A scan does not look at the checksum of a frame's body.
    SkipChecksum,
    /// A local log of any epoch is shipped.
    ShipOldLocal,
    /// A local log is not shipped.
    ForgetLocal,
    /// Recovery frees the ring without a flush of the image.
    RecoverUnflushed,
    /// A takeover asks nobody to shut the old owner out (broken in the simulated world).
    #[cfg(test)]
    SkipFence,
}

#[cfg(test)]
impl Fault {
    pub(crate) const ALL: [Self; 23] = [
        Self::ApplyUnclosed,
        Self::ApplyUndurable,
        Self::AcknowledgeOutOfOrder,
        Self::AcknowledgeLocalOutOfOrder,
        Self::FlushForgetsOpen,
        Self::AcknowledgeAfterFailure,
        Self::TrimUnflushed,
        Self::TrimUnapplied,
        Self::ReuseBeforeRecord,
        Self::FreeUnrecorded,
        Self::FreeOnOldApply,
        Self::OverlappingApplies,
        Self::ApplyToHeld,
        Self::ForgetClosed,
        Self::IgnoreLag,
        Self::IgnoreLocalFailure,
        Self::TakeAnyEpoch,
        Self::SkipBroken,
        Self::SkipChecksum,
        Self::ShipOldLocal,
        Self::ForgetLocal,
        Self::RecoverUnflushed,
        Self::SkipFence,
    ];
}

/// The fault switched on, if any.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sabotage {
    #[cfg(test)]
    pub(crate) fault: Option<Fault>,
}

impl Sabotage {
    #[cfg(test)]
    pub(crate) fn is(self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    #[cfg(not(test))]
    #[allow(clippy::unused_self, reason = "the test build looks at itself")]
    pub(crate) fn is(self, _fault: Fault) -> bool {
        false
    }

    /// Whether any rule is broken. Assertions leave it to the simulator to notice then.
    #[cfg(test)]
    pub(crate) fn is_on(self) -> bool {
        self.fault.is_some()
    }

    #[cfg(not(test))]
    #[allow(clippy::unused_self, reason = "the test build looks at itself")]
    pub(crate) fn is_on(self) -> bool {
        false
    }
}
