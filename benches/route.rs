//! Where a bucket's table lies, against what articles on consistent hashing compare: how evenly a
//! million buckets spread over ten databases, what a lookup takes, and what moves when an eleventh
//! joins. `cargo bench --bench route` prints the table.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use braid_shared::cold::{Database, Group, Groups};
use braid_shared::model::{Span, Timestamp};
use criterion::{Criterion, criterion_group, criterion_main};
use xxhash_rust::xxh3::xxh3_64;

const NODES: u32 = 10;
const KEYS: usize = 1_000;
const BUCKETS: usize = 1_000;

type Name = (String, Timestamp);

fn names() -> Vec<Name> {
    let bucket = |n: usize| Timestamp::from_nanos(n as i64 * Span::HOUR.nanos());
    (0..KEYS).flat_map(|key| (0..BUCKETS).map(move |n| (format!("device-{key}"), bucket(n)))).collect()
}

fn hash((key, bucket): &Name) -> u64 {
    xxh3_64(&[key.as_bytes(), &bucket.nanos().to_be_bytes()].concat())
}

/// A ring with so many points a node.
fn ring(nodes: u32, points: u32) -> BTreeMap<u64, u32> {
    (0..nodes).flat_map(|node| (0..points).map(move |point| (xxh3_64(format!("{node}#{point}").as_bytes()), node))).collect()
}

fn on_ring(ring: &BTreeMap<u64, u32>, name: &Name) -> u32 {
    let next = ring.range(hash(name)..).next().or_else(|| ring.first_key_value());
    next.map_or(0, |(_, node)| *node)
}

fn group(nodes: u32) -> Group {
    let database = |node: u32| Database { name: format!("{node}"), url: format!("file:///{node}"), tables: 1 };
    Group { tables: nodes, databases: (0..nodes).map(database).collect() }
}

/// Groups of ten databases, and of one more from an event time on, where there is one more.
fn groups(nodes: u32) -> Groups {
    let mut groups = Groups::default();
    groups.append(Timestamp::MIN, None, group(NODES)).expect("a first group");
    if nodes > NODES {
        // Nothing is archived beyond the last bucket, where the new group begins.
        let from = Timestamp::from_nanos(BUCKETS as i64 * Span::HOUR.nanos());
        groups.append(from, Some(from), group(nodes)).expect("an append");
    }
    groups
}

fn of_groups(groups: &Groups, (key, bucket): &Name) -> u32 {
    groups.place(key, *bucket).map_or(0, |place| place.table)
}

/// Standard deviation of the nodes' shares in percent of the mean, nanoseconds a lookup, percent moved.
fn measured(names: &[Name], before: impl Fn(&Name) -> u32, after: impl Fn(&Name) -> u32) -> (f64, f64, f64) {
    let mut counts = [0_u32; NODES as usize];
    let began = Instant::now();
    names.iter().for_each(|name| counts[before(black_box(name)) as usize] += 1);
    let lookup = began.elapsed().as_nanos() as f64 / names.len() as f64;
    let mean = names.len() as f64 / f64::from(NODES);
    let variance = counts.iter().map(|count| (f64::from(*count) - mean).powi(2)).sum::<f64>() / f64::from(NODES);
    let moved = names.iter().filter(|name| before(name) != after(name)).count();
    (100.0 * variance.sqrt() / mean, lookup, 100.0 * moved as f64 / names.len() as f64)
}

fn table(criterion: &mut Criterion) {
    let names = names();
    let modulo = |nodes: u32| move |name: &Name| (hash(name) % u64::from(nodes)) as u32;
    let (one, one_more) = (ring(NODES, 1), ring(NODES + 1, 1));
    let (many, many_more) = (ring(NODES, 150), ring(NODES + 1, 150));
    let (line, longer) = (groups(NODES), groups(NODES + 1));
    println!("| placement | deviation | lookup | moved by an eleventh node |\n|---|---|---|---|");
    for (what, (deviation, lookup, moved)) in [
        ("modulo", measured(&names, modulo(NODES), modulo(NODES + 1))),
        ("ring, 1 point a node", measured(&names, |name| on_ring(&one, name), |name| on_ring(&one_more, name))),
        ("ring, 150 points a node", measured(&names, |name| on_ring(&many, name), |name| on_ring(&many_more, name))),
        ("timeline of groups", measured(&names, |name| of_groups(&line, name), |name| of_groups(&longer, name))),
    ] {
        println!("| {what} | {deviation:.2} % | {lookup:.0} ns | {moved:.1} % |");
    }
    let mut at = 0;
    criterion.bench_function("place a bucket", |bench| {
        bench.iter(|| {
            at = (at + 7_919) % names.len();
            of_groups(&longer, black_box(&names[at]))
        });
    });
}

criterion_group!(benches, table);
criterion_main!(benches);
