//! The decoded rows of one request, borrowing from its body: no allocation per event.

use std::borrow::Cow;
use std::ops::Range;

use super::{Timestamp, ValueRef};

/// A field's value while it still borrows from the body it was decoded from.
#[derive(Clone, Debug, PartialEq)]
pub enum BatchValue<'a> {
    /// A number or boolean, or a string that stands in the body as it is.
    Plain(ValueRef<'a>),
    /// A string that had to be unescaped.
    Unescaped(Box<str>),
}

impl BatchValue<'_> {
    /// The value, borrowed.
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            BatchValue::Plain(v) => *v,
            BatchValue::Unescaped(s) => ValueRef::Str(s),
        }
    }
}

// A request holds up to a million of these.
const _: () = assert!(size_of::<BatchValue<'_>>() == 24);

/// The rows of one request and the faults of those that were refused while decoding.
#[derive(Debug, Default)]
pub struct Batch<'a> {
    /// Sound rows, in the order of the request.
    pub rows: Vec<Row<'a>>,
    /// Fields of all rows; a row names its range.
    pub fields: Vec<(Cow<'a, str>, BatchValue<'a>)>,
    /// Tags of all rows; a row names its range.
    pub tags: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// Rows refused, in the order of the request.
    pub faults: Vec<RowFault>,
}

/// One decoded row.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// Position among the request's events, from 0.
    pub index: u32,
    /// Physical line it begins on, from 1 (0 where the format has no lines).
    pub line: u32,
    /// Logical key.
    pub key: Cow<'a, str>,
    /// Id, where given.
    pub id: Option<Cow<'a, str>>,
    /// Event time, where given.
    pub ts: Option<Timestamp>,
    /// Its part of [`Batch::fields`].
    pub fields: Range<u32>,
    /// Its part of [`Batch::tags`].
    pub tags: Range<u32>,
}

/// Why one row was refused; the others go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFault {
    /// Position among the request's events, from 0.
    pub index: u32,
    /// Physical line it begins on, from 1 (0 where the format has no lines).
    pub line: u32,
    /// Stable code (docs/ERRORS.md).
    pub code: &'static str,
    /// What is wrong, for a person.
    pub detail: String,
}

impl<'a> Batch<'a> {
    /// Fields and tags of all rows.
    pub fn values(&self) -> usize {
        self.fields.len() + self.tags.len()
    }

    /// Memory that rows, fields and tags take beside the body, bytes; strings that had to be
    /// unescaped are left out, being shorter than they stand in the body.
    pub fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Row<'_>>()
            + self.fields.capacity() * size_of::<(Cow<'_, str>, BatchValue<'_>)>()
            + self.tags.capacity() * size_of::<(Cow<'_, str>, Cow<'_, str>)>()
    }

    /// Fields of a row.
    pub fn fields_of(&self, row: &Row<'a>) -> &[(Cow<'a, str>, BatchValue<'a>)] {
        &self.fields[row.fields.start as usize..row.fields.end as usize]
    }

    /// Tags of a row.
    pub fn tags_of(&self, row: &Row<'a>) -> &[(Cow<'a, str>, Cow<'a, str>)] {
        &self.tags[row.tags.start as usize..row.tags.end as usize]
    }
}
