//! What can be driven, and the HTTP servers that are measured beside Braid, each as a [`Target`]: the
//! events of a workload as that server's users would store them, and the reads that come nearest to Braid's.
//!
//! An event's id is a plain column of theirs, never a part of what they index: as a tag or label it
//! would make a series of each event.

mod clickhouse;
mod influx;
mod victoria;

use braid_shared::model::Namespace;
use clickhouse::ClickHouse;
use hyper::StatusCode;
use influx::Influx;
use victoria::Victoria;

use super::braid::{Braid, encode};
use super::target::{Target, Verdict, by_status};
use super::{Answer, Encoding, Format};

/// A kind of server that can be driven.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ServerKind {
    /// Braid
    #[default]
    Braid,
    /// InfluxDB 1.x
    Influx,
    /// VictoriaMetrics
    Victoria,
    /// ClickHouse
    #[value(name = "clickhouse")]
    ClickHouse,
    /// DynamoDB as one shards writes by hand, one item an event
    #[value(name = "dynamodb-items")]
    DynamodbItems,
    /// ScyllaDB or Cassandra, one row an event; writes alone
    CqlRows,
}

/// A server's namespace, or what it calls so, as a target; none for a store that is driven by its own
/// client. `format` only where it takes several.
pub(crate) fn target(
    kind: ServerKind,
    namespace: &Namespace,
    format: Option<Format>,
    encoding: Encoding,
) -> Result<Option<Box<dyn Target>>, String> {
    let name = namespace.as_str();
    if kind != ServerKind::Braid && format.is_some() {
        return Err("--format is Braid's; what else is driven has one".to_owned());
    }
    Ok(Some(match kind {
        ServerKind::Braid => Box::new(Braid::new(namespace.clone(), format.unwrap_or(Format::Ndjson), encoding)?),
        ServerKind::Influx => Box::new(Influx::new(name, encoding)?),
        ServerKind::Victoria => Box::new(Victoria::new(name, encoding)?),
        ServerKind::ClickHouse => Box::new(ClickHouse::new(name, encoding)?),
        ServerKind::DynamodbItems | ServerKind::CqlRows if encoding != Encoding::None => {
            return Err("--encoding is of HTTP requests; a store's own client sends none".to_owned());
        }
        ServerKind::DynamodbItems | ServerKind::CqlRows => return Ok(None),
    }))
}

/// All events of a body, where the answer is good; these servers count none.
fn all_or_nothing(status: StatusCode, body: &[u8], events: u64) -> Verdict {
    if status.is_success() { Verdict::Done(Answer { stored: events, ..Answer::default() }) } else { by_status(status, body) }
}

/// A path with a query string of these names and values.
fn with_query(path: &str, pairs: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
    format!("{path}?{}", pairs.join("&"))
}
