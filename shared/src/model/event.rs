//! One event and its values, owned (answers, tests) and borrowed (the write path).

use std::collections::BTreeMap;

use super::Timestamp;

/// An event as it is stored and answered. Its identity is (key, ts, id), and the value of the
/// layout's `shard_by` tag where there is one.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Logical key.
    pub key: String,
    /// Event time.
    pub ts: Timestamp,
    /// Event id; may be empty (a line without tags).
    pub id: String,
    /// Fields by name.
    pub fields: BTreeMap<String, FieldValue>,
    /// Tags by name.
    pub tags: BTreeMap<String, String>,
}

/// A field's value; a field may have different types in different events.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue {
    /// A finite double.
    F64(f64),
    /// A signed integer.
    I64(i64),
    /// An unsigned integer.
    U64(u64),
    /// A boolean.
    Bool(bool),
    /// A UTF-8 string, byte for byte as sent.
    Str(String),
}

/// A borrowed [`FieldValue`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// A finite double.
    F64(f64),
    /// A signed integer.
    I64(i64),
    /// An unsigned integer.
    U64(u64),
    /// A boolean.
    Bool(bool),
    /// A UTF-8 string.
    Str(&'a str),
}

impl FieldValue {
    /// Borrows the value.
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            FieldValue::F64(v) => ValueRef::F64(*v),
            FieldValue::I64(v) => ValueRef::I64(*v),
            FieldValue::U64(v) => ValueRef::U64(*v),
            FieldValue::Bool(v) => ValueRef::Bool(*v),
            FieldValue::Str(v) => ValueRef::Str(v),
        }
    }
}

impl ValueRef<'_> {
    /// Copies the value out of what it borrows from.
    pub fn to_owned(self) -> FieldValue {
        match self {
            ValueRef::F64(v) => FieldValue::F64(v),
            ValueRef::I64(v) => FieldValue::I64(v),
            ValueRef::U64(v) => FieldValue::U64(v),
            ValueRef::Bool(v) => FieldValue::Bool(v),
            ValueRef::Str(v) => FieldValue::Str(v.to_owned()),
        }
    }
}
