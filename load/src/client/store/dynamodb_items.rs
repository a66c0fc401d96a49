//! Write sharding on DynamoDB as one makes it by hand: a suffix on the partition key, one item an
//! event, 25 items a `BatchWriteItem`.
//!
//! The partition key is `key#suffix`, the sort key `milliseconds#id`. A computed suffix is the id's,
//! so that a point read asks one partition; a random one is drawn for every sending, so that it asks
//! them all, and an event that is sent again stands twice. Ranges and lists ask them all either way,
//! and are merged here. Reads are consistent. What DynamoDB says that it charged is counted.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_config::BehaviorVersion;
use aws_config::environment::{EnvironmentVariableCredentialsProvider, EnvironmentVariableRegionProvider};
use aws_config::meta::credentials::CredentialsProviderChain;
use aws_config::meta::region::RegionProviderChain;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::client::Waiters;
use aws_sdk_dynamodb::config::{Builder, Credentials, Region};
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, ConsumedCapacity, KeySchemaElement, KeyType, PutRequest, ReturnConsumedCapacity,
    ScalarAttributeType, WriteRequest,
};
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use braid_shared::model::Span;
use futures::StreamExt;
use futures::stream;
use tokio::time::Instant;

use crate::client::patience::Patience;
use crate::client::{Answer, Delivery, Failure};
use crate::workload::write::{hex, note};
use crate::workload::{Event, Portion, REGIONS, Read, Workload};

/// Items of a batch, as DynamoDB bounds it.
const BATCH: usize = 25;
/// Requests of one portion, or of one read, that are under way at once.
const IN_FLIGHT: usize = 16;
const TABLE_WITHIN: Duration = Duration::from_secs(120);
/// Who and where one is to a server that is not Amazon's, unless the environment says it.
const LOCAL: &str = "local";
const LOCAL_REGION: &str = "us-east-1";

/// How an event finds its suffix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Suffix {
    /// From the event's id: one event is read from one partition
    #[default]
    Computed,
    /// Drawn anew with every sending: one event is looked for in every partition
    Random,
}

/// A table of items.
pub(crate) struct Items {
    client: Client,
    table: String,
    suffixes: u32,
    suffix: Suffix,
    patience: Patience,
}

type Item = HashMap<String, AttributeValue>;

/// What the calls of a request came to.
#[derive(Default)]
struct Tally {
    retries: u64,
    doubtful: bool,
    units: f64,
}

impl Items {
    /// Connects, by the SDK's own settings unless there is an endpoint, and makes the table if there is none.
    pub(crate) async fn connect(
        endpoint: Option<&str>,
        table: String,
        (suffixes, suffix): (u32, Suffix),
        timeout: Duration,
        patience: Patience,
    ) -> Result<Items, String> {
        let client = client(endpoint, timeout).await;
        let failed = |error: &(dyn Error + 'static)| format!("table {table}: {}", said(error));
        if let Err(error) = client.describe_table().table_name(&table).send().await {
            if !error.as_service_error().is_some_and(|error| error.is_resource_not_found_exception()) {
                return Err(failed(&error));
            }
            make(&client, &table).await.map_err(|error| failed(&*error))?;
        }
        Ok(Items { client, table, suffixes, suffix, patience })
    }

    fn partition(&self, key: &str, suffix: u32) -> AttributeValue {
        AttributeValue::S(format!("{key}#{suffix}"))
    }

    /// A hash of the id, which is a hash already.
    fn computed(&self, id: u64) -> u32 {
        (id % u64::from(self.suffixes)) as u32
    }

    /// Writes every event of a portion; again what was left undone, as long as is allowed.
    pub(crate) async fn write(&self, workload: &Workload, portion: Portion) -> Delivery {
        let started = Instant::now();
        let events: Vec<Event> = workload.events(portion).collect();
        let batches: Vec<_> = events.chunks(BATCH).map(|events| self.put(self.batch(workload, events), started)).collect();
        let ended = stream::iter(batches).buffer_unordered(IN_FLIGHT).collect().await;
        delivery(started, ended, |_| Ok(Answer::all_stored(portion.events)))
    }

    /// The items of events. A batch must not hold one twice, so of an event and its duplicate one is sent.
    fn batch(&self, workload: &Workload, events: &[Event]) -> Vec<WriteRequest> {
        let items: BTreeMap<_, _> = events.iter().map(|event| self.item(workload, event)).collect();
        let put = |item| PutRequest::builder().set_item(Some(item)).build().expect("it has an item");
        items.into_values().map(|item| WriteRequest::builder().put_request(put(item)).build()).collect()
    }

    /// An item, under what makes it one.
    fn item(&self, workload: &Workload, event: &Event) -> ((u32, String), Item) {
        let suffix = match self.suffix {
            Suffix::Computed => self.computed(event.id),
            Suffix::Random => rand::random_range(0..self.suffixes),
        };
        let key = workload.keys.name(event.key);
        let sort = sort_key(event.millis, std::str::from_utf8(&hex(event.id)).unwrap_or_default());
        let mut item = Item::from([
            ("pk".to_owned(), self.partition(&key, suffix)),
            ("sk".to_owned(), AttributeValue::S(sort.clone())),
            ("amount".to_owned(), AttributeValue::N(format!("{}.{:02}", event.cents / 100, event.cents % 100))),
            ("qty".to_owned(), AttributeValue::N(event.quantity.to_string())),
            ("region".to_owned(), AttributeValue::S(REGIONS[event.region].to_owned())),
        ]);
        let note = note(event.id, workload.shape.note_bytes);
        if !note.is_empty() {
            item.insert("note".to_owned(), AttributeValue::S(String::from_utf8_lossy(note).into_owned()));
        }
        ((event.key, format!("{suffix}#{sort}")), item)
    }

    /// Sends a batch until nothing of it is left.
    async fn put(&self, mut left: Vec<WriteRequest>, started: Instant) -> (Tally, Result<(), Failure>) {
        let mut tally = Tally::default();
        loop {
            let call = self.client.batch_write_item().request_items(&self.table, left.clone());
            let call = call.return_consumed_capacity(ReturnConsumedCapacity::Total);
            let answer = match self.tried(&mut tally, started, || call.clone().send()).await {
                Ok(answer) => answer,
                Err(failure) => return (tally, Err(failure)),
            };
            tally.units += answer.consumed_capacity().iter().map(units).sum::<f64>();
            left = answer.unprocessed_items.and_then(|mut of| of.remove(&self.table)).unwrap_or_default();
            if left.is_empty() {
                return (tally, Ok(()));
            }
            let why = "items of a batch were left unprocessed".to_owned();
            if let Err(failure) = self.patience.pause(started, tally.retries, None, why).await {
                // What was processed is stored.
                tally.doubtful = true;
                return (tally, Err(failure));
            }
            tally.retries += 1;
        }
    }

    /// Sends a call, and again where that may help.
    async fn tried<T, E, F>(&self, tally: &mut Tally, started: Instant, send: impl Fn() -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, SdkError<E>>>,
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        loop {
            let error = match send().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let why = said(&error);
            match trouble(&error) {
                Trouble::Throttled => {}
                Trouble::Unknown => tally.doubtful = true,
                Trouble::Refused => return Err(Failure::Refused(why)),
            }
            self.patience.pause(started, tally.retries, None, why).await?;
            tally.retries += 1;
        }
    }

    /// Asks a read, of every suffix that may know.
    pub(crate) async fn read(&self, read: &Read) -> Delivery {
        let started = Instant::now();
        match read {
            Read::Last { key, limit, .. } => {
                let newest = self.query(key, None).scan_index_forward(false).limit(*limit as i32);
                let ended = self.ask(key, &newest, started, *limit as usize).await;
                delivery(started, ended, |parts| {
                    let mut items: Vec<Item> = parts.into_iter().flatten().collect();
                    items.sort_unstable_by(|a, b| sort_key_of(b).cmp(sort_key_of(a)));
                    items.truncate(*limit as usize);
                    seen(&items)
                })
            }
            Read::Range { key, back, step, field, group_by } => {
                let (back, step) = match (millis(back), millis(step)) {
                    (Ok(back), Ok(step)) => (back, step),
                    (Err(why), _) | (_, Err(why)) => return Delivery::never(Failure::Refused(why)),
                };
                let ended = self.ask(key, &self.query(key, Some(millis_now() - back)), started, usize::MAX).await;
                delivery(started, ended, |parts| seen(&aggregate(parts.iter().flatten(), step, field, *group_by)))
            }
            Read::Point { key, id, millis: Some(millis) } => {
                let ended = self.get(key, id, *millis, started).await;
                delivery(started, ended, |found| match found.iter().flatten().next() {
                    Some(item) => seen(item),
                    None => Err(Failure::Refused(format!("no item of id {id} at {millis}"))),
                })
            }
            Read::Point { millis: None, .. } => {
                Delivery::never(Failure::Refused("without its time an item is found by an index only, and the table has none".into()))
            }
        }
    }

    /// All of a partition of `key`, or what is not before a time; which partition is put in later.
    fn query(&self, key: &str, from: Option<i64>) -> QueryFluentBuilder {
        let call =
            self.client.query().table_name(&self.table).consistent_read(true).return_consumed_capacity(ReturnConsumedCapacity::Total);
        let call = call.expression_attribute_values(":pk", self.partition(key, 0));
        match from {
            None => call.key_condition_expression("pk = :pk"),
            Some(from) => call
                .key_condition_expression("pk = :pk AND sk >= :from")
                .expression_attribute_values(":from", AttributeValue::S(sort_key(from, ""))),
        }
    }

    /// The items that a query finds, of each suffix, at most `limit` and what more a page brings.
    async fn ask(&self, key: &str, query: &QueryFluentBuilder, started: Instant, limit: usize) -> Vec<(Tally, Result<Vec<Item>, Failure>)> {
        let of_suffix = |suffix| self.pages(query.clone().expression_attribute_values(":pk", self.partition(key, suffix)), started, limit);
        let queries: Vec<_> = (0..self.suffixes).map(of_suffix).collect();
        stream::iter(queries).buffer_unordered(IN_FLIGHT).collect().await
    }

    async fn pages(&self, query: QueryFluentBuilder, started: Instant, limit: usize) -> (Tally, Result<Vec<Item>, Failure>) {
        let (mut tally, mut items, mut after) = (Tally::default(), Vec::new(), None);
        loop {
            let call = query.clone().set_exclusive_start_key(after);
            match self.tried(&mut tally, started, || call.clone().send()).await {
                Ok(page) => {
                    tally.units += page.consumed_capacity().map_or(0.0, units);
                    items.extend(page.items.unwrap_or_default());
                    after = page.last_evaluated_key;
                }
                Err(failure) => return (tally, Err(failure)),
            }
            if after.is_none() || items.len() >= limit {
                return (tally, Ok(items));
            }
        }
    }

    /// An item from where it is, or from everywhere.
    async fn get(&self, key: &str, id: &str, millis: i64, started: Instant) -> Vec<(Tally, Result<Option<Item>, Failure>)> {
        let suffixes = match self.suffix {
            Suffix::Computed => vec![self.computed(u64::from_str_radix(id, 16).unwrap_or_default())],
            Suffix::Random => (0..self.suffixes).collect(),
        };
        let get = |suffix| async move {
            let call = self.client.get_item().table_name(&self.table).consistent_read(true);
            let call = call.key("pk", self.partition(key, suffix)).key("sk", AttributeValue::S(sort_key(millis, id)));
            let call = call.return_consumed_capacity(ReturnConsumedCapacity::Total);
            let mut tally = Tally::default();
            let answer = self.tried(&mut tally, started, || call.clone().send()).await;
            tally.units += answer.iter().filter_map(|answer| answer.consumed_capacity()).map(units).sum::<f64>();
            (tally, answer.map(|answer| answer.item))
        };
        let gets: Vec<_> = suffixes.into_iter().map(get).collect();
        stream::iter(gets).buffer_unordered(IN_FLIGHT).collect().await
    }
}

async fn client(endpoint: Option<&str>, timeout: Duration) -> Client {
    let http = aws_smithy_http_client::Builder::new();
    let mut loader = aws_config::defaults(BehaviorVersion::latest());
    loader = match endpoint {
        // Not Amazon's own: any credentials will do.
        Some(endpoint) if endpoint.starts_with("http:") => {
            let credentials = CredentialsProviderChain::first_try("environment", EnvironmentVariableCredentialsProvider::new());
            let region = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new());
            loader
                .http_client(http.build_http())
                .endpoint_url(endpoint)
                .credentials_provider(credentials.or_else(LOCAL, Credentials::new(LOCAL, LOCAL, None, None, LOCAL)))
                .region(region.or_else(Region::from_static(LOCAL_REGION)))
        }
        other => {
            let loader = loader.http_client(http.tls_provider(Provider::Rustls(CryptoMode::AwsLc)).build_https());
            other.into_iter().fold(loader, |loader, endpoint| loader.endpoint_url(endpoint))
        }
    };
    // Our own retries are counted, the SDK's could not be.
    let config = Builder::from(&loader.load().await).retry_config(RetryConfig::disabled());
    Client::from_conf(config.timeout_config(TimeoutConfig::builder().operation_attempt_timeout(timeout).build()).build())
}

async fn make(client: &Client, table: &str) -> Result<(), Box<dyn Error>> {
    let mut call = client.create_table().table_name(table).billing_mode(BillingMode::PayPerRequest);
    for (name, kind) in [("pk", KeyType::Hash), ("sk", KeyType::Range)] {
        call =
            call.attribute_definitions(AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::S).build()?);
        call = call.key_schema(KeySchemaElement::builder().attribute_name(name).key_type(kind).build()?);
    }
    call.send().await?;
    client.wait_until_table_exists().table_name(table).wait(TABLE_WITHIN).await?;
    Ok(())
}

/// An error and its causes.
fn said(error: &(dyn Error + 'static)) -> String {
    std::iter::successors(Some(error), |error| (*error).source()).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// What an error means.
enum Trouble {
    /// Nothing was done, and later more may be.
    Throttled,
    /// It may have been done.
    Unknown,
    /// Nothing was done, nor will be.
    Refused,
}

fn trouble<E: ProvideErrorMetadata>(error: &SdkError<E>) -> Trouble {
    match error {
        SdkError::ConstructionFailure(_) => Trouble::Refused,
        SdkError::ServiceError(service) => match (service.err().code().unwrap_or_default(), service.raw().status().as_u16()) {
            ("ProvisionedThroughputExceededException" | "ThrottlingException" | "RequestLimitExceeded", _) => Trouble::Throttled,
            (_, 500..) => Trouble::Unknown,
            _ => Trouble::Refused,
        },
        _ => Trouble::Unknown,
    }
}

/// Adds up the parts of a request; `make` makes its answer of what they found.
fn delivery<T>(
    started: Instant,
    ended: Vec<(Tally, Result<T, Failure>)>,
    make: impl FnOnce(Vec<T>) -> Result<Answer, Failure>,
) -> Delivery {
    let mut whole = Tally::default();
    let mut found = Ok(Vec::with_capacity(ended.len()));
    for (tally, part) in ended {
        whole.retries += tally.retries;
        // Of a request that failed in part, the other part is done.
        whole.doubtful |= tally.doubtful || part.is_ok();
        whole.units += tally.units;
        found = found.and_then(|mut found| {
            found.push(part?);
            Ok(found)
        });
    }
    let result = found.and_then(make);
    let Tally { retries, doubtful, units } = whole;
    Delivery { result, doubtful, started, ended: Instant::now(), retries, told_to_wait: 0, bytes: 0, units }
}

/// The answer to a read, whose making must not be left out as nobody looks at it.
fn seen<T>(rows: &T) -> Result<Answer, Failure> {
    std::hint::black_box(rows);
    Ok(Answer::default())
}

/// Count, sum and greatest by step and group.
fn aggregate<'i>(
    items: impl Iterator<Item = &'i Item>,
    step: i64,
    field: &str,
    group_by: Option<&str>,
) -> BTreeMap<(i64, &'i str), (u64, i64, i64)> {
    let mut rows = BTreeMap::new();
    for item in items {
        let at: i64 = sort_key_of(item).split('#').next().and_then(|millis| millis.parse().ok()).unwrap_or_default();
        let value = item.get(field).and_then(|value| value.as_n().ok()?.parse().ok()).unwrap_or_default();
        let group = group_by.and_then(|tag| item.get(tag)?.as_s().ok()).map_or("", String::as_str);
        let row = rows.entry((at.div_euclid(step) * step, group)).or_insert((0, 0, i64::MIN));
        *row = (row.0 + 1, row.1 + value, row.2.max(value));
    }
    rows
}

fn units(capacity: &ConsumedCapacity) -> f64 {
    capacity.capacity_units().unwrap_or(0.0)
}

/// Sorts as times do, from 1970 to 2286.
fn sort_key(millis: i64, id: &str) -> String {
    format!("{millis:013}#{id}")
}

fn sort_key_of(item: &Item) -> &str {
    item.get("sk").and_then(|key| key.as_s().ok()).map_or("", String::as_str)
}

fn millis(span: &str) -> Result<i64, String> {
    span.parse::<Span>().map(|span| span.nanos() / 1_000_000).map_err(|error| format!("{span}: {error}"))
}

fn millis_now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(millis: i64, qty: &str, region: &str) -> Item {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        Item::from([
            ("sk".to_owned(), text(&sort_key(millis, "00ff"))),
            ("qty".to_owned(), AttributeValue::N(qty.to_owned())),
            ("region".to_owned(), text(region)),
        ])
    }

    #[test]
    fn items_are_added_up_by_step_and_group() {
        let items = [item(59_999, "3", "eu-1"), item(60_000, "5", "eu-1"), item(60_001, "7", "us-1"), item(119_999, "1", "eu-1")];
        let whole = aggregate(items.iter(), 60_000, "qty", None);
        assert_eq!(whole, BTreeMap::from([((0, ""), (1, 3, 3)), ((60_000, ""), (3, 13, 7))]));
        let by_region = aggregate(items.iter(), 60_000, "qty", Some("region"));
        assert_eq!(by_region[&(60_000, "eu-1")], (2, 6, 5));
        assert_eq!(by_region.len(), 3);
    }

    #[test]
    fn sort_keys_sort_as_times() {
        let times = [0, 5, 999_999_999_999, 1_700_000_000_000];
        assert!(times.map(|millis| sort_key(millis, "ff")).is_sorted());
        assert!(sort_key(5, "") < sort_key(5, "00"), "a bound lies before all ids of its time");
    }

    #[test]
    fn what_failed_in_part_is_in_doubt() {
        let parts =
            || vec![(Tally { retries: 1, units: 2.5, doubtful: false }, Ok(())), (Tally::default(), Err(Failure::Refused("no".into())))];
        let both = delivery(Instant::now(), parts(), |_| Ok(Answer::default()));
        assert!(both.result.is_err() && both.doubtful);
        assert_eq!((both.retries, both.units), (1, 2.5));
        let refused = delivery(Instant::now(), parts().split_off(1), |_| Ok(Answer::default()));
        assert!(!refused.doubtful);
    }
}
