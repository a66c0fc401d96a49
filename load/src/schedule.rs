//! How many events are due when: the grammar of `--rate`, and its arithmetic. Pure.
//!
//! A schedule is a list of legs, each a rate that is constant or grows (falls) evenly; after the
//! last leg its last rate goes on. The number of events due by a time is the integral of the rate,
//! and the time of an event its inverse.

use std::str::FromStr;
use std::time::Duration;

use braid_shared::model::Span;

/// A rate over time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Schedule {
    legs: Vec<Leg>,
    /// Events a second once the legs are over.
    then: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Leg {
    /// When it begins, seconds, and how many events are due before it.
    begins: f64,
    before: f64,
    seconds: f64,
    from: f64,
    to: f64,
}

impl Leg {
    /// Events due within the first `t` seconds of it.
    fn by(&self, t: f64) -> f64 {
        self.from * t + (self.to - self.from) * t * t / (2.0 * self.seconds)
    }

    /// Seconds into it by which `events` of its own are due: the root of [`Leg::by`] in a form that
    /// holds for a constant rate too.
    fn due(&self, events: f64) -> f64 {
        let slope = (self.to - self.from) / self.seconds;
        let root = (self.from * self.from + 2.0 * slope * events).max(0.0).sqrt();
        if self.from + root > 0.0 { 2.0 * events / (self.from + root) } else { 0.0 }
    }
}

impl Schedule {
    /// When event `n`, from 0, is due.
    pub(crate) fn due(&self, n: u64) -> Duration {
        let n = n as f64;
        let leg = self.legs.iter().find(|leg| n < leg.before + leg.by(leg.seconds));
        let seconds = match leg {
            Some(leg) => leg.begins + leg.due(n - leg.before),
            None => self.length() + (n - self.planned()) / self.then,
        };
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// How many events are due before `at`.
    pub(crate) fn due_by(&self, at: Duration) -> u64 {
        let at = at.as_secs_f64();
        let over = at - self.length();
        let events = match self.legs.iter().rev().find(|leg| leg.begins <= at) {
            Some(leg) if over < 0.0 => leg.before + leg.by((at - leg.begins).min(leg.seconds)),
            _ => self.planned() + over.max(0.0) * self.then,
        };
        // Rounding must not turn the 1,000th event of a second into the next second's.
        (events - 1e-6).ceil().max(0.0) as u64
    }

    /// How long the legs take; nothing for a rate without an end.
    pub(crate) fn ends(&self) -> Option<Duration> {
        (!self.legs.is_empty()).then(|| Duration::from_secs_f64(self.length()))
    }

    fn length(&self) -> f64 {
        self.legs.last().map_or(0.0, |leg| leg.begins + leg.seconds)
    }

    fn planned(&self) -> f64 {
        self.legs.last().map_or(0.0, |leg| leg.before + leg.by(leg.seconds))
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Schedule, String> {
        if text.contains("..") && !text.contains('/') {
            return Err(format!("a ramp lacks how long it takes, such as {text}/30s"));
        }
        if !text.contains('/') {
            let then = rate(text)?;
            return if then > 0.0 { Ok(Schedule { legs: Vec::new(), then }) } else { Err("a rate must be more than 0".into()) };
        }
        let mut schedule = Schedule { legs: Vec::new(), then: 0.0 };
        for leg in text.split(',') {
            schedule.append(leg)?;
        }
        if schedule.planned() < 1.0 { Err("no event is ever due".into()) } else { Ok(schedule) }
    }
}

impl Schedule {
    fn append(&mut self, text: &str) -> Result<(), String> {
        let (rates, span) = text.split_once('/').ok_or_else(|| format!("`{text}` lacks how long it lasts, such as {text}/30s"))?;
        let span: Span = span.parse().map_err(|error| format!("`{span}`: {error}"))?;
        let (from, to) = match rates.split_once("..") {
            Some((from, to)) => (rate(from)?, rate(to)?),
            None => (rate(rates)?, rate(rates)?),
        };
        let leg = Leg { begins: self.length(), before: self.planned(), seconds: span.duration().as_secs_f64(), from, to };
        self.legs.push(leg);
        self.then = to;
        Ok(())
    }
}

/// Events a second: a number, with `k` or `M` for thousands and millions.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1e3),
        None => text.strip_suffix('M').map_or((text, 1.0), |number| (number, 1e6)),
    };
    match number.parse::<f64>() {
        Ok(number) if number.is_finite() && (0.0..=1e9).contains(&(number * unit)) && !text.starts_with(['+', '-']) => Ok(number * unit),
        _ => Err(format!("`{text}` is no rate: events a second, such as 500, 20k or 1.5M")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(text: &str) -> Schedule {
        text.parse().unwrap()
    }

    fn due(text: &str, n: u64) -> f64 {
        schedule(text).due(n).as_secs_f64()
    }

    #[test]
    fn a_constant_rate_is_even_and_has_no_end() {
        assert_eq!([0, 1, 1_000, 90_000].map(|n| due("1k", n)), [0.0, 0.001, 1.0, 90.0]);
        assert_eq!((schedule("1k").due_by(Duration::from_secs(3)), schedule("1k").ends()), (3_000, None));
    }

    #[test]
    fn steps_follow_each_other_and_the_last_goes_on() {
        let steps = "10/10s,50/2s";
        assert_eq!([0, 99, 100, 150, 200, 250].map(|n| due(steps, n)), [0.0, 9.9, 10.0, 11.0, 12.0, 13.0]);
        let by = [0, 5, 10, 11, 12, 13].map(|at| schedule(steps).due_by(Duration::from_secs(at)));
        assert_eq!(by, [0, 50, 100, 150, 200, 250]);
        assert_eq!(schedule(steps).ends(), Some(Duration::from_secs(12)));
    }

    #[test]
    fn a_ramp_is_the_integral_of_its_rate() {
        // 0 to 100 a second in 10 s: 5 t², so event 125 at 5 s, and 500 in all.
        assert_eq!((due("0..100/10s", 125), due("0..100/10s", 500)), (5.0, 10.0));
        assert_eq!(schedule("0..100/10s").due_by(Duration::from_secs(5)), 125);
        // Falling to nothing: the last event comes as the leg ends.
        assert_eq!(schedule("100..0/10s").due_by(Duration::from_secs(10)), 500);
        assert!(due("100..0/10s", 499) < 10.0);
    }

    #[test]
    fn a_time_and_its_events_agree() {
        for text in ["1.5M", "10k..200k/30s", "10k/30s,50k..20k/30s,0/5s,7/1s"] {
            let schedule = schedule(text);
            for n in (0..2_000_000).step_by(99_991) {
                let due = schedule.due(n);
                assert!(schedule.due_by(due) <= n + 1, "{text}: {n} is not due before its time");
                assert!(schedule.due_by(due + Duration::from_micros(1)) > n, "{text}: {n} is due after its time");
            }
        }
    }

    #[test]
    fn a_pause_is_a_leg_without_events() {
        assert_eq!([9, 10].map(|n| due("10/1s,0/5s,10/1s", n)), [0.9, 6.0]);
    }

    #[test]
    fn what_is_no_rate_is_refused_by_name() {
        for (text, said) in [
            ("", "no rate"),
            ("-5", "no rate"),
            ("ten", "no rate"),
            ("nan", "no rate"),
            ("0", "more than 0"),
            ("10k..20k", "such as 10k..20k/30s"),
            ("10k/30s,20k", "lacks how long"),
            ("10k/30", "length of time"),
            ("0/30s", "no event"),
        ] {
            let error = text.parse::<Schedule>().unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
