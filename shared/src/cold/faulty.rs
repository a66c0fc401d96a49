//! A database in memory that fails as it is told.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, TryStreamExt, once};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, Result,
};

/// What is wrong with a database.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    /// No room: nothing can be written, what is there can be read and deleted.
    Full,
    /// Nothing can be written or deleted.
    ReadOnly,
    /// Nothing can be deleted.
    Undeletable,
    /// Every call is answered by an error.
    Unreachable,
    /// No call is ever answered.
    Silent,
    /// Every call takes its time.
    Slow,
    /// What was written is not what can be read.
    Altering,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Faulty {
    inner: InMemory,
    fault: Arc<Mutex<Option<Fault>>>,
    calls: Arc<AtomicUsize>,
}

impl Faulty {
    pub(super) fn set(&self, fault: impl Into<Option<Fault>>) {
        *self.fault.lock().unwrap() = fault.into();
    }

    /// Calls that reached it.
    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Comes back with nothing where a call may go on.
    async fn pass(&self, call: &str) -> Result<()> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let fault = *self.fault.lock().unwrap();
        let failed = |why: &str| Err(Error::Generic { store: "faulty", source: why.into() });
        match (fault, call) {
            (Some(Fault::Full), "put") => failed("No space left on device (os error 28)"),
            (Some(Fault::ReadOnly), "put" | "delete") => failed("Read-only file system (os error 30)"),
            (Some(Fault::Undeletable), "delete") => failed("Operation not permitted (os error 1)"),
            (Some(Fault::Unreachable), _) => failed("connection refused"),
            (Some(Fault::Silent), _) => std::future::pending().await,
            (Some(Fault::Slow), _) => {
                tokio::time::sleep(Duration::from_secs(10)).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faulty")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, at: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.pass("put").await?;
        let altering = *self.fault.lock().unwrap() == Some(Fault::Altering);
        let payload = if altering { Bytes::from_static(b"something else").into() } else { payload };
        self.inner.put_opts(at, payload, options).await
    }

    async fn put_multipart_opts(&self, at: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        self.pass("get").await?;
        self.inner.get_opts(at, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let faulty = self.clone();
        let passed = paths.and_then(move |path| {
            let faulty = faulty.clone();
            async move { faulty.pass("delete").await.map(|()| path) }
        });
        self.inner.delete_stream(passed.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (faulty, listing) = (self.clone(), self.inner.list(prefix));
        once(async move { faulty.pass("list").await.map(|()| listing) }).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
