//! A bucket's published files back to blocks of its partitions, each file checked against its
//! manifest entry, so that whoever merges blocks need not know where they came from.
//!
//! A file is fetched whole, checked before anything of it is believed, and kept. Where nothing else may
//! have writes of its events, whoever reads decodes runs of its rows as it comes to them. Otherwise
//! they become blocks of their partitions again: all of them, which are kept, or those of the pages
//! near what is wanted. Both up to a bound: a name is never used for anything else.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use prometheus::{IntCounter, Registry};
use tokio::task::JoinError;

use super::database::{DatabaseError, DatabaseErrorKind, Databases};
use super::group::{Database, Groups};
use super::rules::{Published, TableFile};
use super::table::{About, Digest, Run, TableError, TableReader};
use crate::block::{Block, BlockError, Resettle};
use crate::layout::Layout;
use crate::metrics::register;
use crate::model::{Namespace, TimeRange, Timestamp};
use crate::partition::Partition;
use crate::store::overlaps;

/// Bytes of a file up to which it is decoded where it was read, not on a thread of its own.
const AT_ONCE_BYTES_MAX: u64 = 16 * 1024;
/// Bytes of blocks that are kept.
const BLOCKS_KEPT_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Bytes of files that are kept.
const FILES_KEPT_BYTES_MAX: usize = 96 * 1024 * 1024;
/// What is larger than this part of that is not kept.
const KEPT_PART_MAX: usize = 2;

/// A bucket of one key under one layout.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// Namespace.
    pub ns: Namespace,
    /// Logical key.
    pub key: Arc<str>,
    /// Its start.
    pub start: Timestamp,
    /// The layout that cuts and shards it.
    pub layout: Arc<Layout>,
}

impl Bucket {
    /// Event times inside.
    pub fn range(&self) -> TimeRange {
        self.layout.bucket_range(self.start)
    }

    /// The partition of a suffix.
    pub fn partition(&self, suffix: u32) -> Partition {
        let Bucket { ns, key, start, layout } = self;
        Partition { ns: ns.clone(), key: key.clone(), bucket: *start, version: layout.version, suffix }
    }

    /// What its files say of themselves.
    pub fn about(&self) -> About {
        About::new(self.ns.clone(), &self.key, self.start, self.layout.version)
    }
}

/// What a file gave: blocks, each with its suffix, ascending.
pub type FileBlocks = Arc<[(u32, Block)]>;

/// What is wanted of a bucket's tables.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Event times.
    pub range: TimeRange,
    /// Suffixes.
    pub suffixes: Range<u32>,
    /// The one id that is looked for, if one is: others may be left out.
    pub id: Option<Arc<str>>,
}

/// Reads tables.
pub struct Tables {
    databases: Arc<Databases>,
    blocks: Mutex<Kept<FileBlocks>>,
    readers: Mutex<Kept<Arc<TableReader>>>,
    files: IntCounter,
    bytes: IntCounter,
    hits: IntCounter,
}

/// What came of the files that were read of late, the oldest first to go.
struct Kept<T> {
    files: HashMap<String, (T, usize)>,
    order: VecDeque<String>,
    bytes: usize,
    bytes_max: usize,
}

/// Why a file's content is not what it must be.
#[derive(Debug, thiserror::Error)]
enum Unsound {
    #[error(transparent)]
    Table(#[from] TableError),
    #[error("its events make no blocks: {0}")]
    Block(#[from] BlockError),
}

impl Tables {
    /// A reader over these databases; registers its metrics.
    pub fn new(databases: Arc<Databases>, registry: &Registry) -> Result<Arc<Tables>, prometheus::Error> {
        let counter = |name: &str, help: &str| register(registry, IntCounter::new(name, help)?);
        databases.register(registry)?;
        Ok(Arc::new(Tables {
            databases,
            blocks: Kept::new(BLOCKS_KEPT_BYTES_MAX),
            readers: Kept::new(FILES_KEPT_BYTES_MAX),
            files: counter("braid_cold_files_read_total", "Table files fetched.")?,
            bytes: counter("braid_cold_bytes_read_total", "Bytes of table files fetched.")?,
            hits: counter("braid_cold_files_kept_total", "Table files that were at hand, checked already.")?,
        }))
    }

    /// The databases that are read.
    pub fn databases(&self) -> &Arc<Databases> {
        &self.databases
    }

    /// The blocks of a bucket's published events that are wanted, and perhaps more: by suffix, ascending.
    /// Every file that touches the range was there, and is what its entry says. They merge with any others.
    pub async fn blocks(
        &self,
        groups: &Groups,
        bucket: &Bucket,
        published: &Published,
        wanted: &Wanted,
    ) -> Result<Vec<(u32, Block)>, DatabaseError> {
        let database = database_of(groups, published)?;
        let mut blocks = Vec::new();
        for file in published.files.iter().filter(|file| touches(file, wanted.range)) {
            let of_file = self.file(database, bucket, file, wanted).await?;
            let is_wanted =
                |(suffix, block): &&(u32, Block)| wanted.suffixes.contains(suffix) && overlaps(&block.header().address, wanted.range);
            blocks.extend(of_file.iter().filter(is_wanted).cloned());
        }
        blocks.sort_by_key(|(suffix, _)| *suffix);
        Ok(blocks)
    }

    /// Rows of a bucket's published events, of all its partitions, and perhaps more than those in `range`: for who
    /// merges them with nothing, since each is an event as it stands. Files as for [`Tables::blocks`].
    pub async fn runs(&self, groups: &Groups, bucket: &Bucket, published: &Published, range: TimeRange) -> Result<Vec<Run>, DatabaseError> {
        let database = database_of(groups, published)?;
        let mut runs = Vec::new();
        for file in published.files.iter().filter(|file| touches(file, range)) {
            runs.extend(self.reader(database, bucket, file).await?.runs(range));
        }
        Ok(runs)
    }

    async fn file(&self, database: &Database, bucket: &Bucket, file: &TableFile, wanted: &Wanted) -> Result<FileBlocks, DatabaseError> {
        if let Some(kept) = self.blocks.lock().expect("no holder panics").get(&file.path) {
            self.hits.inc();
            return Ok(kept);
        }
        let reader = self.reader(database, bucket, file).await?;
        let (of, wanted) = (bucket.clone(), wanted.clone());
        let read = work_on(file.bytes, move || decode(&of, &reader, &wanted)).await;
        let (blocks, whole) = told(read).map_err(altered(database, file))?;
        if whole {
            self.blocks.lock().expect("no holder panics").keep(&file.path, blocks.clone(), bytes_of(&blocks));
        }
        Ok(blocks)
    }

    /// A checked file.
    async fn reader(&self, database: &Database, bucket: &Bucket, file: &TableFile) -> Result<Arc<TableReader>, DatabaseError> {
        if let Some(kept) = self.readers.lock().expect("no holder panics").get(&file.path) {
            self.hits.inc();
            return Ok(kept);
        }
        let bytes = self.fetch(database, file).await?;
        let (about, expected, checksum) = (bucket.about(), file.rows, file.checksum);
        let opening = move || match TableReader::open(bytes, checksum, &about)? {
            reader if reader.rows() == expected => Ok(Arc::new(reader)),
            _ => Err(TableError::Damaged("it has another number of events than its entry says")),
        };
        let opened = work_on(file.bytes, opening).await;
        let reader = told(opened).map_err(altered(database, file))?;
        self.readers.lock().expect("no holder panics").keep(&file.path, reader.clone(), reader.bytes());
        Ok(reader)
    }

    /// A file's bytes, unchecked.
    async fn fetch(&self, database: &Database, file: &TableFile) -> Result<Bytes, DatabaseError> {
        let bytes = self.databases.get(database, &file.path).await?;
        self.files.inc();
        self.bytes.inc_by(bytes.len() as u64);
        Ok(bytes)
    }

    /// Reads a file anew and compares what is in it with what went in.
    pub async fn check(&self, database: &Database, bucket: &Bucket, file: &TableFile, digest: Option<Digest>) -> Result<(), DatabaseError> {
        let bytes = self.fetch(database, file).await?;
        let (about, expected, checksum) = (bucket.about(), file.rows, file.checksum);
        let checking = work_on(file.bytes, move || digest_of(bytes, checksum, &about)).await;
        let altered = altered(database, file);
        let found = told(checking).map_err(&altered)?;
        if found.rows != expected || digest.is_some_and(|digest| digest != found) {
            return Err(altered("its events are not those that were written".into()));
        }
        Ok(())
    }
}

/// Runs work on a file of so many bytes, here if they are few.
async fn work_on<T: Send + 'static>(bytes: u64, work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    if bytes <= AT_ONCE_BYTES_MAX { Ok(work()) } else { tokio::task::spawn_blocking(work).await }
}

/// What came of work on a file, or why nothing did.
fn told<T, E: fmt::Display>(done: Result<Result<T, E>, JoinError>) -> Result<T, String> {
    done.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

/// The error of a file that is not what its entry says.
fn altered<'a>(database: &'a Database, file: &'a TableFile) -> impl Fn(String) -> DatabaseError + 'a {
    |why| DatabaseError::new(DatabaseErrorKind::Altered, database, &file.path, why)
}

/// The database that holds a published generation.
pub fn database_of<'a>(groups: &'a Groups, published: &Published) -> Result<&'a Database, DatabaseError> {
    groups.database(published.group, published.table).ok_or_else(|| DatabaseError {
        kind: DatabaseErrorKind::Unavailable,
        database: Database { name: format!("of group {}", published.group), url: String::new(), tables: 0 },
        path: published.files.first().map(|file| file.path.clone()).unwrap_or_default(),
        why: "this node knows no such group".into(),
    })
}

/// Whether a file may hold events of `range`.
pub fn touches(file: &TableFile, range: TimeRange) -> bool {
    !range.is_empty() && file.min_ts < range.to.nanos() && file.max_ts >= range.from.nanos()
}

fn digest_of(bytes: Bytes, checksum: u64, about: &About) -> Result<Digest, TableError> {
    let mut digest = Digest::default();
    TableReader::open(bytes, checksum, about)?.each(TimeRange::ALL, |ts, id, cells, stamp| {
        digest.add(ts, id, cells, stamp);
        Ok::<(), TableError>(())
    })?;
    Ok(digest)
}

/// A file's events as blocks of the partitions that they belong to, and whether all of them were decoded:
/// unless one id is looked for, or little of the file is near what is wanted.
fn decode(bucket: &Bucket, reader: &TableReader, wanted: &Wanted) -> Result<(FileBlocks, bool), Unsound> {
    let (layout, id) = (&*bucket.layout, wanted.id.as_deref());
    if let Some(id) = id
        && !reader.may_hold(wanted.range, id)?
    {
        return Ok((Arc::new([]), false));
    }
    let whole = id.is_none() && reader.rows_near(wanted.range) > reader.rows() / 2;
    let range = if whole { TimeRange::ALL } else { wanted.range };
    let mut by_suffix: HashMap<u32, Resettle> = HashMap::new();
    reader.each(range, |ts, of, cells, stamp| {
        if id.is_some_and(|id| id != of) {
            return Ok(());
        }
        let tag = layout.shard_by.tag().and_then(|name| cells.iter().find(|cell| cell.tag && cell.name == name));
        let tag = tag.and_then(|cell| if let crate::model::ValueRef::Str(tag) = cell.value { Some(tag) } else { None });
        let suffix = layout.suffix(of, tag);
        by_suffix.entry(suffix).or_default().push(layout, Timestamp::from_nanos(ts), of, cells, stamp);
        Ok::<(), TableError>(())
    })?;
    let mut blocks = Vec::new();
    for (suffix, events) in by_suffix {
        let of_suffix = events.blocks(&Arc::new(bucket.partition(suffix)), layout, rand::random)?;
        blocks.extend(of_suffix.into_iter().map(|block| (suffix, block)));
    }
    blocks.sort_by_key(|(suffix, block)| (*suffix, block.header().address));
    Ok((blocks.into(), whole))
}

impl<T: Clone> Kept<T> {
    fn new(bytes_max: usize) -> Mutex<Kept<T>> {
        Mutex::new(Kept { files: HashMap::new(), order: VecDeque::new(), bytes: 0, bytes_max })
    }

    fn get(&self, path: &str) -> Option<T> {
        self.files.get(path).map(|(kept, _)| kept.clone())
    }

    fn keep(&mut self, path: &str, what: T, bytes: usize) {
        if bytes > self.bytes_max / KEPT_PART_MAX || self.files.contains_key(path) {
            return;
        }
        while self.bytes + bytes > self.bytes_max {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= self.files.remove(&oldest).map_or(0, |(_, bytes)| bytes);
        }
        self.bytes += bytes;
        self.order.push_back(path.to_owned());
        self.files.insert(path.to_owned(), (what, bytes));
    }
}

fn bytes_of(blocks: &FileBlocks) -> usize {
    blocks.iter().map(|(_, block)| block.bytes().len()).sum()
}
