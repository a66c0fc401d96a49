//! One event from the head of a text, straight into the batch's shared vectors.
//!
//! Owns the members an event may have and their limits. Knows nothing of lines or arrays.
//! serde_json walks the object; every value is taken as its raw text and given its meaning in
//! [`scalar`](super::scalar), so that nothing is decided by a number type it passed through.

use std::borrow::Cow;
use std::fmt;

use braid_shared::codes;
use braid_shared::limits::{EVENT_BYTES_MAX, FIELDS_MAX, ID_BYTES_MAX, KEY_BYTES_MAX, STRING_BYTES_MAX, TAGS_MAX};
use braid_shared::model::batch::BatchValue;
use braid_shared::model::{Batch, Precision, Row, Timestamp, ValueRef};
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::de::Read;
use serde_json::value::RawValue;

use super::scalar;
use crate::fault::Fault;

/// Up to this many names are compared pair by pair; more are sorted.
const PAIRWISE_NAMES_MAX: usize = 16;
/// How much of a name an error repeats, characters.
const NAME_SHOWN_MAX: usize = 64;
/// What a number or boolean counts towards the size of its event, bytes.
const NUMBER_BYTES: usize = 8;

/// Why no event was read.
pub(super) enum Refusal {
    /// It breaks a rule of events.
    Rule(Fault),
    /// It is not JSON, or not UTF-8.
    Syntax(serde_json::Error),
}

/// An event that was read; its fields and tags are the last ones of the batch.
pub(super) struct Parts<'a> {
    key: Cow<'a, str>,
    id: Option<Cow<'a, str>>,
    ts: Option<Timestamp>,
    fields_start: usize,
    fields_end: usize,
    tags_start: usize,
    tags_end: usize,
}

impl<'a> Parts<'a> {
    /// The row; the batch's vectors are bounded by the body, far below u32.
    pub(super) fn into_row(self, index: u32, line: u32) -> Row<'a> {
        let fields = self.fields_start as u32..self.fields_end as u32;
        let tags = self.tags_start as u32..self.tags_end as u32;
        Row { index, line, key: self.key, id: self.id, ts: self.ts, fields, tags }
    }

    /// Removes the event's fields and tags from the batch.
    pub(super) fn take_back(self, batch: &mut Batch<'a>) {
        batch.fields.truncate(self.fields_start);
        batch.tags.truncate(self.tags_start);
    }
}

/// Reads the event at the head of `json` and tells how many bytes it took. A refused event leaves
/// nothing in the batch.
pub(super) fn read_event<'a, R: Read<'a>>(
    mut json: serde_json::Deserializer<R>,
    precision: Precision,
    batch: &mut Batch<'a>,
) -> Result<(Parts<'a>, usize), Refusal> {
    let (fields_start, tags_start) = (batch.fields.len(), batch.tags.len());
    let mut reader = Reader::new(batch, precision);
    let outcome = match (&mut reader).deserialize(&mut json) {
        Ok(()) => reader.finish().map_err(Refusal::Rule),
        Err(error) => Err(reader.refusal(error)),
    };
    match outcome {
        Ok(parts) => Ok((parts, json.into_iter::<IgnoredAny>().byte_offset())),
        Err(refusal) => {
            batch.fields.truncate(fields_start);
            batch.tags.truncate(tags_start);
            Err(refusal)
        }
    }
}

/// An event while it is read.
struct Reader<'b, 'a> {
    batch: &'b mut Batch<'a>,
    precision: Precision,
    key: Option<Cow<'a, str>>,
    id: Option<Cow<'a, str>>,
    ts: Option<Timestamp>,
    has_fields: bool,
    has_tags: bool,
    fields_start: usize,
    tags_start: usize,
    /// Size so far, as [`EVENT_BYTES_MAX`] counts it.
    bytes: usize,
    /// The object being read, for an error that says what is no object.
    object: &'static str,
    /// The rule that was broken; serde's errors can't carry it.
    fault: Option<Fault>,
}

impl<'b, 'a> Reader<'b, 'a> {
    fn new(batch: &'b mut Batch<'a>, precision: Precision) -> Self {
        let (fields_start, tags_start) = (batch.fields.len(), batch.tags.len());
        Reader {
            batch,
            precision,
            key: None,
            id: None,
            ts: None,
            has_fields: false,
            has_tags: false,
            fields_start,
            tags_start,
            bytes: 0,
            object: "an event",
            fault: None,
        }
    }

    fn set_key(&mut self, text: &'a str) -> Result<(), Fault> {
        let key = scalar::string(text, "key", KEY_BYTES_MAX, codes::KEY_TOO_LONG)?;
        if key.is_empty() {
            return Err(Fault::new(codes::KEY_EMPTY, "key is empty"));
        }
        self.grow(key.len())?;
        once("key", self.key.replace(key).is_none())
    }

    fn set_id(&mut self, text: &'a str) -> Result<(), Fault> {
        let id = scalar::string(text, "id", ID_BYTES_MAX, codes::ID_TOO_LONG)?;
        self.grow(id.len())?;
        once("id", self.id.replace(id).is_none())
    }

    fn set_ts(&mut self, text: &'a str) -> Result<(), Fault> {
        let ts = scalar::timestamp(text, self.precision)?;
        once("ts", self.ts.replace(ts).is_none())
    }

    fn push_field(&mut self, name: Cow<'a, str>, text: &'a str) -> Result<(), Fault> {
        check_name("field", &name)?;
        let value = scalar::field_value(text, &name)?;
        if self.batch.fields.len() - self.fields_start == FIELDS_MAX {
            return Err(Fault::new(codes::TOO_MANY_FIELDS, format!("an event may have at most {FIELDS_MAX} fields")));
        }
        self.grow(name.len() + value_bytes(&value))?;
        self.batch.fields.push((name, value));
        Ok(())
    }

    fn push_tag(&mut self, name: Cow<'a, str>, text: &'a str) -> Result<(), Fault> {
        check_name("tag", &name)?;
        let value = match text.starts_with('"') {
            true => scalar::string(text, "a tag's value", STRING_BYTES_MAX, codes::STRING_TOO_LONG)?,
            false => return Err(Fault::new(codes::TYPE_INVALID, format!("tag {} must be a string", short(&name)))),
        };
        if self.batch.tags.len() - self.tags_start == TAGS_MAX {
            return Err(Fault::new(codes::TOO_MANY_TAGS, format!("an event may have at most {TAGS_MAX} tags")));
        }
        self.grow(name.len() + value.len())?;
        self.batch.tags.push((name, value));
        Ok(())
    }

    fn grow(&mut self, bytes: usize) -> Result<(), Fault> {
        self.bytes += bytes;
        if self.bytes <= EVENT_BYTES_MAX {
            return Ok(());
        }
        let detail = format!("the event's names and values have more than {EVENT_BYTES_MAX} bytes");
        Err(Fault::new(codes::EVENT_TOO_LARGE, detail))
    }

    /// What only the whole event can tell: that it has a key, and that no name came twice.
    fn finish(&mut self) -> Result<Parts<'a>, Fault> {
        let (fields, tags) = (&self.batch.fields[self.fields_start..], &self.batch.tags[self.tags_start..]);
        if let Some(name) = repeated_name(fields) {
            return Err(duplicate(&format!("field {}", short(name))));
        }
        if let Some(name) = repeated_name(tags) {
            return Err(duplicate(&format!("tag {}", short(name))));
        }
        let key = self.key.take().ok_or_else(|| Fault::new(codes::KEY_MISSING, "the event has no key"))?;
        Ok(Parts {
            key,
            id: self.id.take(),
            ts: self.ts,
            fields_start: self.fields_start,
            fields_end: self.batch.fields.len(),
            tags_start: self.tags_start,
            tags_end: self.batch.tags.len(),
        })
    }

    /// What a failed walk means. serde's own data errors are all of one kind here: no object where
    /// one must be.
    fn refusal(self, error: serde_json::Error) -> Refusal {
        match self.fault {
            Some(fault) => Refusal::Rule(fault),
            None if error.is_data() => Refusal::Rule(Fault::new(codes::TYPE_INVALID, format!("{} must be a JSON object", self.object))),
            None => Refusal::Syntax(error),
        }
    }

    /// Remembers a broken rule and stops the walk.
    fn stop_on_fault<E: de::Error>(&mut self, result: Result<(), Fault>) -> Result<(), E> {
        result.map_err(|fault| {
            self.fault = Some(fault);
            E::custom("refused")
        })
    }

    fn read_member<M: MapAccess<'a>>(&mut self, name: Cow<'a, str>, map: &mut M) -> Result<(), M::Error> {
        let result = match &*name {
            "key" => self.set_key(raw(map)?),
            "id" => self.set_id(raw(map)?),
            "ts" => self.set_ts(raw(map)?),
            "value" => self.push_field(Cow::Borrowed("value"), raw(map)?),
            "fields" => {
                self.object = "fields";
                map.next_value_seed(Members { reader: self, push: Reader::push_field })?;
                once("fields", !std::mem::replace(&mut self.has_fields, true))
            }
            "tags" => {
                self.object = "tags";
                map.next_value_seed(Members { reader: self, push: Reader::push_tag })?;
                once("tags", !std::mem::replace(&mut self.has_tags, true))
            }
            unknown => {
                let detail = format!("an event has no member {}; its members are key, id, ts, value, fields, tags", short(unknown));
                Err(Fault::new(codes::UNKNOWN_MEMBER, detail))
            }
        };
        self.stop_on_fault(result)
    }
}

impl<'a> DeserializeSeed<'a> for &mut Reader<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for &mut Reader<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(name) = map.next_key_seed(Name)? {
            self.read_member(name, &mut map)?;
        }
        Ok(())
    }
}

/// Takes one member of `fields` or `tags` into the batch.
type Push<'b, 'a> = fn(&mut Reader<'b, 'a>, Cow<'a, str>, &'a str) -> Result<(), Fault>;

/// The object of `fields` or of `tags`.
struct Members<'r, 'b, 'a> {
    reader: &'r mut Reader<'b, 'a>,
    push: Push<'b, 'a>,
}

impl<'a> DeserializeSeed<'a> for Members<'_, '_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for Members<'_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(name) = map.next_key_seed(Name)? {
            let result = (self.push)(self.reader, name, raw(&mut map)?);
            self.reader.stop_on_fault(result)?;
        }
        Ok(())
    }
}

/// A member's name, borrowed unless it holds an escape.
struct Name;

impl<'a> DeserializeSeed<'a> for Name {
    type Value = Cow<'a, str>;

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<Cow<'a, str>, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'a> Visitor<'a> for Name {
    type Value = Cow<'a, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'a str) -> Result<Cow<'a, str>, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Cow<'a, str>, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

/// The text of the next value.
fn raw<'a, M: MapAccess<'a>>(map: &mut M) -> Result<&'a str, M::Error> {
    map.next_value::<&'a RawValue>().map(RawValue::get)
}

fn check_name(kind: &str, name: &str) -> Result<(), Fault> {
    match name.len() {
        0 => Err(Fault::new(codes::EVENT_MALFORMED, format!("a {kind}'s name is empty"))),
        bytes if bytes > STRING_BYTES_MAX => {
            Err(scalar::too_long(codes::STRING_TOO_LONG, &format!("the name of a {kind}"), bytes, STRING_BYTES_MAX))
        }
        _ => Ok(()),
    }
}

fn value_bytes(value: &BatchValue<'_>) -> usize {
    match value.as_ref() {
        ValueRef::Str(string) => string.len(),
        _ => NUMBER_BYTES,
    }
}

fn once(member: &str, first: bool) -> Result<(), Fault> {
    if first { Ok(()) } else { Err(duplicate(member)) }
}

fn duplicate(what: &str) -> Fault {
    Fault::new(codes::DUPLICATE_NAME, format!("{what} is given twice"))
}

/// A name that occurs twice, in n log n: a thousand names must not cost a million comparisons.
fn repeated_name<'s, V>(members: &'s [(Cow<'_, str>, V)]) -> Option<&'s str> {
    if members.len() <= PAIRWISE_NAMES_MAX {
        let twice = |at: usize| members[..at].iter().any(|(name, _)| *name == members[at].0);
        return (1..members.len()).find(|at| twice(*at)).map(|at| &*members[at].0);
    }
    let mut names: Vec<&str> = members.iter().map(|(name, _)| &**name).collect();
    names.sort_unstable();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// A name as errors repeat it: quoted, escaped, cut.
pub(super) fn short(name: &str) -> String {
    match name.char_indices().nth(NAME_SHOWN_MAX) {
        None => format!("{name:?}"),
        Some((end, _)) => format!("{:?}…", &name[..end]),
    }
}
