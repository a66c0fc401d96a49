//! What was sent and what became of it, and what any read must therefore show.

use std::collections::BTreeMap;

use braid_shared::model::Timestamp;
use serde_json::Value;

/// Fields that writes set; each write gives its own number to those it sets.
pub(crate) static FIELDS: [&str; 2] = ["a", "b"];

/// The tag that some layouts shard by: of an id always the same, so that it never tells two events apart.
pub(crate) fn region(id: &str) -> Option<&'static str> {
    let number: usize = id.strip_prefix("id-")?.parse().ok()?;
    [None, Some("eu"), Some("us")][number % 3]
}

/// An event's identity.
pub(crate) type Identity = (&'static str, i64, String);

/// What became of a write, as its client heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nothing yet.
    Open,
    /// Stored.
    Acknowledged,
    /// Nobody knows.
    Unknown,
    /// Not stored.
    Refused,
}

/// One event sent once. Its number is the value of the fields it sets.
#[derive(Clone, Debug)]
struct Write {
    event: Identity,
    fields: &'static [&'static str],
    node: usize,
    sent: u64,
    fate: Fate,
    /// When its client heard, or gave up.
    ended: u64,
}

/// A read, and what it asks for.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) key: &'static str,
    pub(crate) from: Option<i64>,
    pub(crate) to: Option<i64>,
    pub(crate) descending: bool,
    /// One event's id.
    pub(crate) id: Option<String>,
    /// Only events of this region.
    pub(crate) region: Option<&'static str>,
    /// As of when: what was acknowledged before must be there.
    pub(crate) asked: u64,
}

/// What an answer says of itself: where it begins and ends, and whether it shows every write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) strong: bool,
}

/// A row of an answer.
type Row = ((i64, String), BTreeMap<String, usize>);

/// All that was sent.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    /// Counts what the clients see, one after another.
    pub(crate) now: u64,
    /// What lies before may be dropped.
    pub(crate) dropped_max: i64,
    writes: Vec<Write>,
    by_event: BTreeMap<Identity, Vec<usize>>,
}

impl Oracle {
    /// The next instant.
    pub(crate) fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// Notes a write that is about to be sent; gives its number.
    pub(crate) fn send(&mut self, event: Identity, fields: &'static [&'static str], node: usize) -> usize {
        let (number, sent) = (self.writes.len(), self.tick());
        self.by_event.entry(event.clone()).or_default().push(number);
        self.writes.push(Write { event, fields, node, sent, fate: Fate::Open, ended: u64::MAX });
        number
    }

    pub(crate) fn end(&mut self, number: usize, fate: Fate) {
        let ended = self.tick();
        let write = &mut self.writes[number];
        if write.fate == Fate::Open {
            (write.fate, write.ended) = (fate, ended);
        }
    }

    /// Events sent before, the last ones first.
    pub(crate) fn recent(&self) -> impl Iterator<Item = &Identity> {
        self.writes.iter().rev().map(|write| &write.event)
    }

    pub(crate) fn count(&self, fate: Fate) -> usize {
        self.writes.iter().filter(|write| write.fate == fate).count()
    }

    /// Checks an answer that says it is as whole as it can be: rows as they came, and what it says of itself.
    pub(crate) fn check(&self, read: &Read, rows: &[Value], answered: Answered) -> Result<(), String> {
        let Answered { from, to, .. } = answered;
        if from > read.from.unwrap_or(i64::MIN).max(self.dropped_max) {
            return Err(format!("the answer begins at {from}, and nothing from {} on may be dropped", self.dropped_max));
        }
        let rows = rows.iter().map(parsed).collect::<Result<Vec<Row>, String>>()?;
        let inside = |ts: i64| ts >= from && read.from.is_none_or(|from| ts >= from) && read.to.is_none_or(|end| ts < end);
        in_order(read, &rows)?;
        if let Some(((ts, id), _)) = rows.iter().find(|((ts, _), _)| !inside(*ts) || *ts >= to) {
            return Err(format!("{id} at {ts} lies outside of the range asked for or answered"));
        }
        let rows: BTreeMap<_, _> = rows.into_iter().collect();
        for (event, numbers) in self.by_event.range((read.key, i64::MIN, String::new())..).take_while(|(event, _)| event.0 == read.key) {
            let (_, ts, id) = event;
            if !inside(*ts) || read.leaves_out(id) {
                continue;
            }
            self.event_is_whole(read, event, numbers, rows.get(&(*ts, id.clone())), answered)?;
        }
        let asked_for = |ts: i64, id: &String| !read.leaves_out(id) && self.by_event.contains_key(&(read.key, ts, id.clone()));
        let unknown = rows.keys().find(|(ts, id)| !asked_for(*ts, id));
        unknown.map_or(Ok(()), |(ts, id)| Err(format!("{id} at {ts} was never sent, or not asked for")))
    }

    fn event_is_whole(
        &self,
        read: &Read,
        event: &Identity,
        numbers: &[usize],
        row: Option<&BTreeMap<String, usize>>,
        Answered { to, strong, .. }: Answered,
    ) -> Result<(), String> {
        let all = || numbers.iter().map(|number| (number, &self.writes[*number]));
        let owed = || all().filter(|(_, write)| strong && write.is_owed(read.asked));
        let Some(row) = row else {
            return match owed().next() {
                None => Ok(()),
                Some((number, _)) if event.1 >= to => {
                    Err(format!("the answer ends at {to}, before {event:?}, acknowledged as write {number}"))
                }
                Some((number, _)) => Err(format!("{event:?} is missing, acknowledged as write {number}")),
            };
        };
        for (number, write) in owed() {
            if let Some(field) = write.fields.iter().find(|field| !row.contains_key(**field)) {
                return Err(format!("{event:?} lacks field {field}, acknowledged as write {number}"));
            }
        }
        row.iter().try_for_each(|(field, number)| self.value_may_be(read, event, field, *number, strong))
    }

    /// A value is of a write of this event that was not refused, and that no later one of the same
    /// node, acknowledged before the read, must have covered.
    fn value_may_be(&self, read: &Read, event: &Identity, field: &str, number: usize, strong: bool) -> Result<(), String> {
        let found = self.writes.get(number).filter(|write| write.event == *event && write.fields.contains(&field));
        let Some(write) = found else { return Err(format!("{event:?} has {field}={number}, which nobody sent")) };
        if write.fate == Fate::Refused {
            return Err(format!("{event:?} has {field}={number}, a write that was refused"));
        }
        let covers = |other: &Write| {
            strong && other.node == write.node && other.sent > write.ended && other.is_owed(read.asked) && other.fields.contains(&field)
        };
        match self.by_event[event].iter().find(|other| covers(&self.writes[**other])) {
            Some(other) => Err(format!("{event:?} has {field}={number}, but the same node acknowledged write {other} later")),
            None => Ok(()),
        }
    }
}

impl Read {
    fn leaves_out(&self, id: &str) -> bool {
        self.id.as_ref().is_some_and(|only| only != id) || self.region.is_some() && self.region != region(id)
    }
}

impl Write {
    fn is_owed(&self, asked: u64) -> bool {
        self.fate == Fate::Acknowledged && self.ended < asked
    }
}

fn in_order(read: &Read, rows: &[Row]) -> Result<(), String> {
    let wrong = rows.windows(2).find(|pair| if read.descending { pair[0].0 <= pair[1].0 } else { pair[0].0 >= pair[1].0 });
    wrong.map_or(Ok(()), |pair| Err(format!("rows are out of order: {:?} before {:?}", pair[0].0, pair[1].0)))
}

fn parsed(row: &Value) -> Result<Row, String> {
    let unreadable = || format!("an unreadable row: {row}");
    let ts = row["ts"].as_str().and_then(|text| Timestamp::parse_rfc3339(text).ok()).ok_or_else(unreadable)?;
    let id = row["id"].as_str().ok_or_else(unreadable)?.to_owned();
    let fields = row["fields"].as_object().ok_or_else(unreadable)?.iter();
    let fields =
        fields.map(|(name, value)| Some((name.clone(), value.as_u64()? as usize))).collect::<Option<_>>().ok_or_else(unreadable)?;
    Ok(((ts.nanos(), id), fields))
}
