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
