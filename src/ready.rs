//! `braid ready`: asks a node on this machine whether it is ready, for health checks in images without a shell.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// Longest that the node may take to connect, and to answer.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// Most that is read of an answer.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// Fails, with what is missing, unless the node that listens at `address` is ready.
pub(crate) fn ask(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let address = reachable(address);
    let mut stream = TcpStream::connect_timeout(&address, WAIT_MAX).map_err(|error| format!("nothing listens on {address}: {error}"))?;
    stream.set_read_timeout(Some(WAIT_MAX))?;
    stream.set_write_timeout(Some(WAIT_MAX))?;
    stream.write_all(format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    if answer.starts_with("HTTP/1.1 200 ") {
        return Ok(());
    }
    Err(answer.split_once("\r\n\r\n").map_or("no answer", |(_, body)| body.trim()).into())
}

/// An address to listen on all interfaces is reached by loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        other => other.ip(),
    };
    SocketAddr::new(ip, address.port())
}
