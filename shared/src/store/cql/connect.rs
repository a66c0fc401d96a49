//! A session with the cluster: addresses, login, TLS, and how the driver behaves.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::speculative_execution::SimpleSpeculativeExecutionPolicy;

use super::options::{CqlOptions, CqlTls};
use super::retry::{RetryReads, RetryWrites};
use crate::store::{StoreError, StoreErrorKind};

/// Longest a connection may take to stand, and an address to be resolved.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// An idle connection is probed this often …
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// … and given up when a probe has no answer after this long: a node that hangs is left out then.
const PROBE_MAX: Duration = Duration::from_secs(2);
/// Longest a read of one page may take, all its attempts together.
const READ_MAX: Duration = Duration::from_secs(10);
/// Longest a write may take: beyond what a node itself waits for its replicas (2 s), so that what
/// ends here is a node that hangs. The outcome is unknown then, and the caller writes again.
const WRITE_MAX: Duration = Duration::from_secs(3);
/// Further nodes that a slow read is sent to.
const SPECULATIONS_MAX: usize = 2;

/// Connects. A cluster that can't be reached, or refuses, is an error that says why.
pub(super) async fn connect(options: &CqlOptions) -> Result<Session, StoreError> {
    options.check()?;
    let mut builder = SessionBuilder::new()
        .known_nodes(&options.nodes)
        .default_execution_profile_handle(writes(options).into_handle())
        .keyspaces_to_fetch([&options.keyspace])
        .fetch_full_schema_metadata(false)
        .connection_timeout(CONNECT_MAX)
        .hostname_resolution_timeout(Some(CONNECT_MAX))
        .keepalive_interval(PROBE_EVERY)
        .keepalive_timeout(PROBE_MAX);
    if let Some(datacenter) = &options.datacenter {
        builder = builder.prefer_datacenter(datacenter.clone());
    }
    if let Some((user, password)) = &options.login {
        builder = builder.user(user, password);
    }
    if let Some(tls) = &options.tls {
        builder = builder.tls_context(Some(Arc::new(encryption(tls)?)));
    }
    builder.build().await.map_err(|error| unreachable(&options.nodes, error))
}

fn unreachable(nodes: &[String], error: impl std::fmt::Display) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, format!("no session with the cluster at {}: {error}", nodes.join(", ")))
}

/// How writes behave: never sent twice by the driver while the first may still be under way.
pub(super) fn writes(options: &CqlOptions) -> ExecutionProfile {
    ExecutionProfile::builder()
        .consistency(options.scope.quorum())
        .serial_consistency(Some(options.scope.serial()))
        .request_timeout(Some(WRITE_MAX))
        .retry_policy(Arc::new(RetryWrites))
        .build()
}

/// How reads behave: a slow one is sent to further nodes, and the first answer counts.
pub(super) fn reads(options: &CqlOptions) -> ExecutionProfile {
    let speculation = options
        .speculate_after
        .map(|retry_interval| Arc::new(SimpleSpeculativeExecutionPolicy { max_retry_count: SPECULATIONS_MAX, retry_interval }) as _);
    ExecutionProfile::builder()
        .consistency(options.scope.quorum())
        .request_timeout(Some(READ_MAX))
        .retry_policy(Arc::new(RetryReads))
        .speculative_execution_policy(speculation)
        .build()
}

fn encryption(tls: &CqlTls) -> Result<ClientConfig, StoreError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut trusted = RootCertStore::empty();
    for certificate in certificates(&tls.ca)? {
        trusted.add(certificate).map_err(|error| unusable(&tls.ca, error))?;
    }
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| unusable(&tls.ca, error))?.with_root_certificates(trusted);
    let Some((certificate, key)) = &tls.identity else { return Ok(builder.with_no_client_auth()) };
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, error))?;
    builder.with_client_auth_cert(certificates(certificate)?, private).map_err(|error| unusable(certificate, error))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(found) if found.is_empty() => Err(unusable(file, "there is no certificate in it")),
        Ok(found) => Ok(found),
        Err(error) => Err(unusable(file, error)),
    }
}

fn unusable(file: &Path, error: impl std::fmt::Display) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, format!("{}: {error}", file.display()))
}
