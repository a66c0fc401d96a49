//! Events to a table file, row group by row group: a bucket's in memory, an export's wherever it goes.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use parquet::data_type::ByteArray;
use parquet::file::writer::SerializedFileWriter;
use xxhash_rust::xxh3::xxh3_64;

use super::digest::Digest;
use super::encoding::PAGE_ROWS;
use super::rows::{Names, RowGroup};
use super::schema::{ROW_GROUP_BYTES, ROW_GROUP_ROWS, SCHEMA, properties};
use super::{About, TableError};
use crate::block::Cell;
use crate::stamp::Stamp;

/// A file under way.
pub struct TableWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    key: ByteArray,
    rows: RowGroup,
    names: Names,
    digest: Digest,
    span: Option<(i64, i64)>,
}

/// A file that is done.
#[derive(Debug)]
pub struct Written {
    /// Its bytes.
    pub bytes: Bytes,
    /// Their `xxh3_64`.
    pub checksum: u64,
    /// What is in it.
    pub digest: Digest,
    /// Least event time inside, nanoseconds.
    pub min_ts: i64,
    /// Greatest event time inside, nanoseconds.
    pub max_ts: i64,
}

impl TableWriter<Vec<u8>> {
    /// An empty file of a bucket, in memory.
    pub fn new(about: &About) -> Result<TableWriter<Vec<u8>>, TableError> {
        TableWriter::over(Vec::new(), Some(about))
    }

    /// The file; nothing where no event was added.
    pub fn finish(mut self) -> Result<Option<Written>, TableError> {
        self.flush()?;
        let Some((min_ts, max_ts)) = self.span else { return Ok(None) };
        let bytes: Bytes = self.file.into_inner()?.into();
        Ok(Some(Written { checksum: xxh3_64(&bytes), bytes, digest: self.digest, min_ts, max_ts }))
    }
}

impl<W: Write + Send> TableWriter<W> {
    /// An empty file of no bucket: whoever reads tables for a bucket refuses it.
    pub fn export(sink: W) -> Result<TableWriter<W>, TableError> {
        TableWriter::over(sink, None)
    }

    fn over(sink: W, about: Option<&About>) -> Result<TableWriter<W>, TableError> {
        let file = SerializedFileWriter::new(sink, SCHEMA.clone(), Arc::new(properties(about)?))?;
        let key = ByteArray::from(about.map_or("", |about| &about.key));
        Ok(TableWriter { file, key, rows: RowGroup::default(), names: Names::default(), digest: Digest::default(), span: None })
    }

    /// The key of the events that are added from now on.
    pub fn set_key(&mut self, key: &str) {
        if self.key.data() != key.as_bytes() {
            self.key = ByteArray::from(key);
        }
    }

    /// Ends the file; gives back what it was written to.
    pub fn close(mut self) -> Result<W, TableError> {
        self.flush()?;
        Ok(self.file.into_inner()?)
    }

    /// Adds an event; those of a key come ascending by (ts, id, shard tag).
    pub fn push(&mut self, ts: i64, id: &str, cells: &[Cell<'_>], stamp: Stamp) -> Result<(), TableError> {
        self.digest.add(ts, id, cells, stamp);
        self.span = Some((self.span.map_or(ts, |(min, _)| min.min(ts)), self.span.map_or(ts, |(_, max)| max.max(ts))));
        self.rows.push(&self.key, ts, id, cells, stamp, &mut self.names);
        if self.rows.len() >= ROW_GROUP_ROWS || self.rows.bytes() >= ROW_GROUP_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Bytes written so far, and of values that wait, before they are encoded.
    pub fn bytes(&self) -> usize {
        self.file.bytes_written() + self.rows.bytes()
    }

    fn flush(&mut self) -> Result<(), TableError> {
        let rows = std::mem::take(&mut self.rows);
        if rows.len() > 0 {
            // Of a file of one page the footer says it all.
            let paged = rows.len() > PAGE_ROWS || !self.file.flushed_row_groups().is_empty();
            let mut group = self.file.next_row_group()?;
            rows.write(&mut group, &self.names, paged)?;
            group.close()?;
        }
        Ok(())
    }
}
