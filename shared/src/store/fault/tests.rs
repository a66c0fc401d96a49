//! Each fault does what it says.

use super::*;
use crate::model::TimeRange;
use crate::store::MemoryStore;
use crate::store::conformance::{self, block, blocks_of, partition, scan_of};

fn store() -> (Arc<MemoryStore>, Arc<FaultStore>) {
    let inner = MemoryStore::new();
    (inner.clone(), FaultStore::new(inner))
}

fn blocks() -> (Partition, Vec<EncodedBlock>) {
    let p = partition(&"ns".parse().unwrap(), "k", 0, 3);
    let blocks = (0..4).map(|id| block(&p, 1, 2, id, "bytes")).collect();
    (p, blocks)
}

#[tokio::test]
async fn without_faults_nothing_changes() {
    conformance::run(store().1, "a").await;
}

#[tokio::test]
async fn faults_of_an_append_do_all_half_or_nothing() {
    let faults = [
        (Fault::Refuse(StoreErrorKind::Full), StoreErrorKind::Full, 0),
        (Fault::LoseRequest, StoreErrorKind::Unknown, 0),
        (Fault::Tear, StoreErrorKind::Unknown, 2),
        (Fault::LoseAnswer, StoreErrorKind::Unknown, 4),
    ];
    for (fault, kind, stand) in faults {
        let (inner, store) = store();
        let (p, blocks) = blocks();
        store.once(Operation::Append, fault);
        assert_eq!(store.append(blocks.clone()).await.unwrap_err().kind, kind);
        assert_eq!(blocks_of(&*inner, &p).await.len(), stand);
        store.append(blocks).await.unwrap();
        assert_eq!(blocks_of(&*inner, &p).await.len(), 4);
    }
}

#[tokio::test]
async fn faults_of_a_scan_leave_out_or_alter_what_they_name() {
    let (_, store) = store();
    let (p, blocks) = blocks();
    store.append(blocks).await.unwrap();
    let scan = scan_of(vec![p.clone(), Partition { suffix: 4, ..p }], TimeRange::ALL);
    store.once(Operation::Scan, Fault::DropSuffix(3));
    let page = store.scan(&scan, None).await.unwrap();
    assert_eq!((page.blocks.len(), page.answered), (0, vec![1]));
    store.once(Operation::Scan, Fault::DropPage);
    assert!(store.scan(&scan, None).await.unwrap().answered.is_empty());
    store.once(Operation::Scan, Fault::FlipByte);
    let page = store.scan(&scan, None).await.unwrap();
    let altered: Vec<_> = page.blocks.iter().map(|(_, block)| block.bytes != "bytes").collect();
    assert_eq!(altered, [true, false, false, false]);
}

#[tokio::test]
async fn a_held_operation_waits_for_its_gate() {
    let (inner, store) = store();
    let (p, blocks) = blocks();
    let gate = Gate::new();
    store.once(Operation::Append, Fault::Hold(gate.clone()));
    let append = tokio::spawn(async move { store.append(blocks).await });
    gate.reached(1).await;
    assert!(blocks_of(&*inner, &p).await.is_empty());
    gate.open();
    append.await.unwrap().unwrap();
    assert_eq!(blocks_of(&*inner, &p).await.len(), 4);
}

#[tokio::test]
async fn frozen_documents_are_read_as_they_were() {
    let (inner, store) = store();
    let Swap::Done(etag) = store.swap_document("root", None, Bytes::from("one")).await.unwrap() else { panic!() };
    store.freeze_documents();
    inner.swap_document("root", Some(etag), Bytes::from("two")).await.unwrap();
    assert_eq!(store.read_document("root").await.unwrap().unwrap().bytes, "one");
    assert_eq!(store.swap_document("root", Some(etag), Bytes::from("x")).await.unwrap(), Swap::Conflict);
    store.heal();
    assert_eq!(store.read_document("root").await.unwrap().unwrap().bytes, "two");
}

#[tokio::test]
async fn a_seed_gives_the_same_faults_again() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let (_, store) = store();
        store.seeded(42, 0.3);
        let mut outcomes = Vec::new();
        for _ in 0..50 {
            outcomes.push(store.append(blocks().1).await.map_err(|error| error.kind));
        }
        assert!(outcomes.iter().any(Result::is_ok) && outcomes.iter().any(Result::is_err));
        runs.push(outcomes);
    }
    assert_eq!(runs[0], runs[1]);
}
