//! A store of documents whose every call stands still until a scheduler says what becomes of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures::future::{BoxFuture, ready};
use futures::{FutureExt, TryFutureExt};
use tokio::sync::oneshot;

use super::super::documents::{decode, encode};
use super::super::root::{ROOT, Root};
use crate::model::Namespace;
use crate::partition::Partition;
use crate::store::*;

type Answer = Result<Reply, StoreError>;

/// What a call asks for.
#[derive(Clone, Debug)]
enum Ask {
    Read(String),
    Swap(String, Option<u64>, Bytes),
    Delete(String),
    /// Nothing: a pause between two steps of an operation.
    Pause,
}

/// What a call is answered with.
enum Reply {
    Document(Option<Document>),
    Swap(Swap),
    Nothing,
}

/// A call that stands still.
struct Call {
    ask: Ask,
    to: oneshot::Sender<Answer>,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is done and answered.
    Answered,
    /// It is done, and answered at some later time.
    AnsweredLate,
    /// It is not done, and that is said.
    Refused,
    /// It is done, but the answer is lost.
    AnswerLost,
    /// It arrives twice: it is done, and the answer is the second one's.
    Echoed,
    /// The answer is lost; it may be done later, or never.
    Lost,
    /// It is said to be done, and may be done later, or never: no store may do that.
    Lie,
}

/// The documents, and the calls on their way.
#[derive(Default)]
pub(super) struct World {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    documents: BTreeMap<String, Document>,
    last_etag: u64,
    waiting: Vec<Call>,
    late: Vec<(oneshot::Sender<Answer>, Answer)>,
    ghosts: Vec<Ask>,
    /// Every root there ever was.
    roots: Vec<Root>,
    /// Calls are answered at once.
    prompt: bool,
    /// Swaps ignore what they expect: no store may do that.
    blind: bool,
}

impl World {
    pub(super) fn set_prompt(&self, prompt: bool) {
        self.state().prompt = prompt;
    }

    pub(super) fn make_blind(&self) {
        self.state().blind = true;
    }

    pub(super) fn roots(&self) -> Vec<Root> {
        self.state().roots.clone()
    }

    pub(super) fn waiting(&self) -> usize {
        self.state().waiting.len()
    }

    /// What the call that has waited longest asks for, such as `read root`.
    pub(super) fn first(&self) -> Option<String> {
        self.state().waiting.first().map(|call| match &call.ask {
            Ask::Read(name) => format!("read {name}"),
            Ask::Swap(name, ..) => format!("swap {name}"),
            Ask::Delete(name) => format!("delete {name}"),
            Ask::Pause => "pause".into(),
        })
    }

    /// Decides what becomes of one of the waiting calls.
    pub(super) fn decide(&self, pick: usize, fate: Fate) {
        let mut state = self.state();
        if state.waiting.is_empty() {
            return;
        }
        let at = pick % state.waiting.len();
        let Call { ask, to } = state.waiting.remove(at);
        let unknown = || Err(StoreError::new(StoreErrorKind::Unknown, "the answer was lost"));
        let answer = match (fate, &ask) {
            (Fate::Answered, _) | (_, Ask::Pause) => state.perform(ask),
            (Fate::Echoed, _) => {
                let _ = state.perform(ask.clone());
                state.perform(ask)
            }
            (Fate::AnsweredLate, _) => {
                let answer = state.perform(ask);
                state.late.push((to, answer));
                return;
            }
            (Fate::Refused, _) => Err(StoreError::new(StoreErrorKind::Unavailable, "the store refused")),
            (Fate::AnswerLost, _) => {
                let _ = state.perform(ask);
                unknown()
            }
            (Fate::Lie, Ask::Swap(name, ..)) if name == ROOT => {
                state.ghosts.push(ask);
                state.last_etag += 1;
                Ok(Reply::Swap(Swap::Done(state.last_etag)))
            }
            (Fate::Lost | Fate::Lie, _) => {
                state.ghosts.push(ask);
                unknown()
            }
        };
        let _ = to.send(answer);
    }

    /// Lets one of the late answers arrive.
    pub(super) fn arrive(&self, pick: usize) {
        let mut state = self.state();
        if !state.late.is_empty() {
            let at = pick % state.late.len();
            let (to, answer) = state.late.remove(at);
            let _ = to.send(answer);
        }
    }

    /// Lets one of the calls whose answer was lost be done after all.
    pub(super) fn haunt(&self, pick: usize) {
        let mut state = self.state();
        if !state.ghosts.is_empty() {
            let at = pick % state.ghosts.len();
            let ghost = state.ghosts.remove(at);
            let _ = state.perform(ghost);
        }
    }

    /// Whether nothing is on its way any more.
    pub(super) fn is_quiet(&self) -> bool {
        let state = self.state();
        state.waiting.is_empty() && state.late.is_empty() && state.ghosts.is_empty()
    }

    /// Changes the root as no node would, in one step, together with another document.
    pub(super) fn tamper(&self, change: impl FnOnce(&mut Root) -> Option<(String, Bytes)>) {
        let mut state = self.state();
        let Some(document) = state.documents.get(ROOT) else { return };
        let (mut root, etag) = (decode::<Root>(&document.bytes).unwrap(), document.etag);
        root.swap += 1;
        if let Some((name, bytes)) = change(&mut root) {
            let _ = state.perform(Ask::Swap(name, None, bytes));
        }
        let _ = state.perform(Ask::Swap(ROOT.into(), Some(etag), encode(&root)));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl State {
    fn perform(&mut self, ask: Ask) -> Answer {
        Ok(match ask {
            Ask::Read(name) => Reply::Document(self.documents.get(&name).cloned()),
            Ask::Swap(name, expected, bytes) => Reply::Swap(self.swap(name, expected, bytes)),
            Ask::Delete(name) => {
                self.documents.remove(&name);
                Reply::Nothing
            }
            Ask::Pause => Reply::Nothing,
        })
    }

    fn swap(&mut self, name: String, expected: Option<u64>, bytes: Bytes) -> Swap {
        if !self.blind && self.documents.get(&name).map(|d| d.etag) != expected {
            return Swap::Conflict;
        }
        self.last_etag += 1;
        if name == ROOT {
            self.roots.push(decode(&bytes).unwrap());
        }
        self.documents.insert(name, Document { bytes, etag: self.last_etag });
        Swap::Done(self.last_etag)
    }
}

/// A node's door to the world.
#[derive(Clone)]
pub(super) struct Door(pub(super) Arc<World>);

impl Door {
    /// Stands still between two steps.
    pub(super) async fn pause(&self) {
        let _ = self.ask(Ask::Pause).await;
    }

    fn ask(&self, ask: Ask) -> BoxFuture<'static, Answer> {
        let (to, answer) = oneshot::channel();
        let mut state = self.0.state();
        if state.prompt {
            return ready(state.perform(ask)).boxed();
        }
        state.waiting.push(Call { ask, to });
        answer.unwrap_or_else(|_| Err(no_blocks())).boxed()
    }
}

fn no_blocks() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "this store holds documents only")
}

impl Store for Door {
    fn read_document<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Document>, StoreError>> {
        let answer = self.ask(Ask::Read(name.into()));
        answer.map_ok(|reply| if let Reply::Document(document) = reply { document } else { None }).boxed()
    }

    fn swap_document<'a>(&'a self, name: &'a str, expected: Option<u64>, bytes: Bytes) -> BoxFuture<'a, Result<Swap, StoreError>> {
        let answer = self.ask(Ask::Swap(name.into(), expected, bytes));
        answer.map_ok(|reply| if let Reply::Swap(swap) = reply { swap } else { Swap::Conflict }).boxed()
    }

    fn delete_document<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.ask(Ask::Delete(name.into())).map_ok(|_| ()).boxed()
    }

    fn append(&self, _: Vec<EncodedBlock>) -> BoxFuture<'_, Result<(), StoreError>> {
        ready(Err(no_blocks())).boxed()
    }

    fn scan<'a>(&'a self, _: &'a Scan, _: Option<PageToken>) -> BoxFuture<'a, Result<ScanPage, StoreError>> {
        ready(Err(no_blocks())).boxed()
    }

    fn replace<'a>(&'a self, _: &'a Partition, _: &'a [BlockAddress], _: Vec<EncodedBlock>) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(Err(no_blocks())).boxed()
    }

    fn replaces_atomically(&self) -> bool {
        false
    }

    fn delete<'a>(&'a self, _: &'a Partition, _: &'a [BlockAddress]) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(Err(no_blocks())).boxed()
    }

    fn fragmented<'a>(&'a self, _: usize, _: Option<&'a Partition>, _: usize) -> BoxFuture<'a, Result<Vec<Partition>, StoreError>> {
        ready(Err(no_blocks())).boxed()
    }

    fn note_days<'a>(&'a self, _: &'a Namespace, _: &'a [(Arc<str>, Day)]) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(Err(no_blocks())).boxed()
    }

    fn keys<'a>(&'a self, _: &'a Namespace, _: &'a str, _: Option<&'a str>, _: usize) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        ready(Err(no_blocks())).boxed()
    }

    fn days<'a>(&'a self, _: &'a Namespace, _: &'a str, _: Day, _: Day) -> BoxFuture<'a, Result<Vec<Day>, StoreError>> {
        ready(Err(no_blocks())).boxed()
    }

    fn health(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
