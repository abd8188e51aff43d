//! Histories of kills, clock jumps and missed times. `SUBAGENT_SCHEDULE_HISTORIES` sets how many
//! are run.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use subagent_protocol::schedule::{FiringStatus, Missed, Overlap};

use super::*;
use crate::schedule::look::MAX_DUE;
use crate::schedule::overlap::MAX_WAITING;
use crate::schedule::{DueTime, FiringAdmission, ScheduleProgress, admit, failures_in_a_row, look, pauses};

/// What happens between a daemon and the clock.
#[derive(Debug, Clone)]
enum ScheduleOperation {
    /// Time passes while the daemon waits: it wakes at each time that it has set itself.
    Wait(i64),
    /// Time passes without a daemon, then one starts and looks.
    Down(i64),
    /// The clock is set, and the daemon looks.
    Jump(i64),
    /// The daemon looks, and is killed before the look is stored.
    KilledBefore,
    /// The same right after that: what was stored counts.
    KilledAfter,
}

fn ops() -> impl Strategy<Value = ScheduleOperation> {
    let short = 1..90 * MINUTE;
    let long = 60 * MINUTE..30 * 60 * MINUTE;
    let jump = prop_oneof![
        -90 * MINUTE..90 * MINUTE,
        prop::sample::select(vec![-24 * 60 * MINUTE, -60 * MINUTE, 60 * MINUTE, 24 * 60 * MINUTE, -1, 1]),
        prop::sample::select(vec![-40 * 24 * 60 * MINUTE, 40 * 24 * 60 * MINUTE]),
    ];
    prop_oneof![
        4 => short.clone().prop_map(ScheduleOperation::Wait),
        2 => long.clone().prop_map(ScheduleOperation::Wait),
        2 => prop_oneof![short, long].prop_map(ScheduleOperation::Down),
        2 => jump.prop_map(ScheduleOperation::Jump),
        1 => Just(ScheduleOperation::KilledBefore),
        1 => Just(ScheduleOperation::KilledAfter),
    ]
}

/// A schedule, what is stored of it, and the clock.
struct ScheduleModel {
    times: Times,
    zone: TimeZone,
    missed: Missed,
    cursor: Timestamp,
    /// What was done about each time: whether it fired.
    done: BTreeMap<Timestamp, bool>,
    now: Timestamp,
    jumped: bool,
    begin: Timestamp,
}

impl ScheduleModel {
    fn state(&self) -> ScheduleProgress {
        let since = self.cursor.min(self.now);
        let fired: BTreeSet<Timestamp> = self.done.keys().copied().filter(|at| *at > since).collect();
        ScheduleProgress { cursor: self.cursor, fired }
    }

    /// The times about which a look has to do something, by the definition.
    fn expected(&self) -> Vec<Timestamp> {
        let since = self.cursor.min(self.now);
        let mut found = Vec::new();
        let mut at = since;
        while let Some(next) = self.times.next(at).filter(|next| *next <= self.now) {
            found.push(next);
            at = next;
        }
        found.retain(|at| !self.done.contains_key(at));
        found
    }

    fn look(&mut self, is_stored: bool) -> Option<Timestamp> {
        let found = look(&self.times, self.missed, &self.state(), self.now);
        let expected = self.expected();
        let fired: Vec<Timestamp> = found.fire.iter().map(|due| due.at).collect();
        let newest = expected.last().copied();
        match self.missed {
            Missed::All => assert_eq!(fired, expected[expected.len().saturating_sub(MAX_DUE)..]),
            Missed::Once => assert_eq!(fired, Vec::from_iter(newest)),
            Missed::Skip => {
                let on_time = newest.filter(|at| self.now.0 - at.0 <= MINUTE);
                assert_eq!(fired, Vec::from_iter(on_time));
                let left_out = newest.filter(|_| on_time.is_none());
                assert_eq!(found.skip.as_ref().map(|due| due.at), left_out);
            }
        }
        let counted: usize = found.fire.iter().chain(&found.skip).map(|due| due.left_out + 1).sum();
        assert_eq!(counted, expected.len().min(1000), "each time is either fired or counted as left out");
        if let Some(next) = found.next {
            assert!(next > self.now && !self.done.contains_key(&next));
        }
        if is_stored {
            for DueTime { at, .. } in &found.fire {
                assert_eq!(self.done.insert(*at, true), None, "{at} fires twice");
            }
            if let Some(DueTime { at, .. }) = &found.skip {
                assert_eq!(self.done.insert(*at, false), None, "{at} is left out twice");
            }
            self.cursor = found.cursor;
        }
        found.next
    }

    fn wait(&mut self, passes: i64) {
        let until = Timestamp(self.now.0 + passes);
        while let Some(next) = self.look(true).filter(|next| *next <= until) {
            self.now = next;
        }
        self.now = until;
        self.look(true);
    }

    fn apply(&mut self, op: &ScheduleOperation) {
        match op {
            ScheduleOperation::Wait(passes) => self.wait(*passes),
            ScheduleOperation::Down(passes) => {
                self.now.0 += passes;
                self.look(true);
            }
            ScheduleOperation::Jump(by) => {
                self.jumped = true;
                self.now = Timestamp((self.now.0 + by).max(self.begin.0));
                self.look(true);
            }
            ScheduleOperation::KilledBefore => {
                self.look(false);
            }
            ScheduleOperation::KilledAfter => {
                self.look(true);
            }
        }
    }

    fn finish(&self) {
        let fired: Vec<Timestamp> =
            self.done.iter().filter(|(_, fired)| **fired).map(|(at, _)| *at).collect();
        let locals: BTreeSet<_> = fired
            .iter()
            .map(|at| self.zone.to_datetime(jiff::Timestamp::from_millisecond(at.0).unwrap()))
            .collect();
        assert_eq!(locals.len(), fired.len(), "a local time has fired twice");
        if self.missed == Missed::All && !self.jumped {
            let mut all = Vec::new();
            let mut at = self.begin;
            while let Some(next) = self.times.next(at).filter(|next| *next <= self.now) {
                all.push(next);
                at = next;
            }
            let lost = all.iter().filter(|at| !fired.contains(at)).count();
            // Only a time without a daemon that was longer than that many times loses any.
            assert!(lost == 0 || all.len() > MAX_DUE, "{lost} of {} are lost", all.len());
        }
    }
}

fn histories() -> u32 {
    std::env::var("SUBAGENT_SCHEDULE_HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(3000)
}

/// None of them fires more often than each few minutes: histories are long.
const LINES: [&str; 8] = [
    "30 2 * * *",
    "*/15 * * * *",
    "0 * * * *",
    "0,30 1-3 * * *",
    "59 23 * * *",
    "0 0 * * 0",
    "0 12 29 * *",
    "30 2 25,29 * *",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: histories(), ..ProptestConfig::default() })]

    #[test]
    fn each_time_fires_exactly_as_its_rule_says(
        line in 0..LINES.len(), place in prop::sample::select(vec!["UTC", "Europe/Berlin", "Australia/Lord_Howe"]),
        missed in prop::sample::select(Missed::ALL.to_vec()),
        begin in prop::sample::select(vec!["2026-03-28T20:00:00Z", "2026-10-24T20:00:00Z", "2026-04-04T09:00:00Z"]),
        history in prop::collection::vec(ops(), 0..14),
    ) {
        let begin = time(begin);
        let mut world = ScheduleModel {
            times: cron(LINES[line], place),
            zone: zone(place),
            missed,
            cursor: begin,
            done: BTreeMap::new(),
            now: begin,
            jumped: false,
            begin,
        };
        for op in &history {
            world.apply(op);
        }
        world.finish();
    }

    #[test]
    fn firings_that_overlap_are_admitted_as_their_rule_says(
        overlap in prop::sample::select(Overlap::ALL.to_vec()),
        history in prop::collection::vec(prop::bool::ANY, 0..80),
    ) {
        // True: a time is due. False: the oldest that runs ends.
        let (mut waiting, mut running, mut started, mut skipped, mut due) = (0usize, 0usize, 0, 0, 0);
        for is_due in history {
            match is_due {
                true => { waiting += 1; due += 1; }
                false => running = running.saturating_sub(1),
            }
            let mut steps = 0;
            while waiting > 0 {
                steps += 1;
                prop_assert!(steps < 500);
                match admit(overlap, running, waiting - 1) {
                    FiringAdmission::Start => { waiting -= 1; running += 1; started += 1; }
                    FiringAdmission::Skip => { waiting -= 1; skipped += 1; }
                    FiringAdmission::CancelRunning => running = 0,
                    FiringAdmission::Wait => break,
                }
            }
            prop_assert!(overlap == Overlap::Parallel || running <= 1);
            prop_assert!(waiting <= MAX_WAITING);
            prop_assert!(overlap == Overlap::Queue || waiting == 0);
        }
        prop_assert_eq!(started + skipped + waiting, due);
        prop_assert!(skipped == 0 || !matches!(overlap, Overlap::Parallel));
    }
}

#[test]
fn failures_in_a_row_pause() {
    use FiringStatus::{Canceled, Completed, Failed, Skipped};
    let count = |oldest_first: &[FiringStatus]| failures_in_a_row(oldest_first.iter().rev().copied());
    assert_eq!(count(&[Failed, Failed, Failed]), 3);
    assert_eq!(count(&[Failed, Failed, Completed, Failed]), 1);
    assert_eq!(count(&[Failed, Canceled, Skipped, Failed]), 2, "what was canceled proves nothing");
    assert!(pauses(Failed, 3, 3) && !pauses(Failed, 2, 3));
    assert!(!pauses(Completed, 3, 3), "an older firing completes late");
    assert!(!pauses(Failed, 9, 0), "zero: never");
}
