//! Group commit, seen from outside: single events that come together share commits; alone they do not wait.

use serde_json::json;

use crate::clock::now_ms;
use crate::http::{Client, JSON, query};
use crate::server::Server;

const REQUESTS: usize = 1_000;
const CONNECTIONS: usize = 64;

fn send(client: &Client, from: &str, requests: usize) {
    for i in 0..requests {
        let event = json!({"key": "hot", "id": format!("{from}-{i}"), "ts": now_ms(), "fields": {"n": i}});
        client.deliver("/v1/singles/events", JSON, event.to_string().as_bytes()).expect(200);
    }
}

/// Commits and the events in them since the last call.
fn counts(client: &Client) -> (f64, f64) {
    (client.metric("braid_commits_total"), client.metric("braid_commit_events_total"))
}

#[test]
fn single_events_from_many_connections_share_commits_and_from_one_they_are_committed_one_by_one() {
    let server = Server::start();
    let client = server.client();
    send(client, "alone", REQUESTS / 10);
    let alone = counts(client);
    assert_eq!(alone.1, (REQUESTS / 10) as f64);
    assert!(alone.0 >= alone.1, "one connection waits for each commit, so none is shared; the catalog commits too");

    std::thread::scope(|scope| {
        for n in 0..CONNECTIONS {
            let share = REQUESTS / CONNECTIONS + usize::from(n < REQUESTS % CONNECTIONS);
            scope.spawn(move || send(client, &format!("c{n}"), share));
        }
    });
    let all = counts(client);
    let (commits, events) = (all.0 - alone.0, all.1 - alone.1);
    assert_eq!(events, REQUESTS as f64);
    assert!(events / commits > 1.5, "{events} events took {commits} commits");

    let path = query("/v1/singles/aggregate", &[("key", "hot"), ("from", "now-1h"), ("fn", "count")]);
    assert_eq!(client.read(&path)["rows"][0]["count"], REQUESTS + REQUESTS / 10);
}
