//! What scripts/dynamodb-units measures against:
//!
//!     dynamodb serve ADDR                  a DynamoDB-compatible server in memory
//!     dynamodb hand-rolled URL EVENTS N    the same events one item each, over N suffixes: what they cost
//!
//! Capacity is as the server says that it was consumed. It is the protocol's arithmetic, not a price list.

use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Credentials;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, PutRequest, ReturnConsumedCapacity, ScalarAttributeType,
    WriteRequest,
};
use tokio::net::TcpListener;

const TABLE: &str = "hand-rolled";
/// As long as the events of the load generator.
const EVENT_BYTES: usize = 100;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", address, ..] => serve(address).await,
        ["hand-rolled", url, events, suffixes, ..] => {
            hand_rolled(url, events.parse().expect("a number of events"), suffixes.parse().expect("a number of suffixes")).await;
        }
        // As cargo bench starts it.
        _ => println!("serve ADDR | hand-rolled URL EVENTS SUFFIXES"),
    }
}

async fn serve(address: &str) {
    let listener = TcpListener::bind(address).await.expect("a free address");
    println!("listening on http://{}", listener.local_addr().expect("it is bound"));
    dynoxide::server::serve_on(listener, dynoxide::Database::memory().expect("a database in memory")).await;
}

async fn hand_rolled(url: &str, events: usize, suffixes: usize) {
    let http = aws_smithy_http_client::Builder::new().build_http();
    let config = aws_config::defaults(BehaviorVersion::latest()).http_client(http).endpoint_url(url).region("us-east-1");
    let credentials = Credentials::new("local", "local", None, None, "local");
    let client = Client::new(&config.credentials_provider(credentials).load().await);
    make_table(&client).await;
    let written = write(&client, events, suffixes).await;
    let (read, found) = read_all(&client, suffixes).await;
    assert_eq!(found, events);
    let one = read_one(&client).await;
    println!("write units an event      {:.3}", written / events as f64);
    println!("read units, all events    {read:.1}");
    println!("read units, one event     {one:.1}");
}

async fn make_table(client: &Client) {
    let mut call = client.create_table().table_name(TABLE).billing_mode(BillingMode::PayPerRequest);
    for (name, kind) in [("pk", KeyType::Hash), ("sk", KeyType::Range)] {
        let attribute = AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::B);
        call = call.attribute_definitions(attribute.build().expect("it is whole"));
        call = call.key_schema(KeySchemaElement::builder().attribute_name(name).key_type(kind).build().expect("it is whole"));
    }
    call.send().await.expect("the table is made");
    tokio::time::sleep(Duration::from_millis(500)).await;
}

fn binary(bytes: impl Into<Vec<u8>>) -> AttributeValue {
    AttributeValue::B(Blob::new(bytes))
}

fn partition(suffix: usize) -> AttributeValue {
    binary(format!("bench/hot/2026-11-30T12/{suffix}"))
}

fn item(event: usize, suffixes: usize) -> PutRequest {
    let sort = [(1_780_000_000_000_000_000 + event as u64 * 100_000).to_be_bytes(), (event as u64).to_be_bytes()].concat();
    let item = PutRequest::builder().item("pk", partition(event % suffixes)).item("sk", binary(sort));
    item.item("d", binary(vec![b'x'; EVENT_BYTES])).build().expect("it is whole")
}

async fn write(client: &Client, events: usize, suffixes: usize) -> f64 {
    let mut units = 0.0;
    let all: Vec<usize> = (0..events).collect();
    for batch in all.chunks(25) {
        let requests = batch.iter().map(|event| WriteRequest::builder().put_request(item(*event, suffixes)).build()).collect();
        let call = client.batch_write_item().request_items(TABLE, requests).return_consumed_capacity(ReturnConsumedCapacity::Total);
        let answer = call.send().await.expect("the batch is written");
        units += answer.consumed_capacity().iter().filter_map(|capacity| capacity.capacity_units()).sum::<f64>();
    }
    units
}

async fn read_all(client: &Client, suffixes: usize) -> (f64, usize) {
    let (mut units, mut found) = (0.0, 0);
    for suffix in 0..suffixes {
        let mut after = None;
        loop {
            let call = client.query().table_name(TABLE).key_condition_expression("pk = :p").consistent_read(true);
            let call = call.expression_attribute_values(":p", partition(suffix)).set_exclusive_start_key(after);
            let page = call.return_consumed_capacity(ReturnConsumedCapacity::Total).send().await.expect("the page is read");
            units += page.consumed_capacity().and_then(|capacity| capacity.capacity_units()).unwrap_or(0.0);
            found += page.items().len();
            after = page.last_evaluated_key;
            if after.is_none() {
                break;
            }
        }
    }
    (units, found)
}

async fn read_one(client: &Client) -> f64 {
    let put = item(0, 1);
    let key = |name: &str| put.item().get(name).cloned().expect("it has a key");
    let call = client.get_item().table_name(TABLE).key("pk", key("pk")).key("sk", key("sk")).consistent_read(true);
    let answer = call.return_consumed_capacity(ReturnConsumedCapacity::Total).send().await.expect("the event is read");
    answer.consumed_capacity().and_then(|capacity| capacity.capacity_units()).unwrap_or(0.0)
}
