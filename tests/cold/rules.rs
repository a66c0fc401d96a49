//! The rules that a model runs by: those of `braid_shared::cold::rules`, called and not copied, but
//! for the one that is broken.

use std::time::Duration;

use braid_shared::cold::rules::{self, Ack, Entry, Facts, Overtaken, Published, Sources};
use braid_shared::model::{TimeRange, Timestamp};

/// Which rule is broken: a checker that does not notice proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// None.
    Nothing,
    /// COLD-1: closing may go back.
    ClosingShrinks,
    /// COLD-2: a generation is opened as soon as the bucket is due.
    OpenedWithoutGrace,
    /// COLD-2: a generation is opened of a bucket that is not due.
    OpenedBeforeDue,
    /// COLD-3: the hot side is read, then the generation opened.
    ReadBeforeOpened,
    /// COLD-4: whoever wrote files publishes them.
    PublishedUnopened,
    /// COLD-4: publishing clears the mark too.
    MarkLost,
    /// COLD-5: however old its view is, a writer acknowledges at once.
    OldViewBelieved,
    /// COLD-5: a writer acknowledges a block of a due bucket without the mark.
    Unmarked,
    /// COLD-5: an open generation is taken for the mark.
    OpenTakenForMark,
    /// COLD-5: the mark is set before the block is durable.
    MarkedBeforeStored,
    /// COLD-6: readers skip the hot side of a marked bucket.
    MarkedSkipped,
    /// COLD-6: readers skip the hot side of an open bucket.
    OpenSkipped,
    /// COLD-7: what was archived is deleted at once.
    SweptWithoutGrace,
    /// COLD-7: the hot side is emptied, whatever was archived.
    SweptWhole,
    /// COLD-8: however long a read took, it counts.
    SlowReadCounts,
    /// COLD-8: a read that was planned on one view is counted from a later one.
    CountedFromLaterView,
    /// COLD-9: what is dropped is deleted at once.
    DroppedWithoutGrace,
}

/// All of them but none.
pub(crate) const FAULTS: [Broken; 17] = [
    Broken::ClosingShrinks,
    Broken::OpenedWithoutGrace,
    Broken::OpenedBeforeDue,
    Broken::ReadBeforeOpened,
    Broken::PublishedUnopened,
    Broken::MarkLost,
    Broken::OldViewBelieved,
    Broken::Unmarked,
    Broken::OpenTakenForMark,
    Broken::MarkedBeforeStored,
    Broken::MarkedSkipped,
    Broken::OpenSkipped,
    Broken::SweptWithoutGrace,
    Broken::SweptWhole,
    Broken::SlowReadCounts,
    Broken::CountedFromLaterView,
    Broken::DroppedWithoutGrace,
];

/// The one bucket there is.
pub(crate) const BUCKET: TimeRange = TimeRange { from: Timestamp::from_nanos(0), to: Timestamp::from_nanos(10) };
/// The model's unit of time.
const UNIT: Duration = Duration::from_secs(1);
/// How long what is replaced still stands, units.
const GRACE: u32 = 1;
/// How long a read, and a writer's view, may count, units; whole units passed make the bound, so this is less than [`GRACE`].
const DEADLINE: u32 = 1;

fn units(from: u8, to: u8) -> Duration {
    UNIT * u32::from(to.saturating_sub(from))
}

impl Broken {
    pub(crate) fn is_due(self, facts: Facts) -> bool {
        self == Broken::OpenedBeforeDue || rules::is_due(facts.closing, BUCKET)
    }

    pub(crate) fn may_open(self, since: u8, now: u8) -> bool {
        self == Broken::OpenedWithoutGrace || rules::grace_passed(units(since, now), UNIT * GRACE)
    }

    pub(crate) fn may_sweep(self, since: u8, now: u8) -> bool {
        self == Broken::SweptWithoutGrace || rules::grace_passed(units(since, now), UNIT * GRACE)
    }

    pub(crate) fn may_delete_dropped(self, since: u8, now: u8) -> bool {
        self == Broken::DroppedWithoutGrace || rules::grace_passed(units(since, now), UNIT * GRACE)
    }

    pub(crate) fn published(self, entry: Option<&Entry>, new: Published) -> Result<Entry, Overtaken> {
        let mut entry = entry.cloned();
        if let Some(entry) = entry.as_mut().filter(|_| self == Broken::PublishedUnopened) {
            entry.open = Some(new.nonce);
        }
        let published = rules::published(entry.as_ref(), new)?;
        Ok(if self == Broken::MarkLost { Entry { late: false, ..published } } else { published })
    }

    pub(crate) fn ack(self, facts: Facts, began: u8, now: u8) -> Ack {
        let age = if self == Broken::OldViewBelieved { Duration::ZERO } else { units(began, now) };
        match rules::ack(facts, BUCKET, age, UNIT * DEADLINE) {
            Ack::Marked if self == Broken::Unmarked => Ack::Now,
            ack => ack,
        }
    }

    pub(crate) fn marked(self, entry: Option<&Entry>) -> Option<Entry> {
        let open = entry.is_some_and(|entry| entry.open.is_some());
        if self == Broken::OpenTakenForMark && open { None } else { rules::marked(entry) }
    }

    pub(crate) fn sources(self, entry: Option<&Entry>) -> Sources {
        let mut entry = entry.cloned();
        if let Some(entry) = &mut entry {
            entry.late &= self != Broken::MarkedSkipped;
            entry.open = entry.open.filter(|_| self != Broken::OpenSkipped);
        }
        rules::sources(entry.as_ref())
    }

    pub(crate) fn in_time(self, began: u8, now: u8) -> bool {
        self == Broken::SlowReadCounts || rules::in_time(units(began, now), UNIT * DEADLINE)
    }
}
