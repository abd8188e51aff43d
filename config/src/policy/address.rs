//! All spellings of a URL that reach the same resource. Pure.

use std::net::IpAddr;

use url::{Host, Url};

use super::glob;

/// A URL that a call fetches.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// Equivalent spellings: a rule that allows one of them allows the URL.
    pub(super) same: Vec<String>,
    /// Spellings that reach the same host in another way: only rules that restrict them count.
    pub(super) also: Vec<String>,
}

impl Address {
    /// Parses a URL by the WHATWG URL standard; `None` if it is invalid.
    pub(super) fn read(written: &str) -> Option<Self> {
        let with_scheme =
            || Url::parse(&format!("https://{written}")).ok().filter(|_| !written.contains("://"));
        let has_port = |url: &Url| url.path().starts_with(|char: char| char.is_ascii_digit());
        let (url, guessed) = match Url::parse(written) {
            Ok(url) if url.has_host() => (url, false),
            // `example.com:8080/x` has no scheme; `file:` and `data:` do not access the web.
            Ok(url) if !has_port(&url) => return None,
            _ => (with_scheme()?, true),
        };
        let mut same = vec![without_needless_escapes(url.as_str())];
        if url.path() == "/" && url.query().is_none() && url.fragment().is_none() {
            same.extend(url.as_str().strip_suffix('/').map(str::to_owned));
        }
        let mut also = vec![written.to_owned(), url.to_string()];
        for host in hosts(&url) {
            let mut other = url.clone();
            // These cannot fail for a URL with a host.
            let _ = other.set_username("");
            let _ = other.set_password(None);
            let _ = other.set_host(Some(&host));
            also.push(other.to_string());
            also.extend(other.as_str().split_once("://").map(|(_, rest)| rest.to_owned()));
            let mut open = other;
            if guessed && open.set_scheme("http").is_ok() {
                also.push(open.to_string());
            }
        }
        let unescaped: Vec<String> = also.iter().map(|spelling| without_needless_escapes(spelling)).collect();
        also.extend(unescaped);
        also.retain(|spelling| !same.contains(spelling));
        also.sort_unstable();
        also.dedup();
        match guessed {
            // The client's choice of scheme is unknown.
            true => Some(Self { same: vec![written.to_owned()], also: [same, also].concat() }),
            false => Some(Self { same, also }),
        }
    }
}

/// Returns other spellings of the host.
fn hosts(url: &Url) -> Vec<String> {
    let mapped = |ip: IpAddr| match ip.to_canonical() {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    match url.host() {
        Some(Host::Domain(name)) => vec![name.trim_end_matches('.').to_owned()],
        Some(Host::Ipv4(ip)) => vec![ip.to_string(), format!("[{}]", ip.to_ipv6_mapped())],
        Some(Host::Ipv6(ip)) => vec![mapped(IpAddr::V6(ip)), format!("[{ip}]")],
        None => Vec::new(),
    }
}

/// Whether a pattern matches a spelling. If the pattern has a path, a `*` before it matches no slash, so
/// `https://*.good.com/*` does not match `https://evil.com/a.good.com/x`.
pub(super) fn fits(pattern: &str, spelling: &str) -> bool {
    let pattern = without_needless_escapes(pattern);
    let pattern = pattern.as_str();
    let Some((scheme, rest)) = pattern.split_once("://") else { return glob::matches(pattern, spelling) };
    let end = rest.find('/').unwrap_or(rest.len());
    let authority = format!("{}://{}", scheme.to_lowercase(), host_of_pattern(scheme, &rest[..end]));
    let path = &rest[end..];
    match spelling.split_once("://") {
        Some((own, own_rest)) if !path.is_empty() => {
            let end = own_rest.find('/').unwrap_or(own_rest.len());
            let own_authority = format!("{own}://{}", &own_rest[..end]);
            glob::matches(&authority, &own_authority) && glob::matches(path, &own_rest[end..])
        }
        _ => glob::matches(&authority, spelling),
    }
}

/// Decodes escapes of unreserved characters such as `%61`, and writes the other escapes in capitals.
fn without_needless_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('%') {
        plain.push_str(before);
        let code = behind.get(..2).filter(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()).map(char::from) {
            Some(char) if char.is_ascii_alphanumeric() || "-._~".contains(char) => plain.push(char),
            Some(_) => plain.push_str(&format!("%{}", behind[..2].to_ascii_uppercase())),
            None => plain.push('%'),
        }
        rest = if code.is_some() { &behind[2..] } else { behind };
    }
    plain.push_str(rest);
    plain
}

/// Normalizes host and port of a pattern like those of parsed URLs.
fn host_of_pattern(scheme: &str, written: &str) -> String {
    let read = || Url::parse(&format!("{scheme}://{written}/")).ok().filter(|_| !written.contains('*'));
    let read = read().map(|url| url[url::Position::BeforeUsername..url::Position::BeforePath].to_owned());
    read.unwrap_or_else(|| written.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_place_meet() {
        for written in [
            "https://evil.com/x",
            "HTTPS://EVIL.com/x",
            "https:\\\\evil.com\\x",
            "https://u:p@evil.com/x",
            "https://evil.com:443/x",
            "https://evil.com./x",
            "https://\u{ff45}vil.com/x",
            "evil.com/x",
            "https://evil.com/%78",
            "evil.com/%78",
        ] {
            let address = Address::read(written).unwrap();
            let all = [address.same, address.also].concat();
            assert!(all.iter().any(|spelling| spelling == "https://evil.com/x"), "{written}: {all:?}");
        }
        for written in ["http://2130706433/", "http://0x7f.1/", "http://[::ffff:127.0.0.1]/", "http://127.1"]
        {
            let address = Address::read(written).unwrap();
            let all = [address.same, address.also].concat();
            assert!(all.iter().any(|spelling| spelling == "http://127.0.0.1/"), "{written}: {all:?}");
        }
        assert_eq!(Address::read("https://a.b").unwrap().same, ["https://a.b/", "https://a.b"]);
        assert_eq!(Address::read("https://a.b?c").unwrap().same, ["https://a.b/?c"]);
        for none in ["http://", "file:/etc/passwd", "file:///etc/passwd", "data:text/html,x"] {
            assert_eq!(Address::read(none), None, "{none}");
        }
        let table = [
            ("https://evil.com:443/*", "https://evil.com/x", true),
            ("https://EVIL.com/*", "https://evil.com/x", true),
            ("http://2130706433/*", "http://127.0.0.1/x", true),
            ("https://b\u{fc}cher.de/*", "https://xn--bcher-kva.de/x", true),
            ("https://*.good.com/*", "https://a.good.com/x", true),
            ("https://*.good.com/*", "https://evil.com/a.good.com/x", false),
            ("https://good.com*", "https://good.com/x", true),
            ("http*", "https://good.com/x", true),
            ("evil.com*", "evil.com/x", true),
            ("https://evil.com/%61*", "https://evil.com/ab", true),
        ];
        for (pattern, spelling, expected) in table {
            assert_eq!(fits(pattern, spelling), expected, "{pattern} {spelling}");
        }
    }
}
