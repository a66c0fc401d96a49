//! Which keys there are, and which of them a draw falls on. Pure.

use braid_shared::model::Timestamp;

use super::chance::at_most;

const DAY_MILLIS: i64 = 86_400_000;

/// How events are spread over keys.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Choice {
    /// All on one key.
    One,
    /// Evenly over so many.
    Uniform(u32),
    /// Over so many, key `i` with weight `(i + 1)^-s`.
    Zipf(u32, f64),
    /// By the UTC date of the event.
    Daily,
}

/// The keys of a run.
#[derive(Debug)]
pub(crate) struct Keys {
    name: String,
    count: u32,
    alias: Option<Alias>,
    daily: bool,
}

impl Keys {
    /// One key is `name`; of several, key `i` is `name-i`; a daily key is its date, after `name` and
    /// `/` unless that is empty.
    pub(crate) fn new(name: &str, choice: Choice) -> Keys {
        let (count, alias) = match choice {
            Choice::One | Choice::Daily => (1, None),
            Choice::Uniform(count) => (count, None),
            Choice::Zipf(count, s) => (count, Some(Alias::zipf(count, s))),
        };
        Keys { name: name.to_owned(), count, alias, daily: choice == Choice::Daily }
    }

    /// What all names begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.name
    }

    /// How many there are, unless they are days.
    pub(crate) fn count(&self) -> Option<u32> {
        (!self.daily).then_some(self.count)
    }

    /// The key of an event at `millis` whose draw is `draw`.
    pub(super) fn choose(&self, draw: u64, millis: i64) -> u32 {
        match &self.alias {
            _ if self.daily => millis.div_euclid(DAY_MILLIS).clamp(0, u32::MAX.into()) as u32,
            Some(alias) => alias.choose(draw),
            None => at_most(draw, u64::from(self.count) - 1) as u32,
        }
    }

    pub(crate) fn name(&self, key: u32) -> String {
        if self.daily {
            let date = date(key);
            return if self.name.is_empty() { date } else { format!("{}/{date}", self.name) };
        }
        if self.count == 1 { self.name.clone() } else { format!("{}-{key}", self.name) }
    }
}

/// The date of a day since the Unix epoch.
fn date(day: u32) -> String {
    let nanos = i64::from(day).saturating_mul(DAY_MILLIS * 1_000_000);
    let text = Timestamp::from_nanos(nanos).to_string();
    text[..text.find('T').unwrap_or(text.len())].to_owned()
}

/// Walker's alias method: one draw, two looks, whatever the weights. 8 bytes a key.
#[derive(Debug)]
struct Alias {
    /// Of each column, the part (of 2^32) that is its own, and whose the rest is.
    columns: Vec<(u32, u32)>,
}

impl Alias {
    fn zipf(count: u32, s: f64) -> Alias {
        let weights: Vec<f64> = (0..count).map(|rank| (f64::from(rank) + 1.0).powf(-s)).collect();
        Alias::new(&weights)
    }

    /// Vose's construction: columns that are too low are filled up from ones that are too high.
    fn new(weights: &[f64]) -> Alias {
        let scale = weights.len() as f64 / weights.iter().sum::<f64>();
        let mut rest: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
        let mut columns: Vec<(u32, u32)> = (0..weights.len() as u32).map(|own| (u32::MAX, own)).collect();
        let (mut low, mut high): (Vec<usize>, Vec<usize>) = (0..weights.len()).partition(|i| rest[*i] < 1.0);
        while let (Some(under), Some(&over)) = (low.pop(), high.last()) {
            columns[under] = ((rest[under] * 4_294_967_296.0) as u32, over as u32);
            rest[over] -= 1.0 - rest[under];
            if rest[over] < 1.0 {
                high.pop();
                low.push(over);
            }
        }
        Alias { columns }
    }

    fn choose(&self, draw: u64) -> u32 {
        let column = at_most(draw >> 32 << 32, self.columns.len() as u64 - 1) as u32;
        let (own, other) = self.columns[column as usize];
        if (draw as u32) <= own { column } else { other }
    }
}

#[cfg(test)]
mod tests {
    use super::super::chance::mix;
    use super::*;

    fn counts(keys: &Keys, draws: u64) -> Vec<u64> {
        let mut counts = vec![0; keys.count().unwrap() as usize];
        (0..draws).for_each(|n| counts[keys.choose(mix(n), 0) as usize] += 1);
        counts
    }

    #[test]
    fn zipf_gives_each_key_its_weight() {
        let counts = counts(&Keys::new("k", Choice::Zipf(1_000, 1.0)), 1_000_000);
        // The harmonic number of 1,000 is 7.4855.
        for rank in [1, 2, 3, 10, 100] {
            let expected = 1e6 / 7.485_47 / f64::from(rank);
            let found = counts[rank as usize - 1] as f64;
            assert!((found / expected - 1.0).abs() < 5.0 / expected.sqrt(), "{rank}: {found}, not {expected}");
        }
        assert!(counts.iter().all(|count| *count > 0));
    }

    #[test]
    fn uniform_reaches_every_key_evenly() {
        let counts = counts(&Keys::new("k", Choice::Uniform(10)), 100_000);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn keys_are_named_by_their_number_or_their_day() {
        assert_eq!(Keys::new("hot", Choice::One).name(0), "hot");
        assert_eq!(Keys::new("hot", Choice::Uniform(2)).name(1), "hot-1");
        let daily = Keys::new("", Choice::Daily);
        // 2024-02-29 is the 19,782nd day.
        assert_eq!(daily.name(daily.choose(1, 19_782 * DAY_MILLIS + 86_399_999)), "2024-02-29");
        assert_eq!(Keys::new("orders", Choice::Daily).name(0), "orders/1970-01-01");
    }
}
