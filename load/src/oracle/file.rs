//! What must stand in the server after a file was replayed. A file cannot be made again from a seed, so
//! this keeps of each event its name, a hash of its content and its fate: some 100 bytes and the name.

use std::collections::hash_map::{DefaultHasher, Entry as Slot};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, PoisonError};

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
    id: String,
    ts: Value,
    #[serde(default)]
    fields: BTreeMap<String, Value>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    value: Option<Value>,
}

/// What makes two events the same one.
type Identity = (String, i64, String);

/// What is kept of an event.
struct Kept {
    content: u64,
    /// It was sent with other content too: which of it stands is the server's business.
    several: bool,
    fate: Fate,
    found: u8,
}

/// Knows what was sent of a file, and what was found.
#[derive(Default)]
pub(crate) struct FileOracle {
    events: HashMap<Identity, Kept>,
    verdict: Verdict,
}

/// What a replay notes while it sends; its connections share it.
#[derive(Default)]
pub(crate) struct FileHistory(Mutex<FileOracle>);

impl FileHistory {
    /// Notes how the sending of a batch ended. The error is the place of a line that can't be verified.
    pub(crate) fn note(&self, body: &[u8], delivery: &Delivery) -> Result<(), usize> {
        let oracle = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        for (index, (line, fate)) in lines.zip(fates_of(delivery)).enumerate() {
            match sent(line) {
                Some((identity, content)) => oracle.sent(identity, content, fate),
                None if fate == Fate::Rejected => {}
                None => return Err(index),
            }
        }
        Ok(())
    }

    pub(crate) fn into_oracle(self) -> FileOracle {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileOracle {
    fn sent(&mut self, identity: Identity, content: u64, fate: Fate) {
        match self.events.entry(identity) {
            Slot::Vacant(slot) => {
                slot.insert(Kept { content, several: false, fate, found: 0 });
            }
            Slot::Occupied(mut slot) => {
                let kept = slot.get_mut();
                kept.several |= kept.content != content;
                kept.fate = kept.fate.max(fate);
            }
        }
    }

    /// The keys of the file.
    pub(crate) fn keys(&self) -> BTreeSet<String> {
        self.events.keys().map(|(key, ..)| key).collect::<BTreeSet<_>>().into_iter().cloned().collect()
    }

    /// What is wrong, once every event that is there was seen.
    pub(crate) fn verdict(self) -> Verdict {
        let mut verdict = self.verdict;
        for ((key, nanos, id), kept) in self.events {
            verdict.sent += 1;
            verdict.not_compared += u64::from(kept.several);
            match kept.fate {
                Fate::Stored => {
                    verdict.acknowledged += 1;
                    if kept.found == 0 {
                        verdict.lost.add(|| Named { key, id, ts: (nanos / 1_000_000).to_string() });
                    }
                }
                Fate::Unknown if kept.found > 0 => verdict.unknown_found += 1,
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
        let identity = found.nanos().map(|nanos| (found.key.to_string(), nanos, found.id.to_string()));
        let kept = identity.filter(|_| found.key == key).and_then(|identity| self.events.get_mut(&identity));
        let Some(kept) = kept.filter(|kept| kept.fate >= Fate::Unknown) else { return self.verdict.invented.add(name) };
        if kept.found > 0 {
            self.verdict.doubled.add(name);
        }
        kept.found = 1;
        let tags = found.tags.iter().map(|(name, value)| (&**name, &**value));
        if !kept.several && kept.content != content(found.fields.iter(), tags) {
            self.verdict.altered.add(name);
        }
    }

    fn out_of_order(&mut self, key: &str, found: &Found<'_>) {
        self.verdict.disordered.add(|| Named::found(key, found));
    }
}

/// The identity and the content of a line; `None` where it does not have both in itself.
fn sent(line: &[u8]) -> Option<(Identity, u64)> {
    let mut line: Line = serde_json::from_slice(line).ok()?;
    let nanos = match &line.ts {
        Value::String(text) => time::nanos(text)?,
        ts => ts.as_i64()?.checked_mul(1_000_000)?,
    };
    if let Some(value) = line.value.take() {
        line.fields.insert("value".into(), value);
    }
    let tags = line.tags.iter().map(|(name, value)| (&**name, &**value));
    let content = content(line.fields.iter(), tags);
    Some(((line.key, nanos, line.id), content))
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
        Delivery { result: Ok(answer), doubtful: false, started: now, ended: now, retries: 0, told_to_wait: 0, bytes: 0 }
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
        let history = FileHistory::default();
        history.note(FILE.as_bytes(), &delivery(&[4], 5)).unwrap();
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
    fn a_stored_line_without_an_identity_of_its_own_cannot_be_verified() {
        let without_id = b"{\"key\":\"k\",\"id\":\"a\",\"ts\":1}\n{\"key\":\"k\",\"ts\":1}\n";
        assert_eq!(FileHistory::default().note(without_id, &delivery(&[], 2)), Err(1));
    }
}
