//! The promise (DESIGN section 3) under a model checker: every order of steps of publishers, writers
//! and readers whose clocks show anything, whose processes stand still for any time or end, and whose
//! requests come late, twice, or never (docs/PROOF.md).
//!
//! `cargo test --release --test promise wider -- --ignored --nocapture` looks at more of it, and takes minutes;
//! `BRAID_PROMISE=3,2,2,2,1,0` before it says how many nodes, writes, raises, changes, queries and restarts.

mod rules;
mod steps;
mod world;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use braid_shared::model::Timestamp;
use braid_shared::promise::accepts;
use stateright::{Checker, HasDiscoveries, Model, Path, Property};

use rules::Broken;
use steps::{Choices, Step};
use world::{Left, Node, Root, World};

/// What must always be so.
const READ: &str = "an acknowledged event is in every later verified read";
const ONE_PLACE: &str = "no event is placed two ways";
const NOT_SHORTENED: &str = "a range is refused, never shortened";
const VIEWS_AGREE: &str = "a view places what it covers as it was placed";
const GROWS: &str = "the promise only grows";
const CHANGES: &str = "a change said to stand stands, and one said not to never does";

/// A model: how much may happen, and which rule is broken.
#[derive(Clone, Debug)]
struct Protocol {
    nodes: usize,
    left: Left,
    choices: Choices,
    broken: Broken,
}

fn times<const N: usize>(times: [i64; N]) -> Vec<Timestamp> {
    times.map(Timestamp::from_nanos).to_vec()
}

impl Protocol {
    /// So many nodes, writes, raises, changes, queries and restarts.
    fn of([nodes, writes, raises, changes, queries, restarts]: [u8; 6], broken: Broken) -> Protocol {
        let ends = vec![None, Some(Timestamp::from_nanos(3))];
        let choices = Choices { events: times([2]), starts: times([1, 2]), clocks: times([0, 1]), ends };
        Protocol { nodes: usize::from(nodes), left: Left { writes, raises, changes, queries, restarts }, choices, broken }
    }

    /// Bounds from the environment, or wide ones.
    fn wide() -> Protocol {
        let text = std::env::var("BRAID_PROMISE").unwrap_or_else(|_| "2,2,2,1,1,0".to_owned());
        let bounds: Vec<u8> = text.split(',').map(|bound| bound.parse().expect("BRAID_PROMISE is six numbers")).collect();
        Protocol::of(bounds.try_into().expect("BRAID_PROMISE is six numbers"), Broken::Nothing)
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let root = Arc::new(Root::new(Timestamp::from_nanos(1)));
        vec![World {
            nodes: vec![Node::started(&root); self.nodes],
            late: Vec::new(),
            blocks: BTreeSet::new(),
            acknowledged: BTreeSet::new(),
            granted: BTreeSet::new(),
            denied: BTreeSet::new(),
            changes_made: 0,
            highest: root.facts.promise,
            root,
            lost: false,
            shortened: false,
            answered: false,
            left: self.left,
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        world.possible(self.broken, &self.choices, steps);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        next.take(step, self.broken);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::always(READ, |_, world: &World| !world.lost),
            Property::always(ONE_PLACE, |_, world: &World| placed_once(world)),
            Property::always(NOT_SHORTENED, |_, world: &World| !world.shortened),
            Property::always(VIEWS_AGREE, |_, world: &World| views_agree(world)),
            Property::always(GROWS, |_, world: &World| world.root.facts.promise >= world.highest),
            Property::always(CHANGES, |_, world: &World| changes_stand(world)),
            Property::sometimes("a change is said not to stand", |_, world: &World| !world.denied.is_empty()),
        ];
        if self.left.queries > 0 {
            all.push(Property::sometimes("an event of a published epoch is read", |_, world: &World| world.answered));
        }
        if self.left.writes > 1 {
            all.push(Property::sometimes("an event is sent again, to the same epoch", |_, world: &World| {
                world.left.writes == 0
                    && world.nodes.iter().all(|node| node.placed.is_none())
                    && world.blocks.iter().any(|(_, version)| *version > 0)
            }));
        }
        all
    }
}

fn placed_once(world: &World) -> bool {
    let times: BTreeSet<_> = world.blocks.iter().map(|(ts, _)| ts).collect();
    times.len() == world.blocks.len()
}

fn views_agree(world: &World) -> bool {
    let views = world.nodes.iter().map(|node| &node.known).chain([&world.root]);
    views.into_iter().all(|view| {
        let covered = world.blocks.iter().filter(|(ts, _)| accepts(view.facts.promise, *ts));
        covered.into_iter().all(|(ts, version)| view.places(*ts) == *version)
    })
}

fn changes_stand(world: &World) -> bool {
    let holds = |change: &u8| world.root.holds(*change);
    world.granted.iter().all(holds) && !world.denied.iter().any(holds)
}

/// The steps of a counter-example, a line each.
fn story(path: Path<World, Step>) -> String {
    let steps = path.into_actions().into_iter().enumerate();
    steps.map(|(number, step)| format!("{:2}. {step}", number + 1)).collect::<Vec<_>>().join("\n")
}

/// Looks at every state; gives how many there are.
fn check(protocol: Protocol) -> usize {
    let began = Instant::now();
    let checked = protocol.checker().symmetry_fn(World::sorted).spawn_dfs().join();
    println!("{} states, depth {}, {:.1} s", checked.unique_state_count(), checked.max_depth(), began.elapsed().as_secs_f64());
    for (name, path) in checked.discoveries() {
        let always = checked.model().property(name).expectation == stateright::Expectation::Always;
        assert!(!always, "not so: {name}\n{}", story(path));
    }
    checked.assert_properties();
    checked.unique_state_count()
}

/// A model with a broken rule is found out, the shortest way there is within the fewest bounds that do.
fn is_found_out(broken: Broken, name: &'static str, bounds: [u8; 6]) {
    let found = HasDiscoveries::AllOf(BTreeSet::from([name]));
    let checked = Protocol::of(bounds, broken).checker().finish_when(found).spawn_bfs().join();
    let path = checked.discovery(name).unwrap_or_else(|| panic!("{broken:?} was not noticed in {} states", checked.unique_state_count()));
    println!("{broken:?}, found in {} states. Not so: {name}\n{}", checked.unique_state_count(), story(path));
}

#[test]
fn the_promise_holds_in_every_state() {
    for bounds in [[2, 2, 1, 1, 1, 0], [2, 2, 1, 2, 0, 0], [2, 1, 1, 1, 1, 1]] {
        assert!(check(Protocol::of(bounds, Broken::Nothing)) > 10_000, "the model does something");
    }
}

#[test]
#[ignore = "takes minutes"]
fn the_promise_holds_within_wider_bounds() {
    check(Protocol::wide());
}

#[test]
fn canary_an_epoch_that_is_not_checked_against_the_promise() {
    is_found_out(Broken::StartUnchecked, READ, [1, 1, 1, 1, 1, 0]);
}

#[test]
fn canary_a_swap_that_does_not_cover_the_promise() {
    is_found_out(Broken::PromiseUncovered, READ, [2, 1, 1, 1, 1, 0]);
}

#[test]
fn canary_a_raised_promise_that_is_used_before_its_swap_is_answered() {
    is_found_out(Broken::RaisedUsedEarly, READ, [2, 1, 2, 1, 1, 0]);
}

#[test]
fn canary_a_promise_that_shrinks() {
    is_found_out(Broken::PromiseShrinks, READ, [1, 1, 3, 1, 1, 0]);
    is_found_out(Broken::PromiseShrinks, GROWS, [1, 1, 2, 1, 1, 0]);
}

#[test]
fn canary_an_epoch_withdrawn_below_the_promise() {
    is_found_out(Broken::WithdrawnBelow, READ, [1, 1, 1, 2, 1, 0]);
}

#[test]
fn canary_an_event_accepted_at_the_horizon() {
    is_found_out(Broken::HorizonAccepted, READ, [1, 1, 2, 1, 1, 0]);
}

#[test]
fn canary_a_range_cut_at_the_horizon_at_hand() {
    is_found_out(Broken::RangeShortened, NOT_SHORTENED, [2, 1, 1, 0, 1, 0]);
}

#[test]
fn canary_a_conflict_that_is_believed() {
    is_found_out(Broken::ConflictBelieved, CHANGES, [1, 0, 0, 1, 0, 0]);
}
