//! Settings of the CQL store.

use std::path::PathBuf;
use std::time::Duration;

use braid_shared::model::Span;
use braid_shared::store::cql::{CqlOptions, CqlTables, CqlTls, Replication, Scope, TableCompaction};

use super::Reader;

/// How the CQL store is reached, and how `braid store init` makes it.
#[derive(Clone, Debug)]
pub(crate) struct CqlSettings {
    pub(crate) options: CqlOptions,
    pub(crate) tables: CqlTables,
}

impl Reader<'_> {
    pub(super) fn cql(&mut self) -> CqlSettings {
        CqlSettings {
            options: CqlOptions {
                nodes: self.parsed("cql-nodes", Vec::new(), nodes),
                keyspace: self.parsed("cql-keyspace", String::new(), |v| Ok(v.to_owned())),
                datacenter: self.text("cql-datacenter"),
                scope: self.one_of("cql-quorum", &[("local", Scope::Local), ("global", Scope::Global)]),
                login: self.cql_login(),
                tls: self.cql_tls(),
                in_flight_per_node: self.number("cql-in-flight", 1, 100_000),
                speculate_after: self.parsed("cql-speculate", None, speculation),
            },
            tables: self.cql_tables(),
        }
    }

    fn cql_tables(&mut self) -> CqlTables {
        let window = self.span("cql-window");
        let compaction = self.one_of(
            "cql-compaction",
            &[
                ("time-window", TableCompaction::TimeWindow(window)),
                ("size-tiered", TableCompaction::SizeTiered),
                ("leveled", TableCompaction::Leveled),
            ],
        );
        let replication = self
            .parsed("cql-replication", Replication::Everywhere(1), |v| v.parse().map_err(|_| "a count such as 3, or dc1:3,dc2:2".into()));
        CqlTables { replication, compaction }
    }

    fn cql_login(&mut self) -> Option<(String, String)> {
        let (user, password) = (self.text("cql-user"), self.token("cql-password-file"));
        match (user, password) {
            (Some(user), Some(password)) => Some((user, password)),
            (None, None) => None,
            _ => {
                self.faults.push("cql-user: is given together with cql-password-file, or neither is".into());
                None
            }
        }
    }

    fn cql_tls(&mut self) -> Option<CqlTls> {
        let [ca, certificate, key] = ["cql-tls-ca", "cql-tls-cert", "cql-tls-key"].map(|name| self.text(name).map(PathBuf::from));
        match (ca, certificate, key) {
            (None, None, None) => None,
            (Some(ca), None, None) => Some(CqlTls { ca, identity: None }),
            (Some(ca), Some(certificate), Some(key)) => Some(CqlTls { ca, identity: Some((certificate, key)) }),
            _ => {
                self.faults.push("cql-tls-ca: must be given; cql-tls-cert and cql-tls-key both or neither".into());
                None
            }
        }
    }

    /// A text that need not be set.
    fn text(&self, name: &str) -> Option<String> {
        self.layers.get(name).map(|(value, _)| value.to_owned())
    }
}

fn nodes(text: &str) -> Result<Vec<String>, String> {
    let nodes: Vec<_> = text.split(',').map(|node| node.trim().to_owned()).collect();
    let sound = |node: &String| node.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    if nodes.iter().all(sound) { Ok(nodes) } else { Err("a list of HOST:PORT, parted by commas".into()) }
}

fn speculation(text: &str) -> Result<Option<Duration>, String> {
    match text {
        "off" => Ok(None),
        span => span.parse::<Span>().map(|span| Some(span.duration())).map_err(|why| format!("off, or {why}")),
    }
}
