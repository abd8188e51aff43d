//! Checks of every request: `Host`, `Origin`, `Sec-Fetch-Site`, the method and the kind of body. Pure.
//!
//! A page of another origin cannot pass: it names another host (DNS rebinding), or its browser says where it comes from.

use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use hyper::{Method, Uri};
use subagent_protocol::{Code, Error};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Headers of every answer. None of them opens it to another origin.
pub(crate) const HEADERS: [(&str, &str); 8] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
         trusted-types 'none'",
    ),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-embedder-policy", "require-corp"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("permissions-policy", "camera=(), microphone=(), geolocation=(), usb=(), serial=(), payment=()"),
];

/// What the panel answers to.
#[derive(Debug, Clone)]
pub(crate) struct HostGate {
    hosts: [String; 3],
}

impl HostGate {
    pub(crate) fn new(port: u16) -> Self {
        Self { hosts: ["127.0.0.1", "[::1]", "localhost"].map(|host| format!("{host}:{port}")) }
    }

    /// Refuses requests of other origins and to other hosts.
    ///
    /// # Errors
    /// `FORBIDDEN_ORIGIN`, `INVALID_ARGUMENT`, `INVALID_INPUT`.
    pub(crate) fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Error> {
        let host = only(headers, &HOST)?.ok_or_else(|| forbidden("Host"))?;
        let host = self.hosts.iter().find(|known| known.eq_ignore_ascii_case(host));
        let host = host.ok_or_else(|| forbidden("Host"))?;
        if uri.authority().is_some_and(|named| !host.eq_ignore_ascii_case(named.as_str())) {
            return Err(forbidden("Host"));
        }
        if only(headers, &ORIGIN)?.is_some_and(|origin| origin.strip_prefix("http://") != Some(host.as_str()))
        {
            return Err(forbidden("Origin"));
        }
        if only(headers, &SEC_FETCH_SITE)?.is_some_and(|site| !matches!(site, "same-origin" | "none")) {
            return Err(forbidden("Sec-Fetch-Site"));
        }
        match *method {
            Method::GET => Ok(()),
            Method::POST if is_json(headers) => Ok(()),
            Method::POST => {
                Err(Error::new(Code::InvalidInput, "the body must be JSON (Content-Type: application/json)")
                    .with("header", "Content-Type"))
            }
            _ => Err(Error::new(Code::InvalidArgument, format!("{method} cannot be used here"))),
        }
    }
}

/// The value of a header that may be there once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Error> {
    let mut values = headers.get_all(name).iter();
    let first =
        values.next().map(|value| value.to_str().map_err(|_| forbidden(name.as_str()))).transpose()?;
    if values.next().is_some() { Err(forbidden(name.as_str())) } else { Ok(first) }
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut kinds = headers.get_all(CONTENT_TYPE).iter().map(HeaderValue::to_str);
    let kind =
        kinds.next().and_then(Result::ok).map(|kind| kind.split(';').next().unwrap_or_default().trim());
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json")) && kinds.next().is_none()
}

fn forbidden(header: &str) -> Error {
    Error::new(Code::ForbiddenOrigin, format!("the panel refuses requests with this {header} header"))
        .with("header", header)
        .recommend("open the address that `subagent panel` has printed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &str, uri: &str, pairs: &[(&str, &str)]) -> Option<Code> {
        let headers: HeaderMap = pairs
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap()))
            .fold(HeaderMap::new(), |mut headers, (name, value)| {
                headers.append(name, value);
                headers
            });
        HostGate::new(4321)
            .check(&method.parse().unwrap(), &uri.parse().unwrap(), &headers)
            .err()
            .map(|error| error.code)
    }

    const OURS: (&str, &str) = ("host", "127.0.0.1:4321");

    #[test]
    fn the_host_is_one_of_three_with_our_port() {
        for host in ["127.0.0.1:4321", "[::1]:4321", "localhost:4321", "LocalHost:4321"] {
            assert_eq!(check("GET", "/", &[("host", host)]), None, "{host}");
        }
        for host in [
            "127.0.0.1",
            "localhost",
            "127.0.0.1:4322",
            "evil.example",
            "evil.example:4321",
            "127.0.0.1.nip.io:4321",
            "localhost:4321.evil.example",
            "127.0.0.1:4321@evil.example",
            "0.0.0.0:4321",
            "127.1:4321",
            "localhost.:4321",
            "",
            "[::ffff:127.0.0.1]:4321",
            "2130706433:4321",
            " 127.0.0.1:4321,evil",
        ] {
            assert_eq!(check("GET", "/", &[("host", host)]), Some(Code::ForbiddenOrigin), "{host}");
        }
        assert_eq!(check("GET", "/", &[]), Some(Code::ForbiddenOrigin));
        assert_eq!(check("GET", "/", &[OURS, OURS]), Some(Code::ForbiddenOrigin));
        assert_eq!(check("GET", "http://evil.example/", &[OURS]), Some(Code::ForbiddenOrigin));
        assert_eq!(check("GET", "http://127.0.0.1:4321/", &[OURS]), None);
    }

    #[test]
    fn another_origin_is_refused() {
        for origin in [
            "null",
            "http://evil.example",
            "https://127.0.0.1:4321",
            "http://127.0.0.1:4322",
            "http://127.0.0.1:4321/",
            "http://localhost:4321",
            "file://",
            "http://127.0.0.1:4321.evil.example",
        ] {
            assert_eq!(
                check("GET", "/", &[OURS, ("origin", origin)]),
                Some(Code::ForbiddenOrigin),
                "{origin}"
            );
        }
        assert_eq!(check("GET", "/", &[OURS, ("origin", "http://127.0.0.1:4321")]), None);
        for site in ["cross-site", "same-site", "", "Same-Origin"] {
            assert_eq!(
                check("GET", "/", &[OURS, ("sec-fetch-site", site)]),
                Some(Code::ForbiddenOrigin),
                "{site}"
            );
        }
        for site in ["same-origin", "none"] {
            assert_eq!(check("GET", "/", &[OURS, ("sec-fetch-site", site)]), None);
        }
    }

    #[test]
    fn a_body_is_json_and_methods_are_two() {
        for kind in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "application/jsonp",
            "",
        ] {
            assert_eq!(
                check("POST", "/", &[OURS, ("content-type", kind)]),
                Some(Code::InvalidInput),
                "{kind}"
            );
        }
        assert_eq!(check("POST", "/", &[OURS]), Some(Code::InvalidInput));
        for kind in ["application/json", "Application/JSON; charset=utf-8"] {
            assert_eq!(check("POST", "/", &[OURS, ("content-type", kind)]), None);
        }
        for method in ["PUT", "DELETE", "OPTIONS", "HEAD", "TRACE", "CONNECT", "PATCH"] {
            assert_eq!(
                check(method, "/", &[OURS, ("content-type", "application/json")]),
                Some(Code::InvalidArgument)
            );
        }
    }

    #[test]
    fn no_header_opens_the_answers_to_others() {
        assert!(HEADERS.iter().all(|(name, _)| !name.starts_with("access-control")));
        assert!(HEADERS.iter().all(|(_, value)| !value.contains("unsafe")));
    }
}
