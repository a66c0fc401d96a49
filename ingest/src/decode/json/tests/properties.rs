//! Properties: nothing panics, every event is counted once, what is sound comes back as it was sent.

use std::collections::BTreeSet;

use braid_shared::model::{Row, ValueRef};
use proptest::prelude::*;

use super::*;

fn any_json_string() -> impl Strategy<Value = String> {
    proptest::collection::vec(any::<char>(), 1..12).prop_map(String::from_iter)
}

fn any_value() -> impl Strategy<Value = serde_json::Value> {
    prop_oneof![
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        any::<f64>().prop_filter("finite", |float| float.is_finite()).prop_map(Into::into),
        any::<bool>().prop_map(Into::into),
        any_json_string().prop_map(Into::into),
    ]
}

fn any_event() -> impl Strategy<Value = serde_json::Value> {
    let fields = proptest::collection::hash_map(any_json_string(), any_value(), 0..24);
    let tags = proptest::collection::hash_map(any_json_string(), any_json_string(), 0..24);
    let event = (any_json_string(), any_json_string(), -9_000_000_000_000_i64..9_000_000_000_000, fields, tags);
    event.prop_map(|(key, id, ts, fields, tags)| serde_json::json!({"key": key, "id": id, "ts": ts, "fields": fields, "tags": tags}))
}

/// The row as the JSON it was made from.
fn to_json(batch: &Batch<'_>, row: &Row<'_>) -> serde_json::Value {
    let fields: serde_json::Map<_, _> =
        batch.fields_of(row).iter().map(|(name, value)| (name.to_string(), field_json(value.as_ref()))).collect();
    let tags: serde_json::Map<_, _> = batch.tags_of(row).iter().map(|(name, value)| (name.to_string(), (&**value).into())).collect();
    let ts = row.ts.map(|ts| ts.nanos() / 1_000_000);
    serde_json::json!({"key": row.key, "id": row.id, "ts": ts, "fields": fields, "tags": tags})
}

fn field_json(value: ValueRef<'_>) -> serde_json::Value {
    match value {
        ValueRef::F64(v) => v.into(),
        ValueRef::I64(v) => v.into(),
        ValueRef::U64(v) => v.into(),
        ValueRef::Bool(v) => v.into(),
        ValueRef::Str(v) => v.into(),
    }
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
        for format in [JsonFormat::Lines, JsonFormat::Sniff] {
            let _ = decode_json(&bytes, format, Precision::Seconds);
        }
    }

    #[test]
    fn anything_that_looks_like_json_is_decoded_or_refused(text in r#"([\[\]{},:"0-9e.\\ \n-]|"(key|id|ts|value|fields|tags)":|\\u[0-9d][0-9a-f]{3}|true|null){0,40}"#) {
        for format in [JsonFormat::Lines, JsonFormat::Sniff] {
            if let Ok(batch) = decode_json(text.as_bytes(), format, Precision::Nanos) {
                let indices: BTreeSet<u32> = batch.rows.iter().map(|row| row.index).chain(batch.faults.iter().map(|fault| fault.index)).collect();
                prop_assert_eq!(indices.len(), batch.rows.len() + batch.faults.len());
                prop_assert!(indices.iter().copied().eq(0..indices.len() as u32), "every event counted once");
            }
        }
    }

    #[test]
    fn events_come_back_as_they_were_made(events in proptest::collection::vec(any_event(), 1..5)) {
        let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
        let pretty: String = events.iter().map(|event| format!("{event:#}\n")).collect();
        let array = serde_json::Value::from(events.clone()).to_string();
        for (body, format) in [(&lines, JsonFormat::Lines), (&lines, JsonFormat::Sniff), (&pretty, JsonFormat::Sniff), (&array, JsonFormat::Sniff)] {
            let batch = decode(body.as_bytes(), format);
            prop_assert_eq!(&batch.faults, &[]);
            let back: Vec<_> = batch.rows.iter().map(|row| to_json(&batch, row)).collect();
            prop_assert_eq!(&back, &events);
        }
    }

    #[test]
    fn a_broken_line_never_costs_its_neighbours(event in any_event(), cut: proptest::sample::Index, flip: proptest::sample::Index, to in any::<u8>()) {
        let mut line = event.to_string().into_bytes();
        let at = flip.index(line.len());
        line[at] = if to == b'\n' { 0 } else { to };
        line.truncate(cut.index(line.len()) + 1);
        let body = [GOOD.as_bytes(), b"\n", &line, b"\n", GOOD.as_bytes(), b"\n", GOOD.as_bytes()].concat();
        for format in [JsonFormat::Lines, JsonFormat::Sniff] {
            let batch = decode(&body, format);
            let good: Vec<u32> = batch.rows.iter().filter(|row| row.key == "good").map(|row| row.line).collect();
            prop_assert_eq!(good, [1, 3, 4]);
        }
    }
}
