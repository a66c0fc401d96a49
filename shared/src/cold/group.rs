//! Groups: which database holds a bucket's table. Range first, hash within, as for the hot side.
//!
//! Pure. A group says how many tables there are from some event time on, and deals them to
//! databases by weight; a namespace's groups are a [`Timeline`], contiguous from −∞, append-only.

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::rules::{GroupRefused, may_add_group};
use crate::limits::{COLD_DATABASES_MAX, COLD_GROUPS_MAX, COLD_TABLES_MAX, NAMESPACE_BYTES_MAX, STRING_BYTES_MAX};
use crate::model::Timestamp;
use crate::partition::ordered_time;
use crate::timeline::Timeline;

/// A database of a group: a place for tables, and how many of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// What operators call it; distinct in its group.
    pub name: String,
    /// Where it is: `file:///directory` or `s3://bucket/prefix`.
    pub url: String,
    /// Its weight: how many of the group's tables it holds, > 0.
    pub tables: u32,
}

/// Tables and the databases that share them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Tables, 1 to 4,096: the sum of the databases' weights.
    pub tables: u32,
    /// The databases, in the order in which tables are dealt to them.
    pub databases: Vec<Database>,
}

/// Why a group was refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupFault {
    /// A number, name or URL out of bounds.
    #[error("{0}")]
    Invalid(String),
    /// It would not be an append.
    #[error(transparent)]
    Refused(#[from] GroupRefused),
}

/// A namespace's groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Groups(Timeline<Arc<Group>>);

/// Where the table of a bucket lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Ordinal of the group, from 1; never changes, since groups are only appended.
    pub group: u32,
    /// The table's number in the group.
    pub table: u32,
    /// The database that holds it.
    pub database: Database,
}

/// The name that is hashed into a table: key, then bucket, neither of which can reach into the other.
fn table_hash(key: &str, bucket: Timestamp) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(key.as_bytes());
    hasher.update(&ordered_time(bucket));
    hasher.digest()
}

/// `xxh3_64(key, bucket) mod tables`: the key's bytes, then the bucket's start as eight bytes,
/// big-endian, its sign flipped so that they sort as the time does.
pub fn table_of(key: &str, bucket: Timestamp, tables: u32) -> u32 {
    (table_hash(key, bucket) % u64::from(tables)) as u32
}

impl Group {
    /// Checks the bounds of a group.
    pub fn check(&self) -> Result<(), GroupFault> {
        let invalid = |why: String| Err(GroupFault::Invalid(why));
        if !(1..=COLD_TABLES_MAX).contains(&self.tables) {
            return invalid(format!("tables must be 1 to {COLD_TABLES_MAX}"));
        }
        if !(1..=COLD_DATABASES_MAX).contains(&self.databases.len()) {
            return invalid(format!("a group has 1 to {COLD_DATABASES_MAX} databases"));
        }
        let mut names = HashSet::new();
        for database in &self.databases {
            database.check()?;
            if !names.insert(&*database.name) {
                return invalid(format!("database {} is named twice", database.name));
            }
        }
        let dealt: u64 = self.databases.iter().map(|database| u64::from(database.tables)).sum();
        if dealt != u64::from(self.tables) {
            return invalid(format!("the databases hold {dealt} tables together, and the group has {}", self.tables));
        }
        Ok(())
    }

    /// The database that holds table `index`: the first ones hold the lowest indices.
    pub fn database_of(&self, index: u32) -> &Database {
        let mut end = 0;
        let found = self.databases.iter().find(|database| {
            end += database.tables;
            index < end
        });
        found.unwrap_or(&self.databases[self.databases.len() - 1])
    }
}

impl Database {
    fn check(&self) -> Result<(), GroupFault> {
        let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-' || b == b'.';
        let (name, url) = (&self.name, &self.url);
        if name.is_empty() || name.len() > NAMESPACE_BYTES_MAX || !name.bytes().all(word) {
            return Err(GroupFault::Invalid(format!("{name:?} is no name of a database: 1 to {NAMESPACE_BYTES_MAX} of A-Z a-z 0-9 _ . -")));
        }
        if self.tables == 0 {
            return Err(GroupFault::Invalid(format!("database {name} has no tables")));
        }
        // Whoever may list groups sees the URL: no credentials belong into it.
        let place = |rest: &str| !rest.is_empty() && !rest.starts_with('/') && !rest.contains(['@', '?', '#']);
        let known = url.strip_prefix("file:///").is_some_and(|rest| !rest.is_empty()) || url.strip_prefix("s3://").is_some_and(place);
        if !known || url.len() > STRING_BYTES_MAX {
            return Err(GroupFault::Invalid(format!("database {name}: its URL is not file:///DIRECTORY or s3://BUCKET/PREFIX")));
        }
        Ok(())
    }
}

impl Groups {
    /// Appends a group. The first one begins at −∞ (no `from`); later ones where nothing is
    /// archived yet and after the last one.
    pub fn append(&mut self, closing: Timestamp, from: Option<Timestamp>, group: Group) -> Result<Timestamp, GroupFault> {
        group.check()?;
        if self.0.groups().len() >= COLD_GROUPS_MAX {
            return Err(GroupFault::Invalid(format!("a namespace may have no more than {COLD_GROUPS_MAX} groups")));
        }
        let from = may_add_group(closing, self.0.last_start(), from)?;
        self.0.append(from, Arc::new(group)).map_err(|refused| GroupRefused::NotAfterLast { from, last: refused.last })?;
        Ok(from)
    }

    /// Restores a group that was checked when it was added.
    pub fn restore(&mut self, from: Timestamp, group: Group) -> Result<(), &'static str> {
        group.check().map_err(|_| "a cold group is out of bounds")?;
        let contiguous = self.0.last_start().is_some() || from == Timestamp::MIN;
        let appended = contiguous && self.0.append(from, Arc::new(group)).is_ok();
        if appended { Ok(()) } else { Err("a cold group does not begin after the one before it") }
    }

    /// Where the table of a bucket of `key` lies; nowhere while there is no group.
    pub fn place(&self, key: &str, bucket: Timestamp) -> Option<Place> {
        let group = self.0.at(bucket)?;
        let ordinal = self.0.groups().take_while(|(from, _)| *from <= bucket).count();
        let table = table_of(key, bucket, group.tables);
        Some(Place { group: ordinal as u32, table, database: group.database_of(table).clone() })
    }

    /// The database of a table that is named by its group's ordinal; what a manifest entry says.
    pub fn database(&self, group: u32, table: u32) -> Option<&Database> {
        let (_, found) = self.0.groups().nth((group as usize).checked_sub(1)?)?;
        (table < found.tables).then(|| found.database_of(table))
    }

    /// Every group with its start, in order.
    pub fn listed(&self) -> impl ExactSizeIterator<Item = (Timestamp, &Group)> {
        self.0.groups().map(|(from, group)| (from, &**group))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.groups().len() == 0
    }

    /// Whether every group of `before` is here, where it was.
    pub fn continues(&self, before: &Groups) -> bool {
        self.0.groups().len() >= before.0.groups().len() && self.0.groups().zip(before.0.groups()).all(|(new, old)| new == old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(name: &str, tables: u32) -> Database {
        Database { name: name.into(), url: format!("file:///cold/{name}"), tables }
    }

    fn group(weights: &[u32]) -> Group {
        let databases = weights.iter().enumerate().map(|(i, tables)| database(&format!("db{i}"), *tables)).collect();
        Group { tables: weights.iter().sum(), databases }
    }

    fn ts(n: i64) -> Timestamp {
        Timestamp::from_nanos(n)
    }

    #[test]
    fn weights_of_four_three_and_three_deal_ten_tables_out_in_order() {
        let group = group(&[4, 3, 3]);
        let names: Vec<&str> = (0..10).map(|index| &*group.database_of(index).name).collect();
        assert_eq!(names, ["db0", "db0", "db0", "db0", "db1", "db1", "db1", "db2", "db2", "db2"]);
    }

    #[test]
    fn a_tables_number_is_the_hash_of_key_and_bucket_one_behind_the_other() {
        assert_eq!(table_hash("orders", ts(0)), xxhash_rust::xxh3::xxh3_64(b"orders\x80\0\0\0\0\0\0\0"));
        assert_eq!(table_hash("orders", ts(-1)), xxhash_rust::xxh3::xxh3_64(b"orders\x7f\xff\xff\xff\xff\xff\xff\xff"));
        let spread: HashSet<u32> = (0..100).map(|i| table_of("orders", ts(i * 3_600_000_000_000), 10)).collect();
        assert_eq!(spread.len(), 10, "one hot key's history spreads over every table");
    }

    #[test]
    fn a_million_buckets_spread_by_the_weights_within_two_percent() {
        let group = group(&[4, 3, 3]);
        let mut tables = [0_u32; 10];
        for key in 0..1_000 {
            let key = format!("key-{key}");
            (0..1_000).for_each(|hour| tables[table_of(&key, ts(hour * 3_600_000_000_000), group.tables) as usize] += 1);
        }
        let within = |count: u32, share: f64| (f64::from(count) / (share * 1e6) - 1.0).abs() < 0.02;
        assert!(tables.iter().all(|count| within(*count, 0.1)), "{tables:?}");
        let by_database = |range: std::ops::Range<usize>| tables[range].iter().sum::<u32>();
        for (count, share) in [(by_database(0..4), 0.4), (by_database(4..7), 0.3), (by_database(7..10), 0.3)] {
            assert!(within(count, share), "{count} of {share}");
        }
    }

    #[test]
    fn adding_a_group_moves_nothing_that_is_placed() {
        let mut groups = Groups::default();
        assert_eq!(groups.append(Timestamp::MIN, None, group(&[4, 3, 3])), Ok(Timestamp::MIN));
        let buckets: Vec<Timestamp> = (0..2_000).map(|n| ts(n * 3_600_000_000_000)).collect();
        let july = buckets[1_000];
        let before: Vec<_> = buckets.iter().map(|bucket| groups.place("k", *bucket)).collect();
        assert_eq!(groups.append(buckets[900], Some(july), group(&[1, 1])), Ok(july));
        for (bucket, before) in buckets.iter().zip(before) {
            let after = groups.place("k", *bucket);
            if *bucket < july {
                assert_eq!(after, before);
            } else {
                assert_eq!(after.map(|place| place.group), Some(2));
            }
        }
    }

    #[test]
    fn a_manifest_finds_its_database_by_the_groups_ordinal() {
        let mut groups = Groups::default();
        groups.append(Timestamp::MIN, None, group(&[4, 3, 3])).unwrap();
        groups.append(Timestamp::MIN, Some(ts(100)), group(&[2])).unwrap();
        for bucket in [ts(0), ts(99), ts(100), ts(5_000)] {
            let place = groups.place("k", bucket).unwrap();
            assert_eq!(groups.database(place.group, place.table), Some(&place.database));
        }
        assert_eq!((groups.database(0, 0), groups.database(3, 0), groups.database(2, 2)), (None, None, None));
    }

    #[test]
    fn groups_begin_at_the_beginning_and_beyond_what_is_archived() {
        let mut groups = Groups::default();
        assert!(groups.place("k", ts(0)).is_none());
        assert_eq!(groups.append(Timestamp::MIN, Some(ts(5)), group(&[1])), Err(GroupRefused::FirstHasStart { from: ts(5) }.into()));
        groups.append(Timestamp::MIN, None, group(&[1])).unwrap();
        assert_eq!(groups.append(ts(10), None, group(&[1])), Err(GroupRefused::NoStart.into()));
        assert_eq!(groups.append(ts(10), Some(ts(9)), group(&[1])), Err(GroupRefused::Archived { from: ts(9), closing: ts(10) }.into()));
        assert_eq!(groups.append(ts(10), Some(ts(10)), group(&[1])), Ok(ts(10)));
        assert_eq!(groups.append(ts(10), Some(ts(10)), group(&[1])), Err(GroupRefused::NotAfterLast { from: ts(10), last: ts(10) }.into()));
    }

    #[test]
    fn a_group_that_does_not_add_up_is_refused() {
        let sound = group(&[4, 3, 3]);
        assert_eq!(sound.check(), Ok(()));
        let wrong = [
            Group { tables: 11, ..sound.clone() },
            Group { tables: 0, databases: vec![] },
            Group { tables: COLD_TABLES_MAX + 1, databases: vec![database("a", COLD_TABLES_MAX + 1)] },
            Group { tables: 2, databases: vec![database("a", 1), database("a", 1)] },
            Group { tables: 1, databases: vec![database("a", 1), database("b", 0)] },
            Group { tables: 1, databases: vec![database("a/b", 1)] },
            Group { tables: 1, databases: vec![Database { url: "ftp://x".into(), ..database("a", 1) }] },
            Group { tables: 1, databases: vec![Database { url: "s3://".into(), ..database("a", 1) }] },
            Group { tables: 1, databases: vec![Database { url: "s3://key:secret@bucket".into(), ..database("a", 1) }] },
        ];
        for group in wrong {
            assert!(matches!(group.check(), Err(GroupFault::Invalid(_))), "{group:?}");
        }
    }
}
