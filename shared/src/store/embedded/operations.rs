//! The embedded store's answers to the trait: each operation a few lines over its parts.

use super::*;

impl EmbeddedStore {
    /// The whole keys of those of `blocks` that stand. A block's key never changes, so this may
    /// be found before the commit.
    async fn standing(&self, partition: &Partition, blocks: &[BlockAddress]) -> Result<Vec<Vec<u8>>, StoreError> {
        let prefix = keys::partition_prefix(partition);
        let mut wanted: Vec<_> = blocks.iter().map(|address| keys::address_prefix(&prefix, address)).collect();
        wanted.sort_unstable();
        self.read(move |engine, state| {
            let (Some(first), Some(last)) = (wanted.first(), wanted.last()) else { return Ok(Vec::new()) };
            let mut found = Vec::new();
            for guard in engine.database.snapshot().range(&engine.keyspace, first.clone()..keys::behind(last)) {
                let key = guard.key().map_err(|error| failure::read_error(state.path(), error))?;
                let address = key.split_at_checked(prefix.len() + keys::ADDRESS_BYTES).map(|(address, _)| address);
                if address.is_some_and(|address| wanted.binary_search_by(|one| one.as_slice().cmp(address)).is_ok()) {
                    found.push(key.to_vec());
                }
            }
            Ok(found)
        })
        .await
    }

    /// Which of these records are not there yet.
    async fn missing(&self, records: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, StoreError> {
        self.read(move |engine, state| {
            let mut missing = Vec::new();
            for record in records {
                if !engine.keyspace.contains_key(&record).map_err(|error| failure::read_error(state.path(), error))? {
                    missing.push(record);
                }
            }
            Ok(missing)
        })
        .await
    }
}

fn scan_error(state: &State, error: ScanError) -> StoreError {
    match error {
        ScanError::Engine(error) => failure::read_error(state.path(), error),
        ScanError::Damaged(what) => StoreError::new(StoreErrorKind::Corrupt, format!("{}: {what}", state.path().display())),
    }
}

fn weight(blocks: &[EncodedBlock]) -> usize {
    blocks.iter().map(|block| block.bytes.len() + 256).sum()
}

fn names(engine: &Engine, ns: &Namespace, prefix: &str, after: Option<&str>, limit: usize) -> fjall::Result<Vec<String>> {
    let lead = keys::names_prefix(ns);
    let from = after.map_or(prefix, |after| after.max(prefix));
    let range = keys::name_key(ns, from)..keys::behind(&keys::name_key(ns, prefix));
    let mut found = Vec::new();
    for guard in engine.database.snapshot().range(&engine.keyspace, range) {
        if found.len() == limit {
            break;
        }
        let key = guard.key()?;
        let name = String::from_utf8_lossy(&key[lead.len()..]).into_owned();
        if after.is_none_or(|after| *name > *after) {
            found.push(name);
        }
    }
    Ok(found)
}

impl Store for EmbeddedStore {
    fn append(&self, blocks: Vec<EncodedBlock>) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let bytes = weight(&blocks);
            self.change(Change::Append(blocks), bytes).await.map(drop)
        }
        .boxed()
    }

    fn scan<'a>(&'a self, scan: &'a Scan, page: Option<PageToken>) -> BoxFuture<'a, Result<ScanPage, StoreError>> {
        let page_bytes = self.page_bytes;
        async move {
            let cursor = match page.map(|token| token.downcast_ref::<Cursor>().cloned()) {
                Some(None) => return Err(StoreError::new(StoreErrorKind::Unavailable, "a page token of another store")),
                cursor => cursor.flatten(),
            };
            let scan = scan.clone();
            self.read(move |engine, state| {
                let cursor = cursor.unwrap_or_else(|| Cursor::new(engine.database.snapshot(), &scan));
                cursor.page(&engine.keyspace, page_bytes).map_err(|error| scan_error(state, error))
            })
            .await
        }
        .boxed()
    }

    fn narrow<'a>(&'a self, scan: &'a Scan, enough: Enough) -> BoxFuture<'a, Result<Option<TimeRange>, StoreError>> {
        let scan = scan.clone();
        self.read(move |engine, state| {
            let range = narrow::narrow(&engine.database.snapshot(), &engine.keyspace, &scan, enough);
            range.map(Some).map_err(|error| scan_error(state, error))
        })
        .boxed()
    }

    fn replace<'a>(
        &'a self,
        partition: &'a Partition,
        old: &'a [BlockAddress],
        new: Vec<EncodedBlock>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let old = self.standing(partition, old).await?;
            let bytes = weight(&new) + old.len() * 256;
            self.change(Change::Replace(old, new), bytes).await.map(drop)
        }
        .boxed()
    }

    fn replaces_atomically(&self) -> bool {
        true
    }

    fn delete<'a>(&'a self, partition: &'a Partition, blocks: &'a [BlockAddress]) -> BoxFuture<'a, Result<(), StoreError>> {
        self.replace(partition, blocks, Vec::new())
    }

    fn fragmented<'a>(
        &'a self,
        least: usize,
        after: Option<&'a Partition>,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<Partition>, StoreError>> {
        let (fragments, after) = (self.fragments.clone(), after.cloned());
        self.read(move |engine, state| {
            let found = fragments.find(&engine.database, &engine.keyspace, least, after.as_ref(), most);
            found.map_err(|error| failure::read_error(state.path(), error))
        })
        .boxed()
    }

    fn fragments<'a>(&'a self, partition: &'a Partition) -> BoxFuture<'a, Result<TimeRange, StoreError>> {
        ready(Ok(self.fragments.range_of(&keys::partition_prefix(partition)))).boxed()
    }

    fn read_document<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Document>, StoreError>> {
        let name = name.to_owned();
        self.read(move |engine, state| {
            let value = engine.keyspace.get(keys::document_key(&name)).map_err(|error| failure::read_error(state.path(), error))?;
            let Some(value) = value else { return Ok(None) };
            let cut = || StoreError::new(StoreErrorKind::Corrupt, format!("document {name} is cut short"));
            decode_document(&value.into()).map(Some).ok_or_else(cut)
        })
        .boxed()
    }

    fn swap_document<'a>(&'a self, name: &'a str, expected: Option<u64>, bytes: Bytes) -> BoxFuture<'a, Result<Swap, StoreError>> {
        let weight = name.len() + bytes.len();
        self.change(Change::Swap { name: name.to_owned(), expected, bytes }, weight).boxed()
    }

    fn delete_document<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        async move { self.change(Change::DeleteDocument(name.to_owned()), name.len()).await.map(drop) }.boxed()
    }

    fn note_days<'a>(&'a self, ns: &'a Namespace, days: &'a [(Arc<str>, Day)]) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let missing = self.missing(keys::day_records(ns, days)).await?;
            if missing.is_empty() {
                return Ok(());
            }
            let bytes = missing.iter().map(Vec::len).sum();
            self.change(Change::Note(missing), bytes).await.map(drop)
        }
        .boxed()
    }

    fn keys<'a>(
        &'a self,
        ns: &'a Namespace,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        let (ns, prefix, after) = (ns.clone(), prefix.to_owned(), after.map(str::to_owned));
        self.read(move |engine, state| {
            names(engine, &ns, &prefix, after.as_deref(), limit).map_err(|error| failure::read_error(state.path(), error))
        })
        .boxed()
    }

    fn days<'a>(&'a self, ns: &'a Namespace, key: &'a str, from: Day, to: Day) -> BoxFuture<'a, Result<Vec<Day>, StoreError>> {
        let range = (keys::day_key(ns, key, from), keys::day_key(ns, key, to));
        self.read(move |engine, state| {
            if range.0 > range.1 {
                return Ok(Vec::new());
            }
            let found = engine.database.snapshot().range(&engine.keyspace, range.0..=range.1).map(|guard| guard.key());
            let found: fjall::Result<Vec<_>> = found.collect();
            let found = found.map_err(|error| failure::read_error(state.path(), error))?;
            Ok(found.iter().filter_map(|key| keys::day_of(key)).collect())
        })
        .boxed()
    }

    fn health(&self) -> Result<(), StoreError> {
        self.engine().map(drop)?;
        self.state.writable()
    }
}
