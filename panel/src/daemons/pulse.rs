//! The sign of life of a host: one that hangs closes nothing, and its stream is silent.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::daemons::bridge::{DaemonAddress, FarDaemon};
use crate::daemons::daemon::{DaemonRequest, KeptConnection};

/// Silence after which a host is asked.
const BEAT: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 10_000 });
/// Time for its answer, the login included.
const ANSWER: Duration = Duration::from_millis(if cfg!(test) { 500 } else { 10_000 });

/// Time for any other answer of a host.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Asks a silent host whether it is there, over one connection. A daemon of this machine is not asked.
pub(crate) struct HostPulse {
    far: Option<Arc<dyn FarDaemon>>,
    kept: Option<KeptConnection>,
    /// At most one question at a time.
    asked: JoinSet<Result<KeptConnection, Value>>,
    due: Instant,
}

impl HostPulse {
    pub(crate) fn new(address: &DaemonAddress) -> Self {
        let far = match address {
            DaemonAddress::Far(far) => Some(Arc::clone(far)),
            DaemonAddress::Socket { .. } => None,
        };
        Self { far, kept: None, asked: JoinSet::new(), due: Instant::now() + BEAT }
    }

    /// Notes that something came.
    pub(crate) fn heard(&mut self) {
        self.due = Instant::now() + BEAT;
        if let Some(far) = &self.far {
            far.note_answer();
        }
    }

    /// Waits until the host no longer answers. May be dropped and called again.
    pub(crate) async fn lost(&mut self) -> Value {
        let Some(far) = self.far.clone() else { return pending().await };
        loop {
            if self.asked.is_empty() {
                sleep_until(self.due).await;
                self.asked.spawn(ask(Arc::clone(&far), self.kept.take()));
            }
            match self.asked.join_next().await {
                Some(Ok(Ok(kept))) => {
                    self.kept = Some(kept);
                    self.heard();
                }
                Some(Ok(Err(error))) => return error,
                Some(Err(_)) | None => return far.silence(),
            }
        }
    }
}

async fn ask(far: Arc<dyn FarDaemon>, kept: Option<KeptConnection>) -> Result<KeptConnection, Value> {
    let request = DaemonRequest::get("/v1/daemon", "");
    let address = DaemonAddress::Far(Arc::clone(&far));
    let answered = async {
        // The daemon may have closed a connection that was not used.
        if let Some(mut kept) = kept
            && kept.ask(&request).await.is_ok()
        {
            return Ok(kept);
        }
        let mut fresh = KeptConnection::open(&address).await?;
        fresh.ask(&request).await.map(|_| fresh)
    };
    timeout(ANSWER, answered).await.unwrap_or_else(|_| Err(far.silence()))
}

/// Limits a request to a host; one to a daemon of this machine has its own limit.
pub(crate) async fn within<T>(
    limit: Duration,
    address: &DaemonAddress,
    asked: impl Future<Output = Result<T, Value>>,
) -> Result<T, Value> {
    match address {
        DaemonAddress::Socket { .. } => asked.await,
        DaemonAddress::Far(far) => timeout(limit, asked).await.unwrap_or_else(|_| Err(far.silence())),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;
    use subagent_protocol::MAX_LINE_BYTES;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixStream;

    use super::*;
    use crate::daemons::bridge::{BridgeFuture, FarConnection};
    use crate::daemons::errors::code_of;

    /// Answers this many requests over its only connections, and then hangs.
    #[derive(Debug)]
    struct HangingHost {
        answers: usize,
        dialed: AtomicUsize,
    }

    impl FarDaemon for HangingHost {
        fn dial(&self) -> BridgeFuture<'_, Result<FarConnection, Value>> {
            Box::pin(async move {
                self.dialed.fetch_add(1, Ordering::SeqCst);
                let (stream, mut there) = UnixStream::pair().unwrap();
                let answers = self.answers;
                let server = tokio::spawn(async move {
                    let mut buffer = vec![0; MAX_LINE_BYTES];
                    for _ in 0..answers {
                        let _ = there.read(&mut buffer).await;
                        let text = "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{\"ok\":true}";
                        let _ = there.write_all(text.as_bytes()).await;
                    }
                    pending::<()>().await;
                });
                Ok(FarConnection { stream, state_folder: None, carrier: Box::new(server) })
            })
        }

        fn host(&self) -> &str {
            "lap"
        }

        fn note_answer(&self) {}

        fn silence(&self) -> Value {
            json!({"code": "HOST_UNREACHABLE"})
        }
    }

    #[tokio::test]
    async fn a_host_that_hangs_is_lost_after_one_login() {
        let host = Arc::new(HangingHost { answers: 3, dialed: AtomicUsize::new(0) });
        let begun = Instant::now();
        let mut pulse = HostPulse::new(&DaemonAddress::Far(Arc::<HangingHost>::clone(&host)));
        let error = timeout(Duration::from_secs(60), pulse.lost()).await.unwrap();
        assert_eq!(code_of(&error), "HOST_UNREACHABLE");
        assert!(begun.elapsed() >= BEAT * 4, "{:?}", begun.elapsed());
        assert_eq!(host.dialed.load(Ordering::SeqCst), 1);
    }
}
