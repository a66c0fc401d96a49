//! What one connection of a run does, whatever it speaks: take a portion of the workload, send it,
//! ask a read. HTTP is one way, a store's own client the other.
//!
//! A portion is prepared before it is due, so that making it is no part of its latency.

use std::sync::Arc;

use bytes::Bytes;

use super::{Connection, Delivery, Encoding, Endpoint, Failure, Store, Target};
use crate::workload::write::Writer;
use crate::workload::{Portion, Read, Workload};

/// One connection to the server under test.
pub(crate) enum Link {
    /// Requests over one HTTP connection; what they look like is the target's.
    Http(Box<Http>),
    /// A store's own client.
    Store { store: Store, workload: Arc<Workload>, prepared: Portion },
    /// A server that answers each portion after the time that this gives it.
    #[cfg(test)]
    Fake(Box<dyn FnMut() -> std::time::Duration + Send>),
}

/// The HTTP way.
pub(crate) struct Http {
    connection: Connection,
    /// For reads, where another server answers them.
    reads: Option<Connection>,
    target: Arc<dyn Target>,
    writer: Writer,
    encoding: Encoding,
    prepared: (Bytes, u64),
}

impl Link {
    /// Connects when it is first needed; to where writes go, and where reads do.
    pub(crate) fn http(
        (writes, reads): (Arc<Endpoint>, Arc<Endpoint>),
        target: Arc<dyn Target>,
        workload: Arc<Workload>,
        encoding: Encoding,
    ) -> Link {
        let writer = Writer::new(workload, target.format());
        let reads = (!Arc::ptr_eq(&writes, &reads)).then(|| Connection::new(reads));
        Link::Http(Box::new(Http { connection: Connection::new(writes), reads, target, writer, encoding, prepared: (Bytes::new(), 0) }))
    }

    /// Shares the store's connections with the others of its run.
    pub(crate) fn store(store: Store, workload: Arc<Workload>) -> Link {
        Link::Store { store, workload, prepared: Portion { first: 0, events: 0 } }
    }

    /// Makes what the next [`Link::write`] sends.
    pub(crate) fn prepare(&mut self, portion: Portion) {
        match self {
            Link::Http(http) => http.prepared = (http.encoding.pack(http.writer.body(portion)), portion.events),
            Link::Store { prepared, .. } => *prepared = portion,
            #[cfg(test)]
            Link::Fake(_) => {}
        }
    }

    /// Sends the portion that was prepared, and again where that is safe and may help.
    pub(crate) async fn write(&mut self) -> Delivery {
        match self {
            Link::Http(http) => {
                let (body, events) = std::mem::take(&mut http.prepared);
                let target = &http.target;
                let judge = |status, body: &[u8]| target.judge_write(status, body, events);
                http.connection.deliver(&target.write().carrying(body), judge).await
            }
            Link::Store { store, workload, prepared } => store.write(workload, *prepared).await,
            #[cfg(test)]
            Link::Fake(takes) => {
                let started = tokio::time::Instant::now();
                tokio::time::sleep(takes()).await;
                Delivery { result: Ok(super::Answer::default()), started, ..Delivery::never(Failure::Refused(String::new())) }
            }
        }
    }

    /// Asks a read.
    pub(crate) async fn read(&mut self, read: &Read) -> Delivery {
        match self {
            Link::Http(http) => match http.target.read(read) {
                Ok(call) => {
                    http.reads
                        .as_mut()
                        .unwrap_or(&mut http.connection)
                        .deliver(&call, |status, body| http.target.judge_read(read, status, body))
                        .await
                }
                Err(why) => Delivery::never(Failure::Refused(why)),
            },
            Link::Store { store, .. } => store.read(read).await,
            #[cfg(test)]
            Link::Fake(_) => Delivery::never(Failure::Refused("a fake answers no reads".into())),
        }
    }
}
