//! A timeline: event time → group, append-only. Range first, hash within.

use smallvec::{SmallVec, smallvec};

use crate::model::{TimeRange, Timestamp};

/// Groups in order of their start, each holding until the next one begins. Most have one, which lies here: an event's
/// placement then follows one pointer less.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Timeline<G> {
    groups: SmallVec<[(Timestamp, G); 1]>,
}

/// A group would begin at or before the timeline's last start.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a group must begin after the timeline's last start, {last}")]
pub struct NotAfterLast {
    /// The timeline's last start.
    pub last: Timestamp,
}

impl<G> Default for Timeline<G> {
    fn default() -> Self {
        Timeline { groups: SmallVec::new() }
    }
}

impl<G> Timeline<G> {
    /// A timeline whose only group covers all time.
    pub fn from_start(group: G) -> Self {
        Timeline { groups: smallvec![(Timestamp::MIN, group)] }
    }

    /// Appends a group that begins at `from`.
    pub fn append(&mut self, from: Timestamp, group: G) -> Result<(), NotAfterLast> {
        match self.last_start() {
            Some(last) if from <= last => Err(NotAfterLast { last }),
            _ => {
                self.groups.push((from, group));
                Ok(())
            }
        }
    }

    /// Removes the groups that `gone` picks; what came before them then holds on.
    pub fn remove(&mut self, gone: impl Fn(&G) -> bool) {
        self.groups.retain(|(_, group)| !gone(group));
    }

    /// The group that holds at `ts`: the last one that began by then.
    pub fn at(&self, ts: Timestamp) -> Option<&G> {
        let after = self.groups.partition_point(|(from, _)| *from <= ts);
        after.checked_sub(1).map(|i| &self.groups[i].1)
    }

    /// Start of the last group.
    pub fn last_start(&self) -> Option<Timestamp> {
        self.groups.last().map(|(from, _)| *from)
    }

    /// Start of the first group.
    pub fn first_start(&self) -> Option<Timestamp> {
        self.groups.first().map(|(from, _)| *from)
    }

    /// Every group with its start, in order.
    pub fn groups(&self) -> impl DoubleEndedIterator<Item = (Timestamp, &G)> + ExactSizeIterator {
        self.groups.iter().map(|(from, group)| (*from, group))
    }

    /// The groups that hold somewhere in `range`, each with the part it holds, in order.
    pub fn within(&self, range: TimeRange) -> impl Iterator<Item = (TimeRange, &G)> {
        self.groups.iter().enumerate().filter_map(move |(i, (from, group))| {
            let to = self.groups.get(i + 1).map_or(Timestamp::MAX, |(next, _)| *next);
            let part = TimeRange { from: *from, to }.intersect(range);
            (!part.is_empty()).then_some((part, group))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ts(n: i64) -> Timestamp {
        Timestamp::from_nanos(n)
    }

    #[test]
    fn a_group_holds_from_its_start_until_the_next_begins() {
        let mut line = Timeline::from_start('a');
        line.append(ts(10), 'b').unwrap();
        line.append(ts(20), 'c').unwrap();
        assert_eq!(
            [ts(i64::MIN), ts(9), ts(10), ts(19), ts(20), ts(i64::MAX)].map(|t| *line.at(t).unwrap()),
            ['a', 'a', 'b', 'b', 'c', 'c']
        );
    }

    #[test]
    fn a_group_that_does_not_begin_after_the_last_is_refused() {
        let mut line = Timeline::from_start('a');
        line.append(ts(10), 'b').unwrap();
        assert_eq!(line.append(ts(10), 'c'), Err(NotAfterLast { last: ts(10) }));
    }

    #[test]
    fn a_range_is_cut_at_every_start_it_crosses() {
        let mut line = Timeline::from_start('a');
        line.append(ts(10), 'b').unwrap();
        let cut: Vec<_> = line.within(TimeRange { from: ts(5), to: ts(15) }).map(|(r, g)| (r.from.nanos(), r.to.nanos(), *g)).collect();
        assert_eq!(cut, [(5, 10, 'a'), (10, 15, 'b')]);
    }

    #[test]
    fn before_the_first_start_there_is_no_group() {
        let mut line = Timeline::default();
        line.append(ts(10), 'a').unwrap();
        assert_eq!(line.at(ts(9)), None);
    }
}
