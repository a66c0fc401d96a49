//! `braid layout show|set|withdraw|history`: a key's timeline, or the namespace's default one.

use std::time::{Duration, Instant};

use braid_shared::model::{Span, Timestamp};
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Value, json};

use super::client::{Client, Failure, text};
use super::table::table;
use super::{record, with_record};

/// Between two looks at whether a layout is in force.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(super) fn command() -> Command {
    let version = Arg::new("version").long("version").required(true).help("Which one, by its version");
    let show = target(Command::new("show").about("The layouts that hold, and those that will"));
    let history = target(Command::new("history").about("Every layout there ever was: who published or withdrew it, when and why"));
    let withdraw = target(Command::new("withdraw").about("Withdraw a layout that has not begun").arg(version));
    Command::new("layout").about("Show and change how many shards a key has").subcommand_required(true).subcommands([
        show,
        with_record(set()),
        with_record(withdraw),
        history,
    ])
}

fn set() -> Command {
    target(Command::new("set").about("Append a layout: it holds from a time to come on, nothing is moved"))
        .arg(
            Arg::new("shards").long("shards").required(true).value_name("N").value_parser(clap::value_parser!(u32)).help("How many shards"),
        )
        .arg(Arg::new("bucket").long("bucket").value_name("TIME").help("Width of a bucket; as it is unless given"))
        .arg(Arg::new("shard-by").long("shard-by").value_name("NAME").help("id, or a tag's name; as it is unless given"))
        .arg(Arg::new("from").long("from").value_name("TIME").help("Event time from which it holds; as soon as may be unless given"))
        .arg(Arg::new("wait").long("wait").action(ArgAction::SetTrue).help("Wait until it is in force"))
        .arg(Arg::new("wait-max").long("wait-max").value_name("TIME").default_value("60s").help("Longest wait"))
}

fn target(command: Command) -> Command {
    let namespace = Arg::new("namespace").required(true).value_name("NAMESPACE").help("Of which namespace");
    command.arg(namespace).arg(Arg::new("key").long("key").help("Of which key; the namespace's default timeline unless given"))
}

pub(super) fn run(client: &Client, matches: &ArgMatches) -> Result<String, Failure> {
    let Some((verb, matches)) = matches.subcommand() else { return Err(Failure::Usage("layout: no command".into())) };
    let call = Call { client, ns: given(matches, "namespace"), key: matches.get_one::<String>("key").cloned() };
    match verb {
        "set" => call.set(matches),
        "withdraw" => call.withdraw(matches),
        "history" => call.list(history),
        _ => call.list(standing),
    }
}

fn given(matches: &ArgMatches, name: &str) -> String {
    matches.get_one::<String>(name).cloned().unwrap_or_default()
}

struct Call<'a> {
    client: &'a Client,
    ns: String,
    key: Option<String>,
}

impl Call<'_> {
    fn path(&self) -> String {
        format!("/v1/{}/layout", self.ns)
    }

    fn timeline(&self) -> Result<Value, Failure> {
        let key = self.key.as_deref().map(|key| ("key", key));
        self.client.get(&self.path(), key.as_slice())
    }

    fn list(&self, shown: fn(&[Value]) -> String) -> Result<String, Failure> {
        let answer = self.timeline()?;
        if self.client.json {
            return Ok(answer.to_string());
        }
        let layouts = answer["layouts"].as_array().cloned().unwrap_or_default();
        Ok(format!("{}revision {}, horizon {}", shown(&layouts), text(&answer["revision"]), text(&answer["horizon"])))
    }

    fn set(&self, matches: &ArgMatches) -> Result<String, Failure> {
        let wait_max: Span = given(matches, "wait-max").parse().map_err(|error| Failure::Usage(format!("--wait-max: {error}")))?;
        let mut body = record(matches);
        body.insert("shards".into(), (*matches.get_one::<u32>("shards").unwrap_or(&0)).into());
        for (flag, member) in [("bucket", "bucket"), ("shard-by", "shard_by")] {
            body.extend(matches.get_one::<String>(flag).map(|value| (member.to_owned(), value.clone().into())));
        }
        if let Some(from) = matches.get_one::<String>("from") {
            let from = from.parse::<i64>().map_or_else(|_| json!(from), |millis| json!(millis));
            body.insert("effective_from".into(), from);
        }
        body.extend(self.key.clone().map(|key| ("key".to_owned(), key.into())));
        let layout = self.client.post(&self.path(), &body.into())?;
        let waited = if matches.get_flag("wait") { self.wait(&layout, wait_max.duration())? } else { "" };
        if self.client.json {
            return Ok(layout.to_string());
        }
        let [version, shards, from] = ["version", "shards", "from"].map(|name| text(&layout[name]));
        Ok(format!("layout {version}: {shards} shards from {from}{waited}"))
    }

    /// Waits until current events follow the layout: its start lies below the promise, or has passed.
    fn wait(&self, layout: &Value, most: Duration) -> Result<&'static str, Failure> {
        let began = Instant::now();
        loop {
            let answer = self.timeline()?;
            let found = answer["layouts"].as_array().and_then(|all| all.iter().find(|other| other["version"] == layout["version"]));
            match found {
                Some(found) if found["state"] == "active" || time(&answer["now"]) >= time(&found["from"]) => return Ok(", in force"),
                Some(found) if found["state"] != "withdrawn" => {}
                _ => return Err(Failure::GaveUp(format!("layout {} was withdrawn", layout["version"]))),
            }
            if began.elapsed() >= most {
                let [version, from] = ["version", "from"].map(|name| text(&layout[name]));
                return Err(Failure::GaveUp(format!(
                    "layout {version} stands and begins at {from}, which was not reached in {} s",
                    most.as_secs()
                )));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn withdraw(&self, matches: &ArgMatches) -> Result<String, Failure> {
        let mut parameters: Vec<(String, String)> = record(matches).iter().map(|(name, value)| (name.clone(), text(value))).collect();
        parameters.push(("version".into(), given(matches, "version")));
        parameters.extend(self.key.clone().map(|key| ("key".to_owned(), key)));
        let parameters: Vec<_> = parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let layout = self.client.delete(&self.path(), &parameters)?;
        Ok(if self.client.json { layout.to_string() } else { format!("layout {}: withdrawn", text(&layout["version"])) })
    }
}

fn time(value: &Value) -> Option<Timestamp> {
    Timestamp::parse_rfc3339(value.as_str()?).ok()
}

fn cells<const N: usize>(layout: &Value, names: [&str; N]) -> Vec<String> {
    names.iter().map(|name| text(&layout[*name])).collect()
}

fn standing(layouts: &[Value]) -> String {
    let rows: Vec<_> = layouts
        .iter()
        .filter(|layout| layout["state"] != "withdrawn")
        .map(|layout| cells(layout, ["version", "shards", "bucket", "shard_by", "from", "state"]))
        .collect();
    table(&["VERSION", "SHARDS", "BUCKET", "SHARD BY", "FROM", "STATE"], &rows)
}

fn history(layouts: &[Value]) -> String {
    let mut rows = Vec::new();
    for layout in layouts {
        for (event, audit) in [("published", &layout["published"]), ("withdrawn", &layout["withdrawal"])] {
            let happened = event == "published" || layout["state"] == "withdrawn";
            if happened {
                let who = if audit["automatic"] == true { "automatic".to_owned() } else { text(&audit["author"]) };
                let mut row = cells(layout, ["version", "shards", "from", "state"]);
                row.extend([event.to_owned(), text(&audit["at"]), who, text(&audit["reason"])]);
                rows.push(row);
            }
        }
    }
    table(&["VERSION", "SHARDS", "FROM", "STATE", "CHANGE", "AT", "BY", "WHY"], &rows)
}
