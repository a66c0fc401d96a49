//! Step: group a request's rows by partition. Pure.
//!
//! Costs about as much as hashing the ids: rows usually share the key and the bucket of the row
//! before, and grouping is one sort of integers that hold run, suffix and row.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use braid_shared::catalog::NamespaceView;
use braid_shared::layout::{Layout, LayoutVersion};
use braid_shared::limits::{REQUEST_EVENTS_MAX, SHARDS_MAX};
use braid_shared::model::{Batch, Namespace, Row, TimeRange, Timestamp};
use braid_shared::partition::Partition;

/// Bits of a sort key that hold the row.
const ROW_BITS: u32 = 20;
/// Bits of a sort key that hold the suffix.
const SUFFIX_BITS: u32 = 12;
const _: () = assert!(REQUEST_EVENTS_MAX <= 1 << ROW_BITS && SHARDS_MAX <= 1 << SUFFIX_BITS);

/// A request's rows by partition.
pub struct Routed {
    /// The partitions, each with its rows.
    pub(crate) groups: Vec<Group>,
    order: Vec<u64>,
}

/// The rows of one partition.
pub struct Group {
    /// The partition.
    pub(crate) partition: Arc<Partition>,
    /// The layout that placed them.
    pub(crate) layout: Arc<Layout>,
    rows: Range<usize>,
}

impl Group {
    /// Rows inside.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }
}

impl Routed {
    /// The group's rows, in the order of the request.
    pub(crate) fn rows<'b, 'a>(&'b self, group: &Group, batch: &'b Batch<'a>) -> impl Iterator<Item = &'b Row<'a>> {
        self.order[group.rows.clone()].iter().map(|key| &batch.rows[row_of(*key)])
    }
}

/// One bucket of one epoch of one key: what its suffixes share.
struct Run {
    key: usize,
    layout: Arc<Layout>,
    bucket: Timestamp,
    /// Event times that belong here.
    range: TimeRange,
}

/// A logical key of the request.
struct Key {
    name: Arc<str>,
    epochs: Vec<(TimeRange, Arc<Layout>)>,
    /// The run of the row before; its range decides whether it holds this one too.
    last_run: Option<usize>,
}

struct Router<'b, 'a> {
    timelines: &'b NamespaceView,
    span: TimeRange,
    names: HashMap<&'b str, usize>,
    keys: Vec<Key>,
    known: HashMap<(usize, LayoutVersion, Timestamp), usize>,
    runs: Vec<Run>,
    last_key: Option<(&'b str, usize)>,
    batch: &'b Batch<'a>,
}

/// Groups completed, admitted rows by the partition that the timelines give each.
pub fn route(ns: &Namespace, batch: &Batch<'_>, timelines: &NamespaceView) -> Routed {
    let mut router = Router::new(batch, timelines);
    let mut order: Vec<u64> = batch.rows.iter().enumerate().filter_map(|(i, row)| router.place(i, row)).collect();
    // Rows of a partition stay in their order: their position is the key's lowest part.
    order.sort_unstable();
    let groups = router.groups(ns, &order);
    Routed { groups, order }
}

impl<'b, 'a> Router<'b, 'a> {
    fn new(batch: &'b Batch<'a>, timelines: &'b NamespaceView) -> Self {
        let times = || batch.rows.iter().filter_map(|row| row.ts);
        let from = times().min().unwrap_or(Timestamp::MIN);
        let last = times().max().unwrap_or(Timestamp::MIN);
        // Admitted times lie below a horizon, hence below the last instant.
        let span = TimeRange { from, to: Timestamp::from_nanos(last.nanos().saturating_add(1)) };
        Router { timelines, span, names: HashMap::new(), keys: Vec::new(), known: HashMap::new(), runs: Vec::new(), last_key: None, batch }
    }

    /// The sort key of a row. `None` only for a row without a time or an epoch, which admitted
    /// rows of a namespace do not lack: layout 0 covers all time.
    fn place(&mut self, position: usize, row: &'b Row<'a>) -> Option<u64> {
        let ts = row.ts?;
        let key = self.key(&row.key);
        let run = match self.keys[key].last_run {
            Some(run) if self.runs[run].range.contains(ts) => run,
            _ => self.find_run(key, ts)?,
        };
        let layout = &self.runs[run].layout;
        let tag = layout.shard_by.tag().and_then(|name| tag_of(self.batch, row, name));
        let suffix = layout.suffix(row.id.as_deref().unwrap_or(""), tag);
        Some((run as u64) << (SUFFIX_BITS + ROW_BITS) | u64::from(suffix) << ROW_BITS | position as u64)
    }

    fn key(&mut self, name: &'b str) -> usize {
        match self.last_key {
            Some((last, key)) if last == name => return key,
            _ => {}
        }
        let key = *self.names.entry(name).or_insert_with(|| {
            let epochs = self.timelines.epochs(name, self.span);
            self.keys.push(Key { name: name.into(), epochs, last_run: None });
            self.keys.len() - 1
        });
        self.last_key = Some((name, key));
        key
    }

    fn find_run(&mut self, key: usize, ts: Timestamp) -> Option<usize> {
        let (epoch, layout) = self.keys[key].epochs.iter().find(|(epoch, _)| epoch.contains(ts))?;
        let bucket = layout.bucket(ts);
        let runs = &mut self.runs;
        let run = *self.known.entry((key, layout.version, bucket)).or_insert_with(|| {
            runs.push(Run { key, layout: layout.clone(), bucket, range: layout.bucket_range(bucket).intersect(*epoch) });
            runs.len() - 1
        });
        self.keys[key].last_run = Some(run);
        Some(run)
    }

    fn groups(&self, ns: &Namespace, order: &[u64]) -> Vec<Group> {
        let mut start = 0;
        let same = |a: &u64, b: &u64| a >> ROW_BITS == b >> ROW_BITS;
        order
            .chunk_by(same)
            .map(|rows| {
                let run = &self.runs[(rows[0] >> (SUFFIX_BITS + ROW_BITS)) as usize];
                let partition = Partition {
                    ns: ns.clone(),
                    key: self.keys[run.key].name.clone(),
                    bucket: run.bucket,
                    version: run.layout.version,
                    suffix: (rows[0] >> ROW_BITS) as u32 & ((1 << SUFFIX_BITS) - 1),
                };
                let range = start..start + rows.len();
                start = range.end;
                Group { partition: Arc::new(partition), layout: run.layout.clone(), rows: range }
            })
            .collect()
    }
}

fn row_of(sort_key: u64) -> usize {
    (sort_key & ((1 << ROW_BITS) - 1)) as usize
}

fn tag_of<'b>(batch: &'b Batch<'_>, row: &Row<'_>, name: &str) -> Option<&'b str> {
    let tags = &batch.tags[row.tags.start as usize..row.tags.end as usize];
    tags.iter().find(|(tag, _)| tag == name).map(|(_, value)| &**value)
}
