//! A seeded model test over HTTP: a random life of a namespace, and after each step every read must say what a few
//! lines of reference model say.
//!
//! `BRAID_SEED=7 cargo test --test e2e model` replays one seed, `BRAID_SEEDS=100` runs that many new ones.
//! Seeds that failed stay in `SEEDS`.

mod check;
mod life;
mod reference;

use crate::server::Server;
use life::Life;

/// Seeds that are always run; add those that failed, with what they found.
const SEEDS: &[u64] = &[
    1,
    2,
    // A page over all of time overflowed the sum of the stretches it had walked.
    578_726_036_381,
];
const STEPS: usize = 50;

fn live(seed: u64) {
    eprintln!("model: BRAID_SEED={seed}");
    let mut life = Life::new(Server::start(), seed);
    for step in 0..STEPS {
        let what = life.step();
        if std::env::var_os("BRAID_SEED").is_some() {
            eprintln!("model: seed {seed} step {step}: {what}");
        }
        life.check();
    }
    life.restart();
    life.check_all();
}

#[test]
fn whatever_happens_every_read_says_what_the_model_says() {
    let number = |name| std::env::var(name).ok().map(|text: String| text.parse::<u64>().unwrap_or_else(|_| panic!("{name} is a number")));
    if let Some(seed) = number("BRAID_SEED") {
        return live(seed);
    }
    if let Some(seeds) = number("BRAID_SEEDS") {
        let first = rand::random_range(1_000..1 << 40);
        return (first..first + seeds).for_each(live);
    }
    SEEDS.iter().copied().for_each(live);
}
