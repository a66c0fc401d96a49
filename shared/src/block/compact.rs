//! Many blocks of one partition as few, full and disjoint ones.
//!
//! Must never change what any merge gives, now or with blocks still to come. So rows are not
//! merged but kept with their own stamps: x=1, x=2, y=3 compacted as one row of the last stamp
//! would let a late x=2 lose to x=1. A row is dropped only where later writes of its event, all
//! kept or covered themselves, have every name it has: no merge could take a value from it.

use std::collections::HashMap;
use std::sync::Arc;

use super::BlockError;
use super::cut::Cutter;
use super::decode::Block;
use super::gather::{gather, gather_ids};
use super::merge::in_order;
use super::order::{Order, Place, Run, order};
use super::source::Source;
use super::table::{Column, Strings, Table};
use super::write::Sorted;
use crate::layout::Layout;
use crate::partition::Partition;
use crate::stamp::Stamp;
use crate::store::EncodedBlock;

/// Rewrites one partition's blocks as full, disjoint ones; a row is dropped only where later
/// writes of the same identity cover all its fields and tags, so that every merge to come gives
/// what it gave before. Ids are made from the blocks' greatest stamp and `nonce`.
pub fn compact(
    partition: &Arc<Partition>,
    layout: &Layout,
    blocks: &[Block],
    bytes_max: usize,
    mut nonce: impl FnMut() -> u64,
) -> Result<Vec<EncodedBlock>, BlockError> {
    let sources = in_order(blocks).into_iter().map(Source::whole).collect::<Result<Vec<_>, _>>()?;
    let time = blocks.iter().map(|block| block.header().address.id.time).max().unwrap_or(0);
    let runs: Vec<Run<'_>> = sources.iter().map(Source::run).collect();
    let order = order::<BlockError>(&runs, |source| Ok(sources[source].identity(layout)))?;
    let kept = Kept::of(&order, &sources);
    let rows = Sorted { table: &kept.table(&sources), stamps: Some(&kept.stamps(&sources)) };
    let cutter = Cutter { partition, layout, bytes_max, rows, joined: &kept.joined };
    cutter.blocks(|| Ok(Stamp { time, node: nonce() }))
}

/// The rows that stay, each for itself, and which of them belong to the event of the row before.
struct Kept {
    order: Order,
    joined: Vec<u32>,
}

impl Kept {
    fn of(order: &Order, sources: &[Source]) -> Kept {
        let mut names = Names::of(order, sources);
        let mut kept = Kept { order: Order::default(), joined: Vec::new() };
        for (event, places) in order.events().enumerate() {
            let first = kept.order.places.len();
            let mut stays: Vec<bool> = places.iter().rev().map(|place| names.adds(*place, event as u32)).collect();
            stays.reverse();
            // An event without fields and tags is an event.
            if let Some(last) = stays.last_mut() {
                *last = true;
            }
            kept.order.places.extend(places.iter().zip(stays).filter(|(_, stays)| *stays).map(|(place, _)| *place));
            kept.joined.extend(first as u32 + 1..kept.order.places.len() as u32);
        }
        kept.order.starts = (0..kept.order.places.len() as u32).collect();
        kept
    }

    fn table(&self, sources: &[Source]) -> Table {
        let ids: Vec<&Strings> = sources.iter().map(|source| &source.ids).collect();
        let columns: Vec<&[Column]> = sources.iter().map(|source| &source.columns[..]).collect();
        let ts = self.order.places.iter().map(|place| sources[place.source as usize].ts[place.row as usize]).collect();
        Table { ts, ids: gather_ids(&self.order, &ids), columns: gather(&self.order, &columns) }
    }

    fn stamps(&self, sources: &[Source]) -> Vec<Stamp> {
        self.order.places.iter().map(|place| sources[place.source as usize].stamps.at(place.row as usize)).collect()
    }
}

/// Which field and tag names rows have, for rows that are not alone in their event.
struct Names {
    by_place: HashMap<Place, Vec<u32>>,
    /// By name: the last event in which a row had it.
    seen: Vec<Option<u32>>,
}

impl Names {
    fn of(order: &Order, sources: &[Source]) -> Names {
        let shared = order.events().filter(|places| places.len() > 1).flatten();
        let mut by_place: HashMap<Place, Vec<u32>> = shared.map(|place| (*place, Vec::new())).collect();
        let mut numbers = HashMap::new();
        if by_place.is_empty() {
            return Names { by_place, seen: Vec::new() };
        }
        for (source, columns) in sources.iter().enumerate() {
            for column in &columns.columns {
                let next = numbers.len() as u32;
                let number = *numbers.entry((column.tag, column.name.as_str())).or_insert(next);
                for (_, row) in column.cells() {
                    if let Some(names) = by_place.get_mut(&Place { source: source as u32, row }) {
                        names.push(number);
                    }
                }
            }
        }
        Names { by_place, seen: vec![None; numbers.len()] }
    }

    /// Whether a row has a name that later rows of its event, asked before, had not; a row that
    /// is alone in its event is not looked at.
    fn adds(&mut self, place: Place, event: u32) -> bool {
        let Some(names) = self.by_place.get(&place) else { return true };
        let mut adds = false;
        for name in names {
            adds |= self.seen[*name as usize].replace(event) != Some(event);
        }
        adds
    }
}
