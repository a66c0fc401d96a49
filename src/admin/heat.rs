//! `braid heat`: what is written how fast, as a table that follows it on a terminal.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::Value;

use super::client::{Client, Failure, text};
use super::table::{plain, table};

/// Clears the screen and goes to its corner.
const CLEAR: &str = "\x1b[2J\x1b[H";
/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);

pub(super) fn command() -> Command {
    Command::new("heat")
        .about("Show the hottest keys: rates, skew, N, and the controller's last decision")
        .arg(Arg::new("namespace").required(true).value_name("NAMESPACE").help("Of which namespace"))
        .arg(Arg::new("key").long("key").help("Of this key alone, with its suffixes"))
        .arg(Arg::new("limit").long("limit").default_value("20").value_name("COUNT").help("Most keys shown"))
        .arg(Arg::new("once").long("once").action(ArgAction::SetTrue).help("Show it once, also on a terminal"))
}

pub(super) fn run(client: &Client, matches: &ArgMatches) -> Result<String, Failure> {
    let given = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let path = format!("/v1/{}/heat", given("namespace").unwrap_or_default());
    let key = given("key");
    let parameters: Vec<(&str, &str)> =
        [("key", key), ("limit", given("limit"))].into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let look = || client.get(&path, &parameters);
    if client.json || matches.get_flag("once") || !std::io::stdout().is_terminal() {
        let answer = look()?;
        return Ok(if client.json { answer.to_string() } else { shown(&answer, key.is_some()) });
    }
    loop {
        let screen = shown(&look()?, key.is_some());
        if write!(std::io::stdout(), "{CLEAR}{screen}").and_then(|()| std::io::stdout().flush()).is_err() {
            return Ok(String::new());
        }
        std::thread::sleep(EVERY);
    }
}

fn shown(answer: &Value, with_suffixes: bool) -> String {
    let keys = answer["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<Vec<String>> = keys.iter().map(row).collect();
    let mut out = table(&["KEY", "N", "EVENTS/S", "UNITS/S", "KB/S", "THROTTLES/S", "HOTTEST/S", "LOAD", "SKEW", "LAST DECISION"], &rows);
    if with_suffixes {
        let suffixes = keys.iter().flat_map(|key| key["suffixes"].as_array().cloned().unwrap_or_default());
        let rows: Vec<_> = suffixes
            .map(|suffix| vec![text(&suffix["suffix"]), number(&suffix["rate"]["events"]), number(&suffix["rate"]["units"])])
            .collect();
        out = format!("{out}\n{}", table(&["SUFFIX", "EVENTS/S", "UNITS/S"], &rows));
    }
    for key in keys {
        if let Some(reason) = key["decision"]["reason"].as_str() {
            out.push_str(&plain(&format!("\n{} at {}: {reason}", text(&key["key"]), text(&key["decision"]["at"]))));
            out.push('\n');
        }
    }
    let (leader, nodes) = (text(&answer["leader"]["node"]), answer["nodes"].as_array().map_or(0, Vec::len));
    format!("{out}\ncontroller {}, leader {leader}, {nodes} nodes report, revision {}\n", text(&answer["mode"]), text(&answer["revision"]))
}

fn row(key: &Value) -> Vec<String> {
    let (rate, hottest, decision) = (&key["rate"], &key["hottest"], &key["decision"]);
    let decided = match decision["to"].as_u64() {
        Some(to) => format!("{} {} to {to}", text(&decision["action"]), text(&decision["shards"])),
        None => text(&decision["action"]),
    };
    let dry = if decision["dry_run"] == true { " (dry run)" } else { "" };
    let kilobytes = rate["bytes"].as_f64().map_or("-".to_owned(), |bytes| format!("{:.1}", bytes / 1_000.0));
    vec![
        text(&key["key"]),
        text(&key["shards"]),
        number(&rate["events"]),
        number(&rate["units"]),
        kilobytes,
        number(&rate["throttles"]),
        number(&hottest["rate"]["events"]),
        text(&hottest["load"]),
        text(&key["skew"]),
        decided + dry,
    ]
}

/// A rate as people read it: no more digits than it means.
fn number(value: &Value) -> String {
    value.as_f64().map_or("-".to_owned(), |number| if number >= 100.0 { format!("{number:.0}") } else { format!("{number:.1}") })
}
