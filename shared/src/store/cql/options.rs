//! Options of the CQL store: plain data, and what of it must be checked before a connection is made.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use scylla::statement::{Consistency, SerialConsistency};

use crate::store::{StoreError, StoreErrorKind};

/// Longest name of a keyspace that every engine takes.
const KEYSPACE_BYTES_MAX: usize = 48;

/// How a cluster is reached and used. Every node of Braid on one keyspace must agree on [`CqlOptions::scope`].
#[derive(Clone, Debug)]
pub struct CqlOptions {
    /// Addresses to begin with, `host:port`; the rest of the cluster is learned from them.
    pub nodes: Vec<String>,
    /// The keyspace: letters, digits and `_`.
    pub keyspace: String,
    /// Data centre that requests stay in; any where absent.
    pub datacenter: Option<String>,
    /// Among whom a quorum is formed.
    pub scope: Scope,
    /// Name and password, where the cluster asks for them.
    pub login: Option<(String, String)>,
    /// Where connections are encrypted.
    pub tls: Option<CqlTls>,
    /// Requests under way for each node of the cluster; further ones wait.
    pub in_flight_per_node: usize,
    /// A read that has no answer after this long is also sent to another node; never where absent.
    pub speculate_after: Option<Duration>,
}

/// Among whom a quorum is formed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// The replicas of the local data centre: `LOCAL_QUORUM` and `LOCAL_SERIAL`. Right where all
    /// nodes of Braid use one data centre.
    #[default]
    Local,
    /// All replicas: `QUORUM` and `SERIAL`. Needed where Braid writes in several data centres.
    Global,
}

/// How connections are encrypted. Certificates of nodes must name their IP addresses.
#[derive(Clone, Debug)]
pub struct CqlTls {
    /// PEM file of the certificates to trust.
    pub ca: PathBuf,
    /// PEM files of the client's own certificate and key, where the cluster asks for them.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// How the keyspace and its tables are made; only [`super::init`] uses it.
#[derive(Clone, Debug)]
pub struct CqlTables {
    /// Copies.
    pub replication: Replication,
    /// How the engine compacts blocks.
    pub compaction: TableCompaction,
}

/// Copies: so many in each data centre, or by data centre.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replication {
    /// So many in every data centre there is.
    Everywhere(u16),
    /// By name of the data centre.
    ByDatacenter(Vec<(String, u16)>),
}

/// How the engine compacts the table of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableCompaction {
    /// By windows of the time of writing: right where Braid's own compaction and deletes are rare.
    TimeWindow(Duration),
    /// By size.
    SizeTiered,
    /// By level: fewest reads from disk, most writes.
    Leveled,
}

impl Default for CqlOptions {
    fn default() -> Self {
        CqlOptions {
            nodes: vec!["127.0.0.1:9042".into()],
            keyspace: "braid".into(),
            datacenter: None,
            scope: Scope::default(),
            login: None,
            tls: None,
            in_flight_per_node: 256,
            speculate_after: Some(Duration::from_millis(200)),
        }
    }
}

impl Default for CqlTables {
    fn default() -> Self {
        CqlTables { replication: Replication::Everywhere(3), compaction: TableCompaction::TimeWindow(Duration::from_secs(24 * 3_600)) }
    }
}

impl CqlOptions {
    /// Checks what would otherwise be found only by a confusing answer of the engine.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let fault = |what: String| Err(StoreError::new(StoreErrorKind::Unavailable, what));
        if self.nodes.is_empty() {
            return fault("no node of the cluster is named".into());
        }
        if !is_name(&self.keyspace) {
            return fault(format!("{:?} is no name of a keyspace: 1 to {KEYSPACE_BYTES_MAX} of a-z, 0-9 and _", self.keyspace));
        }
        if self.in_flight_per_node == 0 {
            return fault("at least one request must be under way for each node".into());
        }
        Ok(())
    }
}

/// Lower case only: CQL folds other names unless they are quoted everywhere.
fn is_name(name: &str) -> bool {
    let sound = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=KEYSPACE_BYTES_MAX).contains(&name.len()) && name.bytes().all(sound) && name.as_bytes()[0].is_ascii_lowercase()
}

impl Scope {
    pub(super) fn quorum(self) -> Consistency {
        match self {
            Scope::Local => Consistency::LocalQuorum,
            Scope::Global => Consistency::Quorum,
        }
    }

    pub(super) fn serial(self) -> SerialConsistency {
        match self {
            Scope::Local => SerialConsistency::LocalSerial,
            Scope::Global => SerialConsistency::Serial,
        }
    }

    /// A read of what conditional writes decided.
    pub(super) fn serial_read(self) -> Consistency {
        match self {
            Scope::Local => Consistency::LocalSerial,
            Scope::Global => Consistency::Serial,
        }
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Scope, String> {
        match text {
            "local" => Ok(Scope::Local),
            "global" => Ok(Scope::Global),
            _ => Err("must be local or global".into()),
        }
    }
}

impl FromStr for Replication {
    type Err = String;

    /// `3`, or `dc1:3,dc2:2`.
    fn from_str(text: &str) -> Result<Replication, String> {
        let wrong = || format!("{text:?} must be a count such as 3, or dc1:3,dc2:2");
        let count = |text: &str| text.parse().ok().filter(|count| *count > 0).ok_or_else(wrong);
        if !text.contains(':') {
            return count(text).map(Replication::Everywhere);
        }
        let named = text.split(',').map(|part| {
            let (name, copies) = part.split_once(':').ok_or_else(wrong)?;
            let sound = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
            if name.is_empty() || !name.bytes().all(sound) {
                return Err(wrong());
            }
            Ok((name.to_owned(), count(copies)?))
        });
        named.collect::<Result<_, _>>().map(Replication::ByDatacenter)
    }
}

impl fmt::Display for Replication {
    /// As the map that CQL takes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{'class': 'NetworkTopologyStrategy'")?;
        match self {
            Replication::Everywhere(copies) => write!(f, ", 'replication_factor': {copies}")?,
            Replication::ByDatacenter(named) => named.iter().try_for_each(|(name, copies)| write!(f, ", '{name}': {copies}"))?,
        }
        f.write_str("}")
    }
}

impl fmt::Display for TableCompaction {
    /// As the map that CQL takes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableCompaction::TimeWindow(window) => write!(
                f,
                "{{'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'MINUTES', 'compaction_window_size': {}}}",
                window.as_secs().div_ceil(60).max(1)
            ),
            TableCompaction::SizeTiered => f.write_str("{'class': 'SizeTieredCompactionStrategy'}"),
            TableCompaction::Leveled => f.write_str("{'class': 'LeveledCompactionStrategy'}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replication_is_a_count_or_counts_by_datacenter() {
        assert_eq!("3".parse::<Replication>().unwrap().to_string(), "{'class': 'NetworkTopologyStrategy', 'replication_factor': 3}");
        let named = "eu-west:3,us:2".parse::<Replication>().unwrap();
        assert_eq!(named.to_string(), "{'class': 'NetworkTopologyStrategy', 'eu-west': 3, 'us': 2}");
        for wrong in ["", "0", "-1", "three", "eu:", ":3", "eu:0", "e'u:3", "eu:3,", "70000"] {
            assert!(wrong.parse::<Replication>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_window_is_never_shorter_than_a_minute() {
        let window = |seconds| TableCompaction::TimeWindow(Duration::from_secs(seconds)).to_string();
        assert!(window(3_600).contains("'compaction_window_size': 60"));
        assert!(window(1).contains("'compaction_window_size': 1}"));
    }

    #[test]
    fn names_that_would_need_quotes_are_refused() {
        let named = |keyspace: &str| CqlOptions { keyspace: keyspace.into(), ..CqlOptions::default() }.check().is_ok();
        assert!(named("braid_2"));
        for wrong in ["", "Braid", "2braid", "a-b", "a;drop", &"a".repeat(49)] {
            assert!(!named(wrong), "{wrong}");
        }
    }
}
