//! One flush: rows to blocks, days to the directory, blocks to the store, outcomes to the waiters.
//!
//! A failure that may pass is retried with the same blocks, ids and bytes, until the deadline.
//! A block of a bucket that may be archived already is acknowledged by the rule for late events (`late`).
//! ACK-DURABLE: rows are reported as stored only when the store said so and their days are noted; "I don't
//! know" stays what it is.

use std::sync::Arc;
use std::time::Duration;

use braid_shared::block;
use braid_shared::catalog::{Catalog, CatalogError};
use braid_shared::clock::Clock;
use braid_shared::codes;
use braid_shared::heat::Tracker;
use braid_shared::model::{Namespace, Timestamp};
use braid_shared::store::{Day, EncodedBlock, Store, StoreError, StoreErrorKind};
use tokio::time::{Instant, sleep, timeout_at};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::coalesce::Load;
use crate::fault::Fault;
use crate::late::Late;
use crate::metrics::Metrics;
use crate::noted::NotedDays;
use crate::ticket::{Settled, Ticket};

/// First pause between attempts; each one doubles, up to [`PAUSE_MAX`].
const PAUSE_FIRST: Duration = Duration::from_millis(10);
/// Longest pause between attempts.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Time that a flush has in any case, even where its waiters waited long behind another.
const FLUSH_TIME_MIN: Duration = Duration::from_secs(5);
/// Rows encoded before other tasks of the thread get a turn.
const ROWS_PER_TURN: usize = 8_192;

/// Writes loads to the store.
pub(crate) struct Flusher {
    store: Arc<dyn Store>,
    catalog: Arc<Catalog>,
    noted: NotedDays,
    late: Late,
    metrics: Arc<Metrics>,
    heat: Arc<Tracker>,
    block_bytes_max: usize,
}

/// Who waits for how many rows of which load.
type Waiters = Vec<(usize, Arc<Ticket>, u64)>;

/// What one flush has yet to make durable.
struct Todo {
    ns: Namespace,
    blocks: Vec<EncodedBlock>,
    days: Vec<(Arc<str>, Day)>,
    blocks_done: bool,
    days_done: bool,
    /// An attempt ended without the store saying how.
    doubt: bool,
}

impl Flusher {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        catalog: Arc<Catalog>,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
        heat: Arc<Tracker>,
        block_bytes_max: usize,
    ) -> Flusher {
        let late = Late::new(store.clone(), catalog.clone(), clock);
        Flusher { store, catalog, noted: NotedDays::new(), late, metrics, heat, block_bytes_max }
    }

    /// Takes what the loads, all of one namespace, have gathered, makes it durable and settles
    /// every waiter.
    pub(crate) async fn flush(&self, loads: &mut [Load]) {
        let Some(ns) = loads.first().map(|load| load.partition.ns.clone()) else { return };
        let deadline = self.deadline(loads);
        let days = loads.iter().flat_map(|load| load.gathered.days.iter().map(|day| (&load.partition.key, *day)));
        let days = self.noted.missing(&ns, days);
        let (blocks, waiters) = match self.stamps_at_hand(deadline).await {
            Ok(()) => self.encode(loads).await,
            Err(error) => return settle(loads.iter_mut().flat_map(|load| load.gathered.waiters.drain(..)), &failed(&error)),
        };
        let todo = Todo { ns, blocks, blocks_done: waiters.is_empty(), days_done: days.is_empty(), days, doubt: false };
        let settled = self.store(todo, deadline).await;
        let outcomes = match settled {
            Settled::Stored => self.acknowledge(loads, deadline).await,
            other => vec![other; loads.len()],
        };
        if outcomes.iter().any(|outcome| matches!(outcome, Settled::Unknown(_))) {
            self.metrics.unknown_outcomes.inc();
        }
        for (load, ticket, rows) in waiters {
            ticket.settle(rows, &outcomes[load]);
        }
    }

    /// How each load's rows, which are durable, are settled (COLD-5).
    async fn acknowledge(&self, loads: &[Load], deadline: Instant) -> Vec<Settled> {
        match timeout_at(deadline, self.late.acknowledge(loads)).await {
            Ok(Ok(outcomes)) => outcomes,
            Ok(Err(error)) => vec![unmarked(&error.to_string()); loads.len()],
            Err(_) => vec![unmarked("the catalog did not answer in time"); loads.len()],
        }
    }

    fn deadline(&self, loads: &[Load]) -> Instant {
        let now = Instant::now();
        let oldest = loads.iter().filter_map(|load| load.gathered.since).min().unwrap_or(now);
        let allowed = self.catalog.view().shared.write_deadline.duration();
        (oldest + allowed).max(now + FLUSH_TIME_MIN)
    }

    /// Sees to it that stamps can be issued, which needs the catalog only where the ceiling is near.
    async fn stamps_at_hand(&self, deadline: Instant) -> Result<(), CatalogError> {
        let mut pause = PAUSE_FIRST;
        loop {
            match self.catalog.cover(Timestamp::MIN).await {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() + pause >= deadline => return Err(error),
                Err(_) => sleep(pause).await,
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// The loads' blocks and waiters. A load that no stamp could be had for is settled here.
    async fn encode(&self, loads: &mut [Load]) -> (Vec<EncodedBlock>, Waiters) {
        let (mut blocks, mut waiters) = (Vec::with_capacity(loads.len()), Vec::with_capacity(loads.len()));
        let mut turn = 0;
        for (at, load) in loads.iter_mut().enumerate() {
            let gathered = std::mem::take(&mut load.gathered);
            turn += gathered.rows.rows();
            match block::encode(&load.partition, &load.layout, gathered.rows, self.block_bytes_max, || self.catalog.stamp()) {
                Ok(encoded) => {
                    blocks.extend(encoded);
                    waiters.extend(gathered.waiters.into_iter().map(|(ticket, rows)| (at, ticket, rows)));
                }
                Err(error) => settle(gathered.waiters.into_iter(), &failed(&error)),
            }
            if turn > ROWS_PER_TURN {
                turn = 0;
                tokio::task::yield_now().await;
            }
        }
        (blocks, waiters)
    }

    async fn store(&self, mut todo: Todo, deadline: Instant) -> Settled {
        let _writing = self.heat.writing(&todo.blocks);
        let mut pause = PAUSE_FIRST;
        loop {
            let error = match timeout_at(deadline, self.attempt(&mut todo)).await {
                Ok(Ok(())) => break,
                Ok(Err(error)) => error,
                Err(_) => {
                    todo.doubt = true;
                    return todo.given_up(&StoreError::new(StoreErrorKind::Unknown, "the store did not answer in time"));
                }
            };
            if error.kind == StoreErrorKind::Throttled {
                self.heat.refused(&todo.blocks);
            }
            let jittered = jitter(pause, &todo.blocks);
            if !may_pass(error.kind) || Instant::now() + jittered >= deadline {
                return todo.given_up(&error);
            }
            self.metrics.retries.inc();
            sleep(jittered).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        self.heat.stored(&todo.blocks);
        self.metrics.blocks_written.inc_by(todo.blocks.len() as u64);
        self.noted.insert(&todo.ns, todo.days);
        Settled::Stored
    }

    /// Tries what is not done yet; blocks and days side by side, both before any acknowledgement.
    async fn attempt(&self, todo: &mut Todo) -> Result<(), StoreError> {
        let append = async { if todo.blocks_done { Ok(()) } else { self.store.append(todo.blocks.clone()).await } };
        let note = async { if todo.days_done { Ok(()) } else { self.store.note_days(&todo.ns, &todo.days).await } };
        let (appended, noted) = futures::join!(append, note);
        todo.doubt |= matches!(&appended, Err(error) if error.kind == StoreErrorKind::Unknown);
        todo.blocks_done |= appended.is_ok();
        todo.days_done |= noted.is_ok();
        appended.and(noted)
    }
}

impl Todo {
    /// How the rows are settled when `error` is the last word.
    fn given_up(&self, error: &StoreError) -> Settled {
        if self.doubt || self.blocks_done {
            let detail = format!("whether the events were stored is not known; send them again ({error})");
            return Settled::Unknown(Fault::new(codes::OUTCOME_UNKNOWN, detail));
        }
        let code = match error.kind {
            StoreErrorKind::Full => codes::STORE_FULL,
            StoreErrorKind::ReadOnly => codes::STORE_READ_ONLY,
            StoreErrorKind::Throttled => codes::STORE_THROTTLED,
            StoreErrorKind::Unavailable | StoreErrorKind::Unknown | StoreErrorKind::Corrupt => codes::STORE_UNAVAILABLE,
        };
        Settled::Failed(Fault::new(code, error.to_string()))
    }
}

/// Whether the same attempt may succeed later.
fn may_pass(kind: StoreErrorKind) -> bool {
    match kind {
        StoreErrorKind::Unavailable | StoreErrorKind::Throttled | StoreErrorKind::Unknown => true,
        StoreErrorKind::Full | StoreErrorKind::ReadOnly | StoreErrorKind::Corrupt => false,
    }
}

/// Between half of `pause` and all of it, so that flushes that failed together do not retry
/// together. The blocks' ids are random enough.
fn jitter(pause: Duration, blocks: &[EncodedBlock]) -> Duration {
    let id = blocks.first().map_or(0, |block| block.address.id.time ^ block.address.id.node);
    let part = xxh3_64_with_seed(&id.to_le_bytes(), pause.as_nanos() as u64) as u32;
    pause / 2 + (pause / 2).mul_f64(f64::from(part) / f64::from(u32::MAX))
}

/// Rows that are durable, and whose bucket may be archived without them.
fn unmarked(why: &str) -> Settled {
    let detail = format!("the events are stored, and whether readers will find them is not known; send them again ({why})");
    Settled::Unknown(Fault::new(codes::OUTCOME_UNKNOWN, detail))
}

fn failed(error: &CatalogError) -> Settled {
    Settled::Failed(Fault::new(codes::LAYOUT_STALE, error.to_string()))
}

fn settle(waiters: impl Iterator<Item = (Arc<Ticket>, u64)>, settled: &Settled) {
    for (ticket, rows) in waiters {
        ticket.settle(rows, settled);
    }
}
