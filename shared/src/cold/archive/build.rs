//! Blocks of a bucket's partitions to one table file, sorted across partitions. Pure.

use std::collections::BTreeMap;

use crate::block::{Block, Settled, settle};
use crate::cold::table::{TableWriter, Written};
use crate::cold::tables::Bucket;
use crate::model::TimeRange;

use super::ArchiveError;

/// The events of `blocks` in `range` as a file; nothing where there are none.
pub(super) fn build(bucket: &Bucket, blocks: Vec<(u32, Block)>, range: TimeRange) -> Result<Option<Written>, ArchiveError> {
    let mut by_suffix: BTreeMap<u32, Vec<Block>> = BTreeMap::new();
    blocks.into_iter().for_each(|(suffix, block)| by_suffix.entry(suffix).or_default().push(block));
    let unsound = |error| ArchiveError::Block(format!("namespace {}, key {:?}, bucket {}", bucket.ns, bucket.key, bucket.start), error);
    let parts = by_suffix.values().map(|blocks| settle(&bucket.layout, blocks, range)).collect::<Result<Vec<_>, _>>().map_err(unsound)?;
    let mut file = TableWriter::new(&bucket.about())?;
    let mut cells = Vec::new();
    for (part, row) in in_order(&parts) {
        let part = &parts[part as usize];
        let (ts, id, _) = part.place(row as usize);
        part.cells(row as usize, &mut cells);
        file.push(ts, id, &cells, part.stamp(row as usize))?;
    }
    Ok(file.finish()?)
}

/// Every event by its place, as part and row.
fn in_order(parts: &[Settled]) -> Vec<(u32, u32)> {
    let rows = |(part, settled): (usize, &Settled)| (0..settled.len() as u32).map(move |row| (part as u32, row));
    let mut order: Vec<(u32, u32)> = parts.iter().enumerate().flat_map(rows).collect();
    let place = |(part, row): &(u32, u32)| parts[*part as usize].place(*row as usize);
    order.sort_by(|a, b| place(a).cmp(&place(b)));
    order
}
