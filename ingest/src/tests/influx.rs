//! Line protocol as InfluxDB's clients speak it.

use axum::body::Body;
use axum::http::{Request, StatusCode};

use super::server;

#[tokio::test]
async fn both_writes_answer_204_and_store_under_the_tag_set() {
    let server = server().await;
    let v1 = server.post("/write?db=tele&precision=s", "cpu,host=b,core=1 idle=1.5,busy=2i 1600000000").await;
    let v2 = server.post("/api/v2/write?org=o&bucket=tele/autogen&precision=s", "cpu,core=1,host=b busy=3i 1600000000").await;
    assert_eq!((v1.status, v2.status), (StatusCode::NO_CONTENT, StatusCode::NO_CONTENT));
    assert!(v1.headers.contains_key("x-influxdb-version"));
    let events = server.events("tele", "cpu").await;
    assert_eq!(events.len(), 1, "one series at one time is one event, whatever the order of its tags");
    assert_eq!(events[0].id, "core=1,host=b");
    assert_eq!(format!("{:?}", events[0].fields), r#"{"busy": I64(3), "idle": F64(1.5)}"#);
}

#[tokio::test]
async fn lines_without_a_time_take_that_of_receipt_and_points_of_one_series_are_one_event() {
    let server = server().await;
    assert_eq!(server.post("/write?db=tele", "m a=1\nm b=2\nm,t=x a=3").await.status, StatusCode::NO_CONTENT);
    let events = server.events("tele", "m").await;
    assert_eq!(events.iter().map(|event| (event.id.as_str(), event.fields.len())).collect::<Vec<_>>(), [("", 2), ("t=x", 1)]);
    assert!(events.iter().all(|event| event.ts == super::NOW));
}

#[tokio::test]
async fn good_lines_are_stored_and_bad_ones_counted_in_influxdbs_words() {
    let server = server().await;
    let body = "m a=1 1\nm a=\nm a=2 2\n";
    let v1 = server.post("/write?db=tele", body).await;
    assert_eq!(v1.status, StatusCode::BAD_REQUEST);
    let message = v1.body["error"].as_str().unwrap();
    assert!(message.starts_with("partial write: line 2: ") && message.ends_with("dropped=1"), "{message}");
    assert!(v1.headers.contains_key("x-influxdb-error"));
    let v2 = server.post("/api/v2/write?bucket=tele", body).await;
    assert_eq!((v2.status, &v2.body["code"]), (StatusCode::BAD_REQUEST, &"invalid".into()));
    assert!(v2.body["message"].as_str().unwrap().contains("dropped=1"));
    assert_eq!(server.events("tele", "m").await.len(), 2);
}

#[tokio::test]
async fn an_id_tag_is_the_id() {
    let server = server().await;
    assert_eq!(server.post("/write?db=tele&id_tag=order", "m,order=o-1,host=a v=1 1").await.status, StatusCode::NO_CONTENT);
    assert_eq!(server.ids("tele", "m").await, ["o-1"]);
}

#[tokio::test]
async fn refusals_are_in_the_json_of_each_version() {
    let server = server().await;
    for (path, status) in [("/write", 400), ("/write?db=tele&nope=1", 400), ("/write?db=te/le", 400), ("/write?db=tele&precision=d", 400)] {
        let answer = server.post(path, "m v=1").await;
        assert_eq!(answer.status.as_u16(), status, "{path}");
        assert!(answer.body["error"].is_string(), "{path}");
    }
    let answer = server.post("/api/v2/write?bucket=tele&db=x", "m v=1").await;
    assert_eq!((answer.status.as_u16(), &answer.body["code"]), (400, &"invalid".into()));
    assert!(answer.body["message"].as_str().unwrap().contains("db"));
    let zipped = Request::post("/api/v2/write?bucket=tele").header("content-encoding", "br").body(Body::from("x")).unwrap();
    assert_eq!(server.send(zipped).await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[tokio::test]
async fn probes_are_answered() {
    let server = server().await;
    for method in ["GET", "HEAD"] {
        let answer = server.send(Request::builder().method(method).uri("/ping").body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, StatusCode::NO_CONTENT, "{method}");
        assert!(answer.headers.contains_key("x-influxdb-version"), "{method}");
    }
    let health = server.send(Request::get("/health").body(Body::empty()).unwrap()).await;
    assert_eq!((health.status, &health.body["status"], &health.body["name"]), (StatusCode::OK, &"pass".into(), &"braid".into()));
}

#[tokio::test]
async fn create_database_makes_the_namespace_and_show_databases_lists_it() {
    let server = server().await;
    let form = Request::post("/query").header("content-type", "application/x-www-form-urlencoded");
    let made = server.send(form.body(Body::from("q=CREATE+DATABASE+%22telegraf%22")).unwrap()).await;
    assert_eq!((made.status, made.body), (StatusCode::OK, serde_json::json!({ "results": [{ "statement_id": 0 }] })));
    let shown = server.send(Request::get("/query?q=SHOW%20DATABASES&db=&epoch=ns").body(Body::empty()).unwrap()).await;
    assert_eq!(shown.body["results"][0]["series"][0]["values"], serde_json::json!([["telegraf"]]));
    let other = server.send(Request::get("/query?q=SELECT%20*%20FROM%20cpu").body(Body::empty()).unwrap()).await;
    assert_eq!(other.status, StatusCode::BAD_REQUEST);
    assert!(other.body["error"].is_string());
}
