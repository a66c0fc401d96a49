//! N that moves by itself: a key turns hot under a verified load, gets more suffixes, cools, and comes down.

use serde_json::{Value, json};

use crate::http::{Client, query};
use crate::server::{Server, until};

const NS: &str = "bench";
const KEY: &str = "hot";
/// Events per second that one suffix should take at most.
const TARGET: u32 = 50;

/// Shards of every layout that the key got, in order, and whether all were the controller's.
fn history(client: &Client) -> (Vec<u64>, bool) {
    let answer = client.read(&query(&format!("/v1/{NS}/layout"), &[("key", KEY)]));
    let own = &answer["layouts"].as_array().expect("a list")[1..];
    let shards = own.iter().map(|layout| layout["shards"].as_u64().expect("a number")).collect();
    (shards, own.iter().all(|layout| layout["published"]["automatic"] == true))
}

/// What heat says of the key.
fn heat(client: &Client) -> Value {
    client.read(&query(&format!("/v1/{NS}/heat"), &[("key", KEY)]))["keys"][0].clone()
}

#[test]
fn a_key_that_turns_hot_gets_suffixes_and_loses_them_when_it_cools_and_no_event_is_lost() {
    let server = Server::start_with(&["--heat-cool-down", "2s"]);
    let client = server.client();
    client.put(&format!("/v1/namespaces/{NS}"), &json!({"shards": 1, "max_shards": 64, "target_events": TARGET})).expect(201);
    let load = {
        let url = server.url();
        std::thread::spawn(move || {
            let words = ["braid-load", "run", "--url", &url, "--json", "--verify", "--rate", "20/3s,400/27s", "--batch", "20"];
            let mut out = Vec::new();
            let code = braid_load::main(words.iter().map(Into::into), &mut out);
            (code, serde_json::from_slice::<Value>(&out).expect("a summary"))
        })
    };
    until("the key has more suffixes, none of them over its target", || {
        let heat = heat(client);
        assert!(!load.is_finished(), "the load is over, and the key never grew: {heat}");
        heat["shards"].as_u64() > Some(1) && heat["load"].as_f64() > Some(4.0) && heat["hottest"]["load"].as_f64() < Some(1.0)
    });
    let (code, said) = load.join().expect("it does not panic");
    assert_eq!(
        (code, &said["failed"], &said["rejected"], &said["verify"]["lost"]["count"]),
        (0, &json!(0), &json!(0), &json!(0)),
        "{said}"
    );
    assert_eq!(said["verify"]["found"], said["stored"], "{said}");
    until("the key is back at one suffix", || heat(client)["shards"] == 1);
    let (shards, automatic) = history(client);
    assert!(automatic && shards[0] >= 8 && shards.windows(2).all(|pair| pair[0] > pair[1]), "up once, then down only: {shards:?}");
}
