//! Names: the measurement, tag keys, tag values and field keys, all but the measurement under the
//! same rules.
//!
//! A backslash before a separator of its element makes it part of the name; any other backslash
//! is itself. Two of them are two: `a\\,b` is `a\,b`, as in InfluxDB.

use std::borrow::Cow;

use super::cursor::Cursor;
use crate::fault::Fault;

const SEPARATOR: u8 = 1;
const EQUALS: u8 = 2;
const NEWLINE: u8 = 4;
const BACKSLASH: u8 = 8;

const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    classes[b',' as usize] = SEPARATOR;
    classes[b' ' as usize] = SEPARATOR;
    classes[b'=' as usize] = EQUALS;
    classes[b'\n' as usize] = NEWLINE;
    classes[b'\\' as usize] = BACKSLASH;
    classes
};

/// Which bytes end a name unless a backslash stands before them.
#[derive(Clone, Copy)]
pub(super) struct Ends(u8);

/// Comma and space.
pub(super) const MEASUREMENT: Ends = Ends(SEPARATOR);
/// Comma, space and equals sign.
pub(super) const KEY_OR_VALUE: Ends = Ends(SEPARATOR | EQUALS);

impl<'a> Cursor<'a> {
    /// Reads a name up to what ends it: one of `ends`, a newline, or the end of the body.
    pub(super) fn name(&mut self, ends: Ends) -> Result<Cow<'a, str>, Fault> {
        let start = self.at;
        let escaped = self.skip_name(ends);
        let text = self.text(start, self.at)?;
        Ok(if escaped { Cow::Owned(unescape(text, ends)) } else { Cow::Borrowed(text) })
    }

    /// Moves past a name; tells whether something in it is escaped.
    fn skip_name(&mut self, ends: Ends) -> bool {
        let stops = ends.0 | NEWLINE | BACKSLASH;
        let mut escaped = false;
        while let Some(length) = self.bytes[self.at..].iter().position(|byte| class(*byte) & stops != 0) {
            self.at += length;
            match self.bytes[self.at..] {
                [b'\\', next, ..] if class(next) & ends.0 != 0 => {
                    escaped = true;
                    self.at += 2;
                }
                [b'\\', ..] => self.at += 1,
                _ => return escaped,
            }
        }
        self.at = self.bytes.len();
        escaped
    }
}

fn class(byte: u8) -> u8 {
    CLASSES[usize::from(byte)]
}

fn unescape(text: &str, ends: Ends) -> String {
    let mut name = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, behind) = rest.split_at(at);
        name.push_str(before);
        // What follows a backslash may be more than a byte wide, then it is no separator.
        let drops = behind.as_bytes().get(1).is_some_and(|next| class(*next) & ends.0 != 0);
        let kept = if drops { &behind[1..2] } else { &behind[..1] };
        name.push_str(kept);
        rest = &behind[1 + usize::from(drops)..];
    }
    name.push_str(rest);
    name
}
