//! Databases: where table files lie. Whole objects under names that are never used twice, each call
//! within a deadline, each error naming the database and the file.
//!
//! A call that hangs holds one of its database's few permits until it comes back, and nothing else:
//! a directory on a server that is gone must not take every thread there is. What each kind of call
//! last came to is remembered, counted and told.
//!
//! Knows nothing of what is inside a file.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, RetryConfig};
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::group::Database;
use crate::metrics::register;

/// Longest that a call may take; less than a read has, so that its error names the database.
const CALL_DEADLINE: Duration = Duration::from_secs(15);
/// Writing a file may take longer, by as much as its bytes take at this rate, bytes a second.
const PUT_RATE_MIN: u64 = 512 * 1024;
/// Longest that a listing may take.
const LIST_DEADLINE: Duration = Duration::from_secs(120);
/// Calls of one database that may be unanswered at once.
const CALLS_MAX: usize = 64;
/// Times that a call over the network is tried again, within its deadline.
const RETRIES_MAX: usize = 3;
/// Bytes of the object that shows whether a database can be used: a full one must not have room for it.
const PROBE_BYTES: usize = 256 * 1024;
/// Most characters that are told of an error.
const TOLD_MAX: usize = 500;

/// What went wrong; a kind exists only where callers act differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DatabaseErrorKind {
    /// There is no such file.
    Missing,
    /// The file is not what was written.
    Altered,
    /// The database can't be used now: unreachable, slow, full, read-only.
    Unavailable,
}

/// A database's error; names the database and the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("database {}, {path}: {why}", .database.name)]
pub struct DatabaseError {
    /// How the caller should act.
    pub kind: DatabaseErrorKind,
    /// The database.
    pub database: Database,
    /// The file's path below the database's URL.
    pub path: String,
    /// What happened, for an operator.
    pub why: String,
}

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    Put,
    Get,
    Delete,
    List,
}

/// A store, where in it a database begins, and how many more calls it may have.
#[derive(Clone)]
struct Opened {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    permits: Arc<Semaphore>,
}

/// The databases of this node, each opened once.
pub struct Databases {
    open: Mutex<HashMap<String, Opened>>,
    /// By URL, the calls whose last one failed, and why.
    faults: Mutex<HashMap<String, BTreeMap<Call, String>>>,
    up: IntGaugeVec,
    errors: IntCounterVec,
    /// Name of this node's probes, of which one runs at a time: what can't be deleted is overwritten.
    probe: tokio::sync::Mutex<String>,
}

impl fmt::Debug for Databases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Databases").finish_non_exhaustive()
    }
}

impl Databases {
    /// None opened yet.
    pub fn new() -> Arc<Databases> {
        let labels = &["database", "url", "call"];
        let up = Opts::new("braid_cold_database_up", "Whether the last call of its kind to a database was answered.");
        let errors = Opts::new("braid_cold_database_errors_total", "Calls that a database failed or did not answer in time.");
        Arc::new(Databases {
            open: Mutex::default(),
            faults: Mutex::default(),
            up: IntGaugeVec::new(up, labels).expect("sound names"),
            errors: IntCounterVec::new(errors, labels).expect("sound names"),
            probe: format!("probe-{:016x}", rand::random::<u64>()).into(),
        })
    }

    /// Registers their metrics.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        register(registry, self.up.clone())?;
        register(registry, self.errors.clone())?;
        Ok(())
    }

    /// Uses `store` as the database at `url`: for tests and for stores that the program makes itself.
    pub fn provide(&self, url: &str, store: Arc<dyn ObjectStore>) {
        self.open.lock().expect("no holder panics").insert(url.to_owned(), Opened::new(store, Path::default()));
    }

    /// What is wrong with a database as far as this node knows, a line for each kind of call that failed last.
    pub fn faults(&self, database: &Database) -> Vec<String> {
        let faults = self.faults.lock().expect("no holder panics");
        faults.get(&database.url).into_iter().flat_map(|of| of.values().cloned()).collect()
    }

    /// What is wrong with any database.
    pub fn all_faults(&self) -> Vec<String> {
        let faults = self.faults.lock().expect("no holder panics");
        let mut all: Vec<String> = faults.values().flat_map(|of| of.values().cloned()).collect();
        all.sort();
        all
    }

    /// The store of a database. Opening touches the disk, so it has a thread of its own.
    async fn open(&self, database: &Database) -> Result<Opened, String> {
        if let Some(opened) = self.open.lock().expect("no holder panics").get(&database.url) {
            return Ok(opened.clone());
        }
        let url = database.url.clone();
        let opened = tokio::task::spawn_blocking(move || open_url(&url)).await.map_err(|error| error.to_string())??;
        let mut open = self.open.lock().expect("no holder panics");
        Ok(open.entry(database.url.clone()).or_insert(opened).clone())
    }

    /// Makes a call, but waits no longer than the deadline. It runs in a task of its own, which
    /// holds its permit until the call comes back, whether anybody waits for it or not.
    async fn call<T: Send + 'static, F>(
        &self,
        kind: Call,
        database: &Database,
        path: &str,
        deadline: Duration,
        call: impl FnOnce(Arc<dyn ObjectStore>, Path) -> F + Send + 'static,
    ) -> Result<T, DatabaseError>
    where
        F: Future<Output = object_store::Result<T>> + Send + 'static,
    {
        let below = Path::parse(path);
        let running = async {
            let Opened { store, prefix, permits } = self.open(database).await.map_err(unavailable)?;
            let permit = permits.acquire_owned().await.map_err(unavailable)?;
            let at = prefix.parts().chain(below.map_err(unavailable)?.parts()).collect();
            let running = tokio::spawn(async move {
                let _permit = permit;
                call(store, at).await
            });
            running.await.map_err(unavailable)?.map_err(|error| (kind_of(&error), told(&error)))
        };
        let unanswered = |_| Err(unavailable(format!("no answer within {} s", deadline.as_secs())));
        let done = timeout(deadline, running).await.unwrap_or_else(unanswered);
        let done = done.map_err(|(of, why)| DatabaseError::new(of, database, path, why));
        self.note(kind, database, done.as_ref().err().filter(|error| error.kind == DatabaseErrorKind::Unavailable));
        done
    }

    /// Remembers what a kind of call came to; tells when that changes.
    fn note(&self, call: Call, database: &Database, error: Option<&DatabaseError>) {
        let labels = [&*database.name, &*database.url, call.name()];
        self.up.with_label_values(&labels).set(error.is_none().into());
        let mut faults = self.faults.lock().expect("no holder panics");
        let of = faults.entry(database.url.clone()).or_default();
        let [name, url, call_name] = labels;
        match error {
            Some(error) => {
                self.errors.with_label_values(&labels).inc();
                if of.insert(call, format!("{call_name}: {error}")).is_none() {
                    tracing::warn!(database = name, url, call = call_name, %error, "a database of cold history fails");
                }
            }
            None if of.remove(&call).is_some() => {
                tracing::info!(database = name, url, call = call_name, "a database of cold history works again")
            }
            None => {}
        }
    }

    /// Writes a file, durably, under a name never used before: one that is in place is an earlier try's.
    pub async fn put(&self, database: &Database, path: &str, bytes: Bytes) -> Result<(), DatabaseError> {
        let deadline = CALL_DEADLINE + Duration::from_secs(bytes.len() as u64 / PUT_RATE_MIN);
        let put = |store: Arc<dyn ObjectStore>, at| async move { store.put(&at, bytes.into()).await.map(drop) };
        let done = self.call(Call::Put, database, path, deadline, put).await;
        // What can't be found when it is written is the database.
        done.map_err(|error| DatabaseError { kind: DatabaseErrorKind::Unavailable, ..error })
    }

    /// Reads a file.
    pub async fn get(&self, database: &Database, path: &str) -> Result<Bytes, DatabaseError> {
        let get = |store: Arc<dyn ObjectStore>, at| async move { store.get(&at).await?.bytes().await };
        self.call(Call::Get, database, path, CALL_DEADLINE, get).await
    }

    /// Deletes a file; an absent one is no error.
    pub async fn delete(&self, database: &Database, path: &str) -> Result<(), DatabaseError> {
        let delete = |store: Arc<dyn ObjectStore>, at| async move {
            match store.delete(&at).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        };
        self.call(Call::Delete, database, path, CALL_DEADLINE, delete).await
    }

    /// Paths of all files below `dir`.
    pub async fn list(&self, database: &Database, dir: &str) -> Result<Vec<String>, DatabaseError> {
        let depth = Path::from(dir).parts().count();
        let list = move |store: Arc<dyn ObjectStore>, at: Path| async move {
            let prefix = at.parts().count() - depth;
            let below = |path: Path| path.parts().skip(prefix).collect::<Path>().to_string();
            store.list(Some(&at)).map_ok(|found| below(found.location)).try_collect::<Vec<String>>().await
        };
        self.call(Call::List, database, dir, LIST_DEADLINE, list).await
    }

    /// Writes, reads and deletes an object below `dir`: whether the database can be used.
    pub async fn probe(&self, database: &Database, dir: &str) -> Result<(), DatabaseError> {
        let probe = self.probe.lock().await;
        let name = &*format!("{dir}/{probe}");
        let written = Bytes::from(vec![b'.'; PROBE_BYTES]);
        self.put(database, name, written.clone()).await?;
        let found = self.get(database, name).await?;
        self.delete(database, name).await?;
        if found != written {
            let altered = DatabaseError::new(DatabaseErrorKind::Altered, database, name, "what was read is not what was written");
            self.note(Call::Get, database, Some(&altered));
            return Err(altered);
        }
        Ok(())
    }
}

impl Opened {
    fn new(store: Arc<dyn ObjectStore>, prefix: Path) -> Opened {
        Opened { store, prefix, permits: Arc::new(Semaphore::new(CALLS_MAX)) }
    }
}

impl Call {
    fn name(self) -> &'static str {
        match self {
            Call::Put => "put",
            Call::Get => "get",
            Call::Delete => "delete",
            Call::List => "list",
        }
    }
}

impl DatabaseError {
    /// An error about a file of a database.
    pub fn new(kind: DatabaseErrorKind, database: &Database, path: &str, why: impl fmt::Display) -> DatabaseError {
        DatabaseError { kind, database: database.clone(), path: path.to_owned(), why: why.to_string() }
    }
}

fn unavailable(why: impl fmt::Display) -> (DatabaseErrorKind, String) {
    (DatabaseErrorKind::Unavailable, why.to_string())
}

fn kind_of(error: &object_store::Error) -> DatabaseErrorKind {
    match error {
        object_store::Error::NotFound { .. } => DatabaseErrorKind::Missing,
        _ => DatabaseErrorKind::Unavailable,
    }
}

/// An error in words. Of an answer in XML only code and message: other members repeat what came with
/// the request, access keys and session tokens too.
fn told(error: &object_store::Error) -> String {
    let text = error.to_string();
    let part = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(part, _)| part)
    };
    let short = match text.find("<?xml").or_else(|| text.find("<Error>")) {
        Some(xml) => format!("{}{}: {}", &text[..xml], part("Code").unwrap_or("no code"), part("Message").unwrap_or("no message")),
        None => text,
    };
    short.chars().take(TOLD_MAX).collect()
}

/// Makes a directory and what is missing above it, and syncs what names them: files that outlast a crash do so by their names.
fn make_dir(dir: &std::path::Path) -> std::io::Result<()> {
    let missing: Vec<_> = dir.ancestors().take_while(|dir| !dir.exists()).collect();
    std::fs::create_dir_all(dir)?;
    missing.into_iter().filter_map(std::path::Path::parent).try_for_each(|dir| std::fs::File::open(dir)?.sync_all())
}

/// A local directory is made where it is missing; its files are synced before a call returns. Of S3
/// the environment says the credentials, the region and the endpoint: `AWS_*`, as other tools have it.
fn open_url(url: &str) -> Result<Opened, String> {
    if let Some(dir) = url.strip_prefix("file://") {
        let dir = PathBuf::from(dir);
        make_dir(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let store = LocalFileSystem::new_with_prefix(&dir).map_err(|error| error.to_string())?;
        return Ok(Opened::new(Arc::new(store.with_fsync(true)), Path::default()));
    }
    let Some(place) = url.strip_prefix("s3://") else { return Err(format!("{url}: this program knows file:// and s3://")) };
    let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
    let store = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_retry(RetryConfig { max_retries: RETRIES_MAX, retry_timeout: CALL_DEADLINE, ..RetryConfig::default() })
        // One file at a time, which every provider has.
        .with_disable_bulk_delete(true)
        .build()
        .map_err(|error| told(&error))?;
    Ok(Opened::new(Arc::new(store), Path::parse(prefix).map_err(|error| error.to_string())?))
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;
    use crate::cold::faulty::{Fault, Faulty};

    fn database(url: &str) -> Database {
        Database { name: "db0".into(), url: url.into(), tables: 1 }
    }

    async fn keeps_files(databases: &Databases, database: &Database) {
        databases.probe(database, "n/cold").await.unwrap();
        databases.put(database, "n/cold/g1/a.parquet", Bytes::from("one")).await.unwrap();
        databases.put(database, "n/cold/g1/a.parquet", Bytes::from("one")).await.unwrap();
        databases.put(database, "n/cold/g2/b.parquet", Bytes::from("two")).await.unwrap();
        assert_eq!(databases.get(database, "n/cold/g1/a.parquet").await.unwrap(), "one");
        let mut found = databases.list(database, "n/cold").await.unwrap();
        found.sort();
        assert_eq!(found, ["n/cold/g1/a.parquet", "n/cold/g2/b.parquet"]);
        databases.delete(database, "n/cold/g1/a.parquet").await.unwrap();
        databases.delete(database, "n/cold/g1/a.parquet").await.unwrap();
        let missing = databases.get(database, "n/cold/g1/a.parquet").await.unwrap_err();
        assert_eq!((missing.kind, &*missing.database.name, &*missing.path), (DatabaseErrorKind::Missing, "db0", "n/cold/g1/a.parquet"));
    }

    #[tokio::test]
    async fn a_directory_that_is_made_on_first_use_keeps_files() {
        let dir = tempfile::tempdir().unwrap();
        let database = database(&format!("file://{}/not/there/yet", dir.path().display()));
        keeps_files(&Databases::new(), &database).await;
    }

    #[tokio::test]
    async fn a_store_that_was_provided_keeps_files() {
        let databases = Databases::new();
        databases.provide("s3://bucket", Arc::new(InMemory::new()));
        keeps_files(&databases, &database("s3://bucket")).await;
    }

    #[tokio::test]
    async fn a_place_that_can_not_be_written_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let database = database(&format!("file://{}/below/a/file", file.path().display()));
        let error = Databases::new().probe(&database, "n/cold").await.unwrap_err();
        assert_eq!(error.kind, DatabaseErrorKind::Unavailable);
        assert!(error.to_string().starts_with("database db0, n/cold/probe-"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_hang_end_by_their_deadline_and_are_few() {
        let (databases, faulty) = (Databases::new(), Faulty::default());
        databases.provide("s3://bucket", Arc::new(faulty.clone()));
        faulty.set(Fault::Silent);
        let database = database("s3://bucket");
        let reads = (0..2 * CALLS_MAX).map(|n| {
            let (databases, database) = (databases.clone(), database.clone());
            async move { databases.get(&database, &format!("n/cold/{n}.parquet")).await.unwrap_err() }
        });
        let errors = futures::future::join_all(reads).await;
        assert!(errors.iter().all(|error| error.kind == DatabaseErrorKind::Unavailable));
        assert_eq!(errors[7].to_string(), "database db0, n/cold/7.parquet: no answer within 15 s");
        assert_eq!(faulty.calls(), CALLS_MAX, "no more threads hang than there are permits");
    }

    #[test]
    fn what_is_told_of_an_answer_repeats_nothing_that_came_with_the_request() {
        let body = "Server returned non-2xx status code: 403 Forbidden: <?xml version=\"1.0\"?><Error><Code>InvalidToken</Code>\
            <Message>The provided token is malformed</Message><Token-0>SECRET</Token-0><AWSAccessKeyId>AKIA1</AWSAccessKeyId></Error>";
        let error = object_store::Error::Generic { store: "S3", source: body.into() };
        let expected =
            "Generic S3 error: Server returned non-2xx status code: 403 Forbidden: InvalidToken: The provided token is malformed";
        assert_eq!(told(&error), expected);
    }
}
