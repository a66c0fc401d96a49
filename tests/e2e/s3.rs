//! Cold history in an S3-compatible store: archived, read back verified, its faults named, its secrets kept.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::header::{ETAG, LAST_MODIFIED};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::http::{Client, JSON, NDJSON, query};
use crate::read::all_events;
use crate::server::{End, Server, until};

const KEY_ID: &str = "AKIDEXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI-K7MDENG";
const TOKEN: &str = "AQoDYXdzEPT-session";
/// Objects that a listing gives at once.
const PAGE: usize = 7;

/// As much of S3 as a database asks of it, in memory: objects by bucket and key.
#[derive(Clone, Default)]
struct S3 {
    objects: Arc<Mutex<BTreeMap<String, Bytes>>>,
    /// Whether every call is refused.
    refusing: Arc<Mutex<Option<StatusCode>>>,
}

impl S3 {
    /// Serves it; the environment by which it is found.
    fn start(&self) -> (Runtime, Vec<(&'static str, String)>) {
        let runtime = Runtime::new().expect("a runtime");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let router = Router::new().fallback(answer).with_state(self.clone());
        runtime.spawn(async { axum::serve(listener, router).await.expect("it serves") });
        let environment = [
            ("AWS_ENDPOINT_URL", &*url),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_REGION", "eu-central-1"),
            ("AWS_ACCESS_KEY_ID", KEY_ID),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
            ("AWS_SESSION_TOKEN", TOKEN),
        ];
        (runtime, environment.map(|(name, value)| (name, value.to_owned())).into())
    }

    fn refuse(&self, status: impl Into<Option<StatusCode>>) {
        *self.refusing.lock().expect("no holder panics") = status.into();
    }

    fn replace(&self, path: &str, bytes: Option<Bytes>) -> Option<Bytes> {
        let mut objects = self.objects.lock().expect("no holder panics");
        match bytes {
            Some(bytes) => objects.insert(path.to_owned(), bytes),
            None => objects.remove(path),
        }
    }

    fn list(&self, bucket: &str, asked: &BTreeMap<String, String>) -> String {
        let objects = self.objects.lock().expect("no holder panics");
        let prefix = format!("{bucket}/{}", asked.get("prefix").map_or("", String::as_str));
        let after = asked.get("continuation-token").cloned().unwrap_or_default();
        let mut found = objects.iter().filter(|(path, _)| path.starts_with(&prefix) && **path > after).peekable();
        let (mut contents, mut last) = (String::new(), String::new());
        for (path, bytes) in found.by_ref().take(PAGE) {
            let key = &path[bucket.len() + 1..];
            contents += &format!(
                "<Contents><Key>{key}</Key><LastModified>2026-11-29T12:00:00.000Z</LastModified><ETag>\"e\"</ETag><Size>{}</Size></Contents>",
                bytes.len()
            );
            last.clone_from(path);
        }
        let next = found.peek().map(|_| format!("<NextContinuationToken>{last}</NextContinuationToken>")).unwrap_or_default();
        format!("<ListBucketResult><IsTruncated>{}</IsTruncated>{contents}{next}</ListBucketResult>", !next.is_empty())
    }
}

async fn answer(
    State(s3): State<S3>,
    method: Method,
    uri: Uri,
    Query(asked): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let signed = header("authorization").starts_with(&format!("AWS4-HMAC-SHA256 Credential={KEY_ID}/"));
    if !signed || header("x-amz-security-token") != TOKEN {
        return refusal(StatusCode::FORBIDDEN);
    }
    if let Some(status) = *s3.refusing.lock().expect("no holder panics") {
        return refusal(status);
    }
    let path = uri.path().trim_matches('/');
    let found = s3.objects.lock().expect("no holder panics").get(path).cloned();
    let about = [(ETAG, "\"e\""), (LAST_MODIFIED, "Sun, 29 Nov 2026 12:00:00 GMT")];
    match (method, found) {
        (Method::GET, _) if asked.contains_key("list-type") => s3.list(path, &asked).into_response(),
        (Method::GET | Method::HEAD, Some(bytes)) => (about, bytes).into_response(),
        (Method::PUT, _) => {
            s3.replace(path, Some(body));
            about.into_response()
        }
        (Method::DELETE, _) => {
            s3.replace(path, None);
            StatusCode::NO_CONTENT.into_response()
        }
        _ => refusal(StatusCode::NOT_FOUND),
    }
}

/// A refusal in S3's words, which repeat what came with the request.
fn refusal(status: StatusCode) -> Response {
    let body = format!(
        "<?xml version=\"1.0\"?><Error><Code>Refused</Code><Message>it is a test</Message>\
         <AWSAccessKeyId>{KEY_ID}</AWSAccessKeyId><Token-0>{TOKEN}</Token-0></Error>"
    );
    (status, body).into_response()
}

fn write(client: &Client, hours: std::ops::Range<u32>) {
    let line = |n: u32, hour: u32| json!({"key": format!("k{}", n % 3), "id": format!("e{hour}-{n}"), "ts": format!("2026-01-01T{hour:02}:00:{n:02}Z"), "value": n});
    let lines: Vec<String> = hours.flat_map(|hour| (0..30).map(move |n| line(n, hour).to_string())).collect();
    client.post("/v1/shop/events", NDJSON, lines.join("\n")).expect(200);
}

fn read(client: &Client) -> Vec<Value> {
    (0..3).flat_map(|key| all_events(client, "shop", &[("key", &format!("k{key}"))]).0).collect()
}

/// The tables that answer for a key's 22 hours, and whether the store does too.
fn tables(client: &Client, key: &str) -> (Vec<Value>, bool) {
    let day = [("key", key), ("from", "2026-01-01T00:00:00Z"), ("to", "2026-01-01T22:00:00Z")];
    let explained = client.read(&query("/v1/shop/explain", &day));
    (explained["tables"].as_array().expect("a list").clone(), explained["partitions"] != json!([]))
}

fn has_left_the_store(client: &Client) -> bool {
    (0..3).all(|key| !tables(client, &format!("k{key}")).1)
        && client.metric("braid_archive_swept_total") == client.metric("braid_archive_generations_total")
}

#[test]
fn history_goes_to_s3_and_comes_back_and_every_fault_is_named_without_a_secret() {
    let s3 = S3::default();
    let (_runtime, environment) = s3.start();
    let mut server = Server::start_in(environment.clone(), &["--grace", "5s"]);
    server.client().put("/v1/namespaces/shop", &json!({"shards": 2, "archive_after": "1h"})).expect(201);
    let group = json!({"tables": 5, "databases": [
        {"name": "a", "url": "s3://cold/history/a", "tables": 3}, {"name": "b", "url": "s3://cold/b", "tables": 2}]});

    // A bucket that refuses is named before it is used.
    s3.refuse(StatusCode::FORBIDDEN);
    let refused = server.client().post("/v1/shop/groups", JSON, group.to_string()).expect_problem(503, "table_unavailable");
    assert_eq!(refused["database"], "a");
    assert!(refused["detail"].as_str().is_some_and(|detail| detail.contains("403 Forbidden: Refused: it is a test")), "{refused}");
    s3.refuse(None);
    server.client().post("/v1/shop/groups", JSON, group.to_string()).expect(201);

    // One that goes away while it is written to holds up nothing but its own buckets.
    s3.refuse(StatusCode::SERVICE_UNAVAILABLE);
    write(server.client(), 0..20);
    let client = server.client().clone();
    until("the archiver has tried", || client.metric("braid_archive_databases_resting") == 2.0);
    write(server.client(), 20..22);
    let before = read(server.client());
    assert_eq!(before.len(), 22 * 30);
    let ready = String::from_utf8(client.get("/readyz").expect(200).body).expect("text");
    assert!(ready.contains("trouble: put: database a, ") && ready.contains("trouble: put: database b, "), "{ready}");
    let checked =
        Command::new(env!("CARGO_BIN_EXE_braid")).args(["group", "check", "shop", "--url", &server.url()]).output().expect("it runs");
    assert_eq!(checked.status.code(), Some(4), "{checked:?}");
    assert!(String::from_utf8_lossy(&checked.stderr).contains("database a, shop/cold/probe-"), "{checked:?}");
    s3.refuse(None);
    until("everything has left the store", || has_left_the_store(&client));
    assert!(read(server.client()) == before);

    // Read anew, from the files alone.
    server.restart(End::Drain);
    assert!(read(server.client()) == before);
    let (named, _) = tables(server.client(), "k0");
    let path = |table: &Value| {
        let prefix = if table["database"] == "a" { "cold/history/a" } else { "cold/b" };
        format!("{prefix}/{}", table["files"][0].as_str().expect("a path"))
    };
    let (file, whole) = (path(&named[0]), s3.replace(&path(&named[0]), None));
    for changed in [None, whole.as_ref().map(|bytes| bytes.slice(1..))] {
        s3.replace(&file, changed);
        server.restart(End::Drain);
        let day = query(
            "/v1/shop/aggregate",
            &[("key", "k0"), ("from", "2026-01-01T00:00:00Z"), ("to", "2026-01-02T00:00:00Z"), ("fn", "count")],
        );
        let problem = server.client().get(&day).expect_problem(503, "table_damaged");
        assert_eq!((&problem["database"], &problem["file"]), (&named[0]["database"], &named[0]["files"][0]), "{problem}");
    }
    s3.replace(&file, whole);
    assert!(read(server.client()) == before);

    let audit = server.down(|flags| {
        let verify = Command::new(env!("CARGO_BIN_EXE_braid")).args(flags).arg("verify").envs(environment).output();
        verify.expect("the binary starts")
    });
    let said = String::from_utf8_lossy(&audit.stdout);
    assert!(audit.status.success() && said.contains(" 0 blocks,") && said.contains("with 660 events"), "{said}");

    let told = [server.whole_log(), refused.to_string(), ready, format!("{checked:?}")].concat();
    assert!(told.contains("Refused: it is a test"));
    assert!([SECRET, TOKEN, KEY_ID].iter().all(|secret| !told.contains(secret)), "a secret is told");
}
