//! What goes to a table file and comes back changes no answer, whatever else is merged with it.

use proptest::prelude::*;

use super::super::{Block, Resettle, settle};
use super::model::{expected, shard_by, writes};
use super::{KEY, blocks_of, event, layout, merged, partition};
use crate::layout::Layout;
use crate::model::{Event, FieldValue, TimeRange, Timestamp};

/// Blocks as they come back from the files that they went to: one for each half of time.
fn there_and_back(layout: &Layout, blocks: &[Block], cut: i64, nonce: &mut u64) -> Vec<Block> {
    let cut = Timestamp::from_nanos(cut);
    let halves = [TimeRange { from: Timestamp::MIN, to: cut }, TimeRange { from: cut, to: Timestamp::MAX }];
    let half = |range| {
        let settled = settle(layout, blocks, range).unwrap();
        let mut back = Resettle::default();
        let mut cells = Vec::new();
        for row in 0..settled.len() {
            settled.cells(row, &mut cells);
            let (ts, id, _) = settled.place(row);
            back.push(layout, Timestamp::from_nanos(ts), id, &cells, settled.stamp(row));
        }
        let next = || {
            *nonce += 1;
            *nonce
        };
        back.blocks(&partition(), layout, next).unwrap()
    };
    halves.into_iter().flat_map(half).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_archiving_of_any_subsets_leaves_every_merge_as_it_was(
        batches in prop::collection::vec(writes(12), 1..8),
        by in shard_by(),
        rounds in prop::collection::vec((any::<u16>(), any::<bool>(), prop_oneof![0i64..6, Just(1_800_000_000_000)]), 1..5),
    ) {
        let layout = layout(by);
        let all = expected(&layout, &batches.concat());
        let mut blocks: Vec<Block> = batches.iter().zip(1..).flat_map(|(events, time)| blocks_of(&layout, events, time)).collect();
        let mut nonce = 0;
        for (chosen, leave_old, cut) in rounds {
            let (old, mut rest): (Vec<_>, Vec<_>) = blocks.into_iter().enumerate().partition(|(index, _)| chosen >> (index % 16) & 1 == 1);
            let old: Vec<Block> = old.into_iter().map(|(_, block)| block).collect();
            rest.extend(there_and_back(&layout, &old, cut, &mut nonce).into_iter().enumerate());
            if leave_old {
                rest.extend(old.into_iter().enumerate());
            }
            blocks = rest.into_iter().map(|(_, block)| block).collect();
            prop_assert_eq!(merged(&layout, &blocks).events(KEY), all.clone());
        }
        let settled = settle(&layout, &blocks, TimeRange::ALL).unwrap();
        prop_assert_eq!(settled.len(), all.len());
    }
}

fn x(name: &str, value: i64) -> Event {
    let mut event = event(0, "a");
    event.fields.insert(name.into(), FieldValue::I64(value));
    event
}

#[test]
fn a_write_between_those_that_were_archived_wins_over_the_older_part_only() {
    let layout = layout("id");
    let [one, two, three] = [(1, x("x", 1)), (2, x("x", 2)), (3, x("y", 3))].map(|(time, event)| blocks_of(&layout, &[event], time));
    let mut blocks = there_and_back(&layout, &[one, three].concat(), 0, &mut 0);
    let archived = settle(&layout, &blocks, TimeRange::ALL).unwrap();
    let mut cells = Vec::new();
    archived.cells(0, &mut cells);
    assert_eq!(cells.iter().map(|cell| (cell.name, cell.stamp.time)).collect::<Vec<_>>(), [("x", 1_001), ("y", 3_001)]);
    blocks.extend(two);
    let mut both = x("x", 2);
    both.fields.extend(x("y", 3).fields);
    assert_eq!(merged(&layout, &blocks).events(KEY), [both]);
}
