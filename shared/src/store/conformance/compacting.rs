//! Properties of replace and of finding what is worth it.

use super::fixture::{Fixture, block, scan_of};
use crate::limits::BLOCK_EVENTS_MAX;
use crate::model::TimeRange;
use crate::partition::Partition;
use crate::store::EncodedBlock;

fn full(partition: &Partition, id: u64) -> EncodedBlock {
    EncodedBlock { events: BLOCK_EVENTS_MAX as u32, ..block(partition, 1, 2, id, vec![1; 50_000]) }
}

pub(super) async fn a_replace_puts_new_blocks_in_the_place_of_exactly_the_old(on: Fixture) {
    let p = on.partition("k", 0, 0);
    let old: Vec<_> = (0..5).map(|id| block(&p, 1, 2, id, "old")).collect();
    on.append(old.clone()).await;
    let gone: Vec<_> = old[..4].iter().map(|block| block.address).collect();
    let new = block(&p, 1, 2, 100, "new");
    on.store.replace(&p, &gone, vec![new.clone()]).await.expect("the replace succeeds");
    assert_eq!(on.addresses(&p).await, [old[4].address, new.address]);
    // Whoever does not know the outcome does it again.
    on.store.replace(&p, &gone, vec![new.clone()]).await.expect("the replace succeeds");
    assert_eq!(on.addresses(&p).await, [old[4].address, new.address]);
}

pub(super) async fn the_small_blocks_of_a_partition_lie_where_the_store_says(on: Fixture) {
    let p = on.partition("k", 0, 0);
    let at = |at: i64, id| EncodedBlock { events: BLOCK_EVENTS_MAX as u32, ..block(&p, at, at + 9, id, "full") };
    let small: Vec<_> = [(50, 55), (52, 90), (70, 70), (71, 72), (73, 74)]
        .iter()
        .zip(100..)
        .map(|((min, max), id)| block(&p, *min, *max, id, "small"))
        .collect();
    on.append((0..20).map(|id| at(10 * id as i64, id)).chain(small.clone()).collect()).await;
    on.store.fragmented(1, None, 100).await.expect("the walk succeeds");
    let range = on.store.fragments(&p).await.expect("the store answers");
    assert!(range.from.nanos() <= 50 && range.to.nanos() > 90, "{range:?}");
    // Also after some were removed and others came.
    let gone: Vec<_> = small[..2].iter().map(|block| block.address).collect();
    on.store.replace(&p, &gone, vec![at(50, 200)]).await.expect("the replacement succeeds");
    on.append(vec![block(&p, 20, 130, 300, "small")]).await;
    on.store.fragmented(1, None, 100).await.expect("the walk succeeds");
    let range = on.store.fragments(&p).await.expect("the store answers");
    assert!(range.from.nanos() <= 20 && range.to.nanos() > 130, "{range:?}");
}

pub(super) async fn a_scan_under_way_never_sees_a_replace_half_done(on: Fixture) {
    if !on.store.replaces_atomically() {
        return;
    }
    let p = on.partition("k", 0, 0);
    let old: Vec<_> = (0..64).map(|id| block(&p, id as i64, id as i64, id, vec![0; 200_000])).collect();
    for part in old.chunks(16) {
        on.append(part.to_vec()).await;
    }
    let scan = scan_of(vec![p.clone()], TimeRange::ALL);
    let first = on.store.scan(&scan, None).await.expect("the scan succeeds");
    let addresses: Vec<_> = old.iter().map(|block| block.address).collect();
    on.store.replace(&p, &addresses, vec![block(&p, 0, 63, 100, "all")]).await.expect("the replace succeeds");
    let mut ids: Vec<_> = first.blocks.iter().map(|(_, block)| block.address.id.time).collect();
    let mut token = first.next;
    while let Some(at) = token {
        let page = on.store.scan(&scan, Some(at)).await.expect("the scan succeeds");
        ids.extend(page.blocks.iter().map(|(_, block)| block.address.id.time));
        token = page.next;
    }
    assert_eq!(ids, (0..64).collect::<Vec<_>>());
    assert_eq!(on.addresses(&p).await.len(), 1);
}

pub(super) async fn a_partition_of_many_small_blocks_is_found_and_then_no_more(on: Fixture) {
    let (many, few, filled) = (on.partition("k", 0, 0), on.partition("k", 0, 1), on.partition("k", 0, 2));
    let small: Vec<_> = (0..20).map(|id| block(&many, 1, 2, id, "x")).collect();
    on.append(small.clone()).await;
    on.append(vec![block(&few, 1, 2, 1, "x")]).await;
    on.append((0..20).map(|id| full(&filled, id)).collect()).await;
    assert_eq!(found(&on, 8).await, std::slice::from_ref(&many));
    let addresses: Vec<_> = small.iter().map(|block| block.address).collect();
    on.store.replace(&many, &addresses, vec![full(&many, 100)]).await.expect("the replace succeeds");
    assert!(found(&on, 8).await.is_empty());
}

/// Every fragmented partition of this namespace, one by one.
async fn found(on: &Fixture, least: usize) -> Vec<Partition> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let some = on.store.fragmented(least, after.as_ref(), 1).await.expect("the walk succeeds");
        let Some(last) = some.last() else { return all };
        after = Some(last.clone());
        all.extend(some.into_iter().filter(|partition| partition.ns == on.ns));
    }
}
