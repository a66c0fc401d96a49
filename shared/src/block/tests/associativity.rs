//! Compaction changes no answer: whatever is compacted, in whatever order and nesting.

use proptest::prelude::*;

use super::super::{Block, compact};
use super::model::{expected, shard_by, writes};
use super::{KEY, blocks_of, event, layout, merged, open, partition};
use crate::layout::Layout;
use crate::limits::BLOCK_BYTES_MAX;
use crate::model::{Event, FieldValue};

fn compacted(layout: &Layout, blocks: &[Block], bytes_max: usize, nonce: &mut u64) -> Vec<Block> {
    let encoded = compact(&partition(), layout, blocks, bytes_max, || {
        *nonce += 1;
        *nonce
    });
    open(encoded.unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_compactions_of_any_subsets_leave_every_merge_as_it_was(
        batches in prop::collection::vec(writes(12), 1..8),
        by in shard_by(),
        rounds in prop::collection::vec((any::<u16>(), any::<u16>(), 300usize..5_000, any::<bool>()), 0..6),
        rotation in any::<prop::sample::Index>(),
    ) {
        let layout = layout(by);
        let all = expected(&layout, &batches.concat());
        let mut blocks: Vec<Block> = batches.iter().zip(1..).flat_map(|(events, time)| blocks_of(&layout, events, time)).collect();
        let mut nonce = 0;
        for (chosen, again, bytes_max, leave_old) in rounds {
            let pick = |index: usize| (u32::from(chosen) | u32::from(again) << 16) >> (index % 32) & 1 == 1;
            let (old, mut rest): (Vec<_>, Vec<_>) = blocks.into_iter().enumerate().partition(|(index, _)| pick(*index));
            let old: Vec<Block> = old.into_iter().map(|(_, block)| block).collect();
            let new = compacted(&layout, &old, bytes_max, &mut nonce);
            // A crash before the old ones are deleted leaves both.
            let stays = old.len() * usize::from(leave_old);
            rest.extend(old.into_iter().take(stays).enumerate());
            rest.extend(new.into_iter().enumerate());
            blocks = rest.into_iter().map(|(_, block)| block).collect();
            let middle = rotation.index(blocks.len());
            blocks.rotate_left(middle);
            prop_assert_eq!(merged(&layout, &blocks).events(KEY), all.clone());
        }
        prop_assert_eq!(merged(&layout, &compacted(&layout, &blocks, BLOCK_BYTES_MAX, &mut nonce)).events(KEY), all);
    }
}

fn x(ts: i64, name: &str, value: i64) -> Event {
    let mut event = event(ts, "a");
    event.fields.insert(name.into(), FieldValue::I64(value));
    event
}

#[test]
fn an_older_write_that_comes_late_does_not_win_over_a_compacted_one() {
    let layout = layout("id");
    let [one, two, three] =
        [(1, x(0, "x", 1)), (2, x(0, "x", 2)), (3, x(0, "y", 3))].map(|(time, event)| blocks_of(&layout, &[event], time));
    let mut blocks = compacted(&layout, &[one, three].concat(), BLOCK_BYTES_MAX, &mut 0);
    assert!(!blocks[0].header().distinct);
    blocks.extend(two);
    let mut merged_event = x(0, "x", 2);
    merged_event.fields.extend(x(0, "y", 3).fields);
    assert_eq!(merged(&layout, &blocks).events(KEY), [merged_event]);
}

#[test]
fn a_row_that_later_ones_cover_is_dropped() {
    let layout = layout("id");
    let mut both = x(0, "x", 3);
    both.fields.extend(x(0, "y", 3).fields);
    let writes = [x(0, "x", 1), x(0, "y", 2), both.clone()];
    let blocks: Vec<Block> =
        writes.iter().zip(1..).flat_map(|(event, time)| blocks_of(&layout, std::slice::from_ref(event), time)).collect();
    let compacted = compacted(&layout, &blocks, BLOCK_BYTES_MAX, &mut 0);
    assert_eq!((compacted.len(), compacted[0].header().count, compacted[0].header().distinct), (1, 1, true));
    assert_eq!(merged(&layout, &compacted).events(KEY), [both]);
}

#[test]
fn thousands_of_single_events_become_few_full_blocks_that_do_not_touch() {
    let layout = layout("id");
    // Ten events at a time; the cuts must not fall among them.
    let events: Vec<Event> = (0..6_000).map(|i| event(i / 10, &format!("e{i}"))).collect();
    let blocks: Vec<Block> =
        events.iter().zip(1..).flat_map(|(event, time)| blocks_of(&layout, std::slice::from_ref(event), time)).collect();
    let compacted = compacted(&layout, &blocks, BLOCK_BYTES_MAX, &mut 0);
    assert_eq!(compacted.len(), 2);
    let [first, second] = [&compacted[0], &compacted[1]].map(|block| block.header().address);
    assert!(first.max_ts < second.min_ts);
    assert_eq!(merged(&layout, &compacted).events(KEY).len(), 6_000);
}
