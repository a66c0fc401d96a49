//! Heavy hitters in bounded memory, each with a value that counts since it entered.
//!
//! The purging frequent-items sketch (Anderson et al., "A High-Performance Algorithm for Identifying
//! Frequent Items in Data Streams", 2017): when full, the median weight is taken off every entry and
//! those with none left go. Adding costs O(1) on average, and no entry's weight is less than the true
//! one by more than [`Sketch::lost`], which is at most 2 × (all weight) / capacity.

use std::collections::HashMap;
use std::hash::Hash;

/// At most `capacity` of the heaviest keys.
#[derive(Debug)]
pub(super) struct Sketch<K, V> {
    entries: HashMap<K, Entry<V>>,
    capacity: usize,
    lost: u64,
}

#[derive(Debug)]
struct Entry<V> {
    weight: u64,
    value: V,
}

impl<K: Eq + Hash, V: Default> Sketch<K, V> {
    pub(super) fn new(capacity: usize) -> Self {
        Sketch { entries: HashMap::new(), capacity, lost: 0 }
    }

    /// Adds weight to a key and lets its value count what it stands for.
    pub(super) fn add(&mut self, key: K, weight: u64, count: impl FnOnce(&mut V)) {
        if self.entries.len() >= self.capacity && !self.entries.contains_key(&key) {
            self.purge();
        }
        let entry = self.entries.entry(key).or_insert_with(|| Entry { weight: 0, value: V::default() });
        entry.weight = entry.weight.saturating_add(weight);
        count(&mut entry.value);
    }

    /// Most weight that any key may have beyond what its entry, or its absence, says.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    pub(super) fn into_entries(self) -> impl Iterator<Item = (K, V)> {
        self.entries.into_iter().map(|(key, entry)| (key, entry.value))
    }

    fn purge(&mut self) {
        let mut weights: Vec<u64> = self.entries.values().map(|entry| entry.weight).collect();
        let middle = weights.len() / 2;
        let median = *weights.select_nth_unstable(middle).1;
        self.entries.retain(|_, entry| {
            entry.weight = entry.weight.saturating_sub(median);
            entry.weight > 0
        });
        self.lost = self.lost.saturating_add(median);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
