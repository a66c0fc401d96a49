//! The edge: sockets, timeouts, the token, what operators probe, and a drain at SIGTERM.
//!
//! No route of either tier is here.

mod auth;
mod connections;
mod linger;
mod notice;
mod operations;
mod signal;

use std::io::Write;
use std::sync::Arc;

use axum::Router;
use axum::middleware;
use tokio::net::TcpListener;

use crate::components::Components;
use crate::settings::Settings;

/// Serves until SIGTERM or SIGINT, then stops accepting, finishes what was accepted, and closes the store.
pub(crate) async fn serve(components: Components, settings: &Settings) -> Result<(), Box<dyn std::error::Error>> {
    let stop = signal::stop()?;
    let listener = TcpListener::bind(settings.listen).await.map_err(|error| format!("can't listen on {}: {error}", settings.listen))?;
    let address = listener.local_addr()?;
    let components = Arc::new(components);
    let app = router(&components, settings);
    writeln!(std::io::stdout(), "braid listening on http://{address}")?;
    tracing::info!(%address, store = ?settings.store, "listening");

    let stop = notice::after(stop, components.clone(), settings.drain_notice);
    let held = connections::accept(listener, app, settings, stop).await;
    tracing::info!("draining");
    let cut = held.finish(settings.drain).await;
    components.close(settings.drain).await;
    tracing::info!(connections_cut = cut, "stopped");
    Ok(())
}

fn router(components: &Arc<Components>, settings: &Settings) -> Router {
    // The ingest tier takes what it refuses off the wire itself.
    let query = components.query_routes().map(|routes| routes.route_layer(middleware::from_fn(linger::let_the_client_finish)));
    let guarded = components.ingest_routes().merge(query.unwrap_or_default()).merge(operations::guarded(components));
    let guarded = match &settings.auth_token {
        Some(token) => guarded.route_layer(middleware::from_fn_with_state(auth::Token::new(token), auth::demand)),
        None => guarded,
    };
    let app = guarded.merge(operations::open(components));
    let app = app.fallback(operations::not_found).method_not_allowed_fallback(operations::method_not_allowed);
    match settings.drain_notice {
        Some(_) => app.layer(middleware::map_response_with_state(components.clone(), notice::close_after_answer)),
        None => app,
    }
}
