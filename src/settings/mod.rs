//! Settings: flags > `BRAID_*` environment > TOML file > default. Plain data, checked at start with
//! all faults listed at once; each value remembers where it came from.

mod cql;
mod dynamodb;
mod flags;
mod layers;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use braid_shared::model::Span;

pub(crate) use cql::CqlSettings;
pub(crate) use dynamodb::DynamoSettings;
pub(crate) use flags::command;
pub(crate) use layers::Layers;

/// How long events gather where a store charges by the item: a partition then costs 50 writes a second at most, and one for each KiB.
const LINGER_BY_ITEM: Duration = Duration::from_millis(20);
/// Longest that they may: what waits is held in memory, and by clients.
const LINGER_MAX: Duration = Duration::from_secs(1);

/// What one process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    /// Both tiers on one port.
    All,
    /// Writes only.
    Ingest,
    /// Reads only.
    Query,
}

/// Which store the process stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreKind {
    /// Local disk.
    Embedded,
    /// ScyllaDB or Apache Cassandra.
    Cql,
    /// A DynamoDB table.
    DynamoDb,
    /// Nothing survives the process: for trying things out.
    Memory,
}

/// Whether a node changes layouts by heat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heat {
    /// Where the namespace's policy lets it.
    On,
    /// It only says what it would do.
    DryRun,
    /// Never.
    Off,
}

/// How long a shared partition's events gather.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linger {
    /// As the store is paid for.
    Auto,
    For(Duration),
}

/// How logs are written to standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One object a line.
    Json,
}

/// Every setting in force.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) listen: SocketAddr,
    pub(crate) store: StoreKind,
    pub(crate) data_dir: PathBuf,
    pub(crate) cql: CqlSettings,
    pub(crate) dynamodb: DynamoSettings,
    pub(crate) auto_create: bool,
    linger: Linger,
    pub(crate) auth_token: Option<String>,
    pub(crate) refresh: Duration,
    compaction: bool,
    engine_compaction: bool,
    pub(crate) heat: Heat,
    pub(crate) heat_cool_down: Duration,
    pub(crate) archive: bool,
    pub(crate) grace: Span,
    pub(crate) inflight_bytes: usize,
    pub(crate) queries: usize,
    pub(crate) connections: usize,
    pub(crate) stall: Duration,
    pub(crate) drain: Duration,
    pub(crate) drain_notice: Option<Duration>,
    pub(crate) log: String,
    pub(crate) log_format: LogFormat,
}

impl Settings {
    /// Reads every value out of the layers; gives all faults together.
    pub(crate) fn resolve(layers: &Layers) -> Result<Settings, Vec<String>> {
        let mut read = Reader { layers, faults: layers.faults().to_vec() };
        let settings = Settings {
            listen: read.parsed("listen", ([127, 0, 0, 1], 0).into(), |v| {
                v.parse().map_err(|_| "an address and port, such as 127.0.0.1:7070".into())
            }),
            store: read.one_of(
                "store",
                &[
                    ("embedded", StoreKind::Embedded),
                    ("dynamodb", StoreKind::DynamoDb),
                    ("cql", StoreKind::Cql),
                    ("memory", StoreKind::Memory),
                ],
            ),
            data_dir: read.parsed("data-dir", PathBuf::new(), |v| Ok(PathBuf::from(v))),
            cql: read.cql(),
            dynamodb: DynamoSettings::read(&mut read),
            auto_create: read.boolean("auto-create"),
            linger: read.parsed("linger", Linger::Auto, linger),
            auth_token: read.token("auth-token-file"),
            refresh: read.span("refresh"),
            compaction: read.boolean("compaction"),
            heat: read.one_of("heat", &[("on", Heat::On), ("dry-run", Heat::DryRun), ("off", Heat::Off)]),
            heat_cool_down: read.span("heat-cool-down"),
            engine_compaction: read.boolean("engine-compaction"),
            archive: read.boolean("archive"),
            grace: read.parsed("grace", Span::SECOND, |v| v.parse::<Span>().map_err(|why| why.to_string())),
            inflight_bytes: read.number("inflight-bytes", 1 << 20, 16 << 30),
            queries: read.number("queries", 1, 10_000),
            connections: read.number("connections", 1, 1_000_000),
            stall: read.span("stall"),
            drain: read.span("drain"),
            drain_notice: read.optional_span("drain-notice"),
            log: read.parsed("log", String::new(), |v| Ok(v.to_owned())),
            log_format: read.one_of("log-format", &[("text", LogFormat::Text), ("json", LogFormat::Json)]),
        };
        let insecure = read.boolean("insecure");
        if !settings.listen.ip().is_loopback() && settings.auth_token.is_none() && !insecure {
            read.faults.push(format!(
                "listen: {} is not a loopback address: give --auth-token-file, or --insecure to serve it without a token",
                settings.listen
            ));
        }
        if read.faults.is_empty() { Ok(settings) } else { Err(read.faults) }
    }

    /// How long events gather for one write to a partition that several requests share.
    pub(crate) fn linger(&self) -> Duration {
        match (self.linger, self.store) {
            (Linger::For(time), _) => time,
            (Linger::Auto, StoreKind::DynamoDb) => LINGER_BY_ITEM,
            (Linger::Auto, StoreKind::Embedded | StoreKind::Cql | StoreKind::Memory) => Duration::ZERO,
        }
    }

    /// Whether small blocks are merged in the background.
    pub(crate) fn compacts(&self) -> bool {
        match self.store {
            StoreKind::Embedded | StoreKind::Memory => self.compaction,
            StoreKind::DynamoDb | StoreKind::Cql => self.engine_compaction,
        }
    }
}

fn linger(value: &str) -> Result<Linger, String> {
    let time = || value.parse::<Span>().ok().map(Span::duration).filter(|time| *time <= LINGER_MAX).map(Linger::For);
    match value {
        "auto" => Ok(Linger::Auto),
        "off" => Ok(Linger::For(Duration::ZERO)),
        _ => time().ok_or_else(|| "auto, off, or a time of at most 1s such as 20ms".into()),
    }
}

/// Reads values, gathering faults; a value that is at fault is replaced by one that is never used.
struct Reader<'a> {
    layers: &'a Layers,
    faults: Vec<String>,
}

impl Reader<'_> {
    fn parsed<T>(&mut self, name: &str, unused: T, parse: impl FnOnce(&str) -> Result<T, String>) -> T {
        let Some((value, source)) = self.layers.get(name) else {
            self.faults.push(format!("{name}: not set"));
            return unused;
        };
        parse(value).unwrap_or_else(|wanted| {
            self.faults.push(format!("{name}: {value:?} (from {source}) is not {wanted}"));
            unused
        })
    }

    /// A value that need not be set.
    fn optional<T>(&mut self, name: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        self.layers.get(name)?;
        self.parsed(name, None, |value| parse(value).map(Some))
    }

    fn one_of<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> T {
        self.parsed(name, choices[0].1, |value| {
            let found = choices.iter().find(|(choice, _)| *choice == value);
            found
                .map(|(_, chosen)| *chosen)
                .ok_or_else(|| format!("one of {}", choices.iter().map(|(c, _)| *c).collect::<Vec<_>>().join(", ")))
        })
    }

    fn boolean(&mut self, name: &str) -> bool {
        self.one_of(name, &[("true", true), ("false", false)])
    }

    fn span(&mut self, name: &str) -> Duration {
        self.parsed(name, Duration::ZERO, |value| value.parse::<Span>().map(Span::duration).map_err(|why| why.to_string()))
    }

    /// A span that may be absent.
    fn optional_span(&mut self, name: &str) -> Option<Duration> {
        self.layers.get(name).is_some().then(|| self.span(name))
    }

    fn number(&mut self, name: &str, least: usize, most: usize) -> usize {
        self.parsed(name, least, |value| {
            let number = value.parse().ok().filter(|n| (least..=most).contains(n));
            number.ok_or_else(|| format!("a whole number from {least} to {most}"))
        })
    }

    /// The token in the file that setting `name` points to, if it points to one.
    fn token(&mut self, name: &str) -> Option<String> {
        let (path, source) = self.layers.get(name)?;
        match std::fs::read_to_string(path).map(|text| text.trim().to_owned()) {
            Ok(token) if !token.is_empty() => return Some(token),
            Ok(_) => self.faults.push(format!("{name}: {path} (from {source}) is empty")),
            Err(error) => self.faults.push(format!("{name}: {path} (from {source}) can't be read: {error}")),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::layers::Source;
    use super::*;

    fn resolve(arguments: &[&str]) -> Result<Settings, Vec<String>> {
        let matches = command().try_get_matches_from([&["braid"], arguments].concat()).unwrap();
        Settings::resolve(&Layers::read(&matches))
    }

    #[test]
    fn the_defaults_are_sound_and_listen_on_loopback() {
        let settings = resolve(&[]).unwrap();
        assert_eq!(settings.listen.to_string(), "127.0.0.1:7070");
        assert_eq!(settings.store, StoreKind::Embedded);
    }

    #[test]
    fn the_query_tier_has_a_port_of_its_own() {
        assert_eq!(resolve(&["query"]).unwrap().listen.to_string(), "127.0.0.1:7071");
    }

    #[test]
    fn settings_may_stand_before_between_and_behind_nested_commands() {
        for arguments in [["--queries", "7", "store", "init"], ["store", "--queries", "7", "init"], ["store", "init", "--queries", "7"]] {
            assert_eq!(resolve(&arguments).unwrap().queries, 7, "{arguments:?}");
        }
    }

    #[test]
    fn all_faults_are_listed_at_once_and_named() {
        let faults = resolve(&["--listen", "nowhere", "--queries", "0", "--refresh", "1mo"]).unwrap_err();
        assert_eq!(faults.len(), 3, "{faults:?}");
        assert!(["listen", "queries", "refresh"].iter().all(|name| faults.iter().any(|fault| fault.starts_with(name))));
    }

    #[test]
    fn a_cluster_is_named_by_its_nodes_and_reached_as_told() {
        let cql =
            resolve(&["--store", "cql", "--cql-nodes", "a:9042, b:9142", "--cql-quorum", "global", "--cql-speculate", "off"]).unwrap().cql;
        assert_eq!((cql.options.nodes, cql.options.speculate_after), (vec!["a:9042".to_owned(), "b:9142".to_owned()], None));
        for (name, wrong) in [("nodes", "a"), ("quorum", "one"), ("user", "u"), ("tls-key", "k"), ("replication", "0"), ("speculate", "x")]
        {
            assert_eq!(resolve(&[&format!("--cql-{name}"), wrong]).unwrap_err().len(), 1, "{name}");
        }
    }

    #[test]
    fn events_gather_where_the_store_charges_by_the_item_unless_told_otherwise() {
        let linger = |arguments: &[&str]| resolve(arguments).map(|settings| settings.linger());
        assert_eq!(linger(&[]), Ok(Duration::ZERO));
        assert_eq!(linger(&["--store", "dynamodb"]), Ok(LINGER_BY_ITEM));
        assert_eq!(linger(&["--store", "dynamodb", "--linger", "off"]), Ok(Duration::ZERO));
        assert_eq!(linger(&["--linger", "5ms"]), Ok(Duration::from_millis(5)));
        assert!(["0s", "2s", "soon"].iter().all(|wrong| linger(&["--linger", wrong]).is_err()));
    }

    #[test]
    fn an_open_address_demands_a_token_or_an_explicit_no() {
        assert!(resolve(&["--listen", "0.0.0.0:7070"]).is_err());
        assert!(resolve(&["--listen", "0.0.0.0:7070", "--insecure"]).is_ok());
    }

    #[test]
    fn a_flag_goes_before_the_file_and_each_says_where_it_came_from() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, b"listen = \"127.0.0.1:9\"\nqueries = 7\nauto-create = false\n").unwrap();
        let path = file.path().to_str().unwrap();
        let matches = command().try_get_matches_from(["braid", "--config", path, "--listen", "127.0.0.1:8"]).unwrap();
        let layers = Layers::read(&matches);
        assert_eq!(layers.get("listen"), Some(("127.0.0.1:8", &Source::Flag)));
        assert_eq!(layers.get("queries").unwrap().0, "7");
        assert!(!Settings::resolve(&layers).unwrap().auto_create);
    }

    #[test]
    fn a_name_that_the_file_misspells_is_a_fault() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, b"listne = \"127.0.0.1:9\"\n").unwrap();
        let faults = resolve(&["--config", file.path().to_str().unwrap()]).unwrap_err();
        assert!(faults[0].contains("listne"), "{faults:?}");
    }
}
