//! What became of every event of a verified run: two bits an event.
//!
//! An event need not be kept, since the workload makes it again from its slot. A sending whose
//! outcome is better known than the one before it raises the event's fate and never lowers it: an
//! event that was stored once is stored, however its duplicates fared.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::client::{Delivery, Failure, RowError};
use crate::workload::{Portion, Workload};

/// Most slots of a verified run: 2 GiB of history.
pub(crate) const SLOTS_MAX: u64 = 1 << 33;
const PER_WORD: u64 = 32;

/// What is known of an event, from least to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    /// No sending of it began.
    Unsent = 0,
    /// Every sending of it was refused.
    Rejected = 1,
    /// It may be stored.
    Unknown = 2,
    /// It was acknowledged.
    Stored = 3,
}

/// A number from 0 to 3 for every slot.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    words: Vec<u64>,
}

impl Pairs {
    pub(crate) fn get(&self, slot: u64) -> u8 {
        let word = self.words.get((slot / PER_WORD) as usize).copied().unwrap_or(0);
        (word >> (slot % PER_WORD * 2) & 3) as u8
    }

    pub(crate) fn set(&mut self, slot: u64, value: u8) {
        let (word, shift) = ((slot / PER_WORD) as usize, slot % PER_WORD * 2);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] = self.words[word] & !(3 << shift) | u64::from(value & 3) << shift;
    }
}

/// What the end of a request says of its events, in order.
pub(crate) fn fates_of(delivery: &Delivery) -> impl Iterator<Item = Fate> {
    let refused = if delivery.doubtful { Fate::Unknown } else { Fate::Rejected };
    let none: &[RowError] = &[];
    let (fate, errors) = match &delivery.result {
        Ok(answer) if answer.rejected == 0 => (Fate::Stored, none),
        Ok(answer) if answer.rejected == answer.errors.len() as u64 => (Fate::Stored, &answer.errors[..]),
        // It says how many, not which.
        Ok(_) => (Fate::Unknown, none),
        Err(Failure::Refused(_) | Failure::GaveUp { .. }) => (refused, none),
    };
    let rejected: HashSet<usize> = errors.iter().map(|row| row.index).collect();
    (0..).map(move |index| if rejected.contains(&index) { refused } else { fate })
}

/// The fates of a run's events. Shared by its connections.
#[derive(Debug, Default)]
pub(crate) struct History {
    fates: Mutex<Pairs>,
}

impl History {
    fn fates(&self) -> MutexGuard<'_, Pairs> {
        self.fates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how the sending of a portion ended.
    pub(crate) fn note(&self, workload: &Workload, portion: Portion, delivery: &Delivery) {
        let fates = &mut *self.fates();
        for (slot, fate) in portion.slots().zip(fates_of(delivery)) {
            let origin = workload.origin(slot);
            if fates.get(origin) < fate as u8 {
                fates.set(origin, fate as u8);
            }
        }
    }

    pub(crate) fn fate(&self, slot: u64) -> Fate {
        match self.fates().get(slot) {
            0 => Fate::Unsent,
            1 => Fate::Rejected,
            2 => Fate::Unknown,
            _ => Fate::Stored,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::Instant;

    use crate::client::Answer;
    use crate::workload::{Choice, EventTimes, Keys, Shape, Share};

    use super::*;

    fn delivery(result: Result<Answer, Failure>, doubtful: bool) -> Delivery {
        let now = Instant::now();
        Delivery { result, doubtful, started: now, ended: now, retries: 0, told_to_wait: 0, bytes: 0, units: 0.0 }
    }

    fn workload(duplicates: f64) -> Arc<Workload> {
        let shape = Shape { duplicates: Share::new(duplicates), ..Shape::default() };
        Workload::new(1, Keys::new("k", Choice::One), shape, EventTimes::spaced(0, 1))
    }

    fn fates(portion: Portion, delivery: &Delivery) -> Vec<Fate> {
        let history = History::default();
        history.note(&workload(0.0), portion, delivery);
        portion.slots().map(|slot| history.fate(slot)).collect()
    }

    fn answer(rejected: u64, places: &[usize]) -> Answer {
        let error = |index: &usize| RowError { index: *index, code: "x".into(), detail: String::new() };
        Answer { stored: 4 - rejected, rejected, errors: places.iter().map(error).collect() }
    }

    #[test]
    fn the_answer_says_which_events_are_stored() {
        use Fate::{Rejected, Stored, Unknown};
        let portion = Portion { first: 30, events: 4 };
        let of = |result, doubtful| fates(portion, &delivery(result, doubtful));
        assert_eq!(of(Ok(answer(0, &[])), true), [Stored; 4]);
        assert_eq!(of(Ok(answer(2, &[3, 0])), false), [Rejected, Stored, Stored, Rejected]);
        assert_eq!(of(Ok(answer(1, &[])), false), [Unknown; 4], "one was refused, and nobody said which");
        assert_eq!(of(Err(Failure::Refused(String::new())), false), [Rejected; 4]);
        assert_eq!(of(Err(Failure::Refused(String::new())), true), [Unknown; 4], "an earlier try may have been stored");
    }

    #[test]
    fn a_duplicate_raises_the_fate_of_its_event_and_never_lowers_it() {
        let workload = workload(0.5);
        let slot = (1..).find(|slot| workload.origin(*slot) == slot - 1).unwrap();
        for [first, second] in [[true, false], [false, true]] {
            let history = History::default();
            for (slot, stored) in [(slot - 1, first), (slot, second)] {
                let result = if stored { Ok(answer(0, &[])) } else { Err(Failure::Refused(String::new())) };
                history.note(&workload, Portion { first: slot, events: 1 }, &delivery(result, false));
            }
            assert_eq!((history.fate(slot - 1), history.fate(slot)), (Fate::Stored, Fate::Unsent));
        }
    }

    #[test]
    fn pairs_keep_apart() {
        let mut pairs = Pairs::default();
        (0..1_000).for_each(|slot| pairs.set(slot, (slot % 4) as u8));
        pairs.set(500, 3);
        assert!((0..1_000).all(|slot| pairs.get(slot) == if slot == 500 { 3 } else { (slot % 4) as u8 }));
        assert_eq!(pairs.get(1_000_000), 0);
    }
}
