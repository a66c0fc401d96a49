//! Made-up events of hot keys, written straight into a request's body.
//!
//! Formatting is by hand on purpose: at a million events a second from one core the generator must
//! not be what is measured. Events have a random id of 16 hex digits, a price with two decimals, a
//! small integer and one of eight tag values.

use bytes::{BufMut, Bytes, BytesMut};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::client::Format;

const REGIONS: [&str; 8] = ["ap-1", "ap-2", "eu-1", "eu-2", "sa-1", "us-1", "us-2", "us-3"];
/// An event's bytes without its key, roughly: what a body sets aside.
const EVENT_BYTES: usize = 128;

/// What the bodies of one connection are made of.
pub(crate) struct Workload {
    format: Format,
    /// Per key, all that stands before an event's id.
    heads: Vec<Vec<u8>>,
    next_key: usize,
    random: SmallRng,
    buffer: BytesMut,
}

impl Workload {
    /// Events of one key, or of `keys` keys whose names begin with `key`, in turn.
    pub(crate) fn new(format: Format, key: &str, keys: u32, seed: u64) -> Workload {
        let name = |i: u32| if keys == 1 { key.to_owned() } else { format!("{key}-{i}") };
        let head = |i: u32| match format {
            Format::Ndjson => format!("{{\"key\":{},\"id\":\"", serde_json::Value::from(name(i))),
            Format::Line => format!("{},id=", escape(&name(i))),
        };
        let heads = (0..keys).map(|i| head(i).into_bytes()).collect();
        Workload { format, heads, next_key: 0, random: SmallRng::seed_from_u64(seed), buffer: BytesMut::new() }
    }

    /// A body of `events` events, all at `millis` since the Unix epoch.
    pub(crate) fn body(&mut self, events: usize, millis: i64) -> Bytes {
        self.buffer.reserve(events * (EVENT_BYTES + self.heads[0].len()));
        let mut itoa = itoa::Buffer::new();
        let millis = itoa.format(millis);
        for _ in 0..events {
            self.event(millis);
        }
        self.buffer.split().freeze()
    }

    fn event(&mut self, millis: &str) {
        let (id, draw): (u64, u64) = (self.random.random(), self.random.random());
        let (cents, quantity, region) = (draw & 0xffff, (draw >> 16) % 100, REGIONS[(draw >> 32) as usize % REGIONS.len()]);
        self.next_key = (self.next_key + 1) % self.heads.len();
        let out = &mut self.buffer;
        let mut put = |parts: &[&[u8]]| parts.iter().for_each(|part| out.put_slice(part));
        let (mut whole, mut small) = (itoa::Buffer::new(), itoa::Buffer::new());
        let (whole, quantity) = (whole.format(cents / 100).as_bytes(), small.format(quantity).as_bytes());
        let decimals = [b'.', b'0' + (cents / 10 % 10) as u8, b'0' + (cents % 10) as u8];
        let (head, id, region, millis) = (&*self.heads[self.next_key], &hex(id), region.as_bytes(), millis.as_bytes());
        match self.format {
            Format::Ndjson => put(&[
                head,
                id,
                b"\",\"ts\":",
                millis,
                b",\"fields\":{\"amount\":",
                whole,
                &decimals,
                b",\"qty\":",
                quantity,
                b"},\"tags\":{\"region\":\"",
                region,
                b"\"}}\n",
            ]),
            Format::Line => {
                put(&[head, id, b",region=", region, b" amount=", whole, &decimals, b",qty=", quantity, b"i ", millis, b"\n"]);
            }
        }
    }
}

fn hex(id: u64) -> [u8; 16] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    std::array::from_fn(|i| DIGITS[(id >> (60 - 4 * i)) as usize & 0xf])
}

/// A measurement as line protocol writes it.
fn escape(key: &str) -> String {
    key.replace('\\', "\\\\").replace(',', "\\,").replace(' ', "\\ ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_a_json_body_is_an_event() {
        let body = Workload::new(Format::Ndjson, "a \"hot\" key", 1, 7).body(100, 1_700_000_000_123);
        let text = std::str::from_utf8(&body).unwrap();
        let mut ids = std::collections::HashSet::new();
        for line in text.lines() {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!((&event["key"], &event["ts"]), (&"a \"hot\" key".into(), &1_700_000_000_123_i64.into()));
            assert!(event["fields"]["amount"].is_f64() && event["fields"]["qty"].is_i64(), "{line}");
            assert!(ids.insert(event["id"].as_str().unwrap().to_owned()));
        }
        assert_eq!(ids.len(), 100);
    }

    #[test]
    fn lines_are_line_protocol() {
        let body = Workload::new(Format::Line, "hot key", 2, 7).body(2, 12);
        let text = std::str::from_utf8(&body).unwrap();
        let first = text.lines().next().unwrap();
        assert!(first.starts_with("hot\\ key-1,id=") && first.ends_with("i 12"), "{first}");
    }

    #[test]
    fn the_same_seed_makes_the_same_events() {
        let made = |seed| Workload::new(Format::Line, "k", 1, seed).body(10, 0);
        assert!(made(1) == made(1) && made(1) != made(2));
    }
}
