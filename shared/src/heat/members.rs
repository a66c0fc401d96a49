//! Which nodes report, and what all of them reported.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use serde::{Deserialize, Serialize};

use super::lease::{LEADER, Leader};
use super::report::{Report, report_name};
use crate::catalog::CatalogError;
use crate::catalog::documents::{Documents, encode};
use crate::clock::{Clock, Mark};
use crate::store::{Store, Swap};

/// Name of the document.
const MEMBERS: &str = "heat/members";
/// Nodes on the list at most; the newest stay. One that is taken off and still runs puts itself on again.
const MEMBERS_MAX: usize = 256;
/// Tries to change the list before giving up until the next report.
const TRIES: u32 = 4;
/// Reports read at once.
const READS_AT_ONCE: usize = 16;
/// How long a report counts that is not followed by another.
const FRESH: Duration = Duration::from_secs(15);
/// After so long without a report a node is taken off the list.
const GONE: Duration = Duration::from_secs(300);

#[derive(Default, Serialize, Deserialize)]
struct Members {
    nodes: Vec<String>,
}

/// Everything that is known of heat.
#[derive(Clone, Debug, Default)]
pub struct HeatState {
    /// The last report of each node.
    pub reports: Vec<Report>,
    /// The controller's, where there ever was one.
    pub leader: Option<Leader>,
}

/// Reads what nodes reported and what the controller decided.
pub async fn read_state(store: Arc<dyn Store>) -> Result<HeatState, CatalogError> {
    let documents = Documents::new(store);
    let leader = documents.read::<Leader>(LEADER).await?.map(|(leader, _)| leader);
    let reports = read_reports(&documents).await?.into_iter().map(|(report, _)| report).collect();
    Ok(HeatState { reports, leader })
}

/// The reports of all members, with their etags.
pub(super) async fn read_reports(documents: &Documents) -> Result<Vec<(Report, u64)>, CatalogError> {
    let members = documents.read::<Members>(MEMBERS).await?.map(|(members, _)| members).unwrap_or_default();
    let mut reports = Vec::new();
    for some in members.nodes.chunks(READS_AT_ONCE) {
        let mut reads = Vec::with_capacity(some.len());
        for node in some {
            let (documents, name) = (documents.clone(), report_name(node));
            reads.push(async move { documents.read::<Report>(&name).await }.boxed());
        }
        // One that can't be read is as one of a node that is gone; the others count.
        reports.extend(join_all(reads).await.into_iter().filter_map(Result::ok).flatten());
    }
    Ok(reports)
}

/// Puts a node on the list.
pub(super) async fn join(documents: &Documents, node: &str) -> Result<(), CatalogError> {
    change(documents, Some(node), &[]).await
}

async fn change(documents: &Documents, joins: Option<&str>, gone: &[String]) -> Result<(), CatalogError> {
    for _ in 0..TRIES {
        let (before, etag) = documents.read::<Members>(MEMBERS).await?.unzip();
        let nodes = before.unwrap_or_default().nodes;
        let Some(mut nodes) = changed(nodes, joins, gone) else { return Ok(()) };
        let beyond = nodes.len().saturating_sub(MEMBERS_MAX);
        let mut dropped: Vec<String> = nodes.drain(..beyond).collect();
        if let Swap::Done(_) = documents.swap(MEMBERS, etag, encode(&Members { nodes })).await? {
            dropped.extend_from_slice(gone);
            let reports: Vec<String> = dropped.iter().map(|node| report_name(node)).collect();
            documents.discard(reports).await;
            return Ok(());
        }
    }
    Err(CatalogError::Stale(format!("the list of nodes that report heat could not be changed in {TRIES} tries")))
}

/// The list with one more node and without those that are gone, where that changes it.
fn changed(before: Vec<String>, joins: Option<&str>, gone: &[String]) -> Option<Vec<String>> {
    let joins = joins.filter(|node| !before.iter().any(|member| member == node)).map(str::to_owned);
    let stay = before.iter().filter(|node| !gone.contains(node)).cloned();
    let after: Vec<String> = stay.chain(joins).collect();
    (after != before).then_some(after)
}

/// Which reports are alive, judged by when they last changed, on this node's clocks alone.
#[derive(Default)]
pub(super) struct Roll(Vec<Seen>);

struct Seen {
    node: String,
    etag: u64,
    changed: Mark,
    /// Whether it changed before this node's eyes; one that does not is of a node that is gone.
    alive: bool,
}

impl Roll {
    /// The reports that count now.
    pub(super) fn fresh(&mut self, clock: &dyn Clock, reports: Vec<(Report, u64)>) -> Vec<Report> {
        let now = clock.mark();
        self.0.retain(|seen| reports.iter().any(|(report, _)| report.node == seen.node));
        let mut fresh = Vec::new();
        for (report, etag) in reports {
            let seen = match self.0.iter_mut().find(|seen| seen.node == report.node) {
                Some(seen) => {
                    if seen.etag != etag {
                        (seen.etag, seen.changed, seen.alive) = (etag, now, true);
                    }
                    seen
                }
                None => {
                    self.0.push(Seen { node: report.node.clone(), etag, changed: now, alive: false });
                    self.0.last_mut().expect("just pushed")
                }
            };
            if seen.alive && clock.elapsed(seen.changed) < FRESH {
                fresh.push(report);
            }
        }
        fresh
    }

    /// Takes nodes off the list that have long been silent, with their reports.
    pub(super) async fn forget_gone(&mut self, clock: &dyn Clock, documents: &Documents) -> Result<(), CatalogError> {
        let gone: Vec<String> = self.0.iter().filter(|seen| clock.elapsed(seen.changed) > GONE).map(|seen| seen.node.clone()).collect();
        if gone.is_empty() {
            return Ok(());
        }
        change(documents, None, &gone).await
    }
}
