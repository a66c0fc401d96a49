//! Raw events: a page of them, or a stream of the whole range.
//!
//! Both read stretch by stretch and hold one stretch at a time.

use std::sync::Arc;

use crate::Query;
use crate::cursor::{Cursor, Position};
use crate::error::QueryError;
use crate::filter::Filter;
use crate::merge::{Portion, Rows};
use crate::narrow::narrow;
use crate::plan::Order;
use crate::read::{Asked, Part, Reader, Target, work_on};
use crate::tally::Tally;
use crate::walk::length;

/// A page ends early once it holds so many bytes.
pub const PAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// A stream hands over so much at once.
const STREAM_PORTION: Portion = Portion { rows: 10_000, bytes: 256 * 1024, separator: b'\n' };
/// Width of a read's first stretch where none is remembered, nanoseconds.
const WIDTH_FIRST: i64 = 1_000_000_000;
/// Rows that are read for one event that passes conditions, at first; so many times more while few pass.
const REFUSED_GUESS: usize = 8;

/// A question for events.
#[derive(Clone, Debug)]
pub struct EventsAsked {
    /// Which events.
    pub asked: Asked,
    /// Where the page before ended.
    pub cursor: Option<Cursor>,
    /// The query's hash, which cursors carry.
    pub hash: u64,
}

/// A page of events.
#[derive(Debug)]
pub struct Page {
    /// The events, JSON, with commas between.
    pub events: Vec<u8>,
    /// Where the next page goes on.
    pub next: Option<String>,
    /// What the answer says of itself.
    pub tally: Tally,
}

/// Events under way: what is read and not given yet.
pub struct Events {
    query: Arc<Query>,
    reader: Reader,
    filter: Filter,
    order: Order,
    hash: u64,
    after: Option<Position>,
    rows: Rows,
}

impl Events {
    /// Opens a read of events.
    pub async fn open(query: Arc<Query>, ask: EventsAsked, width: i64) -> Result<Events, QueryError> {
        let EventsAsked { mut asked, cursor, hash } = ask;
        if let Some(cursor) = &cursor {
            (asked.from, asked.to) = (Some(cursor.from), Some(cursor.to));
        }
        let (filter, order) = (asked.selection.filter.clone(), asked.order);
        let mut reader = Reader::open(query.clone(), asked, width).await?;
        let after = cursor.map(|cursor| cursor.last);
        if let Some(after) = &after {
            reader.resume_at(after.ts);
        }
        Ok(Events { query, reader, filter, order, hash, after, rows: Rows::none(order) })
    }

    /// Reads and merges the next stretch, or what of it is sure to hold so many rows, if any number
    /// is given; `None` at the end of the range.
    async fn read(&mut self, rows: Option<usize>) -> Result<Option<Part>, QueryError> {
        let Some(mut part) = self.reader.next_of(rows).await? else { return Ok(None) };
        let (verified, range) = (std::mem::take(&mut part.verified), part.range);
        let (filter, order, after) = (self.filter.clone(), self.order, self.after.clone());
        let merge = move || {
            let behind = after.as_ref().map(|after| after.ts);
            let range = rows.map_or(Ok(range), |rows| narrow(&verified, range, order, rows, behind))?;
            Ok::<_, QueryError>((Rows::new(&verified, range, order, &filter, after.as_ref())?, range))
        };
        (self.rows, part.range) = work_on(part.bytes, merge).await??;
        self.reader.used(part.range);
        self.query.metrics.rows.inc_by(self.rows.left() as u64);
        Ok(Some(part))
    }

    /// Appends events that are at hand; gives their number.
    fn give(&mut self, portion: Portion, out: &mut Vec<u8>) -> usize {
        let (given, last) = self.rows.render(portion, out);
        self.after = last.or_else(|| self.after.take());
        given
    }

    /// The cursor behind what was given, unless nothing can follow.
    fn next(&self) -> Option<String> {
        let last = self.after.clone().filter(|_| !self.rows.is_empty() || !self.reader.is_done())?;
        let range = self.reader.range();
        Some(Cursor { from: range.from, to: range.to, last }.seal(self.hash))
    }

    /// What the answer says of itself so far.
    pub fn tally(&self) -> &Tally {
        &self.reader.tally
    }
}

/// Reads a page of at most `limit` events.
pub async fn page(query: Arc<Query>, ask: EventsAsked, limit: usize) -> Result<Page, QueryError> {
    let hint = Hint::of(&ask.asked);
    let mut events = Events::open(query.clone(), ask, hint.width(&query)).await?;
    let (mut out, mut given, mut walked) = (Vec::new(), 0, 0_i64);
    // How many rows it takes to find one event: a guess where conditions refuse some.
    let guess = if events.filter.is_empty() { 1 } else { REFUSED_GUESS };
    let mut rows_each = guess;
    while given < limit && out.len() < PAGE_BYTES_MAX {
        let Some(part) = events.read(Some((limit - given).saturating_mul(rows_each))).await? else { break };
        if given > 0 && !events.rows.is_empty() {
            out.push(b',');
        }
        let found = events.rows.left();
        let portion = Portion { rows: limit - given, bytes: PAGE_BYTES_MAX.saturating_sub(out.len()).max(1), separator: b',' };
        let here = events.give(portion, &mut out);
        given += here;
        walked = needed(length(part.range), here, found).saturating_add(walked);
        if here * 4 < limit - given {
            events.reader.grow(part.bytes);
            rows_each = rows_each.saturating_mul(guess);
        }
    }
    if given == limit {
        hint.remember(&query, walked);
    }
    Ok(Page { events: out, next: events.next(), tally: events.reader.tally })
}

/// How much of a stretch a page would have needed, nanoseconds: a little more than its share.
fn needed(width: i64, given: usize, found: usize) -> i64 {
    let share = (given as f64 * 1.25 / found.max(1) as f64).min(1.0);
    if found == 0 { width } else { ((width as f64 * share) as i64).max(1) }
}

/// The width that worked for a key when it was read before, for reads without conditions.
struct Hint(Option<Asked>);

impl Hint {
    fn of(asked: &Asked) -> Hint {
        Hint(asked.selection.filter.is_empty().then(|| asked.clone()))
    }

    fn width(&self, query: &Query) -> i64 {
        self.0.as_ref().and_then(|asked| query.hint(&asked.ns, key_of(asked))).unwrap_or(WIDTH_FIRST)
    }

    fn remember(&self, query: &Query, width: i64) {
        if let Some(asked) = &self.0 {
            query.remember(&asked.ns, key_of(asked), width);
        }
    }
}

fn key_of(asked: &Asked) -> &str {
    match &asked.target {
        Target::Key(key) | Target::Prefix(key) => key,
    }
}

/// A stream of events as NDJSON: first [`EventStream::open`], then portions until the end line.
pub struct EventStream {
    events: Events,
    /// Events that may still be given.
    left: usize,
    given: u64,
    ended: bool,
}

impl EventStream {
    /// Opens a stream of at most `limit` events and reads its first stretch, so that what is wrong
    /// is known before the answer begins.
    pub async fn open(query: Arc<Query>, ask: EventsAsked, limit: Option<usize>) -> Result<EventStream, QueryError> {
        let mut events = Events::open(query, ask, WIDTH_FIRST).await?;
        if let Some(part) = events.read(None).await? {
            events.reader.grow(part.bytes);
        }
        Ok(EventStream { events, left: limit.unwrap_or(usize::MAX), given: 0, ended: false })
    }

    /// The next lines; the last ones are followed by the end line, made by `end` from the account,
    /// the number of events given and the cursor behind them. `None` after that.
    pub async fn next(&mut self, end: impl Fn(&Tally, u64, Option<String>, &mut Vec<u8>)) -> Result<Option<Vec<u8>>, QueryError> {
        if self.ended {
            return Ok(None);
        }
        while self.events.rows.is_empty() && self.left > 0 {
            let Some(part) = self.events.read(None).await? else { break };
            self.events.reader.grow(part.bytes);
        }
        let mut out = Vec::new();
        let given = self.events.give(Portion { rows: STREAM_PORTION.rows.min(self.left), ..STREAM_PORTION }, &mut out);
        (self.left, self.given) = (self.left - given, self.given + given as u64);
        if given == 0 {
            self.ended = true;
            end(self.events.tally(), self.given, self.events.next(), &mut out);
        }
        Ok(Some(out))
    }
}
