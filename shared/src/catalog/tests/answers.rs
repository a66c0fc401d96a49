//! Answers that are lost, late or refused, one at a time; and who shares a read.

use std::pin::pin;

use super::super::{ListedLayout, NewLayout, NewNamespace};
use super::world::{Door, Fate, World};
use super::*;
use crate::promise::PROMISE_5;

/// A node at 1,000 s over a world of its own, with namespace `n`.
async fn node() -> (Arc<World>, Node) {
    let world = Arc::new(World::default());
    world.set_prompt(true);
    let store: Arc<dyn Store> = Arc::new(Door(world.clone()));
    let node = Node::open(&store, 1_000).await.unwrap();
    node.create_namespace(&ns("n"), NewNamespace::default()).await.unwrap();
    world.set_prompt(false);
    (world, node)
}

/// Does `work`, `fate` saying of each call in turn what becomes of it.
async fn under<T>(world: &World, mut fate: impl FnMut(&str) -> Fate, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = tokio::time::sleep(Duration::from_millis(1)) => {
                if let Some(call) = world.first() {
                    world.decide(0, fate(&call));
                }
            }
        }
    }
}

/// `wrong` for the first call that is `what`, and answers for all others.
fn once(what: &'static str, wrong: Fate) -> impl FnMut(&str) -> Fate {
    let mut left = Some(wrong);
    move |call| if call == what { left.take().unwrap_or(Fate::Answered) } else { Fate::Answered }
}

async fn publish(node: &Node) -> Result<ListedLayout, CatalogError> {
    node.publish_layout(&ns("n"), Some("k"), NewLayout::of(8)).await
}

fn layouts(node: &Node) -> Vec<ListedLayout> {
    node.view().namespace(&ns("n")).unwrap().listed(Some("k"))
}

#[tokio::test(start_paused = true)]
async fn a_change_whose_answer_was_lost_is_found_to_stand() {
    let (world, node) = node().await;
    let listed = under(&world, once("swap root", Fate::AnswerLost), publish(&node)).await.unwrap();
    assert_eq!(layouts(&node), [listed]);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_was_lost_is_sent_again_and_its_ghost_does_nothing() {
    let (world, node) = node().await;
    let listed = under(&world, once("swap root", Fate::Lost), publish(&node)).await.unwrap();
    world.haunt(0);
    under(&world, |_| Fate::Answered, node.refresh()).await.unwrap();
    assert_eq!(layouts(&node), [listed]);
    assert_eq!(node.view().revision, 2);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_can_not_be_read_back_is_unknown() {
    let (world, node) = node().await;
    let mut swapped = false;
    let fate = |call: &str| match call {
        "swap root" => {
            swapped = true;
            Fate::AnswerLost
        }
        "read root" if swapped => Fate::Refused,
        _ => Fate::Answered,
    };
    assert!(matches!(under(&world, fate, publish(&node)).await, Err(CatalogError::Unknown(_))));
    assert_eq!(layouts(&node), []);
    under(&world, |_| Fate::Answered, node.refresh()).await.unwrap();
    assert_eq!(layouts(&node).len(), 1, "its document was not taken away");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_gives_an_error_and_holds_nobody_up_for_ever() {
    let (world, node) = node().await;
    assert!(matches!(publish(&node).await, Err(CatalogError::Stale(_))));
    assert!(matches!(node.refresh().await, Err(CatalogError::Stale(_))));
    assert!(under(&world, |_| Fate::Answered, publish(&node)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn promise_5_a_raise_whose_answer_was_lost_is_used_only_once_read_back() {
    let (world, node) = node().await;
    let before = node.view().horizon;
    let unreadable = |call: &str| if call == "swap root" { Fate::AnswerLost } else { Fate::Refused };
    assert!(under(&world, unreadable, node.cover(at(1_005))).await.is_err());
    assert_eq!(node.view().horizon, before, "{PROMISE_5}");
    under(&world, |_| Fate::Answered, node.refresh()).await.unwrap();
    assert_eq!(node.view().horizon, at(1_010));
}

#[tokio::test(start_paused = true)]
async fn without_a_catalog_events_are_taken_until_the_lead_is_used_up() {
    let (world, node) = node().await;
    under(&world, |_| Fate::Answered, node.cover(at(1_000))).await.unwrap();
    node.pass(7);
    assert!(under(&world, |_| Fate::Refused, node.cover(at(1_009))).await.is_ok());
    node.pass(4);
    let spent = under(&world, |_| Fate::Refused, node.cover(at(1_011))).await;
    assert!(matches!(spent, Err(CatalogError::Stale(_))));
}

#[tokio::test(start_paused = true)]
async fn callers_join_the_next_read_and_never_one_that_runs_already() {
    let (world, node) = node().await;
    let mut reads = 0;
    let mut count = |call: &str| {
        reads += usize::from(call == "read root");
        Fate::Answered
    };
    let others = async {
        while world.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        tokio::join!(node.refresh(), node.refresh(), node.refresh())
    };
    let (first, (second, third, fourth)) = under(&world, &mut count, async { tokio::join!(node.refresh(), others) }).await;
    let (first, second) = (first.unwrap(), second.unwrap());
    assert!(third.unwrap().began == second.began && fourth.unwrap().began == second.began && first.revision == second.revision);
    assert_eq!(reads, 2);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_takes_nobody_elses_read_with_it() {
    let (world, node) = node().await;
    let catalog = node.catalog.clone();
    let leaving = tokio::spawn(async move { catalog.refresh().await });
    while world.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    let staying = node.refresh();
    leaving.abort();
    assert!(under(&world, |_| Fate::Answered, staying).await.is_ok());
}
