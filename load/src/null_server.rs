//! A server that does nothing: it answers every write as stored. What the generator reaches against
//! it is what the generator can do. Hidden from the help; no test double, it keeps nothing.

use std::convert::Infallible;
use std::io::{self, Write};
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// Serves until it can't; says where on `out`.
pub(crate) async fn serve(listen: SocketAddr, out: &mut dyn Write) -> io::Error {
    let listener = match TcpListener::bind(listen).await.and_then(|listener| Ok((listener.local_addr()?, listener))) {
        Ok((address, listener)) => match writeln!(out, "null server listening on http://{address}").and_then(|()| out.flush()) {
            Ok(()) => listener,
            Err(error) => return error,
        },
        Err(error) => return error,
    };
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => return error,
        };
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await);
        });
    }
}

/// All lines of the body are stored.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let json = request.headers().get(CONTENT_TYPE).is_some_and(|of| of.as_bytes().starts_with(b"application/"));
    let (mut body, mut lines) = (request.into_body(), 0);
    while let Some(Ok(frame)) = body.frame().await {
        lines += frame.data_ref().map_or(0, |data| memchr::memchr_iter(b'\n', data).count());
    }
    let text = if json { format!("{{\"stored\":{lines},\"rejected\":0,\"errors\":[],\"made\":[]}}") } else { String::new() };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    if json {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    } else {
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    Ok(response)
}
