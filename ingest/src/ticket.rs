//! How a request waits for its partitions: a countdown that wakes it once, when all are settled.
//!
//! Commits know tickets, never requests: a client that left only leaves its receiver behind.

use std::sync::{Arc, Mutex};

use braid_shared::codes;
use tokio::sync::oneshot;

use crate::fault::Fault;
use crate::inflight::Reservation;

/// What became of one partition's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Durable.
    Stored,
    /// Nobody knows.
    Unknown(Fault),
    /// Not acknowledged by the store, which said so.
    Failed(Fault),
}

/// What became of a request's rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Rows that are durable.
    pub(crate) stored: u64,
    /// Rows of which nobody knows.
    pub(crate) unknown: u64,
    /// Rows that the store refused.
    pub(crate) failed: u64,
    /// Why, unless all are stored; that of an unknown outcome goes before others.
    pub(crate) fault: Option<Fault>,
}

/// One request's countdown.
pub(crate) struct Ticket(Mutex<Open>);

struct Open {
    partitions_left: usize,
    outcome: Outcome,
    wake: Option<oneshot::Sender<Outcome>>,
    reservation: Option<Reservation>,
}

/// Where a request waits.
pub(crate) struct Waiting {
    rows: u64,
    outcome: oneshot::Receiver<Outcome>,
}

impl Ticket {
    /// A countdown over `partitions` that hold `rows` in all; gives the reservation back at its end.
    pub(crate) fn new(partitions: usize, rows: u64, reservation: Reservation) -> (Arc<Ticket>, Waiting) {
        let (wake, outcome) = oneshot::channel();
        let open = Open { partitions_left: partitions, outcome: Outcome::default(), wake: Some(wake), reservation: Some(reservation) };
        (Arc::new(Ticket(Mutex::new(open))), Waiting { rows, outcome })
    }

    /// Settles one partition's rows.
    pub(crate) fn settle(&self, rows: u64, settled: &Settled) {
        let mut open = self.0.lock().expect("no holder panics");
        open.outcome.add(rows, settled);
        open.partitions_left -= 1;
        if open.partitions_left == 0 {
            open.reservation = None;
            let outcome = std::mem::take(&mut open.outcome);
            if let Some(wake) = open.wake.take() {
                // Fails where the client has left: nobody to tell.
                let _ = wake.send(outcome);
            }
        }
    }
}

impl Outcome {
    fn add(&mut self, rows: u64, settled: &Settled) {
        match settled {
            Settled::Stored => self.stored += rows,
            Settled::Failed(fault) => {
                self.failed += rows;
                self.fault.get_or_insert_with(|| fault.clone());
            }
            Settled::Unknown(fault) => {
                if self.unknown == 0 {
                    self.fault = Some(fault.clone());
                }
                self.unknown += rows;
            }
        }
    }
}

impl Waiting {
    /// What became of the rows, once all are settled.
    pub(crate) async fn outcome(self) -> Outcome {
        let rows = self.rows;
        self.outcome.await.unwrap_or_else(|_| {
            // The commit's task ended without a word: by a fault of ours, or a runtime that stops.
            let fault = Fault::new(codes::OUTCOME_UNKNOWN, "the commit was interrupted; send the events again");
            Outcome { unknown: rows, fault: Some(fault), ..Outcome::default() }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inflight::Inflight;
    use crate::settings::IngestSettings;
    use futures::FutureExt;
    use prometheus::IntGauge;

    fn ticket(partitions: usize, rows: u64) -> (Arc<Ticket>, Waiting) {
        let inflight = Inflight::new(&IngestSettings::default(), IntGauge::new("bytes", "bytes").unwrap());
        Ticket::new(partitions, rows, inflight.reserve().ok().unwrap())
    }

    fn unknown() -> Settled {
        Settled::Unknown(Fault::new(codes::OUTCOME_UNKNOWN, "a timeout"))
    }

    #[test]
    fn the_request_is_woken_when_its_last_partition_is_settled() {
        let (ticket, waiting) = ticket(2, 5);
        let mut outcome = Box::pin(waiting.outcome());
        ticket.settle(3, &Settled::Stored);
        assert!(outcome.as_mut().now_or_never().is_none());
        ticket.settle(2, &Settled::Stored);
        assert_eq!(outcome.now_or_never().unwrap(), Outcome { stored: 5, ..Outcome::default() });
    }

    #[test]
    fn counts_stay_apart_and_an_unknown_outcome_is_the_one_named() {
        let (ticket, waiting) = ticket(3, 6);
        ticket.settle(1, &Settled::Failed(Fault::new(codes::STORE_FULL, "no room")));
        ticket.settle(2, &unknown());
        ticket.settle(3, &Settled::Stored);
        let outcome = waiting.outcome().now_or_never().unwrap();
        assert_eq!((outcome.stored, outcome.unknown, outcome.failed), (3, 2, 1));
        assert_eq!(outcome.fault.unwrap().code, codes::OUTCOME_UNKNOWN);
    }

    #[test]
    fn a_commit_that_vanishes_leaves_an_unknown_outcome() {
        let (ticket, waiting) = ticket(2, 5);
        ticket.settle(1, &Settled::Stored);
        drop(ticket);
        assert_eq!(waiting.outcome().now_or_never().unwrap().unknown, 5);
    }
}
