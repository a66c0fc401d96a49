//! Scans: a Query for each partition, or one for each of its lanes, several partitions at a time, every page followed.
//!
//! Blocks stand in lanes by how long they last (see `keys`); what is given is the lanes merged, in the order
//! of addresses.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::try_join_all;
use futures::stream::{FuturesUnordered, StreamExt};

use super::engine::Engine;
use super::failure::Failure;
use super::items::{Attributes, DATA, SK, key_of, take_binary};
use super::keys::{self, LANES};
use super::query::{self, Page};
use super::units::Purpose;
use crate::partition::Partition;
use crate::store::{BlockAddress, Consistency, Scan, ScanPage, StoreError, StoredBlock, overlaps};

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
    /// So many lanes, the first ones, are looked back to the bucket's start at least: one Query covers them.
    together: usize,
    lanes: [LaneReading; LANES],
}

/// One lane under way.
#[derive(Clone, Debug, Default)]
struct LaneReading {
    at: At,
    /// Blocks that can't be given yet, for another lane may have earlier ones.
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

    /// Where the next block stands that is at hand.
    fn first(&self) -> Option<BlockAddress> {
        self.held.front().map(|block| block.address)
    }
}

impl Reading {
    fn new(index: u32, scan: &Scan) -> Reading {
        let bucket = scan.partitions[index as usize].bucket;
        let together = (0..LANES).take_while(|lane| keys::earliest(*lane, scan.range.from) <= bucket).count();
        Reading { index, together, lanes: Default::default() }
    }

    fn partition<'a>(&self, scan: &'a Scan) -> &'a Partition {
        &scan.partitions[self.index as usize]
    }

    fn is_done(&self) -> bool {
        self.lanes.iter().all(|lane| matches!(lane.at, At::End) && lane.held.is_empty())
    }

    /// The lanes that have nothing at hand, by the Queries that read on in them.
    fn wanting(&self) -> Vec<Range<usize>> {
        let fresh = self.lanes.iter().all(|lane| matches!(lane.at, At::Start));
        let together = if fresh { self.together } else { 0 };
        let alone = (together..LANES).filter(|lane| self.lanes[*lane].is_wanting()).map(|lane| lane..lane + 1);
        (together > 0).then_some(0..together).into_iter().chain(alone).collect()
    }

    /// The sort keys of lanes where blocks of the range may stand.
    fn query(&self, lanes: &Range<usize>, scan: &Scan) -> query::Range {
        let (first, last) = (lanes.start, lanes.end - 1);
        let between = (keys::lane_start(first, keys::earliest(first, scan.range.from)), keys::lane_start(last, scan.range.to));
        let strong = scan.consistency == Consistency::Strong;
        query::Range { pk: keys::blocks_pk(self.partition(scan)), between, strong, limit: None, data: true }
    }

    /// Behind which key a Query over lanes goes on.
    fn after(&self, lanes: &Range<usize>) -> Option<Attributes> {
        match &self.lanes[lanes.start].at {
            At::Behind(key) => Some(key.clone()),
            At::Start | At::End => None,
        }
    }

    /// Takes in a page's blocks, each in its lane.
    fn take(&mut self, items: Vec<Attributes>, scan: &Scan) -> Result<(), StoreError> {
        for mut item in items {
            let place = take_binary(&mut item, SK).and_then(|sk| keys::block_of(&sk));
            let whole = place.zip(take_binary(&mut item, DATA));
            let ((lane, address), bytes) =
                whole.ok_or_else(|| Failure::corrupt(format!("an item of {:?} is no block", self.partition(scan))))?;
            if overlaps(&address, scan.range) {
                self.lanes[lane].held.push_back(StoredBlock { address, bytes: Bytes::from(bytes) });
            }
        }
        Ok(())
    }

    /// Takes in how far a Query over lanes came.
    fn came_to(&mut self, lanes: Range<usize>, next: Option<Attributes>, scan: &Scan) -> Result<(), StoreError> {
        let Some(next) = next else {
            self.lanes[lanes].iter_mut().for_each(|lane| lane.at = At::End);
            return Ok(());
        };
        let at = key_of(&next).and_then(|key| keys::block_of(&key.sk)).filter(|(lane, _)| lanes.contains(lane));
        let (lane, address) = at.ok_or_else(|| Failure::corrupt("a page ends at no block of its range"))?;
        self.lanes[lanes.start..lane].iter_mut().for_each(|lane| lane.at = At::End);
        self.lanes[lane].at = if address.min_ts >= scan.range.to { At::End } else { At::Behind(next) };
        Ok(())
    }

    /// The blocks that are known to come next.
    fn give(&mut self) -> Vec<StoredBlock> {
        let mut given = Vec::with_capacity(self.lanes.iter().map(|lane| lane.held.len()).sum());
        while !self.lanes.iter().any(LaneReading::is_wanting) {
            let next = self.lanes.iter_mut().filter(|lane| !lane.held.is_empty()).min_by_key(|lane| lane.first());
            let Some(next) = next.and_then(|lane| lane.held.pop_front()) else { break };
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
        let wanting = reading.wanting();
        let pages = wanting.iter().map(|lanes| {
            let (range, after) = (reading.query(lanes, scan), reading.after(lanes));
            async move { self.query(&range, after, allowed).await }
        });
        let pages: Vec<_> = pages.collect();
        let mut units = 0.0;
        for (lanes, page) in wanting.into_iter().zip(try_join_all(pages).await?) {
            let Page { items, next, units: cost } = page;
            units += cost;
            reading.take(items, scan)?;
            reading.came_to(lanes, next, scan)?;
        }
        self.units.read(Some(&reading.partition(scan).ns), Purpose::Blocks, units);
        let blocks = reading.give();
        Ok(Step { reading, blocks, units })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Timestamp;
    use crate::stamp::Stamp;

    fn block(min: i64, max: i64) -> StoredBlock {
        let address =
            BlockAddress { min_ts: Timestamp::from_nanos(min), max_ts: Timestamp::from_nanos(max), id: Stamp { time: 1, node: 1 } };
        StoredBlock { address, bytes: Bytes::new() }
    }

    fn given(reading: &mut Reading) -> Vec<i64> {
        reading.give().iter().map(|block| block.address.min_ts.nanos()).collect()
    }

    #[test]
    fn a_block_is_given_only_when_no_other_lane_can_have_an_earlier_one() {
        let lane = |at, mins: &[i64]| LaneReading { at, held: mins.iter().map(|min| block(*min, *min)).collect() };
        let open = || At::Behind(Attributes::new());
        let lanes = [lane(open(), &[2, 7]), lane(At::End, &[]), lane(At::End, &[6]), lane(open(), &[1, 3, 4])];
        let mut reading = Reading { index: 0, together: 1, lanes };
        assert_eq!(given(&mut reading), [1, 2, 3, 4]);
        assert_eq!(given(&mut reading), [0; 0], "6 and 7 wait for what the last lane has next");
        assert_eq!(reading.wanting(), std::slice::from_ref(&(3..4)));
        reading.lanes[3] = lane(At::End, &[5]);
        assert_eq!(given(&mut reading), [5, 6, 7]);
        assert!(!reading.is_done(), "the first lane goes on");
        reading.lanes[0].at = At::End;
        assert!(reading.is_done());
    }
}
