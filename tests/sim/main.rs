//! A simulation of Braid (docs/PROOF.md): several nodes with production's catalog, ingest, query, controllers,
//! compaction, archiving and retention over one store, under crashes, pauses, clocks that jump, a store that fails in every
//! way it may, and layouts that change; an oracle of what was acknowledged judges every answer.
//!
//!     BRAID_SIM_SEEDS=5000 cargo test --test sim      more seeds, from BRAID_SIM_FIRST on
//!     BRAID_SIM_SEED=17 cargo test --test sim one     that seed alone, with its trace

mod answer;
mod chance;
mod clients;
mod climate;
mod clock;
mod ending;
mod line;
mod node;
mod oracle;
mod run;
mod tally;
mod trace;

use std::panic::resume_unwind;
use std::sync::Mutex;
use std::thread::{available_parallelism, scope};
use std::time::Instant;

use line::Lie;
use run::{Happened, run};
use tally::{Counts, What};

/// Seeds allocate and free all the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Seeds of each run of the tests.
const SEEDS: u64 = 24;
/// How often things must happen in a hundred seeds, or a green run says little.
const LEAST: [(What, u64); 20] = [
    (What::Acknowledged, 30_000),
    (What::Unknown, 10_000),
    (What::Refused, 5_000),
    (What::Reads, 1_500),
    (What::LayoutStale, 500),
    (What::Published, 150),
    (What::Withdrawn, 50),
    (What::Automatic, 15),
    (What::Ups, 60),
    (What::Downs, 40),
    (What::Crashes, 250),
    (What::StandStills, 300),
    (What::ClockJumps, 500),
    (What::Cuts, 150),
    (What::LateCalls, 500),
    (What::Compacted, 2_000),
    (What::Archived, 500),
    (What::LateMarks, 300),
    (What::Dropped, 500),
    (What::ArchiversKilled, 5),
];
/// Seeds that found a fault once.
const KEPT: &[u64] = &[245_682_908_217_094, 245_682_908_217_115];
/// Seeds within which a lie must be noticed.
const LIES_MAX: u64 = 300;

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

fn sound(seed: u64) -> Happened {
    match run(seed, None) {
        Ok((happened, _)) => happened,
        Err(failure) => panic!(
            "seed {seed}: {}\nBRAID_SIM_SEED={seed} cargo test --test sim one\nthe last lines:\n{}",
            failure.why,
            failure.trace.tail()
        ),
    }
}

/// Runs seeds, one on each processor.
fn all_sound(seeds: impl Iterator<Item = u64> + Send) -> Vec<Happened> {
    let seeds = Mutex::new(seeds);
    let next = || seeds.lock().expect("no holder panics").next();
    scope(|threads| {
        let work = || std::iter::from_fn(next).map(sound).collect::<Vec<_>>();
        let workers: Vec<_> = (0..available_parallelism().map_or(1, usize::from)).map(|_| threads.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

#[test]
fn what_is_acknowledged_is_read_whatever_happens() {
    let (first, seeds) = (from_environment("BRAID_SIM_FIRST").unwrap_or(0), from_environment("BRAID_SIM_SEEDS").unwrap_or(SEEDS));
    let (began, mut total) = (Instant::now(), Counts::new());
    for happened in all_sound(KEPT.iter().copied().chain(first..first + seeds)) {
        happened.counts.into_iter().for_each(|(what, count)| *total.entry(what).or_default() += count);
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{seeds} seeds in {seconds:.1} s, {:.0} a minute: {total:?}", seeds as f64 * 60.0 / seconds);
    let rare: Vec<_> = LEAST.iter().filter(|(what, least)| total.get(what).copied().unwrap_or(0) * 100 < least * seeds).collect();
    assert!(rare.is_empty(), "too little happened of {rare:?}");
}

#[test]
fn one_seed_alone() {
    if let Some(seed) = from_environment("BRAID_SIM_SEED") {
        match run(seed, None) {
            Ok((happened, trace)) => println!("{}\n{happened:?}", trace.all()),
            Err(failure) => panic!("{}\nseed {seed}: {}", failure.trace.all(), failure.why),
        }
    }
}

#[test]
fn one_seed_is_one_run() {
    for seed in [1, 2, 3] {
        assert_eq!(sound(seed), sound(seed));
    }
    assert_ne!(sound(1).hash, sound(2).hash);
}

/// Seeds are run until one notices that a store lies, by an acknowledged event that is not read.
fn is_noticed(lie: Lie) {
    let notices = |seed| run(seed, Some(lie)).err().filter(|failure| failure.why.contains("acknowledged as write"));
    let noticed = (0..LIES_MAX).find_map(|seed| Some((seed, notices(seed)?)));
    let (seed, failure) = noticed.unwrap_or_else(|| panic!("{lie:?} was not noticed by {LIES_MAX} seeds"));
    println!("{lie:?} was noticed by seed {seed}: {}", failure.why);
}

#[test]
fn canary_a_raised_promise_that_is_used_before_its_swap_is_known() {
    is_noticed(Lie::SwapsEarly);
}

#[test]
fn canary_an_append_that_is_acknowledged_and_not_done() {
    is_noticed(Lie::AppendsDropped);
}

#[test]
fn canary_a_scan_that_leaves_a_block_out() {
    is_noticed(Lie::ScansShort);
}
