//! Scans: a Query or two for each partition, several partitions at a time, every page followed.
//!
//! A partition's long and short blocks stand in lanes of their own (see `keys`); what is given is
//! the two merged, in the order of addresses.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::try_join_all;
use futures::stream::{FuturesUnordered, StreamExt};

use super::engine::Engine;
use super::failure::Failure;
use super::items::{Attributes, DATA, SK, key_of, take_binary};
use super::keys::{self, Lane, SHORT_NANOS};
use super::query::{Page, Range};
use super::units::Purpose;
use crate::model::Timestamp;
use crate::partition::Partition;
use crate::store::{Consistency, Scan, ScanPage, StoreError, StoredBlock, overlaps};

/// Partitions that are read at the same time.
const PARTITIONS_AT_ONCE: usize = 16;
/// Bytes of blocks from which on a page takes no more.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// A scan between two pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Cursor {
    /// Partitions that are begun.
    begun: Vec<Reading>,
    /// The first one that is not.
    next: u32,
    /// Read units that it cost so far.
    units: f64,
}

/// One partition under way.
#[derive(Clone, Debug)]
struct Reading {
    index: u32,
    /// Whether the range begins so early that nothing before it is worth a look of its own: one
    /// Query may then cover both lanes.
    whole: bool,
    long: LaneReading,
    short: LaneReading,
}

/// One lane under way.
#[derive(Clone, Debug, Default)]
struct LaneReading {
    at: At,
    /// Blocks that can't be given yet, for the other lane may have earlier ones.
    held: VecDeque<StoredBlock>,
}

/// How far a lane was read.
#[derive(Clone, Debug, Default)]
enum At {
    #[default]
    Start,
    Behind(Attributes),
    End,
}

impl LaneReading {
    fn is_wanting(&self) -> bool {
        self.held.is_empty() && !matches!(self.at, At::End)
    }

    fn first(&self) -> Option<&StoredBlock> {
        self.held.front()
    }
}

impl Reading {
    fn new(index: u32, scan: &Scan) -> Reading {
        let from = scan.range.from.nanos().saturating_sub(SHORT_NANOS);
        let whole = from <= scan.partitions[index as usize].bucket.nanos();
        Reading { index, whole, long: LaneReading::default(), short: LaneReading::default() }
    }

    fn partition<'a>(&self, scan: &'a Scan) -> &'a Partition {
        &scan.partitions[self.index as usize]
    }

    fn is_done(&self) -> bool {
        [&self.long, &self.short].iter().all(|lane| matches!(lane.at, At::End) && lane.held.is_empty())
    }

    fn lane(&mut self, lane: Lane) -> &mut LaneReading {
        match lane {
            Lane::Long => &mut self.long,
            Lane::Short => &mut self.short,
        }
    }

    /// Sort keys of a lane where blocks of the range may stand.
    fn between(&self, lane: Lane, scan: &Scan) -> (Vec<u8>, Vec<u8>) {
        let first = match lane {
            Lane::Short if !self.whole => Timestamp::from_nanos(scan.range.from.nanos().saturating_sub(SHORT_NANOS)),
            _ => Timestamp::MIN,
        };
        (keys::lane_start(lane, first), keys::lane_start(lane, scan.range.to))
    }

    fn query(&self, between: (Vec<u8>, Vec<u8>), scan: &Scan) -> Range {
        let strong = scan.consistency == Consistency::Strong;
        Range { pk: keys::blocks_pk(self.partition(scan)), between, strong, limit: None, data: true }
    }

    /// Takes in a page's blocks, each in its lane.
    fn take(&mut self, items: Vec<Attributes>, scan: &Scan) -> Result<(), StoreError> {
        for mut item in items {
            let place = take_binary(&mut item, SK).and_then(|sk| keys::block_of(&sk));
            let whole = place.zip(take_binary(&mut item, DATA));
            let ((lane, address), bytes) =
                whole.ok_or_else(|| Failure::corrupt(format!("an item of {:?} is no block", self.partition(scan))))?;
            if overlaps(&address, scan.range) {
                self.lane(lane).held.push_back(StoredBlock { address, bytes: Bytes::from(bytes) });
            }
        }
        Ok(())
    }

    /// Takes in how far a Query over both lanes came.
    fn came_to(&mut self, next: Option<Attributes>, scan: &Scan) -> Result<(), StoreError> {
        let Some(next) = next else {
            (self.long.at, self.short.at) = (At::End, At::End);
            return Ok(());
        };
        let at = key_of(&next).and_then(|key| keys::block_of(&key.sk)).ok_or_else(|| Failure::corrupt("a page ends at no block"))?;
        match at {
            (Lane::Short, _) => (self.long.at, self.short.at) = (At::End, At::Behind(next)),
            (Lane::Long, address) if address.min_ts >= scan.range.to => self.long.at = At::End,
            (Lane::Long, _) => self.long.at = At::Behind(next),
        }
        Ok(())
    }

    /// The blocks that are known to come next.
    fn give(&mut self) -> Vec<StoredBlock> {
        let mut given = Vec::with_capacity(self.long.held.len() + self.short.held.len());
        while !self.long.is_wanting() && !self.short.is_wanting() {
            let long_is_next = match (self.long.first(), self.short.first()) {
                (Some(long), Some(short)) => long.address < short.address,
                (long, None) => long.is_some(),
                (None, Some(_)) => false,
            };
            let next = if long_is_next { self.long.held.pop_front() } else { self.short.held.pop_front() };
            let Some(next) = next else { break };
            given.push(next);
        }
        given
    }
}

/// What one step through a partition gave.
struct Step {
    reading: Reading,
    blocks: Vec<StoredBlock>,
    units: f64,
}

impl Engine {
    /// The next page of a scan.
    pub(super) async fn scan_page(&self, scan: &Scan, cursor: Cursor, allowed: Duration) -> Result<ScanPage, StoreError> {
        if scan.range.is_empty() {
            return Ok(ScanPage { answered: (0..scan.partitions.len() as u32).collect(), ..ScanPage::default() });
        }
        let Cursor { begun, mut next, mut units } = cursor;
        let (mut waiting, mut page, mut bytes) = (VecDeque::from(begun), ScanPage::default(), 0);
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < PARTITIONS_AT_ONCE && bytes < PAGE_BYTES {
                let reading = waiting.pop_front().or_else(|| {
                    let new = ((next as usize) < scan.partitions.len()).then(|| Reading::new(next, scan))?;
                    next += 1;
                    Some(new)
                });
                let Some(reading) = reading else { break };
                running.push(self.step(scan, reading, allowed));
            }
            let Some(step) = running.next().await else { break };
            let Step { reading, blocks, units: cost } = step?;
            units += cost;
            bytes += blocks.iter().map(|block| block.bytes.len()).sum::<usize>();
            page.blocks.extend(blocks.into_iter().map(|block| (reading.index, block)));
            if reading.is_done() {
                page.answered.push(reading.index);
            } else {
                waiting.push_back(reading);
            }
        }
        if waiting.is_empty() && next as usize == scan.partitions.len() {
            self.units.scanned(units);
        } else {
            page.next = Some(Arc::new(Cursor { begun: waiting.into(), next, units }));
        }
        Ok(page)
    }

    /// Reads on in one partition: whatever lane has nothing at hand.
    async fn step(&self, scan: &Scan, mut reading: Reading, allowed: Duration) -> Result<Step, StoreError> {
        let mut units = 0.0;
        let fresh = matches!((&reading.long.at, &reading.short.at), (At::Start, At::Start));
        if fresh && reading.whole {
            let both = (keys::lane_start(Lane::Long, Timestamp::MIN), keys::lane_start(Lane::Short, scan.range.to));
            let Page { items, next, units: cost } = self.query(&reading.query(both, scan), None, allowed).await?;
            units += cost;
            reading.take(items, scan)?;
            reading.came_to(next, scan)?;
        } else {
            let wanting: Vec<_> = [Lane::Long, Lane::Short].into_iter().filter(|lane| reading.lane(*lane).is_wanting()).collect();
            let pages = wanting.iter().map(|lane| {
                let after = match &reading.lane(*lane).at {
                    At::Behind(key) => Some(key.clone()),
                    At::Start | At::End => None,
                };
                let range = reading.query(reading.between(*lane, scan), scan);
                async move { self.query(&range, after, allowed).await }
            });
            let pages: Vec<_> = pages.collect();
            for (lane, page) in wanting.into_iter().zip(try_join_all(pages).await?) {
                units += page.units;
                reading.take(page.items, scan)?;
                reading.lane(lane).at = page.next.map_or(At::End, At::Behind);
            }
        }
        self.units.read(Some(&reading.partition(scan).ns), Purpose::Blocks, units);
        let blocks = reading.give();
        Ok(Step { reading, blocks, units })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::Stamp;
    use crate::store::BlockAddress;

    fn block(min: i64, max: i64) -> StoredBlock {
        let address =
            BlockAddress { min_ts: Timestamp::from_nanos(min), max_ts: Timestamp::from_nanos(max), id: Stamp { time: 1, node: 1 } };
        StoredBlock { address, bytes: Bytes::new() }
    }

    fn given(reading: &mut Reading) -> Vec<i64> {
        reading.give().iter().map(|block| block.address.min_ts.nanos()).collect()
    }

    #[test]
    fn a_block_is_given_only_when_the_other_lane_can_have_no_earlier_one() {
        let lane = |at, mins: &[i64]| LaneReading { at, held: mins.iter().map(|min| block(*min, *min)).collect() };
        let open = || At::Behind(Attributes::new());
        let mut reading = Reading { index: 0, whole: false, long: lane(open(), &[2, 6]), short: lane(open(), &[1, 3, 4]) };
        assert_eq!(given(&mut reading), [1, 2, 3, 4]);
        assert_eq!(given(&mut reading), [0; 0], "6 waits for what the short lane has next");
        reading.short = lane(At::End, &[5]);
        assert_eq!(given(&mut reading), [5, 6]);
        assert!(!reading.is_done(), "the long lane goes on");
        reading.long.at = At::End;
        assert!(reading.is_done());
    }
}
