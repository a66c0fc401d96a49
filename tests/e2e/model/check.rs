//! Every read of the HTTP API, asked at random and held against the reference.

use std::collections::BTreeSet;

use rand::RngExt;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

use crate::clock::{nanos, now_ns};
use crate::http::{query, segment};
use crate::read::{all_events, text};

use super::life::{FIELDS, HOUR, KEYS, Life, NS, TAG_VALUES, TAGS};
use super::reference::{Question, Row, Where, rfc3339};

impl Life {
    /// A part of all checks, chosen at random: what is made after every step.
    pub(crate) fn check(&mut self) {
        let key = *KEYS.choose(&mut self.random).expect("some");
        self.check_key(key);
        self.check_keys();
    }

    /// Everything.
    pub(crate) fn check_all(&mut self) {
        KEYS.iter().for_each(|key| self.check_key(key));
        self.check_keys();
    }

    fn check_key(&mut self, key: &str) {
        self.check_events(key);
        self.check_range(key);
        for _ in 0..3 {
            self.check_point(key);
            self.check_aggregate(key);
        }
        self.check_layouts(key);
        self.check_explain(key);
    }

    /// The whole key: ascending, descending, in pages, as a stream.
    fn check_events(&mut self, key: &str) {
        let client = self.server.client();
        let expected = self.reference.events(key, i64::MIN, i64::MAX, &Vec::new());
        assert_eq!(all_events(client, NS, &[("key", key)]).0, expected, "the stream of {key:?}");
        let path = format!("/v1/{NS}/events");
        let answer = client.read(&query(&path, &[("key", key), ("limit", "10000")]));
        assert_eq!(answer["events"], json!(expected), "{key:?}");
        assert_eq!((&answer["next"], &answer["complete"]), (&Value::Null, &json!(true)), "{key:?}");
        assert_eq!(answer["shards"]["planned"], answer["shards"]["answered"], "{key:?}");
        let mut reversed = client.read(&query(&path, &[("key", key), ("limit", "10000"), ("order", "desc")]))["events"].clone();
        reversed.as_array_mut().expect("events").reverse();
        assert_eq!(reversed, json!(expected), "{key:?} descending");
    }

    /// A part of the key, with a filter, in small pages either way.
    fn check_range(&mut self, key: &str) {
        let (from, to) = self.range(key);
        let wanted = self.filter();
        let mut expected = self.reference.events(key, from, to, &wanted);
        let (from, to) = (rfc3339(from), rfc3339(to));
        let filters: Vec<String> = wanted.iter().map(|(tag, value)| format!("{}:{value}", tag.replace(':', "\\:"))).collect();
        let mut parameters = vec![("key", key), ("from", &from), ("to", &to)];
        parameters.extend(filters.iter().map(|filter| ("where", &**filter)));
        assert_eq!(all_events(self.server.client(), NS, &parameters).0, expected, "{parameters:?} streamed");
        if self.random.random() {
            parameters.push(("order", "desc"));
            expected.reverse();
        }
        let limit = (expected.len() / self.random.random_range(1..6) + 1).to_string();
        parameters.push(("limit", &limit));
        assert_eq!(self.pages(&parameters), expected, "{parameters:?} in pages");
    }

    fn pages(&self, parameters: &[(&str, &str)]) -> Vec<Value> {
        let (mut events, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let mut parameters = parameters.to_vec();
            parameters.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let page = self.server.client().read(&query(&format!("/v1/{NS}/events"), &parameters));
            events.extend(page["events"].as_array().expect("events").iter().cloned());
            match page["next"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => return events,
            }
        }
    }

    /// An event by id, one that is there or one that is not, with and without its time.
    fn check_point(&mut self, key: &str) {
        let there = self.reference.places(key).choose(&mut self.random).cloned();
        let (ts, id) = there.filter(|_| self.random.random_bool(0.8)).unwrap_or((HOUR, format!("id/{}", self.random.random_range(0..60))));
        let with_time = self.random.random::<bool>().then_some(ts);
        let expected = self.reference.event(key, &id, with_time);
        let at = rfc3339(ts);
        let mut parameters = vec![("key", key)];
        parameters.extend(with_time.map(|_| ("ts", &*at)));
        let path = if id.is_empty() {
            parameters.push(("id", ""));
            format!("/v1/{NS}/events")
        } else {
            format!("/v1/{NS}/events/{}", segment(&id))
        };
        let answer = self.server.client().get(&query(&path, &parameters));
        let Some(expected) = expected else {
            answer.expect_problem(404, "event_not_found");
            return;
        };
        let answer = answer.expect(200).json();
        assert_eq!(answer["event"], expected, "{parameters:?}");
        let layouts = answer["layouts"].as_array().map(Vec::len);
        assert_eq!(answer["shards"]["planned"].as_u64().map(|planned| planned as usize), layouts, "one suffix of each layout: {answer}");
        if with_time.is_some() {
            assert_eq!(layouts, Some(1), "{answer}");
        }
    }

    fn check_aggregate(&mut self, key: &str) {
        let mut question = self.question(key);
        let (from, to, filters) = (
            rfc3339(question.from),
            rfc3339(question.to),
            question.wanted.iter().map(|(tag, value)| format!("{tag}:{value}")).collect::<Vec<_>>(),
        );
        let step = question.step.map(|step| format!("{step}ns"));
        let functions = if question.field.is_some() { "count,sum,avg,min,max,p50,p99" } else { "count,rate" };
        let mut parameters = vec![("key", key), ("from", &from), ("to", &to), ("fn", functions)];
        parameters.extend(step.iter().map(|step| ("step", &**step)));
        parameters.extend(question.field.iter().map(|field| ("field", *field)));
        parameters.extend(question.group_by.iter().map(|tag| ("group_by", *tag)));
        parameters.extend(filters.iter().map(|filter| ("where", &**filter)));
        let answer = self.server.client().read(&query(&format!("/v1/{NS}/aggregate"), &parameters));
        // An end beyond the promise is cut to it, and the answer says so.
        question.to = nanos(&text(&answer["to"]));
        let expected = question.rows(&self.reference, key);
        let rows = answer["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), expected.len(), "{parameters:?}: {answer}");
        for row in &expected {
            let found = rows
                .iter()
                .find(|found| is_row(found, row))
                .unwrap_or_else(|| panic!("{parameters:?}: no row from {} of {:?} in {answer}", rfc3339(row.start), row.group));
            check_row(found, row, question.field.is_some(), &format!("{parameters:?}"));
        }
    }

    fn question(&mut self, key: &str) -> Question {
        let (from, to) = self.range(key);
        let span = i128::from(to) - i128::from(from);
        let steps = [1_000_000_000, 7_000_000_000, 60_000_000_000, HOUR / 2, HOUR, 24 * HOUR, 7 * 24 * HOUR];
        let step = steps.into_iter().find(|step| span / i128::from(*step) < 200).filter(|_| self.random.random_bool(0.7));
        let field = self.random.random_bool(0.8).then(|| *FIELDS.choose(&mut self.random).expect("some"));
        let group_by = TAGS.into_iter().filter(|_| self.random.random_bool(0.3)).collect();
        Question { from, to, step, field, group_by, wanted: self.filter() }
    }

    /// A range between two times at which there are events, or beside them; never empty.
    fn range(&mut self, key: &str) -> (i64, i64) {
        let places = self.reference.places(key);
        let mut end = || {
            let near = places.choose(&mut self.random).map_or_else(now_ns, |(ts, _)| *ts);
            near.saturating_add(*[-1, 0, 1, HOUR, -HOUR].choose(&mut self.random).expect("some"))
        };
        let (one, other) = (end(), end());
        (one.min(other), one.max(other).max(one.min(other).saturating_add(1)))
    }

    fn filter(&mut self) -> Where {
        let tags = TAGS.iter().filter(|_| self.random.random_bool(0.2)).collect::<Vec<_>>();
        tags.into_iter().map(|tag| ((*tag).to_owned(), (*TAG_VALUES.choose(&mut self.random).expect("some")).to_owned())).collect()
    }

    fn check_keys(&self) {
        let client = self.server.client();
        let keys = client.read(&format!("/v1/{NS}/keys"));
        assert_eq!(keys["keys"], json!(self.reference.keys()));
        let prefixed = client.read(&query(&format!("/v1/{NS}/keys"), &[("prefix", "a key")]));
        let expected: Vec<_> = self.reference.keys().into_iter().filter(|key| key.starts_with("a key")).collect();
        assert_eq!(prefixed["keys"], json!(expected));
        self.check_broadcast();
    }

    /// A read without a key: every key's events in one order, marked as what it is.
    fn check_broadcast(&self) {
        let path = query(&format!("/v1/{NS}/events"), &[("prefix", ""), ("limit", "10000")]);
        let answer = self.server.client().read(&path);
        assert_eq!(answer["broadcast"], true, "{answer}");
        let mut expected: Vec<Value> = KEYS.iter().flat_map(|key| self.reference.events(key, i64::MIN, i64::MAX, &Vec::new())).collect();
        expected.sort_by_key(|event| (nanos(&text(&event["ts"])), text(&event["key"]), text(&event["id"])));
        assert_eq!(answer["events"], json!(expected), "in order of time, key and id");
    }

    /// The plan of a read names the shards that the read then asks.
    fn check_explain(&mut self, key: &str) {
        let (from, to) = self.range(key);
        let (from, to) = (rfc3339(from), rfc3339(to));
        let parameters = [("key", key), ("from", &*from), ("to", &*to)];
        let plan = self.server.client().get(&query(&format!("/v1/{NS}/explain"), &parameters));
        if plan.status == 422 {
            // Narrow buckets over decades; the list is bounded.
            plan.expect_problem(422, "result_too_large");
            return;
        }
        let plan = plan.expect(200).json();
        let read = self.server.client().read(&query(&format!("/v1/{NS}/events"), &[&parameters[..], &[("limit", "10000")]].concat()));
        let partitions = plan["partitions"].as_array().expect("partitions");
        assert!(partitions.iter().all(|part| part["suffix"].as_u64() < part["shards"].as_u64()), "{plan}");
        let shards: BTreeSet<String> = partitions.iter().map(|part| format!("{} {}", part["version"], part["suffix"])).collect();
        assert_eq!(read["shards"], json!({"planned": shards.len(), "answered": shards.len()}), "{parameters:?}: {plan}");
    }

    /// Every layout that was published is listed as it was, and where it stands.
    fn check_layouts(&self, key: &str) {
        for of_key in [Some(key), None] {
            let parameters: Vec<_> = of_key.map(|key| ("key", key)).into_iter().collect();
            let list = self.server.client().read(&query(&format!("/v1/{NS}/layout"), &parameters));
            let listed = list["layouts"].as_array().expect("layouts");
            for layout in self.layouts.iter().filter(|layout| layout.key.as_deref() == of_key) {
                let found =
                    listed.iter().find(|found| found["version"] == layout.version).unwrap_or_else(|| panic!("{layout:?} is not in {list}"));
                assert_eq!((&found["shards"], nanos(&text(&found["from"]))), (&json!(layout.shards), layout.from), "{list}");
                assert_eq!(found["state"] == "withdrawn", layout.withdrawn, "{layout:?} in {list}");
            }
        }
    }
}

fn is_row(found: &Value, row: &Row) -> bool {
    let group = found.get("group").and_then(Value::as_object).cloned().unwrap_or_default();
    found["start"] == rfc3339(row.start) && found["end"] == rfc3339(row.end) && group == row.group
}

fn check_row(found: &Value, row: &Row, of_field: bool, asked: &str) {
    assert_eq!(found["count"], row.count, "{asked}: {found}");
    if !of_field {
        let seconds = (i128::from(row.end) - i128::from(row.start)) as f64 / 1e9;
        // A range that lies beyond the promise is cut to nothing.
        let sound = if seconds == 0.0 { found["rate"].is_null() } else { close(&found["rate"], row.count as f64 / seconds) };
        assert!(sound, "{asked}: {found}");
        return;
    }
    let mut numbers: Vec<f64> = row.numbers.iter().filter_map(Value::as_f64).collect();
    numbers.sort_by(f64::total_cmp);
    let sum: f64 = numbers.iter().sum();
    assert!(close(&found["sum"], sum), "{asked}: sum {sum}: {found}");
    assert_eq!(found["sum"].is_f64(), row.numbers.iter().any(Value::is_f64), "{asked}: integers add up to an integer: {found}");
    let rank = |percent: usize| numbers.get((percent * numbers.len()).div_ceil(100).saturating_sub(1)).copied();
    let average = (!numbers.is_empty()).then(|| sum / numbers.len() as f64);
    for (name, expected) in
        [("avg", average), ("min", numbers.first().copied()), ("max", numbers.last().copied()), ("p50", rank(50)), ("p99", rank(99))]
    {
        match expected {
            Some(expected) => assert!(close(&found[name], expected), "{asked}: {name} {expected}: {found}"),
            None => assert_eq!(found[name], Value::Null, "{asked}: {name}: {found}"),
        }
    }
}

fn close(found: &Value, expected: f64) -> bool {
    found.as_f64().is_some_and(|found| (found - expected).abs() <= expected.abs() * 1e-12)
}
