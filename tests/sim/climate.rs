//! What a seed decides of its run before it begins: how the namespace is set, and how often what goes wrong.

use braid_shared::catalog::{Policy, Shared};
use braid_shared::model::Span;

use crate::chance::Chance;
use crate::clock::MIDNIGHT;
use crate::line::{Lie, Weather};

/// How far the clock of a node that archives is off at most: what it drops is gone.
pub(crate) const KEEPER_OFF_MAX_MS: i64 = 8_000;
/// Age at which events are dropped, where they are.
pub(crate) const RETENTION: i64 = 300 * SECOND;
/// Age at which buckets are archived, where they are.
const ARCHIVE_AFTER: i64 = 2 * SECOND;
/// How long what is replaced still stands, where that matters.
const GRACE: i64 = 4 * SECOND;
/// Most shards that the controller gives a key, and events per second that one should take.
const HEAT: (u32, u32) = (16, 5);
/// Pages that hold all there is.
const PAGE_BYTES: usize = 1 << 24;

const SECOND: i64 = Span::SECOND.nanos();

/// What the namespace is set to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) heat: bool,
    pub(crate) archived: bool,
    pub(crate) dropped: bool,
    pub(crate) eventual: bool,
    /// Width of its first buckets, nanoseconds.
    pub(crate) bucket: i64,
}

impl Terms {
    fn of(chance: &mut Chance) -> Terms {
        let archived = chance.happens(500_000);
        Terms {
            heat: chance.happens(500_000),
            archived,
            dropped: chance.happens(250_000),
            eventual: chance.happens(100_000),
            // Those of an hour are seldom due, and of narrow ones a run makes many tables.
            bucket: chance.pick(if archived { &[10, 30, 60, 3_600][..] } else { &[10, 3_600] }) * SECOND,
        }
    }

    pub(crate) fn policy(self) -> Policy {
        Policy {
            max_shards: self.heat.then_some(HEAT.0),
            target_events: self.heat.then_some(HEAT.1),
            archive_after: self.archived.then(|| span(ARCHIVE_AFTER)),
            retention: self.dropped.then(|| span(RETENTION)),
            eventual_reads: self.eventual,
            ..Policy::default()
        }
    }

    pub(crate) fn shared(self) -> Shared {
        if !self.archived && !self.dropped {
            return Shared::default();
        }
        Shared { grace: span(GRACE), read_deadline: span(GRACE / 2), write_deadline: span(GRACE / 2), ..Shared::default() }
    }
}

fn span(nanos: i64) -> Span {
    Span::from_nanos(nanos).expect("positive")
}

/// How often things happen, in a million ticks of each node, or of the whole run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Climate {
    pub(crate) terms: Terms,
    /// When the run begins, by a clock that is right.
    pub(crate) start: i64,
    pub(crate) page_bytes: usize,
    pub(crate) crash: u64,
    pub(crate) stand_still: u64,
    pub(crate) jump: u64,
    pub(crate) cut: u64,
    pub(crate) calls: u64,
    pub(crate) changes: u64,
    pub(crate) weather: Weather,
}

impl Climate {
    pub(crate) fn of(chance: &mut Chance, lie: Option<Lie>) -> Climate {
        let page_bytes = *chance.pick(&[1, 2_000, PAGE_BYTES]);
        let terms = Terms::of(chance);
        // A read without bounds plans every bucket of a day that holds data. Where they are narrow nothing is written before
        // midnight, and the day is young; else the oldest events are of the day before.
        let after_midnight = *chance.pick(if terms.bucket == 3_600 * SECOND { &[300, 1_200][..] } else { &[1_200] });
        Climate {
            terms,
            start: MIDNIGHT + after_midnight * SECOND,
            page_bytes,
            crash: *chance.pick(&[0, 1_000, 6_000]),
            stand_still: *chance.pick(&[0, 2_000, 10_000]),
            jump: *chance.pick(&[0, 2_000, 10_000]),
            cut: *chance.pick(&[0, 1_000, 5_000]),
            calls: *chance.pick(&[100_000, 300_000]),
            // What people set is never gone below: where they do it often, the controller does nothing.
            changes: *chance.pick(if terms.heat { &[0, 1_000, 5_000] } else { &[5_000, 20_000, 50_000] }),
            weather: Weather {
                faults: *chance.pick(&[0, 5_000, 30_000, 100_000]),
                delay_ms: *chance.pick(&[0, 4, 40, 400]),
                unseen: 300_000,
                one_page: page_bytes == PAGE_BYTES,
                steps_killed: *chance.pick(&[0, 10_000, 50_000]),
                lie,
            },
        }
    }
}
