//! The digest of a table: how many events, and an order-independent sum of their hashes, so that
//! what was read back from a file is known to be what went in. Pure.

use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use crate::block::Cell;
use crate::model::ValueRef;
use crate::stamp::Stamp;

/// Count and order-independent checksum of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// Events.
    pub rows: u64,
    /// Wrapping sum over all their parts.
    pub sum: u64,
}

impl Digest {
    /// Adds an event.
    pub fn add(&mut self, ts: i64, id: &str, cells: &[Cell<'_>], stamp: Stamp) {
        let mut identity = Xxh3::new();
        identity.update(&ts.to_le_bytes());
        identity.update(&stamp.time.to_le_bytes());
        identity.update(&stamp.node.to_le_bytes());
        identity.update(id.as_bytes());
        let event = identity.digest();
        self.rows += 1;
        self.sum = cells.iter().fold(self.sum.wrapping_add(event), |sum, cell| sum.wrapping_add(hash(cell, event)));
    }
}

/// Hash of a part of an event.
fn hash(cell: &Cell<'_>, event: u64) -> u64 {
    let mut hasher = Xxh3::with_seed(event);
    let kind = match cell.value {
        ValueRef::F64(_) => 0,
        ValueRef::I64(_) => 1,
        ValueRef::U64(_) => 2,
        ValueRef::Bool(_) => 3,
        ValueRef::Str(_) => 4,
    };
    hasher.update(&[u8::from(cell.tag), kind]);
    hasher.update(&xxh3_64_with_seed(cell.name.as_bytes(), 0).to_le_bytes());
    hasher.update(&cell.stamp.time.to_le_bytes());
    hasher.update(&cell.stamp.node.to_le_bytes());
    match cell.value {
        ValueRef::F64(value) => hasher.update(&value.to_bits().to_le_bytes()),
        ValueRef::I64(value) => hasher.update(&value.to_le_bytes()),
        ValueRef::U64(value) => hasher.update(&value.to_le_bytes()),
        ValueRef::Bool(value) => hasher.update(&[u8::from(value)]),
        ValueRef::Str(value) => hasher.update(value.as_bytes()),
    }
    hasher.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(rows: &[(i64, &str, &[Cell<'_>])]) -> Digest {
        let mut digest = Digest::default();
        rows.iter().for_each(|(ts, id, cells)| digest.add(*ts, id, cells, Stamp { time: 1, node: 2 }));
        digest
    }

    fn cell(name: &str, value: i64) -> Cell<'_> {
        Cell { tag: false, name, value: ValueRef::I64(value), stamp: Stamp { time: 1, node: 2 } }
    }

    #[test]
    fn order_means_nothing_and_everything_else_something() {
        let (x, y) = ([cell("x", 1), cell("y", 2)], [cell("y", 2), cell("x", 1)]);
        let whole = digest(&[(0, "a", &x), (1, "b", &[])]);
        assert_eq!(whole, digest(&[(1, "b", &[]), (0, "a", &y)]));
        let swapped = [cell("x", 2), cell("y", 1)];
        let tag = Cell { tag: true, value: ValueRef::Str("1"), ..cell("x", 1) };
        let later = Cell { stamp: Stamp { time: 2, node: 2 }, ..cell("x", 1) };
        for other in [&[(0, "a", &swapped[..]), (1, "b", &[])], &[(0, "a", &x[..]), (1, "c", &[])], &[(0, "b", &x[..]), (1, "a", &[])]] {
            assert_ne!(whole, digest(other));
        }
        assert_ne!(digest(&[(0, "a", &[tag])]), digest(&[(0, "a", &[cell("x", 1)])]));
        assert_ne!(digest(&[(0, "a", &[later])]), digest(&[(0, "a", &[cell("x", 1)])]));
    }
}
