//! Two nodes of each tier over one engine, each tier behind a plain TCP balancer.

use std::thread::JoinHandle;

use serde_json::Value;

use crate::balancer::Balancer;
use crate::http::Client;
use crate::load::braid_load;
use crate::server::Server;

pub(crate) struct Tiers {
    pub(crate) ingest: [Server; 2],
    pub(crate) query: [Server; 2],
    writes: Balancer,
    reads: Balancer,
}

impl Tiers {
    /// `start` starts a node of the tier that it is given the name of.
    pub(crate) fn start(start: impl Fn(&str) -> Server) -> Tiers {
        let ingest = ["ingest"; 2].map(&start);
        let query = ["query"; 2].map(&start);
        let over = |nodes: &[Server; 2]| Balancer::over(nodes.iter().map(|node| node.url().replace("http://", "")).collect());
        let (writes, reads) = (over(&ingest), over(&query));
        Tiers { ingest, query, writes, reads }
    }

    /// What speaks to one of the nodes that answer reads, and change layouts.
    pub(crate) fn client(&self) -> &Client {
        self.query[0].client()
    }

    /// Begins a verified run of the load generator through both tiers.
    pub(crate) fn verified_run(&self, more: &[&str]) -> JoinHandle<(u8, Value)> {
        let urls = ["--url", &self.writes.url(), "--read-url", &self.reads.url()].map(str::to_owned);
        let more: Vec<_> = more.iter().map(|&word| word.to_owned()).collect();
        std::thread::spawn(move || {
            let words = ["run", "--json", "--verify", "--retry-for", "120s"];
            braid_load(&words.into_iter().chain(urls.iter().chain(&more).map(String::as_str)).collect::<Vec<_>>())
        })
    }
}
