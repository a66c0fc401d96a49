//! Hostile bytes: an error or a sound table, never a panic, never memory without bound.

use bytes::Bytes;
use proptest::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use super::super::{Block, BlockError, Projection, compact, merge};
use super::model::writes;
use super::{event, layout, partition, write};
use crate::limits::BLOCK_BYTES_MAX;
use crate::model::TimeRange;

/// Everything that can be done with bytes from a store.
fn use_it(bytes: Vec<u8>) -> Result<usize, BlockError> {
    let block = Block::open(Bytes::from(bytes))?;
    block.field_stats("x");
    let layout = layout("region");
    let only = Projection::Only { fields: vec!["x".into()], tags: vec!["t".into()] };
    merge(&layout, std::slice::from_ref(&block), TimeRange::ALL, &only)?;
    let (rows, last) = (block.header().count as usize, block.header().address.max_ts);
    block.ts_of(rows / 2..rows)?;
    block.times_of_id("a", TimeRange { from: last, to: TimeRange::ALL.to })?;
    merge(&layout, std::slice::from_ref(&block), TimeRange { from: last, to: TimeRange::ALL.to }, &Projection::All)?;
    let twice = [block.clone(), block.clone()];
    // Whatever could be compacted is a sound block.
    for block in compact(&partition(), &layout, &twice, BLOCK_BYTES_MAX, || 1)? {
        Block::open(block.bytes).expect("what was just written");
    }
    Ok(merge(&layout, &twice, TimeRange::ALL, &Projection::All)?.events("k").len())
}

fn fix_checksum(bytes: &mut [u8]) {
    if let Some((content, checksum)) = bytes.split_last_chunk_mut::<8>() {
        *checksum = xxh3_64(content).to_le_bytes();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn altered_bytes_with_a_sound_checksum_never_panic(
        events in writes(60),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = write(&layout("region"), &events, 1, BLOCK_BYTES_MAX)[0].bytes.to_vec();
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()) + 1);
        }
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        fix_checksum(&mut bytes);
        let _ = use_it(bytes);
    }

    #[test]
    fn random_bytes_behind_a_sound_start_never_panic(tail in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut bytes = b"BRDB\x01\x00\x01".to_vec();
        bytes.extend(tail);
        bytes.extend([0; 8]);
        fix_checksum(&mut bytes);
        let _ = use_it(bytes);
        let _ = use_it(b"BRDB".to_vec());
    }
}

#[test]
fn every_flipped_bit_and_every_cut_is_an_error() {
    let events: Vec<_> = (0..40).map(|i| event(i * 1_000, &format!("id-{i}"))).collect();
    let bytes = write(&layout("id"), &events, 1, BLOCK_BYTES_MAX)[0].bytes.to_vec();
    assert!(use_it(bytes.clone()).is_ok());
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut altered = bytes.clone();
            altered[at] ^= 1 << bit;
            assert!(Block::open(Bytes::from(altered)).is_err(), "byte {at}, bit {bit}");
        }
        assert!(Block::open(Bytes::copy_from_slice(&bytes[..at])).is_err(), "cut at {at}");
    }
}

#[test]
fn another_format_is_named() {
    let mut bytes = write(&layout("id"), &[event(1, "a")], 1, BLOCK_BYTES_MAX)[0].bytes.to_vec();
    bytes[4] = 2;
    assert_eq!(Block::open(Bytes::from(bytes)).unwrap_err(), BlockError::Format(2));
    assert_eq!(Block::open(Bytes::from_static(b"")).unwrap_err(), BlockError::Damaged("cut short"));
    assert_eq!(Block::open(Bytes::from_static(b"PAR1 and more bytes")).unwrap_err(), BlockError::Damaged("not a block"));
}
