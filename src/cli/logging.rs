//! The runner's own log. It is on standard error, because standard output has the output of Terraform.

use std::io::IsTerminal;
use std::sync::Arc;

use tracing::{Event, Level, Metadata, Subscriber};
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{EnvFilter, FilterExt, LevelFilter, filter_fn};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use super::flags::Selection;
use super::screen;
use crate::ci::{System, disarm};
use crate::screen::{Screen, View};
use crate::settings::{Environment, LogFormat, Logging, Section, Setting};
use butler_base::event::Stream;
use butler_base::secret::{Redactor, redact_json};

/// The number of lines that are buffered for a blocked output; further ones are lost. The buffer is allocated at
/// the start, and with the library's default it needs 4 MB.
const BUFFERED_LINES: usize = 4096;

/// The libraries whose events are logged: this one says that no connection can be accepted. Others log each failed
/// request with everything that came back, even if a retry succeeds, and their callers log outages themselves, once. So
/// their events are logged only with `-vv`, or if the filter names the library.
const HEARD: [&str; 1] = ["axum"];

/// The flags for the log, which every subcommand has.
pub(super) struct LogFlags;

impl Selection for LogFlags {
    fn has(setting: &Setting) -> bool {
        setting.section == Section::Log
    }

    const GLOBAL: bool = true;
}

/// The prefixes of errors and warnings in lines without a level.
const ERROR: &str = "Error: ";
const WARNING: &str = "Warning: ";

/// Starts the log of this process on `screen`, redacted by `redactor`. A separate thread writes the lines, so that a
/// blocked output does not stop the run. Dropping the guard ends the thread and waits a moment for the last lines.
/// Panics are logged, and so redacted, too.
pub(super) fn start(
    logging: &Logging,
    environment: &Environment,
    redactor: &Arc<Redactor>,
    screen: &Screen,
) -> WorkerGuard {
    let colours = screen::colours(environment, std::io::stderr().is_terminal());
    let (writer, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(BUFFERED_LINES)
        .finish(screen.writer(Stream::Stderr));
    // More detailed logs need times and levels.
    let is_terse = !["debug", "trace", "="].iter().any(|it| logging.filter.contains(it));
    let style = LineStyle { colours, is_plain: is_terse && screen.abilities().view == View::Live };
    let layer = layer(logging, style, redactor, move || writer.clone());
    // This fails only in tests, which may have set a subscriber before.
    let _ = Registry::default().with(layer).try_init();
    std::panic::set_hook(Box::new(log_panic));
    guard
}

fn log_panic(panic: &std::panic::PanicHookInfo<'_>) {
    tracing::error!("the runner failed (a bug): {panic}");
}

/// Redacts an event when it is formatted, not when it is written, because the library's buffer in between belongs to
/// the thread and keeps its content.
struct Masked<F> {
    redactor: Arc<Redactor>,
    format: F,
    mask: fn(&Redactor, &str) -> String,
    /// The CI system that reads the log.
    reader: System,
    style: LineStyle,
}

/// The style of lines in the text format.
#[derive(Clone, Copy, Debug)]
struct LineStyle {
    colours: bool,
    /// Whether lines have no time and no level, because a user reads them as they appear.
    is_plain: bool,
}

impl LineStyle {
    /// The prefix for `line` with this level.
    fn prefix(self, level: Level, line: &str) -> String {
        let (start, colour) = match level {
            Level::ERROR => (ERROR, "\x1b[1;31m"),
            Level::WARN => (WARNING, "\x1b[1;33m"),
            _ => return String::new(),
        };
        if !self.is_plain || line.starts_with(start) || line.starts_with("Hint: ") {
            String::new()
        } else if self.colours {
            format!("{colour}{start}\x1b[0m")
        } else {
            start.to_owned()
        }
    }
}

impl<S, N, F> FormatEvent<S, N> for Masked<F>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        let mut text = String::new();
        self.format.format_event(context, Writer::new(&mut text), event)?;
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let masked = (self.mask)(&self.redactor, line);
        writer.write_str(&self.style.prefix(*event.metadata().level(), line))?;
        writer.write_str(&disarm(self.reader, &masked))?;
        writer.write_str(&text[line.len()..])
    }
}

fn layer<W>(
    logging: &Logging,
    style: LineStyle,
    redactor: &Arc<Redactor>,
    writer: W,
) -> Box<dyn Layer<Registry> + Send + Sync>
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    // The settings have checked the filter.
    let filter = EnvFilter::try_new(&logging.filter).unwrap_or_default();
    let logs_all = filter.max_level_hint() == Some(LevelFilter::TRACE);
    let names = logging.filter.clone();
    let filter = filter.and(filter_fn(move |metadata| {
        let library = metadata.target().split("::").next().unwrap_or_default();
        let is_heard = is_own(metadata) || HEARD.contains(&library) || names.contains(library);
        may_be_logged(metadata) && (logs_all || is_heard)
    }));
    let (redactor, reader) = (redactor.clone(), logging.reader);
    let lines = fmt::layer().with_writer(writer);
    let format = fmt::format();
    match logging.format {
        LogFormat::Text => {
            let format = format.with_target(false).with_ansi(style.colours);
            let mask =
                |redactor: &Redactor, line: &str| redactor.redact(line.as_bytes()).into_owned();
            if style.is_plain {
                let format = format.without_time().with_level(false);
                let masked = Masked { redactor, format, mask, reader, style };
                return lines.event_format(masked).with_filter(filter).boxed();
            }
            let masked = Masked { redactor, format, mask, reader, style };
            lines.event_format(masked).with_filter(filter).boxed()
        }
        LogFormat::Json => {
            let format = format.json().flatten_event(true);
            let lines = lines.fmt_fields(JsonFields::new());
            let style = LineStyle { is_plain: false, ..style };
            let masked = Masked { redactor, format, mask: redact_json, reader, style };
            lines.event_format(masked).with_filter(filter).boxed()
        }
    }
}

/// Whether an event may be logged with any filter. Events of libraries below `info` may not, because their traces
/// contain requests, and with them the token.
fn may_be_logged(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= Level::INFO || is_own(metadata)
}

/// Whether an event is not that of a library.
fn is_own(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("butler_")
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Mutex;

    use secrecy::SecretString;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, filter: &str, log: impl FnOnce()) -> String {
        logged_as(LineStyle { colours: false, is_plain: false }, format, filter, log)
    }

    fn logged_as(style: LineStyle, format: LogFormat, filter: &str, log: impl FnOnce()) -> String {
        let written = Written::default();
        let reader = System::GitHubActions;
        let logging = Logging { format, filter: filter.to_owned(), reader };
        let writer = written.clone();
        let redactor = Arc::new(Redactor::new());
        let secrets = ["correct horse", "a \"quoted\"\\\nlonger horse", "message", "4711"];
        redactor.register(&secrets.map(SecretString::from));
        let layer = layer(&logging, style, &redactor, move || writer.clone());
        tracing::subscriber::with_default(Registry::default().with(layer), log);
        String::from_utf8(written.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn traces_of_libraries_are_never_logged() {
        let text = logged(LogFormat::Text, "trace,h2=trace", || {
            tracing::trace!(target: "h2::codec", "authorization: hunter2");
            tracing::debug!(target: "hyper_util", "hunter2");
            tracing::info!(target: "hyper_util", "from a library");
            tracing::trace!("from the runner");
        });
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("from a library") && text.contains("from the runner"), "{text}");
    }

    #[test]
    fn filter_for_butler_includes_all_crates_and_no_library() {
        let text = logged(LogFormat::Text, "butler=trace", || {
            tracing::trace!(target: "butler_source::git", "from a crate");
            tracing::trace!(target: "butler_runner::run", "from the runner");
            tracing::error!(target: "hyper::client", "from a library");
        });
        assert!(text.contains("from a crate") && text.contains("from the runner"), "{text}");
        assert!(!text.contains("from a library"), "{text}");
    }

    #[test]
    fn events_of_libraries_are_logged_only_on_request() {
        for (filter, of_kubernetes, of_objects) in [
            ("info", false, false),
            ("debug", false, false),
            ("warn", false, false),
            ("trace", true, true),
            ("info,kube_client=error,kube_runtime=warn", true, false),
            ("info,object_store=info", false, true),
        ] {
            let text = logged(LogFormat::Text, filter, || {
                tracing::error!(target: "kube_client::client::builder", "failed with error x");
                tracing::info!(target: "object_store::client::retry", "backing off");
                tracing::error!(target: "axum::serve", "cannot accept");
                tracing::error!(target: "another_library", "of another library");
            });
            assert_eq!(text.contains("failed with error"), of_kubernetes, "{filter}: {text}");
            assert_eq!(text.contains("backing off"), of_objects, "{filter}: {text}");
            assert!(text.contains("cannot accept"), "{text}");
            assert_eq!(text.contains("of another library"), filter == "trace", "{filter}: {text}");
        }
    }

    #[test]
    fn secrets_are_masked_in_messages_and_fields() {
        for format in [LogFormat::Text, LogFormat::Json] {
            let text = logged(format, "info", || {
                tracing::info!(password = "correct horse", "said correct horse");
                let quoted = "a \"quoted\"\\\nlonger horse";
                tracing::info!(quoted, debugged = ?quoted, "said {quoted} or {quoted:?}");
            });
            assert!(text.contains("***"), "{text}");
            assert!(!text.contains("horse") && !text.contains("quoted\\\""), "{text}");
        }
    }

    #[test]
    fn secrets_are_masked_in_panics() {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(log_panic));
        let text = logged(LogFormat::Text, "info", || {
            assert!(std::panic::catch_unwind(|| panic!("no correct horse")).is_err());
        });
        std::panic::set_hook(before);
        assert!(text.contains("the runner failed (a bug): ") && text.contains("no ***"), "{text}");
        assert!(!text.contains("horse"), "{text}");
    }

    #[test]
    fn quoted_text_is_not_a_command_of_the_ci_system() {
        for format in [LogFormat::Text, LogFormat::Json] {
            let text = logged(format, "info", || {
                tracing::error!("Error: plan: it said ##[add-mask]e\n::error::no");
            });
            assert!(text.contains("it said # #[add-mask]e"), "{text}");
            assert!(!text.lines().any(|line| line.starts_with("::")), "{text}");
        }
    }

    #[test]
    fn lines_for_a_terminal_have_no_time_and_one_prefix() {
        let log = || {
            tracing::error!("plan: no state");
            tracing::error!("Error: plan: no state");
            tracing::warn!(path = "a", "cannot write");
            tracing::info!("downloading");
        };
        let style = LineStyle { colours: false, is_plain: true };
        expect_test::expect![[r#"
            Error: plan: no state
            Error: plan: no state
            Warning: cannot write path="a"
            downloading
        "#]]
        .assert_eq(&logged_as(style, LogFormat::Text, "info", log));
        let style = LineStyle { colours: true, is_plain: true };
        let text = logged_as(style, LogFormat::Text, "info", log);
        assert!(text.starts_with("\u{1b}[1;31mError: \u{1b}[0mplan"), "{text:?}");
    }

    #[test]
    fn json_log_has_one_object_per_line() {
        let text = logged(LogFormat::Json, "info", || tracing::info!(version = "1.9.0", "ready"));
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&line["message"], &line["version"]), (&"ready".into(), &"1.9.0".into()));
        assert_eq!(line["level"], "INFO");
    }

    #[test]
    fn redacted_numbers_and_field_names_keep_the_json_valid() {
        let text = logged(LogFormat::Json, "info", || tracing::info!(count = 4711, "a message"));
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&line["message"], &line["count"]), (&"a ***".into(), &"***".into()));
    }
}
