//! The life of a bucket on its way from the store to table files: the rules by which no
//! acknowledged event is lost (DESIGN section 8).
//!
//! Pure; the archiver, writers, readers, retention and the model call these same functions. Each
//! invariant is named once, here; docs and tests use the names:
//!
//! | name | invariant |
//! |---|---|
//! | COLD-1 | closing and dropped only grow |
//! | COLD-2 | a generation is opened only of a due bucket, a grace after its archiver saw that stand |
//! | COLD-3 | opening clears the mark, and stands before the hot side is read |
//! | COLD-4 | only the open generation is published, and a mark set since it was opened survives |
//! | COLD-5 | a stored block is acknowledged at once only by a view that is younger than the write deadline and shows its bucket not due; else once the mark was seen to stand |
//! | COLD-6 | readers skip the hot side only of a published bucket that is neither marked nor open |
//! | COLD-7 | exactly the blocks that a published generation archived, and the files that it replaced, are deleted, a grace after it was seen to stand |
//! | COLD-8 | what was read counts only if it was read within the deadline since the read of the catalog that it was planned on began |
//! | COLD-9 | dropped stands for a grace before anything is deleted for it; nothing below it is taken or answered |
//! | COLD-10 | a group begins at or after closing, and after the last one; the first one at −∞ |
//!
//! Why they suffice. A block that was acknowledged at once was durable before its writer's view was a
//! write deadline old, so before a grace had passed since the bucket became due: the first generation
//! reads it (2, 5). Any other acknowledged block was durable when the mark stood; the generation that
//! clears the mark reads it (3), and until one that does is published, readers read the hot side
//! (4, 6). A reader that was planned before a publication ends before the grace does, so what it was
//! planned on still stands (7, 8). Pauses only make readers and writers give up and deleters late.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::{TimeRange, Timestamp};

/// Closing and dropped only grow.
pub const COLD_1: &str = "COLD-1";
/// A generation is opened only of a due bucket, a grace after its archiver saw that stand.
pub const COLD_2: &str = "COLD-2";
/// Opening clears the mark, and stands before the hot side is read.
pub const COLD_3: &str = "COLD-3";
/// Only the open generation is published, and a mark set since it was opened survives.
pub const COLD_4: &str = "COLD-4";
/// A late block is acknowledged only once the mark was seen to stand.
pub const COLD_5: &str = "COLD-5";
/// Readers skip the hot side only of a published bucket that is neither marked nor open.
pub const COLD_6: &str = "COLD-6";
/// Exactly what was archived or replaced is deleted, a grace after the publication stood.
pub const COLD_7: &str = "COLD-7";
/// A read counts only within the deadline since the read of the catalog that it was planned on began.
pub const COLD_8: &str = "COLD-8";
/// Dropped stands for a grace before anything is deleted for it.
pub const COLD_9: &str = "COLD-9";
/// A group begins at or after closing, and after the last one.
pub const COLD_10: &str = "COLD-10";

/// What the catalog says of a namespace's cold history, apart from its groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// Buckets that end at or before it are due to be archived.
    pub closing: Timestamp,
    /// Events before it are gone.
    pub dropped: Timestamp,
}

impl Default for Facts {
    /// Nothing is due, nothing dropped.
    fn default() -> Facts {
        Facts { closing: Timestamp::MIN, dropped: Timestamp::MIN }
    }
}

/// Random bits of one generation: in its files' names, and never used twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Nonce(pub u128);

/// A bucket's entry in the manifest; none: nothing of it was ever archived, and no late event came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Generations that were ever opened.
    pub generation: u64,
    /// The one being written, if one is.
    pub open: Option<Nonce>,
    /// The mark: events came that no published generation holds, as far as their writer knew.
    pub late: bool,
    /// What readers read.
    pub published: Option<Published>,
    /// What was published before, until its files are deleted.
    pub replaced: Vec<Published>,
    /// Whether the blocks that the published generation archived, and what it replaced, are deleted.
    pub swept: bool,
}

/// A published generation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Which one.
    pub nonce: Nonce,
    /// Ordinal of the group that placed it.
    pub group: u32,
    /// The table's number in it.
    pub table: u32,
    /// Its files, by time; disjoint.
    pub files: Vec<TableFile>,
    /// Documents that list the blocks it archived.
    pub lists: u32,
}

/// One table file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableFile {
    /// Path below the database's URL.
    pub path: String,
    /// Length.
    pub bytes: u64,
    /// `xxh3_64` of its bytes.
    pub checksum: u64,
    /// Events inside.
    pub rows: u64,
    /// Least event time inside, nanoseconds.
    pub min_ts: i64,
    /// Greatest event time inside, nanoseconds.
    pub max_ts: i64,
}

/// Where a bucket is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources {
    /// Its partitions in the store.
    pub hot: bool,
    /// The files of its published generation.
    pub cold: bool,
}

/// What a writer may do with a block that is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ack {
    /// Acknowledge it.
    Now,
    /// Acknowledge it once the mark was seen to stand.
    Marked,
    /// Refuse it: its bucket is dropped.
    Refused,
}

/// What is left to do for a due bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Nothing.
    Nothing,
    /// Archive it: open the next generation.
    Archive,
    /// Delete what the published generation archived and replaced.
    Sweep,
}

/// The generation is not the open one any more: another archiver took over, or the bucket was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another generation was opened, or the bucket was dropped")]
pub struct Overtaken;

/// COLD-1: the value that is swapped in for `stands`, if that is any higher.
pub fn raised(stands: Timestamp, to: Timestamp) -> Option<Timestamp> {
    (to > stands).then_some(to)
}

/// Whether a bucket with this range is due.
pub fn is_due(closing: Timestamp, bucket: TimeRange) -> bool {
    bucket.to <= closing
}

/// Whether a bucket with this range is gone.
pub fn is_dropped(dropped: Timestamp, bucket: TimeRange) -> bool {
    bucket.to <= dropped
}

/// COLD-2, COLD-7, COLD-9: whether a grace has passed. `waited` must never be more than what passed
/// in truth: a boot-time clock measures it, not a wall clock that may be set ahead.
pub fn grace_passed(waited: Duration, grace: Duration) -> bool {
    waited >= grace
}

/// COLD-8: whether what was read counts. `elapsed` must never be less than what passed in truth.
pub fn in_time(elapsed: Duration, deadline: Duration) -> bool {
    elapsed < deadline
}

/// COLD-3: a bucket's entry with its next generation open.
pub fn opened(before: Option<&Entry>, nonce: Nonce) -> Entry {
    let before = before.cloned().unwrap_or_default();
    Entry { generation: before.generation + 1, open: Some(nonce), late: false, ..before }
}

/// COLD-4: a bucket's entry with its open generation published.
pub fn published(entry: Option<&Entry>, new: Published) -> Result<Entry, Overtaken> {
    let entry = entry.filter(|entry| entry.open == Some(new.nonce)).ok_or(Overtaken)?;
    let replaced = entry.replaced.iter().chain(&entry.published).cloned().collect();
    Ok(Entry { open: None, published: Some(new), replaced, swept: false, ..entry.clone() })
}

/// COLD-5: a bucket's entry with the mark, unless that stands already.
pub fn marked(entry: Option<&Entry>) -> Option<Entry> {
    match entry {
        Some(entry) if entry.late => None,
        entry => Some(Entry { late: true, ..entry.cloned().unwrap_or_default() }),
    }
}

/// COLD-5: what a writer may do with a durable block of a bucket, by a view of this age.
pub fn ack(facts: Facts, bucket: TimeRange, view_age: Duration, write_deadline: Duration) -> Ack {
    if is_dropped(facts.dropped, bucket) {
        Ack::Refused
    } else if in_time(view_age, write_deadline) && !is_due(facts.closing, bucket) {
        Ack::Now
    } else {
        Ack::Marked
    }
}

/// COLD-6: where a bucket is read.
pub fn sources(entry: Option<&Entry>) -> Sources {
    let Some(entry) = entry else { return Sources { hot: true, cold: false } };
    let cold = entry.published.is_some();
    Sources { hot: !cold || entry.late || entry.open.is_some(), cold }
}

/// COLD-7: the generation whose blocks and predecessors are to be deleted, once a grace has passed
/// since it was seen.
pub fn sweepable(entry: &Entry) -> Option<&Published> {
    entry.published.as_ref().filter(|_| !entry.swept)
}

/// COLD-7: a bucket's entry when what generation `nonce` archived and replaced is deleted; nothing
/// to record where another one was published meanwhile.
pub fn swept(entry: Option<&Entry>, nonce: Nonce) -> Option<Entry> {
    let entry = entry.filter(|entry| sweepable(entry).is_some_and(|published| published.nonce == nonce))?;
    Some(Entry { replaced: Vec::new(), swept: true, ..entry.clone() })
}

/// What is left to do for a due bucket that has blocks in the store, or has none. A generation that
/// was left open by an archiver that is gone is followed by the next one.
pub fn work(entry: Option<&Entry>, has_blocks: bool) -> Work {
    match entry {
        None if has_blocks => Work::Archive,
        None => Work::Nothing,
        Some(entry) if entry.late || entry.open.is_some() => Work::Archive,
        Some(entry) if sweepable(entry).is_some() => Work::Sweep,
        // Blocks behind a swept generation came late and were never acknowledged, or their writer is about to set the mark.
        Some(_) => Work::Nothing,
    }
}

/// Why a group may not be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupRefused {
    /// The first group covers all time from the beginning.
    #[error("the first group holds from the beginning of time, not from {from}")]
    FirstHasStart {
        /// The start that was given.
        from: Timestamp,
    },
    /// A later group needs a start.
    #[error("a group that is not the first needs a start")]
    NoStart,
    /// Buckets from its start on may be archived already.
    #[error("a group would begin at {from}, and what lies before {closing} may be archived already")]
    Archived {
        /// Its start.
        from: Timestamp,
        /// Where a group may begin.
        closing: Timestamp,
    },
    /// It would not be an append.
    #[error("a group would begin at {from}, not after the last one, which begins at {last}")]
    NotAfterLast {
        /// Its start.
        from: Timestamp,
        /// Where the last one begins.
        last: Timestamp,
    },
}

/// COLD-10: where a group begins, given closing as the swap finds it, the last group's start and the
/// start that is asked for.
pub fn may_add_group(closing: Timestamp, last: Option<Timestamp>, from: Option<Timestamp>) -> Result<Timestamp, GroupRefused> {
    match (last, from) {
        (None, None) => Ok(Timestamp::MIN),
        (None, Some(from)) if from == Timestamp::MIN => Ok(from),
        (None, Some(from)) => Err(GroupRefused::FirstHasStart { from }),
        (Some(_), None) => Err(GroupRefused::NoStart),
        (Some(last), Some(from)) if from <= last => Err(GroupRefused::NotAfterLast { from, last }),
        (Some(_), Some(from)) if from < closing => Err(GroupRefused::Archived { from, closing }),
        (Some(_), Some(from)) => Ok(from),
    }
}

impl From<Nonce> for String {
    fn from(nonce: Nonce) -> String {
        nonce.to_string()
    }
}

impl TryFrom<String> for Nonce {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Nonce, Self::Error> {
        text.parse()
    }
}

impl FromStr for Nonce {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Nonce, Self::Err> {
        u128::from_str_radix(text, 16).map(Nonce)
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonce({:x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(60);
    const DEADLINE: Duration = Duration::from_secs(30);

    fn ts(n: i64) -> Timestamp {
        Timestamp::from_nanos(n)
    }

    fn range(from: i64, to: i64) -> TimeRange {
        TimeRange { from: ts(from), to: ts(to) }
    }

    fn generation(nonce: u128) -> Published {
        Published { nonce: Nonce(nonce), group: 1, table: 0, files: Vec::new(), lists: 1 }
    }

    fn facts(closing: i64, dropped: i64) -> Facts {
        Facts { closing: ts(closing), dropped: ts(dropped) }
    }

    #[test]
    fn cold_1_facts_only_grow() {
        assert_eq!(raised(ts(5), ts(6)), Some(ts(6)));
        assert_eq!((raised(ts(5), ts(5)), raised(ts(5), ts(4))), (None, None));
    }

    #[test]
    fn cold_2_a_bucket_is_due_when_all_of_it_is() {
        assert!(is_due(ts(10), range(0, 10)));
        assert!(!is_due(ts(9), range(0, 10)));
        assert!(grace_passed(GRACE, GRACE) && !grace_passed(GRACE - Duration::from_nanos(1), GRACE));
    }

    #[test]
    fn cold_3_opening_clears_the_mark_and_replaces_an_open_generation() {
        let late = marked(None).unwrap();
        let open = opened(Some(&late), Nonce(1));
        assert_eq!((open.generation, open.open, open.late), (1, Some(Nonce(1)), false));
        let again = opened(Some(&open), Nonce(2));
        assert_eq!((again.generation, again.open), (2, Some(Nonce(2))));
    }

    #[test]
    fn cold_4_only_the_open_generation_is_published_and_a_mark_survives() {
        let open = opened(None, Nonce(1));
        assert_eq!(published(Some(&opened(Some(&open), Nonce(2))), generation(1)), Err(Overtaken));
        assert_eq!(published(None, generation(1)), Err(Overtaken));
        let late = marked(Some(&open)).unwrap();
        let first = published(Some(&late), generation(1)).unwrap();
        assert!(first.late && first.open.is_none() && !first.swept);
        assert_eq!(published(Some(&first), generation(1)), Err(Overtaken));
        let second = published(Some(&opened(Some(&first), Nonce(2))), generation(2)).unwrap();
        assert_eq!((second.published, second.replaced), (Some(generation(2)), vec![generation(1)]));
    }

    #[test]
    fn cold_5_only_a_young_view_of_a_bucket_that_is_not_due_acknowledges_at_once() {
        let young = DEADLINE - Duration::from_nanos(1);
        assert_eq!(ack(facts(9, 0), range(0, 10), young, DEADLINE), Ack::Now);
        assert_eq!(ack(facts(9, 0), range(0, 10), DEADLINE, DEADLINE), Ack::Marked);
        assert_eq!(ack(facts(10, 0), range(0, 10), young, DEADLINE), Ack::Marked);
        assert_eq!(ack(facts(10, 10), range(0, 10), young, DEADLINE), Ack::Refused);
        let open = opened(None, Nonce(1));
        let mark = marked(Some(&open)).expect("an open generation is no mark");
        assert_eq!(marked(Some(&mark)), None);
    }

    #[test]
    fn cold_6_the_hot_side_is_skipped_only_behind_a_whole_generation() {
        let hot = |entry: Option<&Entry>| sources(entry).hot;
        let open = opened(None, Nonce(1));
        let done = published(Some(&open), generation(1)).unwrap();
        assert!(hot(None) && hot(Some(&open)) && hot(marked(None).as_ref()));
        assert_eq!(sources(Some(&done)), Sources { hot: false, cold: true });
        assert_eq!(sources(marked(Some(&done)).as_ref()), Sources { hot: true, cold: true });
        assert_eq!(sources(Some(&opened(Some(&done), Nonce(2)))), Sources { hot: true, cold: true });
    }

    #[test]
    fn cold_7_what_is_swept_is_recorded_only_of_the_published_generation() {
        let first = published(Some(&opened(None, Nonce(1))), generation(1)).unwrap();
        let second = published(Some(&opened(Some(&first), Nonce(2))), generation(2)).unwrap();
        assert_eq!(sweepable(&second), Some(&generation(2)));
        assert_eq!(swept(Some(&second), Nonce(1)), None);
        let clean = swept(Some(&second), Nonce(2)).unwrap();
        assert!(clean.swept && clean.replaced.is_empty());
        assert_eq!((sweepable(&clean), swept(Some(&clean), Nonce(2))), (None, None));
    }

    #[test]
    fn an_archiver_does_what_is_left_and_follows_one_that_is_gone() {
        let open = opened(None, Nonce(1));
        let done = published(Some(&open), generation(1)).unwrap();
        let clean = swept(Some(&done), Nonce(1)).unwrap();
        assert_eq!((work(None, false), work(None, true)), (Work::Nothing, Work::Archive));
        assert_eq!((work(Some(&open), false), work(Some(&done), true)), (Work::Archive, Work::Sweep));
        assert_eq!((work(Some(&clean), false), work(marked(Some(&clean)).as_ref(), true)), (Work::Nothing, Work::Archive));
    }

    #[test]
    fn an_entry_survives_its_text() {
        let open = opened(marked(None).as_ref(), Nonce(u128::MAX));
        let mut entry = published(Some(&open), generation(u128::MAX)).unwrap();
        entry.published.as_mut().unwrap().files.push(TableFile {
            path: "a/b".into(),
            bytes: u64::MAX,
            checksum: u64::MAX,
            rows: 1,
            min_ts: i64::MIN,
            max_ts: i64::MAX,
        });
        let text = serde_json::to_string(&entry).unwrap();
        assert_eq!(serde_json::from_str::<Entry>(&text).unwrap(), entry);
    }
}
