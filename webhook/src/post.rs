//! One request, with its deadline.

use std::sync::Arc;
use std::time::Duration;

use subagent_protocol::webhook::{WebhookAnswer, WebhookPost};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::signature;

/// Sends the message once. Does not follow redirects, and reads no body.
pub(crate) fn send(request: &WebhookPost) -> WebhookAnswer {
    let failed = |error: String| WebhookAnswer::Failed { error };
    let mut post = agent(Duration::from_millis(request.timeout_ms))
        .post(&request.url)
        .header("content-type", &request.content_type)
        .header("user-agent", concat!("subagent/", env!("CARGO_PKG_VERSION")))
        .header("webhook-id", &request.id)
        .header("webhook-timestamp", request.timestamp.to_string());
    if let Some(secret) = &request.secret {
        match signature::sign(secret, &request.id, request.timestamp, &request.body) {
            Ok(signature) => post = post.header("webhook-signature", signature),
            Err(error) => return WebhookAnswer::Refused { error },
        }
    }
    match post.send(&request.body) {
        Ok(response) => WebhookAnswer::Status {
            status: response.status().as_u16(),
            retry_after: response
                .headers()
                .get("retry-after")
                .and_then(|value| value.to_str().ok()?.trim().parse().ok()),
        },
        Err(error) => failed(describe(&error)),
    }
}

/// Trusts the certificates of the system, which `SSL_CERT_FILE` and `SSL_CERT_DIR` can replace.
fn agent(timeout: Duration) -> ureq::Agent {
    let found = rustls_native_certs::load_native_certs().certs;
    let roots = found.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    ureq::Agent::config_builder()
        .tls_config(tls)
        .timeout_global(Some(timeout))
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .build()
        .into()
}

/// Describes the error without the URL, which may contain a secret.
fn describe(error: &ureq::Error) -> String {
    match error {
        ureq::Error::BadUri(_) => "the URL is not valid".to_owned(),
        ureq::Error::HostNotFound => "the host name cannot be resolved".to_owned(),
        ureq::Error::ConnectionFailed => "the connection failed".to_owned(),
        ureq::Error::Timeout(_) => "there was no answer in time".to_owned(),
        ureq::Error::Io(error) => format!("the connection failed: {error}"),
        ureq::Error::Tls(error) => format!("TLS failed: {error}"),
        ureq::Error::Rustls(error) => format!("TLS failed: {error}"),
        _ => "the server's answer cannot be read".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_server_that_does_not_answer_in_time_is_given_up() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let post = WebhookPost {
            url: format!("http://{}/hush", silent.local_addr().unwrap()),
            id: "msg_1".to_owned(),
            timestamp: 1,
            secret: None,
            content_type: "text/plain".to_owned(),
            body: "hello".to_owned(),
            timeout_ms: 200,
        };
        let begun = Instant::now();
        let answer = send(&post);
        assert_eq!(answer, WebhookAnswer::Failed { error: "there was no answer in time".to_owned() });
        let took = begun.elapsed();
        assert!(took >= Duration::from_millis(200) && took < Duration::from_secs(20), "{took:?}");
    }
}
