//! The SDK's client: where the engine is, who we are there, and how long one attempt may take.
//!
//! Region, credentials and profiles come by the SDK's own chain. Its retries are off: ours are the only ones.

use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_config::environment::{EnvironmentVariableCredentialsProvider, EnvironmentVariableRegionProvider};
use aws_config::meta::credentials::CredentialsProviderChain;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::{ProfileFileCredentialsProvider, ProfileFileRegionProvider};
use aws_config::provider_config::ProviderConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Builder, Credentials, Region, StalledStreamProtectionConfig};
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;

use super::DynamoOptions;

/// Longest that a connection may take to stand.
const CONNECT_TIME: Duration = Duration::from_secs(2);

/// What a server on this machine is called by, where nothing else says who we are and where.
const LOCAL_NAME: &str = "local";
const LOCAL_REGION: &str = "us-east-1";

/// Makes a client; nothing is sent yet.
pub(super) async fn connect(options: &DynamoOptions) -> Client {
    let endpoint = options.endpoint.as_deref();
    let http = aws_smithy_http_client::Builder::new();
    let http = match endpoint {
        Some(endpoint) if endpoint.starts_with("http:") => http.build_http(),
        _ => http.tls_provider(Provider::Rustls(CryptoMode::AwsLc)).build_https(),
    };
    let local = endpoint.is_some_and(is_local);
    let mut loader = aws_config::defaults(BehaviorVersion::latest()).http_client(http.clone());
    if let Some(endpoint) = endpoint {
        loader = loader.endpoint_url(endpoint);
    }
    if local {
        // Nobody on this machine's own network gives out credentials, and a server for trials wants any.
        let profile = ProfileFileCredentialsProvider::builder().configure(&ProviderConfig::without_region().with_http_client(http));
        let given = CredentialsProviderChain::first_try("environment", EnvironmentVariableCredentialsProvider::new())
            .or_else("profile", profile.build())
            .or_else("local", Credentials::new(LOCAL_NAME, LOCAL_NAME, None, None, LOCAL_NAME));
        loader = loader.credentials_provider(given);
        let region = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new()).or_else(ProfileFileRegionProvider::new());
        loader = loader.region(region.or_else(Region::from_static(LOCAL_REGION)));
    }
    let timeouts = TimeoutConfig::builder().connect_timeout(CONNECT_TIME).operation_attempt_timeout(options.attempt).build();
    let config = Builder::from(&loader.load().await)
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts)
        // An attempt has an end as it is, and a second clock for it only makes more kinds of errors.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    Client::from_conf(config.build())
}

fn is_local(endpoint: &str) -> bool {
    let host = endpoint.split("://").nth(1).unwrap_or_default();
    ["127.0.0.1", "localhost", "[::1]"]
        .iter()
        .any(|name| host.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/'])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_endpoint_is_one_on_this_machine() {
        assert!(["http://127.0.0.1:8000", "http://localhost", "https://[::1]:1/"].iter().all(|endpoint| is_local(endpoint)));
        assert!(
            !["http://127.0.0.1.example.com", "https://dynamodb.eu-west-1.amazonaws.com", "localhost", ""]
                .iter()
                .any(|endpoint| is_local(endpoint))
        );
    }
}
