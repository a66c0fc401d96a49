//! Counting: what is heavy is found, within the bound that is promised, in memory that is bounded.

use std::collections::HashMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::sketch::Sketch;
use super::super::track::Tracker;
use super::super::units;
use super::world::block;

const CAPACITY: usize = 16;

proptest! {
    #[test]
    fn no_entry_is_short_by_more_than_the_sketch_says(keys in vec((0..60u16, 1..100u64), 0..2_000)) {
        let mut sketch = Sketch::<u16, u64>::new(CAPACITY);
        let mut exact: HashMap<u16, u64> = HashMap::new();
        for (key, weight) in &keys {
            sketch.add(*key, *weight, |sum| *sum += weight);
            *exact.entry(*key).or_default() += weight;
            prop_assert!(sketch.len() <= CAPACITY);
        }
        let (lost, all) = (sketch.lost(), exact.values().sum::<u64>());
        prop_assert!(lost <= 2 * all / CAPACITY as u64, "lost {} of {}", lost, all);
        let counted: HashMap<u16, u64> = sketch.into_entries().collect();
        for (key, true_weight) in exact {
            let counted = counted.get(&key).copied().unwrap_or(0);
            prop_assert!(counted <= true_weight);
            prop_assert!(counted + lost >= true_weight, "{}: {} of {}, lost {}", key, counted, true_weight, lost);
        }
    }
}

#[test]
fn a_hot_key_is_found_among_a_hundred_thousand_cool_ones() {
    let tracker = Tracker::default();
    for i in 0..100_000 {
        tracker.stored(&[block(&format!("cool{i}"), 0, 0, 1, 100)]);
        if i % 10 == 0 {
            tracker.stored(&[block("hot", 7, (i / 10) as u32 % 4, 5, 100)]);
        }
    }
    tracker.roll(Duration::from_secs(1));
    let rates = tracker.rates();
    assert_eq!((&*rates[0].tracked.key, rates[0].tracked.version.revision), ("hot", 7));
    let (unseen, hot) = (tracker.unseen(), rates[0].now.events);
    assert!(hot <= 50_000.0 && hot + unseen >= 50_000.0, "{hot} and at most {unseen} unseen");
    assert_eq!(rates[0].suffixes.len(), 4);
}

#[test]
fn a_rate_is_that_of_the_last_two_seconds_and_of_ten() {
    let tracker = Tracker::default();
    for second in 0..12 {
        tracker.stored(&[block("k", 1, 0, if second < 10 { 100 } else { 1_000 }, 2_000)]);
        tracker.roll(Duration::from_secs(1));
    }
    let rates = tracker.rates();
    assert_eq!((rates[0].now.events, rates[0].window.events), (1_000.0, 280.0));
    assert_eq!((rates[0].now.units, rates[0].now.bytes), (2.0, 2_000.0));
    for _ in 0..10 {
        tracker.roll(Duration::from_secs(1));
    }
    assert!(tracker.rates().is_empty(), "what was not written for a while is forgotten");
}

#[test]
fn a_second_that_took_longer_counts_as_longer() {
    let tracker = Tracker::default();
    tracker.stored(&[block("k", 1, 0, 100, 100)]);
    tracker.roll(Duration::from_secs(4));
    assert_eq!(tracker.rates()[0].now.events, 25.0);
}

#[test]
fn a_block_costs_a_unit_for_every_kibibyte_begun() {
    assert_eq!([0, 1, 1_024, 1_025, 65_536].map(units), [1, 1, 1, 2, 64]);
}
