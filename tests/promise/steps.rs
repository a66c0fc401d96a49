//! What may happen next, and what becomes of the world by it. A clock shows whatever it likes at
//! each look; a node that is paused is one that takes no step.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use braid_shared::model::{Span, Timestamp};
use braid_shared::promise::{is_newer, must_follow};

use crate::rules::Broken;
use crate::world::{Change, Node, Query, Request, Root, Stage, Version, What, World};

/// How far ahead of a clock a node promises, in the model's units of time.
pub(crate) const LEAD: Span = match Span::from_nanos(2) {
    Some(lead) => lead,
    None => unreachable!(),
};

/// A node, by its place.
pub(crate) type At = usize;

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// A writer places an event by the view at hand.
    Place(At, Timestamp),
    /// What was placed stands in the store, and the client hears of it, or nobody does.
    Store(At, bool),
    /// A node asks for a promise by what its clock shows.
    Raise(At, Timestamp),
    /// A node asks for an epoch that begins then.
    Publish(At, Timestamp),
    /// A node asks for an epoch to be gone.
    Withdraw(At, Version),
    /// The store does a swap; its answer is on its way.
    Deliver(At),
    /// The store does a swap, and does it again, the request having come twice; the second answer comes first.
    DeliverTwice(At),
    /// An answer arrives.
    Hear(At),
    /// A node waits no longer for an answer; what it asked for may yet be done.
    GiveUp(At),
    /// A request that nobody waits for is done after all.
    DeliverLate(usize),
    /// A node in doubt reads the root.
    LookUp(At),
    /// The store answers a read of the root.
    Read(At),
    /// That answer arrives.
    Arrive(At),
    /// A process ends, and one begins in its place.
    Restart(At),
    /// A client asks for all events before then.
    Ask(At, Option<Timestamp>),
    /// The store answers a read of the root that began after that.
    ReadFor(At),
    /// The client is answered.
    Answer(At),
}

/// What may be asked for.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    pub(crate) events: Vec<Timestamp>,
    pub(crate) starts: Vec<Timestamp>,
    pub(crate) clocks: Vec<Timestamp>,
    pub(crate) ends: Vec<Option<Timestamp>>,
}

impl World {
    /// Every step that is possible here.
    pub(crate) fn possible(&self, broken: Broken, choices: &Choices, steps: &mut Vec<Step>) {
        steps.extend((0..self.late.len()).map(Step::DeliverLate));
        for (at, node) in self.nodes.iter().enumerate() {
            self.writing(at, node, broken, choices, steps);
            self.swapping(at, node, broken, choices, steps);
            self.reading(at, node, broken, choices, steps);
            if self.left.restarts > 0 {
                steps.push(Step::Restart(at));
            }
        }
    }

    fn writing(&self, at: At, node: &Node, broken: Broken, choices: &Choices, steps: &mut Vec<Step>) {
        if node.placed.is_some() {
            steps.extend([Step::Store(at, true), Step::Store(at, false)]);
        } else if self.left.writes > 0 {
            let accepted = choices.events.iter().filter(|ts| broken.accepts(node.known.facts.promise, **ts));
            steps.extend(accepted.map(|ts| Step::Place(at, *ts)));
        }
    }

    fn swapping(&self, at: At, node: &Node, broken: Broken, choices: &Choices, steps: &mut Vec<Step>) {
        match node.swap.as_ref().map(|(_, stage)| stage) {
            Some(Stage::Sent) => steps.extend([Step::Deliver(at), Step::DeliverTwice(at), Step::GiveUp(at)]),
            Some(Stage::Answered(_)) => steps.extend([Step::Hear(at), Step::GiveUp(at)]),
            Some(Stage::Doubtful) => steps.push(Step::LookUp(at)),
            None => self.asking(at, &node.known, broken, choices, steps),
        }
    }

    fn asking(&self, at: At, known: &Root, broken: Broken, choices: &Choices, steps: &mut Vec<Step>) {
        let promise = known.facts.promise;
        if self.left.raises > 0 {
            let changes = |clock: &&Timestamp| broken.raised(promise, **clock, LEAD) != promise;
            steps.extend(choices.clocks.iter().filter(changes).map(|clock| Step::Raise(at, *clock)));
        }
        if self.left.changes > 0 {
            let timeline = known.timeline();
            let last = timeline.last_start();
            let allowed = choices.starts.iter().filter(|from| broken.may_publish(promise, last, **from).is_ok());
            steps.extend(allowed.map(|from| Step::Publish(at, *from)));
            let epochs = timeline.groups().filter(|(from, version)| **version > 0 && broken.may_withdraw(promise, *from));
            steps.extend(epochs.map(|(_, version)| Step::Withdraw(at, *version)));
        }
    }

    fn reading(&self, at: At, node: &Node, broken: Broken, choices: &Choices, steps: &mut Vec<Step>) {
        match &node.read {
            Some(_) => steps.push(Step::Arrive(at)),
            None if is_newer(self.root.facts, node.known.facts) => steps.push(Step::Read(at)),
            None => {}
        }
        match &node.query {
            Some(query) => {
                if query.read.is_some() || broken.answers(node.known.facts.promise, query.to) {
                    steps.push(Step::Answer(at));
                }
                if query.read.is_none() {
                    steps.push(Step::ReadFor(at));
                }
            }
            None if self.left.queries > 0 => steps.extend(choices.ends.iter().map(|to| Step::Ask(at, *to))),
            None => {}
        }
    }

    /// Takes a step.
    pub(crate) fn take(&mut self, step: Step, broken: Broken) {
        match step {
            Step::Place(at, ts) => {
                self.left.writes -= 1;
                self.nodes[at].placed = Some((ts, self.nodes[at].known.places(ts)));
            }
            Step::Store(at, heard) => {
                let Some((ts, version)) = self.nodes[at].placed.take() else { return };
                self.blocks.insert((ts, version));
                if heard {
                    self.acknowledged.insert(ts);
                }
            }
            Step::Raise(at, clock) => self.raise(at, clock, broken),
            Step::Publish(at, from) => self.change(at, What::Published(from)),
            Step::Withdraw(at, version) => self.change(at, What::Withdrawn(version)),
            Step::Deliver(at) | Step::DeliverTwice(at) => {
                let Some((request, _)) = self.nodes[at].swap.clone() else { return };
                let done = self.perform(&request, broken) && step == Step::Deliver(at);
                self.nodes[at].swap = Some((request, Stage::Answered(done)));
            }
            Step::Hear(at) => self.hear(at, broken),
            Step::GiveUp(at) => self.give_up(at),
            Step::DeliverLate(which) => {
                let request = self.late.remove(which);
                self.perform(&request, broken);
            }
            Step::LookUp(at) => self.look_up(at),
            Step::Read(at) => self.nodes[at].read = self.read(at),
            Step::Arrive(at) => {
                let read = self.nodes[at].read.take();
                self.install(at, read);
            }
            Step::Restart(at) => {
                self.left.restarts -= 1;
                self.abandon(at);
                self.nodes[at] = Node::started(&self.root);
            }
            Step::Ask(at, to) => {
                self.left.queries -= 1;
                self.nodes[at].query = Some(Query { to, owed: self.acknowledged.clone(), read: None });
            }
            Step::ReadFor(at) => {
                let read = self.read(at);
                if let Some(query) = &mut self.nodes[at].query {
                    query.read = read;
                }
            }
            Step::Answer(at) => self.answer(at, broken),
        }
        self.forget_the_dead(broken);
    }

    fn raise(&mut self, at: At, clock: Timestamp, broken: Broken) {
        self.left.raises -= 1;
        let seen = self.nodes[at].known.clone();
        let next = Arc::new(seen.raised(broken.raised(seen.facts.promise, clock, LEAD)));
        if broken == Broken::RaisedUsedEarly {
            self.nodes[at].known = next.clone();
        }
        self.nodes[at].swap = Some((Arc::new(Request { seen, next, change: None }), Stage::Sent));
    }

    fn change(&mut self, at: At, what: What) {
        self.left.changes -= 1;
        self.changes_made += 1;
        let (seen, id) = (self.nodes[at].known.clone(), self.changes_made);
        let next = Arc::new(seen.changed(Change { id, what }));
        self.nodes[at].swap = Some((Arc::new(Request { seen, next, change: Some(id) }), Stage::Sent));
    }

    /// The store's compare-and-swap; gives whether it was done.
    fn perform(&mut self, request: &Request, broken: Broken) -> bool {
        if !could_apply(request, &self.root, broken) {
            return false;
        }
        self.root = match broken {
            Broken::PromiseUncovered if request.change.is_some() => {
                let facts = braid_shared::promise::Facts { promise: self.root.facts.promise, ..request.next.facts };
                Arc::new(Root { facts, changes: request.next.changes.clone() })
            }
            Broken::PromiseUncovered => Arc::new(self.root.raised(request.next.facts.promise.max(self.root.facts.promise))),
            _ => request.next.clone(),
        };
        self.highest = self.highest.max(self.root.facts.promise);
        true
    }

    fn hear(&mut self, at: At, broken: Broken) {
        let Some((request, Stage::Answered(done))) = self.nodes[at].swap.take() else { return };
        match (done, request.change) {
            (true, change) => {
                self.granted.extend(change);
                self.install(at, Some(request.next.clone()));
            }
            (false, Some(change)) if broken == Broken::ConflictBelieved => {
                self.denied.insert(change);
            }
            (false, Some(_)) => self.nodes[at].swap = Some((request, Stage::Doubtful)),
            (false, None) => {}
        }
    }

    fn give_up(&mut self, at: At) {
        let request = self.abandon(at);
        // Whether the promise was raised the next read tells.
        self.nodes[at].swap = request.filter(|request| request.change.is_some()).map(|request| (request, Stage::Doubtful));
    }

    /// Lets a request go on without anybody who waits for it.
    fn abandon(&mut self, at: At) -> Option<Arc<Request>> {
        let (request, stage) = self.nodes[at].swap.take()?;
        if stage == Stage::Sent && !self.late.contains(&request) {
            self.late.push(request.clone());
        }
        Some(request)
    }

    /// While the root is as the swap expects it the swap may yet be done, so it is sent again; else
    /// the root holds the change or never will.
    fn look_up(&mut self, at: At) {
        let Some(root) = self.read(at) else { return };
        let Some((request, _)) = self.nodes[at].swap.take() else { return };
        self.install(at, Some(root.clone()));
        match request.change {
            _ if root.facts.swap == request.seen.facts.swap => self.nodes[at].swap = Some((request, Stage::Sent)),
            Some(change) if root.holds(change) => {
                self.granted.insert(change);
            }
            Some(change) => {
                self.denied.insert(change);
            }
            None => {}
        }
    }

    /// The root, as the store gives it now; none where the node must not believe it.
    fn read(&self, at: At) -> Option<Arc<Root>> {
        must_follow(self.nodes[at].known.facts, self.root.facts).ok().map(|()| self.root.clone())
    }

    fn install(&mut self, at: At, found: Option<Arc<Root>>) {
        let known = &mut self.nodes[at].known;
        *known = found.filter(|found| is_newer(found.facts, known.facts)).unwrap_or_else(|| known.clone());
    }

    fn answer(&mut self, at: At, broken: Broken) {
        let Some(query) = self.nodes[at].query.take() else { return };
        self.install(at, query.read);
        let view = &self.nodes[at].known;
        let range = broken.answerable(view.facts.promise, query.to);
        for ts in query.owed.into_iter().filter(|ts| query.to.is_none_or(|to| *ts < to)) {
            let version = view.places(ts);
            self.shortened |= !range.contains(ts);
            self.lost |= range.contains(ts) && !self.blocks.contains(&(ts, version));
            self.answered |= range.contains(ts) && version > 0;
        }
    }

    /// Requests that can't be done any more make no difference.
    fn forget_the_dead(&mut self, broken: Broken) {
        let root = self.root.clone();
        self.late.retain(|request| could_apply(request, &root, broken));
    }

    /// The same but for the order of the nodes, which means nothing.
    pub(crate) fn sorted(&self) -> World {
        let mut world = self.clone();
        world.nodes.sort_by_cached_key(|node| {
            let mut hasher = DefaultHasher::new();
            node.hash(&mut hasher);
            hasher.finish()
        });
        world
    }
}

fn could_apply(request: &Request, root: &Root, broken: Broken) -> bool {
    match broken {
        Broken::PromiseUncovered if request.change.is_some() => request.seen.facts.revision == root.facts.revision,
        Broken::PromiseUncovered => request.next.facts.promise > root.facts.promise,
        _ => request.seen.facts.swap == root.facts.swap,
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |at: &At| char::from(b'A' + *at as u8);
        match self {
            Step::Place(at, ts) => write!(f, "{} places an event at {}", name(at), ts.nanos()),
            Step::Store(at, true) => write!(f, "{} stores and acknowledges it", name(at)),
            Step::Store(at, false) => write!(f, "{} stores it, and nobody hears of it", name(at)),
            Step::Raise(at, clock) => {
                write!(f, "{}, its clock at {}, asks for H = {} or more", name(at), clock.nanos(), clock.nanos() + LEAD.nanos())
            }
            Step::Publish(at, from) => write!(f, "{} asks for an epoch from {}", name(at), from.nanos()),
            Step::Withdraw(at, version) => write!(f, "{} asks for the withdrawal of epoch {version}", name(at)),
            Step::Deliver(at) => write!(f, "the store takes {}'s swap", name(at)),
            Step::DeliverTwice(at) => write!(f, "the store takes {}'s swap twice, and the second answer comes first", name(at)),
            Step::Hear(at) => write!(f, "{} hears the answer", name(at)),
            Step::GiveUp(at) => write!(f, "{} waits no longer", name(at)),
            Step::DeliverLate(_) => write!(f, "the store takes a swap that nobody waits for"),
            Step::LookUp(at) => write!(f, "{} looks what became of its change", name(at)),
            Step::Read(at) => write!(f, "the store answers {}'s read of the root", name(at)),
            Step::Arrive(at) => write!(f, "{} has read the root", name(at)),
            Step::Restart(at) => write!(f, "{} ends and starts again", name(at)),
            Step::Ask(at, Some(to)) => write!(f, "{} is asked for all before {}", name(at), to.nanos()),
            Step::Ask(at, None) => write!(f, "{} is asked for everything", name(at)),
            Step::ReadFor(at) => write!(f, "the store answers a read of the root that {} began for it", name(at)),
            Step::Answer(at) => write!(f, "{} answers", name(at)),
        }
    }
}
