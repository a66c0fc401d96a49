//! How a column is encoded: in each of the ways that suit what it holds, and the smallest stays.
//!
//! What suits is a matter of the data (ids may be random, counted or few; numbers may repeat or not),
//! so it is tried, row group by row group. Every reader of Parquet knows all of these ways.

use std::io::Write;
use std::ops::Range;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::bloom_filter::Sbbf;
use parquet::column::writer::{ColumnCloseResult, get_column_writer, get_typed_column_writer};
use parquet::data_type::DataType;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor};

use super::TableError;
use super::schema::SCHEMA;
use crate::block::Strings;

/// Rows of a page: what the page index can tell apart.
pub(super) const PAGE_ROWS: usize = 8 * 1024;
/// Level of zstd.
const ZSTD_LEVEL: i32 = 3;
/// Level for what is mostly noise: a longer search finds repetitions that cost more than they save.
const ZSTD_LEVEL_NOISE: i32 = 1;
/// How often a bloom filter says yes where it should say no, at most: with a power of two of bytes, a full row group has
/// two thirds of a byte an id.
const BLOOM_FALSE: f64 = 0.14;

/// One way to encode a column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// A dictionary where there is none.
    encoding: Option<Encoding>,
    zstd: i32,
}

const DICTIONARY: Way = Way { encoding: None, zstd: ZSTD_LEVEL };
const PLAIN: Way = Way { encoding: Some(Encoding::PLAIN), zstd: ZSTD_LEVEL };
const DELTAS: Way = Way { encoding: Some(Encoding::DELTA_BINARY_PACKED), zstd: ZSTD_LEVEL };
/// All lengths, then all bytes.
const LENGTHS: Way = Way { encoding: Some(Encoding::DELTA_LENGTH_BYTE_ARRAY), zstd: ZSTD_LEVEL_NOISE };
/// What each string shares with the one before, and the rest.
const PREFIXES: Way = Way { encoding: Some(Encoding::DELTA_BYTE_ARRAY), zstd: ZSTD_LEVEL_NOISE };
/// All first bytes, then all second ones, …
const BYTES: Way = Way { encoding: Some(Encoding::BYTE_STREAM_SPLIT), zstd: ZSTD_LEVEL };

/// Names, and what else hardly changes.
pub(super) const FEW: &[Way] = &[DICTIONARY];
/// Times, ascending.
pub(super) const TIMES: &[Way] = &[DELTAS];
/// Strings.
pub(super) const STRINGS: &[Way] = &[DICTIONARY, LENGTHS, PREFIXES];
/// Doubles.
pub(super) const DOUBLES: &[Way] = &[DICTIONARY, PLAIN, BYTES];
/// Integers.
pub(super) const INTEGERS: &[Way] = &[DICTIONARY, PLAIN, DELTAS];
/// What has no encoding of its own.
pub(super) const OTHERS: &[Way] = &[DICTIONARY, PLAIN];

/// What is kept of a column's least and greatest values.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bounds {
    /// Nothing: a map's values are those of all its names.
    None,
    /// Of the row group.
    RowGroup,
    /// Of each page.
    Pages,
}

/// The columns of a row group, written one after the other.
pub(super) struct Columns<'a, 'b, W: Write> {
    group: &'a mut SerializedRowGroupWriter<'b, W>,
    schema: SchemaDescriptor,
    rows: usize,
    paged: bool,
    next: usize,
}

/// How many entries each row has; none stands for one in each.
pub(super) type Counts<'a> = Option<&'a [u32]>;

impl<'a, 'b, W: Write + Send> Columns<'a, 'b, W> {
    /// No column of `rows` rows yet. Unless it is `paged`, no page is told from another.
    pub(super) fn new(group: &'a mut SerializedRowGroupWriter<'b, W>, rows: usize, paged: bool) -> Columns<'a, 'b, W> {
        Columns { group, schema: SchemaDescriptor::new(SCHEMA.clone()), rows, paged, next: 0 }
    }

    /// Writes the next column: `values` gives those of a range of its entries.
    pub(super) fn put<T: DataType>(
        &mut self,
        ways: &[Way],
        bounds: Bounds,
        counts: Counts<'_>,
        values: impl Fn(Range<usize>) -> Vec<T::T>,
    ) -> Result<(), TableError> {
        self.put_with::<T>(ways, bounds, counts, values, None)
    }

    /// As [`Columns::put`], with a bloom filter.
    pub(super) fn put_with<T: DataType>(
        &mut self,
        ways: &[Way],
        bounds: Bounds,
        counts: Counts<'_>,
        values: impl Fn(Range<usize>) -> Vec<T::T>,
        bloom: Option<Sbbf>,
    ) -> Result<(), TableError> {
        let column = self.schema.column(self.next);
        self.next += 1;
        let mut smallest: Option<(Bytes, ColumnCloseResult)> = None;
        for way in ways {
            let tried = encode::<T>(&column, way, bounds, self.rows, counts, &values)?;
            if smallest.as_ref().is_none_or(|(bytes, _)| tried.0.len() < bytes.len()) {
                smallest = Some(tried);
            }
        }
        let (bytes, mut close) = smallest.ok_or(TableError::Damaged("a column that no way can encode"))?;
        close.bloom_filter = bloom;
        if !self.paged {
            (close.column_index, close.offset_index) = (None, None);
        }
        Ok(self.group.append_column(&bytes, close)?)
    }
}

/// A column chunk.
fn encode<T: DataType>(
    column: &ColumnDescPtr,
    way: &Way,
    bounds: Bounds,
    rows: usize,
    counts: Counts<'_>,
    values: &impl Fn(Range<usize>) -> Vec<T::T>,
) -> Result<(Bytes, ColumnCloseResult), TableError> {
    let mut sink = TrackedWrite::new(Vec::new());
    let pages = Box::new(SerializedPageWriter::new(&mut sink));
    let mut writer = get_typed_column_writer::<T>(get_column_writer(column.clone(), properties(way, bounds)?.into(), pages));
    let mut done = 0;
    for first in (0..rows).step_by(PAGE_ROWS) {
        let page = first..rows.min(first + PAGE_ROWS);
        let levels = counts.map(|counts| levels(&counts[page.clone()]));
        let entries = levels.as_ref().map_or(page.len(), |(definition, _)| definition.iter().filter(|level| **level > 0).count());
        let (definition, repetition) = levels.as_ref().map(|(definition, repetition)| (&definition[..], &repetition[..])).unzip();
        writer.write_batch(&values(done..done + entries), definition, repetition.filter(|_| column.max_rep_level() > 0))?;
        done += entries;
    }
    let close = writer.close()?;
    Ok((sink.into_inner()?.into(), close))
}

/// Definition and repetition levels of rows of so many entries.
fn levels(counts: &[u32]) -> (Vec<i16>, Vec<i16>) {
    let entries = counts.iter().map(|count| (*count as usize).max(1)).sum();
    let (mut definition, mut repetition) = (Vec::with_capacity(entries), Vec::with_capacity(entries));
    for count in counts {
        definition.push(i16::from(*count > 0));
        repetition.push(0);
        for _ in 1..*count {
            definition.push(1);
            repetition.push(1);
        }
    }
    (definition, repetition)
}

fn properties(way: &Way, bounds: Bounds) -> Result<WriterProperties, TableError> {
    let statistics = match bounds {
        Bounds::None => EnabledStatistics::None,
        Bounds::RowGroup => EnabledStatistics::Chunk,
        Bounds::Pages => EnabledStatistics::Page,
    };
    let builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(way.zstd)?))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_write_batch_size(PAGE_ROWS)
        .set_statistics_enabled(statistics)
        .set_dictionary_enabled(way.encoding.is_none());
    Ok(way.encoding.map_or_else(|| builder.clone(), |encoding| builder.clone().set_encoding(encoding)).build())
}

/// A bloom filter on ids; none where they ascend, because then the bounds of pages tell as much.
pub(super) fn bloom(ids: &Strings) -> Result<Option<Sbbf>, TableError> {
    if (1..ids.len()).all(|row| ids.bytes_at(row - 1) <= ids.bytes_at(row)) {
        return Ok(None);
    }
    let mut filter = Sbbf::new_with_ndv_fpp(ids.len() as u64, BLOOM_FALSE)?;
    (0..ids.len()).for_each(|row| filter.insert(ids.bytes_at(row)));
    filter.fold_to_target_fpp(BLOOM_FALSE);
    Ok(Some(filter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_tell_an_empty_map_from_one_with_entries() {
        assert_eq!(levels(&[0, 1, 3]), (vec![0, 1, 1, 1, 1], vec![0, 0, 0, 1, 1]));
    }
}
