//! The rule itself under an adversary, and canaries: the same checks must fail where it is broken.
//!
//! A failing schedule is shrunk, printed, and kept in `proptest-regressions/`, which replays it first.
//! `PROPTEST_CASES=100000 cargo test -p braid-shared accepted_every_later` looks longer.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use super::sim::{Broken, Happened, run};
use crate::promise::{PROMISE_1, PROMISE_4, PROMISE_7};

/// Longest schedule, choices.
const CHOICES_MAX: usize = 1_500;

proptest! {
    #[test]
    fn what_any_node_accepted_every_later_reader_places_the_same(choices in vec(any::<u16>(), 0..CHOICES_MAX)) {
        run(&choices, Broken::Nothing).map_err(TestCaseError::fail)?;
    }
}

/// Runs schedules, always the same ones, until the checks notice what is broken by naming `invariant`.
fn is_noticed(broken: Broken, invariant: &str) -> bool {
    let names_it = |why: String| if why.contains(invariant) { Err(TestCaseError::fail(why)) } else { Ok(()) };
    matches!(
        runner(2_000).run(&vec(any::<u16>(), CHOICES_MAX), |choices| run(&choices, broken).map(drop).or_else(names_it)),
        Err(TestError::Fail(..))
    )
}

fn runner(cases: u32) -> TestRunner {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

#[test]
fn schedules_make_everything_happen() {
    let total = std::cell::Cell::new(Happened::default());
    let count = |choices: Vec<u16>| {
        let (sum, h) = (total.get(), run(&choices, Broken::Nothing).map_err(TestCaseError::fail)?);
        total.set(Happened {
            accepted: sum.accepted + h.accepted,
            published: sum.published + h.published,
            withdrawn: sum.withdrawn + h.withdrawn,
            unknown: sum.unknown + h.unknown,
            views: sum.views + h.views,
            swaps: sum.swaps + h.swaps,
        });
        Ok(())
    };
    runner(50).run(&vec(any::<u16>(), CHOICES_MAX), count).unwrap();
    let h = total.get();
    assert!(h.accepted > 500 && h.published > 100 && h.withdrawn > 5 && h.views > 500 && h.swaps > 500, "{h:?}");
}

#[test]
fn canary_a_horizon_used_before_its_swap_is_answered_is_noticed() {
    assert!(is_noticed(Broken::SwapsAnsweredEarly, PROMISE_1));
}

#[test]
fn canary_a_start_that_is_not_checked_against_the_promise_is_noticed() {
    assert!(is_noticed(Broken::StartUnchecked, PROMISE_1));
}

#[test]
fn canary_a_promise_that_shrinks_is_noticed() {
    assert!(is_noticed(Broken::PromiseShrinks, PROMISE_4));
    assert!(is_noticed(Broken::PromiseShrinks, PROMISE_7));
    assert!(is_noticed(Broken::PromiseShrinks, PROMISE_1));
}

#[test]
fn canary_a_swap_that_does_not_cover_the_promise_is_noticed() {
    assert!(is_noticed(Broken::SwapsBlind, PROMISE_1));
}
