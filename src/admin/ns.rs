//! `braid ns list|show|set`: namespaces and their policies.

use clap::{Arg, ArgMatches, Command};
use serde_json::{Map, Value};

use super::client::{Client, Failure, text};
use super::table::table;
use super::{record, with_record};

/// What a flag's value is sent as.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Number,
    Truth,
}

/// A namespace's members: flag, kind, whether it is policy (replaced as a whole) or layout 0, help.
const MEMBERS: &[(&str, Kind, bool, &str)] = &[
    ("shards", Kind::Number, false, "Shards of the first layout (when the namespace is made)"),
    ("bucket", Kind::Text, false, "Bucket of the first layout (when the namespace is made)"),
    ("shard-by", Kind::Text, false, "What the first layout shards by: id, or a tag's name (when the namespace is made)"),
    ("archive-after", Kind::Text, true, "Age at which buckets are archived"),
    ("retention", Kind::Text, true, "Age at which events are dropped"),
    ("max-age", Kind::Text, true, "Age beyond which events are refused"),
    ("min-shards", Kind::Number, true, "Fewest shards that the controller may choose"),
    ("max-shards", Kind::Number, true, "Most shards that the controller may choose"),
    ("heat", Kind::Text, true, "What the controller does: auto, dry_run or off"),
    ("target-events", Kind::Number, true, "Events per second that one suffix should take at most"),
    ("target-units", Kind::Number, true, "Store units per second that one suffix should take at most"),
    ("eventual-reads", Kind::Truth, true, "Whether reads may be eventually consistent: true or false"),
];

/// Pages of a listing that are read before giving up: far more than there may be namespaces.
const PAGES_MAX: usize = 64;

pub(super) fn command() -> Command {
    let namespace = || Arg::new("namespace").required(true).value_name("NAMESPACE");
    let set =
        Command::new("set").about("Make a namespace, or change its policy; what is not given stays, `none` takes it away").arg(namespace());
    let set = MEMBERS.iter().fold(set, |set, (flag, _, _, help)| set.arg(Arg::new(*flag).long(*flag).value_name("VALUE").help(*help)));
    let show = Command::new("show").about("A namespace's policy and first layout").arg(namespace());
    let list = Command::new("list").about("Every namespace");
    Command::new("ns").about("List, make and change namespaces").subcommand_required(true).subcommands([list, show, with_record(set)])
}

pub(super) fn run(client: &Client, matches: &ArgMatches) -> Result<String, Failure> {
    match matches.subcommand() {
        Some(("set", matches)) => set(client, matches),
        Some(("show", matches)) => shown(client, client.get(&path(matches), &[])?),
        _ => list(client),
    }
}

fn path(matches: &ArgMatches) -> String {
    format!("/v1/namespaces/{}", matches.get_one::<String>("namespace").map(String::as_str).unwrap_or_default())
}

fn list(client: &Client) -> Result<String, Failure> {
    let mut all: Vec<Value> = Vec::new();
    let mut after = None;
    for _ in 0..PAGES_MAX {
        let page = client.get("/v1/namespaces", after.as_ref().map(|after: &String| ("after", after.as_str())).as_slice())?;
        all.extend(page["namespaces"].as_array().cloned().unwrap_or_default());
        after = page["next"].as_str().map(str::to_owned);
        if after.is_none() {
            break;
        }
    }
    if client.json {
        return Ok(Value::from(all).to_string());
    }
    let names = ["namespace", "shards", "bucket", "shard_by", "min_shards", "max_shards", "heat", "retention", "archive_after"];
    let rows: Vec<Vec<String>> = all.iter().map(|ns| names.iter().map(|name| text(&ns[*name])).collect()).collect();
    Ok(table(&["NAMESPACE", "SHARDS", "BUCKET", "SHARD BY", "MIN", "MAX", "HEAT", "RETENTION", "ARCHIVE AFTER"], &rows))
}

/// Reads the policy, changes what is given, and puts it back if nobody changed it meanwhile.
fn set(client: &Client, matches: &ArgMatches) -> Result<String, Failure> {
    let mut body = match client.get(&path(matches), &[]) {
        Ok(before) => policy_of(&before),
        Err(Failure::Refused(404, ..)) => Map::new(),
        Err(failure) => return Err(failure),
    };
    for (flag, kind, _, _) in MEMBERS {
        let Some(value) = matches.get_one::<String>(flag) else { continue };
        let value = sent(*kind, value).ok_or_else(|| Failure::Usage(format!("--{flag}: {value:?} does not go there")))?;
        body.insert(flag.replace('-', "_"), value);
    }
    body.retain(|_, value| !value.is_null());
    body.extend(record(matches));
    shown(client, client.put(&path(matches), &body.into())?)
}

/// The policy as it is, to be put back, on the condition that it is still that one.
fn policy_of(before: &Value) -> Map<String, Value> {
    let policy = MEMBERS.iter().filter(|(_, _, policy, _)| *policy).map(|(flag, ..)| flag.replace('-', "_"));
    let kept = policy.map(|member| (member.clone(), before[&member].clone()));
    kept.chain([("expected_revision".to_owned(), before["revision"].clone())]).collect()
}

fn sent(kind: Kind, value: &str) -> Option<Value> {
    match kind {
        _ if value == "none" => Some(Value::Null),
        Kind::Text => Some(value.into()),
        Kind::Number => value.parse::<u32>().ok().map(Value::from),
        Kind::Truth => value.parse::<bool>().ok().map(Value::from),
    }
}

fn shown(client: &Client, ns: Value) -> Result<String, Failure> {
    if client.json {
        return Ok(ns.to_string());
    }
    let members = MEMBERS.iter().map(|(flag, ..)| vec![flag.replace('-', " "), text(&ns[flag.replace('-', "_")])]);
    let rows: Vec<_> = members.chain([vec!["revision".into(), text(&ns["revision"])]]).collect();
    Ok(table(&["NAMESPACE", &text(&ns["namespace"])], &rows))
}
