//! Databases that are full, read-only, unreachable, silent or slow, or give back other bytes: hot data
//! stays, writes go on, no other database waits, the fault is named, and archiving goes on once it is gone.

use std::sync::Arc;

use prometheus::{Registry, TextEncoder};

use super::world::{HOUR, World, event, group, history, sorted};
use crate::catalog::Policy;
use crate::cold::Database;
use crate::cold::archive::{ArchiveOptions, Archiver};
use crate::cold::faulty::{Fault, Faulty};
use crate::model::{Event, Span};

/// A written history, of which the first database is in the test's hands.
struct Broken {
    world: World,
    archiver: Archiver,
    faulty: Faulty,
    database: Database,
    events: Vec<Event>,
}

impl Broken {
    async fn new() -> Broken {
        let (world, faulty, events) = (World::new().await, Faulty::default(), history());
        world.databases.provide("s3://db0", Arc::new(faulty.clone()));
        for event in &events {
            world.write(event).await;
        }
        let archiver = world.archiver(ArchiveOptions::default());
        Broken { world, archiver, faulty, database: group(&[4, 3, 3]).databases.swap_remove(0), events }
    }

    /// Events that belong to the first database.
    fn its_own(&self) -> impl Iterator<Item = &Event> {
        let view = self.world.catalog.view();
        let namespace = view.namespace(&self.world.ns).unwrap().clone();
        self.events.iter().filter(move |event| {
            let bucket = namespace.layout_at(&event.key, event.ts).bucket(event.ts);
            namespace.groups.place(&event.key, bucket).unwrap().database.name == "db0"
        })
    }

    /// Everything was archived, can be read, and nothing else is left anywhere.
    async fn check_whole(&mut self) {
        self.world.settle(&mut self.archiver).await;
        let dropped = self.world.catalog.view().namespace(&self.world.ns).unwrap().cold.dropped;
        self.events.retain(|event| event.ts >= dropped);
        let mut read = self.world.read().await;
        read.retain(|event| event.ts >= dropped);
        assert!(read == self.events, "{} of {}", read.len(), self.events.len());
        assert_eq!(self.world.hot_blocks().await, 0);
        let (named, found) = self.world.files().await;
        assert_eq!(named, found);
        assert_eq!(self.world.databases.faults(&self.database), Vec::<String>::new());
        assert!(self.archiver.audit(&self.world.ns, false).await.unwrap().is_sound());
    }

    fn metrics(&self) -> String {
        let registry = Registry::new();
        self.world.databases.register(&registry).unwrap();
        TextEncoder::new().encode_to_string(&registry.gather()).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn while_a_database_fails_its_buckets_stay_hot_and_all_others_are_archived() {
    for (fault, call, why) in [
        (Fault::Full, "put", "No space left on device"),
        (Fault::ReadOnly, "put", "Read-only file system"),
        (Fault::Unreachable, "put", "connection refused"),
        (Fault::Silent, "put", "no answer within"),
        (Fault::Altering, "get", "what was read is not what was written"),
    ] {
        let mut broken = Broken::new().await;
        let its_own = broken.its_own().count();
        broken.faulty.set(fault);
        let round = broken.world.settle(&mut broken.archiver).await;
        assert!(round.failed > 0 && round.published > 40, "{fault:?}: {round:?}");
        assert_eq!(broken.world.hot_blocks().await, its_own, "{fault:?}: hot is what can't be archived, and nothing else");

        let late = event("a", 20, "late", "x", 1);
        broken.world.write(&late).await;
        broken.events.push(late);
        broken.events = sorted(broken.events);
        assert!(broken.world.read().await == broken.events, "{fault:?}");

        let faults = broken.world.databases.faults(&broken.database).join("\n");
        assert!(faults.starts_with(&format!("{call}: database db0, n/cold/")) && faults.contains(why), "{fault:?}: {faults}");
        let down = format!("braid_cold_database_up{{call=\"{call}\",database=\"db0\",url=\"s3://db0\"}} 0");
        assert!(broken.metrics().contains(&down), "{fault:?}: {}", broken.metrics());
        assert!(broken.world.databases.probe(&broken.database, "n/cold").await.is_err(), "{fault:?}");

        broken.faulty.set(None);
        broken.check_whole().await;
        assert!(!broken.metrics().contains("} 0\n"), "{fault:?}: {}", broken.metrics());
    }
}

#[tokio::test(start_paused = true)]
async fn a_database_that_fails_is_asked_seldom() {
    let mut broken = Broken::new().await;
    broken.faulty.set(Fault::Unreachable);
    broken.archiver.round().await.unwrap();
    broken.world.pass(61);
    let first = broken.archiver.round().await.unwrap();
    let asked = broken.faulty.calls();
    assert!(first.failed > 10 && asked < 5, "{asked} calls for {} buckets", first.failed);
    broken.archiver.round().await.unwrap();
    assert_eq!(broken.faulty.calls(), asked, "it rests");
    broken.world.pass(6);
    broken.archiver.round().await.unwrap();
    assert_eq!(broken.faulty.calls(), asked + 1, "it was probed, and rests again");
    broken.faulty.set(None);
    broken.check_whole().await;
}

#[tokio::test(start_paused = true)]
async fn one_file_that_is_gone_stops_no_other_bucket() {
    let mut broken = Broken::new().await;
    broken.world.settle(&mut broken.archiver).await;
    let missing = broken.world.databases.list(&broken.database, "n/cold").await.unwrap().swap_remove(0);
    broken.world.databases.delete(&broken.database, &missing).await.unwrap();
    let of_missing = broken.world.bucket_of(&missing).await;
    let others: Vec<Event> =
        broken.its_own().filter(|event| event.ts >= of_missing.range().to || event.key != *of_missing.key).cloned().collect();
    for event in [&others[0], &others[others.len() - 1]] {
        broken.world.write(event).await;
    }
    let mut lost = others[0].clone();
    (lost.key, lost.ts) = (of_missing.key.to_string(), of_missing.start);
    broken.world.write(&lost).await;
    let round = broken.world.settle(&mut broken.archiver).await;
    assert!(round.failed > 0, "{round:?}");
    assert_eq!((round.published, broken.world.hot_blocks().await), (2, 1), "only the bucket whose file is gone waits");
    let audit = broken.archiver.audit(&broken.world.ns, false).await.unwrap();
    assert!(audit.faults.iter().any(|fault| fault.contains(&missing)), "{:?}", audit.faults);
}

#[tokio::test(start_paused = true)]
async fn a_slow_database_is_waited_for() {
    let mut broken = Broken::new().await;
    broken.faulty.set(Fault::Slow);
    let round = broken.world.settle(&mut broken.archiver).await;
    assert_eq!((round.published, round.swept, round.failed), (80, 80, 0));
    broken.check_whole().await;
}

#[tokio::test(start_paused = true)]
async fn files_that_can_not_be_deleted_are_deleted_later() {
    for fault in [Fault::Undeletable, Fault::Unreachable] {
        let mut broken = Broken::new().await;
        broken.world.settle(&mut broken.archiver).await;
        let mut again = broken.its_own().next().unwrap().clone();
        again.id = "late".into();
        broken.world.write(&again).await;
        broken.events.push(again);
        broken.events = sorted(broken.events);
        broken.archiver.round().await.unwrap();
        broken.faulty.set(fault);
        let round = broken.world.settle(&mut broken.archiver).await;
        assert!(round.swept == 0 && round.failed > 0, "{fault:?}: {round:?}");
        broken.faulty.set(None);
        assert!(broken.world.read().await == broken.events, "{fault:?}");
        broken.check_whole().await;

        broken.faulty.set(fault);
        let policy = Policy { retention: Span::from_nanos(24 * HOUR), archive_after: Some(Span::HOUR), ..Policy::default() };
        broken.world.catalog.set_policy(&broken.world.ns, policy).await.unwrap();
        let round = broken.world.settle(&mut broken.archiver).await;
        assert!(round.dropped > 0 && round.failed > 0, "{fault:?}: {round:?}");
        broken.faulty.set(None);
        broken.check_whole().await;
    }
}
