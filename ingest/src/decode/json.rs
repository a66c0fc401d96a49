//! JSON bodies: an array, or objects one after another (NDJSON among them).
//!
//! Owns how a body is cut into events and what a broken event costs; what an event may hold is
//! `event`'s. A broken line costs itself, a broken array is refused whole, for nobody can say
//! where its elements end. Work is linear in the body whatever it holds.

mod event;
mod media_type;
mod scalar;
#[cfg(test)]
mod tests;

use braid_shared::codes;
use braid_shared::limits::JSON_DEPTH_MAX;
use braid_shared::model::{Batch, Precision};
use serde::de::{Deserialize, IgnoredAny};
use serde_json::Deserializer;

use super::{check_events, check_values};
use crate::fault::Fault;
use event::{Parts, Refusal, read_event};

pub use media_type::JsonFormat;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Decodes a body into rows. Integer times are in `precision`.
pub fn decode_json(body: &[u8], format: JsonFormat, precision: Precision) -> Result<Batch<'_>, Fault> {
    let text = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
    let (sound, lookahead) = (std::str::from_utf8(text).ok(), text.len());
    let mut decoder = Decoder { text, sound, at: 0, line: 1, line_end: 0, events: 0, lookahead, precision, batch: Batch::default() };
    match format {
        JsonFormat::Lines => decoder.lines()?,
        JsonFormat::Sniff => decoder.sniff()?,
    }
    Ok(decoder.batch)
}

/// A walk through one body.
struct Decoder<'a> {
    text: &'a [u8],
    /// The same where all of it is UTF-8, so that its strings need not be checked one by one.
    sound: Option<&'a str>,
    /// Next byte to read.
    at: usize,
    /// Line of `at`, from 1; arrays do not keep it.
    line: u32,
    /// End of the line of `at`, as far as it is known.
    line_end: usize,
    /// Events begun so far, good and bad.
    events: usize,
    /// Bytes that may still be spent on objects over several lines that turn out to be broken.
    /// Without this bound, lines that each open an object would cost the square of the body.
    lookahead: usize,
    precision: Precision,
    batch: Batch<'a>,
}

impl<'a> Decoder<'a> {
    /// Every line that is not blank is one event.
    fn lines(&mut self) -> Result<(), Fault> {
        while self.skip_space() {
            let (index, line) = (self.begin_event()?, self.line);
            let text = self.rest_of_line();
            match self.read(text.len()) {
                Ok((parts, taken)) if is_blank(&text[taken..]) => self.push(parts, index, line)?,
                Ok((parts, taken)) => self.refuse(Some(parts), trailing(taken), index, line),
                Err(refusal) => self.refuse(None, explain(text, refusal), index, line),
            }
            self.at = self.line_end;
        }
        Ok(())
    }

    /// An array if it begins like one, else objects one after another.
    fn sniff(&mut self) -> Result<(), Fault> {
        if !self.skip_space() {
            return Err(malformed("the body holds no event"));
        }
        if self.text[self.at] == b'[' { self.array() } else { self.objects() }
    }

    /// Elements of a sound array fail one by one; the first sign that the array itself is broken
    /// refuses it whole.
    fn array(&mut self) -> Result<(), Fault> {
        self.at += 1;
        let mut open = self.skip_space() && self.text[self.at] != b']';
        while open {
            self.element()?;
            open = match self.peek_past_space() {
                Some(b',') => true,
                Some(b']') => false,
                _ => return Err(self.broken_array("expected , or ]", self.at)),
            };
            self.at += usize::from(open);
        }
        if self.peek_past_space() != Some(b']') {
            return Err(self.broken_array("the array has no end", self.at));
        }
        self.at += 1;
        if self.skip_space() { Err(self.broken_array("characters follow the array", self.at)) } else { Ok(()) }
    }

    fn element(&mut self) -> Result<(), Fault> {
        let index = self.begin_event()?;
        self.skip_space();
        let rest = &self.text[self.at..];
        match self.read(rest.len()) {
            Ok((parts, taken)) => {
                self.push(parts, index, 0)?;
                self.at += taken;
            }
            Err(refusal) => {
                let (end, sound) = skip_value(rest);
                sound.map_err(|error| self.broken_array(&reason(&error), self.at + end))?;
                self.refuse(None, explain(&rest[..end], refusal), index, 0);
                self.at += end;
            }
        }
        Ok(())
    }

    /// Objects one after another, in whatever lines. What stands whole on its line is settled
    /// there; only an object that goes on past it is looked for in the lines that follow.
    fn objects(&mut self) -> Result<(), Fault> {
        while self.skip_space() {
            let (index, line) = (self.begin_event()?, self.line);
            let text = self.rest_of_line();
            match self.read(text.len()) {
                Ok((parts, taken)) => self.settle(Ok(parts), taken, index, line)?,
                Err(refusal) => match skip_value(text) {
                    (end, Ok(())) => self.settle(Err(explain(&text[..end], refusal)), end, index, line)?,
                    (_, Err(error)) if error.is_eof() && text[0] == b'{' => self.object_over_lines(index, line)?,
                    (_, Err(_)) => {
                        self.refuse(None, explain(text, refusal), index, line);
                        self.at = self.line_end;
                    }
                },
            }
        }
        Ok(())
    }

    /// An object that goes on past its line. If it turns out broken, it costs its own line and
    /// those after it that do not begin an object.
    fn object_over_lines(&mut self, index: u32, line: u32) -> Result<(), Fault> {
        let rest = &self.text[self.at..self.text.len().min(self.at + self.lookahead)];
        let (end, sound) = skip_value(rest);
        let Err(error) = sound else {
            let text = &rest[..end];
            let outcome = self.read(text.len()).map(|(parts, _)| parts).map_err(|refusal| explain(text, refusal));
            return self.settle(outcome, end, index, line);
        };
        self.lookahead -= end;
        self.refuse(None, explain(&rest[..end], Refusal::Syntax(error)), index, line);
        let passed_its_line = self.at + end > self.line_end + 1;
        self.at = self.line_end;
        while passed_its_line && self.skip_space() && self.text[self.at] != b'{' {
            self.rest_of_line();
            self.at = self.line_end;
        }
        Ok(())
    }

    /// Keeps or refuses what ends `taken` bytes on. Space or another object may follow it; anything
    /// else is part of the mistake, up to the end of the line.
    fn settle(&mut self, outcome: Result<Parts<'a>, Fault>, taken: usize, index: u32, line: u32) -> Result<(), Fault> {
        self.advance(taken);
        let after = self.rest_of_line();
        let follows = after.iter().copied().find(|byte| !is_space(*byte));
        let clean = matches!(follows, None | Some(b'{'));
        match outcome {
            Ok(parts) if clean => self.push(parts, index, line)?,
            Ok(parts) => self.refuse(Some(parts), trailing(taken), index, line),
            Err(fault) => self.refuse(None, fault, index, line),
        }
        if !clean {
            self.at = self.line_end;
        }
        Ok(())
    }

    /// Counts an event before anything is kept of it.
    fn begin_event(&mut self) -> Result<u32, Fault> {
        check_events(self.events)?;
        self.events += 1;
        Ok(self.events as u32 - 1)
    }

    /// Reads an event from the next `length` bytes.
    fn read(&mut self, length: usize) -> Result<(Parts<'a>, usize), Refusal> {
        let range = self.at..self.at + length;
        match self.sound.and_then(|sound| sound.get(range.clone())) {
            Some(text) => read_event(Deserializer::from_str(text), self.precision, &mut self.batch),
            None => read_event(Deserializer::from_slice(&self.text[range]), self.precision, &mut self.batch),
        }
    }

    fn push(&mut self, parts: Parts<'a>, index: u32, line: u32) -> Result<(), Fault> {
        let row = parts.into_row(index, line);
        self.batch.rows.push(row);
        check_values(&self.batch)
    }

    fn refuse(&mut self, parts: Option<Parts<'a>>, fault: Fault, index: u32, line: u32) {
        if let Some(parts) = parts {
            parts.take_back(&mut self.batch);
        }
        self.batch.faults.push(fault.of_row(index, line));
    }

    /// Moves to the next byte that is not space; false at the end.
    fn skip_space(&mut self) -> bool {
        while let Some(byte) = self.text.get(self.at)
            && is_space(*byte)
        {
            self.line += u32::from(*byte == b'\n');
            self.at += 1;
        }
        self.at < self.text.len()
    }

    fn peek_past_space(&mut self) -> Option<u8> {
        self.skip_space();
        self.text.get(self.at).copied()
    }

    fn advance(&mut self, bytes: usize) {
        let passed = &self.text[self.at..self.at + bytes];
        self.line += memchr::memchr_iter(b'\n', passed).count() as u32;
        self.at += bytes;
    }

    /// What is left of the current line. Its end is looked up once a line, however many events
    /// stand on it.
    fn rest_of_line(&mut self) -> &'a [u8] {
        if self.at > self.line_end || self.line_end == 0 {
            self.line_end = memchr::memchr(b'\n', &self.text[self.at..]).map_or(self.text.len(), |length| self.at + length);
        }
        &self.text[self.at..self.line_end]
    }

    fn broken_array(&self, why: &str, at: usize) -> Fault {
        let before = &self.text[..at.min(self.text.len())];
        let line = memchr::memchr_iter(b'\n', before).count() + 1;
        let column = before.len() - memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1) + 1;
        malformed(format!("the JSON array is broken at line {line}, column {column}: {why}; nothing of it was stored"))
    }
}

/// Walks over one JSON value of any depth without recursion. The bytes walked, and whether they
/// follow JSON's grammar; bytes that are not UTF-8, lone surrogates and huge numbers do.
fn skip_value(text: &[u8]) -> (usize, serde_json::Result<()>) {
    let mut json = Deserializer::from_slice(text);
    let sound = IgnoredAny::deserialize(&mut json).map(|_| ());
    (json.into_iter::<IgnoredAny>().byte_offset(), sound)
}

/// The reason an event was refused. What is wrong with its bytes goes before what is wrong with its
/// members, which may be a consequence.
fn explain(text: &[u8], refusal: Refusal) -> Fault {
    if let Err(error) = std::str::from_utf8(text) {
        return Fault::new(codes::INVALID_UTF8, format!("not UTF-8 at byte {} of the event", error.valid_up_to() + 1));
    }
    if is_too_deep(text) {
        return Fault::new(codes::EVENT_MALFORMED, format!("nested more than {JSON_DEPTH_MAX} deep"));
    }
    match refusal {
        Refusal::Rule(fault) => fault,
        Refusal::Syntax(error) => Fault::new(codes::EVENT_MALFORMED, format!("not JSON: {}", reason(&error))),
    }
}

/// Whether brackets outside strings nest deeper than the limit.
fn is_too_deep(text: &[u8]) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    text.iter().any(|byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > JSON_DEPTH_MAX
    })
}

fn malformed(detail: impl Into<String>) -> Fault {
    Fault::new(codes::BODY_MALFORMED, detail)
}

fn trailing(taken: usize) -> Fault {
    Fault::new(codes::EVENT_MALFORMED, format!("characters follow the event's end at byte {}", taken + 1))
}

/// An error's message without its position, which counts from where parsing began.
fn reason(error: &serde_json::Error) -> String {
    let message = error.to_string();
    message.split_once(" at line ").map_or(&*message, |(reason, _)| reason).to_owned()
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_blank(text: &[u8]) -> bool {
    text.iter().all(|byte| is_space(*byte))
}
