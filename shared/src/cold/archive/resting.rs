//! Databases that do not work rest: nothing is archived to them, swept or dropped, until a probe finds
//! them well. So one that is full, or hangs, delays the buckets of no other, and is not asked for ever.

use std::collections::HashMap;
use std::time::Duration;

use super::Archiver;
use crate::cold::database::DatabaseError;
use crate::cold::group::Database;
use crate::cold::path::namespace_dir;
use crate::cold::rules::Published;
use crate::model::Namespace;

/// First pause before a database is probed again; doubles up to [`PAUSE_MAX`].
const PAUSE_FIRST: Duration = Duration::from_secs(5);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// Databases that rest, by URL.
pub(super) type Resting = HashMap<String, Rest>;

/// How long a database rests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    /// Boot time from which on it is probed.
    until: Duration,
    pause: Duration,
}

impl Archiver {
    /// Whether a database may be used; one whose pause is over is probed first.
    pub(super) async fn is_usable(&mut self, ns: &Namespace, database: &Database) -> bool {
        match self.resting.get(&database.url) {
            None => true,
            Some(rest) => rest.until <= self.clock.boot() && self.probe(ns, database).await,
        }
    }

    /// Whether the databases of all these generations may be used.
    pub(super) async fn are_usable(&mut self, ns: &Namespace, generations: Vec<&Published>) -> bool {
        let view = self.catalog.view();
        let Some(namespace) = view.namespace(ns).filter(|_| !self.resting.is_empty()) else { return true };
        for published in generations {
            if let Some(database) = namespace.groups.database(published.group, published.table)
                && !self.is_usable(ns, database).await
            {
                return false;
            }
        }
        true
    }

    /// After a call that failed: a probe tells whether that is the database's fault, or one file's.
    pub(super) async fn suspect(&mut self, ns: &Namespace, error: &DatabaseError) {
        if !self.resting.contains_key(&error.database.url) {
            self.probe(ns, &error.database).await;
        }
    }

    async fn probe(&mut self, ns: &Namespace, database: &Database) -> bool {
        let works = self.databases().probe(database, &namespace_dir(ns)).await.is_ok();
        if works {
            self.resting.remove(&database.url);
        } else {
            let before = self.resting.get(&database.url).map_or(Duration::ZERO, |rest| rest.pause);
            let pause = (before * 2).clamp(PAUSE_FIRST, PAUSE_MAX);
            self.resting.insert(database.url.clone(), Rest { until: self.clock.boot() + pause, pause });
        }
        self.metrics.resting.set(self.resting.len() as i64);
        works
    }
}
