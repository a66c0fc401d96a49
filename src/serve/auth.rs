//! The token that requests must carry, in the forms that Braid's and InfluxDB's clients use.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use braid_shared::{codes, problem::Problem};

use super::operations::problem_response;

/// The token, shared by all requests.
#[derive(Clone)]
pub(super) struct Token(Arc<str>);

impl Token {
    pub(super) fn new(token: &str) -> Token {
        Token(token.into())
    }

    /// Compares in a time that does not tell how much of it was right.
    fn is(&self, given: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), given.as_bytes());
        let differing = own.iter().zip(given).fold(0, |bits, (a, b)| bits | (a ^ b));
        own.len() == given.len() && std::hint::black_box(differing) == 0
    }

    /// `Authorization: Bearer T` or `Token T` (InfluxDB v2), Basic with T as the password, or
    /// `p=T` (InfluxDB v1).
    fn opens(&self, request: &Request) -> bool {
        let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let by_header =
            header.and_then(|value| value.split_once(' ')).is_some_and(|(scheme, given)| match scheme.to_ascii_lowercase().as_str() {
                "bearer" | "token" => self.is(given.trim()),
                "basic" => basic_password(given.trim()).is_some_and(|password| self.is(&password)),
                _ => false,
            });
        let query = request.uri().query().unwrap_or_default();
        by_header || form_urlencoded::parse(query.as_bytes()).any(|(name, value)| name == "p" && self.is(&value))
    }
}

fn basic_password(encoded: &str) -> Option<String> {
    let plain = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
    plain.split_once(':').map(|(_, password)| password.to_owned())
}

/// Middleware: 401 for a request without the token.
pub(super) async fn demand(State(token): State<Token>, request: Request, next: Next) -> Response {
    if token.opens(&request) {
        return next.run(request).await;
    }
    let detail = "send the token as Authorization: Bearer <token>";
    let mut refusal = problem_response(Problem::new(codes::UNAUTHORIZED, StatusCode::UNAUTHORIZED.as_u16(), detail));
    refusal.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    refusal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opens(uri: &str, header: Option<&str>) -> bool {
        let mut request = Request::builder().uri(uri);
        if let Some(header) = header {
            request = request.header(AUTHORIZATION, header);
        }
        Token::new("s3cret").opens(&request.body(axum::body::Body::empty()).unwrap())
    }

    #[test]
    fn every_form_that_clients_use_opens() {
        let basic = format!("Basic {}", STANDARD.encode("anyone:s3cret"));
        assert!(["Bearer s3cret", "bearer s3cret", "Token s3cret", &basic].iter().all(|header| opens("/write", Some(header))));
        assert!(opens("/write?db=a&u=x&p=s3cret", None));
    }

    #[test]
    fn anything_else_does_not() {
        let basic = format!("Basic {}", STANDARD.encode("s3cret:other"));
        assert!(
            ["Bearer s3cre", "Bearer s3crets", "Bearer ", "s3cret", "Digest s3cret", &basic]
                .iter()
                .all(|header| !opens("/write", Some(header)))
        );
        assert!(!opens("/write?p=", None));
        assert!(!opens("/write", None));
    }
}
