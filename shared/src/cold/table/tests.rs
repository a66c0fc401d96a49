//! What goes into a table file comes out, to the last bit; and what was altered is found out.

use std::collections::BTreeMap;
use std::sync::Arc;

use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::{ReadOptionsBuilder, SerializedFileReader};
use proptest::prelude::*;

use super::encoding::PAGE_ROWS;
use super::schema::{ROW_GROUP_ROWS, leaf};
use super::{About, Digest, TableError, TableReader, TableWriter, Written};
use crate::block::{Cell, Projection};
use crate::layout::LayoutVersion;
use crate::model::{Event, FieldValue, TimeRange, Timestamp};
use crate::stamp::Stamp;

/// An event as a test keeps it.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    ts: i64,
    id: String,
    cells: Vec<(bool, String, FieldValue, Stamp)>,
    stamp: Stamp,
}

fn about() -> About {
    About::new("shop".parse().unwrap(), "orders", Timestamp::from_nanos(0), LayoutVersion { revision: 3, nonce: 7 })
}

fn write(rows: &[Row]) -> Written {
    let mut writer = TableWriter::new(&about()).unwrap();
    for row in rows {
        let cells: Vec<Cell<'_>> =
            row.cells.iter().map(|(tag, name, value, stamp)| Cell { tag: *tag, name, value: value.as_ref(), stamp: *stamp }).collect();
        writer.push(row.ts, &row.id, &cells, row.stamp).unwrap();
    }
    writer.finish().unwrap().expect("there are rows")
}

fn read(written: &Written, range: TimeRange) -> Result<Vec<Row>, TableError> {
    let mut rows = Vec::new();
    TableReader::open(written.bytes.clone(), written.checksum, &about())?.each(range, |ts, id, cells, stamp| {
        let mut cells: Vec<_> = cells.iter().map(|cell| (cell.tag, cell.name.to_owned(), cell.value.to_owned(), cell.stamp)).collect();
        cells.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        rows.push(Row { ts, id: id.to_owned(), cells, stamp });
        Ok::<(), TableError>(())
    })?;
    Ok(rows)
}

/// Events of a range by runs, with those of their fields and tags that are asked for.
fn by_runs(written: &Written, range: TimeRange, projection: &Projection) -> Vec<Event> {
    let reader = Arc::new(TableReader::open(written.bytes.clone(), written.checksum, &about()).unwrap());
    let tables = reader.runs(range).into_iter().map(|run| (run.ts(range).unwrap(), run.table(range, projection).unwrap()));
    tables.flat_map(|(ts, table)| (ts == table.ts).then(|| table.events("orders")).expect("the times of the rows")).collect()
}

fn event(row: &Row) -> Event {
    let (key, ts) = ("orders".into(), Timestamp::from_nanos(row.ts));
    let mut event = Event { key, ts, id: row.id.clone(), fields: BTreeMap::new(), tags: BTreeMap::new() };
    for (tag, name, value, _) in &row.cells {
        match value {
            FieldValue::Str(text) if *tag => drop(event.tags.insert(name.clone(), text.clone())),
            value => drop(event.fields.insert(name.clone(), value.clone())),
        }
    }
    event
}

fn stamp() -> impl Strategy<Value = Stamp> {
    prop_oneof![
        (0u64..3).prop_map(|time| Stamp { time, node: 9 }),
        (any::<u64>(), any::<u64>()).prop_map(|(time, node)| Stamp { time, node })
    ]
}

fn value() -> impl Strategy<Value = FieldValue> {
    prop_oneof![
        any::<f64>().prop_filter("finite", |v| v.is_finite()).prop_map(FieldValue::F64),
        any::<i64>().prop_map(FieldValue::I64),
        any::<u64>().prop_map(FieldValue::U64),
        any::<bool>().prop_map(FieldValue::Bool),
        "\\PC{0,8}|\0".prop_map(FieldValue::Str),
    ]
}

fn row() -> impl Strategy<Value = Row> {
    let name = "[a-cA-C]|\\PC{0,6}";
    let fields = prop::collection::btree_map(name, (value(), stamp()), 0..5);
    let tags = prop::collection::btree_map(name, ("\\PC{0,8}", stamp()), 0..4);
    let ts = prop_oneof![any::<i64>(), -5i64..5, Just(i64::MIN), Just(i64::MAX - 1)];
    (ts, "\\PC{0,20}", fields, tags, stamp()).prop_map(|(ts, id, fields, tags, stamp)| {
        let fields = fields.into_iter().map(|(name, (value, stamp))| (false, name, value, stamp));
        let tags = tags.into_iter().map(|(name, (value, stamp))| (true, name, FieldValue::Str(value), stamp));
        Row { ts, id, cells: fields.chain(tags).collect(), stamp }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_event_comes_back_whole(mut rows in prop::collection::vec(row(), 1..40), from in any::<i64>()) {
        rows.sort_by(|a, b| (a.ts, &a.id).cmp(&(b.ts, &b.id)));
        let written = write(&rows);
        prop_assert_eq!((written.min_ts, written.max_ts, written.digest.rows), (rows[0].ts, rows[rows.len() - 1].ts, rows.len() as u64));
        prop_assert_eq!(read(&written, TimeRange::ALL).unwrap(), rows.clone());
        let late = TimeRange { from: Timestamp::from_nanos(from), to: Timestamp::MAX };
        let kept: Vec<Row> = rows.into_iter().filter(|row| row.ts >= from).collect();
        prop_assert_eq!(read(&written, late).unwrap(), kept);
    }

    #[test]
    fn runs_of_rows_are_the_events_or_what_is_asked_for_of_them(mut rows in prop::collection::vec(row(), 1..40), from in -9i64..9, name in "[a-cA-C]") {
        rows.sort_by(|a, b| (a.ts, &a.id).cmp(&(b.ts, &b.id)));
        let written = write(&rows);
        let late = TimeRange { from: Timestamp::from_nanos(from), to: Timestamp::from_nanos(i64::MAX - 1) };
        let kept: Vec<Event> = rows.iter().filter(|row| from <= row.ts && row.ts < i64::MAX - 1).map(event).collect();
        prop_assert_eq!(by_runs(&written, late, &Projection::All), kept.clone());
        let some = Projection::Only { fields: vec![name.clone()], tags: vec![name.clone(), "absent".into()] };
        let part = |event: Event| {
            let only = |(of, _): &(String, FieldValue)| *of == name;
            let tags = event.tags.into_iter().filter(|(of, _)| *of == name).collect();
            Event { id: String::new(), fields: event.fields.into_iter().filter(only).collect(), tags, ..event }
        };
        prop_assert_eq!(by_runs(&written, late, &some), kept.into_iter().map(part).collect::<Vec<_>>());
    }

    #[test]
    fn no_altered_or_missing_byte_goes_unnoticed(rows in prop::collection::vec(row(), 1..6), at in any::<prop::sample::Index>(), flip in 1u8..) {
        let written = write(&rows);
        let mut bytes = written.bytes.to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let altered = |bytes: Vec<u8>| matches!(TableReader::open(bytes.into(), written.checksum, &about()), Err(TableError::Damaged(_)));
        prop_assert!(altered(bytes.clone()));
        bytes.truncate(at);
        prop_assert!(altered(bytes));
    }
}

fn plain(ts: i64) -> Row {
    let stamp = Stamp { time: 1, node: 2 };
    Row { ts, id: format!("e{ts}"), cells: vec![(false, "x".into(), FieldValue::I64(ts), stamp)], stamp }
}

#[test]
fn a_file_has_statistics_a_page_index_and_a_bloom_filter_on_ids() {
    let rows: Vec<Row> = (0..ROW_GROUP_ROWS as i64 + 20_000).map(|i| plain(i * 1_000_000)).collect();
    let written = write(&rows);
    let options = ReadOptionsBuilder::new().with_page_index().build();
    let file = SerializedFileReader::new_with_options(written.bytes.clone(), options).unwrap();
    assert_eq!(file.metadata().num_row_groups(), 2);
    let ids = file.metadata().row_group(0).column(leaf::ID);
    assert!(ids.bloom_filter_offset().is_some() && ids.column_index_offset().is_some() && ids.offset_index_offset().is_some());
    assert!(file.metadata().row_group(0).column(leaf::TS).statistics().is_some());
    let last = TimeRange { from: Timestamp::from_nanos(rows[ROW_GROUP_ROWS].ts), to: Timestamp::MAX };
    assert_eq!(read(&written, last).unwrap().len(), 20_000);
}

#[test]
fn only_pages_that_are_near_are_read_and_a_bloom_filter_rules_ids_out() {
    let rows: Vec<Row> = (0..ROW_GROUP_ROWS as i64 + 20_000).map(|i| plain(i * 1_000_000)).collect();
    let written = write(&rows);
    let reader = TableReader::open(written.bytes.clone(), written.checksum, &about()).unwrap();
    let from = |row: usize, to: usize| TimeRange { from: Timestamp::from_nanos(rows[row].ts), to: Timestamp::from_nanos(rows[to].ts) };
    for (range, found) in [
        (from(0, 1), 0..1),
        (from(70_000, 70_001), 70_000..70_001),
        (from(8_191, 8_193), 8_191..8_193),
        (from(ROW_GROUP_ROWS - 5, ROW_GROUP_ROWS + 5), ROW_GROUP_ROWS - 5..ROW_GROUP_ROWS + 5),
        (from(9, 9), 9..9),
    ] {
        assert_eq!(read(&written, range).unwrap(), rows[found]);
        assert!(reader.rows_near(range) <= 3 * 8_192, "{range:?}: {}", reader.rows_near(range));
    }
    assert_eq!(reader.rows_near(TimeRange::ALL), rows.len() as u64);
    assert!(rows.iter().step_by(997).all(|row| reader.may_hold(TimeRange::ALL, &row.id).unwrap()));
    // Two row groups, each of which may be wrong in one of seven.
    let strangers = (0..1_000).filter(|n| reader.may_hold(TimeRange::ALL, &format!("e{n}500")).unwrap()).count();
    assert!(strangers < 350, "{strangers} of 1,000");
    assert!(!reader.may_hold(TimeRange::ALL, "f").unwrap(), "beyond every id");
    assert!(!reader.may_hold(from(9, 9), &rows[9].id).unwrap());
}

/// Bytes an event that a column takes, of 20,000 events.
fn bytes_of(column: usize, row: impl Fn(i64) -> Row) -> f64 {
    let written = write(&(0..20_000).map(row).collect::<Vec<_>>());
    let file = SerializedFileReader::new(written.bytes).unwrap();
    assert_eq!(file.metadata().num_row_groups(), 1);
    file.metadata().row_group(0).column(column).compressed_size() as f64 / 20_000.0
}

#[test]
fn a_column_is_encoded_as_its_values_want_it() {
    let noise = |n: i64| xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes());
    let id = |id: fn(i64, u64) -> String| bytes_of(leaf::ID, move |ts| Row { id: id(ts, noise(ts)), ..plain(ts) });
    let value = |column: usize, value: fn(i64, u64) -> FieldValue| {
        let cells = move |ts| vec![(false, "x".into(), value(ts, noise(ts)), Stamp { time: 1, node: 2 })];
        bytes_of(column + 1, move |ts| Row { cells: cells(ts), ..plain(ts) })
    };
    for (what, bytes, most) in [
        ("random ids of 8 bytes as 16 digits", id(|_, noise| format!("{noise:016x}")), 8.2),
        ("counted ids", id(|ts, _| format!("{ts:016x}")), 0.6),
        ("a few series", id(|ts, _| format!("host=h{},region=eu", ts % 7)), 0.5),
        ("amounts of two digits after the point", value(leaf::F64, |_, noise| FieldValue::F64((noise % 1_000) as f64 / 100.0)), 1.8),
        ("measurements of full precision", value(leaf::F64, |_, noise| FieldValue::F64(20.0 + noise as f64 / u64::MAX as f64)), 6.9),
        ("a counter", value(leaf::I64, |ts, _| FieldValue::I64(1_000_000 + ts * 3)), 0.1),
    ] {
        assert!(bytes <= most, "{what}: {bytes} bytes, not {most}");
    }
}

#[test]
fn ids_that_ascend_need_no_bloom_filter_and_a_file_of_one_page_no_page_index() {
    let ascending = write(&(0..20_000).map(|ts| Row { id: format!("{ts:05}"), ..plain(ts) }).collect::<Vec<_>>());
    let ids = SerializedFileReader::new(ascending.bytes.clone()).unwrap().metadata().row_group(0).column(leaf::ID).clone();
    assert!(ids.bloom_filter_offset().is_none() && ids.column_index_offset().is_some());
    let reader = TableReader::open(ascending.bytes, ascending.checksum, &about()).unwrap();
    assert!(reader.may_hold(TimeRange::ALL, "12345").unwrap() && !reader.may_hold(TimeRange::ALL, "20000").unwrap());
    let small = write(&(0..PAGE_ROWS as i64).map(plain).collect::<Vec<_>>());
    let group = SerializedFileReader::new(small.bytes.clone()).unwrap().metadata().row_group(0).clone();
    assert!(group.columns().iter().all(|column| column.offset_index_offset().is_none() && column.column_index_offset().is_none()));
    assert_eq!(read(&small, TimeRange::ALL).unwrap().len(), PAGE_ROWS);
}

#[test]
fn what_was_written_and_what_is_read_have_one_digest() {
    let written = write(&(0..1_000).map(plain).collect::<Vec<_>>());
    let mut digest = Digest::default();
    let reader = TableReader::open(written.bytes, written.checksum, &about()).unwrap();
    reader
        .each(TimeRange::ALL, |ts, id, cells, stamp| {
            digest.add(ts, id, cells, stamp);
            Ok::<(), TableError>(())
        })
        .unwrap();
    assert_eq!((digest, reader.rows()), (written.digest, 1_000));
}

#[test]
fn a_file_of_another_bucket_is_refused_by_what_it_says() {
    let written = write(&[plain(1)]);
    let other = About { bucket: 1, ..about() };
    assert!(matches!(TableReader::open(written.bytes, written.checksum, &other), Err(TableError::Misplaced(_))));
}

#[test]
fn a_file_without_events_is_none() {
    assert!(TableWriter::new(&about()).unwrap().finish().unwrap().is_none());
}
