//! What must stand in the server after a file was replayed. A file cannot be made again from a seed, so
//! this keeps of each event its name, a hash of its content and its fate, within a bound.

use std::collections::hash_map::{DefaultHasher, Entry as Slot};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::Value;

use super::event::Found;
use super::{Judge, Named, Verdict, time};
use crate::client::Delivery;
use crate::history::{Fate, fates_of};

/// A line of the file.
#[derive(Deserialize)]
struct Line {
    key: String,
    id: Option<String>,
    ts: Option<Value>,
    #[serde(default)]
    fields: BTreeMap<String, Value>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    value: Option<Value>,
}

/// What makes two events the same one.
type Identity = (Box<str>, i64, Box<str>);

/// What is kept of an event.
struct Kept {
    content: u64,
    /// It was sent with other content too: which of it stands is the server's business.
    several: bool,
    fate: Fate,
    found: bool,
}

/// What an event takes at most, but for its name's letters: a map that grows is under half full then, and
/// holds what it outgrew too.
const EVENT_BYTES: usize = 4 * (size_of::<(Identity, Kept)>() + 1);

/// Knows what was sent of a file, and what was found.
#[derive(Default)]
pub(crate) struct FileOracle {
    events: HashMap<Identity, Kept>,
    bytes: usize,
    verdict: Verdict,
}

/// What a replay notes while it sends; its connections share it.
pub(crate) struct FileHistory {
    oracle: Mutex<FileOracle>,
    bytes_max: usize,
}

/// Why a batch can't be verified, so that it is not sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// The line at this place has no id or no time of its own.
    NoIdentity(usize),
    /// So many events are all that there is room for.
    Full(usize),
}

/// The identities of a batch's lines; of one that is no event, none.
pub(crate) struct Sending(Vec<Option<Identity>>);

impl FileHistory {
    /// Keeps about so many bytes at most.
    pub(crate) fn new(bytes_max: usize) -> FileHistory {
        FileHistory { oracle: Mutex::default(), bytes_max }
    }

    fn oracle(&self) -> MutexGuard<'_, FileOracle> {
        self.oracle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what a batch is about to send.
    pub(crate) fn sending(&self, body: &[u8]) -> Result<Sending, Unfit> {
        let oracle = &mut *self.oracle();
        let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        let kept = lines.enumerate().map(|(index, line)| {
            let read = sent(line).map_err(|()| Unfit::NoIdentity(index))?;
            let Some((identity, content)) = read else { return Ok(None) };
            oracle.keep(identity.clone(), content);
            if oracle.bytes > self.bytes_max { Err(Unfit::Full(oracle.events.len())) } else { Ok(Some(identity)) }
        });
        kept.collect::<Result<_, _>>().map(Sending)
    }

    /// Notes how the sending of a batch ended.
    pub(crate) fn ended(&self, sending: Sending, delivery: &Delivery) {
        let oracle = &mut *self.oracle();
        for (identity, fate) in sending.0.into_iter().zip(fates_of(delivery)) {
            if let Some(kept) = identity.and_then(|identity| oracle.events.get_mut(&identity)) {
                kept.fate = kept.fate.max(fate);
            }
        }
    }

    pub(crate) fn into_oracle(self) -> FileOracle {
        self.oracle.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileOracle {
    fn keep(&mut self, identity: Identity, content: u64) {
        match self.events.entry(identity) {
            Slot::Vacant(slot) => {
                self.bytes += EVENT_BYTES + slot.key().0.len() + slot.key().2.len();
                slot.insert(Kept { content, several: false, fate: Fate::Unsent, found: false });
            }
            Slot::Occupied(mut slot) => slot.get_mut().several |= slot.get().content != content,
        }
    }

    /// The keys of the file.
    pub(crate) fn keys(&self) -> BTreeSet<String> {
        self.events.keys().map(|(key, ..)| &**key).collect::<BTreeSet<_>>().into_iter().map(str::to_owned).collect()
    }

    /// What is wrong, once every event that is there was seen.
    pub(crate) fn verdict(self) -> Verdict {
        let mut verdict = self.verdict;
        for ((key, nanos, id), kept) in self.events {
            verdict.sent += u64::from(kept.fate > Fate::Unsent);
            verdict.not_compared += u64::from(kept.several);
            match kept.fate {
                Fate::Stored => {
                    verdict.acknowledged += 1;
                    if !kept.found {
                        verdict.lost.add(|| Named { key: key.into(), id: id.into(), ts: (nanos / 1_000_000).to_string() });
                    }
                }
                Fate::Unknown if kept.found => verdict.unknown_found += 1,
                Fate::Unknown => verdict.unknown_absent += 1,
                Fate::Unsent | Fate::Rejected => {}
            }
        }
        verdict
    }
}

impl Judge for FileOracle {
    fn see(&mut self, key: &str, found: &Found<'_>) {
        self.verdict.found += 1;
        let name = || Named::found(key, found);
        let identity = found.nanos().map(|nanos| (found.key.as_ref().into(), nanos, found.id.as_ref().into()));
        let kept = identity.filter(|_| found.key == key).and_then(|identity| self.events.get_mut(&identity));
        let Some(kept) = kept.filter(|kept| kept.fate >= Fate::Unknown) else { return self.verdict.invented.add(name) };
        if kept.found {
            self.verdict.doubled.add(name);
        }
        kept.found = true;
        let tags = found.tags.iter().map(|(name, value)| (&**name, &**value));
        if !kept.several && kept.content != content(found.fields.iter(), tags) {
            self.verdict.altered.add(name);
        }
    }

    fn out_of_order(&mut self, key: &str, found: &Found<'_>) {
        self.verdict.disordered.add(|| Named::found(key, found));
    }

    fn progress(&self) -> (u64, u64) {
        (self.verdict.found, self.events.len() as u64)
    }
}

/// The identity and the content of a line; none where it is no event, which the server has to find out
/// too. The error: it has no id or no time of its own, and would get one that nobody knows.
fn sent(line: &[u8]) -> Result<Option<(Identity, u64)>, ()> {
    let Ok(mut line) = serde_json::from_slice::<Line>(line) else { return Ok(None) };
    let (id, ts) = (line.id.ok_or(())?, line.ts.ok_or(())?);
    let nanos = match &ts {
        Value::String(text) => time::nanos(text),
        ts => ts.as_i64().and_then(|millis| millis.checked_mul(1_000_000)),
    };
    let Some(nanos) = nanos else { return Ok(None) };
    if let Some(value) = line.value.take() {
        line.fields.insert("value".into(), value);
    }
    let tags = line.tags.iter().map(|(name, value)| (&**name, &**value));
    let content = content(line.fields.iter(), tags);
    Ok(Some(((line.key.into(), nanos, id.into()), content)))
}

/// A hash of fields and tags, both by rising name, types included.
fn content<'a>(fields: impl Iterator<Item = (&'a String, &'a Value)>, tags: impl Iterator<Item = (&'a str, &'a str)>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (name, value) in fields {
        name.hash(&mut hasher);
        match value {
            Value::Number(number) if number.is_f64() => ("f", number.as_f64().map(f64::to_bits)).hash(&mut hasher),
            other => other.to_string().hash(&mut hasher),
        }
    }
    "tags".hash(&mut hasher);
    tags.for_each(|tag| tag.hash(&mut hasher));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use crate::client::{Answer, RowError};

    use super::*;

    fn delivery(rejected: &[usize], events: u64) -> Delivery {
        let now = Instant::now();
        let error = |index: &usize| RowError { index: *index, code: "x".into(), detail: String::new() };
        let rejected_events = rejected.len() as u64;
        let answer = Answer { stored: events - rejected_events, rejected: rejected_events, errors: rejected.iter().map(error).collect() };
        Delivery { result: Ok(answer), doubtful: false, started: now, ended: now, retries: 0, told_to_wait: 0, bytes: 0, units: 0.0 }
    }

    const FILE: &str = r#"{"key":"k","id":"a","ts":"2023-11-14T22:13:20Z","fields":{"n":1,"f":1.0},"tags":{"t":"x"}}
{"key":"k","id":"b","ts":1700000000000,"value":2}
{"key":"k","id":"c","ts":1700000000000,"fields":{"n":1}}
{"key":"k","id":"c","ts":1700000000000,"fields":{"m":2}}
{"id":"no key"}
"#;
    const A: &str = r#"{"key":"k","id":"a","ts":"2023-11-14T22:13:20Z","fields":{"f":1.0,"n":1},"tags":{"t":"x"}}"#;
    const B: &str = r#"{"key":"k","id":"b","ts":"2023-11-14T22:13:20Z","fields":{"value":2},"tags":{}}"#;
    const C: &str = r#"{"key":"k","id":"c","ts":"2023-11-14T22:13:20Z","fields":{"m":2,"n":1},"tags":{}}"#;

    fn judge(found: &[&str]) -> Verdict {
        let history = FileHistory::new(10_000);
        let sending = history.sending(FILE.as_bytes()).unwrap();
        history.ended(sending, &delivery(&[4], 5));
        let mut oracle = history.into_oracle();
        for line in found {
            let found = Found::parse(line.as_bytes()).unwrap();
            oracle.see(&found.key, &found);
        }
        oracle.verdict()
    }

    #[test]
    fn a_file_that_came_back_whole_is_right() {
        let verdict = judge(&[A, B, C]);
        assert!(verdict.holds(), "{verdict:?}");
        assert_eq!((verdict.sent, verdict.acknowledged, verdict.not_compared), (3, 3, 1));
    }

    #[test]
    fn what_is_lost_doubled_invented_or_altered_is_named() {
        let altered = B.replace("\"value\":2", "\"value\":2.0");
        let invented = B.replace("\"b\"", "\"z\"");
        let verdict = judge(&[A, A, &altered, &invented]);
        let of = |faults: &super::super::Faults| (faults.count, faults.named.iter().map(|named| named.id.clone()).collect::<String>());
        assert_eq!(of(&verdict.lost), (1, "c".into()));
        assert_eq!(of(&verdict.doubled), (1, "a".into()));
        assert_eq!(of(&verdict.altered), (1, "b".into()));
        assert_eq!(of(&verdict.invented), (1, "z".into()));
    }

    #[test]
    fn a_line_without_an_identity_of_its_own_cannot_be_verified() {
        for line in ["{\"key\":\"k\",\"ts\":1}", "{\"key\":\"k\",\"id\":\"b\"}"] {
            let body = format!("{{\"key\":\"k\",\"id\":\"a\",\"ts\":1}}\n{line}\n");
            assert_eq!(FileHistory::new(10_000).sending(body.as_bytes()).err(), Some(Unfit::NoIdentity(1)));
        }
    }

    #[test]
    fn distinct_events_fill_the_room_there_is_and_the_same_one_does_not() {
        let line = |id: usize| format!("{{\"key\":\"k\",\"id\":\"{id:04}\",\"ts\":1}}\n");
        let history = FileHistory::new(3 * (EVENT_BYTES + 5));
        for id in [1, 2, 1, 1, 3] {
            assert!(history.sending(line(id).as_bytes()).is_ok(), "{id}");
        }
        assert_eq!(history.sending(line(4).as_bytes()).err(), Some(Unfit::Full(4)));
    }
}
