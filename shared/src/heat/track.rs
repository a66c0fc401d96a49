//! What one node writes: events, bytes, store units and throttles per key, layout and suffix, second
//! by second over a short window, in bounded memory.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::sketch::Sketch;
use crate::layout::LayoutVersion;
use crate::model::Namespace;
use crate::partition::Partition;
use crate::store::EncodedBlock;
use crate::store::usage::{Throttle, Usage};

/// Suffixes counted in one second; the least written of more are forgotten (see [`Sketch`]).
const SUFFIXES_COUNTED_MAX: usize = 16_384;
/// Keys whose counts of a second are kept.
const KEYS_KEPT_MAX: usize = 64;
/// Suffixes of such a key whose counts are kept, the most written ones.
const SUFFIXES_KEPT_MAX: usize = 64;
/// Seconds that make up the rate of the moment: long enough to tell a rise from a burst, short
/// enough to act within seconds.
const NOW_SECONDS: usize = 2;
/// Seconds that make up the steadier rate.
const WINDOW_SECONDS: usize = 10;
/// Bytes that one store unit writes: DynamoDB's write unit.
const UNIT_BYTES: u64 = 1_024;

/// Store units that writing a block costs.
pub fn units(block_bytes: usize) -> u64 {
    (block_bytes as u64).div_ceil(UNIT_BYTES).max(1)
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events.
    pub events: u64,
    /// Bytes of blocks.
    pub bytes: u64,
    /// Store units.
    pub units: u64,
    /// Blocks that the store refused for their rate.
    pub throttles: u64,
}

/// What is written per second. In documents an array of the four, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "[f64; 4]", into = "[f64; 4]")]
pub struct Rate {
    /// Events.
    pub events: f64,
    /// Bytes of blocks.
    pub bytes: f64,
    /// Store units.
    pub units: f64,
    /// Blocks that the store refused for their rate.
    pub throttles: f64,
}

/// A key under one of its layouts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tracked {
    /// Namespace.
    pub ns: Namespace,
    /// Key.
    pub key: Arc<str>,
    /// Version of the layout.
    pub version: LayoutVersion,
}

/// How fast a key is written under one layout.
#[derive(Clone, Debug)]
pub struct TrackedRate {
    /// Which key, under which layout.
    pub tracked: Tracked,
    /// Now.
    pub now: Rate,
    /// Over the window.
    pub window: Rate,
    /// The most written suffixes now.
    pub suffixes: Vec<(u32, Rate)>,
}

/// Counts what a node writes.
#[derive(Debug)]
pub struct Tracker {
    /// Whether the store says what it charges and refuses; else that is told by the blocks.
    told: bool,
    state: Mutex<State>,
}

/// Blocks on their way to the store, until dropped.
#[must_use]
#[derive(Debug)]
pub struct Writing<'a> {
    tracker: &'a Tracker,
    partitions: Vec<Arc<Partition>>,
}

#[derive(Debug)]
struct State {
    current: Sketch<(Tracked, u32), Counts>,
    /// Partitions that events are being written to, of a store that tells what it charges.
    writing: HashSet<Arc<Partition>>,
    /// Newest last.
    seconds: VecDeque<Second>,
}

/// One second, closed.
#[derive(Debug)]
struct Second {
    passed: Duration,
    keys: HashMap<Tracked, KeyCounts>,
    lost: u64,
}

#[derive(Debug, Default)]
struct KeyCounts {
    total: Counts,
    suffixes: Vec<(u32, Counts)>,
}

impl Default for Tracker {
    fn default() -> Self {
        let state = State { current: Sketch::new(SUFFIXES_COUNTED_MAX), writing: HashSet::new(), seconds: VecDeque::new() };
        Tracker { told: false, state: Mutex::new(state) }
    }
}

impl Tracker {
    /// Of a store that tells units and throttles itself, as [`Usage`].
    pub fn told() -> Tracker {
        Tracker { told: true, ..Tracker::default() }
    }

    /// Says which blocks of events are on their way. What the store tells of other partitions is no heat: blocks
    /// are merged and deleted where no more events go.
    pub fn writing(&self, blocks: &[EncodedBlock]) -> Writing<'_> {
        let mut partitions = Vec::new();
        if self.told {
            partitions.extend(blocks.iter().map(|block| block.partition.clone()));
            self.state().writing.extend(partitions.iter().cloned());
        }
        Writing { tracker: self, partitions }
    }

    /// Counts blocks that were stored.
    pub fn stored(&self, blocks: &[EncodedBlock]) {
        let mut state = self.state();
        for block in blocks {
            let units = if self.told { 0 } else { units(block.bytes.len()) };
            let counts = Counts { events: block.events.into(), bytes: block.bytes.len() as u64, units, throttles: 0 };
            state.count(&block.partition, counts);
        }
    }

    /// Counts blocks of a write that the store refused for its rate.
    pub fn refused(&self, blocks: &[EncodedBlock]) {
        if self.told {
            return;
        }
        let mut state = self.state();
        for block in blocks {
            state.count(&block.partition, Counts { throttles: 1, ..Counts::default() });
        }
    }

    /// Closes the second that took `passed`.
    pub fn roll(&self, passed: Duration) {
        let mut state = self.state();
        let closed = std::mem::replace(&mut state.current, Sketch::new(SUFFIXES_COUNTED_MAX));
        state.seconds.push_back(Second::close(passed, closed));
        while state.seconds.len() > WINDOW_SECONDS {
            state.seconds.pop_front();
        }
    }

    /// Rates of the keys that were written most, the most written first.
    pub fn rates(&self) -> Vec<TrackedRate> {
        let state = self.state();
        let recent = || state.seconds.iter().rev().take(NOW_SECONDS);
        let mut rates: Vec<TrackedRate> = state
            .seconds
            .iter()
            .flat_map(|second| second.keys.keys())
            .collect::<HashSet<_>>()
            .into_iter()
            .map(|tracked| TrackedRate {
                now: rate(recent(), |second| second.total(tracked)),
                window: rate(state.seconds.iter(), |second| second.total(tracked)),
                suffixes: suffix_rates(recent, tracked),
                tracked: tracked.clone(),
            })
            .collect();
        rates.sort_by(|a, b| b.now.weight().total_cmp(&a.now.weight()).then_with(|| a.tracked.cmp(&b.tracked)));
        rates.truncate(KEYS_KEPT_MAX);
        rates
    }

    /// Events and units per second that a key may have at most and not be among the rates.
    pub fn unseen(&self) -> f64 {
        let state = self.state();
        let passed: f64 = state.seconds.iter().map(|second| second.passed.as_secs_f64()).sum();
        let lost: u64 = state.seconds.iter().map(|second| second.lost).sum();
        if passed > 0.0 { lost as f64 / passed } else { 0.0 }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }
}

impl Usage for Tracker {
    fn wrote(&self, partition: &Partition, units: f64) {
        self.state().told(partition, Counts { units: units.round() as u64, ..Counts::default() });
    }

    fn throttled(&self, partition: &Partition, throttle: Throttle) {
        match throttle {
            Throttle::KeyRange | Throttle::Unsaid => self.state().told(partition, Counts { throttles: 1, ..Counts::default() }),
            // More shards do not raise the limit of a table or an account.
            Throttle::Table | Throttle::Account => {}
        }
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if !self.partitions.is_empty() {
            let mut state = self.tracker.state();
            for partition in &self.partitions {
                state.writing.remove(partition);
            }
        }
    }
}

impl State {
    fn told(&mut self, partition: &Partition, counts: Counts) {
        if self.writing.contains(partition) {
            self.count(partition, counts);
        }
    }

    fn count(&mut self, partition: &Partition, counts: Counts) {
        let Partition { ns, key, version, suffix, .. } = partition;
        let tracked = Tracked { ns: ns.clone(), key: key.clone(), version: *version };
        self.current.add((tracked, *suffix), counts.weight(), |sum| sum.add(counts));
    }
}

impl Second {
    fn close(passed: Duration, counted: Sketch<(Tracked, u32), Counts>) -> Second {
        let lost = counted.lost();
        let mut keys: HashMap<Tracked, KeyCounts> = HashMap::new();
        for ((tracked, suffix), counts) in counted.into_entries() {
            let key = keys.entry(tracked).or_default();
            key.total.add(counts);
            key.suffixes.push((suffix, counts));
        }
        let mut keys: Vec<_> = keys.into_iter().collect();
        keep_heaviest(&mut keys, KEYS_KEPT_MAX, |(_, key)| key.total.weight());
        for (_, key) in &mut keys {
            keep_heaviest(&mut key.suffixes, SUFFIXES_KEPT_MAX, |(_, counts)| counts.weight());
        }
        Second { passed, keys: keys.into_iter().collect(), lost }
    }

    fn total(&self, tracked: &Tracked) -> Counts {
        self.keys.get(tracked).map(|key| key.total).unwrap_or_default()
    }
}

fn keep_heaviest<T>(all: &mut Vec<T>, most: usize, weight: impl Fn(&T) -> u64) {
    if all.len() > most {
        all.select_nth_unstable_by_key(most, |item| std::cmp::Reverse(weight(item)));
        all.truncate(most);
        all.shrink_to_fit();
    }
}

fn rate<'a>(seconds: impl Iterator<Item = &'a Second>, counts: impl Fn(&Second) -> Counts) -> Rate {
    let (mut sum, mut passed) = (Counts::default(), 0.0);
    for second in seconds {
        sum.add(counts(second));
        passed += second.passed.as_secs_f64();
    }
    sum.per_second(passed)
}

fn suffix_rates<'a, I: Iterator<Item = &'a Second>>(recent: impl Fn() -> I, tracked: &Tracked) -> Vec<(u32, Rate)> {
    let passed: f64 = recent().map(|second| second.passed.as_secs_f64()).sum();
    let mut sums: HashMap<u32, Counts> = HashMap::new();
    for (suffix, counts) in recent().filter_map(|second| second.keys.get(tracked)).flat_map(|key| &key.suffixes) {
        sums.entry(*suffix).or_default().add(*counts);
    }
    let mut rates: Vec<_> = sums.into_iter().map(|(suffix, counts)| (suffix, counts.per_second(passed))).collect();
    rates.sort_by(|a, b| b.1.weight().total_cmp(&a.1.weight()).then(a.0.cmp(&b.0)));
    rates.truncate(SUFFIXES_KEPT_MAX);
    rates
}

impl Counts {
    /// Adds `other`; saturates.
    pub fn add(&mut self, other: Counts) {
        self.events = self.events.saturating_add(other.events);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.units = self.units.saturating_add(other.units);
        self.throttles = self.throttles.saturating_add(other.throttles);
    }

    /// What decides which keys are kept.
    fn weight(&self) -> u64 {
        self.events.saturating_add(self.units).saturating_add(self.throttles).max(1)
    }

    /// To a tenth; documents carry these.
    fn per_second(self, seconds: f64) -> Rate {
        let per = |count: u64| if seconds > 0.0 { (count as f64 / seconds * 10.0).round() / 10.0 } else { 0.0 };
        Rate { events: per(self.events), bytes: per(self.bytes), units: per(self.units), throttles: per(self.throttles) }
    }
}

impl From<[f64; 4]> for Rate {
    fn from([events, bytes, units, throttles]: [f64; 4]) -> Rate {
        Rate { events, bytes, units, throttles }
    }
}

impl From<Rate> for [f64; 4] {
    fn from(rate: Rate) -> [f64; 4] {
        [rate.events, rate.bytes, rate.units, rate.throttles]
    }
}

impl Rate {
    /// Adds `other`.
    pub fn add(&mut self, other: Rate) {
        self.events += other.events;
        self.bytes += other.bytes;
        self.units += other.units;
        self.throttles += other.throttles;
    }

    /// What decides which keys are shown first.
    pub fn weight(&self) -> f64 {
        self.events + self.units + self.throttles
    }
}
