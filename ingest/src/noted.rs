//! Which days of which keys are known to be in the store's directory, so that they are noted once.
//!
//! Bounded: the older half is forgotten when the younger is full, and days forgotten are noted again.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use braid_shared::model::Namespace;
use braid_shared::store::Day;

/// Days of either half, some 100 bytes each: keys that are written in turn, more than these, would be
/// looked up in the store for each of their blocks.
const HALF_MAX: usize = 256 * 1024;

type Entry = (Namespace, Arc<str>, Day);

/// A bounded set of (namespace, key, day).
pub(crate) struct NotedDays {
    halves: Mutex<Halves>,
    half_max: usize,
}

#[derive(Default)]
struct Halves {
    young: HashSet<Entry>,
    old: HashSet<Entry>,
}

impl NotedDays {
    pub(crate) fn new() -> NotedDays {
        NotedDays::bounded(HALF_MAX)
    }

    fn bounded(half_max: usize) -> NotedDays {
        NotedDays { halves: Mutex::default(), half_max }
    }

    /// Those of `days` that are not known to be noted, each once.
    pub(crate) fn missing<'a>(&self, ns: &Namespace, days: impl Iterator<Item = (&'a Arc<str>, Day)>) -> Vec<(Arc<str>, Day)> {
        let mut halves = self.halves.lock().expect("no holder panics");
        let mut missing = HashSet::new();
        let mut last = None;
        for (key, day) in days {
            // The suffixes of one key come one after another.
            if last == Some((key, day)) {
                continue;
            }
            last = Some((key, day));
            if !halves.knows(&(ns.clone(), key.clone(), day), self.half_max) {
                missing.insert((key.clone(), day));
            }
        }
        missing.into_iter().collect()
    }

    /// Remembers days that are durably noted.
    pub(crate) fn insert(&self, ns: &Namespace, days: Vec<(Arc<str>, Day)>) {
        let mut halves = self.halves.lock().expect("no holder panics");
        for (key, day) in days {
            halves.insert((ns.clone(), key, day), self.half_max);
        }
    }
}

impl Halves {
    fn knows(&mut self, entry: &Entry, half_max: usize) -> bool {
        if self.young.contains(entry) {
            return true;
        }
        match self.old.take(entry) {
            Some(entry) => {
                self.insert(entry, half_max);
                true
            }
            None => false,
        }
    }

    fn insert(&mut self, entry: Entry, half_max: usize) {
        if self.young.len() >= half_max {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(noted: &NotedDays, days: &[Day]) -> Vec<Day> {
        let key: Arc<str> = "k".into();
        let mut missing: Vec<Day> =
            noted.missing(&"ns".parse().unwrap(), days.iter().map(|day| (&key, *day))).into_iter().map(|(_, day)| day).collect();
        missing.sort_unstable();
        missing
    }

    fn insert(noted: &NotedDays, days: &[Day]) {
        noted.insert(&"ns".parse().unwrap(), days.iter().map(|day| ("k".into(), *day)).collect());
    }

    #[test]
    fn a_day_is_missing_once_until_it_is_noted() {
        let noted = NotedDays::new();
        assert_eq!(missing(&noted, &[1, 2, 1, 1]), [1, 2]);
        insert(&noted, &[1]);
        assert_eq!(missing(&noted, &[1, 2]), [2]);
    }

    #[test]
    fn memory_is_bounded_and_days_in_use_stay_known() {
        let noted = NotedDays::bounded(4);
        insert(&noted, &[0]);
        for day in 1..100 {
            assert_eq!(missing(&noted, &[0]), [] as [Day; 0]);
            insert(&noted, &[day]);
        }
        assert_eq!(missing(&noted, &[1]), [1]);
        let halves = noted.halves.lock().unwrap();
        assert!(halves.young.len() + halves.old.len() <= 8);
    }
}
