//! Sends requests with a deadline, and repeats them after a lost connection.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use hyper::Response;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use serde_json::Value;
use subagent_protocol::Code;
use subagent_protocol::api::DaemonInfo;
use subagent_protocol::placement::PLACED_MODE;
use tokio::time::{Instant, sleep, timeout_at};

use super::connect::{DaemonConnection, attempt, unresponsive};
use super::exchange::{Exchange, Lost, answer, exchange, send};
use super::far::FarLocator;
use super::losses::RetryBudget;
use super::starting::autostart;
use super::{
    ApiRequest, DaemonClient, DaemonLocator, PROBE_FIRST, PROBE_LAST, PROBE_LIMIT, START_LIMIT, StartPolicy,
    read,
};
use crate::failure::{Failure, Result};

impl DaemonClient {
    /// Sends a request, and repeats it after a lost connection within its timeout.
    ///
    /// # Errors
    /// Those of the daemon; `DAEMON_NOT_RUNNING`, `DAEMON_START_FAILED` and errors of a starting daemon;
    /// `DAEMON_UNRESPONSIVE`.
    pub async fn ask(&mut self, ask: &ApiRequest) -> Result<Value> {
        self.ask_made(|| Ok(ask.clone())).await
    }

    /// Sends a request, and reads the answer.
    ///
    /// # Errors
    /// Those of [`DaemonClient::ask`] and [`read`].
    pub async fn ask_for<T: DeserializeOwned>(&mut self, ask: &ApiRequest) -> Result<T> {
        read(self.ask(ask).await?)
    }

    /// Like [`DaemonClient::ask`] for a request whose repetition differs (a wait has less time left).
    pub(super) async fn ask_made<T: DeserializeOwned + Default>(
        &mut self,
        make: impl Fn() -> Result<ApiRequest>,
    ) -> Result<T> {
        if self.link.as_ref().is_some_and(|link| link.sender.is_closed()) {
            // It was lost between two requests.
            self.link = None;
            self.cut = self.cut.or(Some(false));
        }
        let mut losses = self.cut.map(RetryBudget::after_loss).unwrap_or_default();
        let mut deadline = None;
        let mut wait_end = None;
        loop {
            match wait_end {
                Some(end) if self.place.far.is_some() => {
                    timeout_at(end, self.connect(&losses))
                        .await
                        .unwrap_or_else(|_| Err(self.wait_is_over()))?;
                }
                _ => self.connect(&losses).await?,
            }
            let ask = make()?.part_of(self.key.as_deref());
            wait_end = wait_end.or_else(|| ask.wait.map(|wait| Instant::now() + wait));
            if ask.waits {
                losses.waits();
            }
            let until = *deadline.get_or_insert_with(|| ask.limit.map(|limit| Instant::now() + limit));
            let Some(link) = self.link.as_mut() else { continue };
            let probe = LivenessProbe::of(&self.place, &link.info);
            let asked = exchange(link, &ask, self.handle.as_ref());
            match with_liveness_probe(&probe, until, asked).await {
                Ok(Ok(answer)) => {
                    self.cut = self.waits.then_some(true);
                    return answer;
                }
                Ok(Err(lost)) => {
                    self.lost(lost, &mut losses).await?;
                    if self.waits {
                        // The host may be dialed again for longer than a request may take.
                        deadline = None;
                    }
                }
                // Its stream hangs, and the next one is announced in its place.
                Err(failure) if probe.is_redialed() && until.is_none() => {
                    self.lost(Lost::Broken(failure.message), &mut losses).await?;
                }
                Err(failure) => {
                    // The response may still arrive, so the connection cannot be reused.
                    self.link = None;
                    return Err(failure);
                }
            }
        }
    }

    /// Sends a request with a streamed response. The stream then owns the connection.
    pub(super) async fn open(
        &mut self,
        ask: &ApiRequest,
        losses: &mut RetryBudget,
    ) -> Result<Response<Incoming>> {
        loop {
            self.connect(losses).await?;
            let Some(mut link) = self.link.take() else { continue };
            let probe = LivenessProbe::of(&self.place, &link.info);
            let until = ask.limit.map(|limit| Instant::now() + limit);
            let handle = self.handle.as_ref();
            let opened = with_liveness_probe(&probe, until, async {
                match send(&mut link, ask, handle).await? {
                    Ok(response) if response.status().is_success() => Ok(Ok(response)),
                    Ok(response) => Ok(Err(match answer::<Value>(response, link.max_body()).await? {
                        Ok(_) => Failure::internal("the daemon's answer is not a stream"),
                        Err(failure) => failure,
                    })),
                    Err(failure) => Ok(Err(failure)),
                }
            });
            let opened: Exchange<_> = opened.await?;
            self.link = Some(link);
            match opened {
                Ok(result) => return result,
                Err(lost) => self.lost(lost, losses).await?,
            }
        }
    }

    /// The error of a wait whose limit was reached while its host was dialed again.
    fn wait_is_over(&self) -> Failure {
        let host = self.place.far.as_ref().map(|far| far.link.name()).unwrap_or_default();
        Failure::new(Code::WaitTimeout, format!("the host `{host}` has not answered again in time"))
            .with("host", host)
            .retryable()
    }

    /// Connects unless a connection is open.
    async fn connect(&mut self, losses: &RetryBudget) -> Result<()> {
        if self.link.as_ref().is_none_or(|link| link.sender.is_closed()) {
            self.link = Some(autostart::find_or_start(&self.place, losses).await?);
        }
        Ok(())
    }

    /// Counts a lost connection, and waits for the end of a stopping daemon.
    pub(super) async fn lost(&mut self, lost: Lost, losses: &mut RetryBudget) -> Result<()> {
        let Some(DaemonConnection { info, since, .. }) = self.link.take() else { return Ok(()) };
        self.cut = Some(losses.is_of_wait());
        let what = match lost {
            Lost::Broken(error) => error,
            Lost::Leaving => {
                match &mut self.place.far {
                    Some(far) => far.after = Some(info.generation),
                    None => autostart::gone(&info, Instant::now() + START_LIMIT).await?,
                }
                "it was ending".to_owned()
            }
        };
        let through_link = self.place.far.is_some() || info.mode == PLACED_MODE;
        let pause = losses.count(since.elapsed(), through_link, info.process.pid, &what)?;
        if !pause.is_zero() {
            sleep(pause).await;
        }
        Ok(())
    }
}

/// How a silent daemon is asked for a sign of life.
#[derive(Debug)]
pub(super) struct LivenessProbe {
    info: DaemonInfo,
    far: Option<FarLocator>,
}

impl LivenessProbe {
    pub(super) fn of(place: &DaemonLocator, info: &DaemonInfo) -> Self {
        Self { info: info.clone(), far: place.far.clone() }
    }

    /// Whether silence is that of a connection, which another one replaces.
    pub(super) fn is_redialed(&self) -> bool {
        self.info.mode == PLACED_MODE
    }

    fn unresponsive(&self, what: &str) -> Failure {
        match &self.far {
            None => unresponsive(&self.info, what),
            Some(far) => far.link.unresponsive(what),
        }
    }

    /// Probes the daemon on a separate connection. A missing daemon is not an error here: the waiting
    /// connection reports it.
    async fn ask(&self, limit: Duration) -> Result<()> {
        let silent = || self.unresponsive("it gives no sign of life");
        let (link, until) = match &self.far {
            // Another connection that fails proves nothing about the open one: its login may need a
            // person. The ssh client ends a dead one (`ServerAliveInterval`).
            Some(far) => {
                let dialed = Box::pin(far.connect(StartPolicy::OnlyRunning, &RetryBudget::default())).await;
                (dialed.ok(), Instant::now() + limit)
            }
            None => {
                let until = Instant::now() + limit;
                let connected = timeout_at(until, attempt(&self.info.state_dir, until)).await;
                (connected.unwrap_or_else(|_| Err(silent()))?, until)
            }
        };
        let Some(mut link) = link else { return Ok(()) };
        let request = ApiRequest::get("/v1/daemon");
        match timeout_at(until, exchange::<Value>(&mut link, &request, None)).await {
            Ok(Ok(Ok(_)) | Err(_)) => Ok(()),
            Ok(Ok(Err(failure))) => Err(failure),
            Err(_) => Err(silent()),
        }
    }
}

/// Waits for a response until the deadline, and probes the daemon in between.
///
/// # Errors
/// `DAEMON_UNRESPONSIVE{pid}`.
pub(super) async fn with_liveness_probe<T>(
    probe: &LivenessProbe,
    deadline: Option<Instant>,
    answer: impl Future<Output = T>,
) -> Result<T> {
    let mut answer = pin!(answer);
    let mut silence = PROBE_FIRST;
    loop {
        let next_probe = Instant::now() + silence;
        let wake = deadline.map_or(next_probe, |deadline| deadline.min(next_probe));
        if let Ok(done) = timeout_at(wake, &mut answer).await {
            return Ok(done);
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(probe.unresponsive("the request got no answer in time"));
        }
        tokio::select! {
            biased;
            done = &mut answer => return Ok(done),
            alive = Box::pin(probe.ask(PROBE_LIMIT)) => alive?,
        }
        silence = longer(silence);
    }
}

/// Returns the next silence after an answered probe.
fn longer(silence: Duration) -> Duration {
    (silence * 2).min(PROBE_LAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_gives_signs_of_life_is_asked_for_them_ever_less_often_but_always_again() {
        let silences = std::iter::successors(Some(PROBE_FIRST), |silence| Some(longer(*silence)));
        let seconds: Vec<u64> = silences.take(7).map(|silence| silence.as_secs()).collect();
        assert_eq!(seconds, [15, 30, 60, 120, 240, 300, 300]);
    }
}
