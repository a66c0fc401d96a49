//! Which events a run sends: event `n` as a pure function of the seed, `n` and the time it is for.
//!
//! Slots of the run are numbered from 0; slot `n` holds one event. Nothing is drawn in sequence, so
//! the events of a seed are the same whatever the connections, their speed and the retries, and
//! [`crate::oracle`] can make any of them again instead of keeping it. An id is a bijection of its
//! slot: ids of one seed never collide, and an id tells its slot. Knows no protocol: [`write`]
//! formats, [`reads`] asks.

mod chance;
mod keys;
pub(crate) mod reads;
mod times;
pub(crate) mod write;

use std::sync::Arc;

pub(crate) use chance::Share;
use chance::{at_most, mix, stream, unmix};
pub(crate) use keys::{Choice, Keys};
pub(crate) use reads::{Read, ReadMix};
pub(crate) use times::EventTimes;

/// Values of the tag `region`.
pub(crate) const REGIONS: [&str; 8] = ["ap-1", "ap-2", "eu-1", "eu-2", "sa-1", "us-1", "us-2", "us-3"];
/// How many slots back the first sending of a duplicate lies, at most.
const DUPLICATE_BACK_MAX: u64 = 10_000;

/// Whether `number` belongs to a share, under a seed.
pub(crate) fn chance_of(seed: u64, number: u64, share: Share) -> bool {
    !share.is_none() && share.holds(stream(mix(seed), mix(number)))
}

/// An event, as numbers: what a format or a driver writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// The slot that it was first sent in; unique in a run.
    pub(crate) slot: u64,
    /// Which key, for [`Keys::name`].
    pub(crate) key: u32,
    /// Written as 16 hex digits; unique in a seed.
    pub(crate) id: u64,
    /// Milliseconds since the Unix epoch.
    pub(crate) millis: i64,
    /// Field `amount`, in hundredths, below 65,536.
    pub(crate) cents: u32,
    /// Field `qty`, below 100.
    pub(crate) quantity: u32,
    /// Tag `region`, an index of [`REGIONS`].
    pub(crate) region: usize,
}

/// What events are like.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    /// Events that are late, and by how many milliseconds at most.
    pub(crate) late: (Share, i64),
    /// Events that are out of order, and by how many milliseconds at most.
    pub(crate) disorder: (Share, i64),
    /// Slots that send an earlier event again.
    pub(crate) duplicates: Share,
    /// From this many milliseconds of event time on, this share of the events is of the first key.
    pub(crate) hot_at: Option<(i64, Share)>,
    /// Bytes of the field `note`; 0 for none.
    pub(crate) note_bytes: usize,
    /// Whether an id is its slot's number, and not a hash of it.
    pub(crate) counted_ids: bool,
}

/// The events of a run. Shared by its connections.
#[derive(Debug)]
pub(crate) struct Workload {
    seed: u64,
    pub(crate) keys: Keys,
    pub(crate) shape: Shape,
    pub(crate) times: EventTimes,
}

/// A run of slots that goes out in one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Portion {
    pub(crate) first: u64,
    pub(crate) events: u64,
}

impl Portion {
    pub(crate) fn slots(self) -> std::ops::Range<u64> {
        self.first..self.first + self.events
    }
}

impl Workload {
    pub(crate) fn new(seed: u64, keys: Keys, shape: Shape, times: EventTimes) -> Arc<Workload> {
        Arc::new(Workload { seed: mix(seed), keys, shape, times })
    }

    /// The events of a portion, in order.
    pub(crate) fn events(&self, portion: Portion) -> impl Iterator<Item = Event> {
        // All but duplicates share the time of their request.
        let base = self.times.base(portion.first);
        let varies = self.times.varies_within_a_request();
        portion.slots().map(move |slot| {
            let origin = self.origin(slot);
            let base = if varies || origin < portion.first { self.times.base(origin) } else { base };
            self.make(origin, base)
        })
    }

    /// The event that slot `slot` holds.
    pub(crate) fn event(&self, slot: u64) -> Event {
        let origin = self.origin(slot);
        self.make(origin, self.times.base(origin))
    }

    /// The slot an id was made for: an arbitrary number where it was not made by this workload.
    pub(crate) fn slot_of_id(&self, id: u64) -> u64 {
        if self.shape.counted_ids { id } else { unmix(id).wrapping_sub(self.seed) }
    }

    /// Where the event of a slot was first sent: the slot itself, unless it is a duplicate.
    pub(crate) fn origin(&self, mut slot: u64) -> u64 {
        if self.shape.duplicates.is_none() {
            return slot;
        }
        while slot > 0 {
            let draw = self.draw(slot);
            if !self.shape.duplicates.holds(stream(draw, 1)) {
                break;
            }
            slot -= 1 + at_most(stream(draw, 2), slot.min(DUPLICATE_BACK_MAX) - 1);
        }
        slot
    }

    /// No event lies before it, milliseconds.
    pub(crate) fn earliest(&self) -> i64 {
        let back = |(share, by): (Share, i64)| if share.is_none() { 0 } else { by };
        self.times.start() - back(self.shape.late).max(back(self.shape.disorder))
    }

    /// What all of a slot's event is drawn from.
    fn draw(&self, slot: u64) -> u64 {
        mix(slot.wrapping_add(self.seed))
    }

    fn make(&self, slot: u64, base: i64) -> Event {
        let whole = self.draw(slot);
        let millis = base - self.back(whole);
        let key = match self.shape.hot_at {
            Some((at, share)) if base >= at && share.holds(stream(whole, 3)) => 0,
            _ => self.keys.choose(stream(whole, 4), millis),
        };
        let draw = stream(whole, 5);
        Event {
            slot,
            key,
            id: if self.shape.counted_ids { slot } else { whole },
            millis,
            cents: (draw & 0xffff) as u32,
            quantity: ((((draw >> 16) & 0xffff) * 100) >> 16) as u32,
            region: (draw >> 32) as usize % REGIONS.len(),
        }
    }

    /// How far an event lies before the time of its request.
    fn back(&self, draw: u64) -> i64 {
        for (number, (share, by)) in [(6, self.shape.late), (8, self.shape.disorder)] {
            if !share.is_none() && share.holds(stream(draw, number)) {
                return 1 + at_most(stream(draw, number + 1), by.max(1) as u64 - 1) as i64;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const START: i64 = 1_700_000_000_000;

    fn workload(seed: u64, keys: Keys, shape: Shape) -> Arc<Workload> {
        Workload::new(seed, keys, shape, EventTimes::spaced(START, 1_000_000))
    }

    fn one_key() -> Keys {
        Keys::new("hot", Choice::One)
    }

    fn all(workload: &Workload, portions: &[(u64, u64)]) -> Vec<Event> {
        portions.iter().flat_map(|&(first, events)| workload.events(Portion { first, events }).collect::<Vec<_>>()).collect()
    }

    #[test]
    fn the_same_seed_makes_the_same_events_however_they_are_cut_and_another_seed_others() {
        let shape = Shape { duplicates: Share::new(0.2), late: (Share::new(0.1), 5_000), ..Shape::default() };
        let of = |seed, portions: &[(u64, u64)]| {
            let mut events = all(&workload(seed, Keys::new("k", Choice::Uniform(9)), shape.clone()), portions);
            events.sort_by_key(|event| (event.slot, event.id));
            events
        };
        assert_eq!(of(7, &[(0, 100)]), of(7, &[(50, 50), (0, 30), (30, 20)]));
        assert_ne!(of(7, &[(0, 100)]), of(8, &[(0, 100)]));
    }

    #[test]
    fn an_id_tells_its_slot_and_no_two_slots_share_one() {
        for counted_ids in [false, true] {
            let workload = workload(42, one_key(), Shape { counted_ids, ..Shape::default() });
            let events = all(&workload, &[(0, 10_000)]);
            assert!(events.iter().all(|event| workload.slot_of_id(event.id) == event.slot));
            assert_eq!(events.iter().map(|event| event.id).collect::<HashSet<_>>().len(), 10_000);
        }
    }

    #[test]
    fn a_duplicate_is_an_earlier_event_to_the_last_bit() {
        let shape = Shape { duplicates: Share::new(0.25), ..Shape::default() };
        let workload = workload(1, one_key(), shape);
        let events = all(&workload, &[(0, 4_000), (4_000, 4_000)]);
        let again: Vec<_> = events.iter().enumerate().filter(|(slot, event)| event.slot != *slot as u64).collect();
        assert!((1_800..2_200).contains(&again.len()), "{}", again.len());
        for (slot, event) in again {
            assert!(event.slot < slot as u64);
            assert_eq!(*event, events[event.slot as usize]);
        }
    }

    #[test]
    fn late_events_lie_back_as_far_as_was_asked_and_no_further() {
        let shape = Shape { late: (Share::new(0.1), 60_000), ..Shape::default() };
        let events = all(&workload(3, one_key(), shape), &[(0, 10_000)]);
        let back: Vec<i64> = events.iter().map(|event| START + event.slot as i64 - event.millis).filter(|back| *back > 0).collect();
        assert!((800..1_200).contains(&back.len()), "{}", back.len());
        assert!(back.iter().all(|back| *back <= 60_000) && back.iter().any(|back| *back > 50_000));
    }

    #[test]
    fn a_key_turns_hot_at_its_time() {
        let shape = Shape { hot_at: Some((START + 5_000, Share::new(0.9))), ..Shape::default() };
        let events = all(&workload(3, Keys::new("k", Choice::Uniform(100)), shape), &[(0, 10_000)]);
        let of_first = |events: &[Event]| events.iter().filter(|event| event.key == 0).count();
        let (before, after) = (of_first(&events[..5_000]), of_first(&events[5_000..]));
        assert!(before < 150 && after > 4_300, "{before} {after}");
    }

    #[test]
    fn values_stay_within_their_bounds() {
        for event in all(&workload(9, one_key(), Shape::default()), &[(0, 10_000)]) {
            assert!(event.cents < 65_536 && event.quantity < 100 && event.region < REGIONS.len(), "{event:?}");
        }
    }
}
