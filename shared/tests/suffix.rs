//! The suffix function against known answers that another implementation of XXH3 made.

use std::collections::BTreeMap;

use braid_shared::layout::suffix;
use xxhash_rust::xxh3::xxh3_64;

#[derive(serde::Deserialize)]
struct File {
    vectors: Vec<Vector>,
}

#[derive(serde::Deserialize)]
struct Vector {
    name: String,
    xxh3_64: String,
    suffixes: BTreeMap<u32, u32>,
}

#[test]
fn suffixes_are_those_of_the_reference_implementation() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/suffix.json");
    let file: File = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(file.vectors.len() >= 10);
    for Vector { name, xxh3_64: hash, suffixes } in file.vectors {
        assert_eq!(format!("{:016x}", xxh3_64(name.as_bytes())), hash, "{name:?}");
        for (shards, expected) in suffixes {
            assert_eq!(suffix(name.as_bytes(), shards), expected, "{name:?} mod {shards}");
        }
    }
}

#[test]
fn a_million_ids_spread_over_200_suffixes_within_a_tenth_of_even() {
    const SHARDS: u32 = 200;
    const IDS: u32 = 1_000_000;
    let of_kind: [fn(u32) -> String; 4] = [
        |i| i.to_string(),
        |i| format!("{:016x}", (u64::from(i) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        |i| format!("0192f5e0-{:04x}-7abc-8def-{:012x}", i >> 8, u64::from(i) * 104_729),
        |i| format!("host=web-{:05},region=eu-{}", i, i % 7),
    ];
    for id in of_kind {
        let mut counts = vec![0u32; SHARDS as usize];
        (0..IDS).for_each(|i| counts[suffix(id(i).as_bytes(), SHARDS) as usize] += 1);
        counts.sort_unstable();
        let even = f64::from(IDS / SHARDS);
        let [least, most] = [counts[0], counts[SHARDS as usize - 1]].map(|count| (f64::from(count) / even - 1.0) * 100.0);
        println!("the fullest suffix {most:+.1} % of even, the emptiest {least:+.1} %, for ids such as {}", id(1));
        assert!(most - least < 10.0, "from {least} % to {most} % for ids such as {}", id(1));
    }
}
