//! The admin commands, as an operator runs them: what they print, and what they exit with.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::http::JSON;
use crate::read::all_events;
use crate::server::{End, Server, until};

const NS: &str = "shop";
const KEY: &str = "orders";

fn braid(url: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid"));
    command.args(arguments).args(["--url", url]).env("USER", "ann").env_remove("BRAID_URL").env_remove("BRAID_TOKEN_FILE");
    command.output().expect("the binary starts")
}

#[track_caller]
fn done(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("text")
}

#[track_caller]
fn answer(output: &Output) -> Value {
    serde_json::from_str(&done(output)).expect("JSON")
}

#[track_caller]
fn fails(output: &Output, code: i32, says: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    assert!(stderr.contains(says), "{stderr}");
}

#[test]
fn layouts_are_set_waited_for_withdrawn_and_shown_with_who_and_why() {
    let server = Server::start();
    let run = |arguments: &[&str]| braid(&server.url(), arguments);
    done(&run(&["ns", "set", NS, "--shards", "2"]));
    let said = done(&run(&["layout", "set", NS, "--key", KEY, "--shards", "16", "--wait", "--reason", "launch day"]));
    assert!(said.starts_with("layout 2: 16 shards from ") && said.trim_end().ends_with("in force"), "{said}");
    let far = answer(&run(&["layout", "set", NS, "--key", KEY, "--shards", "3", "--from", "now+1h", "--json"]));
    assert_eq!((&far["state"], &far["published"]["author"]), (&json!("scheduled"), &json!("ann")), "{far}");
    let version = far["version"].to_string();
    done(&run(&["layout", "withdraw", NS, "--key", KEY, "--version", &version, "--reason", "not yet"]));
    let shown = done(&run(&["layout", "show", NS, "--key", KEY]));
    let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((rows[1][..2].to_vec(), rows[2][..2].to_vec(), rows[3][0]), (vec!["0", "2"], vec!["2", "16"], "revision"), "{shown}");
    let history = done(&run(&["layout", "history", NS, "--key", KEY]));
    for part in ["launch day", "not yet", "withdrawn", "ann"] {
        assert!(history.contains(part), "{part}: {history}");
    }
    let list = answer(&run(&["layout", "history", NS, "--key", KEY, "--json"]));
    assert_eq!(list["layouts"][2]["withdrawal"]["reason"], "not yet", "{list}");
}

#[test]
fn who_comes_second_is_told_and_exits_1() {
    let server = Server::start();
    let run = |arguments: &[&str]| braid(&server.url(), arguments);
    let ns = answer(&run(&["ns", "set", NS, "--max-shards", "64", "--json"]));
    let seen = ns["revision"].to_string();
    done(&run(&["layout", "set", NS, "--shards", "8", "--expected-revision", &seen]));
    fails(&run(&["layout", "set", NS, "--shards", "9", "--expected-revision", &seen]), 1, "revision_conflict (409): the timeline changed");
    let body = json!({"max_shards": 32, "expected_revision": 0}).to_string();
    server
        .client()
        .send(reqwest::Method::PUT, &format!("/v1/namespaces/{NS}"), &[("content-type", JSON)], body.into())
        .unwrap()
        .expect_problem(409, "revision_conflict");
}

#[test]
fn a_policy_keeps_what_is_not_given_and_loses_what_is_none() {
    let server = Server::start();
    let run = |arguments: &[&str]| braid(&server.url(), arguments);
    done(&run(&["ns", "set", NS, "--max-shards", "64", "--max-age", "30d"]));
    let ns = answer(&run(&["ns", "set", NS, "--heat", "dry_run", "--target-events", "100", "--max-age", "none", "--json"]));
    let members = ["max_shards", "heat", "target_events", "max_age"].map(|name| ns[name].clone());
    assert_eq!(members, [json!(64), json!("dry_run"), json!(100), Value::Null], "{ns}");
    assert_eq!(ns["changed"]["author"], "ann");
    done(&run(&["ns", "set", "another", "--shards", "7"]));
    let listed = done(&run(&["ns", "list"]));
    let names: Vec<&str> = listed.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["another", NS]);
    let page = server.client().read("/v1/namespaces?limit=1");
    assert_eq!((&page["namespaces"][0]["namespace"], &page["next"]), (&json!("another"), &json!("another")));
    let page = server.client().read("/v1/namespaces?after=another");
    assert_eq!((&page["namespaces"][0]["namespace"], &page["next"]), (&json!(NS), &Value::Null));
}

#[test]
fn failures_say_why_and_have_exit_codes_of_their_own() {
    let server = Server::start();
    let run = |arguments: &[&str]| braid(&server.url(), arguments);
    fails(&run(&["layout", "show", "nobody"]), 1, "namespace_not_found (404)");
    fails(&run(&["layout", "set", NS, "--shards", "many"]), 2, "many");
    fails(&run(&["ns", "set", NS, "--max-shards", "many"]), 2, "--max-shards");
    fails(&braid("http://127.0.0.1:1", &["ns", "list"]), 3, "127.0.0.1:1");
    fails(&braid("https://example.org", &["ns", "list"]), 2, "--url");
    done(&run(&["ns", "set", NS]));
    fails(&run(&["layout", "set", NS, "--shards", "3", "--from", "now+1h", "--wait", "--wait-max", "50ms"]), 4, "stands and begins at");
}

#[test]
fn heat_is_shown_for_what_is_written() {
    let server = Server::start();
    let client = server.client();
    let mut n = 0;
    until("heat shows the key", || {
        n += 1;
        client
            .deliver(&format!("/v1/{NS}/events"), JSON, json!({"key": KEY, "id": n.to_string(), "value": 1}).to_string().as_bytes())
            .expect(200);
        let heat = client.read(&format!("/v1/{NS}/heat"));
        heat["keys"][0]["key"] == KEY && heat["keys"][0]["rate"]["events"].as_f64() > Some(0.0) && heat["mode"] == "off"
    });
    let shown = done(&braid(&server.url(), &["heat", NS]));
    assert!(shown.lines().nth(1).is_some_and(|row| row.starts_with(KEY)), "{shown}");
}

#[test]
fn the_promise_is_lowered_only_while_no_node_runs_and_what_was_written_stays() {
    let mut server = Server::start();
    let event = json!({"key": KEY, "id": "a", "value": 1}).to_string();
    server.client().deliver(&format!("/v1/{NS}/events"), JSON, event.as_bytes()).expect(200);
    let directory = server.data_dir();
    let lower = || Command::new(env!("CARGO_BIN_EXE_braid")).args(["store", "lower-promise", "--data-dir"]).arg(&directory).output();
    fails(&lower().expect("the binary starts"), 1, directory.to_str().expect("text"));
    server.stop(End::Drain);
    let said = done(&lower().expect("the binary starts"));
    assert!(said.starts_with("the promise "), "{said}");
    server.spawn();
    assert_eq!(all_events(server.client(), NS, &[("key", KEY), ("from", "now-1h")]).0.len(), 1);
}
