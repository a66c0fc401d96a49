//! A run: several nodes over one store, and a scheduler that by one seed decides who runs, what fails,
//! whose clock jumps and what clients send. One thread, no real time: the same seed is the same run.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use braid_shared::catalog::{Catalog, NewNamespace};
use braid_shared::clock::Clock;
use braid_shared::cold::{Database, Group};
use braid_shared::model::{Namespace, Span, Timestamp};
use braid_shared::store::{FaultStore, MemoryStore};
use serde_json::Value;
use tokio::task::JoinHandle;
use xxhash_rust::xxh3::xxh3_64;

use crate::answer::rows;
use crate::chance::Chance;
use crate::clients::{self, Edges, Purpose};
use crate::climate::{Climate, KEEPER_OFF_MAX_MS, RETENTION};
use crate::clock::NodeClock;
use crate::line::{Call, Lie, Line, Weather};
use crate::node::{self, Common, Inbox, Node, Role};
use crate::oracle::{Answered, Fate, Oracle, Read};
use crate::tally::{Counts, Tally, What};
use crate::trace::Trace;

/// Nodes that serve.
pub(crate) const NODES: usize = 3;
/// Nodes that compact and archive.
const KEEPERS: usize = 2;
/// What passes between two looks of the scheduler.
pub(crate) const TICK: Duration = Duration::from_millis(20);
/// How long things go wrong.
const STORM: Duration = Duration::from_secs(20);
/// The same once nothing fails any more.
const CALM_TICK: Duration = Duration::from_millis(100);
/// How long after that everything on its way comes to its end, at least and at most: a store that is silent holds a
/// batch until its deadline, and the next one waits behind it.
const CALM: Range<Duration> = Duration::from_secs(15)..Duration::from_secs(120);
/// Longest that a client waits.
const PATIENCE: Duration = Duration::from_secs(12);

/// A call that a client waits for.
struct Open {
    number: usize,
    node: usize,
    since: Duration,
    purpose: Purpose,
    handle: JoinHandle<()>,
}

/// Changes as their clients heard of them.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) published: Vec<(Option<&'static str>, u64)>,
    pub(crate) withdrawn: Vec<(Option<&'static str>, u64)>,
    /// Asked for, and perhaps done.
    pub(crate) perhaps_withdrawn: Vec<(Option<&'static str>, u64)>,
    starts: Vec<i64>,
}

/// A run that failed: why, and its last lines.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) why: String,
    pub(crate) trace: Trace,
}

/// A run that ended well: the hash of its trace, and how much happened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Happened {
    pub(crate) hash: u64,
    pub(crate) counts: Counts,
}

/// All that a run holds.
pub(crate) struct Run {
    pub(crate) chance: Chance,
    climate: Climate,
    pub(crate) passed: Duration,
    pub(crate) store: Arc<FaultStore>,
    pub(crate) nodes: Vec<Node>,
    /// Until when each stands still.
    still: Vec<Duration>,
    ghosts: Vec<(Duration, Call)>,
    pub(crate) inbox: Inbox,
    open: Vec<Open>,
    pub(crate) calls: usize,
    pub(crate) oracle: Oracle,
    pub(crate) changes: Changes,
    pub(crate) tally: Tally,
    trace: Trace,
}

/// Runs a seed and judges what happened.
pub(crate) fn run(seed: u64, lie: Option<Lie>) -> Result<(Happened, Trace), Failure> {
    let mut run = Run::begin(seed, lie);
    match run.go() {
        Ok(()) => {
            for (what, fate) in [(What::Acknowledged, Fate::Acknowledged), (What::Unknown, Fate::Unknown), (What::Refused, Fate::Refused)] {
                run.tally.add(what, run.oracle.count(fate));
            }
            run.tally.add(What::Published, run.changes.published.len());
            run.tally.add(What::Withdrawn, run.changes.withdrawn.len());
            Ok((Happened { hash: run.trace.hash, counts: run.tally.counts() }, run.trace))
        }
        Err(why) => Err(Failure { why, trace: run.trace }),
    }
}

pub(crate) fn namespace() -> Namespace {
    "n".parse().expect("a sound name")
}

/// Makes the namespace, before anything can go wrong.
fn found(store: &Arc<FaultStore>, Climate { terms, start, .. }: Climate, chance: &mut Chance) {
    node::runtime().block_on(async {
        let clock = Arc::new(NodeClock::new(start, 0));
        let catalog = Catalog::open_seeded(store.clone(), clock, terms.shared(), chance.bits()).await.expect("a store that works");
        let bucket = Span::from_nanos(terms.bucket).expect("positive");
        let new = NewNamespace { shards: *chance.pick(&[1, 4]), bucket, policy: terms.policy(), ..NewNamespace::default() };
        catalog.create_namespace(&namespace(), new).await.expect("a store that works");
        if terms.archived {
            let database = |name: &str, tables| Database { name: name.into(), url: format!("s3://{name}"), tables };
            let group = Group { tables: 3, databases: vec![database("a", 2), database("b", 1)] };
            catalog.add_group(&namespace(), None, group).await.expect("a store that works");
        }
    });
}

impl Run {
    fn begin(seed: u64, lie: Option<Lie>) -> Run {
        let mut chance = Chance::new(seed);
        let climate = Climate::of(&mut chance, lie);
        let store = FaultStore::new(Arc::new(MemoryStore::with_page_bytes(climate.page_bytes)));
        found(&store, climate, &mut chance);
        let databases = ["s3://a", "s3://b"].map(|url| (url.to_owned(), Arc::default()));
        let (inbox, common) = (Inbox::default(), Common { databases: Arc::new(databases.into()), tally: Tally::default() });
        let roles = std::iter::repeat_n(Role::Serve, NODES).chain(std::iter::repeat_n(Role::Keep, KEEPERS));
        let mut nodes: Vec<_> = roles
            .map(|role| {
                let off = chance.between(-2_000, 2_000) * 1_000_000;
                let line = Line::new(role, store.clone(), chance.fork(), climate.weather, common.tally.clone());
                Node::new(role, line, NodeClock::new(climate.start, off), inbox.clone(), common.clone())
            })
            .collect();
        nodes.iter_mut().for_each(|node| node.start(&mut chance));
        let mut trace = Trace::default();
        trace.line(Duration::ZERO, format!("{climate:?}"));
        Run {
            chance,
            climate,
            passed: Duration::ZERO,
            store,
            still: vec![Duration::ZERO; nodes.len()],
            nodes,
            ghosts: Vec::new(),
            inbox,
            tally: common.tally,
            open: Vec::new(),
            calls: 0,
            oracle: Oracle::default(),
            changes: Changes::default(),
            trace,
        }
    }

    fn go(&mut self) -> Result<(), String> {
        while self.passed < STORM {
            self.trouble();
            self.clients();
            self.tick(TICK)?;
        }
        self.heal();
        while self.passed < STORM + CALM.start || self.is_awaited() {
            if self.passed >= STORM + CALM.end {
                return Err(format!("not all is settled {:?} after the last fault", CALM.end));
            }
            self.tick(CALM_TICK)?;
        }
        self.judge()
    }

    /// Whether anything is on its way that may change what is stored.
    fn is_awaited(&self) -> bool {
        let comes = |(due, _): &(Duration, Call)| *due < Duration::MAX;
        !self.open.is_empty() || self.ghosts.iter().any(comes) || self.nodes.iter().any(Node::is_writing)
    }

    fn note(&mut self, what: impl std::fmt::Display) {
        self.trace.line(self.passed, what);
    }

    /// Lets every node run for a tick, in any order, and answers arrive.
    fn tick(&mut self, tick: Duration) -> Result<(), String> {
        self.passed += tick;
        self.oracle.dropped_max = match self.climate.terms.dropped {
            true => self.climate.start + self.passed.as_nanos() as i64 + KEEPER_OFF_MAX_MS * 1_000_000 - RETENTION,
            false => i64::MIN,
        };
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        self.chance.shuffle(&mut order);
        for at in order {
            if self.still[at] > self.passed {
                self.nodes[at].stand_still(tick);
            } else {
                self.nodes[at].run(tick, self.passed);
            }
            self.answers()?;
            let ghosts = self.nodes[at].line.take_ghosts();
            self.tally.add(What::LateCalls, ghosts.len());
            self.ghosts.extend(ghosts.into_iter().map(|(late, call)| (self.passed.saturating_add(late), call)));
        }
        self.haunt();
        self.impatience();
        Ok(())
    }

    /// Does what was long on its way.
    fn haunt(&mut self) {
        let (due, rest) = std::mem::take(&mut self.ghosts).into_iter().partition(|(due, _)| *due <= self.passed);
        self.ghosts = rest;
        let due: Vec<(Duration, Call)> = due;
        for (_, call) in due {
            let what = format!("{call:?}").split('(').next().unwrap_or_default().to_owned();
            let answer = call.perform(&*self.store);
            self.note(format!("late {what}: {}", if answer.is_ok() { "done" } else { "refused" }));
        }
    }

    /// Makes things go wrong.
    fn trouble(&mut self) {
        let climate = self.climate;
        for at in 0..self.nodes.len() {
            if self.chance.happens(climate.crash) && self.nodes[at].is_up() {
                self.crash(at);
            } else if !self.nodes[at].is_up() && self.chance.happens(30_000) {
                self.nodes[at].start(&mut self.chance);
                self.note(format!("node {at} starts"));
            }
            if self.chance.happens(climate.stand_still) && self.still[at] <= self.passed {
                let most = *self.chance.pick(&[50, 2_000, 15_000]);
                self.still[at] = self.passed + Duration::from_millis(self.chance.below(most));
                self.tally.add(What::StandStills, 1);
                self.note(format!("node {at} stands still until {:?}", self.still[at]));
            } else if self.still[at] > self.passed && self.still[at] <= self.passed + TICK && self.chance.happens(300_000) {
                self.nodes[at].forget_lag();
            }
            if self.chance.happens(climate.jump) {
                let most = *self.chance.pick(if at < NODES { &[500, 8_000, 30_000, 120_000][..] } else { &[500, KEEPER_OFF_MAX_MS] });
                let off = self.chance.between(-most, most) * 1_000_000;
                self.nodes[at].clock.set_off(off);
                self.tally.add(What::ClockJumps, 1);
                self.note(format!("clock {at} is off by {} ms", off / 1_000_000));
            }
            if self.chance.happens(climate.cut) {
                let (all, catalog) = *self.chance.pick(&[(true, true), (false, true), (false, false), (false, false)]);
                self.nodes[at].line.cut(all, catalog);
                self.tally.add(What::Cuts, usize::from(catalog));
                self.note(format!("node {at} is cut off: all {all}, catalog {catalog}"));
            }
        }
    }

    fn crash(&mut self, at: usize) {
        self.nodes[at].crash();
        self.still[at] = Duration::ZERO;
        self.tally.add(What::Crashes, 1);
        self.note(format!("node {at} crashes"));
        let (gone, open) = std::mem::take(&mut self.open).into_iter().partition(|open| open.node == at);
        self.open = open;
        let gone: Vec<Open> = gone;
        gone.iter().for_each(|open| self.hung_up(&open.purpose));
    }

    /// Nothing fails from now on.
    fn heal(&mut self) {
        self.note("all is well from here");
        for at in 0..self.nodes.len() {
            self.nodes[at].line.set_weather(Weather::default());
            self.nodes[at].line.cut(false, false);
            self.nodes[at].clock.set_off(0);
            self.still[at] = Duration::ZERO;
            if at >= NODES {
                // It may wait for an answer that never comes: the stores of production have deadlines.
                self.nodes[at].crash();
            }
            if !self.nodes[at].is_up() {
                self.nodes[at].start(&mut self.chance);
            }
        }
    }

    fn edges(&self, at: usize) -> Edges {
        let now = self.nodes[at].clock.now().nanos();
        let view = self.nodes[at].catalog().map(|catalog| catalog.view());
        let mut starts = self.changes.starts.clone();
        if let Some(namespace) = view.as_ref().and_then(|view| view.namespace(&namespace())) {
            starts.extend(namespace.epochs_published("hot").map(|(from, ..)| from.nanos()));
        }
        Edges { bucket: self.climate.terms.bucket, now, horizon: view.map_or(now, |view| view.horizon.nanos()), starts }
    }

    /// Clients send what they like.
    fn clients(&mut self) {
        for at in 0..NODES {
            if !self.nodes[at].is_serving() {
                continue;
            }
            let edges = self.edges(at);
            if self.chance.happens(self.climate.calls) {
                let (purpose, request) = match self.chance.below(3) {
                    0 => clients::read(&mut self.chance, &mut self.oracle, &edges),
                    _ => clients::write(&mut self.chance, &mut self.oracle, &edges, at),
                };
                self.send(at, purpose, request);
            }
            if self.chance.happens(self.climate.changes) {
                let (purpose, request) = clients::change(&mut self.chance, &edges, &self.changes.published);
                self.send(at, purpose, request);
            }
        }
    }

    fn send(&mut self, at: usize, purpose: Purpose, request: Request<Body>) -> Option<usize> {
        let number = self.calls;
        self.note(format!("call {number} to node {at}: {purpose:?}"));
        self.calls += 1;
        let Some(handle) = self.nodes[at].call(number, request) else {
            self.refused(&purpose);
            return None;
        };
        self.open.push(Open { number, node: at, since: self.passed, purpose, handle });
        Some(number)
    }

    /// Clients that waited too long hang up.
    fn impatience(&mut self) {
        let waited = |open: &Open| open.since + PATIENCE < self.passed;
        let (left, open) = std::mem::take(&mut self.open).into_iter().partition(waited);
        self.open = open;
        let left: Vec<Open> = left;
        for open in left {
            open.handle.abort();
            self.note(format!("the client of call {} hangs up", open.number));
            self.hung_up(&open.purpose);
        }
    }

    /// A client that will never hear.
    fn hung_up(&mut self, purpose: &Purpose) {
        match purpose {
            Purpose::Write(numbers) => numbers.iter().for_each(|number| self.oracle.end(*number, Fate::Unknown)),
            Purpose::Withdraw(key, version) => self.changes.perhaps_withdrawn.push((*key, *version)),
            Purpose::Read(_) | Purpose::Publish(_) => {}
        }
    }

    fn refused(&mut self, purpose: &Purpose) {
        if let Purpose::Write(numbers) = purpose {
            numbers.iter().for_each(|number| self.oracle.end(*number, Fate::Refused));
        }
    }

    /// Takes the answers that arrived; each is checked.
    fn answers(&mut self) -> Result<(), String> {
        let mut answers = std::mem::take(&mut *self.inbox.lock().expect("no holder panics"));
        // Those of one tick have no order among them: large reads are decoded on threads of their own.
        answers.sort_by_key(|(number, ..)| *number);
        for (number, status, body) in answers {
            let Some(at) = self.open.iter().position(|open| open.number == number) else { continue };
            let open = self.open.swap_remove(at);
            self.note(format!("call {number} is answered {status} {:016x}", xxh3_64(&body)));
            self.answered(&open, status, &body).map_err(|why| format!("call {number} to node {}: {why}", open.node))?;
        }
        Ok(())
    }

    fn answered(&mut self, open: &Open, status: u16, body: &[u8]) -> Result<(), String> {
        let is_stale = status == 503 && String::from_utf8_lossy(body).contains("layout_stale");
        self.tally.add(What::LayoutStale, usize::from(is_stale));
        let unexpected = || format!("unexpected answer {status} to {:?}: {}", open.purpose, String::from_utf8_lossy(body));
        match &open.purpose {
            Purpose::Write(numbers) => self.written(numbers, status, body).ok_or_else(unexpected),
            Purpose::Read(read) => match status {
                200 => self.was_read(read, body),
                404 if read.id.is_some() => {
                    let strong = !self.climate.terms.eventual;
                    self.oracle.check(read, &[], Answered { from: self.oracle.dropped_max, to: i64::MAX, strong })
                }
                503 => {
                    self.tally.add(What::ReadsRefused, 1);
                    Ok(())
                }
                _ => Err(unexpected()),
            },
            Purpose::Publish(key) => {
                if status == 201 {
                    let layout: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
                    self.changes.published.push((*key, layout["version"].as_u64().ok_or_else(unexpected)?));
                    let from = layout["from"].as_str().and_then(|text| Timestamp::parse_rfc3339(text).ok());
                    self.changes.starts.push(from.ok_or_else(unexpected)?.nanos());
                }
                if [201, 409, 503].contains(&status) { Ok(()) } else { Err(unexpected()) }
            }
            Purpose::Withdraw(key, version) => {
                match status {
                    200 => self.changes.withdrawn.push((*key, *version)),
                    503 => self.changes.perhaps_withdrawn.push((*key, *version)),
                    _ => {}
                }
                if [200, 404, 409, 503].contains(&status) { Ok(()) } else { Err(unexpected()) }
            }
        }
    }

    fn written(&mut self, numbers: &[usize], status: u16, body: &[u8]) -> Option<()> {
        let answer: Value = serde_json::from_slice(body).ok()?;
        let refused: Vec<usize> = match answer["errors"].as_array() {
            Some(errors) => errors.iter().map(|error| error["index"].as_u64().map(|index| index as usize)).collect::<Option<_>>()?,
            // A problem without counts: nothing was tried.
            None if status == 503 => (0..numbers.len()).collect(),
            None => return None,
        };
        let fate = match status {
            200 | 422 if answer["stored"].as_u64()? as usize + refused.len() == numbers.len() => Fate::Acknowledged,
            503 => Fate::Unknown,
            // Dropped while it was written; which rows, the answer does not say.
            422 if answer["failed"].as_u64() > Some(0) => Fate::Unknown,
            _ => return None,
        };
        for (index, number) in numbers.iter().enumerate() {
            self.oracle.end(*number, if refused.contains(&index) { Fate::Refused } else { fate });
        }
        Some(())
    }

    fn was_read(&mut self, read: &Read, body: &[u8]) -> Result<(), String> {
        let Some((rows, answered)) = rows(read, body)? else {
            self.tally.add(What::ReadsRefused, 1);
            return Ok(());
        };
        if answered.strong == self.climate.terms.eventual {
            return Err("an answer of eventual reads says that it is complete, or another that it is not".into());
        }
        self.tally.add(What::Reads, 1);
        self.oracle.check(read, &rows, answered)
    }
}
