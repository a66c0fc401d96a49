//! SIGTERM and SIGINT.

use tokio::signal::unix::{SignalKind, signal};

/// A future that ends at the first SIGTERM or SIGINT; both are caught from now on.
pub(super) fn stop() -> std::io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
