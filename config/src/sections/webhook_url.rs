//! Checks webhook URLs of notifications. Pure.

use url::{Host, Url};

/// Checks that a URL is `https`, or `http` to a loopback address. `insecure` permits `http` to any address.
///
/// # Errors
/// The problem, worded to follow the place of the URL in a sentence. It does not contain the URL.
pub(crate) fn check(url: &str, insecure: bool) -> Result<(), String> {
    let url =
        Url::parse(url).map_err(|error| format!("is not a valid URL: {error}; write `https://HOST/PATH`"))?;
    let Some(host) = url.host() else { return Err("names no host; write `https://HOST/PATH`".to_owned()) };
    let is_loopback = match host {
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
        Host::Domain(name) => name == "localhost",
    };
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_loopback || insecure => Ok(()),
        "http" => Err("is http to another machine; use https, or set `insecure: true`".to_owned()),
        other => Err(format!("has the scheme {other}, which is not supported; use https")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_stays_on_this_machine() {
        for url in [
            "https://example.com/hook",
            "http://127.0.0.1:8080/",
            "http://127.9.9.9/",
            "http://[::1]:1/",
            "http://localhost/x",
        ] {
            assert_eq!(check(url, false), Ok(()), "{url}");
        }
        for url in [
            "http://example.com/hook",
            "http://localhost.example.com/",
            "http://[::2]/",
            "http://127.0.0.1.example.com/",
            "http://10.0.0.1/",
        ] {
            assert!(check(url, false).unwrap_err().contains("insecure: true"), "{url}");
            assert_eq!(check(url, true), Ok(()), "{url}");
        }
        for url in ["ftp://localhost/", "file:///etc/passwd", "no url", "https://", "unix:/run/x", ""] {
            assert!(check(url, true).is_err(), "{url}");
        }
    }
}
