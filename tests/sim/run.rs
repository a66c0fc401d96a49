//! A run: several nodes over one store, and a scheduler that by one seed decides who runs, what fails,
//! whose clock jumps and what clients send. One thread, no real time: the same seed is the same run.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use braid_shared::catalog::{Catalog, ListedLayout, NewNamespace, Policy, Shared};
use braid_shared::clock::Clock;
use braid_shared::cold::{Database, Group};
use braid_shared::model::{Namespace, Span, Timestamp};
use braid_shared::store::{FaultStore, MemoryStore};
use serde_json::Value;
use tokio::task::JoinHandle;
use xxhash_rust::xxh3::xxh3_64;

use crate::chance::Chance;
use crate::clients::{self, Edges, KEYS, Purpose};
use crate::clock::{NodeClock, START};
use crate::line::{Call, Lie, Line, Weather};
use crate::node::{self, Common, Inbox, Node, Role};
use crate::oracle::{Answered, Fate, Oracle, Read};
use crate::trace::Trace;

/// Nodes that serve.
const NODES: usize = 3;
/// Nodes that compact and archive.
const KEEPERS: usize = 2;
/// How far the clock of such a node is off at most: what it drops is gone.
const KEEPER_OFF_MAX_MS: i64 = 8_000;
/// Age at which buckets are archived, where they are.
const ARCHIVE_AFTER: i64 = 2 * Span::SECOND.nanos();
/// Age at which events are dropped, where they are.
const RETENTION: i64 = 1_800 * Span::SECOND.nanos();
/// How long what is replaced still stands, where that matters.
const GRACE: i64 = 8 * Span::SECOND.nanos();
/// Most shards that the controller gives a key, and events per second that one should take.
const HEAT: (u32, u32) = (16, 5);
/// What passes between two looks of the scheduler.
const TICK: Duration = Duration::from_millis(20);
/// Pages that hold all there is.
const PAGE_BYTES: usize = 1 << 24;
/// How long things go wrong.
const STORM: Duration = Duration::from_secs(20);
/// The same once nothing fails any more.
const CALM_TICK: Duration = Duration::from_millis(100);
/// How long after that everything on its way comes to its end.
const CALM: Duration = Duration::from_secs(40);
/// Longest that a client waits.
const PATIENCE: Duration = Duration::from_secs(12);
/// Longest that a call may take when nothing fails any more.
const PROMPT: Duration = Duration::from_secs(60);

/// What the namespace is set to.
#[derive(Clone, Copy, Debug)]
struct Terms {
    heat: bool,
    archived: bool,
    dropped: bool,
    eventual: bool,
}

impl Terms {
    fn of(chance: &mut Chance) -> Terms {
        Terms {
            heat: chance.happens(500_000),
            archived: chance.happens(500_000),
            dropped: chance.happens(250_000),
            eventual: chance.happens(100_000),
        }
    }

    fn policy(self) -> Policy {
        Policy {
            max_shards: self.heat.then_some(HEAT.0),
            target_events: self.heat.then_some(HEAT.1),
            archive_after: self.archived.then(|| span(ARCHIVE_AFTER)),
            retention: self.dropped.then(|| span(RETENTION)),
            eventual_reads: self.eventual,
            ..Policy::default()
        }
    }

    fn shared(self) -> Shared {
        if !self.archived && !self.dropped {
            return Shared::default();
        }
        Shared { grace: span(GRACE), read_deadline: span(GRACE / 2), write_deadline: span(GRACE / 2), ..Shared::default() }
    }
}

fn span(nanos: i64) -> Span {
    Span::from_nanos(nanos).expect("positive")
}

/// How often things happen, in a million ticks of each node, or of the whole run.
#[derive(Clone, Copy, Debug)]
struct Climate {
    terms: Terms,
    crash: u64,
    stand_still: u64,
    jump: u64,
    cut: u64,
    calls: u64,
    changes: u64,
    weather: Weather,
}

impl Climate {
    fn of(chance: &mut Chance, lie: Option<Lie>, page_bytes: usize) -> Climate {
        let terms = Terms::of(chance);
        Climate {
            terms,
            crash: *chance.pick(&[0, 1_000, 6_000]),
            stand_still: *chance.pick(&[0, 2_000, 10_000]),
            jump: *chance.pick(&[0, 2_000, 10_000]),
            cut: *chance.pick(&[0, 1_000, 5_000]),
            calls: *chance.pick(&[100_000, 300_000]),
            // What people set is never gone below: where they do it often, the controller does nothing.
            changes: *chance.pick(if terms.heat { &[0, 1_000, 5_000] } else { &[5_000, 20_000, 50_000] }),
            weather: Weather {
                faults: *chance.pick(&[0, 5_000, 30_000, 100_000]),
                delay_ms: *chance.pick(&[0, 4, 40, 400]),
                unseen: 300_000,
                one_page: page_bytes == PAGE_BYTES,
                lie,
            },
        }
    }
}

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
struct Changes {
    published: Vec<(Option<&'static str>, u64)>,
    withdrawn: Vec<(Option<&'static str>, u64)>,
    /// Asked for, and perhaps done.
    perhaps_withdrawn: Vec<(Option<&'static str>, u64)>,
    starts: Vec<i64>,
}

/// How much happened, so that a test can tell that it tests anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Happened {
    pub(crate) hash: u64,
    pub(crate) acknowledged: usize,
    pub(crate) unknown: usize,
    pub(crate) refused: usize,
    pub(crate) reads: usize,
    pub(crate) reads_refused: usize,
    pub(crate) published: usize,
    pub(crate) withdrawn: usize,
    /// Layouts that the controllers published.
    pub(crate) automatic: usize,
    /// Generations of buckets that were published.
    pub(crate) archived: usize,
    /// Buckets that were dropped.
    pub(crate) dropped: usize,
    pub(crate) crashes: usize,
    pub(crate) late: usize,
}

/// A run that failed: why, and its last lines.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) why: String,
    pub(crate) trace: Trace,
}

/// All that a run holds.
struct Run {
    chance: Chance,
    climate: Climate,
    passed: Duration,
    store: Arc<FaultStore>,
    nodes: Vec<Node>,
    /// Until when each stands still.
    still: Vec<Duration>,
    ghosts: Vec<(Duration, Call)>,
    inbox: Inbox,
    common: Common,
    open: Vec<Open>,
    calls: usize,
    oracle: Oracle,
    changes: Changes,
    happened: Happened,
    trace: Trace,
}

/// Runs a seed and judges what happened.
pub(crate) fn run(seed: u64, lie: Option<Lie>) -> Result<(Happened, Trace), Failure> {
    let mut run = Run::begin(seed, lie);
    match run.go() {
        Ok(()) => {
            let happened = Happened {
                hash: run.trace.hash,
                acknowledged: run.oracle.count(Fate::Acknowledged),
                unknown: run.oracle.count(Fate::Unknown),
                refused: run.oracle.count(Fate::Refused),
                published: run.changes.published.len(),
                withdrawn: run.changes.withdrawn.len(),
                archived: run.common.archived.load(Ordering::Relaxed),
                dropped: run.common.dropped.load(Ordering::Relaxed),
                ..run.happened
            };
            Ok((happened, run.trace))
        }
        Err(why) => Err(Failure { why, trace: run.trace }),
    }
}

fn namespace() -> Namespace {
    "n".parse().expect("a sound name")
}

/// Makes the namespace, before anything can go wrong.
fn found(store: &Arc<FaultStore>, terms: Terms, chance: &mut Chance) {
    node::runtime().block_on(async {
        let clock = Arc::new(NodeClock::new(Duration::ZERO, 0));
        let catalog = Catalog::open_seeded(store.clone(), clock, terms.shared(), chance.bits()).await.expect("a store that works");
        let bucket = Span::from_nanos(*chance.pick(&[10, 3_600]) * Span::SECOND.nanos()).expect("positive");
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
        let page_bytes = *chance.pick(&[1, 2_000, PAGE_BYTES]);
        let climate = Climate::of(&mut chance, lie, page_bytes);
        let store = FaultStore::new(Arc::new(MemoryStore::with_page_bytes(page_bytes)));
        found(&store, climate.terms, &mut chance);
        let databases = ["s3://a", "s3://b"].map(|url| (url.to_owned(), Arc::default()));
        let (inbox, common) = (Inbox::default(), Common { databases: Arc::new(databases.into()), ..Common::default() });
        let roles = std::iter::repeat_n(Role::Serve, NODES).chain(std::iter::repeat_n(Role::Keep, KEEPERS));
        let mut nodes: Vec<_> = roles
            .map(|role| {
                let off = chance.between(-2_000, 2_000) * 1_000_000;
                let line = Line::new(store.clone(), chance.fork(), climate.weather);
                Node::new(role, line, NodeClock::new(Duration::ZERO, off), inbox.clone(), common.clone())
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
            common,
            open: Vec::new(),
            calls: 0,
            oracle: Oracle::default(),
            changes: Changes::default(),
            happened: Happened::default(),
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
        while self.passed < STORM + CALM {
            self.tick(CALM_TICK)?;
        }
        self.open.drain(..).collect::<Vec<_>>().into_iter().for_each(|open| self.hung_up(&open.purpose));
        self.all_is_served()?;
        self.all_nodes_agree()?;
        self.changes_stand()
    }

    fn note(&mut self, what: impl std::fmt::Display) {
        self.trace.line(self.passed, what);
    }

    /// Lets every node run for a tick, in any order, and answers arrive.
    fn tick(&mut self, tick: Duration) -> Result<(), String> {
        self.passed += tick;
        self.oracle.dropped_max = match self.climate.terms.dropped {
            true => START + self.passed.as_nanos() as i64 + KEEPER_OFF_MAX_MS * 1_000_000 - RETENTION,
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
            self.happened.late += ghosts.len();
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
                self.note(format!("node {at} stands still until {:?}", self.still[at]));
            } else if self.still[at] > self.passed && self.still[at] <= self.passed + TICK && self.chance.happens(300_000) {
                self.nodes[at].forget_lag();
            }
            if self.chance.happens(climate.jump) {
                let most = *self.chance.pick(if at < NODES { &[500, 8_000, 30_000, 3_600_000][..] } else { &[500, KEEPER_OFF_MAX_MS] });
                let off = self.chance.between(-most, most) * 1_000_000;
                self.nodes[at].clock.set_off(off);
                self.note(format!("clock {at} is off by {} ms", off / 1_000_000));
            }
            if self.chance.happens(climate.cut) {
                let (all, catalog) = *self.chance.pick(&[(true, true), (false, true), (false, false), (false, false)]);
                self.nodes[at].line.cut(all, catalog);
                self.note(format!("node {at} is cut off: all {all}, catalog {catalog}"));
            }
        }
    }

    fn crash(&mut self, at: usize) {
        self.nodes[at].crash();
        self.still[at] = Duration::ZERO;
        self.happened.crashes += 1;
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
        Edges { now, horizon: view.map_or(now, |view| view.horizon.nanos()), starts }
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
                    self.happened.reads_refused += 1;
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
            self.happened.reads_refused += 1;
            return Ok(());
        };
        if answered.strong == self.climate.terms.eventual {
            return Err("an answer of eventual reads says that it is complete, or another that it is not".into());
        }
        self.happened.reads += 1;
        self.oracle.check(read, &rows, answered)
    }

    /// Sends a call when all is well, and waits for its answer.
    fn ask(&mut self, at: usize, request: Request<Body>) -> Result<(u16, Vec<u8>), String> {
        let number = self.calls;
        self.calls += 1;
        let handle = self.nodes[at].call(number, request).ok_or_else(|| format!("node {at} does not serve though all is well"))?;
        let until = self.passed + PROMPT;
        while self.passed < until {
            self.passed += TICK;
            self.nodes[at].run(TICK, self.passed);
            let mut answers = std::mem::take(&mut *self.inbox.lock().expect("no holder panics"));
            // Those of one tick have no order among them: large reads are decoded on threads of their own.
            answers.sort_by_key(|(number, ..)| *number);
            if let Some((_, status, body)) = answers.into_iter().find(|(of, ..)| *of == number) {
                return Ok((status, body));
            }
        }
        handle.abort();
        Err(format!("node {at} did not answer within {PROMPT:?} though all is well"))
    }

    /// Every node takes a current event now.
    fn all_is_served(&mut self) -> Result<(), String> {
        for at in 0..NODES {
            let now = self.nodes[at].clock.now().nanos();
            let number = self.oracle.send(("hot", now, format!("last-{at}")), &["a"], at);
            let body = format!("{{\"key\":\"hot\",\"id\":\"last-{at}\",\"ts\":{now},\"fields\":{{\"a\":{number}}}}}");
            let request = Request::post("/v1/n/events?precision=ns").body(Body::from(body)).expect("a sound request");
            let (status, body) = self.ask(at, request)?;
            if status != 200 {
                return Err(format!("node {at} takes no event though all is well: {status} {}", String::from_utf8_lossy(&body)));
            }
            self.oracle.end(number, Fate::Acknowledged);
        }
        Ok(())
    }

    /// Every node gives the same rows however it is asked, and they are what they must be.
    fn all_nodes_agree(&mut self) -> Result<(), String> {
        for key in KEYS {
            let mut first: Option<(Vec<Value>, i64)> = None;
            for at in 0..NODES {
                let to = first.as_ref().map(|(_, to)| *to);
                let read = Read { key, from: None, to, descending: false, id: None, region: None, asked: self.oracle.tick() };
                let (rows, to) = self.whole(at, &read, false)?;
                let (mut backwards, _) = self.whole(at, &Read { descending: true, to: Some(to), ..read.clone() }, false)?;
                backwards.reverse();
                let (lines, _) = self.whole(at, &Read { to: Some(to), ..read.clone() }, true)?;
                let paged = self.paged(at, &Read { to: Some(to), ..read.clone() })?;
                let counted = self.counted(at, key, to)?;
                let (first, _) = first.get_or_insert_with(|| (rows.clone(), to));
                for (form, other) in [("whole", &rows), ("backwards", &backwards), ("as a stream", &lines), ("in pages", &paged)] {
                    if other != first {
                        return Err(format!("node {at} gives other rows of {key} {form}"));
                    }
                }
                if counted != first.len() as u64 {
                    return Err(format!("node {at} counts {counted} rows of {key}, not {}", first.len()));
                }
            }
        }
        Ok(())
    }

    fn whole(&mut self, at: usize, read: &Read, lines: bool) -> Result<(Vec<Value>, i64), String> {
        let (status, body) = self.ask(at, clients::get(&clients::path(read, lines, 10_000), lines))?;
        let answer = if status == 200 { rows(read, &body)? } else { None };
        let (rows, answered) =
            answer.ok_or_else(|| format!("a read fails though all is well: {status} {}", String::from_utf8_lossy(&body)))?;
        // Nothing is unseen any more.
        self.oracle.check(read, &rows, Answered { strong: true, ..answered })?;
        Ok((rows, answered.to))
    }

    fn paged(&mut self, at: usize, read: &Read) -> Result<Vec<Value>, String> {
        let path = clients::path(read, false, 7 + self.chance.below(100));
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let (status, body) = self.ask(at, clients::get(&format!("{path}{cursor}"), false))?;
            let page: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
            let rows =
                page["events"].as_array().filter(|_| status == 200).ok_or_else(|| format!("a page fails though all is well: {page}"))?;
            all.extend(rows.iter().cloned());
            let Some(next) = page["next"].as_str() else { return Ok(all) };
            cursor = format!("&cursor={next}");
        }
    }

    fn counted(&mut self, at: usize, key: &str, to: i64) -> Result<u64, String> {
        let (from, to) = (Timestamp::from_nanos(START - 10 * Span::DAY.nanos()), Timestamp::from_nanos(to));
        let (status, body) = self.ask(at, clients::get(&format!("/v1/n/aggregate?key={key}&from={from}&to={to}&fn=count"), false))?;
        let answer: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
        answer["rows"][0]["count"]
            .as_u64()
            .filter(|_| status == 200)
            .ok_or_else(|| format!("an aggregate fails though all is well: {answer}"))
    }

    /// Changes that were acknowledged stand on every node, and there is one history.
    fn changes_stand(&mut self) -> Result<(), String> {
        let found = Catalog::open_seeded(self.store.clone(), self.nodes[0].clock.clone(), Shared::default(), 0);
        let view = node::runtime().block_on(found).map_err(|error| error.to_string())?.view();
        let truth = view.namespace(&namespace()).ok_or("the namespace is gone")?.clone();
        for at in 0..NODES {
            let Some(catalog) = self.nodes[at].catalog() else { return Err(format!("node {at} does not serve")) };
            let view = catalog.view();
            let timelines = view.namespace(&namespace()).ok_or("the namespace is gone")?;
            for key in [None].into_iter().chain(KEYS.map(Some)) {
                let (known, all) = (timelines.listed(key), truth.listed(key));
                let same = |(a, b): (&ListedLayout, &ListedLayout)| (&a.layout, a.from) == (&b.layout, b.from);
                if known.len() > all.len() || !known.iter().zip(&all).all(same) {
                    return Err(format!("node {at} knows another history of {key:?}: {known:?}, and it is {all:?}"));
                }
            }
            for (key, version) in &self.changes.published {
                let listed = timelines.listed(*key).into_iter().find(|listed| listed.layout.version.revision == *version);
                let listed = listed.ok_or_else(|| format!("layout {version} of {key:?} is gone from node {at}"))?;
                let may_be_gone =
                    [&self.changes.withdrawn, &self.changes.perhaps_withdrawn].iter().any(|gone| gone.contains(&(*key, *version)));
                let must_be_gone = self.changes.withdrawn.contains(&(*key, *version));
                if listed.is_withdrawn() && !may_be_gone || must_be_gone && !listed.is_withdrawn() {
                    return Err(format!("layout {version} of {key:?} is listed as withdrawn: {} on node {at}", listed.is_withdrawn()));
                }
            }
        }
        let own = KEYS.map(|key| truth.listed(Some(key))).concat();
        self.happened.automatic = own.iter().filter(|listed| listed.published.as_ref().is_some_and(|by| by.automatic)).count();
        Ok(())
    }
}

/// The rows of an answer that is whole, and where it ended; nothing where it is a stream that was cut.
fn rows(read: &Read, body: &[u8]) -> Result<Option<(Vec<Value>, Answered)>, String> {
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    let parse = |line: &str| serde_json::from_str::<Value>(line).map_err(|error| format!("{error}: {line}"));
    if read.id.is_some() {
        let answer = parse(text)?;
        // A point read answers for its instant.
        let answered = Answered { to: i64::MAX, ..whole(&answer)? };
        // Where not all writes are shown, there may be none of the event.
        let unseen = answer["event"].is_null() && !answered.strong;
        return Ok(Some((if unseen { Vec::new() } else { vec![answer["event"].clone()] }, answered)));
    }
    if text.starts_with("{\"events\":[") {
        let answer = parse(text)?;
        if !answer["next"].is_null() {
            return Err("a page that holds all goes on".into());
        }
        let rows = answer["events"].as_array().cloned().unwrap_or_default();
        return Ok(Some((rows, whole(&answer)?)));
    }
    let mut lines = text.lines().map(parse).collect::<Result<Vec<_>, _>>()?;
    match lines.pop() {
        Some(last) if last.get("end").is_some() => Ok(Some((lines, whole(&last["end"])?))),
        _ => Ok(None),
    }
}

/// What an answer says of itself: that it is complete, or why it may not be.
fn whole(answer: &Value) -> Result<Answered, String> {
    let time = |name: &str| answer[name].as_str().and_then(|text| Timestamp::parse_rfc3339(text).ok()).map(Timestamp::nanos);
    let strong = match (answer["complete"].as_bool(), answer["consistency"].as_str()) {
        (Some(true), None) => true,
        (Some(false), Some("eventual")) if answer["missing"].is_null() => false,
        _ => return Err(format!("an answer that does not say that it is complete: {answer}")),
    };
    let to = time("to").ok_or_else(|| format!("an answer that does not say where it ends: {answer}"))?;
    Ok(Answered { from: time("from").unwrap_or(i64::MIN), to, strong })
}
