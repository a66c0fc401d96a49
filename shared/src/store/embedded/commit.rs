//! Group commit: one thread takes everything that is queued, writes it as one batch, syncs once,
//! and answers all of it.
//!
//! Documents are compared and swapped here, so swaps are serial. Nothing is answered before the
//! sync that covers it returned; after a sync that failed nothing is acknowledged any more.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes};
use fjall::{AbstractTree, Database, Keyspace, PersistMode};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::failure;
use super::fragments::Fragments;
use super::keys::{self, COMMIT_MARK};
use super::metrics::Metrics;
use super::reach::Reaches;
use super::state::State;
use super::tidy::Waste;
use crate::store::{Document, EncodedBlock, StoreError, StoreErrorKind, Swap};

/// How often an idle committer looks whether the engine still takes writes.
const IDLE: Duration = Duration::from_secs(1);
/// Memtables that may wait to be flushed. fjall stops writers at 4, and for ever if its flushing
/// thread has died; so the committer waits first, and looks whether it has.
const SEALED_MAX: usize = 3;
/// Runs of the first level from which on the committer waits; fjall's own brakes come at 20.
const RUNS_MAX: usize = 18;
/// Between two looks while waiting for the engine.
const WAIT: Duration = Duration::from_millis(2);

/// What every commit carries first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// Number of the commit, from 1, without a gap.
    pub(super) commit: u64,
    /// The data directory's.
    pub(super) nonce: u64,
}

impl Mark {
    pub(super) const BYTES: usize = 16;

    pub(super) fn decode(bytes: &[u8]) -> Option<Mark> {
        let (commit, nonce) = bytes.split_first_chunk::<8>()?;
        Some(Mark { commit: u64::from_le_bytes(*commit), nonce: u64::from_le_bytes(nonce.try_into().ok()?) })
    }

    fn encode(self) -> Vec<u8> {
        [self.commit.to_le_bytes(), self.nonce.to_le_bytes()].concat()
    }
}

/// A document as it is stored.
pub(super) fn decode_document(value: &Bytes) -> Option<Document> {
    let (etag, _) = value.split_first_chunk::<8>()?;
    Some(Document { etag: u64::from_le_bytes(*etag), bytes: value.slice(8..) })
}

/// Whom to tell the outcome.
pub(super) type Reply = oneshot::Sender<Result<Swap, StoreError>>;

/// What a commit may hold.
#[derive(Debug)]
pub(super) enum Change {
    /// New blocks.
    Append(Vec<EncodedBlock>),
    /// Old blocks, by their whole keys, and what stands in their place.
    Replace(Vec<Vec<u8>>, Vec<EncodedBlock>),
    /// Records without a value.
    Note(Vec<Vec<u8>>),
    /// A document, if it is as expected.
    Swap { name: String, expected: Option<u64>, bytes: Bytes },
    /// A document that goes.
    DeleteDocument(String),
}

/// A change and whom to answer.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) change: Change,
    pub(super) reply: Reply,
    /// The queue's room that it takes, until it is answered.
    pub(super) room: OwnedSemaphorePermit,
    /// Bytes it adds to a commit, roughly.
    pub(super) bytes: usize,
}

/// The committer: owns the only way into the engine.
pub(super) struct Committer {
    pub(super) database: Database,
    pub(super) keyspace: Keyspace,
    pub(super) state: Arc<State>,
    pub(super) fragments: Arc<Fragments>,
    pub(super) reaches: Reaches,
    pub(super) waste: Arc<Waste>,
    pub(super) metrics: Metrics,
    pub(super) last: Mark,
    pub(super) bytes_max: usize,
    pub(super) memtable_bytes: u64,
}

/// What one commit will write: for each key its value, or that it goes.
#[derive(Default)]
struct Pending {
    records: BTreeMap<Vec<u8>, Option<Bytes>>,
    /// Etags of documents that this commit changes; `None`: deleted.
    etags: HashMap<String, Option<u64>>,
    answers: Vec<(Reply, OwnedSemaphorePermit, Swap)>,
    events: u64,
}

impl Committer {
    /// Commits until the last sender is gone.
    pub(super) fn run(mut self, queue: &Receiver<Command>) {
        loop {
            match queue.recv_timeout(IDLE) {
                Ok(first) => {
                    let commands = self.gather(first, queue);
                    self.commit(commands);
                }
                Err(RecvTimeoutError::Timeout) => self.look(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if let Err(error) = self.database.persist(PersistMode::SyncAll) {
            tracing::warn!(%error, "the last sync on closing failed; everything acknowledged was synced before");
        }
    }

    fn gather(&self, first: Command, queue: &Receiver<Command>) -> Vec<Command> {
        let mut bytes = first.bytes;
        let mut commands = vec![first];
        while bytes < self.bytes_max {
            let Ok(next) = queue.try_recv() else { break };
            bytes += next.bytes;
            commands.push(next);
        }
        commands
    }

    /// The engine's own threads may have failed; then say so before a write finds out.
    fn look(&self) {
        if let Err(error) = self.database.persist(PersistMode::Buffer) {
            self.state.halt(failure::halted(self.state.path(), &error));
        }
    }

    /// Seals a memtable that is full. fjall leaves that to its worker, which may be busy for
    /// seconds, while the memtable grows without a bound; here writers wait instead.
    fn make_room(&self) -> Result<(), StoreError> {
        let tree = &self.keyspace.tree;
        if tree.active_memtable().size() < self.memtable_bytes {
            return Ok(());
        }
        while tree.sealed_memtable_count() >= SEALED_MAX || tree.l0_run_count() >= RUNS_MAX {
            self.look();
            self.state.running()?;
            std::thread::sleep(WAIT);
        }
        self.keyspace.rotate_memtable().map(drop).map_err(|error| {
            let halted = failure::halted(self.state.path(), &error);
            self.state.halt(halted.clone());
            halted
        })
    }

    fn commit(&mut self, commands: Vec<Command>) {
        if let Err(error) = self.state.writable().and_then(|()| self.make_room()) {
            commands.into_iter().for_each(|command| answer(command.reply, Err(error.clone())));
            return;
        }
        let mut pending = Pending::default();
        for Command { change, reply, room, .. } in commands {
            match self.stage(change, &mut pending) {
                Ok(swap) => pending.answers.push((reply, room, swap)),
                Err(error) => answer(reply, Err(error)),
            }
        }
        let outcome = if pending.records.is_empty() { Ok(()) } else { self.write(&mut pending) };
        if outcome.is_err() {
            self.reaches.forget();
        }
        if outcome.is_ok() && !pending.records.is_empty() {
            // Before the answers, so that whoever removed small blocks finds them no more.
            self.fragments.changed(&pending.records);
        }
        for (reply, room, swap) in pending.answers {
            answer(reply, outcome.clone().map(|()| swap));
            drop(room);
        }
        self.settle();
    }

    fn stage(&mut self, change: Change, pending: &mut Pending) -> Result<Swap, StoreError> {
        match change {
            Change::Append(blocks) => {
                self.raise_reaches(&blocks, pending)?;
                pending.append(blocks);
            }
            Change::Replace(old, new) => {
                self.raise_reaches(&new, pending)?;
                pending.records.extend(old.into_iter().map(|key| (key, None)));
                pending.append(new);
            }
            Change::Note(keys) => pending.records.extend(keys.into_iter().map(|key| (key, Some(Bytes::new())))),
            Change::Swap { name, expected, bytes } => return self.swap(name, expected, &bytes, pending),
            Change::DeleteDocument(name) => {
                pending.records.insert(keys::document_key(&name), None);
                pending.etags.insert(name, None);
            }
        }
        Ok(Swap::Done(0))
    }

    /// Adds the records without which a scan would not find these blocks.
    fn raise_reaches(&mut self, blocks: &[EncodedBlock], pending: &mut Pending) -> Result<(), StoreError> {
        for block in blocks {
            let prefix = keys::partition_prefix(&block.partition);
            let raised = self.reaches.raise(&self.keyspace, &prefix, &block.address);
            let raised = raised.map_err(|error| failure::read_error(self.state.path(), error))?;
            pending.records.extend(raised.map(|(key, exponent)| (key, Some(Bytes::copy_from_slice(&[exponent])))));
        }
        Ok(())
    }

    fn swap(&self, name: String, expected: Option<u64>, bytes: &Bytes, pending: &mut Pending) -> Result<Swap, StoreError> {
        let key = keys::document_key(&name);
        let found = match pending.etags.get(&name) {
            Some(etag) => *etag,
            None => self.etag(&key)?,
        };
        if found != expected {
            return Ok(Swap::Conflict);
        }
        // Commits are fewer than 2^44 and a commit's changes far fewer than 2^20, so that etags only grow.
        let etag = (self.last.commit + 1) << 20 | pending.etags.len() as u64;
        let mut value = Vec::with_capacity(8 + bytes.len());
        value.put_u64_le(etag);
        value.put_slice(bytes);
        pending.records.insert(key, Some(value.into()));
        pending.etags.insert(name, Some(etag));
        Ok(Swap::Done(etag))
    }

    fn etag(&self, key: &[u8]) -> Result<Option<u64>, StoreError> {
        let Some(value) = self.keyspace.get(key).map_err(|error| failure::read_error(self.state.path(), error))? else {
            return Ok(None);
        };
        let document = decode_document(&value.into());
        let damaged = || StoreError::new(StoreErrorKind::Corrupt, "a document in the store is cut short");
        document.map(|document| Some(document.etag)).ok_or_else(damaged)
    }

    /// One batch, one sync. Its failure leaves it unknown whether the batch will be found again.
    fn write(&mut self, pending: &mut Pending) -> Result<(), StoreError> {
        let mark = Mark { commit: self.last.commit + 1, ..self.last };
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        batch.insert(&self.keyspace, COMMIT_MARK, mark.encode());
        for (key, value) in &pending.records {
            match value {
                Some(value) => batch.insert(&self.keyspace, key.as_slice(), value.clone()),
                None => batch.remove(&self.keyspace, key.as_slice()),
            }
        }
        let began = Instant::now();
        if let Err(error) = batch.commit() {
            let halted = failure::halted(self.state.path(), &error);
            self.state.halt(halted.clone());
            let refused = matches!(error, fjall::Error::Poisoned);
            return Err(if refused { halted } else { StoreError::new(StoreErrorKind::Unknown, halted.message) });
        }
        self.metrics.committed(began.elapsed(), pending.events);
        let removed = pending.records.values().filter(|value| value.is_none()).count();
        let written: usize = pending.records.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Bytes::len)).sum();
        self.waste.count(removed as u64, written as u64);
        self.last = mark;
        Ok(())
    }

    /// Repeats the mark of the last commit, unsynced: it shows a later start that what stands
    /// before it was acknowledged (see [`super::journal`]).
    fn settle(&self) {
        if self.last.commit == 0 || self.state.running().is_err() {
            return;
        }
        let mut batch = self.database.batch().durability(Some(PersistMode::Buffer));
        batch.insert(&self.keyspace, COMMIT_MARK, self.last.encode());
        if let Err(error) = batch.commit() {
            self.state.halt(failure::halted(self.state.path(), &error));
        }
    }
}

impl Pending {
    fn append(&mut self, blocks: Vec<EncodedBlock>) {
        for block in blocks {
            self.events += u64::from(block.events);
            self.records.insert(keys::block_key(&block), Some(block.bytes));
        }
    }
}

/// Answers; whoever asked may have gone, and what was committed stays committed.
fn answer(reply: Reply, outcome: Result<Swap, StoreError>) {
    drop(reply.send(outcome));
}
