//! The promise: the rules by which no acknowledged event can be misplaced (DESIGN section 3).
//!
//! Pure; production, property tests and models call these same functions. Each invariant is named
//! once, here; docs and tests use the names:
//!
//! | name | invariant |
//! |---|---|
//! | PROMISE-1 | an event is accepted only below the horizon of the view that placed it |
//! | PROMISE-2 | an epoch begins at or after the promise of the root that is swapped, and after its timeline's last start |
//! | PROMISE-3 | an epoch that begins below the promise is never withdrawn |
//! | PROMISE-4 | the promise and the stamp ceiling only grow |
//! | PROMISE-5 | a raised promise is used only once the root is known to hold it |
//! | PROMISE-6 | readers answer only below a horizon |
//! | PROMISE-7 | a node refuses a root older than, or forked from, one it has seen |
//!
//! Why they suffice: a view read from a root with promise H knows every epoch that begins below H,
//! because one swapped in later began at or after a promise that was no lower (2, 4), and none of
//! those it knows below H can go away (3). So what is placed below H (1, 5) is placed the same by
//! every view that reaches so far, and nobody looks further (6, 7).

use crate::model::{Span, TimeRange, Timestamp};

/// An event is accepted only below the horizon of the view that placed it.
pub const PROMISE_1: &str = "PROMISE-1";
/// An epoch begins at or after the promise of the root that is swapped, and after its timeline's last start.
pub const PROMISE_2: &str = "PROMISE-2";
/// An epoch that begins below the promise is never withdrawn.
pub const PROMISE_3: &str = "PROMISE-3";
/// The promise and the stamp ceiling only grow.
pub const PROMISE_4: &str = "PROMISE-4";
/// A raised promise is used only once the root is known to hold it.
pub const PROMISE_5: &str = "PROMISE-5";
/// Readers answer only below a horizon.
pub const PROMISE_6: &str = "PROMISE-6";
/// A node refuses a root older than, or forked from, one it has seen.
pub const PROMISE_7: &str = "PROMISE-7";

/// PROMISE-1: whether a view with this horizon may place an event at `ts`.
pub fn accepts(horizon: Timestamp, ts: Timestamp) -> bool {
    ts < horizon
}

/// Why an epoch may not be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishRefused {
    /// It would begin below the promise.
    #[error("the layout would begin at {from}, and no layout may begin before {promise} any more")]
    BelowPromise {
        /// Where it would begin.
        from: Timestamp,
        /// The earliest start that is allowed.
        promise: Timestamp,
    },
    /// It would begin at or before the last one.
    #[error("the layout would begin at {from}, not after the last one, which begins at {last}; withdraw that first")]
    NotAfterLast {
        /// Where it would begin.
        from: Timestamp,
        /// Where the last one begins.
        last: Timestamp,
    },
}

/// PROMISE-2: whether an epoch may begin at `from`, given the promise of the root that is swapped
/// and the last start of the timeline it is appended to.
pub fn may_publish(promise: Timestamp, last: Option<Timestamp>, from: Timestamp) -> Result<(), PublishRefused> {
    if from < promise {
        return Err(PublishRefused::BelowPromise { from, promise });
    }
    match last {
        Some(last) if from <= last => Err(PublishRefused::NotAfterLast { from, last }),
        _ => Ok(()),
    }
}

/// Where an epoch begins unless told otherwise: now, or as soon as the promise allows.
pub fn earliest_start(promise: Timestamp, now: Timestamp) -> Timestamp {
    promise.max(now)
}

/// PROMISE-3: whether an epoch that begins at `from` may still be withdrawn.
pub fn may_withdraw(promise: Timestamp, from: Timestamp) -> bool {
    from >= promise
}

/// PROMISE-4: the promise a node asks for: `lead` ahead of its clock, and never less than what stands.
pub fn raised(promise: Timestamp, now: Timestamp, lead: Span) -> Timestamp {
    promise.max(now.saturating_add(lead))
}

/// PROMISE-4: the stamp ceiling a node asks for, `used` being the stamp time it has reached.
pub fn raised_ceiling(ceiling: u64, used: u64, lead: Span) -> u64 {
    ceiling.max(used).saturating_add(lead.nanos().unsigned_abs())
}

/// How far a horizon or a ceiling reaches for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Far enough for now.
    Ample,
    /// It suffices, but less than half the lead is left: raise it soon.
    Short,
    /// It does not suffice: raise it first.
    Spent,
}

/// How far `horizon` reaches for an event at `ts`. An old event never makes it short, so that a
/// replay of history does not keep layouts from changing.
pub fn horizon_reach(horizon: Timestamp, ts: Timestamp, now: Timestamp, lead: Span) -> Reach {
    let near = |t: Timestamp| horizon.nanos().saturating_sub(t.nanos()) < lead.nanos() / 2;
    if !accepts(horizon, ts) {
        Reach::Spent
    } else if near(ts) && near(now) {
        Reach::Short
    } else {
        Reach::Ample
    }
}

/// How far a stamp ceiling reaches for a node that has used stamps up to `used`.
pub fn ceiling_reach(ceiling: u64, used: u64, lead: Span) -> Reach {
    match ceiling.saturating_sub(used) {
        0..=1 => Reach::Spent,
        left if left < lead.nanos().unsigned_abs() / 2 => Reach::Short,
        _ => Reach::Ample,
    }
}

/// PROMISE-6: whether a view with this horizon may answer for event times up to `to` (exclusive).
pub fn answers(horizon: Timestamp, to: Timestamp) -> bool {
    to <= horizon
}

/// PROMISE-6: whether a view at hand with this horizon does for a read to `to`. An open end, and one
/// beyond it, needs a horizon read after the request began: only that covers every event acknowledged before.
pub fn covers(horizon: Timestamp, to: Option<Timestamp>) -> bool {
    to.is_some_and(|to| answers(horizon, to))
}

/// PROMISE-6: the part of `range` that a view with this horizon may answer for.
pub fn answerable(horizon: Timestamp, range: TimeRange) -> TimeRange {
    TimeRange { from: range.from, to: range.to.min(horizon) }
}

/// The facts of a root that only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// Random id of the catalog.
    pub catalog: u64,
    /// Swaps since the root was made.
    pub swap: u64,
    /// Changes since the root was made.
    pub revision: u64,
    /// The promise.
    pub promise: Timestamp,
    /// The stamp ceiling.
    pub ceiling: u64,
}

/// PROMISE-4 and PROMISE-7: whether a root with the facts `read` can be a later state of one with
/// the facts `seen`; where not, what is wrong. (That its head descends from the known head is
/// checked where the changes are read.)
pub fn must_follow(seen: Facts, read: Facts) -> Result<(), &'static str> {
    if read.catalog != seen.catalog {
        return Err("it is another catalog than the one this node knows");
    }
    if read.revision < seen.revision {
        return Err("its revision is older than the one this node knows");
    }
    if read.promise < seen.promise {
        return Err("its promise is lower than the one this node knows");
    }
    if read.ceiling < seen.ceiling {
        return Err("its stamp ceiling is lower than the one this node knows");
    }
    if read.swap < seen.swap {
        return Err("it was swapped fewer times than the one this node knows");
    }
    if read.swap == seen.swap && read != seen {
        return Err("it is a fork of the one this node knows");
    }
    Ok(())
}

/// Whether a root with the facts `found` takes the place of one with the facts `known`: an answer
/// that was long on its way must not undo a newer one.
pub fn is_newer(found: Facts, known: Facts) -> bool {
    found.swap > known.swap
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ts(n: i64) -> Timestamp {
        Timestamp::from_nanos(n)
    }

    const LEAD: Span = Span::SECOND;

    #[test]
    fn promise_1_the_horizon_itself_is_not_accepted() {
        assert!(accepts(ts(10), ts(9)));
        assert!(!accepts(ts(10), ts(10)));
    }

    #[test]
    fn promise_2_an_epoch_begins_at_the_promise_or_later_and_after_the_last() {
        assert_eq!(may_publish(ts(10), None, ts(10)), Ok(()));
        assert_eq!(may_publish(ts(10), None, ts(9)), Err(PublishRefused::BelowPromise { from: ts(9), promise: ts(10) }));
        assert_eq!(may_publish(ts(10), Some(ts(12)), ts(12)), Err(PublishRefused::NotAfterLast { from: ts(12), last: ts(12) }));
        assert_eq!(may_publish(ts(10), Some(ts(12)), ts(13)), Ok(()));
        assert_eq!(earliest_start(ts(10), ts(5)), ts(10));
        assert_eq!(earliest_start(ts(10), ts(15)), ts(15));
    }

    #[test]
    fn promise_3_what_begins_below_the_promise_stays() {
        assert!(may_withdraw(ts(10), ts(10)));
        assert!(!may_withdraw(ts(10), ts(9)));
    }

    #[test]
    fn promise_4_a_clock_that_stepped_back_lowers_nothing() {
        assert_eq!(raised(ts(5_000_000_000), ts(0), LEAD), ts(5_000_000_000));
        assert_eq!(raised(ts(0), ts(0), LEAD), ts(1_000_000_000));
        assert_eq!(raised(ts(0), Timestamp::MAX, LEAD), Timestamp::MAX);
        assert_eq!(raised_ceiling(50, 7, LEAD), 1_000_000_050);
        assert_eq!(raised_ceiling(u64::MAX, 7, LEAD), u64::MAX);
    }

    #[test]
    fn promise_6_a_range_is_cut_at_the_horizon() {
        assert!(answers(ts(10), ts(10)));
        assert!(!answers(ts(10), ts(11)));
        assert!(covers(ts(10), Some(ts(10))));
        assert!(!covers(ts(10), Some(ts(11))) && !covers(ts(10), None));
        assert_eq!(answerable(ts(10), TimeRange { from: ts(0), to: ts(20) }), TimeRange { from: ts(0), to: ts(10) });
    }

    #[test]
    fn promise_7_a_root_that_stepped_back_in_any_way_is_refused() {
        let seen = Facts { catalog: 1, swap: 5, revision: 3, promise: ts(10), ceiling: 20 };
        assert_eq!(must_follow(seen, seen), Ok(()));
        assert_eq!(must_follow(seen, Facts { swap: 6, promise: ts(11), ..seen }), Ok(()));
        for wrong in [
            Facts { catalog: 2, swap: 6, ..seen },
            Facts { revision: 2, swap: 6, ..seen },
            Facts { promise: ts(9), swap: 6, ..seen },
            Facts { ceiling: 19, swap: 6, ..seen },
            Facts { swap: 4, ..seen },
            Facts { promise: ts(11), ..seen },
        ] {
            assert!(must_follow(seen, wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_root_of_more_swaps_is_the_newer_one() {
        let known = Facts { catalog: 1, swap: 5, revision: 3, promise: ts(10), ceiling: 20 };
        assert!(is_newer(Facts { swap: 6, ..known }, known));
        assert!(!is_newer(known, known) && !is_newer(Facts { swap: 4, ..known }, known));
    }

    #[test]
    fn old_events_never_make_the_horizon_short() {
        let half = LEAD.nanos() / 2;
        let (horizon, now) = (ts(10 * half), ts(10 * half - 1));
        assert_eq!(horizon_reach(horizon, ts(0), now, LEAD), Reach::Ample);
        assert_eq!(horizon_reach(horizon, now, now, LEAD), Reach::Short);
        assert_eq!(horizon_reach(horizon, horizon, now, LEAD), Reach::Spent);
    }

    #[test]
    fn an_event_ahead_of_the_clock_does_not_raise_a_promise_that_is_ample() {
        let horizon = ts(LEAD.nanos());
        assert_eq!(horizon_reach(horizon, ts(LEAD.nanos() - 1), ts(0), LEAD), Reach::Ample);
    }

    #[test]
    fn a_ceiling_is_spent_when_no_stamp_is_left_below_it() {
        assert_eq!(ceiling_reach(10, 9, LEAD), Reach::Spent);
        assert_eq!(ceiling_reach(10, 8, LEAD), Reach::Short);
        assert_eq!(ceiling_reach(2_000_000_000, 8, LEAD), Reach::Ample);
    }
}
