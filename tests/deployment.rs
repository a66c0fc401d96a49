//! What is deployed beside the binary names only what is there: metrics in the dashboard, settings in the composition.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every word of `text` that begins with `prefix` and goes on with letters of one case, digits and `_`.
fn words(text: &str, prefix: &str) -> BTreeSet<String> {
    let part = |c: char| c == '_' || c.is_ascii_alphanumeric();
    let words = text.split(|c| !part(c)).filter(|word| word.starts_with(prefix) && word.len() > prefix.len());
    words.map(str::to_owned).collect()
}

fn sources(folder: &Path, all: &mut String) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            all.push_str(&std::fs::read_to_string(path).expect("a source"));
        }
    }
}

#[test]
fn every_metric_of_the_dashboard_is_one_that_a_node_has() {
    let mut code = String::new();
    ["src", "shared/src", "ingest/src", "query/src"].iter().for_each(|folder| sources(&root().join(folder), &mut code));
    let known = words(&code, "braid_");
    let dashboard: serde_json::Value = serde_json::from_str(&read("deploy/grafana/dashboards/braid.json")).expect("the dashboard is JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let asked: BTreeSet<_> = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().expect("targets"))
        .flat_map(|target| words(target["expr"].as_str().expect("a query"), "braid_"))
        .collect();
    assert!(asked.len() > 10, "{asked:?}");
    let missing: Vec<_> = asked.iter().filter(|name| !known.contains(name.trim_end_matches("_bucket"))).collect();
    assert!(missing.is_empty(), "the dashboard asks for what no node has: {missing:?}");
}

#[test]
fn every_setting_of_the_composition_is_one_that_braid_takes() {
    let help = Command::new(env!("CARGO_BIN_EXE_braid")).arg("--help").output().expect("the binary starts");
    let help = String::from_utf8(help.stdout).expect("help is text");
    let flags: BTreeSet<_> = help.split(|c: char| !(c == '-' || c.is_ascii_alphanumeric())).collect();
    let composition = read("docker-compose.yml");
    let set = words(&composition, "BRAID_");
    // Each engine is one of the services, by the name that Braid is given.
    for (variable, engine) in [("BRAID_CQL_NODES: ", "scylla"), ("BRAID_DYNAMODB_ENDPOINT: http://", "dynamodb")] {
        assert!(composition.contains(&format!("{variable}{engine}:")) && composition.contains(&format!("\n  {engine}:\n")), "{engine}");
    }
    for variable in set {
        let flag = format!("--{}", variable["BRAID_".len()..].to_lowercase().replace('_', "-"));
        assert!(flags.contains(&*flag), "{variable} is no setting");
    }
}
