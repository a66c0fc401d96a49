//! From a buffer of rows to blocks: sort, merge the doubles inside, cut, write.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;

use super::cut::Cutter;
use super::gather::{gather, gather_ids};
use super::order::{Identity, Order, Run, order};
use super::rows::RowBuffer;
use super::stamps::Stamps;
use super::table::{Column, Table};
use super::write::Sorted;
use crate::layout::Layout;
use crate::partition::Partition;
use crate::stamp::Stamp;
use crate::store::EncodedBlock;

/// Encodes a partition's rows into as few blocks as the limits allow (4,096 events, `bytes_max`
/// encoded). Sorted by (ts, id, shard tag); doubles inside merged, the later arrival winning field
/// by field. `stamp` gives each block its id, which is also its rows' write order.
pub fn encode<E>(
    partition: &Arc<Partition>,
    layout: &Layout,
    rows: RowBuffer,
    bytes_max: usize,
    stamp: impl FnMut() -> Result<Stamp, E>,
) -> Result<Vec<EncodedBlock>, E> {
    let table = sorted(rows.into_table(), layout);
    let rows = Sorted { table: &table, stamps: None };
    Cutter { partition, layout, bytes_max, rows, joined: &[] }.blocks(stamp)
}

/// A table in order of arrival as one in order, each event once.
fn sorted(table: Table, layout: &Layout) -> Table {
    let order = arrival_order(&table, layout);
    if order.is_as_given() {
        return table;
    }
    Table {
        ts: order.firsts().map(|place| table.ts[place.row as usize]).collect(),
        ids: gather_ids(&order, &[&table.ids]),
        columns: gather(&order, &[&table.columns]),
    }
}

/// Orders rows that arrived one after the other: of one event, the later arrival stands last.
fn arrival_order(table: &Table, layout: &Layout) -> Order {
    let run = Run { ts: &table.ts, distinct: false };
    let all_at_once = Stamps::One(Stamp { time: 0, node: 0 });
    let Ok(order) = order::<Infallible>(&[run], |_| {
        Ok(Identity {
            ids: Cow::Borrowed(&table.ids),
            tag: shard_tag(&table.columns, layout).map(Cow::Borrowed),
            stamps: Cow::Borrowed(&all_at_once),
        })
    });
    order
}

/// The column of the tag that is part of the identity.
pub(super) fn shard_tag<'a>(columns: &'a [Column], layout: &Layout) -> Option<&'a Column> {
    let name = layout.shard_by.tag()?;
    columns.iter().find(|column| column.tag && column.name == name)
}
