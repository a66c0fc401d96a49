//! Where requests go and for how long they are tried. Plain data, checked when it is made.

use std::time::Duration;

use hyper::Uri;
use hyper::header::HeaderValue;

use super::patience::Patience;

/// What every request of a run has in common.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// Host and port to connect to.
    pub(crate) authority: String,
    /// The `Host` header.
    pub(crate) host: HeaderValue,
    /// Longest time of one try.
    pub(crate) timeout: Duration,
    /// How long one request is tried again.
    pub(crate) patience: Patience,
}

impl Endpoint {
    /// Checks `url`, which `flag` gave: `http://host[:port]`, nothing after it.
    pub(crate) fn new(flag: &str, url: &str, timeout: Duration, retry_for: Duration) -> Result<Endpoint, String> {
        let wrong = || format!("{flag} must be http://HOST[:PORT], not {url}");
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let plain = uri.scheme_str() == Some("http") && matches!(uri.path(), "" | "/") && uri.query().is_none();
        let authority = uri.authority().filter(|_| plain).ok_or_else(wrong)?;
        Ok(Endpoint {
            authority: format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(80)),
            host: HeaderValue::from_str(authority.as_str()).map_err(|_| wrong())?,
            timeout,
            patience: Patience::new(retry_for),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority(url: &str) -> Result<String, String> {
        Endpoint::new("--url", url, Duration::ZERO, Duration::ZERO).map(|endpoint| endpoint.authority)
    }

    #[test]
    fn a_url_is_a_host_and_a_port() {
        assert_eq!(authority("http://localhost").unwrap(), "localhost:80");
        assert_eq!(authority("http://[::1]:7070/").unwrap(), "[::1]:7070");
    }

    #[test]
    fn a_url_with_tls_or_a_path_is_refused_by_name() {
        for url in ["https://localhost", "http://localhost/v1", "localhost:7070", "http://"] {
            assert!(authority(url).unwrap_err().contains("--url"), "{url}");
        }
    }
}
