//! `run`: workload → connections → record. Each step is a file of its own; here they are joined.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::args::{Rate, Reads, RunArgs};
use crate::client::{Connection, Endpoint, Items, Link, Patience, Rows, ServerKind, Store, Target, target};
use crate::exit::NotStarted;
use crate::history::SLOTS_MAX;
use crate::lane::{self, Lane};
use crate::pace::{Pace, Plan, TIMER_GRAIN};
use crate::progress;
use crate::record::Recorder;
use crate::report::{About, Outcome, Report, Stop};
use crate::verify::Verify;
use crate::workload::{EventTimes, Share, Workload};

/// How the connections of a run reach what it drives.
enum Way {
    /// To where writes go, and where reads do.
    Http((Arc<Endpoint>, Arc<Endpoint>), Arc<dyn Target>),
    Store(Store),
}

/// Writes and reads until the time or the events are used up. The error says why nothing was sent.
pub(crate) async fn run(about: About, args: RunArgs) -> Result<(Outcome, Report), NotStarted> {
    let way = way(&args).await?;
    let seed = args.seed.unwrap_or_else(rand::random);
    let workload = workload(&args, seed);
    let verify = match &way {
        Way::Http((_, reads), target) if args.verify => {
            let (reads, workload) = (Arc::clone(reads), Arc::clone(&workload));
            Some(Verify::before(reads, args.namespace.clone(), workload, target.format(), args.connections).await?)
        }
        _ => None,
    };
    let history = verify.as_ref().map(|verify| Arc::clone(&verify.history));

    let (report, mut observers) = about.open(Some(seed))?;
    observers.push(progress::observer(args.events, args.until()));
    if let Way::Http((writes, _), target) = &way {
        prepare(writes, &**target).await.map_err(NotStarted::unavailable)?;
    }

    let began = Instant::now();
    let writes = Arc::new(Pace::new(write_plan(&args, seed), began));
    let recorder = Recorder::new(began, args.warmup(), observers);
    let link = || match &way {
        Way::Http(endpoints, target) => Link::http(endpoints.clone(), Arc::clone(target), Arc::clone(&workload), args.encoding),
        Way::Store(store) => Link::store(store.clone(), Arc::clone(&workload)),
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
    let failure = lane::gather(drivers, || paces.iter().for_each(|pace| pace.close())).await;
    ticker.abort();
    recorder.skipped(writes.skipped());
    paces.iter().filter_map(|pace| pace.ends()).for_each(|ends| recorder.lasts(ends));
    let record = recorder.finish(Instant::now());
    let measured = !record.series.is_empty() || record.skipped > 0;
    let failure = failure.or((!measured).then_some(Stop::NothingMeasured));
    let verification = match verify {
        Some(verify) => Some(lane::unless_interrupted(verify.after(writes.slots())).await),
        None => None,
    };
    Ok((Outcome { record, failure, verification }, report))
}

/// What the command line says is driven; a store is connected.
async fn way(args: &RunArgs) -> Result<Way, NotStarted> {
    if args.rate == Rate::Nothing && args.reads.is_none() {
        return Err("--rate 0 sends no events: without --reads there is nothing to do".to_owned().into());
    }
    if args.verify && args.target != ServerKind::Braid {
        return Err("--verify reads back by Braid's own API: nothing else can be verified".to_owned().into());
    }
    if args.reads.is_some() && args.target == ServerKind::CqlRows {
        return Err("cql-rows is a baseline of writes: it has no --reads".to_owned().into());
    }
    let (timeout, retry_for) = (args.client.timeout.duration(), args.client.retry_for.duration());
    match target(args.target, &args.namespace, args.format, args.encoding)? {
        Some(target) => Ok(Way::Http(args.client.endpoints()?, target.into())),
        None => store(args, timeout, Patience::new(retry_for)).await.map(Way::Store).map_err(NotStarted::unavailable),
    }
}

async fn store(args: &RunArgs, timeout: Duration, patience: Patience) -> Result<Store, String> {
    let name = args.namespace.as_str();
    if args.target == ServerKind::CqlRows {
        return Rows::connect(args.cql_nodes(), name, patience).await.map(|rows| Store::Rows(Arc::new(rows)));
    }
    let (endpoint, sharding) = (args.dynamodb_endpoint.as_deref(), (args.suffixes(), args.suffix.unwrap_or_default()));
    Items::connect(endpoint, name.to_owned(), sharding, timeout, patience).await.map(|items| Store::Items(Arc::new(items)))
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
