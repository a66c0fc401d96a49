//! Databases: where table files lie. Whole objects under names that are never used twice, each call
//! within a deadline, each error naming the database and the file.
//!
//! Knows nothing of what is inside a file.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use tokio::time::timeout;

use super::group::Database;

/// Longest that writing a file may take.
const PUT_DEADLINE: Duration = Duration::from_secs(120);
/// Longest that any other call may take; less than a read has, so that its error names the database.
const CALL_DEADLINE: Duration = Duration::from_secs(15);
/// Content of the object that shows whether a database can be used.
const PROBE: &[u8] = b"braid\n";

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
#[error("database {database}, {path}: {why}")]
pub struct DatabaseError {
    /// How the caller should act.
    pub kind: DatabaseErrorKind,
    /// The database's name.
    pub database: String,
    /// The file's path below the database's URL.
    pub path: String,
    /// What happened, for an operator.
    pub why: String,
}

/// A store, and where in it a database begins.
type Place = (Arc<dyn ObjectStore>, Path);

/// The databases of this node, each opened once.
#[derive(Default)]
pub struct Databases {
    open: Mutex<HashMap<String, Place>>,
}

impl fmt::Debug for Databases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Databases").finish_non_exhaustive()
    }
}

impl Databases {
    /// None opened yet.
    pub fn new() -> Arc<Databases> {
        Arc::default()
    }

    /// Uses `store` as the database at `url`: for tests and for stores that the program makes itself.
    pub fn provide(&self, url: &str, store: Arc<dyn ObjectStore>) {
        self.open.lock().expect("no holder panics").insert(url.to_owned(), (store, Path::default()));
    }

    fn open(&self, database: &Database, path: &str) -> Result<Place, DatabaseError> {
        let mut open = self.open.lock().expect("no holder panics");
        if !open.contains_key(&database.url) {
            let opened = open_url(&database.url).map_err(|why| DatabaseError::new(DatabaseErrorKind::Unavailable, database, path, why))?;
            open.insert(database.url.clone(), opened);
        }
        let (store, prefix) = open[&database.url].clone();
        let below = Path::parse(path).map_err(|error| DatabaseError::new(DatabaseErrorKind::Unavailable, database, path, error))?;
        Ok((store, prefix.parts().chain(below.parts()).collect()))
    }

    /// Writes a file, durably, under a name never used before. Found in place, it is an earlier try's.
    pub async fn put(&self, database: &Database, path: &str, bytes: Bytes) -> Result<(), DatabaseError> {
        let (store, at) = self.open(database, path)?;
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match within(PUT_DEADLINE, store.put_opts(&at, bytes.into(), options)).await {
            Ok(_) | Err(object_store::Error::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(DatabaseError::of(database, path, &error)),
        }
    }

    /// Reads a file.
    pub async fn get(&self, database: &Database, path: &str) -> Result<Bytes, DatabaseError> {
        let (store, at) = self.open(database, path)?;
        let read = async { store.get(&at).await?.bytes().await };
        within(CALL_DEADLINE, read).await.map_err(|error| DatabaseError::of(database, path, &error))
    }

    /// Deletes a file; an absent one is no error.
    pub async fn delete(&self, database: &Database, path: &str) -> Result<(), DatabaseError> {
        let (store, at) = self.open(database, path)?;
        match within(CALL_DEADLINE, store.delete(&at)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(DatabaseError::of(database, path, &error)),
        }
    }

    /// Paths of all files below `dir`.
    pub async fn list(&self, database: &Database, dir: &str) -> Result<Vec<String>, DatabaseError> {
        let (store, at) = self.open(database, dir)?;
        let prefix = at.parts().count() - Path::from(dir).parts().count();
        let listing = store.list(Some(&at)).map_ok(|found| found.location).try_collect::<Vec<Path>>();
        let found = within(PUT_DEADLINE, listing).await.map_err(|error| DatabaseError::of(database, dir, &error))?;
        Ok(found.into_iter().map(|path| path.parts().skip(prefix).collect::<Path>().to_string()).collect())
    }

    /// Writes, reads and deletes a small object below `dir`: whether the database can be used.
    pub async fn probe(&self, database: &Database, dir: &str) -> Result<(), DatabaseError> {
        let name = &*format!("{dir}/probe-{:016x}", rand::random::<u64>());
        self.put(database, name, Bytes::from_static(PROBE)).await?;
        let found = self.get(database, name).await?;
        self.delete(database, name).await?;
        if found != PROBE {
            return Err(DatabaseError::new(DatabaseErrorKind::Altered, database, name, "what was read is not what was written"));
        }
        Ok(())
    }
}

impl DatabaseError {
    /// An error about a file of a database.
    pub fn new(kind: DatabaseErrorKind, database: &Database, path: &str, why: impl fmt::Display) -> DatabaseError {
        DatabaseError { kind, database: database.name.clone(), path: path.to_owned(), why: why.to_string() }
    }

    fn of(database: &Database, path: &str, error: &object_store::Error) -> DatabaseError {
        let kind = match error {
            object_store::Error::NotFound { .. } => DatabaseErrorKind::Missing,
            _ => DatabaseErrorKind::Unavailable,
        };
        DatabaseError::new(kind, database, path, error)
    }
}

/// Awaits a call, but no longer than the deadline.
async fn within<T>(deadline: Duration, call: impl Future<Output = object_store::Result<T>>) -> object_store::Result<T> {
    timeout(deadline, call).await.unwrap_or_else(|_| {
        let source = format!("no answer within {} s", deadline.as_secs()).into();
        Err(object_store::Error::Generic { store: "database", source })
    })
}

/// A local directory is made where it is missing; its files are synced before a call returns.
fn open_url(url: &str) -> Result<Place, String> {
    if let Some(dir) = url.strip_prefix("file://") {
        let dir = PathBuf::from(dir);
        std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let store = LocalFileSystem::new_with_prefix(&dir).map_err(|error| error.to_string())?;
        return Ok((Arc::new(store.with_fsync(true)), Path::default()));
    }
    Err(format!("{url}: this program knows file:// only"))
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

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
        assert_eq!((missing.kind, &*missing.database, &*missing.path), (DatabaseErrorKind::Missing, "db0", "n/cold/g1/a.parquet"));
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
}
