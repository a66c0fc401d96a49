//! Cursors: where a page ended, sealed.
//!
//! Pure. A cursor holds the place of the last event given, the range as it was resolved when the
//! first page was asked for, a hash of the query, and a checksum of it all: altered ones and those
//! of another query are refused.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use braid_shared::model::Timestamp;
use xxhash_rust::xxh3::xxh3_64;

/// First byte of every cursor.
const FORMAT: u8 = 1;
/// Longest cursor worth decoding, characters.
const CURSOR_CHARS_MAX: usize = 64 * 1024;

/// Where an event stands in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Event time.
    pub ts: Timestamp,
    /// Logical key.
    pub key: String,
    /// Id.
    pub id: String,
    /// The value of the tag that its layout shards by, where there is one.
    pub tag: Option<String>,
}

/// Where a page ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Start of the range.
    pub from: Timestamp,
    /// End of the range.
    pub to: Timestamp,
    /// The last event given.
    pub last: Position,
}

/// The cursor is not one of ours, was altered, or belongs to another query.
#[derive(Debug, PartialEq, Eq)]
pub struct CursorInvalid;

/// A query's hash: everything that a page's content follows from but its size.
pub fn query_hash<'a>(parts: impl Iterator<Item = &'a str>) -> u64 {
    let mut bytes = Vec::new();
    parts.for_each(|part| put_text(&mut bytes, part));
    xxh3_64(&bytes)
}

impl Cursor {
    /// The cursor as text, for URLs.
    pub fn seal(&self, query: u64) -> String {
        let mut bytes = vec![FORMAT];
        bytes.extend_from_slice(&query.to_le_bytes());
        for ts in [self.from, self.to, self.last.ts] {
            bytes.extend_from_slice(&ts.nanos().to_le_bytes());
        }
        put_text(&mut bytes, &self.last.key);
        put_text(&mut bytes, &self.last.id);
        bytes.push(u8::from(self.last.tag.is_some()));
        put_text(&mut bytes, self.last.tag.as_deref().unwrap_or_default());
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a cursor of this query.
    pub fn open(text: &str, query: u64) -> Result<Cursor, CursorInvalid> {
        if text.len() > CURSOR_CHARS_MAX {
            return Err(CursorInvalid);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| CursorInvalid)?;
        let (content, checksum) = bytes.split_last_chunk::<8>().ok_or(CursorInvalid)?;
        if xxh3_64(content) != u64::from_le_bytes(*checksum) {
            return Err(CursorInvalid);
        }
        read(content, query).ok_or(CursorInvalid)
    }
}

fn read(content: &[u8], query: u64) -> Option<Cursor> {
    let (format, mut rest) = content.split_first()?;
    let hash = take_number(&mut rest)?;
    if *format != FORMAT || hash != query {
        return None;
    }
    let mut time = || take_number(&mut rest).map(|bits| Timestamp::from_nanos(bits as i64));
    let (from, to, ts) = (time()?, time()?, time()?);
    let (key, id) = (take_text(&mut rest)?, take_text(&mut rest)?);
    let (has_tag, mut rest) = rest.split_first()?;
    let tag = take_text(&mut rest)?;
    let tag = (*has_tag == 1).then_some(tag);
    rest.is_empty().then_some(Cursor { from, to, last: Position { ts, key, id, tag } })
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*number))
}

fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let len = usize::try_from(take_number(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    String::from_utf8(text.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cursor(id: &str, tag: Option<&str>) -> Cursor {
        let last = Position { ts: Timestamp::from_nanos(-7), key: "k".into(), id: id.into(), tag: tag.map(str::to_owned) };
        Cursor { from: Timestamp::MIN, to: Timestamp::from_nanos(9), last }
    }

    #[test]
    fn a_cursor_opens_for_its_own_query_only() {
        for cursor in [cursor("", None), cursor("a/b", Some("")), cursor("é", Some("x"))] {
            let text = cursor.seal(5);
            assert_eq!(Cursor::open(&text, 5), Ok(cursor));
            assert_eq!(Cursor::open(&text, 6), Err(CursorInvalid));
        }
    }

    #[test]
    fn parts_of_a_query_do_not_run_into_each_other() {
        assert_ne!(query_hash(["ab", "c"].into_iter()), query_hash(["a", "bc"].into_iter()));
    }

    proptest! {
        #[test]
        fn any_altered_character_is_noticed(at in any::<prop::sample::Index>(), to in "[A-Za-z0-9_=+/ -]") {
            let text = cursor("o-17", Some("eu")).seal(5);
            let at = at.index(text.len());
            let altered = format!("{}{to}{}", &text[..at], &text[at + 1..]);
            prop_assume!(altered != text);
            prop_assert_eq!(Cursor::open(&altered, 5), Err(CursorInvalid));
        }

        #[test]
        fn any_text_opens_or_is_refused(text in ".{0,200}") {
            let _ = Cursor::open(&text, 5);
        }
    }
}
