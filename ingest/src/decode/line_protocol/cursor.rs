//! A place in a body, and the parts of the body that are sound UTF-8.
//!
//! Scanning is by bytes; text is handed out only through [`Cursor::text`], so that nothing that
//! is not UTF-8 can leave.

use braid_shared::codes;
use memchr::memchr2;

use crate::fault::Fault;

/// Bytes of a name or value that an error repeats.
const SHOWN_CHARS_MAX: usize = 64;

/// A row that is not line protocol.
pub(super) fn malformed(detail: impl Into<String>) -> Fault {
    Fault::new(codes::EVENT_MALFORMED, detail)
}

/// A place in a body.
pub(super) struct Cursor<'a> {
    /// The whole body.
    pub(super) bytes: &'a [u8],
    /// Next byte to read.
    pub(super) at: usize,
    /// A part of the body that is sound UTF-8; what follows it is not, unless it is the end.
    sound: &'a str,
    /// Where that part begins.
    sound_from: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        let sound = sound_prefix(bytes);
        Cursor { bytes, at: 0, sound, sound_from: 0 }
    }

    fn sound_end(&self) -> usize {
        self.sound_from + self.sound.len()
    }

    /// To be called where a row begins: looks for the next sound part once the last is left behind.
    pub(super) fn validate(&mut self) {
        if self.at >= self.sound_end() && self.sound_end() < self.bytes.len() {
            self.sound = sound_prefix(&self.bytes[self.at..]);
            self.sound_from = self.at;
        }
    }

    /// The fault of the row in `start..end`, if not all of it is UTF-8.
    pub(super) fn encoding_fault(&self, start: usize, end: usize) -> Option<Fault> {
        let sound = self.sound_end();
        (sound < end).then(|| Fault::new(codes::INVALID_UTF8, format!("the line is not UTF-8 from its byte {}", sound - start)))
    }

    /// The text in `from..to`, of which the ends stand at ASCII characters.
    pub(super) fn text(&self, from: usize, to: usize) -> Result<&'a str, Fault> {
        let text = self.sound.get(from - self.sound_from..to - self.sound_from);
        text.ok_or_else(|| Fault::new(codes::INVALID_UTF8, "the line is not UTF-8"))
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Moves past `byte` if it comes next.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Moves past spaces and tabs. A tab separates nothing; it is only passed where InfluxDB
    /// passes it: in front of a line, a field set and a timestamp.
    pub(super) fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    /// Whether a newline, with or without a carriage return, or the end of the body comes next.
    pub(super) fn at_line_end(&self) -> bool {
        matches!(self.bytes[self.at..], [] | [b'\n', ..] | [b'\r'] | [b'\r', b'\n', ..])
    }
}

fn sound_prefix(bytes: &[u8]) -> &str {
    match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    }
}

/// The quote that closes a string whose inside begins at `at`.
pub(super) fn string_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr2(b'"', b'\\', &bytes[at..])?;
        match (bytes[at], bytes.get(at + 1)) {
            (b'"', _) => return Some(at),
            (_, Some(b'"' | b'\\')) => at += 2,
            _ => at += 1,
        }
    }
}

/// A name or value as errors repeat it: quoted, escaped, cut.
pub(super) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}…", &text[..end]),
    }
}
