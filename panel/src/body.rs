//! Bodies: of answers, whole or as lines that come one after the other; of requests, within their limits.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use subagent_protocol::{Code, Error};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;

use crate::access::presence::Visit;

/// The largest body of a request.
const MAX_BYTES: usize = 1024 * 1024;
/// How long a whole body may take.
const LIMIT: Duration = Duration::from_secs(10);

/// The body of an answer.
pub(crate) enum ReplyBody {
    Whole(Option<Bytes>),
    /// Lines, as long as the page listens.
    Lines {
        lines: mpsc::Receiver<Bytes>,
        _visit: Visit,
        _seat: OwnedSemaphorePermit,
    },
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Lines { lines, .. } => {
                lines.poll_recv(context).map(|line| line.map(|line| Ok(Frame::data(line))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Lines { .. } => SizeHint::default(),
        }
    }
}

/// Reads the body of a request.
///
/// # Errors
/// `PAYLOAD_TOO_LARGE`, `INVALID_INPUT`.
pub(crate) async fn read(body: Incoming) -> Result<Bytes, Error> {
    read_at_most(body, MAX_BYTES).await
}

/// The same, with a limit of its own.
pub(crate) async fn read_at_most(mut body: Incoming, limit: usize) -> Result<Bytes, Error> {
    let unread = |why: String| {
        Error::new(Code::InvalidInput, format!("the body of the request cannot be read: {why}"))
    };
    let whole = async {
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let data = frame.map_err(|error| unread(error.to_string()))?.into_data();
            bytes.extend_from_slice(&data.unwrap_or_default());
            if bytes.len() > limit {
                return Err(Error::new(
                    Code::PayloadTooLarge,
                    format!("the body is larger than {limit} bytes"),
                )
                .with("limitBytes", limit)
                .recommend("send less at once, or name a file instead of its content"));
            }
        }
        Ok(bytes.freeze())
    };
    let late = || unread(format!("it took more than {} s", LIMIT.as_secs()));
    timeout(LIMIT, whole).await.unwrap_or_else(|_| Err(late()))
}
