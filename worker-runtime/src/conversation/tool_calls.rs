//! The agent's tool calls, and the call that a permission request is about.

// In ACP a request updates its tool call: values that it omits stay as they were. Some agents send
// only an id, others an id of the request's own. This module decides nothing; it adds known values
// to the request's record.

mod fit;

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use serde::Deserialize;
use serde_json::value::RawValue;
use subagent_protocol::tool_calls::{KINDS, is_over};

use crate::journal::batch::to_raw;

/// Maximum number of calls remembered. A request follows its call at once, so few are
/// open at a time.
const MAX_CALLS: usize = 32;
/// Maximum size of a remembered call in bytes. The longest members are dropped, so that an agent
/// cannot fill the memory.
const MAX_CALL_BYTES: usize = 64 * 1024;
/// The members that describe a call. The last one is dropped first.
const MEMBERS: [&str; 7] = ["kind", "name", "title", "locations", "_meta", "rawInput", "content"];
/// The update that begins a call.
const BEGINNING: &str = KINDS[0];
/// The kind without information.
const OTHER: &str = "\"other\"";

/// The parameters of an update.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Update<'a> {
    #[serde(borrow, default)]
    session_id: Option<&'a RawValue>,
    #[serde(borrow)]
    update: &'a RawValue,
}

/// The parameters of a permission request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PermissionParams<'a> {
    #[serde(borrow, default)]
    session_id: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_call: &'a RawValue,
}

/// A tool call, verbatim.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallFields<'a> {
    #[serde(borrow)]
    tool_call_id: Cow<'a, str>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    title: Option<&'a RawValue>,
    #[serde(borrow, default)]
    locations: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    raw_input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

impl<'a> CallFields<'a> {
    /// Returns the members in the order of [`MEMBERS`], without empty ones.
    fn members(&self) -> [Option<&'a RawValue>; MEMBERS.len()] {
        let all = [self.kind, self.name, self.title, self.locations, self.meta, self.raw_input, self.content];
        all.map(|value| value.filter(|value| says_something(value)))
    }

    fn is_over(&self) -> bool {
        self.status.is_some_and(|status| is_over(status.get().trim_matches('"')))
    }
}

/// Members of a call in the order of [`MEMBERS`], verbatim.
type Members = [Option<Box<RawValue>>; MEMBERS.len()];

/// The known members of one call.
struct KnownCall {
    /// The session id, as JSON text.
    session: Option<Box<RawValue>>,
    id: String,
    members: Members,
    /// Whether the call has neither ended nor been asked about.
    open: bool,
    /// Whether an update mentioned the call. Some agents reuse ids that occur only in requests.
    announced: bool,
    /// Whether the call belongs to an earlier turn.
    past: bool,
}

impl KnownCall {
    fn is_of(&self, session: Option<&RawValue>) -> bool {
        self.session.as_deref().map(RawValue::get) == session.map(RawValue::get)
    }

    /// Adds new values. Empty ones replace nothing.
    fn learn(&mut self, said: [Option<&RawValue>; MEMBERS.len()]) {
        let mut changed = false;
        for ((name, known), said) in MEMBERS.iter().zip(&mut self.members).zip(said) {
            let Some(said) = said else { continue };
            let known_text = known.as_ref().map(|known| known.get());
            if known_text == Some(said.get()) || (*name == "kind" && known.is_some() && said.get() == OTHER) {
                continue;
            }
            let both = known.as_ref().filter(|_| *name == "_meta").and_then(|known| both(known, said));
            *known = Some(both.unwrap_or_else(|| said.to_owned()));
            changed = true;
        }
        if changed {
            self.shorten();
        }
    }

    fn shorten(&mut self) {
        for last in (0..MEMBERS.len()).rev() {
            if self.members.iter().flatten().map(|value| value.get().len()).sum::<usize>() <= MAX_CALL_BYTES {
                return;
            }
            self.members[last] = None;
        }
    }
}

/// The remembered calls, the latest last.
#[derive(Default)]
pub(super) struct ToolCalls(VecDeque<KnownCall>);

impl ToolCalls {
    /// Takes an update of this kind.
    pub(super) fn update(&mut self, kind: &str, params: &RawValue) {
        if !KINDS.contains(&kind) {
            return;
        }
        let Ok(Update { session_id: session, update }) = serde_json::from_str(params.get()) else { return };
        let Ok(said) = serde_json::from_str::<CallFields<'_>>(update.get()) else { return };
        let place = self.0.iter().position(|known| known.id == said.tool_call_id && known.is_of(session));
        let known = place.and_then(|place| self.0.remove(place));
        // Some agents number their calls anew in each turn.
        let mut known = known.filter(|known| !known.past || kind != BEGINNING).unwrap_or_else(|| KnownCall {
            session: session.map(ToOwned::to_owned),
            id: said.tool_call_id.clone().into_owned(),
            members: Members::default(),
            open: true,
            announced: true,
            past: false,
        });
        known.announced = true;
        known.learn(said.members());
        known.open &= !said.is_over();
        self.push(known);
    }

    /// Takes a permission request. Returns the earlier values of its call, without those that the
    /// request repeats verbatim; `None` if there are none.
    ///
    /// The call is the one with the same id, preferably of the same session. Ids can repeat across
    /// sessions, and a request may name another session than its call. A request with an unknown id
    /// belongs to the only open call that it fits.
    pub(super) fn request(&mut self, params: &RawValue) -> Option<Box<RawValue>> {
        let PermissionParams { session_id: session, tool_call } = serde_json::from_str(params.get()).ok()?;
        let request: CallFields<'_> = serde_json::from_str(tool_call.get()).ok()?;
        let (said, id) = (request.members(), request.tool_call_id);
        let named = || self.0.iter().enumerate().rev().filter(|(_, known)| known.announced && known.id == id);
        let place = named().find(|(_, known)| known.is_of(session)).or_else(|| named().next());
        let place = place.map(|(place, _)| place).or_else(|| self.only_fitting(session, &said));
        let mut asked = KnownCall {
            session: session.map(ToOwned::to_owned),
            id: id.into_owned(),
            members: Members::default(),
            open: false,
            announced: false,
            past: false,
        };
        let mut before = None;
        if let Some(known) = place.and_then(|place| self.0.get_mut(place)) {
            known.open = false;
            asked.announced = known.id == asked.id;
            let members = MEMBERS.iter().zip(&known.members).zip(&said);
            let mut rest: BTreeMap<&str, Box<RawValue>> = members
                .filter_map(|((name, known), said)| {
                    let repeated = said.map(RawValue::get) == known.as_ref().map(|known| known.get());
                    Some((*name, known.clone().filter(|_| !repeated)?))
                })
                .collect();
            if !rest.is_empty() || known.id != asked.id {
                rest.insert("toolCallId", to_raw(&known.id));
                before = Some(to_raw(&rest));
            }
            asked.members.clone_from(&known.members);
        }
        // Values from this request also count for the next one about the same call.
        asked.learn(said);
        self.0.retain(|known| known.id != asked.id || !known.is_of(session));
        self.push(asked);
        before
    }

    /// A turn begins: closes all calls and forgets those that ended or were asked about.
    pub(super) fn close_all(&mut self) {
        self.0.retain(|known| known.open);
        self.0.iter_mut().for_each(|known| (known.open, known.past) = (false, true));
    }

    fn push(&mut self, known: KnownCall) {
        if self.0.len() >= MAX_CALLS {
            self.0.pop_front();
        }
        self.0.push_back(known);
    }

    fn only_fitting(
        &self,
        session: Option<&RawValue>,
        said: &[Option<&RawValue>; MEMBERS.len()],
    ) -> Option<usize> {
        let fits = |known: &KnownCall| known.open && known.is_of(session) && fit::fits(said, &known.members);
        let mut fitting = self.0.iter().enumerate().filter(|(_, known)| fits(known)).map(|(place, _)| place);
        let first = fitting.next()?;
        fitting.next().is_none().then_some(first)
    }
}

fn says_something(value: &RawValue) -> bool {
    !matches!(value.get(), "null" | "{}" | "[]" | "\"\"")
}

/// Merges two objects; later members win. `None` if one of them is not an object.
fn both(old: &RawValue, new: &RawValue) -> Option<Box<RawValue>> {
    let mut both: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(old.get()).ok()?;
    let new: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(new.get()).ok()?;
    both.extend(new);
    Some(to_raw(&both))
}

#[cfg(test)]
mod tests;
