//! The rows of the table of targets, in its order. Each creates and removes its own world.

mod board;
mod commands;
mod crowd;
mod events;
mod flood;
mod idle;
mod journal;
mod latency;
mod line;
mod panel;
mod question;
mod remote;
mod restart;
mod sandbox;
mod send;
mod silence;
mod start;
mod streaming;
mod worktree;

use subagent_tests::measure::Row;

use crate::Bench;

type BenchRowFn = fn(&Bench) -> Row;

/// All rows, by the name that selects one.
pub(crate) const ROWS: [(&str, BenchRowFn); 25] = [
    ("list", commands::run),
    ("silence", silence::run),
    ("start", start::run),
    ("worktree", worktree::run),
    ("sandbox", sandbox::run),
    ("send", send::run),
    ("events", events::run),
    ("latency", latency::run),
    ("question", question::run),
    ("idle", idle::run),
    ("crowd", crowd::run),
    ("streaming", streaming::run),
    ("stopped", flood::run),
    ("journal", journal::run),
    ("restart", restart::run),
    ("line", line::run),
    ("ssh", remote::ssh),
    ("distance", remote::distance),
    ("unreachable", remote::unreachable),
    ("fleet", remote::fleet),
    ("board", board::run),
    ("paint", panel::paint),
    ("pixel", panel::pixel),
    ("transcript", panel::transcript),
    ("watched", panel::crowd),
];
