use butler_base::event::Stream;

use super::*;

fn line(sequence: u32, content: &str) -> LogLine {
    LogLine { sequence, stream: Stream::Stdout, content: content.to_owned() }
}

fn lines(log: &AttemptLog, after: u32) -> Vec<LogLine> {
    log.page(LogPosition::after(after)).unwrap().lines
}

#[test]
fn repeated_and_torn_lines_are_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let log = AttemptLog::of(directory.path());
    assert_eq!((lines(&log, 0), log.last().unwrap()), (Vec::new(), 0));
    log.append(&[line(1, "a"), line(2, "b")], 0, 1000).unwrap();
    log.append(&[line(2, "b"), line(3, "c")], 2, 1000).unwrap();
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.append(true).open(&log.path).unwrap();
    file.write_all(br#"{"sequence":4,"stre"#).unwrap();
    assert_eq!(lines(&log, 0), [line(1, "a"), line(2, "b"), line(3, "c")]);
    assert_eq!(log.last().unwrap(), 3);
    log.append(&[line(4, "d")], 3, 1000).unwrap();
    assert_eq!(lines(&log, 3), [line(4, "d")]);
    assert_eq!(lines(&log, 1), [line(2, "b"), line(3, "c"), line(4, "d")]);
}

#[test]
fn last_line_is_found_behind_a_long_one() {
    let directory = tempfile::tempdir().unwrap();
    let log = AttemptLog::of(directory.path());
    let quoted = r#"{"sequence":9,"stream":"stdout","content":"x"}"#;
    let text = quoted.repeat(40_000);
    log.append(&[line(1, &text), line(2, &text)], 0, u64::MAX).unwrap();
    assert_eq!(log.last().unwrap(), 2);
    assert_eq!(lines(&log, 1), [line(2, &text)]);
}

#[test]
fn lines_behind_the_limit_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let log = AttemptLog::of(directory.path());
    let limit = 100;
    log.append(&[line(1, "first")], 0, limit).unwrap();
    assert_eq!(log.left_out().unwrap(), None);
    // The short line at the end would fit, but a log with a hole would mislead.
    let text = "x".repeat(100);
    log.append(&[line(2, &text), line(3, "y")], 1, limit).unwrap();
    log.append(&[line(3, "y"), line(4, "zz")], 3, limit).unwrap();
    assert_eq!(lines(&log, 0), [line(1, "first")]);
    assert_eq!(log.left_out().unwrap(), Some(LeftOut { lines: 3, bytes: 103, last: 4 }));
    assert_eq!(log.last().unwrap(), 4);
}

#[test]
fn page_ends_at_its_limits_and_the_next_one_goes_on_there() {
    for (count, text, pages) in
        [(12_000, "x".to_owned(), vec![5_000, 5_000, 2_000]), (5, "x".repeat(600_000), vec![1; 5])]
    {
        let directory = tempfile::tempdir().unwrap();
        let log = AttemptLog::of(directory.path());
        let all: Vec<LogLine> = (1..=count).map(|number| line(number, &text)).collect();
        log.append(&all, 0, u64::MAX).unwrap();
        let (mut position, mut read, mut sizes) = (LogPosition::default(), Vec::new(), Vec::new());
        loop {
            let page = log.page(position).unwrap();
            // A client that knows the last sequence number only gets the same.
            let found = log.page(LogPosition::after(position.after)).unwrap();
            assert_eq!((&found.lines, found.end), (&page.lines, page.end));
            sizes.push(page.lines.len());
            read.extend(page.lines);
            position = page.end;
            if !page.has_more {
                break;
            }
        }
        assert_eq!((read == all, sizes), (true, pages));
        assert!(log.page(position).unwrap().lines.is_empty());
        log.append(&[line(count + 1, "y")], count, u64::MAX).unwrap();
        assert_eq!(log.page(position).unwrap().lines, [line(count + 1, "y")]);
    }
}

#[test]
fn line_is_found_without_reading_those_before() {
    let directory = tempfile::tempdir().unwrap();
    let log = AttemptLog::of(directory.path());
    let all: Vec<LogLine> = (1..=20_000).map(|number| line(2 * number, "some text")).collect();
    log.append(&all, 0, u64::MAX).unwrap();
    let mut file = log.open().unwrap().unwrap();
    let length = |line: &LogLine| serde_json::to_vec(line).unwrap().len() as u64 + 1;
    for after in [0, 1, 2, 777, 20_000, 39_999, 40_000, 50_000] {
        let behind = all.iter().filter(|line| line.sequence <= after).map(length).sum::<u64>();
        let found = offset_before(&mut file, after).unwrap();
        assert!(found <= behind && behind - found <= END + 100, "{after}: {found} {behind}");
        let first = lines(&log, after).first().map(|line| line.sequence);
        assert_eq!(first, all.iter().map(|line| line.sequence).find(|it| *it > after));
    }
}
