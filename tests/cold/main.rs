//! Cold history (DESIGN section 8) under a model checker: every order of steps of writers with late
//! and zombie blocks, archivers that are paused, crash or are two, readers, and retention.
//!
//! `BRAID_MODEL=large cargo test --test cold` checks more of it, and takes minutes.

mod rules;
mod steps;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use braid_shared::cold::rules::{Facts, is_dropped, sources};
use stateright::{Checker, Model, Property};

use rules::{BUCKET, Broken, FAULTS};
use steps::Step;
use world::{Archiver, Left, Reader, View, World, Writer};

/// What must always be so.
const READ: &str = "an acknowledged event is in every later answer";
const STANDS: &str = "an acknowledged event is where a read that begins now finds it";
/// What must be possible, or the model checks nothing.
const COLD: &str = "a bucket leaves the store, and its events are read from a file alone";
const LATE: &str = "a late event is archived in a second generation";

/// A model: how much may happen, and which rule is broken. One event is there from the start,
/// acknowledged; so many more may come.
#[derive(Clone, Copy, Debug)]
struct Life {
    late: usize,
    archivers: usize,
    left: Left,
    broken: Broken,
}

const NOTHING: Left = Left { ticks: 2, generations: 2, crashes: 0, asks: 0, drops: false };

/// Each is small enough to be looked at whole with every build. Where nobody asks, what a read that
/// begins now would find is looked at in every state.
impl Life {
    /// A second event comes at any time, or nobody knows of it.
    fn late(broken: Broken) -> Life {
        Life { late: 1, archivers: 1, left: Left { ticks: 3, ..NOTHING }, broken }
    }

    /// Two archivers, one of which may end at any time.
    fn pair(broken: Broken) -> Life {
        Life { late: 1, archivers: 2, left: Left { crashes: 1, ..NOTHING }, broken }
    }

    /// A reader takes its time.
    fn reading(broken: Broken) -> Life {
        Life { late: 1, archivers: 1, left: Left { ticks: 3, asks: 1, ..NOTHING }, broken }
    }

    /// Retention, and a reader.
    fn dropping(broken: Broken) -> Life {
        Life { late: 0, archivers: 1, left: Left { generations: 1, crashes: 1, asks: 1, drops: true, ..NOTHING }, broken }
    }
}

impl Model for Life {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let view = View { began: 0, facts: Facts::default() };
        vec![World {
            now: 0,
            facts: Facts::default(),
            entry: None,
            hot: BTreeSet::from([0]),
            flying: BTreeSet::new(),
            files: BTreeMap::new(),
            writers: std::iter::once(Writer::Acked).chain(vec![Writer::Idle; self.late]).collect(),
            writers_view: view,
            archivers: vec![Archiver::Idle; self.archivers],
            reader: Reader::Idle,
            readers_view: view,
            dropping: None,
            left: self.left,
            short: false,
            answered_cold: false,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Step>) {
        actions.extend(steps::steps(world, self.broken));
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        steps::next(world, step, self.broken)
    }

    fn properties(&self) -> Vec<Property<Life>> {
        let mut all =
            vec![Property::always(READ, |_, world: &World| !world.short), Property::always(STANDS, |_, world: &World| stands(world))];
        if self.broken == Broken::Nothing && self.left.asks > 0 && !self.left.drops {
            all.push(Property::sometimes(COLD, |_, world: &World| {
                world.answered_cold && world.hot.is_empty() && world.entry.as_ref().is_some_and(|entry| entry.swept)
            }));
        }
        if self.broken == Broken::Nothing && self.late == 1 && self.left.ticks > 2 {
            all.push(Property::sometimes(LATE, |_, world: &World| {
                let whole = world.entry.as_ref().is_some_and(|entry| entry.generation == 2 && entry.open.is_none() && !entry.late);
                let file = world.published().and_then(|published| world.files.get(&published));
                whole && world.acked().len() == 2 && file.is_some_and(|file| file.events.len() == 2 && file.archived.len() == 1)
            }));
        }
        all
    }
}

/// Whether every acknowledged event is found by the rules that readers follow, now.
fn stands(world: &World) -> bool {
    if is_dropped(world.facts.dropped, BUCKET) {
        return true;
    }
    let entry = world.entry.as_ref().filter(|_| braid_shared::cold::rules::is_due(world.facts.closing, BUCKET));
    let sources = sources(entry);
    let mut found = BTreeSet::new();
    if sources.hot {
        found.extend(&world.hot);
    }
    if let Some(published) = world.published().filter(|_| sources.cold) {
        let Some(file) = world.files.get(&published) else { return false };
        found.extend(&file.events);
    }
    world.acked().is_subset(&found)
}

fn check(life: Life) {
    let checker = life.checker().threads(2).spawn_bfs().join();
    println!("{life:?}: {} states, {} distinct, {} deep", checker.state_count(), checker.unique_state_count(), checker.max_depth());
    checker.assert_properties();
}

fn is_large() -> bool {
    std::env::var("BRAID_MODEL").is_ok_and(|size| size == "large")
}

#[test]
fn nothing_acknowledged_is_lost_when_events_come_late_or_nobody_knows_of_them() {
    check(Life::late(Broken::Nothing));
}

#[test]
fn nothing_acknowledged_is_lost_between_two_archivers_that_crash_and_pause() {
    check(Life::pair(Broken::Nothing));
}

#[test]
fn every_answer_has_what_was_acknowledged_before_it_was_asked_for() {
    check(Life::reading(Broken::Nothing));
}

#[test]
fn nothing_that_is_kept_is_lost_beside_retention() {
    check(Life::dropping(Broken::Nothing));
}

#[test]
fn more_events_generations_crashes_and_time() {
    if !is_large() {
        println!("skipped: BRAID_MODEL=large checks this for minutes");
        return;
    }
    let left = Left { ticks: 4, generations: 3, crashes: 1, asks: 1, drops: false };
    check(Life { late: 1, archivers: 2, left, broken: Broken::Nothing });
    let left = Left { ticks: 4, generations: 3, crashes: 1, asks: 0, drops: false };
    check(Life { late: 2, archivers: 2, left, broken: Broken::Nothing });
    let left = Left { ticks: 4, generations: 2, crashes: 1, asks: 1, drops: true };
    check(Life { late: 1, archivers: 1, left, broken: Broken::Nothing });
}

#[test]
fn every_rule_is_needed_a_model_without_it_loses_an_event() {
    let unnoticed: Vec<Broken> = FAULTS.into_iter().filter(|broken| !loses(*broken)).collect();
    assert!(unnoticed.is_empty(), "broken without notice: {unnoticed:?}");
}

/// Whether one of the models finds an event that was lost.
fn loses(broken: Broken) -> bool {
    let found = |life: Life| {
        let checker = life.checker().threads(2).finish_when(stateright::HasDiscoveries::AnyFailures).spawn_bfs().join();
        let found = checker.discoveries();
        if let Some((property, path)) = found.iter().next() {
            println!("{broken:?}: not so: {property}: {:?}", path.clone().into_actions());
        }
        !found.is_empty()
    };
    [Life::late, Life::reading, Life::dropping, Life::pair].into_iter().any(|life| found(life(broken)))
}
