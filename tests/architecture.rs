//! The rules of docs/ARCHITECTURE.md as tests: who may use whom, what stays pure, what every file
//! has. Each check has a canary, a source that it must refuse.

use std::fs;
use std::path::{Path, PathBuf};

/// A rule for the sources below a path: none of these words may stand in them.
struct Rule {
    below: &'static [&'static str],
    banned: &'static [&'static str],
    why: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        below: &["shared/src"],
        banned: &["braid_ingest", "braid_query", "axum::", "hyper::", "http::", "reqwest::"],
        why: "shared knows no HTTP and no tier",
    },
    Rule { below: &["ingest/src"], banned: &["braid_query"], why: "the tiers do not know each other" },
    Rule { below: &["query/src"], banned: &["braid_ingest"], why: "the tiers do not know each other" },
    Rule {
        below: &["load/src"],
        banned: &[
            "braid_ingest",
            "braid_query",
            "braid_shared::store",
            "braid_shared::catalog",
            "braid_shared::block",
            "braid_shared::layout",
        ],
        why: "the load generator knows the HTTP API and the plain model only",
    },
    Rule {
        below: &[
            "shared/src/model",
            "shared/src/block",
            "shared/src/layout.rs",
            "shared/src/partition.rs",
            "shared/src/promise.rs",
            "shared/src/cold/group.rs",
            "shared/src/cold/path.rs",
            "shared/src/cold/rules.rs",
            "shared/src/timeline.rs",
            "shared/src/heat/decide.rs",
            "shared/src/heat/load.rs",
            "shared/src/heat/watch.rs",
            "shared/src/heat/sketch.rs",
            "ingest/src/decode",
            "query/src/plan.rs",
            "query/src/verify.rs",
            "query/src/merge.rs",
            "query/src/cursor.rs",
            "query/src/filter.rs",
        ],
        banned: &["async fn", "async move", ".await", "tokio::", "SystemTime", "Instant::now", "std::fs", "std::net", "rand::"],
        why: "placement, plan, verify, merge and codecs are pure: no async, no clock, no chance, no I/O",
    },
    Rule {
        below: &["ingest/src", "query/src", "shared/src/store", "shared/src/catalog", "shared/src/heat", "shared/src/compaction.rs"],
        banned: &["SystemTime::now"],
        why: "time comes in through shared::clock",
    },
];

/// Longest source file; a longer one is two ideas.
const LINES_MAX: usize = 500;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every source file of ours, by its path from the top.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for folder in ["src", "shared", "ingest", "query", "load", "tests", "benches"] {
        gather(&root().join(folder), &mut found);
    }
    assert!(found.len() > 50, "the walk found the sources");
    found
}

fn gather(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Test code may do what it likes.
fn is_test(name: &str) -> bool {
    name.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "benches"))
}

/// The code of a file: without comments and unit tests.
fn code(text: &str) -> String {
    let production = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = production.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

fn breaches(name: &str, text: &str) -> Vec<String> {
    let applies = |rule: &&Rule| rule.below.iter().any(|below| name == *below || name.starts_with(&format!("{below}/")));
    let code = code(text);
    let broken = RULES.iter().filter(applies).filter(|_| !is_test(name)).flat_map(|rule| {
        let used = rule.banned.iter().filter(|word| code.contains(**word));
        used.map(|word| format!("{name} uses {word}: {}", rule.why)).collect::<Vec<_>>()
    });
    broken.collect()
}

fn opens_with_its_purpose(text: &str) -> bool {
    text.starts_with("//! ")
}

#[test]
fn every_source_keeps_the_import_rules() {
    let broken: Vec<_> = sources().iter().flat_map(|(name, text)| breaches(name, text)).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_import_rules_catch_what_they_forbid() {
    for (name, text) in [
        ("shared/src/store/mod.rs", "use axum::Router;"),
        ("ingest/src/lib.rs", "use braid_query::Query;"),
        ("query/src/read.rs", "let now = std::time::SystemTime::now();"),
        ("query/src/plan.rs", "pub async fn plan() {}"),
        ("shared/src/block/encode.rs", "let id: u64 = rand::random();"),
        ("load/src/main.rs", "use braid_shared::store::Store;"),
    ] {
        assert_eq!(breaches(name, text).len(), 1, "{name}: {text}");
    }
    assert!(breaches("query/src/plan.rs", "// async fn is banned here\n#[cfg(test)]\nmod tests {\n  async fn x() {}\n}").is_empty());
}

#[test]
fn every_source_opens_with_its_purpose_and_is_one_idea_long() {
    for (name, text) in sources() {
        assert!(opens_with_its_purpose(&text), "{name} does not open with //!");
        assert!(is_test(&name) || text.lines().count() <= LINES_MAX, "{name} is longer than {LINES_MAX} lines");
    }
    assert!(!opens_with_its_purpose("use std::fs;\n"));
}

#[test]
fn crates_depend_on_each_other_in_one_direction_only() {
    let depends =
        |on: &str, krate: &str| fs::read_to_string(root().join(krate).join("Cargo.toml")).unwrap().contains(&format!("braid-{on}."));
    assert!(depends("shared", "ingest") && depends("shared", "query"), "the check finds what is there");
    for (krate, on) in
        [("shared", "ingest"), ("shared", "query"), ("ingest", "query"), ("query", "ingest"), ("load", "ingest"), ("load", "query")]
    {
        assert!(!depends(on, krate), "{krate} depends on {on}");
    }
}

#[test]
fn every_error_code_is_in_the_errors_page_and_no_other() {
    let page = fs::read_to_string(root().join("docs/ERRORS.md")).unwrap();
    let mut documented: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let mut known = braid_shared::codes::ALL.to_vec();
    documented.sort_unstable();
    known.sort_unstable();
    assert_eq!(documented, known);
}

/// The names and files in the table of invariants that do not stand in each other.
fn homeless(page: &str, read: impl Fn(&str) -> String) -> Vec<String> {
    let table = page.split("## Invariants").nth(1).unwrap_or_default();
    let rows = table.lines().filter(|line| line.starts_with("| ")).map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let named = rows.filter(|cells| cells.len() == 5 && cells[3].starts_with('`'));
    named
        .map(|cells| (cells[1].trim_end_matches('*'), cells[3].trim_matches('`')))
        .filter(|(name, file)| !read(file).contains(name))
        .map(|(name, file)| format!("{name} in {file}"))
        .collect()
}

#[test]
fn every_invariant_is_named_where_the_architecture_page_says() {
    let page = fs::read_to_string(root().join("docs/ARCHITECTURE.md")).unwrap();
    assert_eq!(homeless(&page, |file| fs::read_to_string(root().join(file)).unwrap()), [""; 0]);
    assert_eq!(homeless(&page, |_| String::new()).len(), 7, "the check finds every row, and what is not there");
}

#[test]
fn every_limit_is_in_the_readme() {
    let (limits, readme) =
        (fs::read_to_string(root().join("shared/src/limits.rs")).unwrap(), fs::read_to_string(root().join("README.md")).unwrap());
    let names = limits.lines().filter_map(|line| line.strip_prefix("pub const ")?.split(':').next());
    let missing: Vec<_> = names.filter(|name| !readme.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "not in the README: {missing:?}");
}
