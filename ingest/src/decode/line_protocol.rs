//! InfluxDB line protocol, v2 syntax: a body is cut into lines, each line into one row.
//!
//! Owns where a line begins and ends and what a broken one costs; what stands in a line is
//! `row`'s. Where the published syntax is silent, InfluxDB's own parser decides.
//!
//! A newline ends a line unless it stands in a quoted string; nothing else escapes it. A string
//! whose quote is missing therefore runs on to the next quote, as in InfluxDB. Where there is no
//! next quote, or that one plainly opens the string of a later line, the missing quote costs its
//! own line only; InfluxDB would lose all that follows. But what stands inside a sound string of a
//! refused line is never read as a line. Work is linear in the body whatever it holds.

mod cursor;
#[cfg(test)]
mod lines;
mod name;
#[cfg(test)]
mod properties;
mod row;
mod series;
#[cfg(test)]
mod tests;
mod value;

use braid_shared::model::{Batch, Precision};
use memchr::{memchr, memchr_iter, memchr2};

use super::{check_events, check_values};
use crate::fault::Fault;
use cursor::{Cursor, string_end};
use row::read_row;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// How lines are to be read.
#[derive(Clone, Copy, Debug)]
pub struct LineOptions<'o> {
    /// Unit of the timestamps.
    pub precision: Precision,
    /// The tag whose value is the id of a line that has it; all others are named by their tag set.
    pub id_tag: Option<&'o str>,
}

/// Decodes a body into rows. A line without a timestamp has no time yet: the lines of one request
/// share the time of receipt.
pub fn decode<'a>(body: &'a [u8], options: &LineOptions<'_>) -> Result<Batch<'a>, Fault> {
    let body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
    let mut lines = Lines { cursor: Cursor::new(body), line: 1, events: 0, batch: Batch::default() };
    while lines.find_row() {
        lines.read(options)?;
    }
    Ok(lines.batch)
}

/// A walk through one body.
struct Lines<'a> {
    cursor: Cursor<'a>,
    /// Physical line of the cursor, from 1.
    line: u32,
    /// Rows begun so far, good and bad.
    events: u32,
    batch: Batch<'a>,
}

impl<'a> Lines<'a> {
    /// Moves to the next line that is neither blank nor a comment; false at the end.
    fn find_row(&mut self) -> bool {
        loop {
            self.cursor.skip_blanks();
            match self.cursor.peek() {
                None => return false,
                Some(b'#') => self.pass(line_end(self.cursor.bytes, self.cursor.at)),
                Some(_) if self.cursor.at_line_end() => self.pass(line_end(self.cursor.bytes, self.cursor.at)),
                Some(_) => return true,
            }
        }
    }

    /// Reads the row at hand, good or bad, and moves past it.
    fn read(&mut self, options: &LineOptions<'_>) -> Result<(), Fault> {
        check_events(self.events as usize)?;
        let (start, index, line) = (self.cursor.at, self.events, self.line);
        self.events += 1;
        self.cursor.validate();
        let (fields, tags) = (self.batch.fields.len(), self.batch.tags.len());
        let end = match read_row(&mut self.cursor, options, &mut self.batch) {
            Ok(row) => {
                self.batch.rows.push(row.numbered(index, line));
                check_values(&self.batch)?;
                line_end(self.cursor.bytes, self.cursor.at)
            }
            Err(fault) => {
                self.batch.fields.truncate(fields);
                self.batch.tags.truncate(tags);
                let end = row_end(self.cursor.bytes, start);
                let fault = self.cursor.encoding_fault(start, end).unwrap_or(fault);
                self.batch.faults.push(fault.of_row(index, line));
                end
            }
        };
        self.cursor.at = start;
        self.pass(end);
        Ok(())
    }

    /// Moves past the newline at `end`, counting the lines that are passed.
    fn pass(&mut self, end: usize) {
        let next = self.cursor.bytes.len().min(end + 1);
        self.line += memchr_iter(b'\n', &self.cursor.bytes[self.cursor.at..next]).count() as u32;
        self.cursor.at = next;
    }
}

/// The first newline from `at`, or the end of the body.
fn line_end(body: &[u8], at: usize) -> usize {
    memchr(b'\n', &body[at..]).map_or(body.len(), |length| at + length)
}

/// Where a refused row that begins at `start` ends: the first newline outside of its strings. A
/// string begins at a quote right behind an equals sign of the field set.
fn row_end(body: &[u8], start: usize) -> usize {
    let Some(mut at) = fields_start(body, start) else {
        return line_end(body, start);
    };
    while let Some(length) = memchr2(b'\n', b'"', &body[at..]) {
        at += length;
        if body[at] == b'\n' {
            return at;
        }
        if !matches!(body[..at], [.., before, b'='] if before != b'\\') {
            at += 1;
            continue;
        }
        // Linear: between a quote and what closes it stands no quote that opens a string, so no
        // byte is passed here for more than two rows.
        match string_end(body, at + 1) {
            Some(close) if !opens_later(body, at, close) => at = close + 1,
            _ => return line_end(body, at),
        }
    }
    body.len()
}

/// Whether the quote at `close` rather opens a string of its own, the one at `open` never being
/// closed: it stands on a later line, behind an equals sign, and nothing that may follow a string
/// follows it.
fn opens_later(body: &[u8], open: usize, close: usize) -> bool {
    let ends_value = matches!(body.get(close + 1), None | Some(b',' | b' ' | b'\r' | b'\n'));
    !ends_value && body[close - 1] == b'=' && memchr(b'\n', &body[open..close]).is_some()
}

/// The first unescaped space of the line that begins at `start`.
fn fields_start(body: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    loop {
        at += memchr2(b' ', b'\n', &body[at..])?;
        match (body[at], at > start && body[at - 1] == b'\\') {
            (b'\n', _) => return None,
            (_, false) => return Some(at),
            (_, true) => at += 1,
        }
    }
}
