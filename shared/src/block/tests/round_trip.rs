//! What goes in comes out: by buffer, by projection, by range, with its statistics.

use proptest::prelude::*;
use xsum::{Xsum, XsumSmall};

use super::super::{Block, ColumnStats, NumberStats, Presence, Projection, Values, merge};
use super::model::{expected, shard_by, writes};
use super::{KEY, blocks_of, event, layout, merged, open, partition, write};
use crate::limits::BLOCK_BYTES_MAX;
use crate::model::{Event, FieldValue, TimeRange, Timestamp};

fn range(from: i64, to: i64) -> TimeRange {
    TimeRange { from: Timestamp::from_nanos(from), to: Timestamp::from_nanos(to) }
}

proptest! {
    #[test]
    fn a_buffer_comes_back_as_its_merged_events(events in writes(200), by in shard_by(), bytes_max in 200usize..4_000) {
        let layout = layout(by);
        let blocks = open(write(&layout, &events, 1, bytes_max));
        prop_assert!(blocks.iter().all(|block| block.header().distinct));
        prop_assert_eq!(merged(&layout, &blocks).events(KEY), expected(&layout, &events));
    }

    #[test]
    fn a_range_gives_exactly_the_events_inside(batches in prop::collection::vec(writes(20), 1..4), from in 0i64..7, to in 0i64..7) {
        let layout = layout("id");
        let blocks: Vec<Block> = batches.iter().zip(1..).flat_map(|(events, time)| blocks_of(&layout, events, time)).collect();
        let mut inside = expected(&layout, &batches.concat());
        inside.retain(|event| range(from, to).contains(event.ts));
        let table = merge(&layout, &blocks, range(from, to), &Projection::All).unwrap();
        prop_assert_eq!(table.events(KEY), inside);
    }

    #[test]
    fn of_a_long_block_any_rows_and_any_id_are_found(
        steps in prop::collection::vec(0i64..3, 2..1_500),
        from in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
        hex in any::<bool>(),
    ) {
        let layout = layout("id");
        let name = |n: usize| if hex { format!("{:08x}", (n as u32).wrapping_mul(0x9e37_79b1)) } else { format!("e-{}", n * 7) };
        let mut ts = 0;
        let events: Vec<Event> = steps.iter().enumerate().map(|(n, step)| { ts += step; event(ts, &name(n)) }).collect();
        let block = &blocks_of(&layout, &events, 1)[0];
        let times: Vec<i64> = events.iter().map(|event| event.ts.nanos()).collect();
        let (from, to) = (from.index(times.len()), to.index(times.len()));
        let part = from.min(to)..from.max(to);
        prop_assert_eq!(block.ts_of(part.clone()), Ok(times[part].to_vec()));
        for range in [range(times[from], i64::MAX), range(i64::MIN, times[to]), range(times[from], times[to])] {
            let inside = |ts: &&i64| range.contains(Timestamp::from_nanos(**ts));
            let table = merge(&layout, std::slice::from_ref(block), range, &Projection::All).unwrap();
            prop_assert_eq!(table.ts, times.iter().filter(inside).copied().collect::<Vec<_>>());
            let with_id: Vec<i64> = times[from..from + 1].iter().filter(inside).copied().collect();
            prop_assert_eq!(block.times_of_id(&name(from), range), Ok(with_id));
        }
        prop_assert_eq!(block.times_of_id("00000000x", TimeRange::ALL), Ok(vec![]));
    }

    #[test]
    fn a_projection_gives_the_columns_that_all_would_give(batches in prop::collection::vec(writes(30), 1..4), by in shard_by()) {
        let layout = layout(by);
        let blocks: Vec<Block> = batches.iter().zip(1..).flat_map(|(events, time)| blocks_of(&layout, events, time)).collect();
        let only = Projection::Only { fields: vec!["z".into(), "x".into()], tags: vec!["region".into(), "none".into()] };
        let some = merge(&layout, &blocks, TimeRange::ALL, &only).unwrap();
        let mut all = merged(&layout, &blocks);
        all.columns.retain(|column| if column.tag { column.name == "region" } else { ["x", "z"].contains(&column.name.as_str()) });
        prop_assert_eq!(&some.ts, &all.ts);
        prop_assert!(some.ids.is_empty());
        prop_assert_eq!(some.columns, all.columns);
    }

    #[test]
    fn statistics_are_those_of_the_values(events in writes(60)) {
        let layout = layout("id");
        let blocks = blocks_of(&layout, &events, 1);
        let values: Vec<FieldValue> = expected(&layout, &events).iter().filter_map(|event| event.fields.get("x").cloned()).collect();
        let Some(stats) = blocks[0].field_stats("x") else { return Ok(()) };
        prop_assert_eq!(stats.iter().map(|stats| stats.count as usize).sum::<usize>(), values.len());
        for ColumnStats { numbers, .. } in stats {
            match numbers {
                Some(NumberStats::I64 { min, max, sum }) => {
                    let of_type: Vec<i64> = values.iter().filter_map(|v| if let FieldValue::I64(v) = v { Some(*v) } else { None }).collect();
                    prop_assert_eq!((Some(&min), Some(&max)), (of_type.iter().min(), of_type.iter().max()));
                    prop_assert_eq!(sum, of_type.iter().map(|v| i128::from(*v)).sum::<i128>());
                }
                Some(NumberStats::F64 { min, max, sum }) => {
                    let of_type: Vec<f64> = values.iter().filter_map(|v| if let FieldValue::F64(v) = v { Some(*v) } else { None }).collect();
                    prop_assert_eq!(min, of_type.iter().copied().fold(f64::INFINITY, f64::min));
                    prop_assert_eq!(max, of_type.iter().copied().fold(f64::NEG_INFINITY, f64::max));
                    let exact = |values: &[f64]| {
                        let mut acc = XsumSmall::new();
                        acc.add_list(values);
                        acc.sum().to_bits()
                    };
                    prop_assert_eq!(exact(&sum), exact(&of_type));
                }
                Some(NumberStats::U64 { .. }) | None => {}
            }
        }
    }
}

fn with_field(ts: i64, id: &str, name: &str, value: FieldValue) -> Event {
    let mut event = event(ts, id);
    event.fields.insert(name.into(), value);
    event
}

#[test]
fn a_field_of_two_types_has_a_column_of_each_in_order_of_type() {
    let layout = layout("id");
    let events = [with_field(1, "a", "x", FieldValue::Str("s".into())), with_field(2, "b", "x", FieldValue::I64(5))];
    let table = merged(&layout, &blocks_of(&layout, &events, 1));
    assert_eq!(table.columns[0].values, Values::I64(vec![5]));
    assert_eq!(table.columns[0].presence, Presence::Rows(vec![1]));
    assert_eq!(table.columns.len(), 2);
}

#[test]
fn a_later_value_of_another_type_replaces_the_earlier_one() {
    let layout = layout("id");
    let mut blocks = blocks_of(&layout, &[with_field(1, "a", "x", FieldValue::I64(5))], 1);
    blocks.extend(blocks_of(&layout, &[with_field(1, "a", "x", FieldValue::Bool(true))], 2));
    let table = merged(&layout, &blocks);
    assert_eq!(table.events(KEY), [with_field(1, "a", "x", FieldValue::Bool(true))]);
    assert_eq!(table.columns.len(), 1);
}

#[test]
fn the_same_block_twice_is_each_event_once() {
    let layout = layout("id");
    let events = [with_field(1, "a", "x", FieldValue::I64(5)), event(1, "b")];
    let blocks = blocks_of(&layout, &events, 1);
    assert_eq!(merged(&layout, &[blocks[0].clone(), blocks[0].clone()]).events(KEY), events);
}

#[test]
fn the_shard_tag_or_its_absence_tells_events_apart() {
    let layout = layout("region");
    let tagged = |region: Option<&str>, value| {
        let mut event = with_field(1, "a", "x", FieldValue::I64(value));
        event.tags.extend(region.map(|region| ("region".to_owned(), region.to_owned())));
        event
    };
    let events = [tagged(None, 1), tagged(Some(""), 2), tagged(Some("eu"), 3)];
    let mut blocks = blocks_of(&layout, &events[1..], 1);
    blocks.extend(blocks_of(&layout, &events[..1], 2));
    assert_eq!(merged(&layout, &blocks).events(KEY), events);
}

#[test]
fn a_block_is_verified_against_what_was_planned() {
    let layout = layout("id");
    let blocks = blocks_of(&layout, &[event(5, "a")], 1);
    let (partition, address) = (partition(), blocks[0].header().address);
    let verify = |partition: &crate::partition::Partition, layout: &crate::layout::Layout, epoch, address| {
        blocks[0].verify(partition, layout, epoch, address).map_err(|error| error.to_string())
    };
    assert_eq!(verify(&partition, &layout, TimeRange::ALL, &address), Ok(()));
    let refused = |what: &str| Err(format!("block of another place: {what}"));
    let mut other = (*partition).clone();
    other.key = "order".into();
    assert_eq!(verify(&other, &layout, TimeRange::ALL, &address), refused("another namespace or key"));
    let mut other = (*partition).clone();
    other.suffix = 3;
    assert_eq!(verify(&other, &layout, TimeRange::ALL, &address), refused("another suffix"));
    let mut other = layout.clone();
    other.shards = 5;
    assert_eq!(verify(&partition, &other, TimeRange::ALL, &address), refused("another number of shards"));
    assert_eq!(verify(&partition, &layout, range(6, 9), &address), refused("events before its bucket or epoch"));
    assert_eq!(verify(&partition, &layout, range(0, 5), &address), refused("events behind its bucket or epoch"));
    let mut other = address;
    other.id.node += 1;
    assert_eq!(verify(&partition, &layout, TimeRange::ALL, &other), refused("another address"));
}

#[test]
fn a_small_block_costs_little_beside_its_event() {
    let layout = layout("id");
    let mut one = with_field(1_000_000, "4fb1c09e77a2", "price", FieldValue::F64(12.34));
    one.fields.insert("qty".into(), FieldValue::I64(3));
    one.tags.insert("region".into(), "eu".into());
    let size = write(&layout, &[one], 1, BLOCK_BYTES_MAX)[0].bytes.len();
    // Names and values are 48 of these.
    assert!(size <= 200, "{size}");
}
