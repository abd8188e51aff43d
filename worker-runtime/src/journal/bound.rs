//! Limits the size of a record to what its reader accepts. A larger record would make everything
//! after it unreadable. Pure. Does not change bodies within the limit.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;
use subagent_protocol::codec::MAX_RECORD_BYTES;
use subagent_protocol::record::{Noise, NoiseReason, RecordType};

use super::batch::{ordinary, to_raw};
use crate::shorten;

/// Space for the fields around a body: number, time, type, turn and kind.
const HEAD_BYTES: usize = 4096;
/// Maximum length of a body, in bytes.
pub(super) const MAX_BODY_BYTES: usize = MAX_RECORD_BYTES - HEAD_BYTES;
/// Length of a shortened body that must keep its shape, in bytes. It fits into the reserve
/// for a full disk.
const SHORT_BYTES: usize = 32 * 1024;
/// Bytes shown of any other body.
const SHOWN_BYTES: usize = 4096;

/// Returns the body unchanged if it has at most `max` bytes.
///
/// Otherwise progress becomes a noise record with its size, like a line that is too long. A record
/// that others depend on keeps its type, and its texts are shortened.
pub(super) fn fit(t: RecordType, body: &RawValue, max: usize) -> (RecordType, Cow<'_, RawValue>) {
    let text = body.get();
    if text.len() <= max {
        return (t, Cow::Borrowed(body));
    }
    if !ordinary(t)
        && let Ok(body) = serde_json::from_str::<Value>(text)
    {
        return (t, Cow::Owned(to_raw(&shorten::value(&body, SHORT_BYTES))));
    }
    let noise = Noise {
        reason: NoiseReason::TooLong,
        bytes: text.len() as u64,
        digest: format!("{:08x}", crc32c::crc32c(text.as_bytes())),
        head: text[..text.floor_char_boundary(SHOWN_BYTES)].to_owned(),
    };
    (RecordType::Noise, Cow::Owned(to_raw(&noise)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use subagent_protocol::error::{Code, Error};
    use subagent_protocol::record::{StartFailed, TurnEnd};

    use super::*;
    use crate::shorten::tests::any_json;

    proptest! {
        #[test]
        fn every_body_fits_and_keeps_its_shape(details in any_json(), message in any::<String>(), times in 0_usize..1_000) {
            let max = SHORT_BYTES;
            let error = Error::new(Code::BackendRpcError, message.repeat(times)).with("error", details).retryable();
            let end = TurnEnd::Failed { error: error.clone() };
            let body = to_raw(&end);
            let (t, kept) = fit(RecordType::TurnEnd, &body, max);
            prop_assert!(t == RecordType::TurnEnd && kept.get().len() <= max);
            prop_assert_eq!(body.get().len() <= max, kept.get() == body.get());
            let TurnEnd::Failed { error: read } = serde_json::from_str(kept.get()).unwrap() else { panic!("{kept}") };
            prop_assert!(read.code == error.code && read.retryable);
            let body = to_raw(&StartFailed { error });
            let (t, kept) = fit(RecordType::StartFailed, &body, max);
            prop_assert!(t == RecordType::StartFailed && kept.get().len() <= max);
            prop_assert!(serde_json::from_str::<StartFailed>(kept.get()).is_ok());
            let (t, kept) = fit(RecordType::Update, &body, max);
            prop_assert!(kept.get().len() <= max);
            match body.get().len() <= max {
                true => prop_assert!(t == RecordType::Update),
                false => prop_assert_eq!(serde_json::from_str::<Noise>(kept.get()).unwrap().bytes, body.get().len() as u64),
            }
        }
    }
}
