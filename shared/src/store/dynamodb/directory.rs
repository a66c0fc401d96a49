//! The directory: which keys a namespace has, and on which days they have data.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::try_join_all;
use xxhash_rust::xxh3::xxh3_128;

use super::engine::Engine;
use super::failure::Failure;
use super::items::{SK, Write, take_binary};
use super::keys;
use super::query::Range;
use super::units::Purpose;
use super::write::Account;
use crate::model::Namespace;
use crate::store::{Day, StoreError};

/// Names that are remembered as noted (4 MiB); beyond, they are forgotten and noted again.
const NOTED_MAX: usize = 1 << 18;

/// Names that this process has noted. They are never removed from the table, and at the turn of
/// a day every key has a new day but few have a new name.
#[derive(Debug, Default)]
pub(super) struct NotedNames(Mutex<HashSet<u128>>);

impl NotedNames {
    fn is_noted(&self, name: u128) -> bool {
        self.0.lock().expect("no holder panics").contains(&name)
    }

    fn note(&self, names: impl IntoIterator<Item = u128>) {
        let mut noted = self.0.lock().expect("no holder panics");
        if noted.len() >= NOTED_MAX {
            noted.clear();
        }
        noted.extend(names);
    }
}

fn hash(ns: &Namespace, key: &str) -> u128 {
    xxh3_128(&crate::partition::key_prefix(ns, key))
}

impl Engine {
    /// Notes that these keys hold data on these days.
    pub(super) async fn note_days(
        &self,
        noted: &NotedNames,
        ns: &Namespace,
        days: &[(Arc<str>, Day)],
        allowed: Duration,
    ) -> Result<(), StoreError> {
        let new: Vec<_> = days.iter().filter(|(key, _)| !noted.is_noted(hash(ns, key))).map(|(key, _)| key).collect();
        let names = new.iter().map(|key| Write::name(ns, key));
        let writes = days.iter().map(|(key, day)| Write::day(ns, key, *day)).chain(names).collect();
        self.write(Account { ns, purpose: Purpose::Directory }, writes, allowed).await?;
        noted.note(new.iter().map(|key| hash(ns, key)));
        Ok(())
    }

    /// Keys that begin with `prefix` behind `after`, in byte order.
    pub(super) async fn keys(
        &self,
        ns: &Namespace,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        allowed: Duration,
    ) -> Result<Vec<String>, StoreError> {
        let between = keys::names_between(prefix, after);
        if between.0 > between.1 || limit == 0 {
            return Ok(Vec::new());
        }
        let part = |part| Range {
            pk: keys::names_pk(ns, part),
            between: between.clone(),
            strong: true,
            limit: i32::try_from(limit).ok(),
            data: false,
        };
        let parts = (0..keys::NAME_PARTS).map(|number| self.sort_keys(ns, part(number), limit, allowed));
        let mut names = try_join_all(parts).await?.concat();
        names.sort_unstable();
        names.truncate(limit);
        let text = |name| String::from_utf8(name).map_err(|_| Failure::corrupt("a noted key is not UTF-8"));
        names.into_iter().map(text).collect()
    }

    /// Days of a key within `[from, to]`, ascending.
    pub(super) async fn days(&self, ns: &Namespace, key: &str, from: Day, to: Day, allowed: Duration) -> Result<Vec<Day>, StoreError> {
        if from > to {
            return Ok(Vec::new());
        }
        let range =
            Range { pk: keys::days_pk(ns, key), between: (keys::day_sk(from), keys::day_sk(to)), strong: true, limit: None, data: false };
        let found = self.sort_keys(ns, range, usize::MAX, allowed).await?;
        let day = |sk: Vec<u8>| keys::day_of(&sk).ok_or_else(|| Failure::corrupt("a noted day is not one"));
        found.into_iter().map(day).collect()
    }

    /// The sort keys of a range, every page of it, until there are `most`.
    async fn sort_keys(&self, ns: &Namespace, range: Range, most: usize, allowed: Duration) -> Result<Vec<Vec<u8>>, StoreError> {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = self.query(&range, after, allowed).await?;
            self.units.read(Some(ns), Purpose::Directory, page.units);
            for mut item in page.items {
                found.push(take_binary(&mut item, SK).ok_or_else(|| Failure::corrupt("an item of the directory has no sort key"))?);
            }
            after = page.next;
            if after.is_none() || found.len() >= most {
                return Ok(found);
            }
        }
    }
}
