//! A keyspace of a test's own on a real cluster, made by `braid store init`, and nodes of Braid on it.
//!
//! `BRAID_CQL_NODES` names the cluster (`scripts/cassandra` starts one); where it encrypts and asks
//! for a password, `BRAID_CQL_CA` names the certificate to trust. Without the first, tests say that
//! they are skipped.

use std::process::Command;

use crate::server::Server;
use crate::tiers::Tiers;

pub(crate) struct Cluster {
    nodes: String,
    flags: Vec<String>,
    _password: Option<tempfile::NamedTempFile>,
}

impl Cluster {
    /// A fresh keyspace on the cluster that the environment names.
    pub(crate) fn named() -> Option<Cluster> {
        let Ok(nodes) = std::env::var("BRAID_CQL_NODES") else {
            eprintln!("skipped: BRAID_CQL_NODES names no node that speaks CQL");
            return None;
        };
        Some(Cluster::on(&nodes))
    }

    /// A fresh keyspace on the cluster of these nodes, with a copy on each of them.
    pub(crate) fn on(nodes: &str) -> Cluster {
        let keyspace = format!("test_{:08x}", rand::random::<u32>());
        let mut flags: Vec<String> = ["--store", "cql", "--cql-keyspace", &*keyspace].map(str::to_owned).into();
        let password = std::env::var("BRAID_CQL_CA").ok().map(|ca| {
            let file = tempfile::NamedTempFile::new().expect("a temporary file");
            std::fs::write(file.path(), "cassandra\n").expect("it is written");
            let path = file.path().to_str().expect("it is text");
            flags.extend(["--cql-tls-ca", &*ca, "--cql-user", "cassandra", "--cql-password-file", path].map(str::to_owned));
            file
        });
        let cluster = Cluster { nodes: nodes.to_owned(), flags, _password: password };
        let copies = nodes.split(',').count().to_string();
        let init = ["store", "init", "--cql-nodes", nodes, "--cql-replication", &*copies];
        let made = Command::new(env!("CARGO_BIN_EXE_braid")).args(init).args(&cluster.flags).output();
        let made = made.expect("the binary starts");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        cluster
    }

    /// One of its nodes.
    pub(crate) fn node(&self) -> &str {
        self.nodes.split(',').next().expect("a split has a first part")
    }

    pub(crate) fn tiers(&self) -> Tiers {
        Tiers::start(|name| self.start(&[name], &[]))
    }

    /// A node of Braid: `ingest`, `query`, or both where `tier` is nothing.
    pub(crate) fn start(&self, tier: &[&str], more: &[&str]) -> Server {
        self.start_at(&self.nodes, tier, more)
    }

    /// A node of Braid that is told of these nodes of the cluster.
    pub(crate) fn start_at(&self, nodes: &str, tier: &[&str], more: &[&str]) -> Server {
        let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        Server::start_with(&[tier, &flags[..], &["--cql-nodes", nodes], more].concat())
    }
}
