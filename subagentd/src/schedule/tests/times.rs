//! Single times, and lines held against a search minute by minute.

use proptest::prelude::*;

use super::*;

fn after(times: &Times, from: &str, count: usize) -> Vec<String> {
    let mut at = time(from);
    let mut found = Vec::new();
    while found.len() < count {
        let Some(next) = times.next(at) else { break };
        found.push(next.to_string().replace("+00:00", ""));
        at = next;
    }
    found
}

fn wrong(when: When, zone_name: &str) -> String {
    Times::of(&when, zone(zone_name), Timestamp(0)).map(drop).unwrap_err()
}

#[test]
fn a_local_time_that_does_not_exist_fires_as_late_as_before_the_gap() {
    // 2026-03-29: 02:00 becomes 03:00 in Berlin.
    let daily = cron("30 2 * * *", "Europe/Berlin");
    let found = after(&daily, "2026-03-28T00:00:00Z", 3);
    assert_eq!(found, ["2026-03-28T01:30:00", "2026-03-29T01:30:00", "2026-03-30T00:30:00"]);
    let both = cron("30 2,3 * * *", "Europe/Berlin");
    let found = after(&both, "2026-03-29T00:00:00Z", 2);
    assert_eq!(found, ["2026-03-29T01:30:00", "2026-03-30T00:30:00"], "02:30 and 03:30 are the same time");
}

#[test]
fn a_local_time_that_exists_twice_fires_once() {
    // 2026-10-25: 03:00 becomes 02:00 in Berlin.
    let daily = cron("30 2 * * *", "Europe/Berlin");
    let found = after(&daily, "2026-10-24T12:00:00Z", 2);
    assert_eq!(found, ["2026-10-25T00:30:00", "2026-10-26T01:30:00"]);
    let quarters = cron("*/30 * * * *", "Europe/Berlin");
    let found = after(&quarters, "2026-10-24T23:59:00Z", 4);
    assert_eq!(
        found,
        ["2026-10-25T00:00:00", "2026-10-25T00:30:00", "2026-10-25T02:00:00", "2026-10-25T02:30:00"]
    );
}

#[test]
fn a_day_that_a_place_skipped_is_found() {
    // Samoa had no 2011-12-30.
    let daily = cron("0 12 * * *", "Pacific/Apia");
    let found = after(&daily, "2011-12-29T00:00:00Z", 3);
    assert_eq!(found, ["2011-12-29T22:00:00", "2011-12-30T22:00:00", "2011-12-31T22:00:00"]);
}

#[test]
fn weekdays_months_and_leap_days() {
    let workdays = cron("0 2 * * 1-5", "UTC");
    let found = after(&workdays, "2026-11-27T03:00:00Z", 2);
    assert_eq!(found, ["2026-11-30T02:00:00", "2026-12-01T02:00:00"]);
    let leap = cron("0 0 29 2 *", "UTC");
    assert_eq!(after(&leap, "2026-01-01T00:00:00Z", 1), ["2028-02-29T00:00:00"]);
    let named = cron("15 10 * JAN MON", "UTC");
    assert_eq!(after(&named, "2026-11-27T03:00:00Z", 1), ["2027-01-04T10:15:00"]);
    assert_eq!(after(&cron("@daily", "UTC"), "2026-11-27T03:00:00Z", 1), ["2026-11-28T00:00:00"]);
}

#[test]
fn a_line_that_never_comes_has_no_time() {
    for never in ["0 0 30 2 *", "0 0 31 4 *"] {
        let never = cron(never, "Europe/Berlin");
        assert_eq!(never.next(time("2026-11-27T03:00:00Z")), None);
        assert_eq!(never.last(time("2026-11-27T03:00:00Z")), None);
    }
}

#[test]
fn a_wrong_line_says_what_is_wrong() {
    for line in [
        "",
        "x",
        "60 * * * *",
        "* * * *",
        "* * * * * *",
        "* * * * * * *",
        "@reboot",
        "5/10 * * * *",
        "*/0 * * * *",
    ] {
        let error = wrong(When::Cron(line.to_owned()), "UTC");
        assert!(!error.is_empty(), "{line}");
    }
    assert!(wrong(When::Cron("* * * * * *".to_owned()), "UTC").contains("five fields"));
    assert!(wrong(When::Cron(" ".repeat(1000)), "UTC").contains("200 bytes"));
    assert!(wrong(When::EverySeconds(0), "UTC").contains("1 to"));
    assert!(wrong(When::EverySeconds(u64::MAX), "UTC").contains("1 to"));
}

#[test]
fn one_time_is_local_or_has_an_offset_and_exists_once() {
    let at = |text: &str| Times::of(&When::At(text.to_owned()), zone("Europe/Berlin"), Timestamp(0));
    let winter = at("2026-12-01T09:00").unwrap();
    assert_eq!(winter.next(Timestamp(0)), Some(time("2026-12-01T08:00:00Z")));
    assert_eq!(winter.next(time("2026-12-01T08:00:00Z")), None);
    assert_eq!(winter.last(time("2026-12-01T08:00:00Z")), Some(time("2026-12-01T08:00:00Z")));
    assert_eq!(at("2026-10-25T02:30+01:00").unwrap().next(Timestamp(0)), Some(time("2026-10-25T01:30:00Z")));
    assert!(at("2026-03-29T02:30").unwrap_err().contains("does not exist"));
    assert!(at("2026-10-25T02:30").unwrap_err().contains("exists twice"));
    assert!(at("tomorrow").unwrap_err().contains("is not a time"));
}

#[test]
fn intervals_are_counted_from_their_beginning() {
    let hourly = Times::of(&When::EverySeconds(3600), zone("UTC"), Timestamp(500)).unwrap();
    assert_eq!(hourly.next(Timestamp(0)), Some(Timestamp(3_600_500)));
    assert_eq!(hourly.next(Timestamp(500)), Some(Timestamp(3_600_500)));
    assert_eq!(hourly.next(Timestamp(3_600_500)), Some(Timestamp(7_200_500)));
    assert_eq!(hourly.last(Timestamp(3_600_499)), None, "the beginning itself is no time of it");
    assert_eq!(hourly.last(Timestamp(3_600_500)), Some(Timestamp(3_600_500)));
    assert_eq!(hourly.next(Timestamp(i64::MAX)), None);
}

/// A field that is often a star.
fn field(values: std::ops::Range<i8>) -> impl Strategy<Value = Option<i8>> {
    prop_oneof![2 => Just(None), 1 => values.prop_map(Some)]
}

/// Places and moments around which their clocks change.
const CHANGES: [(&str, &str); 7] = [
    ("Europe/Berlin", "2026-03-29T01:00:00Z"),
    ("Europe/Berlin", "2026-10-25T01:00:00Z"),
    ("America/St_Johns", "2026-03-08T05:30:00Z"),
    ("America/St_Johns", "2026-11-01T04:30:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
    ("Pacific/Apia", "2011-12-30T10:00:00Z"),
    ("UTC", "2026-01-01T00:00:00Z"),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn next_and_last_are_what_a_search_minute_by_minute_finds(
        minute in prop_oneof![1 => Just(None), 9 => (0i8..60).prop_map(Some)], hour in field(0..24), day in field(1..32), weekday in field(0..7),
        change in 0..CHANGES.len(), shift in -1000i64..300,
    ) {
        let (place, moment) = CHANGES[change];
        let fields = [minute, hour, day, None, weekday];
        let times = cron(&line(fields), place);
        let from = Timestamp(time(moment).0 + shift * MINUTE + 1);
        let until = Timestamp(from.0 + 12 * 60 * MINUTE);
        let expected = by_minutes(fields, &zone(place), from, until);
        let (mut found, mut at) = (Vec::new(), from);
        while let Some(next) = times.next(at).filter(|next| *next <= until) {
            found.push(next);
            at = next;
        }
        prop_assert_eq!(&found, &expected, "forward");
        let (mut found, mut at) = (Vec::new(), until);
        while let Some(last) = times.last(at).filter(|last| *last > from) {
            found.push(last);
            at = Timestamp(last.0 - 1);
        }
        found.reverse();
        prop_assert_eq!(&found, &expected, "backward");
    }
}
