//! Parses single values. An error message contains the value only if that cannot be a secret.

use std::time::Duration;

use url::Url;

use super::resolved::{IsolationLevel, LogFormat, PlanJson, PlanStatus, UserRange};
use crate::ci::System;
use butler_base::error::visible;
use butler_base::similar::closest;
use butler_base::size::parse_size;
use butler_protocol::spec::{
    InvalidRunId, Operation, RequestedVersion, RunId, SensitiveValues, ToolRequest,
};
use butler_source::git::Submodules;

/// The longest valid duration. A longer one is a mistake.
const MAX_DURATION: Duration = Duration::from_hours(24);

/// The smallest limit for a request body, in bytes. A final status must fit.
const MIN_BODY_LIMIT: usize = 64 * 1024;

/// The characters of a value that a message contains.
const MAX_SHOWN: usize = 200;

/// `text` for a message: on one line, shortened, in backticks.
pub(super) fn shown(text: &str) -> String {
    let mut start: String = visible(text).take(MAX_SHOWN).collect();
    if visible(text).count() > MAX_SHOWN {
        start.push('…');
    }
    format!("`{start}`")
}

/// `2s`, `5m`, `1m 30s`, or a number of seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let duration = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => humantime::parse_duration(text).ok(),
    };
    let duration = duration.ok_or_else(|| format!("{} is not a duration", shown(text)))?;
    if duration > MAX_DURATION {
        return Err(format!("{} is longer than 24 hours", shown(text)));
    }
    Ok(duration)
}

/// The time between two actions, which must not be zero.
///
/// # Errors
/// If it is not a duration, is zero, or is longer than 24 hours; the message shows it.
pub fn interval(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("the interval is zero".to_owned()),
        interval => Ok(interval),
    }
}

/// The registry's address: see [`super::RunSource::Registry`].
pub(super) fn endpoint(text: &str) -> Result<Url, String> {
    let mut url = web_url(text)?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the endpoint holds a user name or password".to_owned());
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}

/// An `http` or `https` URL without query and fragment. It can contain a password, so messages do not contain it.
pub(super) fn web_url(text: &str) -> Result<Url, String> {
    let url =
        Url::parse(text.trim()).map_err(|problem| format!("the URL is not valid: {problem}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("the URL is neither http nor https".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("the URL holds a query or a fragment".to_owned());
    }
    Ok(url)
}

/// The site of releases: a web URL, or the `file` URL of a directory or of a tar archive of one.
pub(super) fn site_url(text: &str) -> Result<Url, String> {
    match Url::parse(text.trim()) {
        Ok(url) if url.scheme() == "file" => match url.to_file_path() {
            Ok(_) => Ok(url),
            Err(()) => Err("the URL does not name a local file: write file:///PATH".to_owned()),
        },
        _ => web_url(text),
    }
}

/// `true` or `false`, in the spellings that CI systems use.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err(format!("{} is neither true nor false", shown(text))),
    }
}

pub(super) fn plan_status(text: &str) -> Result<PlanStatus, String> {
    match text {
        "succeeded" => Ok(PlanStatus::Succeeded),
        "planned" => Ok(PlanStatus::Planned),
        _ => Err(format!("{} is neither `succeeded` nor `planned`", shown(text))),
    }
}

pub(super) fn ci_system(text: &str) -> Result<System, String> {
    System::named(text).ok_or_else(|| {
        let known = System::ALL.map(System::id).join(", ");
        format!("{} is not one of {known}", shown(text))
    })
}

pub(super) fn plan_json(text: &str) -> Result<PlanJson, String> {
    match text {
        "clean" => Ok(PlanJson::Clean),
        "raw" => Ok(PlanJson::Raw),
        _ => Err(format!("{} is neither `clean` nor `raw`", shown(text))),
    }
}

pub(super) fn submodules(text: &str) -> Result<Submodules, String> {
    let known = Submodules::ALL.into_iter().find(|it| it.name() == text);
    known.ok_or_else(|| format!("{} is none of `needed`, `all` and `none`", shown(text)))
}

/// The largest body of a request: see [`bytes`].
pub(super) fn size(text: &str) -> Result<usize, String> {
    match usize::try_from(bytes(text)?) {
        Ok(size) if size < MIN_BODY_LIMIT => {
            Err(format!("{} is less than {MIN_BODY_LIMIT} bytes", shown(text)))
        }
        Ok(size) => Ok(size),
        Err(_) => Err(format!("{} is not a size", shown(text))),
    }
}

/// `50MiB`, `50MB`, or a number of bytes.
///
/// # Errors
/// If the text is not a size; the message contains it.
pub fn bytes(text: &str) -> Result<u64, String> {
    parse_size(text).ok_or_else(|| format!("{} is not a size", shown(text)))
}

pub(super) fn sensitive_values(text: &str) -> Result<SensitiveValues, String> {
    SensitiveValues::named(text)
        .ok_or_else(|| format!("{} is neither `auto` nor `literal`", shown(text)))
}

pub(super) fn isolation_level(text: &str) -> Result<IsolationLevel, String> {
    use IsolationLevel::{Auto, Landlock, None, User};

    [None, Landlock, User, Auto]
        .into_iter()
        .find(|level| level.name() == text)
        .ok_or_else(|| format!("{} is not `none`, `landlock`, `user` or `auto`", shown(text)))
}

/// `FIRST-LAST`. Root is not one of them, nor the number that means that an owner is not changed.
pub(super) fn user_range(text: &str) -> Result<UserRange, String> {
    let range = text.split_once('-').and_then(|(first, last)| {
        Some(UserRange { first: first.parse().ok()?, last: last.parse().ok()? })
    });
    range.filter(|it| it.first > 0 && it.first <= it.last && it.last < u32::MAX).ok_or_else(|| {
        format!("{} is not a range of users without root, such as 61184-65519", shown(text))
    })
}

pub(super) fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("{} is neither `text` nor `json`", shown(text))),
    }
}

/// The levels of the runner's own log.
pub(super) const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// A filter for the runner's own log: levels, and `module=level`. `EnvFilter` alone would accept a misspelt level as
/// the name of a module and hide all other lines.
pub(super) fn log_filter(text: &str) -> Result<String, String> {
    let is_level = |text: &str| LEVELS.iter().any(|level| text.eq_ignore_ascii_case(level));
    let directives: Vec<_> = text.split(',').map(str::trim).filter(|it| !it.is_empty()).collect();
    for directive in &directives {
        let level = match directive.rsplit_once('=') {
            Some((module, level)) if !module.trim().is_empty() => level.trim(),
            _ => *directive,
        };
        if !is_level(level) {
            let near = closest(level, LEVELS).map(|level| format!("; did you mean `{level}`?"));
            return Err(format!(
                "{} is neither a log level ({}) nor MODULE=LEVEL{}",
                shown(directive),
                LEVELS.join(", "),
                near.unwrap_or_default()
            ));
        }
    }
    let filter = directives.join(",");
    tracing_subscriber::EnvFilter::try_new(&filter)
        .map(|_| filter)
        .map_err(|_| format!("{} is not a log filter", shown(text)))
}

pub(super) fn run_id(text: &str) -> Result<RunId, String> {
    text.parse().map_err(|problem: InvalidRunId| problem.to_string())
}

pub(super) fn operation(text: &str) -> Result<Operation, String> {
    text.parse().map_err(|_| format!("{} is not an operation", shown(text)))
}

/// The version of a run: an exact one, or a constraint.
pub(super) fn version(text: &str) -> Result<RequestedVersion, String> {
    let problem = |_| format!("{} is neither a version nor a constraint", shown(text));
    RequestedVersion::of_run(text).map_err(problem)
}

pub(super) fn request(text: &str) -> Result<ToolRequest, String> {
    text.parse().map_err(|_| format!("{} is not an exact version", shown(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_without_a_unit_is_in_seconds() {
        for (text, milliseconds) in
            [("2s", 2000), ("5m", 300_000), ("90", 90_000), ("0.5", 500), ("1m 30s", 90_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn text_that_is_not_a_duration_is_refused() {
        for text in ["", "soon", "-1", "-1s", "2 parsecs", "nan", "inf", "1e300", "25h"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(interval("0").is_err());
        assert_eq!(duration("0"), Ok(Duration::ZERO));
    }

    #[test]
    fn users_of_runs_are_a_range_without_root() {
        let range = |first, last| Ok(UserRange { first, last });
        assert_eq!(user_range("61184-65519"), range(61_184, 65_519));
        assert_eq!(user_range("7-7"), range(7, 7));
        for text in ["", "7", "0-7", "8-7", "7-", "-7", "a-b", "7-4294967295", "1-2-3"] {
            assert!(user_range(text).is_err(), "{text}");
        }
    }

    #[test]
    fn endpoint_keeps_its_path_without_the_last_slash() {
        for (text, url) in [
            ("https://portal.example.com/api/registry/", "https://portal.example.com/api/registry"),
            ("http://127.0.0.1:8080/api", "http://127.0.0.1:8080/api"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/"),
        ] {
            assert_eq!(endpoint(text).unwrap().as_str(), url);
        }
    }

    #[test]
    fn message_about_an_unusable_endpoint_does_not_contain_its_password() {
        for text in [
            "",
            "portal.example.com/api",
            "ftp://portal.example.com/",
            "https://portal.example.com/?a=b",
            "https://portal.example.com/#a",
            "https://user:hunter2@portal.example.com/",
            "https://:hunter2@portal.example.com/",
            "https://hunter2@portal.example.com/",
            "https://user:hunter2@portal.example.com:notaport/",
        ] {
            let problem = endpoint(text).unwrap_err();
            assert!(!problem.contains("hunter2"), "{problem}");
        }
    }

    #[test]
    fn shown_value_stays_on_one_line() {
        assert_eq!(shown("a\nb"), "`a\\nb`");
        assert!(shown(&"x".repeat(1000)).chars().count() < 210);
    }

    #[test]
    fn log_filter_consists_of_levels_and_modules_with_levels() {
        for text in ["debug", "WARN", "off", "info,butler_runner::tool=trace"] {
            assert_eq!(log_filter(text).as_deref(), Ok(text));
        }
        assert_eq!(log_filter("warn, h2=error").as_deref(), Ok("warn,h2=error"));
        for text in ["debg", "butler_runner", "info,tool", "tool=debg", "=debug", "5", "tool="] {
            assert!(log_filter(text).unwrap_err().contains("nor MODULE=LEVEL"), "{text}");
        }
        assert_eq!(
            log_filter("info,debg").unwrap_err(),
            "`debg` is neither a log level (error, warn, info, debug, trace, off) nor MODULE=LEVEL; \
             did you mean `debug`?"
        );
    }

    #[test]
    fn sizes_have_a_unit_and_a_lower_bound() {
        assert_eq!(size("52428800"), Ok(50 << 20));
        assert_eq!(size("50MiB"), size("50 MiB"));
        assert_eq!(size("1MB"), Ok(1_000_000));
        for wrong in ["", "MiB", "50 apples", "-1", "1.5MiB", "99999999999999999999GiB", "1kB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
