//! `braid group list|check|add`: where a namespace's cold history lies.

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Value, json};

use super::client::{Client, Failure, text};
use super::table::{plain, table};

pub(super) fn command() -> Command {
    let namespace = || Arg::new("namespace").required(true).value_name("NAMESPACE");
    let list = Command::new("list").about("The groups, in order").arg(namespace());
    let check = Command::new("check").about("The groups, each database written and read; fails where one can't be").arg(namespace());
    let from = Arg::new("from").long("from").value_name("TIME").help("Event time from which it holds; the first group has none");
    let database = Arg::new("database")
        .long("database")
        .value_name("NAME=URL,TABLES")
        .required(true)
        .action(ArgAction::Append)
        .help("A database, and how many of the group's tables it holds");
    let add = Command::new("add").about("Append a group; nothing that is archived moves").arg(namespace()).arg(from).arg(database);
    Command::new("group").about("List, check and add groups of cold tables").subcommand_required(true).subcommands([list, check, add])
}

pub(super) fn run(client: &Client, matches: &ArgMatches) -> Result<String, Failure> {
    match matches.subcommand() {
        Some(("add", matches)) => shown(client, &client.post(&path(matches), &body(matches)?)?),
        Some(("check", matches)) => checked(client, &client.get(&path(matches), &[("check", "true")])?),
        Some((_, matches)) => shown(client, &client.get(&path(matches), &[])?),
        None => Err(Failure::Usage("list, check or add".into())),
    }
}

fn path(matches: &ArgMatches) -> String {
    format!("/v1/{}/groups", matches.get_one::<String>("namespace").map(String::as_str).unwrap_or_default())
}

fn body(matches: &ArgMatches) -> Result<Value, Failure> {
    let given = matches.get_many::<String>("database").unwrap_or_default();
    let databases = given.map(|text| database(text)).collect::<Result<Vec<_>, _>>()?;
    let tables: u64 = databases.iter().filter_map(|database| database["tables"].as_u64()).sum();
    let mut body = json!({"tables": tables, "databases": databases});
    if let Some(from) = matches.get_one::<String>("from") {
        body["from"] = from.as_str().into();
    }
    Ok(body)
}

/// `NAME=URL,TABLES`.
fn database(text: &str) -> Result<Value, Failure> {
    let parts = || {
        let (name, rest) = text.split_once('=')?;
        let (url, tables) = rest.rsplit_once(',')?;
        Some(json!({"name": name, "url": url, "tables": tables.parse::<u32>().ok()?}))
    };
    parts().ok_or_else(|| Failure::Usage(format!("--database: {text:?} is not NAME=URL,TABLES, such as a=file:///srv/a,4")))
}

fn checked(client: &Client, answer: &Value) -> Result<String, Failure> {
    let shown = shown(client, answer)?;
    if faults(answer).is_empty() { Ok(shown) } else { Err(Failure::GaveUp(shown)) }
}

fn faults(answer: &Value) -> Vec<String> {
    let databases = answer["groups"].as_array().into_iter().flatten().flat_map(|group| group["databases"].as_array()).flatten();
    databases.filter(|database| !database["fault"].is_null()).map(|database| text(&database["fault"])).collect()
}

fn shown(client: &Client, answer: &Value) -> Result<String, Failure> {
    if client.json {
        return Ok(answer.to_string());
    }
    let mut rows = Vec::new();
    for group in answer["groups"].as_array().into_iter().flatten() {
        let mut first = 0;
        for database in group["databases"].as_array().into_iter().flatten() {
            let tables = database["tables"].as_u64().unwrap_or(0);
            let indices = format!("{first}-{}", (first + tables).saturating_sub(1));
            first += tables;
            let reachable = if database["reachable"].is_null() { "-".to_owned() } else { text(&database["reachable"]) };
            rows.push(vec![
                text(&group["group"]),
                text(&group["from"]),
                text(&database["name"]),
                indices,
                reachable,
                text(&database["url"]),
            ]);
        }
    }
    let facts = format!("\ndue before {}, dropped before {}\n", text(&answer["closing"]), text(&answer["dropped"]));
    let faults: String = faults(answer).iter().map(|fault| plain(fault) + "\n").collect();
    Ok(table(&["GROUP", "FROM", "DATABASE", "TABLES", "REACHABLE", "URL"], &rows) + &facts + &faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_a_name_a_url_and_a_weight() {
        assert_eq!(database("a=file:///srv/a,b,4").ok(), Some(json!({"name": "a", "url": "file:///srv/a,b", "tables": 4})));
        for wrong in ["a", "a=file:///srv/a", "a=file:///srv/a,x", "file:///srv/a,4"] {
            assert!(database(wrong).is_err(), "{wrong}");
        }
    }
}
