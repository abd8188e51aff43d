//! A counted connection that detects clients that do not read.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

use crate::api::transport::admission::ConnectionSlot;

/// A stream that is counted while it exists.
#[derive(Debug)]
pub(in crate::api) struct Counted<S> {
    stream: S,
    count: watch::Sender<usize>,
    seat: Arc<ConnectionSlot>,
    /// Whether the client was last found not to read.
    stalls: bool,
}

impl<S> Counted<S> {
    pub(in crate::api) fn new(stream: S, count: watch::Sender<usize>, seat: Arc<ConnectionSlot>) -> Self {
        count.send_modify(|open| *open += 1);
        Self { stream, count, seat, stalls: false }
    }

    pub(in crate::api) fn seat(&self) -> Arc<ConnectionSlot> {
        Arc::clone(&self.seat)
    }

    /// Reports whether the client reads, from the result of a write.
    fn watched<T>(&mut self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let stalls = written.is_pending();
        if stalls != self.stalls {
            self.stalls = stalls;
            self.seat.stalls(stalls);
        }
        written
    }
}

impl<S> Drop for Counted<S> {
    fn drop(&mut self) {
        self.count.send_modify(|open| *open -= 1);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watched(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watched(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// Marks a request as being answered. On drop its connection is silent again.
#[derive(Debug)]
pub(in crate::api) struct RequestInProgress(Arc<ConnectionSlot>);

impl RequestInProgress {
    pub(in crate::api) fn begin(seat: &Arc<ConnectionSlot>) -> Self {
        seat.serves(true);
        Self(Arc::clone(seat))
    }

    /// Extends the mark until the whole answer was sent.
    pub(in crate::api) fn until_given(self, body: Body) -> Body {
        Body::new(AttendedBody { body, _attended: self })
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        self.0.serves(false);
    }
}

/// The body of an answer, with the mark that its connection is not silent.
struct AttendedBody {
    body: Body,
    _attended: RequestInProgress,
}

impl HttpBody for AttendedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
