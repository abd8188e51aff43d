//! Secrets: the token of a link, the code for another browser, and the sessions for which they are exchanged. Pure: the
//! caller passes the time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use subtle::ConstantTimeEq as _;

use crate::access::window::Window;

/// Tries within a minute, of all clients together, that may fail.
const MAX_FAILURES: usize = 10;
/// How long a pairing code is good, and how often it may be mistyped.
const CODE_TIME: Duration = Duration::from_secs(600);
const CODE_TRIES: u32 = 5;
/// Sessions at a time; the oldest makes room.
const MAX_SESSIONS: usize = 16;
/// The letters of a code: none looks like another one.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// A secret that is compared in constant time and never printed.
struct PanelSecret(String);

impl PanelSecret {
    fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }
}

/// A new secret of 256 bits, as text.
pub(crate) fn token() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// A new pairing code: 8 letters, 40 bits.
pub(crate) fn code() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)?;
    let letters: String = bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect();
    Ok(format!("{}-{}", &letters[..4], &letters[4..]))
}

struct Pairing {
    code: PanelSecret,
    until: Instant,
    tries: u32,
}

/// What may be exchanged for a session, and the sessions.
#[derive(Default)]
pub(crate) struct Doors {
    links: Vec<PanelSecret>,
    pairing: Option<Pairing>,
    sessions: VecDeque<PanelSecret>,
    /// Tries that failed within a minute, of all clients together.
    failures: Window<MAX_FAILURES>,
}

/// What a browser gives for a session.
#[derive(Clone, Copy)]
pub(crate) enum BrowserCredential<'a> {
    /// The token of a link.
    Token(&'a str),
    Code(&'a str),
}

/// Why an exchange was refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PairingRefusal {
    /// It is wrong, was used, or is too old.
    Wrong,
    /// Too many were wrong.
    TooMany,
}

impl Doors {
    /// A link with this token lets one browser in.
    pub(crate) fn add_link(&mut self, token: String) {
        // New links replace old ones.
        if self.links.len() >= 4 {
            self.links.remove(0);
        }
        self.links.push(PanelSecret(token));
    }

    /// This code lets one browser in; an earlier one does not any more.
    pub(crate) fn set_code(&mut self, code: &str, now: Instant) {
        let code = PanelSecret(plain(code));
        self.pairing = Some(Pairing { code, until: now + CODE_TIME, tries: 0 });
    }

    /// Exchanges a token or a code for the session with this secret.
    pub(crate) fn exchange(
        &mut self,
        given: BrowserCredential<'_>,
        session: String,
        now: Instant,
    ) -> Result<(), PairingRefusal> {
        if !self.failures.has_room(now) {
            return Err(PairingRefusal::TooMany);
        }
        let is_right = match given {
            BrowserCredential::Token(token) => self.use_link(token),
            BrowserCredential::Code(code) => self.use_code(code, now),
        };
        if !is_right {
            self.failures.add(now);
            return Err(PairingRefusal::Wrong);
        }
        self.admit(session);
        Ok(())
    }

    fn use_link(&mut self, token: &str) -> bool {
        // All are compared, so that the time says nothing.
        let matching = self.links.iter().map(|link| link.is(token)).collect::<Vec<_>>();
        let found = matching.iter().position(|is| *is);
        if let Some(at) = found {
            self.links.remove(at);
        }
        found.is_some()
    }

    fn use_code(&mut self, code: &str, now: Instant) -> bool {
        let Some(pairing) = self.pairing.as_mut().filter(|pairing| now < pairing.until) else {
            self.pairing = None;
            return false;
        };
        pairing.tries += 1;
        let (is_right, is_last) = (pairing.code.is(&plain(code)), pairing.tries >= CODE_TRIES);
        if is_right || is_last {
            self.pairing = None;
        }
        is_right
    }

    /// Whether this is the secret of a session.
    pub(crate) fn is_session(&self, given: &str) -> bool {
        self.sessions.iter().fold(false, |found, session| session.is(given) | found)
    }

    fn admit(&mut self, session: String) {
        if self.sessions.len() >= MAX_SESSIONS {
            self.sessions.pop_front();
        }
        self.sessions.push_back(PanelSecret(session));
    }
}

/// A code as it is compared: people type it with blanks and capitals.
fn plain(code: &str) -> String {
    code.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(number: usize) -> String {
        format!("session-{number}")
    }

    #[test]
    fn a_token_is_good_for_one_exchange() {
        let (mut doors, now) = (Doors::default(), Instant::now());
        doors.add_link("right".to_owned());
        assert_eq!(
            doors.exchange(BrowserCredential::Token("wrong"), session(1), now),
            Err(PairingRefusal::Wrong)
        );
        assert_eq!(doors.exchange(BrowserCredential::Token(""), session(1), now), Err(PairingRefusal::Wrong));
        assert!(!doors.is_session(&session(1)) && !doors.is_session(""));
        assert_eq!(doors.exchange(BrowserCredential::Token("right"), session(2), now), Ok(()));
        assert_eq!(
            doors.exchange(BrowserCredential::Token("right"), session(3), now),
            Err(PairingRefusal::Wrong)
        );
        assert!(doors.is_session(&session(2)) && !doors.is_session(&session(3)));
    }

    #[test]
    fn a_code_is_good_once_for_ten_minutes_and_five_tries() {
        let (mut doors, now) = (Doors::default(), Instant::now());
        doors.set_code("abcd-2345", now);
        assert_eq!(doors.exchange(BrowserCredential::Code("ABCD 2345"), session(1), now), Ok(()));
        assert_eq!(
            doors.exchange(BrowserCredential::Code("abcd-2345"), session(2), now),
            Err(PairingRefusal::Wrong)
        );
        doors.set_code("abcd-2345", now);
        assert_eq!(
            doors.exchange(BrowserCredential::Code("abcd2345"), session(2), now + CODE_TIME),
            Err(PairingRefusal::Wrong)
        );
        let mut doors = Doors::default();
        doors.set_code("abcd-2345", now);
        for _ in 0..CODE_TRIES {
            assert_eq!(
                doors.exchange(BrowserCredential::Code("abcd-2346"), session(3), now),
                Err(PairingRefusal::Wrong)
            );
        }
        assert_eq!(
            doors.exchange(BrowserCredential::Code("abcd-2345"), session(3), now),
            Err(PairingRefusal::Wrong)
        );
    }

    #[test]
    fn failures_are_limited_for_all_clients_together() {
        let (mut doors, now) = (Doors::default(), Instant::now());
        doors.add_link("right".to_owned());
        for _ in 0..MAX_FAILURES {
            assert_eq!(
                doors.exchange(BrowserCredential::Token("wrong"), session(1), now),
                Err(PairingRefusal::Wrong)
            );
        }
        assert_eq!(
            doors.exchange(BrowserCredential::Token("right"), session(1), now),
            Err(PairingRefusal::TooMany)
        );
        assert_eq!(
            doors.exchange(BrowserCredential::Token("right"), session(1), now + Duration::from_secs(60)),
            Ok(())
        );
    }

    #[test]
    fn old_sessions_make_room() {
        let (mut doors, now) = (Doors::default(), Instant::now());
        for number in 0..=MAX_SESSIONS {
            doors.add_link(format!("t{number}"));
            doors.exchange(BrowserCredential::Token(&format!("t{number}")), session(number), now).unwrap();
        }
        assert!(!doors.is_session(&session(0)) && doors.is_session(&session(MAX_SESSIONS)));
    }

    #[test]
    fn secrets_are_long_and_never_the_same() {
        let (one, other) = (token().unwrap(), token().unwrap());
        assert!(one.len() == 43 && one != other);
        let code = code().unwrap();
        assert_eq!((code.len(), plain(&code).len()), (9, 8));
    }
}
