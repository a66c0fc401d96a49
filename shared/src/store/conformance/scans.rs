//! Properties of scans.

use std::sync::Arc;

use super::fixture::{Fixture, block, read_all, scan_of};
use crate::layout::LayoutVersion;
use crate::model::{TimeRange, Timestamp};
use crate::partition::Partition;
use crate::store::{EncodedBlock, End, Enough, Scan, overlaps};

fn range(from: i64, to: i64) -> TimeRange {
    TimeRange { from: Timestamp::from_nanos(from), to: Timestamp::from_nanos(to) }
}

pub(super) async fn blocks_of_a_partition_come_in_the_order_of_their_addresses(on: Fixture) {
    let p = on.partition("k", -100, 0);
    let spans = [(5, 9, 1), (-100, -1, 2), (5, 6, 9), (-1, 0, 3), (5, 9, 0), (i64::MIN, 4, 4)];
    for (min, max, id) in spans {
        on.append(vec![block(&p, min, max, id, "x")]).await;
    }
    let found = on.addresses(&p).await;
    assert_eq!(found.len(), spans.len());
    assert!(found.is_sorted(), "{found:?}");
}

pub(super) async fn a_scan_gives_the_blocks_that_overlap_its_range_and_no_others_are_needed(on: Fixture) {
    let p = on.partition("k", 0, 0);
    on.append(vec![
        block(&p, 0, 9, 1, "before"),
        block(&p, 0, 100, 2, "over"),
        block(&p, 10, 10, 3, "edge"),
        block(&p, 20, 30, 4, "behind"),
    ])
    .await;
    let ids = async |from, to| {
        let found = read_all(&*on.store, &scan_of(vec![p.clone()], range(from, to))).await.expect("the scan succeeds");
        found[0].iter().map(|block| block.address.id.time).collect::<Vec<_>>()
    };
    let overlapping = async |from, to, wanted: &[u64]| {
        let found = ids(from, to).await;
        assert!(wanted.iter().all(|id| found.contains(id)), "[{from}, {to}): {found:?}");
    };
    overlapping(10, 20, &[2, 3]).await;
    overlapping(9, 10, &[1, 2]).await;
    overlapping(30, 31, &[2, 4]).await;
    overlapping(i64::MIN, i64::MAX, &[1, 2, 3, 4]).await;
}

/// A block of partition `i`: mostly an instant or a few, now and then far longer.
fn short_or_long(p: &Partition, i: i64, at: i64) -> EncodedBlock {
    let lasts = if (i + at) % 17 == 0 { 1 << ((i + at) % 12) } else { at % 3 };
    block(p, 10 * at, 10 * at + lasts, at as u64, "x")
}

pub(super) async fn a_block_that_reaches_into_a_range_is_found_however_long_ago_it_began(on: Fixture) {
    // More partitions than a store may care to look at one by one.
    let partitions: Vec<_> = (0..70).map(|suffix| on.partition("k", 0, suffix)).collect();
    let of = |times: std::ops::Range<i64>| {
        let partitions = (0..).zip(&partitions);
        partitions.flat_map(move |(i, p)| times.clone().map(move |at| short_or_long(p, i, at))).collect::<Vec<_>>()
    };
    let mut stored = of(0..40);
    on.append(stored.clone()).await;
    finds_all_that_overlap(&on, &partitions, &stored).await;
    // Later blocks, some of them longer than all before.
    stored.extend(of(40..60));
    let long = (0..).zip(&partitions).filter(|(i, _)| i % 9 == 4).map(|(i, p)| block(p, 11 * i, 11 * i + 300 * i, 1_000, "long"));
    stored.extend(long);
    on.append(stored.clone()).await;
    finds_all_that_overlap(&on, &partitions, &stored).await;
    // Blocks that were rewritten as one that lasts as long as all of them.
    if on.store.replaces_atomically() {
        for p in &partitions[..5] {
            let old: Vec<_> = stored.iter().filter(|block| *block.partition == *p).map(|block| block.address).collect();
            let new = block(p, 0, old.iter().map(|address| address.max_ts.nanos()).max().unwrap_or(0), 2_000, "all");
            on.store.replace(p, &old, vec![new.clone()]).await.expect("the replacement succeeds");
            stored.retain(|block| *block.partition != *p);
            stored.push(new);
        }
        finds_all_that_overlap(&on, &partitions, &stored).await;
    }
}

async fn finds_all_that_overlap(on: &Fixture, partitions: &[Partition], stored: &[EncodedBlock]) {
    let ranges = [(0, 1), (5, 6), (123, 124), (299, 305), (305, 2_000), (599, 600), (640, 641), (5_000, 20_000), (i64::MAX - 1, i64::MAX)];
    for (from, to) in ranges {
        for some in [partitions, &partitions[..3], &partitions[4..5], &partitions[66..]] {
            let scan = scan_of(some.to_vec(), range(from, to));
            let found = read_all(&*on.store, &scan).await.expect("the scan succeeds");
            for (p, found) in scan.partitions.iter().zip(found) {
                let found: Vec<_> = found.iter().map(|block| block.address).collect();
                assert!(found.is_sorted(), "[{from}, {to}) of {p:?}: {found:?}");
                let of_p = stored.iter().filter(|block| *block.partition == *p).map(|block| block.address);
                for address in of_p.filter(|address| overlaps(address, scan.range)) {
                    assert!(found.contains(&address), "[{from}, {to}) of {p:?} lacks {address:?}");
                }
            }
        }
    }
}

pub(super) async fn what_a_store_narrows_a_range_to_holds_enough(on: Fixture) {
    let partitions: Vec<_> = (0..3).map(|suffix| on.partition("k", 0, suffix)).collect();
    for (i, p) in (0..).zip(&partitions) {
        let blocks = (0..20).map(|at| EncodedBlock { events: 3, ..block(p, 10 * at + i, 10 * at + i + 12, at as u64, "x") });
        on.append(blocks.chain([block(p, i, 500, 99, "wide")]).collect()).await;
    }
    let scan = scan_of(partitions, range(-1_000, 1_000));
    for (end, rows) in [End::First, End::Last].into_iter().flat_map(|end| [1, 7, 100, 10_000].map(|rows| (end, rows))) {
        let Some(part) = on.store.narrow(&scan, Enough { end, rows }).await.expect("the narrowing succeeds") else { return };
        let at_its_end = match end {
            End::First => part.from == scan.range.from && part.to <= scan.range.to,
            End::Last => part.to == scan.range.to && part.from >= scan.range.from,
        };
        assert!(at_its_end && !part.is_empty(), "{end:?} {rows}: {part:?}");
        let found = read_all(&*on.store, &Scan { range: part, ..scan.clone() }).await.expect("the scan succeeds").concat();
        let inside = found.iter().filter(|block| part.from <= block.address.min_ts && block.address.max_ts < part.to);
        let held: usize = inside.map(|block| if block.address.id.time == 99 { 1 } else { 3 }).sum();
        assert!(held >= rows || part == scan.range, "{end:?} {rows}: {held} in {part:?}");
    }
}

pub(super) async fn an_empty_range_still_answers_every_partition(on: Fixture) {
    let p = on.partition("k", 0, 0);
    on.append(vec![block(&p, 0, 9, 1, "x")]).await;
    let scan = scan_of(vec![p, on.partition("k", 0, 1)], range(5, 5));
    assert_eq!(read_all(&*on.store, &scan).await.expect("the scan succeeds").len(), 2);
}

pub(super) async fn every_partition_is_answered_once_also_one_without_blocks(on: Fixture) {
    let partitions: Vec<_> = (0..30).flat_map(|bucket| (0..10).map(move |suffix| (bucket, suffix))).collect();
    let partitions: Vec<_> = partitions.iter().map(|(bucket, suffix)| on.partition("k", *bucket, *suffix)).collect();
    let full = |p: &Partition| p.bucket.nanos() % 7 == 3 && p.suffix % 4 == 1;
    on.append(partitions.iter().filter(|p| full(p)).map(|p| block(p, 0, 9, 1, "x")).collect()).await;
    let scan = scan_of(partitions, range(0, 100));
    let found = read_all(&*on.store, &scan).await.expect("the scan succeeds");
    for (p, blocks) in scan.partitions.iter().zip(found) {
        assert_eq!(blocks.len(), usize::from(full(p)), "{p:?}");
    }
    let none = scan_of(Vec::new(), range(0, 100));
    assert!(read_all(&*on.store, &none).await.expect("the scan succeeds").is_empty());
}

/// Keys that begin, contain or continue one another, or hold what a careless codec would use to separate.
const AWKWARD: [&str; 12] = ["a", "aa", "ab", "a\0", "a\0\0", "a/b", "a|b", "a#1", "\0", "\u{10FFFF}", "ä", "a\u{1}"];

pub(super) async fn neighbours_in_the_key_space_do_not_see_each_other(on: Fixture) {
    let mut partitions = Vec::new();
    for key in AWKWARD {
        for (bucket, revision, nonce, suffix) in
            [(-1, 0, 0, 0), (0, 0, 0, 0), (0, 0, 1, 0), (0, 1, 0, 0), (0, 0, 0, 1), (1, 0, 0, u32::MAX)]
        {
            let version = LayoutVersion { revision, nonce };
            partitions.push(Partition { version, ..on.partition(key, bucket, suffix) });
        }
    }
    let name = |p: &Partition| format!("{p:?}");
    for p in &partitions {
        on.append(vec![block(p, 0, 9, 1, name(p)), block(p, i64::MAX - 1, i64::MAX, u64::MAX, name(p))]).await;
    }
    for p in &partitions {
        let found = on.blocks(p).await;
        assert!(!found.is_empty() && found.iter().all(|block| block.bytes == name(p)), "{p:?}");
    }
}

pub(super) async fn a_scan_pages_to_its_end(on: Fixture) {
    let partitions: Vec<_> = (0..4).map(|suffix| on.partition("k", 0, suffix)).collect();
    for p in &partitions {
        on.append((0..100).map(|id| block(p, id as i64, id as i64 + 1, id, vec![p.suffix as u8; 4_000 + id as usize])).collect()).await;
    }
    let scan = scan_of(partitions, range(0, 1_000));
    let found = read_all(&*on.store, &scan).await.expect("the scan succeeds");
    for (suffix, blocks) in found.iter().enumerate() {
        let ids: Vec<_> = blocks.iter().map(|block| block.address.id.time).collect();
        assert_eq!(ids, (0..100).collect::<Vec<_>>());
        assert!(blocks.iter().all(|block| block.bytes.iter().all(|byte| usize::from(*byte) == suffix)));
    }
}

pub(super) async fn sparse_partitions_are_found_among_many_others(on: Fixture) {
    let bucket = |bucket: i64| (0..64).map(move |suffix| (bucket, suffix));
    let all: Vec<_> = (0..20).flat_map(bucket).map(|(bucket, suffix)| on.partition("k", bucket, suffix)).collect();
    on.append(all.iter().flat_map(|p| [block(p, 0, 1, 1, "x"), block(p, 90, 91, 2, "y")]).collect()).await;
    let sparse: Vec<_> = all.iter().filter(|p| p.suffix == 17).cloned().collect();
    let found = read_all(&*on.store, &scan_of(sparse, range(0, 50))).await.expect("the scan succeeds");
    assert!(found.iter().all(|blocks| blocks.iter().any(|block| block.address.id.time == 1)));
}

pub(super) async fn partitions_of_different_keys_are_scanned_together(on: Fixture) {
    // As text "b" is behind "aa"; by its length it stands before it. Both orders must work.
    let partitions: Arc<[Partition]> = {
        let mut partitions = ["aa", "b", "ccc", "c"].map(|key| on.partition(key, 0, 0)).to_vec();
        partitions.sort();
        partitions.into()
    };
    on.append(partitions.iter().map(|p| block(p, 0, 1, 1, p.key.to_string())).collect()).await;
    let found = read_all(&*on.store, &scan_of(partitions.to_vec(), range(0, 9))).await.expect("the scan succeeds");
    for (p, blocks) in partitions.iter().zip(found) {
        assert_eq!(blocks[0].bytes, p.key.to_string());
    }
}
