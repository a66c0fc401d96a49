//! A run of several nodes over one store, every step of which a list of choices decides: which call
//! goes on and what becomes of it, which operation begins, whose clock jumps. The same choices give
//! the same run.

mod log;
mod ops;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinSet;

use super::super::change::{Change, ChangeDocument, change_name};
use super::super::documents::encode;
use super::super::{NewNamespace, Root};
use super::world::{Door, Fate, World};
use super::{Node, at, ns, seconds};
use crate::clock::Clock;
use crate::layout::{Layout, LayoutVersion, ShardBy};
use crate::model::{Namespace, Span, Timestamp};
use crate::store::Store;
pub(super) use log::Happened;
use log::Log;

/// The keys that are written; nodes give layouts of their own to all but the last, which is [`ROGUE`].
const KEYS: [&str; 3] = ["a", "b", ROGUE];
/// The key whose layouts are published without regard to the promise, where that is broken.
const ROGUE: &str = "rogue";
const NODES: usize = 3;
/// Operations that run at a time.
const RUNNING_MAX: usize = 8;
/// Steps in which everything on its way must come to an end once the choices are used up.
const DRAIN_STEPS: usize = 20_000;

/// A way to break the rule; the checks must notice each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// Nothing is.
    Nothing,
    /// Swaps are taken for done before they are: a raised horizon is used before its swap is answered.
    SwapsAnsweredEarly,
    /// A layout is published without regard to the promise.
    StartUnchecked,
    /// The promise is lowered.
    PromiseShrinks,
    /// Swaps ignore what they expect, and so do not cover the promise.
    SwapsBlind,
}

/// The choices that decide a run.
struct Choices<'a> {
    rest: &'a [u16],
}

impl Choices<'_> {
    /// The next choice, below `n`; 0 when all are used up.
    fn next(&mut self, n: usize) -> usize {
        let (first, rest) = self.rest.split_first().unwrap_or((&0, &[]));
        self.rest = rest;
        usize::from(*first) % n
    }
}

fn namespace() -> Namespace {
    ns("n")
}

/// A node of a run: a process and its clock.
#[derive(Clone)]
struct Running {
    node: Arc<Node>,
    door: Door,
    /// Greatest stamp of the processes before this one.
    floor: u64,
    /// Stamps of this process.
    last_stamp: Arc<Mutex<u64>>,
}

/// All that a run holds.
struct Run {
    world: Arc<World>,
    nodes: Arc<Mutex<Vec<Running>>>,
    log: Arc<Mutex<Log>>,
    tasks: JoinSet<()>,
    processes: u64,
    /// Start of the last layout published without regard to the promise.
    rogue_last: i64,
    broken: Broken,
}

/// Runs the choices and judges what happened.
pub(super) fn run(choices: &[u16], broken: Broken) -> Result<Happened, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut run = Run::begin(broken).await;
        let mut choices = Choices { rest: choices };
        while !choices.rest.is_empty() {
            // Time stands still but for this: it passes once every task waits.
            tokio::time::sleep(Duration::from_millis(3)).await;
            run.step(&mut choices);
        }
        run.drain().await
    })
}

impl Run {
    async fn begin(broken: Broken) -> Run {
        let world = Arc::new(World::default());
        world.set_prompt(true);
        let mut nodes = Vec::new();
        for i in 0..NODES {
            nodes.push(Running::start(&world, at(1_000 + i as i64), i as u64, 0).await.unwrap());
        }
        nodes[0].node.create_namespace(&namespace(), NewNamespace::default()).await.unwrap();
        for node in &nodes {
            node.node.refresh().await.unwrap();
        }
        world.set_prompt(false);
        if broken == Broken::SwapsBlind {
            world.make_blind();
        }
        let (nodes, log) = (Arc::new(Mutex::new(nodes)), Arc::default());
        Run { world, nodes, log, tasks: JoinSet::new(), processes: NODES as u64, rogue_last: i64::MIN, broken }
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        self.reap();
        match choices.next(24) {
            0..=3 => self.begin_operation(choices),
            4 => self.jump_a_clock(choices),
            5..=6 => self.pass_time(choices),
            7 => self.world.haunt(choices.next(usize::MAX)),
            8 => self.world.arrive(choices.next(usize::MAX)),
            9 => self.break_a_rule(choices),
            _ if self.world.waiting() == 0 => self.begin_operation(choices),
            _ => {
                let pick = choices.next(64);
                let fate = self.fate(choices.next(16));
                self.world.decide(pick, fate);
            }
        }
    }

    fn fate(&self, choice: usize) -> Fate {
        match choice {
            10 => Fate::Echoed,
            11 => Fate::Refused,
            12 => Fate::AnswerLost,
            13 => Fate::Lost,
            14 => Fate::AnsweredLate,
            15 if self.broken == Broken::SwapsAnsweredEarly => Fate::Lie,
            _ => Fate::Answered,
        }
    }

    fn jump_a_clock(&self, choices: &mut Choices<'_>) {
        let nodes = self.nodes.lock().unwrap();
        let clock = &nodes[choices.next(NODES)].node.clock;
        let by = choices.next(121) as i64 - 60;
        clock.set_wall(Timestamp::from_nanos(clock.now().nanos() + by * Span::SECOND.nanos()));
    }

    fn pass_time(&self, choices: &mut Choices<'_>) {
        let by = Duration::from_millis(choices.next(4_000) as u64);
        self.nodes.lock().unwrap().iter().for_each(|running| running.node.clock.advance(by));
    }

    fn begin_operation(&mut self, choices: &mut Choices<'_>) {
        let of = choices.next(NODES);
        let running = self.nodes.lock().unwrap()[of].clone();
        let (what, number) = (choices.next(16), choices.next(usize::from(u16::MAX)));
        if self.tasks.len() >= RUNNING_MAX {
            return;
        }
        let (log, key) = (self.log.clone(), KEYS[number % KEYS.len()]);
        let timeline = [None, Some(KEYS[0]), Some(KEYS[1])][number / 3 % 3];
        let now = running.node.clock.now();
        let offset = number as i64 % 22_000 * 1_000_000;
        let ts = Timestamp::from_nanos(now.nanos() - 12 * Span::SECOND.nanos() + offset);
        match what {
            0..=6 => self.tasks.spawn(ops::write(running, key, ts, log)),
            7..=8 => self.tasks.spawn(ops::read(running, log)),
            9..=11 => self.tasks.spawn(ops::publish(running, timeline, number, log)),
            12 => self.tasks.spawn(ops::withdraw(running, timeline, number, log)),
            13 => self.tasks.spawn(ops::snapshot(running)),
            _ => {
                self.processes += 1;
                self.tasks.spawn(ops::restart(running, self.nodes.clone(), of, self.processes, log))
            }
        };
    }

    fn break_a_rule(&mut self, choices: &mut Choices<'_>) {
        let by = (1 + choices.next(10)) as i64 * Span::SECOND.nanos();
        match self.broken {
            Broken::StartUnchecked => self.world.tamper(|root| publish_unchecked(root, root.promise - by, &mut self.rogue_last)),
            Broken::PromiseShrinks => self.world.tamper(|root| {
                root.promise -= by;
                None
            }),
            _ => {}
        }
    }

    /// Forgets tasks that ended; one that panicked ends the run.
    fn reap(&mut self) {
        while let Some(ended) = self.tasks.try_join_next() {
            ended.unwrap();
        }
    }

    /// Lets everything come to its end and judges the run.
    async fn drain(mut self) -> Result<Happened, String> {
        for step in 0..DRAIN_STEPS {
            tokio::time::sleep(Duration::from_millis(3)).await;
            self.reap();
            if self.tasks.is_empty() && self.world.is_quiet() {
                return self.judge().await;
            }
            self.world.haunt(step);
            self.world.arrive(step);
            self.world.decide(0, Fate::Answered);
        }
        Err("operations do not come to an end".into())
    }

    async fn judge(self) -> Result<Happened, String> {
        self.world.set_prompt(true);
        let last = Running::start(&self.world, at(1_000), 0, 0).await.map_err(|e| e.to_string())?;
        let log = std::mem::take(&mut *self.log.lock().unwrap());
        log.verdict(&last.node.view(), &self.world.roots())
    }
}

/// A change as a node would make it that does not look at the promise.
fn publish_unchecked(root: &mut Root, from: i64, last: &mut i64) -> Option<(String, Bytes)> {
    *last = Some(from).filter(|from| from > last)?;
    let revision = root.revision + 1;
    let layout = Layout { version: LayoutVersion { revision, nonce: 0 }, shards: 7, bucket: seconds(3_600), shard_by: ShardBy::Id };
    let change = Change::LayoutPublished { namespace: namespace(), key: Some(ROGUE.into()), from, layout };
    let document = ChangeDocument { revision, before: root.head.clone(), change, audit: None };
    let name = change_name(revision, u64::MAX);
    (root.revision, root.head) = (revision, Some(name.clone()));
    Some((name, encode(&document)))
}
