//! Waiting for a time of day: until it has come, or until the clock was set.

use std::future::pending;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd, RawFd};
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use subagent_protocol::time::Timestamp;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// When the system has no timer to give, the clock is looked at so often.
const WITHOUT_TIMER: Duration = Duration::from_secs(1);

struct AlarmFd(TimerFd);

impl AsRawFd for AlarmFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// Ends when this time has come, or when the clock was set; never without a time.
///
/// # Errors
/// When the system has no timer to give.
pub(crate) async fn until(time: Option<Timestamp>) -> io::Result<()> {
    let Some(time) = time else { return pending().await };
    let timer = armed(time)?;
    // The timer is not read: the owner looks at the clock.
    timer.readable().await.map(drop)
}

/// The same, for a caller that looks at the clock afterwards anyway.
pub(crate) async fn reached(time: Option<Timestamp>) {
    if until(time).await.is_err() {
        tokio::time::sleep(WITHOUT_TIMER).await;
    }
}

#[allow(unsafe_code)]
fn armed(time: Timestamp) -> io::Result<AsyncFd<AlarmFd>> {
    let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
    let timer = TimerFd::new(ClockId::CLOCK_REALTIME, flags)?;
    // A time before 1970, and zero, would disarm it.
    let (seconds, millis) = (time.0.max(1).div_euclid(1000), time.0.max(1).rem_euclid(1000));
    let at = Expiration::OneShot(TimeSpec::new(seconds, millis.saturating_mul(1_000_000)));
    let flags = TimerSetTimeFlags::TFD_TIMER_ABSTIME | TimerSetTimeFlags::TFD_TIMER_CANCEL_ON_SET;
    timer.set(at, flags)?;
    // SAFETY: the timer's descriptor is open, and nothing replaces or closes it while this value has it.
    Ok(unsafe { AsyncFd::register_with_interest(AlarmFd(timer), Interest::READABLE) }?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::entropy;

    #[tokio::test]
    async fn a_time_that_has_come_ends_the_wait_and_one_that_has_not_does_not() {
        let soon = Timestamp(entropy::now().0 + 50);
        tokio::time::timeout(Duration::from_secs(20), until(Some(soon))).await.unwrap().unwrap();
        assert!(entropy::now() >= soon);
        tokio::time::timeout(Duration::from_secs(20), until(Some(Timestamp(0)))).await.unwrap().unwrap();
        let later = Timestamp(entropy::now().0 + 3_600_000);
        let short = Duration::from_millis(30);
        assert!(tokio::time::timeout(short, until(Some(later))).await.is_err());
        assert!(tokio::time::timeout(short, until(None)).await.is_err());
    }
}
