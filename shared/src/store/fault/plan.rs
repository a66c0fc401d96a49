//! What goes wrong, and when: faults by operation, one by one, always, or by a seed.

use std::collections::{HashMap, VecDeque};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;

use crate::store::StoreErrorKind;

/// An operation of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "named as the trait's functions are")]
pub enum Operation {
    Append,
    Scan,
    Replace,
    Delete,
    Fragmented,
    ReadDocument,
    SwapDocument,
    DeleteDocument,
    NoteDays,
    Keys,
    Days,
}

/// What goes wrong with an operation.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Nothing is done; this error.
    Refuse(StoreErrorKind),
    /// It is done, and its answer lost: [`StoreErrorKind::Unknown`].
    LoseAnswer,
    /// Nothing is done, and nobody knows: [`StoreErrorKind::Unknown`].
    LoseRequest,
    /// It waits before this gate, then goes on as usual.
    Hold(Gate),
    /// Of an append only the first half of the blocks is done: [`StoreErrorKind::Unknown`].
    Tear,
    /// Of a scan the partitions of this suffix are left out, blocks and answers.
    DropSuffix(u32),
    /// Of a scan one byte in the middle of the page's first block is altered.
    FlipByte,
    /// Of a scan the page is lost: its blocks and answers, not its continuation.
    DropPage,
}

/// Where operations wait until a test lets them go on. Clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate(watch::Sender<(usize, bool)>);

impl Default for Gate {
    fn default() -> Self {
        Gate(watch::Sender::new((0, false)))
    }
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Gate {
        Gate::default()
    }

    /// Lets go on who waits and who will come.
    pub fn open(&self) {
        self.0.send_modify(|(_, open)| *open = true);
    }

    /// Waits until at least `count` operations have come to the gate.
    pub async fn reached(&self, count: usize) {
        let mut state = self.0.subscribe();
        state.wait_for(|(come, _)| *come >= count).await.expect("the gate outlives who waits at it");
    }

    /// Comes to the gate and waits until it is open.
    pub(super) async fn pass(&self) {
        self.0.send_modify(|(come, _)| *come += 1);
        let mut state = self.0.subscribe();
        state.wait_for(|(_, open)| *open).await.expect("the gate outlives who waits at it");
    }
}

/// Faults to come.
#[derive(Debug, Default)]
pub(super) struct Plan {
    next: HashMap<Operation, VecDeque<Fault>>,
    always: HashMap<Operation, Fault>,
    seeded: Option<(SmallRng, f64)>,
}

impl Plan {
    pub(super) fn once(&mut self, operation: Operation, fault: Fault) {
        self.next.entry(operation).or_default().push_back(fault);
    }

    pub(super) fn always(&mut self, operation: Operation, fault: Fault) {
        self.always.insert(operation, fault);
    }

    pub(super) fn seeded(&mut self, seed: u64, probability: f64) {
        self.seeded = Some((SmallRng::seed_from_u64(seed), probability));
    }

    /// The fault of the operation that begins now: those planned once come first.
    pub(super) fn take(&mut self, operation: Operation) -> Option<Fault> {
        let once = self.next.get_mut(&operation).and_then(VecDeque::pop_front);
        once.or_else(|| self.always.get(&operation).cloned()).or_else(|| self.random(operation))
    }

    /// A random fault of a kind that a correct caller survives.
    fn random(&mut self, operation: Operation) -> Option<Fault> {
        let (rng, probability) = self.seeded.as_mut()?;
        if !rng.random_bool(*probability) {
            return None;
        }
        let writes =
            !matches!(operation, Operation::Scan | Operation::Fragmented | Operation::ReadDocument | Operation::Keys | Operation::Days);
        Some(match rng.random_range(0..if writes { 4 } else { 1 }) {
            1 => Fault::LoseAnswer,
            2 => Fault::LoseRequest,
            3 if operation == Operation::Append => Fault::Tear,
            _ => Fault::Refuse(StoreErrorKind::Unavailable),
        })
    }
}
