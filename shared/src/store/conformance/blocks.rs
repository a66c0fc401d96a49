//! Properties of append and delete.

use std::collections::BTreeSet;

use futures::future::join_all;

use super::fixture::{Fixture, block};
use crate::limits::BLOCK_BYTES_MAX;

pub(super) async fn a_block_appended_again_changes_nothing(on: Fixture) {
    let p = on.partition("k", 0, 0);
    let one = block(&p, 1, 5, 1, "one");
    on.append(vec![one.clone()]).await;
    on.append(vec![one.clone(), one.clone()]).await;
    let found = on.blocks(&p).await;
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].address, &*found[0].bytes), (one.address, &b"one"[..]));
}

pub(super) async fn blocks_of_many_partitions_stand_together(on: Fixture) {
    let partitions: Vec<_> = (0..50).map(|suffix| on.partition("k", 0, suffix)).collect();
    on.append(partitions.iter().map(|p| block(p, 1, 2, u64::from(p.suffix), format!("of {}", p.suffix))).collect()).await;
    for p in &partitions {
        assert_eq!(on.blocks(p).await[0].bytes, format!("of {}", p.suffix));
    }
}

pub(super) async fn a_large_block_comes_back_byte_for_byte(on: Fixture) {
    let p = on.partition("k", 0, 0);
    let bytes: Vec<u8> = (0..BLOCK_BYTES_MAX).map(|i| (i * 31 % 251) as u8).collect();
    on.append(vec![block(&p, 1, 2, 1, bytes.clone()), block(&p, 1, 2, 2, "")]).await;
    let found = on.blocks(&p).await;
    assert_eq!(found[0].bytes, bytes);
    assert!(found[1].bytes.is_empty());
}

pub(super) async fn a_delete_removes_exactly_the_blocks_it_names(on: Fixture) {
    let (p, other) = (on.partition("k", 0, 0), on.partition("k", 0, 1));
    let blocks: Vec<_> = (0..6).map(|id| block(&p, 1, 2, id, "x")).collect();
    on.append(blocks.clone()).await;
    on.append(vec![block(&other, 1, 2, 1, "x")]).await;
    on.store.delete(&p, &[blocks[1].address, blocks[4].address]).await.expect("the delete succeeds");
    let left: Vec<_> = [0, 2, 3, 5].iter().map(|i| blocks[*i].address).collect();
    assert_eq!(on.addresses(&p).await, left);
    assert_eq!(on.addresses(&other).await.len(), 1);
}

pub(super) async fn deleting_what_is_not_there_is_no_error(on: Fixture) {
    let p = on.partition("k", 0, 0);
    let (stands, never) = (block(&p, 1, 2, 1, "x"), block(&p, 1, 2, 2, "x"));
    on.append(vec![stands.clone()]).await;
    on.store.delete(&p, &[never.address]).await.expect("the delete succeeds");
    on.store.delete(&on.partition("none", 0, 0), &[never.address]).await.expect("the delete succeeds");
    on.store.delete(&p, &[]).await.expect("the delete succeeds");
    assert_eq!(on.addresses(&p).await, [stands.address]);
}

pub(super) async fn appends_at_the_same_time_all_stand(on: Fixture) {
    let p = on.partition("k", 0, 0);
    let appends = (0..40).map(|id| on.append(vec![block(&p, 1, 2, id, vec![id as u8; 100])]));
    join_all(appends).await;
    let ids: BTreeSet<_> = on.addresses(&p).await.iter().map(|address| address.id.time).collect();
    assert_eq!(ids, (0..40).collect());
}
