//! The controller: sums what nodes report, decides for each key, and appends an epoch where N is to
//! change. Every decision is logged with its inputs and kept for people to see.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;

use super::decide::{Action, Observed, Tried, decide, is_over};
use super::lease::{KeyDecision, Lease};
use super::load::{KeyLoad, sum};
use super::members::{Roll, read_reports};
use super::metrics::Metrics;
use super::node_name;
use super::policy::{KeyPolicy, mode, targets};
use super::track::Tracked;
use super::watch::Watch;
use crate::catalog::documents::Documents;
use crate::catalog::{Catalog, CatalogError, HeatMode, Intent, NamespaceView, NewLayout, View};
use crate::clock::{Clock, Mark};
use crate::model::{Namespace, Timestamp};
use crate::store::Store;

/// Decisions that are kept for people to see.
const DECISIONS_KEPT_MAX: usize = 64;
/// Keys that are watched at once; beyond, the coolest wait.
const WATCHED_MAX: usize = 4_096;
/// How long after an epoch began what is measured is still of the one before.
const SETTLE: Duration = Duration::from_secs(3);
/// How long a suffix must be over its target to be no burst, and until all that is measured is of that time.
const HOLD: Duration = Duration::from_millis(1_500);
/// How long the leader waits for something to control before it gives the lease up.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// Between two searches for keys that were grown and may have to shrink.
const GROWN_EVERY: Duration = Duration::from_secs(10);

/// Between two tellings of a decision that stays the same.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// Settings of a node's controller.
#[derive(Clone, Copy, Debug)]
pub struct ControlOptions {
    /// Whether decisions are only said.
    pub dry_run: bool,
    /// How long load must have been low before N shrinks.
    pub cool_down: Duration,
}

impl Default for ControlOptions {
    fn default() -> Self {
        ControlOptions { dry_run: false, cool_down: Duration::from_secs(300) }
    }
}

/// A key's name.
type Key = (Namespace, Arc<str>);

/// One node's controller.
pub struct Controller {
    catalog: Arc<Catalog>,
    documents: Documents,
    clock: Arc<dyn Clock>,
    node: Arc<str>,
    options: ControlOptions,
    lease: Lease,
    roll: Roll,
    watches: HashMap<Key, Watch>,
    decisions: Vec<KeyDecision>,
    grown: Grown,
    /// When there was last something to control.
    needed: Option<Mark>,
    metrics: Metrics,
}

/// Keys that the controller grew and that may have to shrink.
struct Grown {
    keys: Vec<Key>,
    revision: u64,
    looked: Option<Mark>,
}

impl Controller {
    /// A controller that may lead as `node`; metrics are registered in `registry`.
    pub fn new(
        store: Arc<dyn Store>,
        catalog: Arc<Catalog>,
        clock: Arc<dyn Clock>,
        node: u64,
        options: ControlOptions,
        registry: &Registry,
    ) -> Result<Controller, prometheus::Error> {
        let (documents, node) = (Documents::new(store), node_name(node));
        Ok(Controller {
            lease: Lease::new(documents.clone(), clock.clone(), node.clone()),
            needed: None,
            catalog,
            documents,
            clock,
            node,
            options,
            roll: Roll::default(),
            watches: HashMap::new(),
            decisions: Vec::new(),
            grown: Grown { keys: Vec::new(), revision: 0, looked: None },
            metrics: Metrics::new(registry)?,
        })
    }

    /// One round. `warm`: this node writes a key that may have to grow. Failures are logged.
    pub async fn tick(&mut self, warm: bool) {
        if let Err(error) = self.round(warm).await {
            self.metrics.failures.inc();
            tracing::debug!(%error, "a round of control failed");
        }
        self.metrics.leads(self.lease.is_held(), self.watches.len());
    }

    async fn round(&mut self, warm: bool) -> Result<(), CatalogError> {
        self.find_grown(&self.catalog.view());
        if warm || !self.grown.keys.is_empty() {
            self.needed = Some(self.clock.mark());
        }
        if !self.lease.is_held() && !self.take_lease().await? {
            return Ok(());
        }
        let reports = self.roll.fresh(&*self.clock, read_reports(&self.documents).await?);
        self.roll.forget_gone(&*self.clock, &self.documents).await?;
        let loads = sum(&reports);
        if !loads.is_empty() {
            self.needed = Some(self.clock.mark());
        }
        if !self.is_needed() {
            self.lease.resign(&self.decisions).await;
            return Ok(());
        }
        let view = self.catalog.refresh().await?;
        let mut news = false;
        for key in self.candidates(&view, &loads) {
            // The lease may have run out meanwhile; the swap would decide, but why race for it.
            if self.lease.is_held() {
                news |= self.consider(&view, &key, &loads).await;
            }
        }
        self.lease.renew(&self.decisions, news).await;
        Ok(())
    }

    fn is_needed(&self) -> bool {
        self.needed.is_some_and(|needed| self.clock.elapsed(needed) <= IDLE_MAX)
    }

    /// Takes the lease where it is needed and free.
    async fn take_lease(&mut self) -> Result<bool, CatalogError> {
        if !self.is_needed() {
            return Ok(false);
        }
        let Some(decisions) = self.lease.seek().await? else { return Ok(false) };
        (self.decisions, self.roll) = (decisions, Roll::default());
        self.watches.clear();
        Ok(true)
    }

    /// Looks, not too often, for keys that are above what they would have without the controller.
    fn find_grown(&mut self, view: &View) {
        let grown = &mut self.grown;
        if grown.looked.is_some_and(|looked| grown.revision == view.revision || self.clock.elapsed(looked) < GROWN_EVERY) {
            return;
        }
        let now = self.clock.now();
        (grown.looked, grown.revision) = (Some(self.clock.mark()), view.revision);
        grown.keys.clear();
        for ns in view.namespaces() {
            let Some(namespace) = view.namespace(ns).filter(|namespace| mode(namespace, now) != HeatMode::Off) else { continue };
            let above = |key: &Arc<str>| {
                let last = namespace.epochs_published(key).last();
                last.is_some_and(|(_, layout, _)| layout.shards > KeyPolicy::of(namespace, key, now).bounds.min)
            };
            grown.keys.extend(namespace.keys_with_layouts().filter(|key| above(key)).map(|key| (ns.clone(), key.clone())));
        }
        grown.keys.sort_unstable();
    }

    /// The keys to decide on: those that are written and those that were grown, hottest first.
    fn candidates(&mut self, view: &View, loads: &HashMap<Tracked, KeyLoad>) -> Vec<Key> {
        let now = self.clock.now();
        let controlled = |ns: &Namespace| view.namespace(ns).is_some_and(|namespace| mode(namespace, now) != HeatMode::Off);
        let mut written: Vec<_> = loads.iter().filter(|(tracked, _)| controlled(&tracked.ns)).collect();
        written.sort_by(|a, b| b.1.now.weight().total_cmp(&a.1.now.weight()).then_with(|| a.0.cmp(b.0)));
        let written = written.into_iter().map(|(tracked, _)| (tracked.ns.clone(), tracked.key.clone()));
        let mut seen = HashSet::new();
        let all = written.chain(self.grown.keys.iter().filter(|(ns, _)| controlled(ns)).cloned());
        let keys: Vec<Key> = all.filter(|key| seen.insert(key.clone())).take(WATCHED_MAX).collect();
        self.watches.retain(|key, _| seen.contains(key));
        keys
    }

    /// Decides on one key and does what was decided; gives whether there is news.
    async fn consider(&mut self, view: &View, key: &Key, loads: &HashMap<Tracked, KeyLoad>) -> bool {
        let Some(namespace) = view.namespace(&key.0) else { return false };
        let now = self.clock.mark();
        let policy = KeyPolicy::of(namespace, &key.1, now.wall);
        let observed = self.observe(namespace, key, &policy, loads, now);
        let action = match decide(&observed, policy.bounds) {
            Action::Grow { .. } | Action::Shrink { .. } if !policy.has_room => Action::AtMax,
            action => action,
        };
        let last = self.decisions.iter().rev().find(|decision| decision.ns == key.0 && *decision.key == *key.1);
        let dry_run = self.options.dry_run || mode(namespace, now.wall) == HeatMode::DryRun;
        if !is_news(action, last, dry_run, now.wall) {
            return false;
        }
        let mut decision = decision(key, &self.node, now.wall, action, &observed, &policy);
        decision.dry_run = dry_run;
        if let (Action::Grow { to } | Action::Shrink { to }, false) = (action, dry_run) {
            match self.publish(view, key, to, &decision.reason).await {
                Some(version) => decision.version = Some(version),
                None => return false,
            }
            decision.tried = matches!(action, Action::Grow { .. }).then(|| Tried { to, share: observed.hottest / observed.total });
        }
        self.tell(decision);
        true
    }

    fn observe(
        &mut self,
        namespace: &NamespaceView,
        key: &Key,
        policy: &KeyPolicy,
        loads: &HashMap<Tracked, KeyLoad>,
        now: Mark,
    ) -> Observed {
        let layout = namespace.layout_at(&key.1, now.wall);
        let targets = targets(&namespace.policy);
        let tracked = Tracked { ns: key.0.clone(), key: key.1.clone(), version: layout.version };
        let load = loads.get(&tracked);
        let total = load.map_or(0.0, |load| targets.load(&load.now));
        let hottest = load.and_then(|load| load.hottest(&targets)).map_or(0.0, |(_, rate)| targets.load(&rate));
        let watch = self.watches.entry(key.clone()).or_insert_with(|| Watch::new(layout.version, now.boot));
        watch.observe(layout.version, now.boot, total, is_over(total, hottest, layout.shards));
        let since_start = now.wall.nanos().saturating_sub(policy.last_start.nanos());
        Observed {
            shards: layout.shards,
            total,
            hottest,
            throttled: load.is_some_and(|load| load.now.throttles > 0.0),
            held: watch.over(now.boot) >= HOLD,
            peak: watch.peak(now.boot, self.options.cool_down),
            settling: since_start < SETTLE.as_nanos() as i64,
            tried: self.decisions.iter().rev().find(|d| d.ns == key.0 && *d.key == *key.1).and_then(|decision| decision.tried),
        }
    }

    /// Appends an epoch unless the timeline changed since it was looked at; gives its version.
    async fn publish(&self, view: &View, key: &Key, shards: u32, reason: &str) -> Option<u64> {
        let author = Some(format!("heat {}", self.node));
        let by = Intent { author, reason: Some(reason.to_owned()), automatic: true, expected_revision: Some(view.revision) };
        match self.catalog.publish_layout_by(&by, &key.0, Some(&key.1), NewLayout::of(shards)).await {
            Ok(listed) => Some(listed.layout.version.revision),
            Err(error @ (CatalogError::RevisionConflict(_) | CatalogError::LayoutConflict(_))) => {
                tracing::debug!(%error, ns = %key.0, key = %key.1, "somebody else changed the layout");
                None
            }
            Err(error) => {
                self.metrics.failures.inc();
                tracing::warn!(%error, ns = %key.0, key = %key.1, shards, "the layout could not be changed");
                None
            }
        }
    }

    fn tell(&mut self, decision: KeyDecision) {
        let KeyDecision { ns, key, action, shards, total, hottest, throttled, version, dry_run, reason, .. } = &decision;
        tracing::info!(%ns, key, action = action.name(), shards, total, hottest, throttled, ?version, dry_run, "{reason}");
        self.metrics.decided(*action);
        self.decisions.retain(|other| (&other.ns, &other.key) != (ns, key));
        self.decisions.push(decision);
        let beyond = self.decisions.len().saturating_sub(DECISIONS_KEPT_MAX);
        self.decisions.drain(..beyond);
    }
}

/// Whether a decision is acted on, or worth telling: what was told a moment ago is not told again.
fn is_news(action: Action, last: Option<&KeyDecision>, dry_run: bool, now: Timestamp) -> bool {
    let told = || {
        let same = |last: &KeyDecision| last.action.name() == action.name() && last.dry_run == dry_run;
        last.is_some_and(|last| same(last) && now.nanos().saturating_sub(last.at) < TELL_EVERY.as_nanos() as i64)
    };
    match action {
        Action::Settle => false,
        Action::Keep => last.is_some_and(|last| matches!(last.action, Action::AtMax | Action::Dominated)),
        Action::Grow { .. } | Action::Shrink { .. } => !dry_run || !told(),
        Action::AtMax | Action::Dominated => !told(),
    }
}

/// A decision with its inputs, in numbers and in words.
fn decision(key: &Key, node: &str, now: Timestamp, action: Action, observed: &Observed, policy: &KeyPolicy) -> KeyDecision {
    let Observed { shards, total, hottest, throttled, peak, tried, .. } = *observed;
    let rounded = |load: f64| (load * 1_000.0).round() / 1_000.0;
    let (min, max) = (policy.bounds.min, policy.bounds.max);
    let why = match action {
        Action::Grow { to } if throttled => format!("grow from {shards} to {to}: the store refuses the rate"),
        Action::Grow { to } => format!("grow from {shards} to {to}: a suffix is over its target"),
        Action::Shrink { to } => format!("shrink from {shards} to {to}: the last cool-down's peak was {:.2}", peak.unwrap_or(0.0)),
        Action::AtMax if !policy.has_room => format!("stay at {shards}: the timeline has no room for more automatic layouts"),
        Action::AtMax => format!("stay at {shards}: max_shards is reached and a suffix is over its target"),
        Action::Dominated => format!("stay at {shards}: more suffixes did not lower the hottest one, one shard_by value dominates"),
        Action::Keep | Action::Settle => format!("stay at {shards}: every suffix is within its target again"),
    };
    let reason = format!("{why} (load {total:.2} of {shards} suffixes, hottest {hottest:.2}, min {min}, max {max}; node {node})");
    KeyDecision {
        ns: key.0.clone(),
        key: key.1.to_string(),
        at: now.nanos(),
        action,
        shards,
        total: rounded(total),
        hottest: rounded(hottest),
        throttled,
        version: None,
        dry_run: false,
        reason,
        tried,
    }
}
