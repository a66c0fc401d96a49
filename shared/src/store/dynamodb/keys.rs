//! Keys of the table: what its partition key `pk` and sort key `sk` are made of. Pure.
//!
//! A letter begins every partition key, one for each kind of item. Blocks of one partition stand in lanes
//! by how long they last, each lane in the order of their addresses: a scan from some time on need look
//! back in a lane no further than its blocks last (ADR 181).

use xxhash_rust::xxh3::xxh3_64;

use crate::model::{Namespace, Span, Timestamp};
use crate::partition::{Partition, key_prefix, ordered_time, time_from_ordered};
use crate::stamp::Stamp;
use crate::store::{BlockAddress, Day};

const BLOCK: u8 = b'b';
const DAY: u8 = b'd';
const DOCUMENT: u8 = b'f';
const NAME: u8 = b'n';

/// The lanes, in the order of their sort keys: a block stands in the last one where from its first event to its last
/// it is less than so long. Some 20 full blocks, or fewer, lie in the stretch that a lane is looked back. Part of the
/// format: they may never change.
const LASTS_LESS_THAN: [Option<Span>; LANES] =
    [None, Span::from_nanos(100_000_000_000), Span::from_nanos(5_000_000_000), Span::from_nanos(250_000_000)];

/// How many lanes there are.
pub(super) const LANES: usize = 4;

/// Partition keys that the names of one namespace are dealt to, so that a flood of new keys is not
/// one partition's. Part of the format.
pub(super) const NAME_PARTS: u8 = 16;

/// Behind every UTF-8 text that begins alike.
const BEHIND_TEXT: u8 = 0xFF;

/// Where an item stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) pk: Vec<u8>,
    pub(super) sk: Vec<u8>,
}

/// The lane of a block.
fn lane_of(address: &BlockAddress) -> usize {
    let lasts = address.max_ts.nanos().checked_sub(address.min_ts.nanos());
    let fits = |least: &Option<Span>| least.is_none_or(|least| lasts.is_some_and(|lasts| lasts < least.nanos()));
    LASTS_LESS_THAN.iter().rposition(fits).unwrap_or_default()
}

/// The earliest that a block of a lane may begin which reaches to `ts`: the later, the further behind the lane.
pub(super) fn earliest(lane: usize, ts: Timestamp) -> Timestamp {
    LASTS_LESS_THAN[lane].map_or(Timestamp::MIN, |least| Timestamp::from_nanos(ts.nanos().saturating_sub(least.nanos())))
}

/// Partition key of a partition's blocks.
pub(super) fn blocks_pk(partition: &Partition) -> Vec<u8> {
    let mut pk = vec![BLOCK];
    pk.extend_from_slice(&partition.encode());
    pk
}

/// Sort key of a block.
pub(super) fn block_sk(address: &BlockAddress) -> Vec<u8> {
    let mut sk = lane_start(lane_of(address), address.min_ts);
    sk.extend_from_slice(&ordered_time(address.max_ts));
    sk.extend_from_slice(&address.id.time.to_be_bytes());
    sk.extend_from_slice(&address.id.node.to_be_bytes());
    sk
}

/// The least sort key in a lane of a block that begins at `ts` or later.
pub(super) fn lane_start(lane: usize, ts: Timestamp) -> Vec<u8> {
    let mut sk = vec![lane as u8];
    sk.extend_from_slice(&ordered_time(ts));
    sk
}

/// The lane and the address that a sort key says; `None` where it is no block's.
pub(super) fn block_of(sk: &[u8]) -> Option<(usize, BlockAddress)> {
    let (lane, rest) = sk.split_first()?;
    let (min, rest) = rest.split_first_chunk::<8>()?;
    let (max, rest) = rest.split_first_chunk::<8>()?;
    let (time, node) = rest.split_first_chunk::<8>()?;
    let id = Stamp { time: u64::from_be_bytes(*time), node: u64::from_be_bytes(node.try_into().ok()?) };
    let address = BlockAddress { min_ts: time_from_ordered(*min), max_ts: time_from_ordered(*max), id };
    let said = lane_of(&address);
    (said as u8 == *lane).then_some((said, address))
}

/// Where a document stands.
pub(super) fn document(name: &str) -> Key {
    Key { pk: [&[DOCUMENT], name.as_bytes()].concat(), sk: vec![0] }
}

/// Partition key of one part of a namespace's names.
pub(super) fn names_pk(ns: &Namespace, part: u8) -> Vec<u8> {
    [&[NAME, part], ns.as_str().as_bytes()].concat()
}

/// Where the note stands that a namespace has this logical key.
pub(super) fn name(ns: &Namespace, key: &str) -> Key {
    let part = (xxh3_64(key.as_bytes()) % u64::from(NAME_PARTS)) as u8;
    Key { pk: names_pk(ns, part), sk: key.as_bytes().to_vec() }
}

/// First and last sort key of the names with `prefix` behind `after`.
pub(super) fn names_between(prefix: &str, after: Option<&str>) -> (Vec<u8>, Vec<u8>) {
    let behind = after.map(|after| [after.as_bytes(), &[0]].concat()).unwrap_or_default();
    // No sort key is empty, so this is the least there can be.
    let first = prefix.as_bytes().to_vec().max(behind).max(vec![0]);
    (first, [prefix.as_bytes(), &[BEHIND_TEXT]].concat())
}

/// Partition key of the days of a logical key.
pub(super) fn days_pk(ns: &Namespace, key: &str) -> Vec<u8> {
    [&[DAY], key_prefix(ns, key).as_slice()].concat()
}

/// Sort key of a day.
pub(super) fn day_sk(day: Day) -> Vec<u8> {
    ((day as u32) ^ (1 << 31)).to_be_bytes().to_vec()
}

/// The day that a sort key says.
pub(super) fn day_of(sk: &[u8]) -> Option<Day> {
    Some((u32::from_be_bytes(sk.try_into().ok()?) ^ (1 << 31)) as Day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(min: i64, max: i64) -> BlockAddress {
        BlockAddress { min_ts: Timestamp::from_nanos(min), max_ts: Timestamp::from_nanos(max), id: Stamp { time: 5, node: u64::MAX } }
    }

    #[test]
    fn a_sort_key_gives_back_lane_and_address() {
        for (min, max, lane) in [
            (-5, 7, 3),
            (0, 249_999_999, 3),
            (0, 250_000_000, 2),
            (7, 5_000_000_006, 2),
            (7, 5_000_000_007, 1),
            (0, 99_999_999_999, 1),
            (0, 100_000_000_000, 0),
            (i64::MIN, i64::MAX, 0),
            (i64::MAX, i64::MAX, 3),
        ] {
            assert_eq!(block_of(&block_sk(&address(min, max))), Some((lane, address(min, max))));
        }
    }

    #[test]
    fn a_block_that_reaches_to_a_time_begins_no_earlier_than_its_lane_is_looked_back() {
        for lasts in [0, 1, 249_999_999, 250_000_000, 5_000_000_000, 100_000_000_000, i64::MAX] {
            let block = address(-lasts, 0);
            assert!(earliest(lane_of(&block), block.max_ts) <= block.min_ts, "{lasts}");
        }
        assert_eq!(earliest(1, Timestamp::MIN), Timestamp::MIN);
    }

    #[test]
    fn a_sort_key_in_the_wrong_lane_or_of_another_length_is_no_blocks() {
        let mut sk = block_sk(&address(0, 7));
        sk[0] = 0;
        assert_eq!(block_of(&sk), None);
        let sk = block_sk(&address(0, 7));
        assert!((0..sk.len()).all(|len| block_of(&sk[..len]).is_none()));
        assert_eq!(block_of(&[sk, vec![0]].concat()), None);
    }

    #[test]
    fn names_behind_a_name_begin_right_after_it() {
        let (first, last) = names_between("a", Some("ab"));
        assert!(*first > *b"ab".as_slice() && *first <= *b"ab\0".as_slice() && *last > *"a\u{10FFFF}".as_bytes());
        assert_eq!(names_between("", None).0, [0]);
    }
}
