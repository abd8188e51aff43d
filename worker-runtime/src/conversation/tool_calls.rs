//! What the agent said of its tool calls, and which of them a permission request is about.
//!
//! In ACP a request updates its tool call: what it leaves out is what was said before. Some agents ask with nothing but
//! an id, others under an id of its own. This module decides nothing: what is known is written beside the request.

mod fit;

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use serde::Deserialize;
use serde_json::value::RawValue;
use subagent_protocol::tool_calls::{KINDS, is_over};

use crate::journal::batch::to_raw;

/// A request follows its call at once, so few calls are under way at the same time.
const MAX_CALLS: usize = 32;
/// What an agent sends must not fill the memory, so the longest members of a call are dropped.
const MAX_CALL_BYTES: usize = 64 * 1024;
/// The members that say what a call is, from the one that is dropped last to the one that is dropped first.
const MEMBERS: [&str; 7] = ["kind", "name", "title", "locations", "_meta", "rawInput", "content"];
/// The update that begins a call.
const BEGINNING: &str = KINDS[0];
/// The kind that says nothing.
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
struct Request<'a> {
    #[serde(borrow, default)]
    session_id: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_call: &'a RawValue,
}

/// A call as it is said, to the letter.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Said<'a> {
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

impl<'a> Said<'a> {
    /// The members in the order of [`MEMBERS`], without those that say nothing.
    fn members(&self) -> [Option<&'a RawValue>; MEMBERS.len()] {
        let all = [self.kind, self.name, self.title, self.locations, self.meta, self.raw_input, self.content];
        all.map(|value| value.filter(|value| says_something(value)))
    }

    fn is_over(&self) -> bool {
        self.status.is_some_and(|status| is_over(status.get().trim_matches('"')))
    }
}

/// Members of a call in the order of [`MEMBERS`], to the letter.
type Members = [Option<Box<RawValue>>; MEMBERS.len()];

/// What is known of one call.
struct Known {
    /// As JSON text.
    session: Option<Box<RawValue>>,
    id: String,
    members: Members,
    /// Whether it has neither ended nor been asked for.
    open: bool,
    /// Whether an update speaks of it; some agents reuse the ids that only requests have.
    told: bool,
    /// Whether it is of an earlier turn.
    past: bool,
}

impl Known {
    fn is_of(&self, session: Option<&RawValue>) -> bool {
        self.session.as_deref().map(RawValue::get) == session.map(RawValue::get)
    }

    /// Adds what is said now. What says nothing replaces nothing.
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

/// The calls that are remembered, the latest last.
#[derive(Default)]
pub(super) struct ToolCalls(VecDeque<Known>);

impl ToolCalls {
    /// Takes an update of this kind.
    pub(super) fn update(&mut self, kind: &str, params: &RawValue) {
        if !KINDS.contains(&kind) {
            return;
        }
        let Ok(Update { session_id: session, update }) = serde_json::from_str(params.get()) else { return };
        let Ok(said) = serde_json::from_str::<Said<'_>>(update.get()) else { return };
        let place = self.0.iter().position(|known| known.id == said.tool_call_id && known.is_of(session));
        let known = place.and_then(|place| self.0.remove(place));
        // Some agents count their calls anew in each turn.
        let mut known = known.filter(|known| !known.past || kind != BEGINNING).unwrap_or_else(|| Known {
            session: session.map(ToOwned::to_owned),
            id: said.tool_call_id.clone().into_owned(),
            members: Members::default(),
            open: true,
            told: true,
            past: false,
        });
        known.told = true;
        known.learn(said.members());
        known.open &= !said.is_over();
        self.push(known);
    }

    /// Takes a permission request. Returns what was said before of the call that it is for, but what it repeats to the
    /// letter; `None` if that is nothing.
    ///
    /// The call is the one of the same id, first of the same session: sessions may have calls of the same id, and a
    /// request may name another session than its call did. A request of an unknown id is for the only open call that it
    /// fits.
    pub(super) fn request(&mut self, params: &RawValue) -> Option<Box<RawValue>> {
        let Request { session_id: session, tool_call } = serde_json::from_str(params.get()).ok()?;
        let request: Said<'_> = serde_json::from_str(tool_call.get()).ok()?;
        let (said, id) = (request.members(), request.tool_call_id);
        let named = || self.0.iter().enumerate().rev().filter(|(_, known)| known.told && known.id == id);
        let place = named().find(|(_, known)| known.is_of(session)).or_else(|| named().next());
        let place = place.map(|(place, _)| place).or_else(|| self.only_fitting(session, &said));
        let mut asked = Known {
            session: session.map(ToOwned::to_owned),
            id: id.into_owned(),
            members: Members::default(),
            open: false,
            told: false,
            past: false,
        };
        let mut before = None;
        if let Some(known) = place.and_then(|place| self.0.get_mut(place)) {
            known.open = false;
            asked.told = known.id == asked.id;
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
        // What a request says counts in the next one for the same call as well.
        asked.learn(said);
        self.0.retain(|known| known.id != asked.id || !known.is_of(session));
        self.push(asked);
        before
    }

    /// A turn begins: no earlier call is open any more. What ended or was asked for is forgotten.
    pub(super) fn close_all(&mut self) {
        self.0.retain(|known| known.open);
        self.0.iter_mut().for_each(|known| (known.open, known.past) = (false, true));
    }

    fn push(&mut self, known: Known) {
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
        let fits = |known: &Known| known.open && known.is_of(session) && fit::fits(said, &known.members);
        let mut fitting = self.0.iter().enumerate().filter(|(_, known)| fits(known)).map(|(place, _)| place);
        let first = fitting.next()?;
        fitting.next().is_none().then_some(first)
    }
}

fn says_something(value: &RawValue) -> bool {
    !matches!(value.get(), "null" | "{}" | "[]" | "\"\"")
}

/// The members of two objects, the later ones first; `None` if one of them is none.
fn both(old: &RawValue, new: &RawValue) -> Option<Box<RawValue>> {
    let mut both: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(old.get()).ok()?;
    let new: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(new.get()).ok()?;
    both.extend(new);
    Some(to_raw(&both))
}

#[cfg(test)]
mod tests;
