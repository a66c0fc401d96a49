//! An archiver that is killed after any of its steps; the next one goes on from what stands.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use super::world::{HOUR, World, event, history, sorted};
use crate::catalog::Policy;
use crate::cold::archive::{ArchiveError, ArchiveOptions, Archiver, STEPS, Step};
use crate::model::{Event, Span};

/// Rounds until the archiver is stopped, a grace between them; whether it was.
async fn until_stopped(world: &World, archiver: &mut Archiver) -> bool {
    for _ in 0..12 {
        match archiver.round().await {
            Ok(_) => world.pass(61),
            Err(ArchiveError::Stopped(_)) => return true,
            Err(error) => panic!("{error}"),
        }
    }
    false
}

async fn keep_a_day(world: &World) {
    let policy = Policy { retention: Span::from_nanos(24 * HOUR), archive_after: Some(Span::HOUR), ..Policy::default() };
    world.catalog.set_policy(&world.ns, policy).await.unwrap();
}

#[tokio::test]
async fn a_kill_after_any_step_loses_and_doubles_nothing() {
    for step in STEPS {
        let (world, mut events) = (World::new().await, history());
        for event in &events {
            world.write(event).await;
        }
        // A first generation, so that there are files to replace and buckets to drop.
        if !matches!(step, Step::Closed) {
            let mut archiver = world.archiver(ArchiveOptions::default());
            world.settle(&mut archiver).await;
            let late = event("a", 12, "late", "x", 1);
            world.write(&late).await;
            events.push(late);
        }
        if matches!(step, Step::Dropped | Step::DroppedBlocks | Step::DroppedFiles) {
            keep_a_day(&world).await;
        }
        assert!(until_stopped(&world, &mut world.stopping(step)).await, "{step:?} is never taken");
        check(&world, &events, &format!("killed after {step:?}")).await;
        let mut next = world.archiver(ArchiveOptions::default());
        world.settle(&mut next).await;
        check(&world, &events, &format!("went on after {step:?}")).await;
        assert_eq!(world.hot_blocks().await, 0, "{step:?}");
        let audit = next.audit(&world.ns, true).await.unwrap();
        assert!(audit.faults.is_empty() && audit.unread.is_empty(), "{step:?}: {audit:?}");
        let (named, found) = world.files().await;
        assert_eq!(named, found, "an orphan is left after {step:?}");
        let again = next.audit(&world.ns, false).await.unwrap();
        assert!(again.is_sound() && again.orphans.is_empty(), "{step:?}: {again:?}");
        check(&world, &events, &format!("mended after {step:?}")).await;
    }
}

/// What is read is what was written, from where nothing is dropped.
async fn check(world: &World, events: &[Event], when: &str) {
    let dropped = world.catalog.refresh().await.unwrap().namespace(&world.ns).unwrap().cold.dropped;
    let kept = |events: Vec<Event>| events.into_iter().filter(|event| event.ts >= dropped).collect::<Vec<_>>();
    assert_eq!(kept(world.read().await), kept(sorted(events.to_vec())), "{when}");
}

#[tokio::test]
async fn two_archivers_at_once_lose_nothing_and_leave_nothing_behind() {
    let (world, events) = (World::new().await, history());
    for event in &events {
        world.write(event).await;
    }
    let (mut a, mut b) = (world.archiver(ArchiveOptions::default()), world.archiver(ArchiveOptions::default()));
    for _ in 0..6 {
        let (a, b) = futures::join!(a.round(), b.round());
        assert_eq!((a.unwrap().failed, b.unwrap().failed), (0, 0));
        assert_eq!(world.read().await, events);
        world.pass(61);
    }
    world.settle(&mut a).await;
    assert_eq!((world.read().await, world.hot_blocks().await), (events, 0));
    let (named, found) = world.files().await;
    assert_eq!(named, found);
}

#[tokio::test]
async fn every_step_is_taken_in_one_life() {
    let world = World::new().await;
    for event in &history() {
        world.write(event).await;
    }
    let seen: Arc<Mutex<HashSet<Step>>> = Arc::default();
    let noted = seen.clone();
    let stop_after: Option<Arc<dyn Fn(Step) -> bool + Send + Sync>> = Some(Arc::new(move |step| {
        noted.lock().unwrap().insert(step);
        false
    }));
    let mut archiver = world.archiver(ArchiveOptions { stop_after, ..ArchiveOptions::default() });
    world.settle(&mut archiver).await;
    keep_a_day(&world).await;
    world.settle(&mut archiver).await;
    assert_eq!(STEPS.iter().filter(|step| !seen.lock().unwrap().contains(step)).count(), 0);
}
