//! Workers that recover: after every death of an agent, a runtime or a guard, by a message, `worker
//! restart`, a watching daemon or a continuing worker, and after a reboot. The event reports the
//! state of the session.

mod agent;
mod deaths;
mod hibernation;
mod reboot;
mod sessions;
