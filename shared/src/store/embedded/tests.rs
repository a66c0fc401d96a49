//! Tests of what only this store has: its directory, restarts, damage.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use fjall::AbstractTree;
use tempfile::TempDir;

use super::*;
use crate::limits::BLOCK_EVENTS_MAX;
use crate::model::Timestamp;
use crate::store::conformance::{self, block, blocks_of, partition};
use crate::store::{MemoryStore, Store, StoredBlock};

fn open(dir: &TempDir) -> Result<Arc<EmbeddedStore>, OpenError> {
    let options = EmbeddedOptions { page_bytes: 64 * 1024, reserve_bytes: 0, ..EmbeddedOptions::default() };
    EmbeddedStore::open(&dir.path().join("data"), options)
}

fn temp() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Appends one block for each id, each in a commit of its own.
async fn append(store: &EmbeddedStore, ids: std::ops::Range<u64>) {
    for id in ids {
        store.append(vec![block(&place(), 1, 2, id, vec![id as u8; 1_000])]).await.unwrap();
    }
}

fn place() -> Partition {
    partition(&"ns".parse().unwrap(), "k", 0, 0)
}

fn scan_of_place() -> Scan {
    conformance::scan_of(vec![place()], TimeRange::ALL)
}

async fn ids(store: &EmbeddedStore) -> Vec<u64> {
    blocks_of(store, &place()).await.iter().map(|block| block.address.id.time).collect()
}

/// The newest journal, and the end of what was written to it.
fn journal(dir: &TempDir) -> (PathBuf, u64) {
    let engine = dir.path().join("data/store");
    let mut files: Vec<_> = fs::read_dir(engine).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "jnl"));
    files.sort();
    let path = files.pop().unwrap();
    let mut bytes = Vec::new();
    File::open(&path).unwrap().read_to_end(&mut bytes).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1;
    (path, end)
}

fn write_at(path: &PathBuf, at: u64, bytes: &[u8]) {
    let mut file = OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(bytes).unwrap();
}

fn flip(path: &PathBuf, at: u64) {
    let mut file = File::open(path).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    let mut byte = [0];
    file.read_exact(&mut byte).unwrap();
    write_at(path, at, &[byte[0] ^ 0x40]);
}

#[tokio::test]
async fn it_keeps_every_property_also_after_a_restart() {
    let dir = temp();
    let store = open(&dir).unwrap();
    conformance::run(store.clone(), "first").await;
    store.close();
    conformance::run(open(&dir).unwrap(), "second").await;
}

#[tokio::test]
async fn the_reference_model_keeps_every_property() {
    conformance::run(MemoryStore::new(), "a").await;
    conformance::run(Arc::new(MemoryStore::with_page_bytes(10_000)), "b").await;
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_drop_without_close() {
    let dir = temp();
    let store = open(&dir).unwrap();
    append(&store, 0..20).await;
    let swap = store.swap_document("root", None, Bytes::from("one")).await.unwrap();
    store.note_days(&"ns".parse().unwrap(), &[("k".into(), 3)]).await.unwrap();
    drop(store);
    let store = open(&dir).unwrap();
    assert_eq!(ids(&store).await, (0..20).collect::<Vec<_>>());
    let root = store.read_document("root").await.unwrap().unwrap();
    assert_eq!(Swap::Done(root.etag), swap);
    let next = store.swap_document("root", Some(root.etag), Bytes::from("two")).await.unwrap();
    assert!(matches!(next, Swap::Done(etag) if etag > root.etag));
    assert_eq!(store.days(&"ns".parse().unwrap(), "k", 0, 9).await.unwrap(), [3]);
}

#[tokio::test]
async fn fragments_are_found_again_after_a_restart() {
    let dir = temp();
    let store = open(&dir).unwrap();
    append(&store, 0..20).await;
    store.close();
    let store = open(&dir).unwrap();
    assert_eq!(store.fragmented(8, None, 10).await.unwrap(), [place()]);
}

#[tokio::test]
async fn small_blocks_alone_between_full_ones_are_no_reason_to_read_those_again() {
    let dir = temp();
    let store = open(&dir).unwrap();
    let full = |at| EncodedBlock { events: BLOCK_EVENTS_MAX as u32, ..block(&place(), at, at + 9, at as u64, "full") };
    let small = |at| block(&place(), at, at + 4, at as u64, "small");
    // Three small blocks between two full ones, again and again.
    let history =
        |from: i64| (from..from + 20).flat_map(move |n| [full(n * 100), small(n * 100 + 20), small(n * 100 + 30), small(n * 100 + 40)]);
    store.append(history(0).chain([full(2_000)]).collect()).await.unwrap();
    assert_eq!(store.fragmented(8, None, 10).await.unwrap(), []);
    // Then many that stand together: only those are to be read.
    store.append((0..8).map(|n| small(3_000 + 10 * n)).collect()).await.unwrap();
    assert_eq!(store.fragmented(8, None, 10).await.unwrap(), [place()]);
    let range = |from, to| TimeRange { from: Timestamp::from_nanos(from), to: Timestamp::from_nanos(to) };
    assert_eq!(store.fragments(&place()).await.unwrap(), range(3_000, 3_075));
    // A fourth beside three old ones makes them worth it.
    store.append(vec![small(550), full(4_000)]).await.unwrap();
    assert_eq!(store.fragmented(8, None, 10).await.unwrap(), [place()]);
    assert_eq!(store.fragments(&place()).await.unwrap(), range(520, 3_075));
    // After a start all is looked at once.
    store.close();
    let store = open(&dir).unwrap();
    assert_eq!(store.fragmented(8, None, 10).await.unwrap(), [place()]);
    assert_eq!(store.fragments(&place()).await.unwrap(), range(520, 3_075));
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let dir = temp();
    let store = open(&dir).unwrap();
    store.close();
    assert!(store.health().is_err());
    assert_eq!(store.read_document("a").await.unwrap_err().kind, StoreErrorKind::Unavailable);
    assert_eq!(store.delete_document("a").await.unwrap_err().kind, StoreErrorKind::Unavailable);
}

#[test]
fn a_directory_in_use_is_named() {
    let dir = temp();
    let _first = open(&dir).unwrap();
    let error = open(&dir).err().unwrap();
    assert!(matches!(error, OpenError::InUse(_)), "{error}");
    assert!(error.to_string().contains("data"), "{error}");
}

#[test]
fn a_directory_of_a_newer_format_is_refused_and_left_alone() {
    let dir = temp();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    for text in ["braid data directory\nformat 3\nwhatever\n", "something else", ""] {
        fs::write(data.join("BRAID"), text).unwrap();
        assert!(matches!(open(&dir), Err(OpenError::Format { .. })), "{text}");
        assert_eq!(fs::read_dir(&data).unwrap().count(), 1);
    }
}

#[test]
fn a_foreign_directory_is_refused_and_left_alone() {
    let dir = temp();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("thesis.txt"), "years of work").unwrap();
    assert!(matches!(open(&dir), Err(OpenError::Foreign(_))));
    assert_eq!(fs::read_dir(&data).unwrap().count(), 1);
}

#[test]
fn a_first_start_that_was_cut_short_is_begun_anew() {
    let dir = temp();
    open(&dir).unwrap().close();
    let engine = dir.path().join("data/store");
    fs::remove_dir_all(&engine).unwrap();
    fs::create_dir_all(engine.join("keyspaces")).unwrap();
    fs::write(engine.join("0.jnl"), [0; 100]).unwrap();
    fs::write(engine.join("lock"), []).unwrap();
    open(&dir).unwrap();
}

#[tokio::test]
async fn an_engine_without_its_version_file_is_never_wiped() {
    let dir = temp();
    let store = open(&dir).unwrap();
    append(&store, 0..3).await;
    store.close();
    fs::remove_file(dir.path().join("data/store/version")).unwrap();
    let error = open(&dir).err().unwrap();
    assert!(error.to_string().contains("version"), "{error}");
}

#[tokio::test]
async fn a_torn_end_of_the_journal_is_dropped_and_what_was_acknowledged_stays() {
    for torn in [&b"garbage"[..], &[1, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0], &[1]] {
        let dir = temp();
        let store = open(&dir).unwrap();
        append(&store, 0..10).await;
        store.close();
        let (path, end) = journal(&dir);
        write_at(&path, end, torn);
        let store = open(&dir).unwrap();
        assert_eq!(ids(&store).await, (0..10).collect::<Vec<_>>());
        append(&store, 10..12).await;
        store.close();
        assert_eq!(ids(&open(&dir).unwrap()).await, (0..12).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_byte_that_rotted_anywhere_under_acknowledged_commits_is_an_error_naming_the_file() {
    let dir = temp();
    let store = open(&dir).unwrap();
    append(&store, 0..10).await;
    store.close();
    let (path, end) = journal(&dir);
    // The last mark only proves what stands before it; it is itself no acknowledged data.
    let mark = 13 + 21 + 1 + 16 + 13;
    for at in (0..end - mark).step_by(97).chain([0, 13, end - mark - 1]) {
        flip(&path, at);
        match open(&dir) {
            Err(error @ OpenError::Damaged { .. }) => assert!(error.to_string().contains(".jnl"), "{error}"),
            Err(error) => panic!("byte {at}: {error}"),
            // A few bytes carry nothing; then nothing may be missing.
            Ok(store) => assert_eq!(ids(&store).await, (0..10).collect::<Vec<_>>(), "byte {at}"),
        }
        flip(&path, at);
    }
    assert_eq!(ids(&open(&dir).unwrap()).await, (0..10).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_journal_cut_within_its_last_record_opens() {
    let dir = temp();
    let store = open(&dir).unwrap();
    append(&store, 0..10).await;
    store.close();
    let (path, end) = journal(&dir);
    OpenOptions::new().write(true).open(&path).unwrap().set_len(end - 5).unwrap();
    assert_eq!(ids(&open(&dir).unwrap()).await, (0..10).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_scan_of_damaged_files_is_an_error_never_a_shorter_answer() {
    let dir = temp();
    let options = || EmbeddedOptions { memtable_bytes: 64 * 1024, cache_bytes: 0, reserve_bytes: 0, ..EmbeddedOptions::default() };
    let path = dir.path().join("data");
    let store = EmbeddedStore::open(&path, options()).unwrap();
    for id in 0..40 {
        store.append(vec![block(&place(), 1, 2, id, vec![id as u8; 20_000])]).await.unwrap();
    }
    store.engine().unwrap().keyspace.rotate_memtable_and_wait().unwrap();
    store.close();
    let blobs = path.join("store/keyspaces/1/blobs");
    for entry in fs::read_dir(blobs).unwrap() {
        let path = entry.unwrap().path();
        let middle = fs::metadata(&path).unwrap().len() / 2;
        flip(&path, middle);
    }
    let scan = scan_of_place();
    let store = EmbeddedStore::open(&path, options()).unwrap();
    let error = conformance::read_all(&*store, &scan).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Corrupt, "{error}");
}

#[tokio::test]
async fn journals_and_memtables_stay_bounded_while_documents_lie_idle_beside_busy_blocks() {
    let dir = temp();
    let options = EmbeddedOptions { memtable_bytes: 2 * MIB, reserve_bytes: 0, ..EmbeddedOptions::default() };
    let store = EmbeddedStore::open(&dir.path().join("data"), options).unwrap();
    store.swap_document("root", None, Bytes::from("one")).await.unwrap();
    for round in 0..80 {
        let blocks = (0..16).map(|id| block(&place(), round, round, id, vec![7; 200_000])).collect();
        store.append(blocks).await.unwrap();
        let tree = &store.engine().unwrap().keyspace.tree;
        assert!(tree.active_memtable().size() < 6 * MIB as u64 && tree.sealed_memtable_count() <= 3);
    }
    let journals = store.engine().unwrap().database.journal_count();
    assert!(journals <= 3, "{journals} journals of 64 MiB for 256 MB written");
}

#[tokio::test]
async fn a_full_disk_refuses_writes_and_goes_on_reading() {
    let dir = temp();
    let options = EmbeddedOptions { reserve_bytes: u64::MAX, ..EmbeddedOptions::default() };
    let store = EmbeddedStore::open(&dir.path().join("data"), options).unwrap();
    let error = store.append(vec![block(&place(), 1, 2, 1, "x")]).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Full);
    assert!(store.health().is_err());
    assert!(ids(&store).await.is_empty());
}

#[tokio::test]
async fn a_long_block_is_found_by_scans_that_begin_inside_it_also_after_a_restart() {
    let dir = temp();
    let at = |from| Scan { range: TimeRange { from: Timestamp::from_nanos(from), to: Timestamp::MAX }, ..scan_of_place() };
    let found = async |store: &EmbeddedStore, from| {
        let found = conformance::read_all(store, &at(from)).await.unwrap().concat();
        found.iter().map(|block| block.address.id.time).collect::<Vec<_>>()
    };
    let store = open(&dir).unwrap();
    store.append((0..100).map(|id| block(&place(), id as i64, id as i64, id, "short")).collect()).await.unwrap();
    assert_eq!(found(&store, 98).await, [98, 99]);
    store.append(vec![block(&place(), 3, 500, 200, "long")]).await.unwrap();
    assert_eq!(found(&store, 99).await, [200, 99]);
    store.close();
    // What is known of the partition now comes from the disk, before and after it grows.
    let store = open(&dir).unwrap();
    assert_eq!(found(&store, 500).await, [200]);
    store.append(vec![block(&place(), 4, 5, 201, "short"), block(&place(), 2, 90_000, 202, "longer")]).await.unwrap();
    assert_eq!(found(&store, 80_000).await, [202]);
}

#[tokio::test]
async fn a_directory_of_the_format_before_is_made_into_this_one_and_loses_nothing() {
    let dir = temp();
    let store = open(&dir).unwrap();
    store.append((0..100).map(|id| block(&place(), id as i64, id as i64 + 300, id, "x")).collect()).await.unwrap();
    // As a build before this one leaves it: no record of how long blocks last.
    let record = keys::reach_key(&keys::partition_prefix(&place()));
    let keyspace = store.engine().unwrap().keyspace;
    assert!(keyspace.contains_key(&record).unwrap());
    keyspace.remove(record.clone()).unwrap();
    drop(keyspace);
    store.close();
    let mark = dir.path().join("data/BRAID");
    let text = fs::read_to_string(&mark).unwrap();
    fs::write(&mark, text.replace("format 2", "format 1")).unwrap();

    let store = open(&dir).unwrap();
    assert_eq!(fs::read_to_string(&mark).unwrap(), text);
    assert!(store.engine().unwrap().keyspace.contains_key(&record).unwrap());
    let scan = Scan { range: TimeRange { from: Timestamp::from_nanos(350), to: Timestamp::MAX }, ..scan_of_place() };
    assert_eq!(conformance::read_all(&*store, &scan).await.unwrap()[0].len(), 50);
}

#[tokio::test]
async fn tidying_takes_removed_blocks_off_the_disk_and_changes_no_answer() {
    let dir = temp();
    let path = dir.path().join("data");
    let store = open(&dir).unwrap();
    let old: Vec<_> = (0..600).map(|id| block(&place(), id as i64, id as i64, id, vec![id as u8; 50_000])).collect();
    for blocks in old.chunks(50) {
        store.append(blocks.to_vec()).await.unwrap();
    }
    let addresses: Vec<_> = old[..590].iter().map(|block| block.address).collect();
    store.replace(&place(), &addresses, vec![block(&place(), 0, 589, 1_000, "all")]).await.unwrap();
    let before = blocks_of(&*store, &place()).await;
    let engine = store.engine().unwrap();
    let tidier = Tidier {
        keyspace: engine.keyspace.clone(),
        state: store.state.clone(),
        waste: Arc::default(),
        metrics: TidyMetrics::new(&Registry::new()).unwrap(),
    };
    tidier.tidy();
    // 11 blocks, a record of their partition, the mark of the last commit, which may just have been repeated.
    assert!(engine.keyspace.approximate_len() <= 14, "{} records", engine.keyspace.approximate_len());
    assert!(engine.keyspace.disk_space() < 2_000_000, "{} bytes for 10 blocks of 50,000", engine.keyspace.disk_space());
    let same = |a: &[StoredBlock], b: &[StoredBlock]| {
        a.iter().map(|block| (block.address, &block.bytes)).eq(b.iter().map(|block| (block.address, &block.bytes)))
    };
    assert!(same(&before, &blocks_of(&*store, &place()).await));
    drop((engine, tidier));
    store.close();
    let store = EmbeddedStore::open(&path, EmbeddedOptions::default()).unwrap();
    assert!(same(&before, &blocks_of(&*store, &place()).await));
}
