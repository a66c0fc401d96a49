//! The controller in whole nodes: it grows in time, comes down without flapping, stops where growing
//! does not help, and two of them make one history.

use std::time::Duration;

use super::super::{Action, read_state};
use super::world::{KEY, Node, TARGET, World, distinct, ns, one_value};
use crate::catalog::{HeatMode, Intent, NewLayout, Policy};
use crate::store::fault::{Fault, Gate, Operation};

const COOL_DOWN: Duration = Duration::from_secs(60);
/// 50 times what one suffix should take.
const HOT: u32 = 50 * TARGET;
/// What issue and docs promise.
const SECONDS_TO_GROW_MAX: usize = 15;

/// Writes at `rate` until N and load are as `done` says; gives the seconds that took.
async fn until(world: &mut World, nodes: &mut [&mut Node], rate: u32, most: usize, done: impl Fn(u32, u32) -> bool) -> usize {
    for second in 1..=most {
        let wrote = world.second(nodes, rate, distinct).await;
        if done(wrote.shards, wrote.hottest) {
            return second;
        }
    }
    panic!("not within {most} s at {rate} events/s; history {:?}", world.history().await);
}

#[tokio::test]
async fn a_key_that_turns_hot_is_spread_within_15_seconds_and_comes_down_without_flapping() {
    let mut world = World::new(COOL_DOWN);
    let mut node = world.node(1, World::policy()).await;
    for _ in 0..30 {
        let wrote = world.second(&mut [&mut node], TARGET, distinct).await;
        assert_eq!(wrote.shards, 1, "at its target it is not hot");
    }
    let took = until(&mut world, &mut [&mut node], HOT, 60, |shards, hottest| shards > 1 && hottest <= TARGET).await;
    assert!(took <= SECONDS_TO_GROW_MAX, "{took} s");
    for _ in 0..120 {
        let wrote = world.second(&mut [&mut node], HOT, distinct).await;
        assert!(wrote.hottest <= TARGET, "{wrote:?}");
    }
    assert_eq!(world.history().await, [100], "one change was enough");
    for _ in 0..10 * COOL_DOWN.as_secs() {
        let wrote = world.second(&mut [&mut node], TARGET / 2, distinct).await;
        assert!(wrote.hottest <= TARGET, "{wrote:?}");
    }
    assert_eq!(world.history().await, [100, 50, 25, 13, 7, 4, 2, 1]);
}

#[tokio::test]
async fn what_several_nodes_write_is_summed() {
    let mut world = World::new(COOL_DOWN);
    let (mut a, mut b, mut c) =
        (world.node(1, World::policy()).await, world.node(2, World::policy()).await, world.node(3, World::policy()).await);
    for _ in 0..5 {
        world.second(&mut [&mut a, &mut b, &mut c], TARGET / 2, distinct).await;
    }
    // Each node alone is below the target; together they are at twice that.
    let took = until(&mut world, &mut [&mut a, &mut b, &mut c], 2 * TARGET, 60, |shards, _| shards > 1).await;
    assert!(took <= SECONDS_TO_GROW_MAX, "{took} s");
    assert_eq!(world.history().await, [4]);
}

#[tokio::test]
async fn where_one_value_dominates_it_stops_and_says_so() {
    let mut world = World::new(COOL_DOWN);
    let mut node = world.node(1, World::policy()).await;
    for _ in 0..300 {
        world.second(&mut [&mut node], HOT / 10, one_value).await;
    }
    assert_eq!(world.history().await, [10], "it was tried once");
    let state = read_state(node.store.clone()).await.unwrap();
    let decision = state.leader.unwrap().decisions.pop().unwrap();
    assert_eq!((decision.action, &*decision.key), (Action::Dominated, KEY));
    assert!(decision.reason.contains("dominates"), "{}", decision.reason);
}

#[tokio::test]
async fn throttling_makes_it_grow_below_the_target_too() {
    let mut world = World::new(COOL_DOWN);
    let mut node = world.node(1, World::policy()).await;
    for _ in 0..20 {
        // The namespace's own layout has random bits in its version, which only its view knows.
        let version = node.catalog.view().namespace(&ns()).unwrap().layout_at(KEY, crate::model::Timestamp::MIN).version;
        node.tracker.refused(&[super::world::block_of(KEY, version, 0, 1, 100)]);
        world.second(&mut [&mut node], TARGET / 2, distinct).await;
    }
    assert_eq!(world.history().await[0], 2);
}

#[tokio::test]
async fn without_room_in_the_policy_and_in_a_dry_run_nothing_changes() {
    let dry_run = Policy { heat: Some(HeatMode::DryRun), ..World::policy() };
    for (policy, told) in [
        (Policy { max_shards: None, ..World::policy() }, false),
        (Policy { heat: Some(HeatMode::Off), ..World::policy() }, false),
        (dry_run, true),
    ] {
        let mut world = World::new(COOL_DOWN);
        let mut node = world.node(1, policy).await;
        for _ in 0..20 {
            world.second(&mut [&mut node], HOT, distinct).await;
        }
        assert!(world.history().await.is_empty());
        let decisions = read_state(node.store.clone()).await.unwrap().leader.map(|leader| leader.decisions).unwrap_or_default();
        assert_eq!(
            decisions.iter().map(|d| (d.action, d.dry_run)).collect::<Vec<_>>(),
            if told { vec![(Action::Grow { to: 100 }, true)] } else { vec![] }
        );
    }
}

#[tokio::test]
async fn what_a_person_set_is_grown_from_and_never_gone_below() {
    let mut world = World::new(COOL_DOWN);
    let mut node = world.node(1, World::policy()).await;
    node.catalog.publish_layout(&ns(), Some(KEY), NewLayout::of(16)).await.unwrap();
    for _ in 0..3 * COOL_DOWN.as_secs() {
        world.second(&mut [&mut node], 1, distinct).await;
    }
    assert_eq!(world.history().await, [16]);
    until(&mut world, &mut [&mut node], HOT, 60, |shards, _| shards == 100).await;
    for _ in 0..6 * COOL_DOWN.as_secs() {
        world.second(&mut [&mut node], 1, distinct).await;
    }
    assert_eq!(world.history().await, [16, 100, 50, 25, 16]);
}

#[tokio::test]
async fn a_second_controller_takes_over_from_one_that_is_gone_and_knows_what_was_tried() {
    let mut world = World::new(COOL_DOWN);
    let (mut a, mut b) = (world.node(1, World::policy()).await, world.node(2, World::policy()).await);
    for _ in 0..30 {
        world.second(&mut [&mut a, &mut b], HOT / 10, one_value).await;
    }
    assert_eq!(world.history().await, [10]);
    let leader = |node: &Node| read_state(node.store.clone());
    assert!(leader(&a).await.unwrap().leader.unwrap().node.ends_with('1'));
    for _ in 0..60 {
        world.second(&mut [&mut b], HOT / 10, one_value).await;
    }
    let led = leader(&b).await.unwrap().leader.unwrap();
    assert!(led.node.ends_with('2') && led.term == 2, "{led:?}");
    assert_eq!(world.history().await, [10], "it does not try again what did not help");
}

#[tokio::test]
async fn a_leader_that_was_paused_in_the_middle_of_a_change_makes_no_second_history() {
    let mut world = World::new(COOL_DOWN);
    let (mut a, mut b) = (world.node(1, World::policy()).await, world.node(2, World::policy()).await);
    world.second(&mut [&mut a, &mut b], TARGET, distinct).await;
    world.second(&mut [&mut a, &mut b], HOT, distinct).await;
    // The next write of A's controller is its change, which stops at the gate.
    let gate = Gate::new();
    let mut rounds = 0;
    let paused = loop {
        world.clock.advance(Duration::from_secs(1));
        b.reporter.tick().await;
        let warm = a.reporter.tick().await;
        a.store.once(Operation::SwapDocument, Fault::Hold(gate.clone()));
        let mut controller = a.controller;
        let mut task = tokio::spawn(async move {
            controller.tick(warm).await;
            controller
        });
        tokio::select! {
            () = gate.reached(1) => break task,
            controller = &mut task => {
                a.store.heal();
                a.controller = controller.unwrap();
                rounds += 1;
                assert!(rounds < 30, "A never changes anything");
                for node in [&a, &b] {
                    for _ in 0..HOT / 2 {
                        let version = node.catalog.view().namespace(&ns()).unwrap().layout_at(KEY, crate::model::Timestamp::MIN).version;
                        node.tracker.stored(&[super::world::block_of(KEY, version, 0, 1, 50)]);
                    }
                }
            }
        }
    };
    let took = until(&mut world, &mut [&mut b], HOT, 60, |shards, _| shards > 1).await;
    assert!(took > 5, "B waits for A's lease to run out and for the promise");
    let history = world.history().await;
    gate.open();
    paused.await.unwrap();
    assert_eq!(world.history().await, history, "A came second and was told");
    let audit = b.catalog.refresh().await.unwrap().namespace(&ns()).unwrap().listed(Some(KEY))[0].published.clone().unwrap();
    assert!(audit.automatic && audit.author.as_deref().unwrap().ends_with('2'), "{audit:?}");
}

#[tokio::test]
async fn an_operator_and_the_controller_make_one_history() {
    let mut world = World::new(COOL_DOWN);
    let mut node = world.node(1, World::policy()).await;
    let seen = node.catalog.refresh().await.unwrap().revision;
    until(&mut world, &mut [&mut node], HOT, 60, |shards, _| shards > 1).await;
    let by = Intent { expected_revision: Some(seen), ..Intent::default() };
    let late = node.catalog.publish_layout_by(&by, &ns(), Some(KEY), NewLayout::of(2)).await;
    assert!(matches!(late, Err(crate::catalog::CatalogError::RevisionConflict(_))), "{late:?}");
    assert_eq!(world.history().await, [100]);
}

#[tokio::test]
async fn an_idle_cluster_writes_nothing_and_has_no_leader() {
    let mut world = World::new(COOL_DOWN);
    let mut node = world.node(1, World::policy()).await;
    for _ in 0..10 {
        world.second(&mut [&mut node], TARGET, distinct).await;
    }
    assert!(!read_state(node.store.clone()).await.unwrap().leader.unwrap().node.is_empty());
    for _ in 0..90 {
        world.pass(&mut [&mut node]).await;
    }
    assert!(read_state(node.store.clone()).await.unwrap().leader.unwrap().node.is_empty(), "it gave the lease up");
    node.store.always(Operation::SwapDocument, Fault::Refuse(crate::store::StoreErrorKind::Unavailable));
    for _ in 0..60 {
        world.pass(&mut [&mut node]).await;
    }
    node.store.heal();
    let state = read_state(node.store.clone()).await.unwrap();
    assert!(state.reports.iter().all(|report| report.keys.is_empty()), "its last report says that nothing is written");
}

#[tokio::test]
async fn restarts_leave_no_more_than_a_bounded_list_and_a_node_that_runs_stays_on_it() {
    let mut world = World::new(COOL_DOWN);
    let mut staying = world.node(1, World::policy()).await;
    world.second(&mut [&mut staying], TARGET, distinct).await;
    for id in 2..300 {
        let mut restarted = world.node(id, World::policy()).await;
        world.second(&mut [&mut restarted], 1, distinct).await;
    }
    for _ in 0..3 {
        world.second(&mut [&mut staying], TARGET, distinct).await;
    }
    let reports = read_state(staying.store.clone()).await.unwrap().reports;
    assert_eq!(reports.len(), 256);
    assert!(reports.iter().any(|report| report.node.ends_with("00001") && !report.keys.is_empty()));
}

#[tokio::test]
async fn what_a_node_that_is_gone_reported_last_moves_nothing() {
    let mut world = World::new(COOL_DOWN);
    let mut gone = world.node(1, Policy { heat: Some(HeatMode::Off), ..World::policy() }).await;
    for _ in 0..12 {
        world.second(&mut [&mut gone], HOT, distinct).await;
    }
    let mut node = world.node(2, World::policy()).await;
    node.catalog.set_policy(&ns(), World::policy()).await.unwrap();
    for _ in 0..20 {
        world.second(&mut [&mut node], TARGET / 2, distinct).await;
    }
    assert!(world.history().await.is_empty());
}
