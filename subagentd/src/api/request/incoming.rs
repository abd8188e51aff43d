//! Reads request bodies with a deadline, and limits the memory of all bodies together.

use std::time::Duration;

use axum::body::Body;
use futures_util::StreamExt as _;
use subagent_protocol::{Code, Error, MAX_LINE_BYTES};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use crate::api::response::reply::ApiError;

/// Maximum pause between two parts of a body.
const PAUSE: Duration = Duration::from_secs(10);
/// Maximum time for a whole body, including the wait for memory.
const WHOLE: Duration = Duration::from_secs(60);
/// Maximum wait of a large body for memory.
const PATIENCE: Duration = Duration::from_secs(25);
/// Size in bytes up to which a body needs no permit. Connections limit the number of such bodies.
const SMALL: usize = 64 * 1024;
/// Unit of the memory permits, in bytes.
const PIECE: usize = 64 * 1024;
/// Maximum size in bytes of all large bodies together: three of the largest.
const MAX_IN_ALL: usize = 3 * MAX_LINE_BYTES;

static ROOM: Semaphore = Semaphore::const_new(MAX_IN_ALL / PIECE);

/// Reads a whole body of at most `announced` bytes.
///
/// # Errors
/// `PAYLOAD_TOO_LARGE`, `INVALID_INPUT` for a body that does not end in time, `DAEMON_BUSY`.
pub(in crate::api) async fn read(body: Body, announced: Option<u64>) -> Result<Vec<u8>, ApiError> {
    read_within(body, announced, &ROOM, [PAUSE, WHOLE, PATIENCE]).await
}

async fn read_within(
    body: Body,
    announced: Option<u64>,
    room: &Semaphore,
    [pause, whole, patience]: [Duration; 3],
) -> Result<Vec<u8>, ApiError> {
    let end = Instant::now() + whole;
    let announced = announced.map(|length| usize::try_from(length).unwrap_or(usize::MAX));
    if announced.is_some_and(|length| length > MAX_LINE_BYTES) {
        return Err(too_large());
    }
    let take = async |bytes: usize| take(room, bytes, (Instant::now() + patience).min(end)).await;
    let expected = announced.unwrap_or(0);
    // The permit is held until the body was read.
    let mut held = if expected > SMALL { Some(take(expected).await?) } else { None };
    // Allocated at full size: a large block returns to the system as a whole when freed.
    let mut bytes = Vec::with_capacity(expected);
    let mut data = body.into_data_stream();
    loop {
        let pause_ends = (Instant::now() + pause).min(end);
        let chunk = match timeout_at(pause_ends, data.next()).await {
            Err(_) => {
                return Err(unfinished(&format!(
                    "it said nothing for {} s, or took more than {} s",
                    pause.as_secs(),
                    whole.as_secs()
                )));
            }
            Ok(None) => return Ok(bytes),
            Ok(Some(Err(error))) => return Err(unfinished(&error.to_string())),
            Ok(Some(Ok(chunk))) => chunk,
        };
        let length = bytes.len() + chunk.len();
        if length > MAX_LINE_BYTES {
            return Err(too_large());
        }
        if length > SMALL && held.is_none() {
            // The length is unknown, so the maximum is reserved.
            held = Some(take(MAX_LINE_BYTES).await?);
        }
        bytes.extend_from_slice(&chunk);
    }
}

/// Acquires memory permits for a large body.
async fn take(room: &Semaphore, bytes: usize, until: Instant) -> Result<SemaphorePermit<'_>, ApiError> {
    let pieces = u32::try_from(bytes.div_ceil(PIECE)).unwrap_or(u32::MAX);
    match timeout_at(until, room.acquire_many(pieces)).await {
        Ok(Ok(permit)) => Ok(permit),
        _ => Err(Error::new(
            Code::DaemonBusy,
            "the daemon is at its limit of large requests; nothing was done",
        )
        .retryable()
        .recommend("Try again, or name a file instead of its content.")
        .into()),
    }
}

fn unfinished(why: &str) -> ApiError {
    let message = format!("the body of the request could not be read to its end: {why}");
    Error::new(Code::InvalidInput, message).with("error", why).into()
}

fn too_large() -> ApiError {
    Error::new(Code::PayloadTooLarge, format!("the body is larger than {MAX_LINE_BYTES} bytes"))
        .with("limitBytes", MAX_LINE_BYTES)
        .recommend("Send less at once, or name a file instead of its content.")
        .into()
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;
    use futures_util::{FutureExt as _, stream};

    use super::*;

    const SHORT: Duration = Duration::from_millis(30);
    const LONG: Duration = Duration::from_secs(30);

    /// A body that stalls after this many bytes.
    fn unfinished(bytes: usize) -> Body {
        let begun = stream::iter([Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; bytes]))]);
        Body::from_stream(begun.chain(stream::pending()))
    }

    #[tokio::test]
    async fn an_unfinished_body_is_given_up_and_its_room_too() {
        let room = Semaphore::new(16);
        let large = Some(16 * PIECE as u64);
        let first = read_within(unfinished(PIECE), large, &room, [SHORT, LONG, LONG]);
        let second = read_within(Body::from(vec![b'y'; 16 * PIECE]), large, &room, [SHORT, LONG, LONG]);
        let (first, second) = tokio::join!(first, second);
        assert_eq!(first.unwrap_err().0.code, Code::InvalidInput);
        assert_eq!(second.unwrap().len(), 16 * PIECE);
        assert_eq!(room.available_permits(), 16);
    }

    #[tokio::test]
    async fn a_small_body_needs_no_room_and_a_large_one_waits_a_limited_time() {
        let room = Semaphore::new(0);
        let small = read_within(Body::from("{}"), Some(2), &room, [LONG, LONG, SHORT]);
        assert_eq!(small.now_or_never().unwrap().unwrap(), b"{}");
        for announced in [Some(PIECE as u64 + 1), None] {
            let body = Body::from(vec![b'z'; PIECE + 1]);
            let error = read_within(body, announced, &room, [LONG, LONG, SHORT]).await.unwrap_err().0;
            assert_eq!((error.code, error.retryable), (Code::DaemonBusy, true));
        }
    }

    #[tokio::test]
    async fn a_body_that_drips_has_a_deadline() {
        let drops = stream::unfold((), |()| async {
            tokio::time::sleep(SHORT / 3).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(b"x")), ()))
        });
        let times = [LONG, SHORT * 4, LONG];
        let read = read_within(Body::from_stream(drops), Some(1000), &Semaphore::new(1), times).await;
        assert_eq!(read.unwrap_err().0.code, Code::InvalidInput);
    }
}
