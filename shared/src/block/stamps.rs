//! When each row of a compacted block was written: the distinct stamps once, an index per row.

use std::ops::Range;

use super::BlockError;
use super::ints::{put_ints, take_ints};
use super::wire::{Reader, put_varint};
use crate::stamp::Stamp;

/// The stamps of some rows.
#[derive(Clone, Debug)]
pub(super) enum Stamps {
    /// One for all (a block as it was first written).
    One(Stamp),
    /// One each.
    Each(Vec<Stamp>),
}

impl Stamps {
    pub(super) fn at(&self, row: usize) -> Stamp {
        match self {
            Stamps::One(stamp) => *stamp,
            Stamps::Each(stamps) => stamps[row],
        }
    }
}

/// The distinct values, ascending.
fn distinct<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// Where each of `values`, all in `table`, stands in it.
fn indices<T: Ord>(table: &[T], values: impl Iterator<Item = T>) -> Vec<i64> {
    values.map(|value| table.partition_point(|entry| *entry < value) as i64).collect()
}

/// Appends one stamp per row.
pub(super) fn put_stamps(out: &mut Vec<u8>, stamps: &[Stamp]) {
    let table = distinct(stamps.iter().copied());
    let nodes = distinct(table.iter().map(|stamp| stamp.node));
    put_varint(out, table.len() as u64);
    put_varint(out, nodes.len() as u64);
    nodes.iter().for_each(|node| out.extend_from_slice(&node.to_le_bytes()));
    put_ints(out, &table.iter().map(|stamp| stamp.time as i64).collect::<Vec<_>>());
    put_ints(out, &indices(&nodes, table.iter().map(|stamp| stamp.node)));
    put_ints(out, &indices(&table, stamps.iter().copied()));
}

/// Reads the stamps of rows `part` of `n`.
pub(super) fn take_stamps(reader: &mut Reader<'_>, n: usize, part: Range<usize>) -> Result<Vec<Stamp>, BlockError> {
    let entries = reader.varint_up_to(n)?;
    let nodes = reader.varint_up_to(entries)?;
    let nodes = (0..nodes).map(|_| reader.u64()).collect::<Result<Vec<_>, _>>()?;
    let times = take_ints(reader, entries, 0..entries)?;
    let owners = take_ints(reader, entries, 0..entries)?;
    let stamp = |(time, owner): (i64, i64)| Ok(Stamp { time: time as u64, node: *at(&nodes, owner)? });
    let table = times.into_iter().zip(owners).map(stamp).collect::<Result<Vec<_>, _>>()?;
    take_ints(reader, n, part)?.into_iter().map(|index| at(&table, index).copied()).collect()
}

fn at<T>(table: &[T], index: i64) -> Result<&T, BlockError> {
    usize::try_from(index).ok().and_then(|index| table.get(index)).ok_or(BlockError::Damaged("an index beyond its stamps"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_several_nodes_come_back_row_by_row() {
        let stamps: Vec<Stamp> = (0..100).map(|i| Stamp { time: 1_000 + i % 7, node: u64::MAX - i % 3 }).collect();
        let mut out = Vec::new();
        put_stamps(&mut out, &stamps);
        assert_eq!(take_stamps(&mut Reader::new(&out), 100, 0..100).as_ref(), Ok(&stamps));
        assert_eq!(take_stamps(&mut Reader::new(&out), 100, 7..9).as_deref(), Ok(&stamps[7..9]));
        assert!(out.len() < 3 * 8 + 120, "{}", out.len());
    }

    #[test]
    fn an_index_beyond_the_table_is_damage() {
        let mut out = Vec::new();
        put_varint(&mut out, 1);
        put_varint(&mut out, 1);
        out.extend_from_slice(&[0; 8]);
        put_ints(&mut out, &[5]);
        put_ints(&mut out, &[0]);
        put_ints(&mut out, &[1]);
        assert!(take_stamps(&mut Reader::new(&out), 1, 0..1).is_err());
    }
}
