//! The columns of every table file: always the same ones, whatever the events hold.
//!
//! Fields and tags are maps, one of tags and one per type of field, so that a user's names are data
//! and never columns: none can collide with ours or differ from another only by case, and a field
//! whose type differs between files, or that one file lacks, fails no scan. Time is microseconds, which
//! all three engines read, and beside it the nanoseconds that are left.

use std::sync::{Arc, LazyLock};

use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::TypePtr;

use super::{About, TableError};

/// Rows of a row group: so many that a dictionary of some ten thousand values pays.
pub(super) const ROW_GROUP_ROWS: usize = 768 * 1024;
/// Memory of a row group that gathers, bytes, beyond which it ends.
pub(super) const ROW_GROUP_BYTES: usize = 96 * 1024 * 1024;
/// Name of [`About`] in the footer.
pub(super) const ABOUT: &str = "braid";

/// Nanoseconds in a microsecond.
pub(super) const MICRO: i64 = 1_000;
/// Bytes of a `DECIMAL(20,0)`, which holds every u64.
pub(super) const U64_BYTES: usize = 9;

/// Leaf columns in their order; a map has two, keys and values.
pub(super) mod leaf {
    pub(crate) const TS: usize = 1;
    pub(crate) const TS_NS: usize = 2;
    pub(crate) const ID: usize = 3;
    pub(crate) const TAGS: usize = 4;
    pub(crate) const F64: usize = 6;
    pub(crate) const I64: usize = 8;
    pub(crate) const U64: usize = 10;
    pub(crate) const BOOL: usize = 12;
    pub(crate) const STR: usize = 14;
    pub(crate) const WRITTEN_TS: usize = 16;
    pub(crate) const WRITTEN_BY: usize = 17;
    pub(crate) const WRITTEN_BEFORE: usize = 18;
}

const COLUMNS: &str = "message braid {
    REQUIRED BYTE_ARRAY key (STRING);
    REQUIRED INT64 ts (TIMESTAMP(MICROS,true));
    REQUIRED INT32 ts_ns;
    REQUIRED BYTE_ARRAY id (STRING);
    REQUIRED group tags (MAP) { REPEATED group key_value { REQUIRED BYTE_ARRAY key (STRING); REQUIRED BYTE_ARRAY value (STRING); } }
    REQUIRED group fields_f64 (MAP) { REPEATED group key_value { REQUIRED BYTE_ARRAY key (STRING); REQUIRED DOUBLE value; } }
    REQUIRED group fields_i64 (MAP) { REPEATED group key_value { REQUIRED BYTE_ARRAY key (STRING); REQUIRED INT64 value; } }
    REQUIRED group fields_u64 (MAP) { REPEATED group key_value { REQUIRED BYTE_ARRAY key (STRING); REQUIRED FIXED_LEN_BYTE_ARRAY (9) value (DECIMAL(20,0)); } }
    REQUIRED group fields_bool (MAP) { REPEATED group key_value { REQUIRED BYTE_ARRAY key (STRING); REQUIRED BOOLEAN value; } }
    REQUIRED group fields_str (MAP) { REPEATED group key_value { REQUIRED BYTE_ARRAY key (STRING); REQUIRED BYTE_ARRAY value (STRING); } }
    REQUIRED INT64 written_ts;
    REQUIRED INT64 written_by;
    OPTIONAL BYTE_ARRAY written_before (JSON);
}";

/// The schema.
pub(super) static SCHEMA: LazyLock<TypePtr> = LazyLock::new(|| Arc::new(parse_message_type(COLUMNS).expect("the schema is sound")));

/// What a file says of itself; how its columns are written is theirs.
pub(super) fn properties(about: Option<&About>) -> Result<WriterProperties, TableError> {
    let about = about.map(serde_json::to_string).transpose();
    let about = about.map_err(|_| TableError::Damaged("what a file says of itself can't be written"))?;
    let builder = WriterProperties::builder()
        .set_created_by(concat!("braid ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(about.map(|about| vec![KeyValue::new(ABOUT.to_owned(), about)]));
    Ok(builder.build())
}

#[cfg(test)]
mod tests {
    use parquet::schema::types::SchemaDescriptor;

    use super::*;

    #[test]
    fn the_leaves_are_where_their_names_say() {
        let schema = SchemaDescriptor::new(SCHEMA.clone());
        let path = |leaf: usize| schema.column(leaf).path().string();
        assert_eq!(schema.num_columns(), leaf::WRITTEN_BEFORE + 1);
        for (leaf, name) in [
            (leaf::TS, "ts"),
            (leaf::TS_NS, "ts_ns"),
            (leaf::ID, "id"),
            (leaf::TAGS, "tags.key_value.key"),
            (leaf::TAGS + 1, "tags.key_value.value"),
            (leaf::F64, "fields_f64.key_value.key"),
            (leaf::I64, "fields_i64.key_value.key"),
            (leaf::U64, "fields_u64.key_value.key"),
            (leaf::BOOL, "fields_bool.key_value.key"),
            (leaf::STR, "fields_str.key_value.key"),
            (leaf::WRITTEN_TS, "written_ts"),
            (leaf::WRITTEN_BY, "written_by"),
            (leaf::WRITTEN_BEFORE, "written_before"),
        ] {
            assert_eq!(path(leaf), name);
        }
    }
}
