//! Rates measured by targets: how many suffixes' worth a key's writes are. Pure.

use std::collections::HashMap;

use super::report::{KeyReport, Report};
use super::track::{Rate, Tracked};

/// What one suffix should take at most, per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Targets {
    /// Events.
    pub events: f64,
    /// Store units.
    pub units: f64,
}

impl Targets {
    /// How many suffixes at their target this rate would fill; the dimension that fills most counts.
    pub fn load(&self, rate: &Rate) -> f64 {
        (rate.events / self.events).max(rate.units / self.units)
    }
}

/// What all nodes together write to a key under one layout.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyLoad {
    /// Now.
    pub now: Rate,
    /// Over the window.
    pub window: Rate,
    /// The most written suffixes now, as far as nodes reported them.
    pub suffixes: HashMap<u32, Rate>,
}

impl KeyLoad {
    /// The hottest suffix and its rate.
    pub fn hottest(&self, targets: &Targets) -> Option<(u32, Rate)> {
        let by_load = |a: &(&u32, &Rate), b: &(&u32, &Rate)| targets.load(a.1).total_cmp(&targets.load(b.1)).then(b.0.cmp(a.0));
        self.suffixes.iter().max_by(by_load).map(|(suffix, rate)| (*suffix, *rate))
    }

    /// How much hotter the hottest suffix is than the mean of `shards`: 1 is even.
    pub fn skew(&self, targets: &Targets, shards: u32) -> Option<f64> {
        let mean = targets.load(&self.now) / f64::from(shards.max(1));
        let (_, hottest) = self.hottest(targets)?;
        (mean > 0.0).then(|| targets.load(&hottest) / mean)
    }

    fn add(&mut self, report: &KeyReport) {
        self.now.add(report.now);
        self.window.add(report.window);
        for (suffix, rate) in &report.suffixes {
            self.suffixes.entry(*suffix).or_default().add(*rate);
        }
    }
}

/// The sum of all reports, by key and layout.
pub fn sum<'a>(reports: impl IntoIterator<Item = &'a Report>) -> HashMap<Tracked, KeyLoad> {
    let mut loads: HashMap<Tracked, KeyLoad> = HashMap::new();
    for key in reports.into_iter().flat_map(|report| &report.keys) {
        loads.entry(key.tracked()).or_default().add(key);
    }
    loads
}
