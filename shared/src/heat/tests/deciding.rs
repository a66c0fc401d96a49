//! The decision: within its bounds, monotone in load, and never undone by the same load.

use proptest::prelude::*;

use super::super::decide::{Action, Bounds, Observed, Tried, decide, needed};

const WIDE: Bounds = Bounds { min: 1, max: 4_096 };

/// A key whose load spreads evenly, watched for a whole cool-down.
fn even(shards: u32, total: f64) -> Observed {
    let hottest = total / f64::from(shards);
    Observed { shards, total, hottest, throttled: false, held: true, peak: Some(total), settling: false, tried: None }
}

fn shards_after(action: Action, shards: u32) -> u32 {
    match action {
        Action::Grow { to } | Action::Shrink { to } => to,
        _ => shards,
    }
}

#[test]
fn a_suffix_over_its_target_grows_at_once_to_where_all_are_half_full() {
    assert_eq!(decide(&even(1, 50.0), WIDE), Action::Grow { to: 100 });
    assert_eq!(decide(&even(1, 1.0), WIDE), Action::Keep, "at its target is not over it");
}

#[test]
fn one_suffix_over_its_target_doubles_n_where_the_rest_is_cool() {
    let seen = Observed { hottest: 1.2, ..even(8, 3.0) };
    assert_eq!(decide(&seen, WIDE), Action::Grow { to: 16 });
}

#[test]
fn a_throttled_suffix_doubles_n_at_least_even_below_its_target() {
    let seen = Observed { throttled: true, ..even(4, 2.0) };
    assert_eq!(decide(&seen, WIDE), Action::Grow { to: 8 });
    let cool = Observed { throttled: true, ..even(4, 0.2) };
    assert_eq!(decide(&cool, WIDE), Action::Keep, "the trouble is not this key's");
}

#[test]
fn n_shrinks_by_half_at_most_and_only_by_the_peak_of_a_whole_cool_down() {
    assert_eq!(decide(&even(100, 1.0), WIDE), Action::Shrink { to: 50 });
    assert_eq!(decide(&Observed { peak: None, ..even(100, 1.0) }, WIDE), Action::Keep);
    assert_eq!(decide(&Observed { peak: Some(40.0), ..even(100, 1.0) }, WIDE), Action::Keep);
    assert_eq!(decide(&even(2, 0.1), WIDE), Action::Shrink { to: 1 });
}

#[test]
fn where_growing_did_not_lower_the_hottest_suffix_it_stops() {
    let one_value = |shards, share| Observed { hottest: 50.0, tried: Some(Tried { to: shards, share }), ..even(shards, 50.0) };
    assert_eq!(decide(&one_value(100, 1.0), WIDE), Action::Dominated);
    let spread = Observed { tried: Some(Tried { to: 100, share: 1.0 }), ..even(100, 150.0) };
    assert_eq!(decide(&spread, WIDE), Action::Grow { to: 300 }, "it did lower it, and the load grew on");
    let by_hand = Observed { shards: 64, ..one_value(100, 1.0) };
    assert_eq!(decide(&by_hand, WIDE), Action::Grow { to: 100 }, "what was tried was another N");
}

#[test]
fn the_policy_bounds_n_from_both_sides() {
    assert_eq!(decide(&even(8, 50.0), Bounds { min: 1, max: 8 }), Action::AtMax);
    assert_eq!(decide(&even(8, 50.0), Bounds { min: 1, max: 16 }), Action::Grow { to: 16 });
    assert_eq!(decide(&even(8, 0.0), Bounds { min: 6, max: 16 }), Action::Shrink { to: 6 });
    assert_eq!(decide(&even(16, 0.0), Bounds { min: 6, max: 16 }), Action::Shrink { to: 8 });
    assert_eq!(decide(&even(2, 0.0), Bounds { min: 6, max: 16 }), Action::Grow { to: 6 });
    assert_eq!(decide(&even(64, 1.0), Bounds { min: 1, max: 16 }), Action::Shrink { to: 16 }, "a lowered max is kept");
}

#[test]
fn a_burst_moves_nothing() {
    assert_eq!(decide(&Observed { held: false, ..even(1, 50.0) }, WIDE), Action::Keep);
}

#[test]
fn while_a_change_settles_nothing_is_decided() {
    assert_eq!(decide(&Observed { settling: true, ..even(1, 50.0) }, WIDE), Action::Settle);
}

fn bounds() -> impl Strategy<Value = Bounds> {
    (1..=4_096u32, 1..=4_096u32).prop_map(|(a, b)| Bounds { min: a.min(b), max: a.max(b) })
}

fn observed() -> impl Strategy<Value = Observed> {
    let loads = (0.0..10_000.0f64, 0.0..1.0f64, proptest::option::of(0.0..10_000.0f64));
    let tried = proptest::option::of((1..=4_096u32, 0.0..1.0f64).prop_map(|(to, share)| Tried { to, share }));
    (1..=4_096u32, loads, any::<bool>(), tried).prop_map(|(shards, (total, skew, peak), throttled, tried)| {
        let mean = total / f64::from(shards);
        Observed { shards, total, hottest: mean + skew * (total - mean), throttled, held: true, peak, settling: false, tried }
    })
}

proptest! {
    #[test]
    fn whatever_is_decided_lies_within_the_bounds_and_is_a_change(seen in observed(), bounds in bounds()) {
        match decide(&seen, bounds) {
            Action::Grow { to } => prop_assert!(to > seen.shards && to <= bounds.max && to >= bounds.min.min(bounds.max)),
            Action::Shrink { to } => prop_assert!(to < seen.shards && to >= bounds.min && to <= bounds.max),
            _ => {}
        }
    }

    #[test]
    fn more_load_never_asks_for_fewer_shards(shards in 1..=4_096u32, a in 0.0..10_000.0f64, b in 0.0..10_000.0f64, bounds in bounds()) {
        let (less, more) = (a.min(b), a.max(b));
        let after = |load| shards_after(decide(&even(shards, load), bounds), shards);
        prop_assert!(after(less) <= after(more));
        prop_assert!(needed(less) <= needed(more));
    }

    #[test]
    fn a_steady_load_moves_n_one_way_and_then_lets_it_be(start in 1..=4_096u32, load in 0.0..2_000.0f64, bounds in bounds()) {
        let (mut shards, mut ways) = (start, Vec::new());
        for _ in 0..20 {
            let next = shards_after(decide(&even(shards, load), bounds), shards);
            if next != shards {
                ways.push(next > shards);
            }
            shards = next;
        }
        prop_assert!(ways.windows(2).all(|pair| pair[0] == pair[1]), "{:?}", ways);
        prop_assert_eq!(shards_after(decide(&even(shards, load), bounds), shards), shards);
        let wanted = needed(load);
        if start < bounds.max && wanted <= bounds.max {
            prop_assert!(load / f64::from(shards) <= 1.0);
        }
    }

    #[test]
    fn a_load_that_wavers_by_a_third_does_not_move_n_twice(load in 2.0..500.0f64, waves in proptest::collection::vec(0.67..1.33f64, 1..50)) {
        let mut shards = shards_after(decide(&even(1, load), WIDE), 1);
        let settled = shards;
        for wave in waves {
            let now = load * wave;
            // The peak of a cool-down in which the load wavers is at least its middle.
            let seen = Observed { peak: Some(now.max(load)), ..even(shards, now) };
            shards = shards_after(decide(&seen, WIDE), shards);
        }
        prop_assert_eq!(shards, settled);
    }
}
