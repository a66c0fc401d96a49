//! The operations of a run: what ingest, query and operators do with a catalog, pausing in between.

use std::sync::{Arc, Mutex};

use super::super::super::{CatalogError, NewLayout};
use super::*;
use crate::promise::{PROMISE_1, accepts};

type SharedLog = Arc<Mutex<Log>>;

impl Running {
    /// Starts a process, with small snapshots often.
    pub(super) async fn start(world: &Arc<World>, now: Timestamp, seed: u64, floor: u64) -> Result<Running, CatalogError> {
        let door = Door(world.clone());
        let store: Arc<dyn Store> = Arc::new(door.clone());
        let mut node = Node::open_seeded(&store, now, seed).await?;
        Arc::get_mut(&mut node.catalog).expect("nobody else has it yet").snapshot_every = 2;
        Ok(Running { node: Arc::new(node), door, floor, last_stamp: Arc::default() })
    }

    /// Issues a stamp where the ceiling leaves one, and checks that it follows those before.
    fn stamp(&self, log: &SharedLog) {
        let Ok(stamp) = self.node.stamp() else { return };
        let mut last = self.last_stamp.lock().unwrap();
        if stamp.time <= *last || stamp.time <= self.floor {
            log.lock().unwrap().faults.push(format!("stamp {} follows {} and {}", stamp.time, *last, self.floor));
        }
        *last = stamp.time;
    }
}

/// Accepts an event as ingest does; what is acknowledged is noted.
pub(super) async fn write(on: Running, key: &'static str, ts: Timestamp, log: SharedLog) {
    let view = match on.node.cover(ts).await {
        Ok(view) => view,
        Err(error) => return log.lock().unwrap().failed(&error),
    };
    on.door.pause().await;
    if !accepts(view.horizon, ts) {
        return log.lock().unwrap().faults.push(format!("{PROMISE_1}: cover gave a view that does not reach {ts}"));
    }
    let Some(ns) = view.namespace(&namespace()) else { return };
    let version = ns.layout_at(key, ts).version;
    on.stamp(&log);
    on.door.pause().await;
    let mut log = log.lock().unwrap();
    log.accepted.push(log::Accepted { key, ts, version });
    log.views.push(view);
}

/// Reads without an end: a view read after the request began must cover all that was acknowledged.
pub(super) async fn read(on: Running, log: SharedLog) {
    let acknowledged = log.lock().unwrap().accepted.len();
    let view = on.node.refresh().await;
    on.door.pause().await;
    let mut log = log.lock().unwrap();
    match view {
        Ok(view) => {
            log.reads(&view, acknowledged);
            log.views.push(view);
        }
        Err(error) => log.failed(&error),
    }
}

/// Publishes a layout now, or within twenty seconds either way of the promise at hand.
pub(super) async fn publish(on: Running, timeline: Option<&'static str>, number: usize, log: SharedLog) {
    let offset = (number as i64 % 40 - 20) * Span::SECOND.nanos();
    let near = Timestamp::from_nanos(on.node.view().horizon.nanos() + offset);
    let new = NewLayout { effective_from: (!number.is_multiple_of(3)).then_some(near), ..NewLayout::of(1 + number as u32 % 64) };
    let published = on.node.publish_layout(&namespace(), timeline, new).await;
    let mut log = log.lock().unwrap();
    match published {
        Ok(listed) => log.changed.push((timeline, listed)),
        Err(CatalogError::Unknown(_)) => log.unknown += 1,
        Err(error) => log.failed(&error),
    }
}

/// Withdraws one of the layouts at hand.
pub(super) async fn withdraw(on: Running, timeline: Option<&'static str>, number: usize, log: SharedLog) {
    let Some(listed) = on.node.view().namespace(&namespace()).map(|ns| ns.listed(timeline)) else { return };
    let Some(version) = listed.iter().rev().nth(number % 3).map(|l| l.layout.version.revision) else { return };
    let withdrawn = on.node.withdraw_layout(&namespace(), timeline, version).await;
    let mut log = log.lock().unwrap();
    match withdrawn {
        Ok(listed) => log.changed.push((timeline, listed)),
        Err(error) => log.failed(&error),
    }
}

/// Takes a snapshot where one is due.
pub(super) async fn snapshot(on: Running) {
    on.node.snapshot_if_due().await;
}

/// Starts a process in the place of `on`, which goes on as if it did not know that it was replaced.
pub(super) async fn restart(on: Running, nodes: Arc<Mutex<Vec<Running>>>, of: usize, seed: u64, log: SharedLog) {
    let floor = on.floor.max(*on.last_stamp.lock().unwrap());
    match Running::start(&on.door.0, on.node.clock.now(), seed, floor).await {
        Ok(started) => nodes.lock().unwrap()[of] = started,
        Err(error) => log.lock().unwrap().failed(&error),
    }
}
