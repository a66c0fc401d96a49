//! One line: `measurement[,tag=value…] field=value[,field=value…] [timestamp]`.
//!
//! Owns the order of the parts and the limits of a row. Leaves fields and tags of a refused row in
//! the batch; the caller takes them back.

use std::borrow::Cow;

use braid_shared::codes;
use braid_shared::limits::{EVENT_BYTES_MAX, FIELDS_MAX, ID_BYTES_MAX, KEY_BYTES_MAX, STRING_BYTES_MAX, TAGS_MAX};
use braid_shared::model::batch::BatchValue;
use braid_shared::model::{Batch, Precision, Row, Timestamp, ValueRef};

use super::LineOptions;
use super::cursor::{Cursor, malformed, shown};
use super::name::{KEY_OR_VALUE, MEASUREMENT};
use super::series::series_id;
use crate::fault::Fault;

/// What a number or boolean counts towards the size of its event, bytes.
const NUMBER_BYTES: usize = 8;

/// A row that does not know yet where it stands in the request.
pub(super) struct Unnumbered<'a>(Row<'a>);

impl<'a> Unnumbered<'a> {
    pub(super) fn numbered(self, index: u32, line: u32) -> Row<'a> {
        Row { index, line, ..self.0 }
    }
}

/// Reads the row at the cursor; leaves the cursor at the line's end.
pub(super) fn read_row<'a>(cursor: &mut Cursor<'a>, options: &LineOptions<'_>, batch: &mut Batch<'a>) -> Result<Unnumbered<'a>, Fault> {
    let (tags_start, fields_start) = (batch.tags.len(), batch.fields.len());
    let key = measurement(cursor)?;
    let raw_tags = tags(cursor, batch)?;
    let id = id(raw_tags, &mut batch.tags[tags_start..], options.id_tag)?;
    fields(cursor, batch)?;
    let ts = timestamp(cursor, options.precision)?;
    check_size(&key, &id, &batch.tags[tags_start..], &batch.fields[fields_start..])?;
    Ok(Unnumbered(Row {
        index: 0,
        line: 0,
        key,
        id: Some(id),
        ts,
        fields: fields_start as u32..batch.fields.len() as u32,
        tags: tags_start as u32..batch.tags.len() as u32,
    }))
}

fn measurement<'a>(cursor: &mut Cursor<'a>) -> Result<Cow<'a, str>, Fault> {
    let key = cursor.name(MEASUREMENT)?;
    if key.is_empty() {
        return Err(malformed("the measurement is missing"));
    }
    within(key, "the measurement", KEY_BYTES_MAX, codes::KEY_TOO_LONG)
}

/// Reads the tag set up to the space behind it; gives it as it stands in the line.
fn tags<'a>(cursor: &mut Cursor<'a>, batch: &mut Batch<'a>) -> Result<&'a str, Fault> {
    let (start, first) = (cursor.at + 1, batch.tags.len());
    while cursor.take(b',') {
        if batch.tags.len() - first == TAGS_MAX {
            return Err(Fault::new(codes::TOO_MANY_TAGS, format!("an event may have at most {TAGS_MAX} tags")));
        }
        batch.tags.push(tag(cursor)?);
    }
    match cursor.peek() {
        Some(b' ') if cursor.at < start => Ok(""),
        Some(b' ') => cursor.text(start, cursor.at),
        Some(b'=') => Err(malformed("an equals sign in a tag's value needs a backslash")),
        _ => Err(malformed("the fields are missing")),
    }
}

fn tag<'a>(cursor: &mut Cursor<'a>) -> Result<(Cow<'a, str>, Cow<'a, str>), Fault> {
    let name = cursor.name(KEY_OR_VALUE)?;
    if name.is_empty() {
        return Err(malformed("a tag's key is missing"));
    }
    let value = if cursor.take(b'=') { cursor.name(KEY_OR_VALUE)? } else { Cow::Borrowed("") };
    if value.is_empty() && cursor.peek() != Some(b'=') {
        return Err(malformed(format!("tag {} has no value", shown(&name))));
    }
    let name = within(name, "a tag's key", STRING_BYTES_MAX, codes::STRING_TOO_LONG)?;
    let value = within(value, "a tag's value", STRING_BYTES_MAX, codes::STRING_TOO_LONG)?;
    Ok((name, value))
}

/// Sorts the tags of a line and gives its id: the value of `id_tag`, else the tag set.
fn id<'a>(raw: &'a str, tags: &mut [(Cow<'a, str>, Cow<'a, str>)], id_tag: Option<&str>) -> Result<Cow<'a, str>, Fault> {
    let in_order = tags.is_sorted_by(|(one, _), (next, _)| one < next);
    if !in_order {
        tags.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        if let Some(pair) = tags.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Fault::new(codes::DUPLICATE_NAME, format!("tag {} is given twice", shown(&pair[0].0))));
        }
    }
    let id = match id_tag.and_then(|wanted| tags.iter().find(|(name, _)| name == wanted)) {
        Some((_, value)) => value.clone(),
        None => series_id(raw, in_order, tags),
    };
    within(id, "the id", ID_BYTES_MAX, codes::ID_TOO_LONG)
}

fn fields<'a>(cursor: &mut Cursor<'a>, batch: &mut Batch<'a>) -> Result<(), Fault> {
    cursor.skip_blanks();
    if cursor.at_line_end() {
        return Err(malformed("the fields are missing"));
    }
    let first = batch.fields.len();
    loop {
        if batch.fields.len() - first == FIELDS_MAX {
            return Err(Fault::new(codes::TOO_MANY_FIELDS, format!("an event may have at most {FIELDS_MAX} fields")));
        }
        batch.fields.push(field(cursor)?);
        if !cursor.take(b',') {
            return Ok(());
        }
    }
}

fn field<'a>(cursor: &mut Cursor<'a>) -> Result<(Cow<'a, str>, BatchValue<'a>), Fault> {
    let name = cursor.name(KEY_OR_VALUE)?;
    if name.is_empty() {
        return Err(malformed("a field's key is missing"));
    }
    if !cursor.take(b'=') {
        return Err(malformed(format!("field {} has no value", shown(&name))));
    }
    let value = cursor.value().map_err(|fault| Fault { detail: format!("field {}: {}", shown(&name), fault.detail), ..fault })?;
    if !matches!(cursor.peek(), Some(b',' | b' ')) && !cursor.at_line_end() {
        return Err(malformed(format!("field {}: a comma, a space or the end of the line must follow its value", shown(&name))));
    }
    let name = within(name, "a field's key", STRING_BYTES_MAX, codes::STRING_TOO_LONG)?;
    if value_bytes(&value) > STRING_BYTES_MAX {
        let what = format!("field {}", shown(&name));
        return Err(too_long(&what, value_bytes(&value), STRING_BYTES_MAX, codes::STRING_TOO_LONG));
    }
    Ok((name, value))
}

/// Reads what follows the fields: a timestamp, or nothing.
fn timestamp(cursor: &mut Cursor<'_>, precision: Precision) -> Result<Option<Timestamp>, Fault> {
    cursor.skip_blanks();
    if cursor.at_line_end() {
        return Ok(None);
    }
    let rest = &cursor.bytes[cursor.at..];
    let length = rest.iter().position(|byte| matches!(byte, b' ' | b'\r' | b'\n')).unwrap_or(rest.len());
    let token = cursor.text(cursor.at, cursor.at + length)?;
    let digits = token.strip_prefix('-').unwrap_or(token);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Fault::new(codes::TIMESTAMP_INVALID, format!("{} is not an integer timestamp", shown(token))));
    }
    cursor.at += length;
    cursor.skip_blanks();
    if !cursor.at_line_end() {
        return Err(malformed("nothing may follow the timestamp"));
    }
    let ts = token.parse().ok().and_then(|value| Timestamp::from_int(value, precision).ok());
    let out_of_range = || Fault::new(codes::TIMESTAMP_OUT_OF_RANGE, format!("{} does not fit 64-bit nanoseconds", shown(token)));
    ts.map(Some).ok_or_else(out_of_range)
}

fn check_size(key: &str, id: &str, tags: &[(Cow<'_, str>, Cow<'_, str>)], fields: &[(Cow<'_, str>, BatchValue<'_>)]) -> Result<(), Fault> {
    let tags: usize = tags.iter().map(|(name, value)| name.len() + value.len()).sum();
    let fields: usize = fields.iter().map(|(name, value)| name.len() + value_bytes(value)).sum();
    match key.len() + id.len() + tags + fields {
        bytes if bytes > EVENT_BYTES_MAX => Err(too_long("the event", bytes, EVENT_BYTES_MAX, codes::EVENT_TOO_LARGE)),
        _ => Ok(()),
    }
}

fn value_bytes(value: &BatchValue<'_>) -> usize {
    match value.as_ref() {
        ValueRef::Str(text) => text.len(),
        _ => NUMBER_BYTES,
    }
}

fn within<'a>(text: Cow<'a, str>, what: &str, bytes_max: usize, code: &'static str) -> Result<Cow<'a, str>, Fault> {
    if text.len() > bytes_max { Err(too_long(what, text.len(), bytes_max, code)) } else { Ok(text) }
}

fn too_long(what: &str, bytes: usize, bytes_max: usize, code: &'static str) -> Fault {
    Fault::new(code, format!("{what} has {bytes} bytes; at most {bytes_max} are allowed"))
}
