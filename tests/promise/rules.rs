//! The rules that a model runs by: those of `braid_shared::promise`, called and not copied, but for
//! the one that is broken.

use braid_shared::model::{Span, TimeRange, Timestamp};
use braid_shared::promise::{self, PublishRefused};

/// Which rule is broken: a checker that does not notice proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// None.
    Nothing,
    /// An epoch's start is not checked against the promise.
    StartUnchecked,
    /// A swap covers the chain of changes but not the promise, which stands apart.
    PromiseUncovered,
    /// A raised promise is used before its swap is answered.
    RaisedUsedEarly,
    /// A raise may lower the promise.
    PromiseShrinks,
    /// An epoch below the promise may be withdrawn.
    WithdrawnBelow,
    /// An event at the horizon itself is accepted.
    HorizonAccepted,
    /// A range is cut at the horizon at hand, whenever that was read.
    RangeShortened,
    /// A swap that is answered with a conflict is taken for one that never stands.
    ConflictBelieved,
}

impl Broken {
    pub(crate) fn accepts(self, horizon: Timestamp, ts: Timestamp) -> bool {
        promise::accepts(horizon, ts) || self == Broken::HorizonAccepted && ts == horizon
    }

    pub(crate) fn may_publish(self, promise: Timestamp, last: Option<Timestamp>, from: Timestamp) -> Result<(), PublishRefused> {
        let promise = if self == Broken::StartUnchecked { Timestamp::MIN } else { promise };
        promise::may_publish(promise, last, from)
    }

    pub(crate) fn may_withdraw(self, promise: Timestamp, from: Timestamp) -> bool {
        promise::may_withdraw(promise, from) || self == Broken::WithdrawnBelow
    }

    pub(crate) fn raised(self, promise: Timestamp, now: Timestamp, lead: Span) -> Timestamp {
        let promise = if self == Broken::PromiseShrinks { Timestamp::MIN } else { promise };
        promise::raised(promise, now, lead)
    }

    /// Whether a read to `to` needs nothing more than a view with this horizon.
    pub(crate) fn answers(self, horizon: Timestamp, to: Option<Timestamp>) -> bool {
        self == Broken::RangeShortened || promise::covers(horizon, to)
    }

    pub(crate) fn answerable(self, horizon: Timestamp, to: Option<Timestamp>) -> TimeRange {
        promise::answerable(horizon, TimeRange { from: Timestamp::MIN, to: to.unwrap_or(Timestamp::MAX) })
    }
}
