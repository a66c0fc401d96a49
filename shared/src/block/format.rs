//! Format 1, byte for byte: the header, the column directory, the checksum. Owns where things
//! stand in a block; what columns hold is the codecs' work.
//!
//! ```text
//! magic "BRDB"                      4
//! format                            u16
//! flags                             u8     bit 0: every row is an identity of its own
//! block id: time, node              u64 u64
//! layout version: revision, nonce   u64 u32
//! key hash                          u64    xxh3_64 of the bytes partition::key_prefix gives
//! bucket start                      i64
//! N, suffix, rows                   varint each
//! min ts − bucket, max ts − min ts  varint each (wrapping)
//! columns                           varint
//! directory, an entry a column:
//!   kind | presence << 4            u8
//!   name                            varint length, UTF-8    (fields and tags)
//!   rows present                    varint                  (unless all)
//!   decoded bytes of its strings    varint                  (ids, string fields, tags)
//!   statistics                      see stats.rs            (numeric fields)
//!   bytes of its values             varint
//! for each entry: presence, values
//! xxh3_64 of all before             u64
//! ```
//!
//! Columns stand in the order ts, ids, stamps (only after compaction), then by (tag, name, type).

use std::ops::Range;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use super::BlockError;
use super::presence::PresenceCode;
use super::stats::{NumberStats, take_stats};
use super::table::Kind;
use super::wire::{Reader, put_varint};
use crate::layout::{Layout, LayoutVersion};
use crate::limits::{BLOCK_EVENTS_MAX, STRING_BYTES_MAX};
use crate::model::Timestamp;
use crate::partition::{Partition, key_prefix};
use crate::stamp::Stamp;
use crate::store::BlockAddress;

/// What every block begins with.
pub(super) const MAGIC: [u8; 4] = *b"BRDB";
/// The format this build writes, and the only one there is.
pub(super) const FORMAT: u16 = 1;
/// Most bytes of a header, checksum included.
pub(super) const FRAME_BYTES_MAX: usize = 4 + 2 + 1 + 16 + 12 + 8 + 8 + 6 * 10 + CHECKSUM_BYTES;
/// Most bytes that a block's values may take once decoded, so that a small block of bad intent
/// can't exhaust memory. Writers cut far below it.
pub(super) const DECODED_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What any value is charged against [`DECODED_BYTES_MAX`], beside a string's bytes.
pub(super) const CELL_BYTES: usize = 8;

const CHECKSUM_BYTES: usize = 8;
const FLAG_DISTINCT: u8 = 1;

/// What a block says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Hash of namespace and key.
    pub key_hash: u64,
    /// Start of the bucket.
    pub bucket: Timestamp,
    /// Layout version.
    pub version: LayoutVersion,
    /// N of that layout.
    pub shards: u32,
    /// Suffix.
    pub suffix: u32,
    /// Events (rows) inside.
    pub count: u32,
    /// Least and greatest event time, and the block's id.
    pub address: BlockAddress,
    /// Whether every row is an identity of its own (false only after compaction kept several
    /// writes of one event).
    pub distinct: bool,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ColumnKind {
    Ts,
    Ids,
    Stamps,
    Field(Kind),
    Tag,
}

/// A column's directory entry; ranges are of the block's bytes.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) kind: ColumnKind,
    pub(super) name: Range<usize>,
    pub(super) presence: PresenceCode,
    pub(super) rows: usize,
    /// Decoded bytes of its strings.
    pub(super) arena: usize,
    /// Where its statistics stand; empty for kinds without.
    pub(super) stats: Range<usize>,
    pub(super) presence_at: Range<usize>,
    pub(super) values_at: Range<usize>,
}

impl ColumnKind {
    pub(super) fn to_byte(self) -> u8 {
        match self {
            ColumnKind::Ts => 0,
            ColumnKind::Ids => 1,
            ColumnKind::Stamps => 2,
            ColumnKind::Field(kind) => 3 + kind as u8,
            ColumnKind::Tag => 8,
        }
    }

    fn from_byte(byte: u8) -> Option<ColumnKind> {
        let fields = [Kind::F64, Kind::I64, Kind::U64, Kind::Bool, Kind::Str].map(ColumnKind::Field);
        let others = [ColumnKind::Ts, ColumnKind::Ids, ColumnKind::Stamps, ColumnKind::Tag];
        others.into_iter().chain(fields).find(|kind| kind.to_byte() == byte)
    }

    /// The first thing that columns are sorted by: fields of all types are of one class.
    pub(super) fn class(self) -> u8 {
        match self {
            ColumnKind::Field(_) => ColumnKind::Field(Kind::F64).to_byte(),
            other => other.to_byte(),
        }
    }

    pub(super) fn has_name(self) -> bool {
        matches!(self, ColumnKind::Field(_) | ColumnKind::Tag)
    }

    pub(super) fn has_strings(self) -> bool {
        matches!(self, ColumnKind::Ids | ColumnKind::Tag | ColumnKind::Field(Kind::Str))
    }

    pub(super) fn has_stats(self) -> bool {
        matches!(self, ColumnKind::Field(Kind::F64 | Kind::I64 | Kind::U64))
    }
}

/// Hash of a partition's namespace and key.
pub(super) fn key_hash(partition: &Partition) -> u64 {
    xxh3_64(&key_prefix(&partition.ns, &partition.key))
}

/// The header of a block of `partition`.
pub(super) fn header(partition: &Partition, layout: &Layout, count: usize, address: BlockAddress, distinct: bool) -> Header {
    Header {
        key_hash: key_hash(partition),
        bucket: partition.bucket,
        version: partition.version,
        shards: layout.shards,
        suffix: partition.suffix,
        count: count as u32,
        address,
        distinct,
    }
}

/// A whole block: header, `body` (directory and columns), checksum.
pub(super) fn seal(header: &Header, columns: usize, body: &[&[u8]]) -> Bytes {
    let mut out = Vec::with_capacity(FRAME_BYTES_MAX + body.iter().map(|part| part.len()).sum::<usize>());
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&FORMAT.to_le_bytes());
    out.push(if header.distinct { FLAG_DISTINCT } else { 0 });
    out.extend_from_slice(&header.address.id.time.to_le_bytes());
    out.extend_from_slice(&header.address.id.node.to_le_bytes());
    out.extend_from_slice(&header.version.revision.to_le_bytes());
    out.extend_from_slice(&header.version.nonce.to_le_bytes());
    out.extend_from_slice(&header.key_hash.to_le_bytes());
    out.extend_from_slice(&header.bucket.nanos().to_le_bytes());
    for number in [header.shards, header.suffix, header.count] {
        put_varint(&mut out, u64::from(number));
    }
    let (min, max) = (header.address.min_ts.nanos(), header.address.max_ts.nanos());
    put_varint(&mut out, min.wrapping_sub(header.bucket.nanos()) as u64);
    put_varint(&mut out, max.wrapping_sub(min) as u64);
    put_varint(&mut out, columns as u64);
    body.iter().for_each(|part| out.extend_from_slice(part));
    out.extend_from_slice(&xxh3_64(&out).to_le_bytes());
    Bytes::from(out)
}

/// Checks everything about a block but what its columns hold.
pub(super) fn parse(bytes: &[u8]) -> Result<(Header, Vec<Entry>), BlockError> {
    let sealed = bytes.split_last_chunk::<CHECKSUM_BYTES>();
    let (content, checksum) = sealed.ok_or(BlockError::Damaged("cut short"))?;
    let mut reader = Reader::new(content);
    if reader.take(MAGIC.len())? != MAGIC {
        return Err(BlockError::Damaged("not a block"));
    }
    // Before the checksum: another format may have another one.
    match reader.u16()? {
        FORMAT => {}
        other => return Err(BlockError::Format(other)),
    }
    if xxh3_64(content) != u64::from_le_bytes(*checksum) {
        return Err(BlockError::Damaged("checksum"));
    }
    let header = parse_header(&mut reader)?;
    let entries = parse_directory(&mut reader, content, header.count as usize)?;
    Ok((header, entries))
}

fn parse_header(reader: &mut Reader<'_>) -> Result<Header, BlockError> {
    let distinct = match reader.u8()? {
        0 => false,
        FLAG_DISTINCT => true,
        _ => return Err(BlockError::Damaged("unknown flags")),
    };
    let id = Stamp { time: reader.u64()?, node: reader.u64()? };
    let version = LayoutVersion { revision: reader.u64()?, nonce: reader.u32()? };
    let key_hash = reader.u64()?;
    let bucket = reader.u64()? as i64;
    let mut number = || Ok(reader.varint_up_to(u32::MAX as usize)? as u32);
    let (shards, suffix, count) = (number()?, number()?, number()?);
    let min = bucket.wrapping_add(reader.varint()? as i64);
    let max = min.wrapping_add(reader.varint()? as i64);
    if count == 0 || count as usize > BLOCK_EVENTS_MAX {
        return Err(BlockError::Damaged("an impossible number of events"));
    }
    if max < min {
        return Err(BlockError::Damaged("times out of order or bounds"));
    }
    let address = BlockAddress { min_ts: Timestamp::from_nanos(min), max_ts: Timestamp::from_nanos(max), id };
    Ok(Header { key_hash, bucket: Timestamp::from_nanos(bucket), version, shards, suffix, count, address, distinct })
}

fn parse_directory(reader: &mut Reader<'_>, content: &[u8], count: usize) -> Result<Vec<Entry>, BlockError> {
    let columns = reader.varint_up_to(reader.left())?;
    // No more than what the bytes can hold: an entry takes three at least.
    let mut entries: Vec<Entry> = Vec::with_capacity(columns.min(reader.left() / 3));
    for _ in 0..columns {
        let entry = parse_entry(reader, content, count)?;
        if let Some(last) = entries.last()
            && sort_key(last, content) >= sort_key(&entry, content)
        {
            return Err(BlockError::Damaged("columns out of order"));
        }
        entries.push(entry);
    }
    let kinds = [ColumnKind::Ts, ColumnKind::Ids];
    if !kinds.iter().enumerate().all(|(at, kind)| entries.get(at).is_some_and(|entry| entry.kind == *kind)) {
        return Err(BlockError::Damaged("no times or no ids"));
    }
    let decoded: usize = entries.iter().map(|entry| entry.rows * CELL_BYTES + entry.arena).sum();
    if decoded > DECODED_BYTES_MAX {
        return Err(BlockError::Damaged("more values than a block may hold"));
    }
    place(&mut entries, reader.position(), count);
    if entries.last().map(|entry| entry.values_at.end) == Some(content.len()) {
        Ok(entries)
    } else {
        Err(BlockError::Damaged("columns that do not fill the block"))
    }
}

/// Finds each column's presence and values, which stand one behind the other.
fn place(entries: &mut [Entry], start: usize, count: usize) {
    let mut at = start;
    for entry in entries {
        let presence = entry.presence.len(entry.rows, count);
        let values = entry.values_at.len();
        entry.presence_at = at..at + presence;
        entry.values_at = at + presence..at + presence + values;
        at = entry.values_at.end;
    }
}

fn parse_entry(reader: &mut Reader<'_>, content: &[u8], count: usize) -> Result<Entry, BlockError> {
    let byte = reader.u8()?;
    let kind = ColumnKind::from_byte(byte & 0xf).ok_or(BlockError::Damaged("an unknown kind of column"))?;
    let presence = PresenceCode::from_byte(byte >> 4).ok_or(BlockError::Damaged("an unknown kind of presence"))?;
    let name = if kind.has_name() { parse_name(reader)? } else { 0..0 };
    let rows = if presence == PresenceCode::All { count } else { reader.varint_up_to(count)? };
    if rows == 0 || (presence != PresenceCode::All && !kind.has_name()) {
        return Err(BlockError::Damaged("an impossible number of rows"));
    }
    let arena = if kind.has_strings() { reader.varint_up_to(DECODED_BYTES_MAX)? } else { 0 };
    let stats_start = reader.position();
    if kind.has_stats() {
        take_stats(reader)?;
    }
    let stats = stats_start..reader.position();
    // Only the length matters until `place` has run.
    let values_at = 0..reader.varint_up_to(content.len())?;
    Ok(Entry { kind, name, presence, rows, arena, stats, presence_at: 0..0, values_at })
}

fn parse_name(reader: &mut Reader<'_>) -> Result<Range<usize>, BlockError> {
    let name = reader.bytes(STRING_BYTES_MAX)?;
    if std::str::from_utf8(name).is_err() {
        return Err(BlockError::Damaged("a name that is not UTF-8"));
    }
    Ok(reader.position() - name.len()..reader.position())
}

/// What entries are sorted by: tags stand behind fields, and types only order columns of one name.
fn sort_key<'a>(entry: &Entry, content: &'a [u8]) -> (u8, &'a [u8], ColumnKind) {
    (entry.kind.class(), &content[entry.name.clone()], entry.kind)
}

impl Entry {
    /// Its statistics, checked when the block was opened.
    pub(super) fn statistics(&self, bytes: &[u8]) -> Option<NumberStats> {
        take_stats(&mut Reader::new(bytes.get(self.stats.clone())?)).ok().flatten()
    }
}
