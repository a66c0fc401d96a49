//! The table as it is made and checked.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_table_is_said_to_be_missing_and_init_makes_it_once() {
    let engine = TestEngine::start().await;
    assert!(matches!(DynamoStore::open(options(&engine)).await, Err(OpenError::Missing(table)) if table == "braid"));
    assert_eq!(init(&options(&engine), &plain()).await.unwrap(), ["made"]);
    assert_eq!(init(&options(&engine), &plain()).await.unwrap(), [""; 0]);
    assert!(DynamoStore::open(options(&engine)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn billing_and_tags_are_as_they_were_asked_for() {
    let engine = TestEngine::start().await;
    let billing = Billing::Provisioned { read: 7, write: 9 };
    let tags = vec![("team".into(), "metrics".into())];
    init(&options(&engine), &TableOptions { billing, tags, ..plain() }).await.unwrap();
    init(&DynamoOptions { table: "other".into(), ..options(&engine) }, &plain()).await.unwrap();
    let calls = engine.calls();
    let made: Vec<_> = calls.iter().filter(|call| call.operation == "CreateTable").map(|call| &call.body).collect();
    assert_eq!(made[0]["ProvisionedThroughput"], serde_json::json!({"ReadCapacityUnits": 7, "WriteCapacityUnits": 9}));
    assert_eq!(made[0]["Tags"], serde_json::json!([{"Key": "team", "Value": "metrics"}]));
    assert_eq!(made[1]["BillingMode"], "PAY_PER_REQUEST");
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_that_are_to_expire_need_a_table_that_lets_them() {
    let engine = TestEngine::start().await;
    init(&options(&engine), &plain()).await.unwrap();
    let expiring = DynamoOptions { ttl: Some(Duration::from_secs(100)), ..options(&engine) };
    assert!(matches!(DynamoStore::open(expiring.clone()).await, Err(OpenError::Unfit { .. })));
    assert_eq!(init(&expiring, &plain()).await.unwrap(), ["time to live on"]);
    let store = DynamoStore::open(expiring).await.unwrap();
    engine.calls();
    let p = conformance::partition(&"n".parse().unwrap(), "k", 0, 0);
    let (seconds, written) = (1_000_000_000, 5_000_000_000);
    store.append(vec![conformance::block(&p, 0, 70 * seconds, written, "new")]).await.unwrap();
    store.append(vec![conformance::block(&p, 0, 2 * seconds, written, "old")]).await.unwrap();
    let expiries: Vec<_> = engine.calls().iter().map(|call| call.body["Item"]["x"]["N"].clone()).collect();
    assert_eq!(expiries, ["170", "105"], "the later of its last event and its writing, and the time to live");
}

#[tokio::test(flavor = "multi_thread")]
async fn point_in_time_recovery_is_turned_on_where_it_is_asked_for() {
    let engine = TestEngine::start().await;
    // The server knows no backups; what is asked of it is on the wire all the same.
    engine.faults(|call| match call.operation.as_str() {
        "UpdateContinuousBackups" => Fault::Answer(serde_json::json!({})),
        _ => Fault::None,
    });
    let done = init(&options(&engine), &TableOptions { point_in_time_recovery: true, ..plain() }).await.unwrap();
    assert_eq!(done, ["made", "point-in-time recovery on"]);
    let calls = engine.calls();
    let asked = &calls.iter().find(|call| call.operation == "UpdateContinuousBackups").unwrap().body;
    assert_eq!(asked["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_another_shape_is_refused() {
    let engine = TestEngine::start().await;
    let client = client::connect(&options(&engine)).await;
    use aws_sdk_dynamodb::types::{AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType};
    let attribute = AttributeDefinition::builder().attribute_name("pk").attribute_type(ScalarAttributeType::S).build().unwrap();
    let key = KeySchemaElement::builder().attribute_name("pk").key_type(KeyType::Hash).build().unwrap();
    let call = client.create_table().table_name("braid").attribute_definitions(attribute).key_schema(key);
    call.billing_mode(BillingMode::PayPerRequest).send().await.unwrap();
    assert!(matches!(DynamoStore::open(options(&engine)).await, Err(OpenError::Unfit { .. })));
    assert!(matches!(init(&options(&engine), &plain()).await, Err(OpenError::Unfit { .. })));
}
