//! A write, from its request to its outcome: the steps, in order.

use axum::body::Body;
use axum::http::HeaderMap;
use braid_shared::codes;
use braid_shared::limits::REQUEST_EVENTS_MAX;
use braid_shared::model::{Batch, Namespace, Precision, RowFault, Timestamp};

use crate::Ingest;
use crate::admit::admit;
use crate::body::{discard, read_body};
use crate::complete::{Made, complete};
use crate::decode::json::{JsonFormat, decode_json};
use crate::decode::line_protocol::{self, LineOptions};
use crate::fault::Fault;
use crate::route::route;
use crate::ticket::Outcome;

/// A request to write.
pub(crate) struct Write<'r> {
    /// Where to.
    pub(crate) ns: Namespace,
    /// What the body is.
    pub(crate) format: Format<'r>,
    /// The request's headers.
    pub(crate) headers: &'r HeaderMap,
    /// The request's body, unread.
    pub(crate) body: Body,
}

/// What a body is, and what the parameters say of it.
pub(crate) enum Format<'r> {
    /// One object, an array, or NDJSON.
    Json {
        /// How it is cut into events.
        format: JsonFormat,
        /// Unit of integer times.
        precision: Precision,
    },
    /// InfluxDB line protocol.
    Lines {
        /// Unit of times.
        precision: Precision,
        /// Tag that is the id, where given.
        id_tag: Option<&'r str>,
    },
}

/// What became of a write.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    /// Events that are durable.
    pub(crate) stored: u64,
    /// Events of which nobody knows.
    pub(crate) unknown: u64,
    /// Events that the store refused.
    pub(crate) failed: u64,
    /// Why, unless all sound events are stored.
    pub(crate) fault: Option<Fault>,
    /// Events refused for what they are, in the order of the request.
    pub(crate) errors: Vec<RowFault>,
    /// Ids and times given to events that came without.
    pub(crate) made: Vec<Made>,
}

/// Writes the good rows of a request and says what became of each.
pub(crate) async fn write(ingest: &Ingest, request: Write<'_>) -> Result<Written, Fault> {
    let mut reservation = match ingest.inflight.reserve() {
        Ok(reservation) => reservation,
        Err(fault) => {
            discard(request.headers, request.body);
            return Err(fault);
        }
    };
    let room = |bytes| reservation.grow_to(bytes);
    let body = read_body(request.headers, request.body, ingest.settings.body_idle_max, room).await?;
    reservation.shrink_to(body.len());
    let received = ingest.clock.now();
    let mut batch = request.format.decode(&body, received)?;
    check_count(&batch)?;
    // What rows take beside the body counts too while they wait for the catalog; a request that
    // asks for more than all there is has to be alone.
    reservation.grow_to((body.len() + batch.bytes()).min(ingest.settings.inflight_bytes_max))?;
    let made = complete(&mut batch, received, &ingest.ids);
    let timelines = admit(&request.ns, &mut batch, received, &ingest.catalog, ingest.settings.auto_create).await?;
    // The rows that wait take about what the body did.
    reservation.shrink_to(body.len());
    let waiting = match timelines {
        Some(timelines) => Some(ingest.coalescer.submit(&batch, &route(&request.ns, &batch, &timelines), reservation)?),
        None => None,
    };
    let errors = batch.faults;
    drop(body);
    let outcome = match waiting {
        Some(waiting) => waiting.outcome().await,
        None => Outcome::default(),
    };
    let written = Written::of(outcome, errors, made);
    ingest.metrics.written(&written);
    Ok(written)
}

/// Holds for every format, since routing counts on it.
fn check_count(batch: &Batch<'_>) -> Result<(), Fault> {
    if batch.rows.len() + batch.faults.len() > REQUEST_EVENTS_MAX {
        return Err(Fault::new(codes::TOO_MANY_EVENTS, format!("a request may have {REQUEST_EVENTS_MAX} events")));
    }
    Ok(())
}

impl Format<'_> {
    fn decode<'b>(&self, body: &'b [u8], received: Timestamp) -> Result<Batch<'b>, Fault> {
        match *self {
            Format::Json { format, precision } => decode_json(body, format, precision),
            Format::Lines { precision, id_tag } => {
                let mut batch = line_protocol::decode(body, &LineOptions { precision, id_tag })?;
                // As in InfluxDB: of a line without a time, whatever its id.
                batch.rows.iter_mut().for_each(|row| row.ts = row.ts.or(Some(received)));
                Ok(batch)
            }
        }
    }
}

impl Written {
    /// Puts faults in the order of the request, and leaves out what was made for refused rows.
    fn of(outcome: Outcome, mut errors: Vec<RowFault>, mut made: Vec<Made>) -> Written {
        errors.sort_by_key(|fault| fault.index);
        if !errors.is_empty() {
            made.retain(|made| errors.binary_search_by_key(&made.index, |fault| fault.index).is_err());
        }
        Written { stored: outcome.stored, unknown: outcome.unknown, failed: outcome.failed, fault: outcome.fault, errors, made }
    }
}
