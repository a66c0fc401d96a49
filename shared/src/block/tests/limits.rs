//! Blocks keep their limits: events, encoded bytes, memory.

use super::super::{Block, Presence, compact};
use super::model::expected;
use super::{KEY, blocks_of, event, layout, merged, open, partition, write};
use crate::limits::{BLOCK_BYTES_MAX, BLOCK_EVENTS_MAX, STRING_BYTES_MAX};
use crate::model::{Event, FieldValue};

/// Text that does not compress.
fn noise(seed: u64, len: usize) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'!' + (state >> 33) as u8 % 90)
    };
    (0..len).map(|_| next()).collect()
}

fn large(ts: i64, name: &str) -> Event {
    let mut event = event(ts, "one");
    event.fields.insert(name.into(), FieldValue::Str(noise(ts as u64 * 31 + name.len() as u64, STRING_BYTES_MAX)));
    event
}

#[test]
fn more_events_than_a_block_may_hold_become_several() {
    let layout = layout("id");
    let events: Vec<Event> = (0..10_000).map(|i| event(i, &format!("{i}"))).collect();
    let blocks = write(&layout, &events, 1, BLOCK_BYTES_MAX);
    assert_eq!(blocks.len(), 3);
    assert!(blocks.iter().all(|block| block.events as usize <= BLOCK_EVENTS_MAX));
    assert_eq!(merged(&layout, &open(blocks)).events(KEY), events);
}

#[test]
fn large_events_are_cut_by_encoded_size() {
    let layout = layout("id");
    let events: Vec<Event> = (0..100).map(|i| large(i, "text")).collect();
    let blocks = write(&layout, &events, 1, BLOCK_BYTES_MAX);
    assert!(blocks.iter().all(|block| block.bytes.len() <= BLOCK_BYTES_MAX));
    // 13 KiB each once squeezed.
    assert!(blocks.len() <= 9, "{}", blocks.len());
    assert_eq!(merged(&layout, &open(blocks)).events(KEY), events);
}

#[test]
fn a_buffer_of_many_megabytes_is_cut_before_it_is_encoded() {
    let layout = layout("id");
    let events: Vec<Event> = (0..400)
        .map(|i| {
            let mut event = event(i, "");
            event.fields.insert("text".into(), FieldValue::Str("x".repeat(STRING_BYTES_MAX - i as usize % 3)));
            event
        })
        .collect();
    let blocks = write(&layout, &events, 1, BLOCK_BYTES_MAX);
    assert!(blocks.len() >= 2);
    assert_eq!(merged(&layout, &open(blocks)).events(KEY), events);
}

#[test]
fn writes_that_merge_to_more_than_a_block_are_dealt_by_column_and_come_back_as_one() {
    for by in ["id", "region"] {
        let layout = layout(by);
        let writes: Vec<Event> = (0..60)
            .map(|i| {
                let mut write = large(0, &format!("field{i}"));
                // On either side of the shard tag, as columns have an order to keep.
                write.tags.extend(["a", "region", "zone"].map(|name| (name.to_owned(), "eu".to_owned())));
                write
            })
            .collect();
        let encoded = write(&layout, &writes, 1, BLOCK_BYTES_MAX);
        assert!(encoded.len() > 1 && encoded.iter().all(|block| block.bytes.len() <= BLOCK_BYTES_MAX));
        let blocks = open(encoded);
        assert_eq!(merged(&layout, &blocks).events(KEY), expected(&layout, &writes));
        let compacted = open(compact(&partition(), &layout, &blocks, BLOCK_BYTES_MAX, || 5).unwrap());
        assert_eq!(merged(&layout, &compacted).events(KEY), expected(&layout, &writes));
    }
}

#[test]
fn thousands_of_distinct_field_names_stay_sparse_in_memory() {
    let layout = layout("id");
    let events: Vec<Event> = (0..4_096)
        .map(|i| {
            let mut event = event(i, "");
            event.fields.insert(format!("name{i}"), FieldValue::I64(i));
            event
        })
        .collect();
    let blocks = blocks_of(&layout, &events, 1);
    let late = blocks_of(&layout, &[event(17, "late")], 2);
    for blocks in [blocks.clone(), [blocks, late].concat()] {
        let table = merged(&layout, &blocks);
        assert_eq!(table.columns.len(), 4_096);
        assert!(table.columns.iter().all(|column| matches!(&column.presence, Presence::Rows(rows) if rows.len() == 1)));
        assert!(table.columns.iter().all(|column| column.values.len() == 1));
    }
}

#[test]
fn an_event_without_fields_and_tags_is_kept() {
    let layout = layout("id");
    let blocks: Vec<Block> = [1, 2].into_iter().flat_map(|time| blocks_of(&layout, &[event(1, "bare")], time)).collect();
    let compacted = open(compact(&partition(), &layout, &blocks, BLOCK_BYTES_MAX, || 5).unwrap());
    assert_eq!(compacted[0].header().count, 1);
    assert_eq!(merged(&layout, &compacted).events(KEY), [event(1, "bare")]);
}

/// Ids of 12 to 16 random hex digits, a price in cents, a small count, one of four regions.
fn typical(i: u64) -> Event {
    let random = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (i + 7).wrapping_mul(0xc2b2_ae3d_27d4_eb4f).rotate_left(31);
    let id = &format!("{random:016x}")[random as usize % 5..];
    let mut event = event((i * 40_000_000 + random % 20 * 1_000_000) as i64, id);
    event.fields.insert("price".into(), FieldValue::F64((random % 20_000) as f64 / 100.0));
    event.fields.insert("qty".into(), FieldValue::I64((random >> 7) as i64 & 7));
    event.tags.insert("region".into(), ["eu", "us", "asia", "africa"][(random >> 20) as usize % 4].into());
    event
}

#[test]
fn typical_events_take_at_most_twelve_bytes_each() {
    for count in [500, 4_000] {
        let events: Vec<Event> = (0..count).map(typical).collect();
        let blocks = write(&layout("id"), &events, 1, BLOCK_BYTES_MAX);
        let size = blocks[0].bytes.len();
        assert_eq!(blocks.len(), 1);
        assert!(size as u64 <= 12 * count, "{size} bytes for {count}");
    }
}

#[test]
fn nothing_makes_no_block() {
    assert!(write(&layout("id"), &[], 1, BLOCK_BYTES_MAX).is_empty());
    assert!(compact(&partition(), &layout("id"), &[], BLOCK_BYTES_MAX, || 5).unwrap().is_empty());
    assert_eq!(merged(&layout("id"), &[]).ts.len(), 0);
}
