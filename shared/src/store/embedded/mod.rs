//! The embedded store: fjall on a local disk, one sync per group commit.
//!
//! Puts the parts together and answers the trait; every write goes through `commit`, every
//! block read through `scan`.

mod commit;
mod data_dir;
mod failure;
mod fragments;
mod journal;
mod keys;
mod metrics;
mod narrow;
mod operations;
mod reach;
mod scan;
mod state;
mod tidy;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, Readable};
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use prometheus::Registry;
use tokio::sync::{Semaphore, oneshot};

use self::commit::{Change, Command, Committer, Mark, decode_document};
use self::data_dir::DataDir;
pub use self::failure::OpenError;
use self::fragments::Fragments;
use self::metrics::{Metrics, TidyMetrics};
use self::reach::Reaches;
use self::scan::{Cursor, ScanError};
use self::state::State;
use self::tidy::{Tidier, Waste};
use super::{BlockAddress, Day, Document, EncodedBlock, Enough, PageToken, Scan, ScanPage, Store, StoreError, StoreErrorKind, Swap};
use crate::background;
use crate::model::{Namespace, TimeRange};
use crate::partition::Partition;

const MIB: usize = 1024 * 1024;
/// Values from here on are kept apart from keys, so that walks over keys stay short.
const SEPARATE_BYTES: u32 = 4096;
/// What a queued change is taken to weigh at least, bytes; bounds how many are queued.
const CHANGE_BYTES_MIN: usize = 1024;

/// A semaphore's permits are counted in 32 bits.
const ROOM_BYTES_MAX: usize = 1 << 30;

/// Settings of an embedded store.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// Size at which a memtable is flushed, bytes; up to four may be in memory.
    pub memtable_bytes: usize,
    /// Block cache, bytes.
    pub cache_bytes: usize,
    /// Journals are kept below about this and one more, bytes (64 MiB at least).
    pub journal_bytes: usize,
    /// Most bytes of changes that wait; beyond, callers wait.
    pub queue_bytes: usize,
    /// Size at which a commit takes no more changes, bytes.
    pub commit_bytes: usize,
    /// Size of a scan's page, bytes.
    pub page_bytes: usize,
    /// Room on the disk below which writes are refused, bytes: the engine needs some to flush.
    pub reserve_bytes: u64,
    /// Where metrics are registered.
    pub registry: Registry,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        EmbeddedOptions {
            memtable_bytes: 16 * MIB,
            cache_bytes: 32 * MIB,
            journal_bytes: 128 * MIB,
            queue_bytes: 24 * MIB,
            commit_bytes: 8 * MIB,
            page_bytes: 4 * MIB,
            reserve_bytes: 128 * MIB as u64,
            registry: Registry::new(),
        }
    }
}

/// A store on a local disk.
pub struct EmbeddedStore {
    state: Arc<State>,
    fragments: Arc<Fragments>,
    room: Arc<Semaphore>,
    room_bytes: usize,
    page_bytes: usize,
    running: Mutex<Option<Running>>,
}

/// What ends when the store is closed. Fields are dropped in this order: the lock goes last.
struct Running {
    queue: mpsc::Sender<Command>,
    committer: JoinHandle<()>,
    closing: mpsc::Sender<()>,
    tidier: JoinHandle<()>,
    engine: Engine,
    _dir: DataDir,
}

/// The engine as reads use it.
#[derive(Clone)]
struct Engine {
    keyspace: Keyspace,
    database: Database,
}

impl EmbeddedStore {
    /// Opens the store in `path`, making it where there is nothing. Blocks: reads what journals hold.
    pub fn open(path: &Path, options: EmbeddedOptions) -> Result<Arc<EmbeddedStore>, OpenError> {
        let dir = DataDir::open(path)?;
        let engine_path = dir.engine();
        journal::check(&engine_path, dir.nonce)?;
        // The engine flushes and compacts on threads of its own, which are as nice as the one that opens it.
        let opened = background::run(|| open_engine(&engine_path, &options));
        let engine = opened.map_err(|error| OpenError::engine(&engine_path, error))?;
        let last = last_mark(&engine, &engine_path, dir.nonce)?;
        if dir.is_old() {
            reach::learn(&engine.database, &engine.keyspace).map_err(|error| OpenError::engine(&engine_path, error))?;
            dir.renew()?;
        }
        let registering = |error: prometheus::Error| OpenError::Io { path: path.to_owned(), error: std::io::Error::other(error) };
        let state = Arc::new(State::new(path.to_owned(), options.reserve_bytes));
        let (fragments, waste) = (Arc::<Fragments>::default(), Arc::<Waste>::default());
        let committer = Committer {
            database: engine.database.clone(),
            keyspace: engine.keyspace.clone(),
            state: state.clone(),
            fragments: fragments.clone(),
            reaches: Reaches::default(),
            waste: waste.clone(),
            metrics: Metrics::new(&options.registry).map_err(registering)?,
            last,
            bytes_max: options.commit_bytes,
            memtable_bytes: options.memtable_bytes as u64,
        };
        let room_bytes = options.queue_bytes.clamp(CHANGE_BYTES_MIN, ROOM_BYTES_MAX);
        let (queue, commands) = mpsc::channel();
        let spawn = std::thread::Builder::new().name("braid-commit".into()).spawn(move || committer.run(&commands));
        let committer = spawn.map_err(OpenError::io(path))?;
        let tidier = Tidier {
            keyspace: engine.keyspace.clone(),
            state: state.clone(),
            waste,
            metrics: TidyMetrics::new(&options.registry).map_err(registering)?,
        };
        let (closing, closed) = mpsc::channel();
        let spawn = std::thread::Builder::new().name("braid-tidy".into()).spawn(move || tidier.run(&closed));
        let tidier = spawn.map_err(OpenError::io(path))?;
        Ok(Arc::new(EmbeddedStore {
            state,
            fragments,
            room: Arc::new(Semaphore::new(room_bytes)),
            room_bytes,
            page_bytes: options.page_bytes,
            running: Mutex::new(Some(Running { queue, committer, closing, tidier, engine, _dir: dir })),
        }))
    }

    /// Commits what is queued and lets go of the directory; later operations fail. Blocks.
    pub fn close(&self) {
        let running = self.running.lock().expect("no holder panics").take();
        let Some(Running { queue, committer, closing, tidier, engine, _dir }) = running else { return };
        drop((queue, closing));
        for (thread, name) in [(committer, "committer"), (tidier, "tidier")] {
            if thread.join().is_err() {
                tracing::error!("the {name} panicked");
            }
        }
        drop(engine);
    }

    fn engine(&self) -> Result<Engine, StoreError> {
        let running = self.running.lock().expect("no holder panics");
        running.as_ref().map(|running| running.engine.clone()).ok_or_else(failure::closed)
    }

    /// Runs a read where it may block.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Engine, &State) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (engine, state) = (self.engine()?, self.state.clone());
        let task = tokio::task::spawn_blocking(move || read(&engine, &state));
        task.await.unwrap_or_else(|error| Err(StoreError::new(StoreErrorKind::Unavailable, format!("a read was given up: {error}"))))
    }

    /// Queues a change, waiting for room, and gives its outcome. Dropping this future does not
    /// undo a change that was queued.
    async fn change(&self, change: Change, bytes: usize) -> Result<Swap, StoreError> {
        let weight = bytes.clamp(CHANGE_BYTES_MIN, self.room_bytes) as u32;
        let room = self.room.clone().acquire_many_owned(weight).await.map_err(|_| failure::closed())?;
        let (reply, outcome) = oneshot::channel();
        let command = Command { change, reply, room, bytes };
        let queue = self.running.lock().expect("no holder panics").as_ref().map(|running| running.queue.clone());
        queue.ok_or_else(failure::closed)?.send(command).map_err(|_| failure::closed())?;
        outcome.await.unwrap_or_else(|_| Err(StoreError::new(StoreErrorKind::Unknown, "the committer stopped before it answered")))
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.close();
    }
}

fn open_engine(path: &Path, options: &EmbeddedOptions) -> fjall::Result<Engine> {
    let database = Database::builder(path)
        .cache_size(options.cache_bytes as u64)
        .max_journaling_size((options.journal_bytes as u64).max(64 << 20))
        // One worker: of two, fjall lets the first do nothing but hand compactions back, at full speed.
        .worker_threads(1)
        .open()?;
    // Far above what the committer lets a memtable grow to: it seals them itself.
    let memtable_bytes = 8 * options.memtable_bytes as u64;
    // Any file of values may be rewritten once a good part of it is removed, not the oldest ones alone.
    let separation = KvSeparationOptions::default().separation_threshold(SEPARATE_BYTES).age_cutoff(1.0);
    let keyspace = database
        .keyspace("braid", || KeyspaceCreateOptions::default().max_memtable_size(memtable_bytes).with_kv_separation(Some(separation)))?;
    Ok(Engine { keyspace, database })
}

/// The mark of the last commit that is found again.
fn last_mark(engine: &Engine, path: &Path, nonce: u64) -> Result<Mark, OpenError> {
    let value = engine.keyspace.get(keys::COMMIT_MARK).map_err(|error| OpenError::engine(path, error))?;
    match value.map(|value| Mark::decode(&value)) {
        None => Ok(Mark { commit: 0, nonce }),
        Some(Some(mark)) if mark.nonce == nonce => Ok(mark),
        Some(_) => Err(OpenError::damaged(path, "its last commit is not of this data directory")),
    }
}
