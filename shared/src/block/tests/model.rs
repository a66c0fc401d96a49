//! The reference: what a list of writes means, in a few lines; and strategies that make writes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::KEY;
use crate::layout::Layout;
use crate::model::{Event, FieldValue, Timestamp};

/// What writes, in the order of their stamps, amount to.
pub(super) fn expected(layout: &Layout, writes: &[Event]) -> Vec<Event> {
    let mut events: BTreeMap<(Timestamp, String, Option<String>), Event> = BTreeMap::new();
    for write in writes {
        let tag = layout.shard_by.tag().and_then(|name| write.tags.get(name)).cloned();
        let event = events.entry((write.ts, write.id.clone(), tag)).or_insert_with(|| write.clone());
        event.fields.extend(write.fields.clone());
        event.tags.extend(write.tags.clone());
    }
    events.into_values().collect()
}

fn value() -> impl Strategy<Value = FieldValue> {
    prop_oneof![
        any::<f64>().prop_filter("finite", |v| v.is_finite()).prop_map(FieldValue::F64),
        (-10_000i32..10_000).prop_map(|cents| FieldValue::F64(f64::from(cents) / 100.0)),
        any::<i64>().prop_map(FieldValue::I64),
        (0i64..50).prop_map(FieldValue::I64),
        any::<u64>().prop_map(FieldValue::U64),
        any::<bool>().prop_map(FieldValue::Bool),
        "\\PC{0,12}".prop_map(FieldValue::Str),
    ]
}

/// Events that often are the same ones, with few and changing fields.
pub(super) fn write() -> impl Strategy<Value = Event> {
    let ts = prop_oneof![0i64..6, (0i64..3_600).prop_map(|s| s * 1_000_000_000)];
    let id = prop_oneof![Just(String::new()), "[ab]", "[0-9a-f]{12}", "e-[0-9]{4}"];
    let fields = prop::collection::btree_map("[xyz]", value(), 0..4);
    let tags = prop::collection::btree_map("region|t|id", "eu|us|[a-z]{0,3}", 0..3);
    (ts, id, fields, tags).prop_map(|(ts, id, fields, tags)| Event { key: KEY.into(), ts: Timestamp::from_nanos(ts), id, fields, tags })
}

pub(super) fn writes(most: usize) -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec(write(), 1..most)
}

pub(super) fn shard_by() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("id"), Just("region")]
}
