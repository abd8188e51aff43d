//! The signature of a message, as Standard Webhooks defines it. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// Returns the value of `webhook-signature`: `v1,` and the HMAC-SHA256
/// of `id.timestamp.body` in base64.
///
/// A secret that begins with `whsec_` is base64; any other is used as it is.
///
/// # Errors
///
/// The secret after `whsec_` is not base64.
pub fn sign(secret: &str, id: &str, timestamp: u64, body: &str) -> Result<String, String> {
    let key = match secret.strip_prefix("whsec_") {
        Some(encoded) => {
            STANDARD.decode(encoded).map_err(|_| "the secret after whsec_ is not base64".to_owned())?
        }
        None => secret.as_bytes().to_vec(),
    };
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|error| error.to_string())?;
    mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
    Ok(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_specification_has_its_signature() {
        let signature = sign(
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signature.unwrap(), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert!(sign("whsec_&", "a", 1, "").is_err());
        assert_ne!(sign("a", "a", 1, "b"), sign("b", "a", 1, "b"));
    }
}
