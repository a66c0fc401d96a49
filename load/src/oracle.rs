//! The oracle: what must stand in the server after a verified run, checked event by event.
//!
//! It shares no logic with the service: it parses answers itself, knows no placement, and knows of an
//! event only what was sent. It is told of every event that a read found, in any order ([`Judge::see`]),
//! and says at the end what is wrong ([`Oracle::verdict`]). Two more bits an event are its memory.
//! [`file`] does the same for a file that was replayed.

pub(crate) mod event;
pub(crate) mod file;
pub(crate) mod keys;
pub(crate) mod read_back;
mod time;

use std::sync::Arc;

use serde::Serialize;

use crate::client::Format;
use crate::history::{Fate, History, Pairs};
use crate::workload::write::{hex, note};
use crate::workload::{Event, REGIONS, Workload};
use event::Found;

/// Events of each fault that are named.
const NAMED_MAX: usize = 20;

/// An event that something is wrong with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Named {
    pub(crate) key: String,
    pub(crate) id: String,
    /// As it was read; what was sent is in milliseconds since the Unix epoch.
    pub(crate) ts: String,
}

/// A kind of fault: how often, and where first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Faults {
    pub(crate) count: u64,
    /// The first ones.
    pub(crate) named: Vec<Named>,
}

impl Named {
    fn found(key: &str, found: &Found<'_>) -> Named {
        Named { key: key.to_owned(), id: found.id.to_string(), ts: found.ts.to_string() }
    }
}

impl Faults {
    fn add(&mut self, name: impl FnOnce() -> Named) {
        self.count += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push(name());
        }
    }
}

/// What verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Verdict {
    /// Distinct events that were sent.
    pub(crate) sent: u64,
    /// Of these, acknowledged.
    pub(crate) acknowledged: u64,
    /// Of these, with an unknown outcome: found, and not found. Either is right.
    pub(crate) unknown_found: u64,
    pub(crate) unknown_absent: u64,
    /// Of these, sent with several contents, so that only their presence was checked.
    pub(crate) not_compared: u64,
    /// Events that were read back.
    pub(crate) found: u64,
    /// Acknowledged and not there.
    pub(crate) lost: Faults,
    /// There and never sent, or refused.
    pub(crate) invented: Faults,
    /// There more than once; each further time counts.
    pub(crate) doubled: Faults,
    /// There with other content than was sent.
    pub(crate) altered: Faults,
    /// Not after the event before it in its stream.
    pub(crate) disordered: Faults,
}

impl Verdict {
    /// The faults by name, those that did not occur too.
    pub(crate) fn faults(&self) -> [(&'static str, &Faults); 5] {
        [
            ("lost", &self.lost),
            ("invented", &self.invented),
            ("doubled", &self.doubled),
            ("altered", &self.altered),
            ("disordered", &self.disordered),
        ]
    }

    pub(crate) fn holds(&self) -> bool {
        self.faults().iter().all(|(_, faults)| faults.count == 0)
    }
}

/// Is told what a read found.
pub(crate) trait Judge: Send + 'static {
    /// An event was found under `key`.
    fn see(&mut self, key: &str, found: &Found<'_>);
    /// An event was found that does not come after the one before it.
    fn out_of_order(&mut self, key: &str, found: &Found<'_>);
    /// How many were found, and about how many there are to find.
    fn progress(&self) -> (u64, u64);
}

/// Knows what was sent and what was found so far.
pub(crate) struct Oracle {
    workload: Arc<Workload>,
    history: Arc<History>,
    slots: u64,
    /// Line protocol carries the id as a tag, which stays one.
    id_is_a_tag: bool,
    /// Whether each event was found.
    found: Pairs,
    verdict: Verdict,
}

impl Oracle {
    /// `slots` is how many the run dealt out.
    pub(crate) fn new(workload: Arc<Workload>, history: Arc<History>, slots: u64, format: Format) -> Oracle {
        let id_is_a_tag = format == Format::Line;
        Oracle { workload, history, slots, id_is_a_tag, found: Pairs::default(), verdict: Verdict::default() }
    }

    /// The event of this identity that may be there.
    fn sent(&self, key: &str, found: &Found<'_>) -> Option<Event> {
        let slot = self.workload.slot_of_id(parse_hex(&found.id)?);
        let sent = slot < self.slots && self.workload.origin(slot) == slot;
        let event = sent.then(|| self.workload.event(slot)).filter(|_| self.history.fate(slot) >= Fate::Unknown)?;
        let nanos = event.millis.checked_mul(1_000_000)?;
        let in_place = found.nanos() == Some(nanos) && found.key == key && self.workload.keys.name(event.key) == key;
        in_place.then_some(event)
    }

    fn is_as_sent(&self, event: &Event, found: &Found<'_>) -> bool {
        let note = note(event.id, self.workload.shape.note_bytes);
        let fields = &found.fields;
        let has_note = fields.text("note").map(str::as_bytes) == (!note.is_empty()).then_some(note);
        let id = hex(event.id);
        let has_id = found.tags.get("id").map(|id| id.as_bytes()) == self.id_is_a_tag.then_some(&id[..]);
        fields.number("amount") == Some(f64::from(event.cents) / 100.0)
            && fields.integer("qty") == Some(i64::from(event.quantity))
            && has_note
            && fields.len() == 2 + usize::from(!note.is_empty())
            && found.tags.get("region").is_some_and(|region| region == REGIONS[event.region])
            && has_id
            && found.tags.len() == 1 + usize::from(self.id_is_a_tag)
    }

    /// What is wrong, once every event that is there was seen.
    pub(crate) fn verdict(mut self) -> Verdict {
        for slot in (0..self.slots).filter(|slot| self.workload.origin(*slot) == *slot) {
            let fate = self.history.fate(slot);
            let found = self.found.get(slot) > 0;
            let verdict = &mut self.verdict;
            verdict.sent += u64::from(fate > Fate::Unsent);
            match fate {
                Fate::Stored => {
                    verdict.acknowledged += 1;
                    if !found {
                        let event = self.workload.event(slot);
                        verdict.lost.add(|| named(&self.workload, &event));
                    }
                }
                Fate::Unknown if found => verdict.unknown_found += 1,
                Fate::Unknown => verdict.unknown_absent += 1,
                Fate::Unsent | Fate::Rejected => {}
            }
        }
        self.verdict
    }
}

impl Judge for Oracle {
    fn see(&mut self, key: &str, found: &Found<'_>) {
        self.verdict.found += 1;
        let name = || Named::found(key, found);
        let Some(event) = self.sent(key, found) else { return self.verdict.invented.add(name) };
        match self.found.get(event.slot) {
            0 => self.found.set(event.slot, 1),
            _ => self.verdict.doubled.add(name),
        }
        if !self.is_as_sent(&event, found) {
            self.verdict.altered.add(name);
        }
    }

    fn out_of_order(&mut self, key: &str, found: &Found<'_>) {
        self.verdict.disordered.add(|| Named::found(key, found));
    }

    fn progress(&self) -> (u64, u64) {
        (self.verdict.found, self.slots)
    }
}

fn named(workload: &Workload, event: &Event) -> Named {
    let id = hex(event.id).map(char::from).iter().collect();
    Named { key: workload.keys.name(event.key), id, ts: event.millis.to_string() }
}

/// 16 lower-case digits, as they were sent.
fn parse_hex(id: &str) -> Option<u64> {
    let sent = id.len() == 16 && id.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    sent.then(|| u64::from_str_radix(id, 16).ok()).flatten()
}

#[cfg(test)]
mod tests;
