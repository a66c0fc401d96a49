//! A DynamoDB-compatible server of a test's own, behind a proxy that does to real requests and answers
//! what a bad day does to them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use dynoxide::Database;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// A request as the proxy sees it.
pub(crate) struct Call {
    /// Such as `PutItem`.
    pub(crate) operation: String,
    /// Its body.
    pub(crate) body: Value,
}

/// What the proxy does with a request.
#[derive(Clone, Debug, Default)]
pub(crate) enum Fault {
    /// Hands it on, and the answer back.
    #[default]
    None,
    /// Answers 500 without handing it on.
    Fail,
    /// Hands it on, and answers 500.
    FailAfter,
    /// Hands it on, and never answers.
    Silence,
    /// Hands it on, and the answer back, when this says so.
    Hold(watch::Receiver<bool>),
    /// Closes the connection without handing it on.
    Reset,
    /// Hands it on, and closes the connection.
    ResetAfter,
    /// Refuses it for its rate, with this reason.
    Throttle(&'static str),
    /// Leaves each item of a batch undone with this probability.
    Undone(f64),
    /// Answers this body.
    Answer(Value),
}

type Rule = Arc<dyn Fn(&Call) -> Fault + Send + Sync>;

struct State {
    server: SocketAddr,
    rule: Mutex<Rule>,
    calls: Mutex<Vec<Call>>,
}

/// The server and its proxy; gone when dropped.
pub(crate) struct TestEngine {
    address: SocketAddr,
    state: Arc<State>,
    /// Nothing where another door's is used.
    server: Option<JoinHandle<()>>,
    proxy: Mutex<Option<JoinHandle<()>>>,
}

impl TestEngine {
    /// Starts both on free ports, without faults.
    pub(crate) async fn start() -> TestEngine {
        let database = Database::memory().expect("a database in memory");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let server_address = listener.local_addr().expect("it is bound");
        let server = tokio::spawn(dynoxide::server::serve_on(listener, database));
        TestEngine::door(server_address, Some(server)).await
    }

    /// A proxy of its own before the same server, with faults of its own: for tests of several nodes.
    #[allow(dead_code)]
    pub(crate) async fn another_door(&self) -> TestEngine {
        TestEngine::door(self.state.server, None).await
    }

    async fn door(server_address: SocketAddr, server: Option<JoinHandle<()>>) -> TestEngine {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let rule: Rule = Arc::new(|_: &Call| Fault::None);
        let state = Arc::new(State { server: server_address, rule: Mutex::new(rule), calls: Mutex::default() });
        let proxy = Mutex::new(Some(tokio::spawn(proxy(listener, state.clone()))));
        TestEngine { address, state, server, proxy }
    }

    /// Where the proxy listens.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on this decides what is done to each request.
    pub(crate) fn faults(&self, rule: impl Fn(&Call) -> Fault + Send + Sync + 'static) {
        *self.state.rule.lock().expect("no holder panics") = Arc::new(rule);
    }

    /// No faults any more.
    pub(crate) fn heal(&self) {
        self.faults(|_| Fault::None);
    }

    /// Takes the requests that came since the last time.
    pub(crate) fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut *self.state.calls.lock().expect("no holder panics"))
    }

    /// Cuts every connection and takes no new one.
    pub(crate) async fn stop(&self) {
        let proxy = self.proxy.lock().expect("no holder panics").take();
        if let Some(proxy) = proxy {
            proxy.abort();
            let _ = proxy.await;
        }
    }

    /// Listens again, on the same address and data.
    pub(crate) async fn restart(&self) {
        self.stop().await;
        let listener = TcpListener::bind(self.address).await.expect("the port is ours");
        *self.proxy.lock().expect("no holder panics") = Some(tokio::spawn(proxy(listener, self.state.clone())));
    }
}

impl Drop for TestEngine {
    fn drop(&mut self) {
        if let Some(server) = &self.server {
            server.abort();
        }
        if let Some(proxy) = self.proxy.lock().ok().and_then(|mut proxy| proxy.take()) {
            proxy.abort();
        }
    }
}

async fn proxy(listener: TcpListener, state: Arc<State>) {
    // Dropped with this task, and its connections with it.
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let state = state.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| handle(state.clone(), request));
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// An error closes the connection without an answer.
async fn handle(state: Arc<State>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, String> {
    let target = request.headers().get("x-amz-target").cloned().ok_or("no target")?;
    let operation = target.to_str().ok().and_then(|target| target.split('.').next_back()).unwrap_or_default().to_owned();
    let bytes = request.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    let body: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    let call = Call { operation, body };
    let rule = state.rule.lock().expect("no holder panics").clone();
    let fault = rule(&call);
    let body = call.body.clone();
    state.calls.lock().expect("no holder panics").push(call);
    let forward = |body| forward(state.server, target.clone(), body);
    match fault {
        Fault::None => forward(body).await,
        Fault::Fail => Ok(internal_error()),
        Fault::FailAfter => forward(body).await.map(|_| internal_error()),
        Fault::Silence => {
            forward(body).await?;
            std::future::pending().await
        }
        Fault::Hold(mut gate) => {
            gate.wait_for(|open| *open).await.map_err(|error| error.to_string())?;
            forward(body).await
        }
        Fault::Reset => Err("reset".into()),
        Fault::ResetAfter => forward(body).await.and(Err("reset".into())),
        Fault::Throttle(reason) => Ok(throttled(reason)),
        Fault::Undone(probability) => leave_undone(body, probability, forward).await,
        Fault::Answer(body) => Ok(answer(StatusCode::OK, &body)),
    }
}

/// Hands on a part of a batch and says that the rest is undone.
async fn leave_undone<F>(mut body: Value, probability: f64, forward: impl Fn(Value) -> F) -> Result<Response<Full<Bytes>>, String>
where
    F: Future<Output = Result<Response<Full<Bytes>>, String>>,
{
    let mut undone = serde_json::Map::new();
    let tables = body["RequestItems"].as_object_mut().ok_or("no batch")?;
    for (table, requests) in tables.iter_mut() {
        let (left, done): (Vec<_>, Vec<_>) =
            requests.as_array().cloned().unwrap_or_default().into_iter().partition(|_| rand::random::<f64>() < probability);
        *requests = Value::Array(done);
        if !left.is_empty() {
            undone.insert(table.clone(), Value::Array(left));
        }
    }
    let nothing = tables.values().all(|requests| requests.as_array().is_none_or(Vec::is_empty));
    let mut said = json!({});
    if !nothing {
        let response = forward(body).await?;
        let bytes = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
        said = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    }
    said["UnprocessedItems"] = Value::Object(undone);
    Ok(answer(StatusCode::OK, &said))
}

async fn forward(server: SocketAddr, target: HeaderValue, body: Value) -> Result<Response<Full<Bytes>>, String> {
    let stream = TcpStream::connect(server).await.map_err(|error| error.to_string())?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
    tokio::spawn(connection);
    let request = Request::builder()
        .method(Method::POST)
        .uri("/")
        .header(HOST, server.to_string())
        .header("x-amz-target", target)
        .header(CONTENT_TYPE, "application/x-amz-json-1.0")
        .header(
            "authorization",
            "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, Signature=0",
        )
        .header("x-amz-date", "20260101T000000Z")
        .body(Full::new(Bytes::from(body.to_string())))
        .map_err(|error| error.to_string())?;
    let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    let bytes = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
    Ok(Response::from_parts(parts, Full::new(bytes)))
}

fn answer(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let response = Response::builder().status(status).header(CONTENT_TYPE, "application/x-amz-json-1.0");
    response.body(Full::new(Bytes::from(body.to_string()))).expect("it is sound")
}

fn internal_error() -> Response<Full<Bytes>> {
    let body = json!({"__type": "com.amazonaws.dynamodb.v20120810#InternalServerError", "message": "injected"});
    answer(StatusCode::INTERNAL_SERVER_ERROR, &body)
}

fn throttled(reason: &str) -> Response<Full<Bytes>> {
    let body = json!({
        "__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
        "message": "injected",
        "ThrottlingReasons": [{"reason": reason, "resource": "arn:aws:dynamodb:us-east-1:000000000000:table/braid"}],
    });
    answer(StatusCode::BAD_REQUEST, &body)
}
