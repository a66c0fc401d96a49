//! The end of a run, when nothing fails any more: every node takes an event, all give the same rows however they are asked, and
//! all know the one history of layouts that stands in the store.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use braid_shared::catalog::{Catalog, ListedLayout, Shared};
use braid_shared::clock::Clock;
use braid_shared::model::{Span, Timestamp};
use serde_json::Value;

use crate::answer::rows;
use crate::clients::{self, KEYS};
use crate::clock::MIDNIGHT;
use crate::node;
use crate::oracle::{Answered, Fate, Read};
use crate::run::{NODES, Run, TICK, namespace};
use crate::tally::What;

/// Longest that a call may take when nothing fails any more.
const PROMPT: Duration = Duration::from_secs(60);
/// Most rows of one page: more than a run writes.
const PAGE: u64 = 10_000;

/// Another form of the rows that one page gives.
#[derive(Clone, Copy, Debug)]
enum Form {
    Backwards,
    Stream,
    Pages,
    Count,
}

const FORMS: [Form; 4] = [Form::Backwards, Form::Stream, Form::Pages, Form::Count];

impl Run {
    pub(crate) fn judge(&mut self) -> Result<(), String> {
        self.all_is_served()?;
        self.all_nodes_agree()?;
        self.changes_stand()
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

    /// Every node gives the rows of each key, the same as the others, and in one more form: over the keys, all nodes and forms.
    fn all_nodes_agree(&mut self) -> Result<(), String> {
        let turn = self.chance.below(FORMS.len() as u64) as usize;
        for (number, key) in KEYS.into_iter().enumerate() {
            let mut first: Option<(Vec<Value>, i64)> = None;
            for at in 0..NODES {
                let to = first.as_ref().map(|(_, to)| *to);
                let read = Read { key, from: None, to, descending: false, id: None, region: None, asked: self.oracle.tick() };
                let (rows, to) = self.whole(at, &read, false)?;
                let (first, _) = first.get_or_insert_with(|| (rows.clone(), to));
                if rows != *first {
                    return Err(format!("node {at} gives other rows of {key}"));
                }
                let form = FORMS[(turn + number + at) % FORMS.len()];
                if !self.agrees(at, &Read { to: Some(to), ..read }, form, &rows)? {
                    return Err(format!("node {at} gives other rows of {key} as {form:?}"));
                }
            }
        }
        Ok(())
    }

    /// Whether a node gives these rows in another form, too.
    fn agrees(&mut self, at: usize, read: &Read, form: Form, rows: &[Value]) -> Result<bool, String> {
        match form {
            Form::Backwards => {
                let (backwards, _) = self.whole(at, &Read { descending: true, ..read.clone() }, false)?;
                Ok(backwards.iter().rev().eq(rows))
            }
            Form::Stream => Ok(self.whole(at, read, true)?.0 == rows),
            Form::Pages => Ok(self.paged(at, read, rows.len())? == rows),
            Form::Count => Ok(self.counted(at, read)? == rows.len() as u64),
        }
    }

    fn whole(&mut self, at: usize, read: &Read, lines: bool) -> Result<(Vec<Value>, i64), String> {
        let (status, body) = self.ask(at, clients::get(&clients::path(read, lines, PAGE), lines))?;
        let answer = if status == 200 { rows(read, &body)? } else { None };
        let (rows, answered) =
            answer.ok_or_else(|| format!("a read fails though all is well: {status} {}", String::from_utf8_lossy(&body)))?;
        // Nothing is unseen any more.
        self.oracle.check(read, &rows, Answered { strong: true, ..answered })?;
        Ok((rows, answered.to))
    }

    fn paged(&mut self, at: usize, read: &Read, rows: usize) -> Result<Vec<Value>, String> {
        let limit = 1 + rows as u64 / (1 + self.chance.below(8));
        let path = clients::path(read, false, limit);
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

    fn counted(&mut self, at: usize, read: &Read) -> Result<u64, String> {
        let (key, from) = (read.key, Timestamp::from_nanos(MIDNIGHT - Span::DAY.nanos()));
        let to = Timestamp::from_nanos(read.to.unwrap_or(i64::MAX));
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
        let timelines: Vec<Vec<ListedLayout>> = [None].into_iter().chain(KEYS.map(Some)).map(|key| truth.listed(key)).collect();
        self.count_layouts(&timelines);
        Ok(())
    }

    fn count_layouts(&self, timelines: &[Vec<ListedLayout>]) {
        let by_controllers = |listed: &&ListedLayout| listed.published.as_ref().is_some_and(|by| by.automatic);
        self.tally.add(What::Automatic, timelines.iter().flatten().filter(by_controllers).count());
        for timeline in timelines {
            // A key begins with what its namespace did.
            let first = timelines[0][0].layout.shards;
            let standing = timeline.iter().filter(|listed| !listed.is_withdrawn()).map(|listed| listed.layout.shards);
            let shards: Vec<u32> = std::iter::once(first).chain(standing).collect();
            let steps = |is: fn(&u32, &u32) -> bool| shards.windows(2).filter(|pair| is(&pair[1], &pair[0])).count();
            self.tally.add(What::Ups, steps(u32::gt));
            self.tally.add(What::Downs, steps(u32::lt));
        }
    }
}
