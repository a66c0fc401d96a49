//! Events as text, written straight into a request's body.
//!
//! Formatting is by hand on purpose: at two million events a second from one core the generator must
//! not be what is measured. Everything that does not change from event to event is made once.

use std::sync::Arc;

use bytes::Bytes;

use super::chance::{mix, stream};
use super::{Event, Keys, Portion, REGIONS, Workload};
use crate::client::Format;

/// What notes are cut from: printable, needs no escape, and compresses no better than ids do.
const POOL_BYTES: usize = 32 * 1024;
const DIGITS: &[u8; 16] = b"0123456789abcdef";
/// A body's bytes beyond its events' heads and notes, per event, roughly.
const EVENT_BYTES: usize = 112;

/// Writes the bodies of one connection.
pub(crate) struct Writer {
    workload: Arc<Workload>,
    format: Format,
    heads: Heads,
    /// `00` to `99`.
    pairs: Vec<[u8; 2]>,
    bytes: usize,
}

impl Writer {
    pub(crate) fn new(workload: Arc<Workload>, format: Format) -> Writer {
        let heads = Heads::new(&workload.keys, format);
        let pairs = (0..100u8).map(|n| [b'0' + n / 10, b'0' + n % 10]).collect();
        Writer { workload, format, heads, pairs, bytes: 0 }
    }

    /// The body of a portion.
    pub(crate) fn body(&mut self, portion: Portion) -> Bytes {
        // What the last one took is what this one will.
        let mut out = Vec::with_capacity(self.bytes.max(portion.events as usize * EVENT_BYTES));
        let mut stamp = Stamp::new(self.format);
        let workload = Arc::clone(&self.workload);
        if self.format == Format::Json {
            out.push(b'[');
        }
        for event in workload.events(portion) {
            self.event(&mut out, &event, stamp.of(event.millis));
        }
        if self.format == Format::Json {
            out.pop();
            out.push(b']');
        }
        self.bytes = out.len() + out.len() / 64;
        out.into()
    }

    fn event(&mut self, out: &mut Vec<u8>, event: &Event, stamp: &[u8]) {
        let mut whole = itoa::Buffer::new();
        let pair = &self.pairs[event.cents as usize % 100];
        let amount = whole.format(event.cents / 100).as_bytes();
        let quantity = &self.pairs[event.quantity as usize];
        let quantity = if event.quantity < 10 { &quantity[1..] } else { &quantity[..] };
        let (region, note) = (REGIONS[event.region].as_bytes(), note(event.id, self.workload.shape.note_bytes));
        let id = hex(event.id);
        out.extend_from_slice(self.heads.of(&self.workload.keys, event.key));
        if matches!(self.format, Format::Line | Format::LineFields) {
            match self.format {
                Format::Line => parts(out, &[&id, b",region=", region, b" amount="]),
                _ => parts(out, &[region, b" id=\"", &id, b"\",amount="]),
            }
            parts(out, &[amount, b".", pair, b",qty=", quantity, b"i"]);
            if !note.is_empty() {
                parts(out, &[b",note=\"", note, b"\""]);
            }
            out.extend_from_slice(stamp);
            return match self.format {
                Format::Line => out.push(b'\n'),
                _ => parts(out, &[&six_digits(event.slot), b"\n"]),
            };
        }
        parts(out, &[&id, stamp, amount, b".", pair, b",\"qty\":", quantity]);
        if !note.is_empty() {
            parts(out, &[b",\"note\":\"", note, b"\""]);
        }
        let (tags, end): (&[u8], &[u8]) = match self.format {
            Format::Rows => (b",\"region\":\"", b"\"}\n"),
            Format::Json => (b"},\"tags\":{\"region\":\"", b"\"}},"),
            _ => (b"},\"tags\":{\"region\":\"", b"\"}}\n"),
        };
        parts(out, &[tags, region, end]);
    }
}

fn parts(out: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// The note of an event: so many bytes of the pool, from a place of the event's own.
pub(crate) fn note(id: u64, bytes: usize) -> &'static [u8] {
    static POOL: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    if bytes == 0 {
        return &[];
    }
    let pool = POOL.get_or_init(|| (0..POOL_BYTES as u64 / 16).flat_map(|n| hex(mix(n))).collect());
    let at = stream(id, 10) as usize % (POOL_BYTES - bytes.min(POOL_BYTES / 2));
    &pool[at..at + bytes.min(POOL_BYTES / 2)]
}

/// An id as it is written.
pub(crate) fn hex(id: u64) -> [u8; 16] {
    std::array::from_fn(|i| DIGITS[(id >> (60 - 4 * i)) as usize & 0xf])
}

/// The nanoseconds of an event's millisecond where that is to be its own: no two of a million slots
/// share them.
fn six_digits(slot: u64) -> [u8; 6] {
    let mut rest = slot % 1_000_000;
    let mut digits = [b'0'; 6];
    for digit in digits.iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    digits
}

/// What of an event is the same for all of a millisecond: its time, and what stands around it.
struct Stamp {
    format: Format,
    millis: Option<i64>,
    text: Vec<u8>,
}

impl Stamp {
    fn new(format: Format) -> Stamp {
        Stamp { format, millis: None, text: Vec::with_capacity(64) }
    }

    fn of(&mut self, millis: i64) -> &[u8] {
        if self.millis != Some(millis) {
            self.millis = Some(millis);
            self.text.clear();
            let mut digits = itoa::Buffer::new();
            let digits = digits.format(millis).as_bytes();
            match self.format {
                Format::Line | Format::LineFields => parts(&mut self.text, &[b" ", digits]),
                Format::Rows => parts(&mut self.text, &[b"\",\"ts\":", digits, b",\"amount\":"]),
                Format::Ndjson | Format::Json => parts(&mut self.text, &[b"\",\"ts\":", digits, b",\"fields\":{\"amount\":"]),
            }
        }
        &self.text
    }
}

/// All that stands before an event's id, per key.
struct Heads {
    format: Format,
    /// The heads of numbered keys, one after another, and where each ends.
    text: Vec<u8>,
    ends: Vec<usize>,
    /// The head of the day that was asked for last.
    day: Option<(u32, Vec<u8>)>,
}

impl Heads {
    fn new(keys: &Keys, format: Format) -> Heads {
        let (mut text, mut ends) = (Vec::new(), Vec::new());
        for key in 0..keys.count().unwrap_or(0) {
            text.extend_from_slice(&head(format, &keys.name(key)));
            ends.push(text.len());
        }
        Heads { format, text, ends, day: None }
    }

    fn of(&mut self, keys: &Keys, key: u32) -> &[u8] {
        if let Some(&end) = self.ends.get(key as usize) {
            let begin = (key as usize).checked_sub(1).map_or(0, |before| self.ends[before]);
            return &self.text[begin..end];
        }
        if self.day.as_ref().is_none_or(|(day, _)| *day != key) {
            self.day = Some((key, head(self.format, &keys.name(key))));
        }
        self.day.as_ref().map_or(&[], |(_, head)| head)
    }
}

fn head(format: Format, key: &str) -> Vec<u8> {
    match format {
        Format::Ndjson | Format::Json | Format::Rows => format!("{{\"key\":{},\"id\":\"", serde_json::Value::from(key)),
        Format::Line => format!("{},id=", measurement(key)),
        Format::LineFields => format!("{},region=", measurement(key)),
    }
    .into_bytes()
}

/// A key as line protocol writes it.
fn measurement(key: &str) -> String {
    key.replace('\\', "\\\\").replace(',', "\\,").replace(' ', "\\ ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{Choice, EventTimes, Shape, Share};
    use super::*;

    const MILLIS: i64 = 1_700_000_000_123;

    fn workload(name: &str, choice: Choice, shape: Shape) -> Arc<Workload> {
        Workload::new(7, Keys::new(name, choice), shape, EventTimes::spaced(MILLIS, 1))
    }

    fn body(format: Format, workload: &Arc<Workload>, events: u64) -> String {
        let body = Writer::new(Arc::clone(workload), format).body(Portion { first: 0, events });
        String::from_utf8(body.to_vec()).unwrap()
    }

    /// An event as JSON, put together by a library.
    fn expected(workload: &Workload, event: &Event) -> Value {
        let mut fields = json!({"amount": f64::from(event.cents) / 100.0, "qty": event.quantity});
        if workload.shape.note_bytes > 0 {
            fields["note"] = std::str::from_utf8(note(event.id, workload.shape.note_bytes)).unwrap().into();
        }
        json!({"key": workload.keys.name(event.key), "id": format!("{:016x}", event.id), "ts": event.millis,
            "fields": fields, "tags": {"region": REGIONS[event.region]}})
    }

    #[test]
    fn json_bodies_hold_the_events_of_the_workload() {
        let shape = Shape { note_bytes: 40, late: (Share::new(0.5), 1_000), ..Shape::default() };
        for shape in [shape, Shape::default()] {
            let workload = workload("a \"hot\" key", Choice::Uniform(3), shape);
            let events: Vec<Value> = (0..200).map(|slot| expected(&workload, &workload.event(slot))).collect();
            let lines: Vec<Value> = body(Format::Ndjson, &workload, 200).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!(lines, events);
            assert_eq!(serde_json::from_str::<Vec<Value>>(&body(Format::Json, &workload, 200)).unwrap(), events);
        }
    }

    #[test]
    fn lines_are_line_protocol() {
        let workload = workload("hot key", Choice::One, Shape { note_bytes: 4, ..Shape::default() });
        let event = workload.event(0);
        let note = std::str::from_utf8(note(event.id, 4)).unwrap().to_owned();
        let line = format!(
            "hot\\ key,id={:016x},region={} amount={}.{:02},qty={}i,note=\"{note}\" {MILLIS}\n",
            event.id,
            REGIONS[event.region],
            event.cents / 100,
            event.cents % 100,
            event.quantity
        );
        assert_eq!(body(Format::Line, &workload, 1), line);
    }

    #[test]
    fn peers_get_the_id_as_a_column_and_a_time_of_its_own() {
        let workload = workload("hot key", Choice::One, Shape { note_bytes: 4, ..Shape::default() });
        let event = workload.event(3);
        let note = std::str::from_utf8(note(event.id, 4)).unwrap().to_owned();
        let (region, cents, qty) = (REGIONS[event.region], event.cents, event.quantity);
        let amount = format!("{}.{:02}", cents / 100, cents % 100);
        let lines = body(Format::LineFields, &workload, 4);
        let line = format!("hot\\ key,region={region} id=\"{:016x}\",amount={amount},qty={qty}i,note=\"{note}\" {MILLIS}000003", event.id);
        assert_eq!(lines.lines().nth(3), Some(&*line));
        let rows = body(Format::Rows, &workload, 4);
        let row: Value = serde_json::from_str(rows.lines().nth(3).unwrap()).unwrap();
        let id = format!("{:016x}", event.id);
        let expected = json!({"key": "hot key", "id": id, "ts": MILLIS, "amount": f64::from(cents) / 100.0, "qty": qty, "note": note, "region": region});
        assert_eq!(row, expected);
        assert_eq!((six_digits(0), six_digits(12_345_678)), (*b"000000", *b"345678"));
    }

    #[test]
    fn a_daily_key_is_the_date_of_its_event() {
        let text = body(Format::Ndjson, &workload("", Choice::Daily, Shape::default()), 1);
        assert!(text.starts_with("{\"key\":\"2023-11-14\",\"id\":"), "{text}");
    }
}
