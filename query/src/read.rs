//! A read, stretch by stretch: settle the range, plan, fan out, verify; what is merged from it is
//! the caller's.
//!
//! Owns the rules of DESIGN section 5 that need a clock, the catalog or the store: answers end
//! below a horizon, every part is read within the deadline, and a block of an unknown layout
//! version leads to one fresh plan.

use std::sync::Arc;

use braid_shared::catalog::{CatalogError, NamespaceView, View};
use braid_shared::clock::Mark;
use braid_shared::limits::ANSWER_ROWS_MAX;
use braid_shared::model::{Namespace, TimeRange, Timestamp};
use braid_shared::promise::{answerable, covers};
use braid_shared::store::{Consistency, Day, End, Enough, Scan};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use crate::Query;
use crate::cold::{Fresh, TableAnswer, TableRead};
use crate::error::QueryError;
use crate::fan_out::{FanOut, fan_out};
use crate::plan::{Epoch, KeyPlan, Order, Selection, days_of};
use crate::tally::Tally;
use crate::verify::{Verdict, Verified, verify};
use crate::walk::{GROWTH, Planned, Stretch, TooManyPartitions, Walk, length};

/// Most keys of a read by prefix.
pub const BROADCAST_KEYS_MAX: usize = 1_000;
/// Directory reads of one plan that run at once.
const DIRECTORY_READS_MAX: usize = 16;
/// Most partitions among which a store is asked where rows are: it looks into each.
const NARROWED_PARTITIONS_MAX: usize = 1_024;
/// Blocks of no more bytes are worked on where they arrived: that takes less than to hand them over.
const AT_ONCE_BYTES_MAX: usize = 32 * 1024;
/// Tables beyond which a stretch is halved, so that its parts are read in time.
const TABLES_AT_ONCE: usize = 128;
/// Most halvings of a stretch in a row.
const HALVINGS_MAX: u32 = 8;

/// Which keys are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One key.
    Key(String),
    /// Every key that begins so: a broadcast.
    Prefix(String),
}

/// What a read asks for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Namespace.
    pub ns: Namespace,
    /// Keys.
    pub target: Target,
    /// Start; unbounded where absent.
    pub from: Option<Timestamp>,
    /// End; the horizon where absent.
    pub to: Option<Timestamp>,
    /// What decides the suffixes.
    pub selection: Arc<Selection>,
    /// Direction.
    pub order: Order,
    /// Whether an answer may lack shards, and say so.
    pub partial: bool,
}

/// A range that no layout can change any more, and the view that says so.
#[derive(Clone, Debug)]
pub struct Settled {
    /// The view.
    pub view: Arc<View>,
    /// The namespace in it.
    pub namespace: Arc<NamespaceView>,
    /// The range, cut below the view's horizon.
    pub range: TimeRange,
}

/// A read under way.
pub struct Reader {
    query: Arc<Query>,
    asked: Asked,
    settled: Settled,
    keys: Vec<Arc<str>>,
    walk: Walk,
    /// When the read of the current part began; the first part's includes its plan.
    began: Option<Mark>,
    /// Bytes that a stretch may have: the soft bound, or the hard one where halving did not help.
    budget: usize,
    halvings: u32,
    /// Whether the last stretch was narrowed to the rows that were wanted.
    narrowed: bool,
    replanned: bool,
    /// Whether a part was given out.
    given: bool,
    /// What the answer says of itself.
    pub tally: Tally,
}

/// A verified stretch: every planned partition answered, or is named in the tally.
pub struct Part {
    /// The event time it covers.
    pub range: TimeRange,
    /// Its partitions.
    pub verified: Vec<Verified>,
    /// Bytes of its blocks.
    pub bytes: usize,
}

/// The range a read is answered for: below the horizon at hand, or cut to one read after the
/// request began.
pub async fn settle(query: &Query, ns: &Namespace, from: Option<Timestamp>, to: Option<Timestamp>) -> Result<Settled, QueryError> {
    let mut view = query.catalog.view();
    if !covers(view.horizon, to) || view.namespace(ns).is_none() {
        view = query.catalog.refresh().await?;
    }
    let namespace = view.namespace(ns).cloned().ok_or_else(|| CatalogError::NamespaceNotFound(ns.clone()))?;
    // What is dropped is gone for everybody; the answer's range says so.
    let from = from.unwrap_or(Timestamp::MIN).max(namespace.cold.dropped);
    let range = answerable(view.horizon, TimeRange { from, to: to.unwrap_or(Timestamp::MAX) });
    Ok(Settled { view, namespace, range: TimeRange { to: range.to.max(from), ..range } })
}

/// The epochs of a key, each as long as it holds. One that ends at or above the horizon is taken
/// as open: what follows it may still be withdrawn.
pub fn epochs(settled: &Settled, key: &str) -> Vec<Arc<Epoch>> {
    let open = |range: TimeRange| match range.to >= settled.view.horizon {
        true => TimeRange { to: Timestamp::MAX, ..range },
        false => range,
    };
    let epochs = settled.namespace.epochs(key, TimeRange::ALL).into_iter();
    epochs
        .filter(|(range, _)| range.from < settled.view.horizon)
        .map(|(range, layout)| Arc::new(Epoch { range: open(range), layout }))
        .collect()
}

/// What reads of a namespace must show here.
fn consistency(query: &Query, settled: &Settled) -> Consistency {
    let eventual = settled.namespace.policy.eventual_reads && query.store.reads_eventually();
    if eventual { Consistency::Eventual } else { Consistency::Strong }
}

/// The keys a target names.
async fn keys(query: &Query, asked: &Asked) -> Result<Vec<Arc<str>>, QueryError> {
    let prefix = match &asked.target {
        Target::Key(key) => return Ok(vec![key.as_str().into()]),
        Target::Prefix(prefix) => prefix,
    };
    query.metrics.broadcasts.inc();
    let keys = query.within_deadline(query.store.keys(&asked.ns, prefix, None, BROADCAST_KEYS_MAX + 1)).await?;
    if keys.len() > BROADCAST_KEYS_MAX {
        return Err(QueryError::ResultTooLarge(format!("more than {BROADCAST_KEYS_MAX} keys begin with {prefix:?}")));
    }
    Ok(keys.into_iter().map(Arc::from).collect())
}

/// Plans every key of a read from the settled view and the directory.
async fn plan(query: &Query, asked: &Asked, settled: &Settled, keys: &[Arc<str>]) -> Result<Arc<[KeyPlan]>, QueryError> {
    if settled.range.is_empty() {
        return Ok(Arc::new([]));
    }
    let (first, last) = days_of(settled.range);
    let plans = keys.iter().map(|key| plan_key(query, asked, settled, key.clone(), (first, last)).boxed());
    let plans: Vec<KeyPlan> = stream::iter(plans.collect::<Vec<_>>()).buffered(DIRECTORY_READS_MAX).try_collect().await?;
    Ok(plans.into())
}

async fn plan_key(query: &Query, asked: &Asked, settled: &Settled, key: Arc<str>, days: (Day, Day)) -> Result<KeyPlan, QueryError> {
    let days = query.within_deadline(query.store.days(&asked.ns, &key, days.0, days.1)).await?;
    let epochs = epochs(settled, &key);
    Ok(KeyPlan { ns: asked.ns.clone(), key, epochs, days, selection: asked.selection.clone() })
}

impl Reader {
    /// Settles and plans a read; `width` of its first stretch in nanoseconds.
    pub async fn open(query: Arc<Query>, asked: Asked, width: i64) -> Result<Reader, QueryError> {
        let began = query.clock.mark();
        let settled = settle(&query, &asked.ns, asked.from, asked.to).await?;
        Reader::over(query, asked, settled, began, width).await
    }

    /// A read of a range that is settled already, by a view read after `began`.
    pub async fn over(query: Arc<Query>, asked: Asked, settled: Settled, began: Mark, width: i64) -> Result<Reader, QueryError> {
        let keys = keys(&query, &asked).await?;
        let plans = plan(&query, &asked, &settled, &keys).await?;
        let walk = Walk::new(plans, settled.range, asked.order, width);
        let tally = Tally::new(&asked, &settled, consistency(&query, &settled));
        let budget = query.settings.stretch_bytes;
        Ok(Reader {
            query,
            asked,
            settled,
            keys,
            walk,
            began: Some(began),
            budget,
            halvings: 0,
            narrowed: false,
            replanned: false,
            given: false,
            tally,
        })
    }

    /// The range of the answer.
    pub fn range(&self) -> TimeRange {
        self.settled.range
    }

    /// Skips what lies before `ts` in the direction of the read, `ts` itself not.
    pub fn resume_at(&mut self, ts: Timestamp) {
        self.walk.resume_at(ts);
    }

    /// Whether nothing is left to read.
    pub fn is_done(&self) -> bool {
        self.walk.is_done()
    }

    /// Makes the next stretches wider, where one of that size is sure to fit its bound and was not narrowed.
    pub fn grow(&mut self, part_bytes: usize) {
        if !self.narrowed && part_bytes < self.budget / GROWTH as usize {
            self.walk.grow();
        }
    }

    /// The partitions and tables of the whole read, without reading one.
    pub async fn explain(&mut self) -> Result<(Vec<Planned>, Vec<TableRead>), QueryError> {
        let (mut all, mut hot, mut tables) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(stretch) = self.walk.stretch()? {
            for planned in &stretch.scans {
                let split = self.query.split(&self.query.fresh(&self.asked.ns).await?, planned).await?;
                hot.extend(split.in_store(planned).into_owned());
                tables.extend(split.tables);
            }
            all.extend(stretch.scans.concat());
            if all.len() > ANSWER_ROWS_MAX {
                return Err(QueryError::ResultTooLarge(format!("more than {ANSWER_ROWS_MAX} partitions; ask for a shorter range")));
            }
            self.walk.advance(stretch.range);
        }
        all.iter().for_each(|planned| self.tally.plan(planned));
        self.tally.tables = (tables.len(), tables.len());
        Ok((hot, tables))
    }

    /// The next stretch, verified; `None` at the end of the range.
    pub async fn next(&mut self) -> Result<Option<Part>, QueryError> {
        self.next_of(None).await
    }

    /// As [`Reader::next`], but a stretch that need hold no more than so many rows, if any number is given.
    pub async fn next_of(&mut self, rows: Option<usize>) -> Result<Option<Part>, QueryError> {
        loop {
            let fresh = self.query.fresh(&self.asked.ns).await?;
            self.drop_before(fresh.namespace.cold.dropped)?;
            let Some(stretch) = self.stretch(rows).await? else { return Ok(None) };
            let began = self.began.take().unwrap_or_else(|| self.query.clock.mark());
            let Some((verdicts, bytes)) = self.read(&stretch, began, &fresh).await? else {
                self.make_smaller(&stretch)?;
                continue;
            };
            if self.speaks_of_the_unknown(&verdicts) {
                self.replan().await?;
                continue;
            }
            self.halvings = 0;
            if bytes < self.query.settings.stretch_bytes {
                self.budget = self.query.settings.stretch_bytes;
            }
            self.walk.advance(stretch.range);
            self.given = true;
            return Ok(Some(Part { range: stretch.range, verified: self.judge(verdicts)?, bytes }));
        }
    }

    /// Leaves out what was dropped since the read began, and says so.
    fn drop_before(&mut self, dropped: Timestamp) -> Result<(), QueryError> {
        let gap = |_| CatalogError::Stale("history was dropped while it was read; ask again".into());
        if let Some(from) = self.walk.drop_before(dropped, self.given).map_err(gap)? {
            self.tally.cut(from);
        }
        Ok(())
    }

    /// Takes back what of the last stretch lies behind `used`: it is read again.
    pub fn used(&mut self, used: TimeRange) {
        self.walk.advance(used);
    }

    /// What to read next. Where few rows are wanted and the store can tell where they are, a wide
    /// stretch is narrowed to that; not after one that was over its bound.
    async fn stretch(&mut self, rows: Option<usize>) -> Result<Option<Stretch>, QueryError> {
        self.narrowed = false;
        let untroubled = self.halvings == 0 && self.budget == self.query.settings.stretch_bytes;
        if let Some(rows) = rows.filter(|_| untroubled)
            && let Some(wide) = self.walk.wide_stretch()?
            && let Some(range) = self.narrow(&wide, rows).await?
        {
            self.narrowed = range != wide.range;
            self.walk.widen(length(wide.range));
            return Ok(Some(self.walk.narrowed(range)));
        }
        Ok(self.walk.stretch()?)
    }

    /// The part of a stretch that is sure to hold so many rows, as far as the store can tell.
    async fn narrow(&self, stretch: &Stretch, rows: usize) -> Result<Option<TimeRange>, QueryError> {
        let [planned] = &stretch.scans[..] else { return Ok(None) };
        if planned.len() > NARROWED_PARTITIONS_MAX {
            return Ok(None);
        }
        let partitions = planned.iter().map(|planned| planned.partition.clone()).collect();
        let end = if self.asked.order == Order::Asc { End::First } else { End::Last };
        let scan = Scan { partitions, range: stretch.range, consistency: self.tally.consistency };
        self.query.within_deadline(self.query.store.narrow(&scan, Enough { end, rows })).await
    }

    /// After a stretch over its bound: half of it; the hard bound where several halvings did not
    /// help, because blocks overlap so much that any instant touches many; or else an error.
    fn make_smaller(&mut self, stretch: &Stretch) -> Result<(), QueryError> {
        let hard = self.query.settings.stretch_bytes_max;
        if self.may_halve(stretch) {
            self.halvings += 1;
            self.walk.shrink(stretch);
            return Ok(());
        }
        if self.budget >= hard {
            let TimeRange { from, to } = stretch.range;
            return Err(QueryError::ResultTooLarge(format!(
                "blocks of more than {hard} bytes overlap {from} to {to}; they can't be merged at once"
            )));
        }
        (self.budget, self.halvings) = (hard, 0);
        Ok(())
    }

    fn may_halve(&self, stretch: &Stretch) -> bool {
        !stretch.least && self.halvings < HALVINGS_MAX
    }

    /// Reads and verifies a stretch; `None` where it is larger than its bound.
    async fn read(&self, stretch: &Stretch, began: Mark, fresh: &Fresh) -> Result<Option<(Vec<Verdict>, usize)>, QueryError> {
        let (mut verdicts, mut bytes) = (Vec::new(), 0);
        for planned in &stretch.scans {
            let (store, deadline) = (self.query.store.as_ref(), self.query.settings.page_deadline);
            let split = self.query.split(fresh, planned).await?;
            if split.tables.len() > TABLES_AT_ONCE && self.may_halve(stretch) {
                return Ok(None);
            }
            let (asked, range, consistency) = (split.in_store(planned), stretch.range, self.tally.consistency);
            let FanOut::Whole(answered) = fan_out(store, &asked, range, consistency, self.budget - bytes, deadline).await? else {
                return Ok(None);
            };
            if (bytes + answered.bytes).saturating_add(split.table_bytes(stretch.range)) > self.budget {
                return Ok(None);
            }
            let tables = self.query.read_tables(fresh, &split.tables, stretch.range, self.asked.selection.id.as_deref()).await;
            let cold: usize = tables.iter().map(TableAnswer::bytes).sum();
            // What was planned on the view stands for a grace from when its read began (COLD-8).
            self.query.check_deadline(began, &self.settled.view)?;
            self.query.check_deadline(fresh.view.began, &fresh.view)?;
            bytes += answered.bytes + cold;
            if bytes > self.budget {
                return Ok(None);
            }
            self.query.metrics.count(&answered);
            let (planned, answered) = (planned.clone(), split.spread(answered));
            let mut verdict = work_on(answered.bytes, move || verify(planned, answered)).await?;
            tables.into_iter().for_each(|table| verdict.take_table(table));
            verdicts.push(verdict);
        }
        Ok(Some((verdicts, bytes)))
    }

    /// Whether a block names a layout version that this read's view does not have; true once only.
    fn speaks_of_the_unknown(&mut self, verdicts: &[Verdict]) -> bool {
        let known = |version| self.walk.keys().iter().any(|key| key.epochs.iter().any(|epoch| epoch.layout.version == version));
        let unknown = verdicts.iter().filter_map(|verdict| verdict.other_version).any(|version| !known(version));
        unknown && !std::mem::replace(&mut self.replanned, true)
    }

    async fn replan(&mut self) -> Result<(), QueryError> {
        let range = self.settled.range;
        self.settled = Settled { range, ..settle(&self.query, &self.asked.ns, Some(range.from), None).await? };
        self.tally.revision = self.settled.view.revision;
        self.walk.replan(plan(&self.query, &self.asked, &self.settled, &self.keys).await?);
        Ok(())
    }

    /// The sound partitions; an error where others are missing, unless the answer may be partial.
    fn judge(&mut self, verdicts: Vec<Verdict>) -> Result<Vec<Verified>, QueryError> {
        let mut sound = Vec::new();
        for verdict in verdicts {
            if let Some(error) = verdict.error() {
                self.query.metrics.fault(&error);
                if !self.asked.partial {
                    return Err(error);
                }
                tracing::warn!(%error, ns = %self.asked.ns, "a partial answer");
            }
            self.tally.judge(&verdict);
            sound.extend(verdict.sound);
        }
        Ok(sound)
    }
}

/// Runs work that takes the processor for long away from the threads that serve requests.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, QueryError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| QueryError::Internal(error.to_string()))
}

/// Runs work on blocks of so many bytes, here if they are few.
pub async fn work_on<T: Send + 'static>(bytes: usize, work: impl FnOnce() -> T + Send + 'static) -> Result<T, QueryError> {
    if bytes <= AT_ONCE_BYTES_MAX { Ok(work()) } else { blocking(work).await }
}

impl From<TooManyPartitions> for QueryError {
    fn from(_: TooManyPartitions) -> QueryError {
        QueryError::ResultTooLarge("too many partitions at once; name one key".into())
    }
}
