//! Step: group commit. While a partition's blocks are in flight, new rows for it gather; when they
//! are done, the next flush takes all that gathered. An idle partition is flushed at once.
//!
//! Where a store charges by the item, rows go on gathering until the `linger` has passed since the last flush
//! began, or enough are there (ADR 180). Only a partition that several requests share lingers: one that writes alone waits for nobody.
//!
//! ONE-IN-FLIGHT: the map holds exactly the partitions that are in flight, each with what gathers behind it, so
//! no two flushes of one partition ever overlap and idle keys cost nothing. One task flushes all
//! partitions that one request found idle, in one call to the store, and goes on with those that
//! have more. Never holds acknowledged data, and knows nothing of requests but their tickets.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use braid_shared::block::RowBuffer;
use braid_shared::codes;
use braid_shared::layout::Layout;
use braid_shared::model::{Batch, Row};
use braid_shared::partition::Partition;
use braid_shared::store::{Day, day_of};
use prometheus::IntGauge;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::fault::Fault;
use crate::flush::Flusher;
use crate::inflight::Reservation;
use crate::route::Routed;
use crate::settings::IngestSettings;
use crate::ticket::{Ticket, Waiting};

/// Parts of the map, each behind a lock of its own.
const PARTS: usize = 64;
/// Bytes of rows that are worth a flush before the linger has passed: encoded some 5 KiB, of which rounding up to
/// whole KiB wastes a tenth.
const ENOUGH_BYTES: usize = 16 * 1024;

/// Where rows gather.
pub(crate) struct Coalescer {
    parts: Vec<Mutex<HashMap<Arc<Partition>, Busy>>>,
    hasher: RandomState,
    flusher: Flusher,
    rows_max: usize,
    bytes_max: usize,
    linger: Duration,
    pending: IntGauge,
}

/// A partition in flight.
struct Busy {
    /// What gathers behind it.
    gathered: Gathered,
    /// Tells its flight that enough has gathered.
    enough: Arc<Notify>,
}

/// Rows of one partition that wait for a flush, and who waits for them.
#[derive(Default)]
pub(crate) struct Gathered {
    /// The rows, in order of arrival.
    pub(crate) rows: RowBuffer,
    /// Their UTC days, with repetitions.
    pub(crate) days: Vec<Day>,
    /// Who waits, and for how many of the rows.
    pub(crate) waiters: Vec<(Arc<Ticket>, u64)>,
    /// When the first of them arrived.
    pub(crate) since: Option<Instant>,
}

/// One partition's share of a flush.
pub(crate) struct Load {
    /// The partition.
    pub(crate) partition: Arc<Partition>,
    /// The layout that placed its rows.
    pub(crate) layout: Arc<Layout>,
    /// The rows.
    pub(crate) gathered: Gathered,
    /// Whether its last flush served several requests.
    shared: bool,
}

impl Gathered {
    fn push<'a: 'b, 'b>(&mut self, batch: &'b Batch<'a>, rows: impl Iterator<Item = &'b Row<'a>>) {
        for row in rows {
            let (Some(ts), Some(id)) = (row.ts, row.id.as_deref()) else { continue };
            let fields = batch.fields_of(row).iter().map(|(name, value)| (&**name, value.as_ref()));
            let tags = batch.tags_of(row).iter().map(|(name, value)| (&**name, &**value));
            self.rows.push(ts, id, fields, tags);
            let day = day_of(ts);
            if self.days.last() != Some(&day) {
                self.days.push(day);
            }
        }
    }

    fn wait(&mut self, ticket: &Arc<Ticket>, rows: usize) {
        self.waiters.push((ticket.clone(), rows as u64));
        self.since.get_or_insert_with(Instant::now);
    }
}

impl Coalescer {
    pub(crate) fn new(flusher: Flusher, settings: &IngestSettings, pending: IntGauge) -> Coalescer {
        Coalescer {
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            flusher,
            rows_max: settings.gathered_rows_max,
            bytes_max: settings.gathered_bytes_max,
            linger: settings.linger,
            pending,
        }
    }

    /// Copies a request's rows to where their partitions gather, and sees to it that they are
    /// flushed. The batch is no longer needed when this returns.
    pub(crate) fn submit(self: &Arc<Self>, batch: &Batch<'_>, routed: &Routed, reservation: Reservation) -> Result<Waiting, Fault> {
        self.check_room(routed)?;
        let (ticket, waiting) = Ticket::new(routed.groups.len(), batch.rows.len() as u64, reservation);
        let (mut idle, enough) = (Vec::new(), Arc::new(Notify::new()));
        for group in &routed.groups {
            let mut part = self.part(&group.partition);
            match part.entry(group.partition.clone()) {
                Entry::Occupied(mut entry) => {
                    let Busy { gathered, enough } = entry.get_mut();
                    gathered.push(batch, routed.rows(group, batch));
                    gathered.wait(&ticket, group.len());
                    if gathered.rows.bytes() >= ENOUGH_BYTES {
                        enough.notify_one();
                    }
                }
                Entry::Vacant(entry) => {
                    entry.insert(Busy { gathered: Gathered::default(), enough: enough.clone() });
                    drop(part);
                    self.pending.inc();
                    // Ours to flush, so its rows are copied without the lock.
                    let mut gathered = Gathered::default();
                    gathered.push(batch, routed.rows(group, batch));
                    gathered.wait(&ticket, group.len());
                    idle.push(Load { partition: group.partition.clone(), layout: group.layout.clone(), gathered, shared: false });
                }
            }
        }
        if !idle.is_empty() {
            tokio::spawn(Flight { coalescer: self.clone(), loads: idle, enough }.run());
        }
        Ok(waiting)
    }

    /// Checked for all partitions before any row is copied, so that nothing is done by half;
    /// requests that check at the same moment may pass the bound together by what they hold, which
    /// the bound on bytes in flight covers.
    fn check_room(&self, routed: &Routed) -> Result<(), Fault> {
        let full = |gathered: &Gathered, more| gathered.rows.rows() + more > self.rows_max || gathered.rows.bytes() > self.bytes_max;
        for group in &routed.groups {
            if self.part(&group.partition).get(&group.partition).is_some_and(|busy| full(&busy.gathered, group.len())) {
                let key = &group.partition.key;
                return Err(Fault::new(codes::OVERLOADED, format!("too much waits to be stored for key {key}; send again in a moment")));
            }
        }
        Ok(())
    }

    fn part(&self, partition: &Partition) -> MutexGuard<'_, HashMap<Arc<Partition>, Busy>> {
        let hash = self.hasher.hash_one(partition) as usize;
        self.parts[hash % PARTS].lock().expect("no holder panics")
    }

    /// What gathered behind a flush that is done; nothing: the partition is idle again.
    fn next(&self, partition: &Arc<Partition>) -> Option<Gathered> {
        let mut part = self.part(partition);
        match part.get_mut(partition) {
            Some(busy) if !busy.gathered.waiters.is_empty() => Some(std::mem::take(&mut busy.gathered)),
            _ => {
                self.forget(&mut part, partition);
                None
            }
        }
    }

    /// Whether more requests will come so soon that a load should linger for them; where not, and nothing
    /// gathered, its partition is idle again.
    fn lingers(&self, load: &Load) -> bool {
        let mut part = self.part(&load.partition);
        let lingers = load.shared || part.get(&load.partition).is_some_and(|busy| !busy.gathered.waiters.is_empty());
        if !lingers {
            self.forget(&mut part, &load.partition);
        }
        lingers
    }

    fn forget(&self, part: &mut HashMap<Arc<Partition>, Busy>, partition: &Arc<Partition>) {
        if part.remove(partition).is_some() {
            self.pending.dec();
        }
        // A burst of keys must not keep its map for ever.
        if part.len() * 8 < part.capacity() && part.capacity() > 1_024 {
            part.shrink_to(part.len() * 2);
        }
    }

    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.parts.iter().all(|part| part.lock().unwrap().is_empty())
    }
}

/// The partitions that one task keeps flushing until each is idle.
struct Flight {
    coalescer: Arc<Coalescer>,
    loads: Vec<Load>,
    /// Enough has gathered behind one of them.
    enough: Arc<Notify>,
}

impl Flight {
    async fn run(mut self) {
        while !self.loads.is_empty() {
            let linger_end = Instant::now() + self.coalescer.linger;
            self.loads.iter_mut().for_each(|load| load.shared = load.gathered.waiters.len() > 1);
            self.coalescer.flusher.flush(&mut self.loads).await;
            self.linger(linger_end).await;
            let coalescer = &self.coalescer;
            self.loads.retain_mut(|load| match coalescer.next(&load.partition) {
                Some(gathered) => {
                    load.gathered = gathered;
                    true
                }
                None => false,
            });
        }
    }

    /// Lets rows gather until `end`, unless enough are there before, or none are expected.
    async fn linger(&mut self, end: Instant) {
        if end <= Instant::now() {
            return;
        }
        let coalescer = &self.coalescer;
        self.loads.retain(|load| coalescer.lingers(load));
        if !self.loads.is_empty() {
            // Either way what gathered is flushed next.
            let _ = timeout_at(end, self.enough.notified()).await;
        }
    }
}

impl Drop for Flight {
    /// Only where the task was cut short by a panic or the runtime's end: whoever waits is told
    /// that the outcome is unknown, and no partition stays in flight for ever.
    fn drop(&mut self) {
        for load in &self.loads {
            let mut part = self.coalescer.part(&load.partition);
            self.coalescer.forget(&mut part, &load.partition);
        }
    }
}
