//! The id of a line: its tag set in canonical form, so that identity is InfluxDB's (series and time).
//!
//! Tags by name, `name=value` joined by commas; comma, equals sign and space behind a backslash. A
//! run of backslashes is doubled where one of those or the end of a name or value follows, which
//! is what makes two tag sets never share an id.

use std::borrow::Cow;

/// The canonical form of `tags`, which are sorted. `raw` is how they stood in the line.
pub(super) fn series_id<'a>(raw: &'a str, in_order: bool, tags: &[(Cow<'a, str>, Cow<'a, str>)]) -> Cow<'a, str> {
    // Without a backslash there is no separator in any name, and nothing to write otherwise.
    if in_order && memchr::memchr(b'\\', raw.as_bytes()).is_none() {
        return Cow::Borrowed(raw);
    }
    let mut id = String::with_capacity(raw.len());
    for (name, value) in tags {
        if !id.is_empty() {
            id.push(',');
        }
        escape(name, &mut id);
        id.push('=');
        escape(value, &mut id);
    }
    Cow::Owned(id)
}

fn escape(text: &str, out: &mut String) {
    let mut backslashes = 0;
    for c in text.chars() {
        if matches!(c, ',' | '=' | ' ') {
            // Doubles the run before, and escapes the separator.
            out.extend(std::iter::repeat_n('\\', backslashes + 1));
        }
        backslashes = if c == '\\' { backslashes + 1 } else { 0 };
        out.push(c);
    }
    out.extend(std::iter::repeat_n('\\', backslashes));
}
