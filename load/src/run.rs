//! `run`: workload → connections → record. Each step is a file of its own; here they are joined.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::args::{Rate, Reads, RunArgs};
use crate::client::{Connection, Endpoint, Failure, Link, Rows, ServerKind, Target, target};
use crate::exit::NotStarted;
use crate::history::SLOTS_MAX;
use crate::lane::{self, Lane};
use crate::pace::{Pace, Plan, TIMER_GRAIN};
use crate::progress;
use crate::record::Recorder;
use crate::report::{About, Outcome, Report, Stop};
use crate::verify::Verify;
use crate::workload::{EventTimes, Share, Workload};

/// Writes and reads until the time or the events are used up. The error says why nothing was sent.
pub(crate) async fn run(about: About, args: RunArgs) -> Result<(Outcome, Report), NotStarted> {
    let client = &args.client;
    let endpoint = Arc::new(Endpoint::new(&client.url, client.timeout.duration(), client.retry_for.duration())?);
    let target: Arc<dyn Target> = target(args.target, &args.namespace, args.format, args.encoding)?.into();
    let seed = args.seed.unwrap_or_else(rand::random);
    let workload = workload(&args, seed);
    let verify = match args.verify {
        true if args.target != ServerKind::Braid => {
            return Err("--verify reads back by Braid's own API: a peer can't be verified".to_owned().into());
        }
        true => Some(
            Verify::before(Arc::clone(&endpoint), args.namespace.clone(), Arc::clone(&workload), target.format(), args.connections).await?,
        ),
        false => None,
    };
    let rows = rows(&args).await.map_err(NotStarted::unavailable)?;
    let history = verify.as_ref().map(|verify| Arc::clone(&verify.history));

    let (report, mut observers) = about.open(Some(seed))?;
    observers.push(progress::observer(args.events));
    if rows.is_none() {
        prepare(&endpoint, &*target).await.map_err(NotStarted::unavailable)?;
    }

    let began = Instant::now();
    let writes = Arc::new(Pace::new(write_plan(&args, seed), began));
    let recorder = Recorder::new(began, args.warmup(), observers);
    let link = || match &rows {
        None => Link::http(Arc::clone(&endpoint), Arc::clone(&target), Arc::clone(&workload), args.encoding),
        Some(rows) => Link::rows(Arc::clone(rows), Arc::clone(&workload)),
    };
    let lane = |pace: &Arc<Pace>| {
        let (pace, written) = (Arc::clone(pace), Arc::clone(&writes));
        Arc::new(Lane {
            pace,
            written,
            known: args.known,
            workload: Arc::clone(&workload),
            recorder: recorder.clone(),
            reads: args.read,
            history: history.clone(),
        })
    };

    let mut drivers = JoinSet::new();
    let mut paces = vec![Arc::clone(&writes)];
    let writer = lane(&writes);
    (0..args.connections).for_each(|_| drop(drivers.spawn(Arc::clone(&writer).drive(link()))));
    if let Some(plan) = read_plan(&args, seed) {
        writes.first_settled().await;
        let until = plan.until.map(|until| until.saturating_sub(writes.elapsed()));
        let reads = Arc::new(Pace::new(Plan { until, ..plan }, Instant::now()));
        let reader = lane(&reads);
        (0..args.read_connections).for_each(|_| drop(drivers.spawn(Arc::clone(&reader).drive(link()))));
        paces.push(reads);
    }
    let backlog = Arc::clone(&writes);
    let ticker = tokio::spawn(lane::tick(recorder.clone(), move || backlog.backlog()));
    let failure = gather(drivers, &paces).await;
    ticker.abort();
    recorder.skipped(writes.skipped());
    let record = recorder.finish(Instant::now());
    let verification = match verify {
        Some(verify) => Some(tokio::select! {
            verification = verify.after(writes.slots()) => verification,
            Ok(()) = tokio::signal::ctrl_c() => Err("interrupted".to_owned()),
        }),
        None => None,
    };
    Ok((Outcome { record, failure, verification }, report))
}

/// Makes what the target wants to be there before the first event.
async fn prepare(endpoint: &Arc<Endpoint>, target: &dyn Target) -> Result<(), String> {
    let mut connection = Connection::new(Arc::clone(endpoint));
    for call in target.prepare()? {
        let prepared = connection.deliver(&call, |status, body| target.judge_write(status, body, 0)).await;
        prepared.result.map_err(|failure| failure.to_string())?;
    }
    Ok(())
}

/// The baseline's driver, where that is what is driven.
async fn rows(args: &RunArgs) -> Result<Option<Arc<Rows>>, String> {
    match &args.cql_rows {
        None => Ok(None),
        Some(nodes) => Rows::connect(nodes, args.client.retry_for.duration()).await.map(Some),
    }
}

/// Waits for all connections; a failure, or an interrupt, ends the run for all of them. The first failure stands.
async fn gather(mut drivers: JoinSet<Option<Failure>>, paces: &[Arc<Pace>]) -> Option<Stop> {
    let (mut first, mut interrupted) = (None, false);
    let close = || paces.iter().for_each(|pace| pace.close());
    loop {
        let done = tokio::select! {
            done = drivers.join_next() => done,
            Ok(()) = tokio::signal::ctrl_c() => {
                // The first one lets what is under way be answered, the second does not.
                if interrupted {
                    drivers.abort_all();
                }
                interrupted = true;
                close();
                continue;
            }
        };
        let failure = match done {
            None => return first,
            Some(Ok(failure)) => failure.map(Stop::from),
            Some(Err(error)) => Some(error.into()),
        };
        if failure.is_some() {
            close();
            first = first.or(failure);
        }
    }
}

fn workload(args: &RunArgs, seed: u64) -> Arc<Workload> {
    let start = args.start.map_or_else(millis_now, |start| start.nanos().div_euclid(1_000_000));
    let batch = args.batch();
    let times = match (args.spacing, args.schedule()) {
        (Some(spacing), _) => EventTimes::spaced(start, spacing.nanos() as u64),
        (None, Some(schedule)) => EventTimes::scheduled(start, Arc::new(schedule), batch),
        (None, None) => EventTimes::clock(start, batch),
    };
    Workload::new(seed, args.keys(), args.shape(start), times)
}

fn write_plan(args: &RunArgs, seed: u64) -> Plan {
    let reads = match args.reads {
        Some(Reads::Share(share)) => share,
        _ => Share::default(),
    };
    Plan {
        schedule: args.schedule().map(Arc::new),
        batch: args.batch(),
        events_max: if args.rate == Rate::Nothing {
            0
        } else {
            args.events.unwrap_or(u64::MAX).min(if args.verify { SLOTS_MAX } else { u64::MAX })
        },
        until: args.until(),
        lag_max: args.max_lag.duration(),
        reads,
        reads_alone: false,
        seed,
        awake: TIMER_GRAIN,
    }
}

/// How reads that have a rate of their own are dealt out.
fn read_plan(args: &RunArgs, seed: u64) -> Option<Plan> {
    let schedule = match args.reads.as_ref()? {
        Reads::Rate(Rate::At(schedule)) => Some(Arc::new(schedule.clone())),
        Reads::Rate(Rate::Max) => None,
        Reads::Rate(Rate::Nothing) | Reads::Share(_) => return None,
    };
    let until = args.until().or_else(|| schedule.as_ref().and_then(|schedule| schedule.ends()));
    Some(Plan { schedule, batch: 1, events_max: u64::MAX, until, reads_alone: true, ..write_plan(args, seed) })
}

fn millis_now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
