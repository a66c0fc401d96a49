//! A node's line to the store: every call takes a while, and may be refused, lost on the way there or
//! back, done late, done twice, done by half, or never answered. What was sent outlives the process
//! that sent it.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use braid_shared::model::{Namespace, TimeRange};
use braid_shared::partition::Partition;
use braid_shared::store::fault::{Fault, Operation};
use braid_shared::store::{
    BlockAddress, Consistency, Day, Document, EncodedBlock, Enough, FaultStore, PageToken, Scan, ScanPage, Store, StoreError,
    StoreErrorKind, Swap,
};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::chance::Chance;
use crate::node::Role;
use crate::tally::{Tally, What};

/// Longest that a request which nobody waits for any more stays on its way.
const LATE_MAX_MS: u64 = 20_000;

/// What a store must never do; the checks must notice each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// A swap of the root is said to be done, and is done later if at all: a raised promise is used too early.
    SwapsEarly,
    /// An append is said to be done, and is not.
    AppendsDropped,
    /// Blocks are left out of a scan that says it is whole.
    ScansShort,
}

/// How often a line fails, in a million calls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    pub(crate) faults: u64,
    /// Most milliseconds that a call takes either way.
    pub(crate) delay_ms: u64,
    /// Blocks that an eventual scan does not show yet.
    pub(crate) unseen: u64,
    /// Whether a scan is one page: only then does a reader notice that one is lost.
    pub(crate) one_page: bool,
    /// Steps of an archiver behind which it is killed, in a million.
    pub(crate) steps_killed: u64,
    pub(crate) lie: Option<Lie>,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Done,
    Refused(StoreErrorKind),
    /// Not done, and nobody knows.
    RequestLost,
    /// Done, and nobody knows.
    AnswerLost,
    /// Done later, or answered never, and nobody knows.
    Late,
    /// Never answered; done, or not.
    Silent,
    /// Done, and done again later.
    Twice,
    /// Done twice at once, and the second answer comes first.
    Echoed,
    /// Of several blocks some are done, and nobody knows.
    Torn,
    /// Said to be done.
    Lied,
}

/// A call that writes, with all it needs to be done by somebody else.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Append(Vec<EncodedBlock>),
    Replace(Partition, Vec<BlockAddress>, Vec<EncodedBlock>),
    Delete(Partition, Vec<BlockAddress>),
    Swap(String, Option<u64>, Bytes),
    DeleteDocument(String),
    NoteDays(Namespace, Vec<(Arc<str>, Day)>),
}

impl Call {
    /// Does it at once: the store below is in memory.
    pub(crate) fn perform(self, store: &dyn Store) -> Result<Option<Swap>, StoreError> {
        let call = async {
            match self {
                Call::Append(blocks) => store.append(blocks).await.map(|()| None),
                Call::Replace(partition, old, new) => store.replace(&partition, &old, new).await.map(|()| None),
                Call::Delete(partition, blocks) => store.delete(&partition, &blocks).await.map(|()| None),
                Call::Swap(name, expected, bytes) => store.swap_document(&name, expected, bytes).await.map(Some),
                Call::DeleteDocument(name) => store.delete_document(&name).await.map(|()| None),
                Call::NoteDays(ns, days) => store.note_days(&ns, &days).await.map(|()| None),
            }
        };
        call.now_or_never().expect("the memory store never waits")
    }

    fn is_root_swap(&self) -> bool {
        matches!(self, Call::Swap(name, ..) if name == "root")
    }
}

/// A call on its way that nobody waits for, and how much longer it stays there.
pub(crate) type Ghost = (Duration, Call);

/// A node's line.
pub(crate) struct Line {
    role: Role,
    store: Arc<FaultStore>,
    tally: Tally,
    state: Mutex<State>,
}

struct State {
    chance: Chance,
    weather: Weather,
    /// No call gets through.
    cut: bool,
    /// No call on a document gets through.
    catalog_cut: bool,
    ghosts: Vec<Ghost>,
}

/// What is decided of a call when it is made.
struct Decided {
    fate: Fate,
    there: Duration,
    back: Duration,
    late: Duration,
}

impl Line {
    pub(crate) fn new(role: Role, store: Arc<FaultStore>, chance: Chance, weather: Weather, tally: Tally) -> Arc<Line> {
        let state = State { chance, weather, cut: false, catalog_cut: false, ghosts: Vec::new() };
        Arc::new(Line { role, store, tally, state: Mutex::new(state) })
    }

    /// Whether an archiver is killed behind a step.
    pub(crate) fn kills_at_a_step(&self) -> bool {
        let mut state = self.state();
        let steps = state.weather.steps_killed;
        state.chance.happens(steps)
    }

    /// What a call tells of its node's work.
    fn work(&self, call: &Call) -> Option<What> {
        match (self.role, call) {
            (Role::Serve, Call::Swap(name, ..)) if name.starts_with("cold/") => Some(What::LateMarks),
            (Role::Keep, Call::Replace(..)) => Some(What::Compacted),
            _ => None,
        }
    }

    pub(crate) fn set_weather(&self, weather: Weather) {
        self.state().weather = weather;
    }

    pub(crate) fn cut(&self, cut: bool, catalog_cut: bool) {
        let mut state = self.state();
        (state.cut, state.catalog_cut) = (cut, catalog_cut);
    }

    /// Calls that go on by themselves from now on.
    pub(crate) fn take_ghosts(&self) -> Vec<Ghost> {
        std::mem::take(&mut self.state().ghosts)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    async fn write(&self, call: Call) -> Result<Option<Swap>, StoreError> {
        let Decided { fate, there, back, late } = self.state().decide_write(&call);
        pass(there).await;
        let store = &*self.store;
        match fate {
            Fate::Refused(kind) => return Err(StoreError::new(kind, "the store refused")),
            Fate::RequestLost => {}
            Fate::AnswerLost => drop(call.perform(store)),
            Fate::Late => self.state().ghosts.push((late, call)),
            Fate::Silent => {
                self.state().ghosts.push((late, call));
                std::future::pending::<()>().await;
            }
            Fate::Torn => tear(call).into_iter().for_each(|part| drop(part.perform(store))),
            Fate::Lied => {
                self.state().ghosts.push((late, call));
                pass(back).await;
                return Ok(Some(Swap::Done(u64::MAX)));
            }
            Fate::Echoed => {
                drop(call.clone().perform(store));
                let echo = call.perform(store);
                pass(back).await;
                return echo;
            }
            Fate::Done | Fate::Twice => {
                if fate == Fate::Twice {
                    self.state().ghosts.push((late, call.clone()));
                }
                let work = self.work(&call);
                let answer = call.perform(store);
                if let (Some(what), Ok(None | Some(Swap::Done(_)))) = (work, &answer) {
                    self.tally.add(what, 1);
                }
                pass(back).await;
                return answer;
            }
        }
        pass(back).await;
        Err(StoreError::new(StoreErrorKind::Unknown, "the answer was lost"))
    }

    async fn read<T>(&self, of_catalog: bool, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let Decided { fate, there, back, .. } = self.state().decide_read(of_catalog);
        pass(there).await;
        match fate {
            Fate::Refused(kind) => Err(StoreError::new(kind, "the store refused")),
            Fate::Silent => std::future::pending().await,
            _ => {
                let answer = call.await;
                pass(back).await;
                answer
            }
        }
    }
}

async fn pass(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

/// Part of an append.
fn tear(call: Call) -> Option<Call> {
    match call {
        Call::Append(mut blocks) => {
            blocks.truncate(blocks.len() / 2);
            Some(Call::Append(blocks))
        }
        _ => None,
    }
}

impl State {
    fn decide(&mut self, fate: Fate) -> Decided {
        let most = self.weather.delay_ms;
        let millis = |chance: &mut Chance| Duration::from_millis(if most == 0 { 0 } else { chance.below(most + 1) });
        let (there, back) = (millis(&mut self.chance), millis(&mut self.chance));
        let late = Duration::from_millis(self.chance.below(LATE_MAX_MS));
        Decided { fate, there, back, late }
    }

    fn decide_write(&mut self, call: &Call) -> Decided {
        let fate = match self.weather.lie {
            Some(Lie::SwapsEarly) if call.is_root_swap() && self.chance.happens(100_000) => Fate::Lied,
            Some(Lie::AppendsDropped) if matches!(call, Call::Append(_)) && self.chance.happens(20_000) => return self.dropped(),
            _ if self.is_cut(matches!(call, Call::Swap(..) | Call::DeleteDocument(_))) => {
                *self.chance.pick(&[Fate::Silent, Fate::Refused(StoreErrorKind::Unavailable), Fate::RequestLost, Fate::Late])
            }
            _ if self.chance.happens(self.weather.faults) => self.write_fault(call),
            _ => Fate::Done,
        };
        self.decide(fate)
    }

    /// As if it were done; it is not.
    fn dropped(&mut self) -> Decided {
        Decided { late: Duration::MAX, ..self.decide(Fate::Lied) }
    }

    fn write_fault(&mut self, call: &Call) -> Fate {
        let refusals = [StoreErrorKind::Unavailable, StoreErrorKind::Throttled, StoreErrorKind::Full];
        match self.chance.below(8) {
            0 => Fate::RequestLost,
            1 | 2 => Fate::AnswerLost,
            3 => Fate::Late,
            4 => Fate::Silent,
            5 => Fate::Twice,
            6 if matches!(call, Call::Append(_)) => Fate::Torn,
            6 if matches!(call, Call::Swap(..)) => Fate::Echoed,
            _ => Fate::Refused(*self.chance.pick(&refusals)),
        }
    }

    fn decide_read(&mut self, of_catalog: bool) -> Decided {
        let failures = [Fate::Refused(StoreErrorKind::Unavailable), Fate::Silent, Fate::Refused(StoreErrorKind::Throttled)];
        let fails = self.is_cut(of_catalog) || self.chance.happens(self.weather.faults);
        let fate = if fails { *self.chance.pick(&failures) } else { Fate::Done };
        self.decide(fate)
    }

    fn is_cut(&self, of_catalog: bool) -> bool {
        self.cut || of_catalog && self.catalog_cut
    }

    /// How a page that was read is damaged, where it is.
    fn page_fault(&mut self, partitions: &[Partition]) -> Option<Fault> {
        if !self.chance.happens(self.weather.faults / 2) {
            return None;
        }
        let suffix = self.chance.pick(partitions).suffix;
        let fault = self.chance.pick(&[Fault::DropSuffix(suffix), Fault::FlipByte, Fault::DropPage]).clone();
        Some(if self.weather.one_page { fault } else { Fault::FlipByte })
    }

    fn is_unseen(&mut self) -> bool {
        self.chance.happens(self.weather.unseen)
    }

    fn leaves_out(&mut self) -> bool {
        self.weather.lie == Some(Lie::ScansShort) && self.chance.happens(20_000)
    }
}

impl Store for Line {
    fn append(&self, blocks: Vec<EncodedBlock>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.write(Call::Append(blocks)).map(|answer| answer.map(drop)).boxed()
    }

    fn scan<'a>(&'a self, scan: &'a Scan, page: Option<PageToken>) -> BoxFuture<'a, Result<ScanPage, StoreError>> {
        let read = async move {
            if let Some(fault) = self.state().page_fault(&scan.partitions) {
                self.store.once(Operation::Scan, fault);
            }
            let mut page = self.store.scan(scan, page).await?;
            if self.state().leaves_out() {
                page.blocks.pop();
            }
            if scan.consistency == Consistency::Eventual {
                page.blocks.retain(|_| !self.state().is_unseen());
            }
            Ok(page)
        };
        self.read(false, read).boxed()
    }

    fn narrow<'a>(&'a self, scan: &'a Scan, enough: Enough) -> BoxFuture<'a, Result<Option<TimeRange>, StoreError>> {
        self.read(false, self.store.narrow(scan, enough)).boxed()
    }

    fn replace<'a>(
        &'a self,
        partition: &'a Partition,
        old: &'a [BlockAddress],
        new: Vec<EncodedBlock>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.write(Call::Replace(partition.clone(), old.to_vec(), new)).map(|answer| answer.map(drop)).boxed()
    }

    fn reads_eventually(&self) -> bool {
        true
    }

    fn replaces_atomically(&self) -> bool {
        self.store.replaces_atomically()
    }

    fn delete<'a>(&'a self, partition: &'a Partition, blocks: &'a [BlockAddress]) -> BoxFuture<'a, Result<(), StoreError>> {
        self.write(Call::Delete(partition.clone(), blocks.to_vec())).map(|answer| answer.map(drop)).boxed()
    }

    fn fragmented<'a>(
        &'a self,
        least: usize,
        after: Option<&'a Partition>,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<Partition>, StoreError>> {
        self.read(false, self.store.fragmented(least, after, most)).boxed()
    }

    fn fragments<'a>(&'a self, partition: &'a Partition) -> BoxFuture<'a, Result<TimeRange, StoreError>> {
        self.read(false, self.store.fragments(partition)).boxed()
    }

    fn read_document<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Document>, StoreError>> {
        self.read(true, self.store.read_document(name)).boxed()
    }

    fn swap_document<'a>(&'a self, name: &'a str, expected: Option<u64>, bytes: Bytes) -> BoxFuture<'a, Result<Swap, StoreError>> {
        let call = self.write(Call::Swap(name.to_owned(), expected, bytes));
        call.map(|answer| answer.map(|swap| swap.unwrap_or(Swap::Conflict))).boxed()
    }

    fn delete_document<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.write(Call::DeleteDocument(name.to_owned())).map(|answer| answer.map(drop)).boxed()
    }

    fn note_days<'a>(&'a self, ns: &'a Namespace, days: &'a [(Arc<str>, Day)]) -> BoxFuture<'a, Result<(), StoreError>> {
        self.write(Call::NoteDays(ns.clone(), days.to_vec())).map(|answer| answer.map(drop)).boxed()
    }

    fn keys<'a>(
        &'a self,
        ns: &'a Namespace,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        self.read(false, self.store.keys(ns, prefix, after, limit)).boxed()
    }

    fn days<'a>(&'a self, ns: &'a Namespace, key: &'a str, from: Day, to: Day) -> BoxFuture<'a, Result<Vec<Day>, StoreError>> {
        self.read(false, self.store.days(ns, key, from, to)).boxed()
    }

    fn health(&self) -> Result<(), StoreError> {
        self.store.health()
    }
}
