//! A bucket's life: archived, read, late, archived again, dropped; and databases that fail.

use super::world::{HOUR, NOW, SECOND, World, event, group, history, sorted};
use crate::catalog::Policy;
use crate::cold::archive::ArchiveOptions;
use crate::cold::{Database, Group};
use crate::model::{Event, FieldValue, Span, Timestamp};

async fn written() -> (World, Vec<Event>) {
    let (world, events) = (World::new().await, history());
    for event in &events {
        world.write(event).await;
    }
    (world, events)
}

#[tokio::test]
async fn due_buckets_leave_the_store_and_every_read_stays_the_same() {
    let (world, events) = written().await;
    let mut archiver = world.archiver(ArchiveOptions::default());
    assert_eq!(archiver.preview(&world.ns).await.unwrap().archived, 80);
    let first = archiver.round().await.unwrap();
    assert!(first.published == 0 && first.waiting, "a grace passes before anything is opened: {first:?}");
    world.pass(61);
    let second = archiver.round().await.unwrap();
    assert_eq!((second.published, second.swept, second.failed), (80, 0, 0));
    assert_eq!(world.read().await, events, "published, not swept");
    assert_eq!(world.hot_blocks().await, 2 * 40 * 10, "nothing is deleted before a grace has passed");
    let rest = world.settle(&mut archiver).await;
    assert_eq!((rest.published, rest.swept, rest.failed), (0, 80, 0));
    assert_eq!((world.read().await, world.hot_blocks().await), (events, 0));
    let (named, found) = world.files().await;
    assert_eq!((named.len(), &named), (80, &found));
}

#[tokio::test]
async fn tables_lie_where_range_group_and_hash_say() {
    let (world, events) = written().await;
    let from = Timestamp::from_nanos(NOW - 5 * HOUR);
    world.catalog.add_group(&world.ns, Some(from), Group { tables: 2, databases: group(&[0, 0, 2]).databases.split_off(2) }).await.unwrap();
    let mut archiver = world.archiver(ArchiveOptions::default());
    world.settle(&mut archiver).await;
    let (named, found) = world.files().await;
    assert_eq!(named, found);
    let of = |part: &str| named.iter().filter(|path| path.contains(part)).count();
    assert_eq!((of("n/cold/g1/"), of("n/cold/g2/")), (72, 8));
    let last = world.databases.list(&group(&[4, 3, 3]).databases[2], "n/cold/g1").await.unwrap();
    assert!(!last.is_empty() && last.iter().all(|path| ["/t0007/", "/t0008/", "/t0009/"].iter().any(|table| path.contains(table))));
    assert_eq!(world.read().await, events);
}

#[tokio::test]
async fn late_events_are_seen_at_once_and_archived_in_the_next_generation() {
    let (world, mut events) = written().await;
    let mut archiver = world.archiver(ArchiveOptions::default());
    world.settle(&mut archiver).await;
    let late = event("a", 20, "late", "x", 7);
    let update = event("a", 20, "e20-3", "y", 8);
    for event in [&late, &update] {
        world.write(event).await;
    }
    events.push(late);
    let known = events.iter_mut().find(|event| event.key == "a" && event.id == "e20-3").unwrap();
    known.fields.insert("y".into(), FieldValue::I64(8));
    let events = sorted(events);
    assert_eq!(world.read().await, events);
    let round = world.settle(&mut archiver).await;
    assert_eq!((round.published, round.swept), (1, 1));
    assert_eq!((world.read().await, world.hot_blocks().await), (events, 0));
    let (named, found) = world.files().await;
    assert_eq!((named.len(), &named), (80, &found), "the files of the generation before are gone");
}

#[tokio::test]
async fn a_bucket_larger_than_a_slice_becomes_several_files() {
    let (world, _) = written().await;
    for n in 0..300 {
        let mut event = event("a", 3, &format!("big{n}"), "x", n);
        event.ts = Timestamp::from_nanos(NOW - 3 * HOUR + n * 10 * SECOND);
        world.write(&event).await;
    }
    let events = world.read().await;
    let mut archiver = world.archiver(ArchiveOptions { slice_bytes: 4_096, ..ArchiveOptions::default() });
    world.settle(&mut archiver).await;
    assert_eq!((world.read().await, world.hot_blocks().await), (events, 0));
    let (named, found) = world.files().await;
    assert!(named.len() > 85 && named == found, "{}", named.len());
}

#[tokio::test]
async fn a_database_that_fails_keeps_its_buckets_hot_until_it_is_mended() {
    let (world, events) = written().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let broken = Database { name: "broken".into(), url: format!("file://{}/below", file.path().display()), tables: 5 };
    let mut sound = group(&[5]).databases;
    sound.push(broken);
    let from = Timestamp::from_nanos(NOW - 30 * HOUR);
    world.catalog.add_group(&world.ns, Some(from), Group { tables: 10, databases: sound }).await.unwrap();
    let mut archiver = world.archiver(ArchiveOptions::default());
    let round = world.settle(&mut archiver).await;
    assert!(round.failed > 0 && round.published > 20, "{round:?}");
    assert_eq!(world.read().await, events);
    assert!(world.hot_blocks().await > 0);
    let path = file.into_temp_path();
    std::fs::remove_file(&path).unwrap();
    let round = world.settle(&mut archiver).await;
    assert!(round.published > 0, "{round:?}");
    assert_eq!((world.read().await, world.hot_blocks().await), (events, 0));
    std::fs::remove_dir_all(&path).unwrap();
}

#[tokio::test]
async fn what_is_too_old_is_dropped_hot_and_cold() {
    let (world, events) = written().await;
    let mut archiver = world.archiver(ArchiveOptions::default());
    world.settle(&mut archiver).await;
    let late = event("b", 30, "late", "x", 7);
    world.write(&late).await;
    let policy = Policy { retention: Span::from_nanos(24 * HOUR), archive_after: Some(Span::HOUR), ..Policy::default() };
    world.catalog.set_policy(&world.ns, policy).await.unwrap();
    assert_eq!(archiver.preview(&world.ns).await.unwrap().gone, 34);
    let round = archiver.round().await.unwrap();
    assert_eq!(round.dropped, 0, "a grace passes before anything is deleted");
    let round = world.settle(&mut archiver).await;
    assert!(round.dropped >= 30, "{round:?}");
    let dropped = world.catalog.view().namespace(&world.ns).unwrap().cold.dropped;
    let kept: Vec<Event> = events.into_iter().filter(|event| event.ts >= dropped).collect();
    let read: Vec<Event> = world.read().await.into_iter().filter(|event| event.ts >= dropped).collect();
    assert_eq!((read, world.hot_blocks().await), (kept, 0));
    let (named, found) = world.files().await;
    assert_eq!(named, found);
    assert!(named.len() < 52, "{}", named.len());
}

#[tokio::test]
async fn a_file_that_is_missing_or_altered_is_an_error_that_names_it() {
    let (world, _) = written().await;
    let mut archiver = world.archiver(ArchiveOptions::default());
    world.settle(&mut archiver).await;
    let (named, _) = world.files().await;
    let path = named.iter().next().unwrap();
    let fresh = crate::cold::Tables::new(world.databases.clone(), &prometheus::Registry::new()).unwrap();
    let view = world.catalog.view();
    let namespace = view.namespace(&world.ns).unwrap();
    let bucket = world.bucket_of(path).await;
    let page = world.manifest.read(&crate::cold::PageId::of(&world.ns, &bucket.key, &bucket.layout, bucket.start)).await.unwrap();
    let published = page[&bucket.start].published.clone().unwrap();
    let database = crate::cold::tables::database_of(&namespace.groups, &published).unwrap();
    let bytes = world.databases.get(database, path).await.unwrap();
    let all = crate::cold::tables::Wanted { range: crate::model::TimeRange::ALL, suffixes: 0..4, id: None };
    let read = || fresh.blocks(&namespace.groups, &bucket, &published, &all);
    world.databases.delete(database, path).await.unwrap();
    let missing = read().await.unwrap_err();
    assert_eq!((missing.kind, &missing.path), (crate::cold::DatabaseErrorKind::Missing, path));
    let mut altered = bytes.to_vec();
    altered[100] ^= 1;
    world.databases.put(database, path, altered.into()).await.unwrap();
    let error = read().await.unwrap_err();
    assert_eq!((error.kind, &error.path), (crate::cold::DatabaseErrorKind::Altered, path));
}
