use super::*;

const HOUR: Duration = Duration::from_hours(1);

fn window(schedule: &str, duration: Duration, zone: &str) -> Arc<Window> {
    Arc::new(Window::new(&[Action::Apply], schedule, duration, zone).unwrap())
}

fn moment(text: &str) -> Moment {
    let timestamp: Timestamp = text.parse().unwrap();
    Moment::from_millis(timestamp.as_millisecond().unsigned_abs())
}

/// When the windows that are closed at `now` end.
fn end(windows: &[Arc<Window>], now: &str) -> Option<String> {
    let closed = closed_actions(windows, moment(now));
    assert!(closed.len() <= 1, "{closed:?}");
    closed.first().map(|(action, end)| {
        assert_eq!(*action, Action::Apply);
        let end = Timestamp::from_millisecond(i64::try_from(end.as_millis()).unwrap()).unwrap();
        end.to_string()
    })
}

/// The windows of a test, and the end of the closed one at each time.
type Case<'a> = (&'a str, Vec<Arc<Window>>, &'a [(&'a str, Option<&'a str>)]);

#[test]
fn window_is_closed_from_its_start_until_its_time_is_over() {
    let berlin = |schedule, hours| window(schedule, HOUR * hours, "Europe/Berlin");
    let cases: Vec<Case<'_>> = vec![
        (
            "weekend",
            vec![berlin("0 18 * * FRI", 62)],
            &[
                ("2027-01-15T16:59:59.999Z", None),
                ("2027-01-15T17:00:00Z", Some("2027-01-18T07:00:00Z")),
                ("2027-01-17T12:34:56Z", Some("2027-01-18T07:00:00Z")),
                ("2027-01-18T06:59:59.999Z", Some("2027-01-18T07:00:00Z")),
                ("2027-01-18T07:00:00Z", None),
            ],
        ),
        (
            "a weekend in which the clock skips an hour: the duration is the same",
            vec![berlin("0 18 * * FRI", 62)],
            &[
                ("2027-03-26T17:00:00Z", Some("2027-03-29T07:00:00Z")),
                ("2027-03-28T12:00:00Z", Some("2027-03-29T07:00:00Z")),
                ("2027-03-29T07:00:00Z", None),
                ("2027-04-02T16:00:00Z", Some("2027-04-05T06:00:00Z")),
            ],
        ),
        (
            "the clock skips the start, from 02:00 to 03:00",
            vec![berlin("30 2 * * *", 2)],
            &[
                ("2027-03-27T01:30:00Z", Some("2027-03-27T03:30:00Z")),
                ("2027-03-28T00:59:59Z", None),
                ("2027-03-28T01:00:00Z", Some("2027-03-28T03:00:00Z")),
                ("2027-03-28T02:59:00Z", Some("2027-03-28T03:00:00Z")),
                ("2027-03-28T03:00:00Z", None),
                ("2027-03-29T00:30:00Z", Some("2027-03-29T02:30:00Z")),
            ],
        ),
        (
            "the start is the first minute after the skipped hour, or that hour",
            vec![berlin("0 3 * * *", 1), berlin("0 2 * * *", 2)],
            &[
                ("2027-03-28T00:59:59Z", None),
                ("2027-03-28T01:00:00Z", Some("2027-03-28T03:00:00Z")),
                ("2027-03-28T03:00:00Z", None),
            ],
        ),
        (
            "the clock repeats the start, from 03:00 back to 02:00",
            vec![berlin("30 2 * * *", 1)],
            &[
                ("2027-10-31T00:29:59Z", None),
                ("2027-10-31T00:30:00Z", Some("2027-10-31T01:30:00Z")),
                ("2027-10-31T01:29:59Z", Some("2027-10-31T01:30:00Z")),
                ("2027-10-31T01:30:00Z", Some("2027-10-31T02:30:00Z")),
                ("2027-10-31T02:30:00Z", None),
                ("2027-11-01T01:30:00Z", Some("2027-11-01T02:30:00Z")),
            ],
        ),
        (
            "the start is the first minute of the repeated hour",
            vec![window("0 2 * * *", Duration::from_mins(10), "Europe/Berlin")],
            &[
                ("2027-10-31T00:05:00Z", Some("2027-10-31T00:10:00Z")),
                ("2027-10-31T00:59:00Z", None),
                ("2027-10-31T01:00:00Z", Some("2027-10-31T01:10:00Z")),
                ("2027-10-31T02:00:00Z", None),
            ],
        ),
        (
            "overlapping windows: the last end",
            vec![window("0 6 * * *", HOUR * 4, "UTC"), window("0 8 * * *", HOUR * 4, "UTC")],
            &[
                ("2027-06-01T07:00:00Z", Some("2027-06-01T10:00:00Z")),
                ("2027-06-01T09:00:00Z", Some("2027-06-01T12:00:00Z")),
                ("2027-06-01T11:00:00Z", Some("2027-06-01T12:00:00Z")),
                ("2027-06-01T12:00:00Z", None),
            ],
        ),
        (
            "always closed",
            vec![window("* * * * *", HOUR, "Europe/Berlin")],
            &[
                ("2027-06-01T07:00:00Z", Some("2027-06-01T07:01:00Z")),
                ("2027-03-28T01:00:30Z", Some("2027-03-28T01:01:00Z")),
                ("2027-10-31T01:30:30Z", Some("2027-10-31T01:31:00Z")),
            ],
        ),
        (
            "longer than the time since 1970",
            vec![window("0 0 1 1 *", HOUR * 24 * 36_500, "UTC")],
            &[("2027-06-01T00:00:00Z", Some("2070-12-07T00:00:00Z"))],
        ),
    ];
    for (name, windows, times) in cases {
        for (now, expected) in times {
            assert_eq!(end(&windows, now).as_deref(), *expected, "{name}: {now}");
        }
    }
}

#[test]
fn window_forbids_its_actions_only() {
    let now = moment("2027-06-01T00:00:30Z");
    let plans = Window::new(&[Action::Plan, Action::Drift], "* * * * *", HOUR, "UTC").unwrap();
    let drift = Window::new(&[Action::Drift], "0 0 * * *", HOUR * 2, "UTC").unwrap();
    let never = Window::new(&[Action::Destroy], "0 1 * * *", HOUR, "UTC").unwrap();
    let closed = closed_actions(&[plans, drift, never].map(Arc::new), now);
    let (minute, hours) = (moment("2027-06-01T00:01:00Z"), moment("2027-06-01T02:00:00Z"));
    assert_eq!(closed, [(Action::Plan, minute), (Action::Drift, hours)]);
}
