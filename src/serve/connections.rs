//! Connections: a bounded number, each with time limits, each ended in order at a drain.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures::FutureExt;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutStream;

use crate::settings::Settings;

/// Descriptors kept for files, the store and standard streams.
const DESCRIPTORS_RESERVED: usize = 256;

/// How long accepting rests after an error of the machine (no descriptors, no memory).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The connections that are open when accepting ends.
pub(super) struct Held {
    graceful: GracefulShutdown,
    slots: Arc<Semaphore>,
    slots_max: usize,
}

/// Accepts connections until `stop`. At the bound it waits for one to end before it accepts another,
/// so that descriptors are never used up.
pub(super) async fn accept(listener: TcpListener, app: Router, settings: &Settings, stop: impl Future<Output = ()>) -> Held {
    let slots_max = slots_max(settings.connections);
    let slots = Arc::new(Semaphore::new(slots_max));
    let graceful = GracefulShutdown::new();
    tokio::pin!(stop);
    loop {
        let next = async {
            let slot = slots.clone().acquire_owned().await.expect("never closed");
            (slot, listener.accept().await)
        };
        tokio::select! {
            () = &mut stop => break,
            (slot, accepted) = next => match accepted {
                Ok((stream, _)) => spawn(stream, slot, app.clone(), settings.stall, &graceful),
                Err(error) => {
                    tracing::warn!(%error, "connection not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    // Whoever connected before the socket closes is served: else the kernel would reset them.
    while let (Ok(slot), Some(Ok((stream, _)))) = (slots.clone().try_acquire_owned(), listener.accept().now_or_never()) {
        spawn(stream, slot, app.clone(), settings.stall, &graceful);
    }
    Held { graceful, slots, slots_max }
}

/// The bound in force: the setting, or what the process's descriptor limit leaves.
fn slots_max(wanted: usize) -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let allowed = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let most = allowed.saturating_sub(DESCRIPTORS_RESERVED).max(allowed / 2).max(1);
    if wanted > most {
        tracing::warn!(wanted, most, "fewer connections than set, by the descriptor limit");
    }
    wanted.min(most).min(Semaphore::MAX_PERMITS)
}

fn spawn(stream: TcpStream, slot: OwnedSemaphorePermit, app: Router, stall: Duration, graceful: &GracefulShutdown) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no delay not set");
    }
    // Reads have limits of their own: hyper's for heads, the ingest tier's for bodies.
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(stall));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(stall)
        .serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(app));
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection ended");
        }
        drop(slot);
    });
}

impl Held {
    /// Lets every connection finish its request; gives how many did not within `limit`.
    pub(super) async fn finish(self, limit: Duration) -> usize {
        let _ = tokio::time::timeout(limit, self.graceful.shutdown()).await;
        self.slots_max - self.slots.available_permits()
    }
}
