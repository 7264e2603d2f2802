//! Annotations: diagnostics at the source lines that they are about.
//!
//! An annotation names a file only if it belongs to the job's own repository. Otherwise the system would
//! attach it to an unrelated file of the same name.

use std::fmt::Write;
use std::path::{Component, Path};

use url::Url;

use super::Job;
use super::description::Annotation;
use butler_result::{Diagnostic, FinalStatus, RunResult, Severity, SourceLocation};

/// GitHub shows at most this many annotations of each severity in a step.
const MAX_PER_SEVERITY: usize = 10;

/// The longest title, in bytes.
const MAX_TITLE: usize = 250;

/// The longest text, in bytes.
const MAX_TEXT: usize = 4096;

/// A line for each annotation, in the format of the CI system; empty if the system has no annotations.
#[must_use]
pub fn annotations(result: &RunResult, job: &Job) -> Vec<String> {
    let Some(line) = job.system.description().annotation else { return Vec::new() };
    let mut annotations: Vec<Annotation> =
        result.diagnostics.iter().map(|it| annotation_of(it, result, job)).collect();
    if let Some(problem) = &result.error
        && !annotations.iter().any(|it| it.severity == Severity::Error)
    {
        let advice = problem.advice.iter().map(|advice| format!("\nhint: {advice}"));
        let text = [problem.message.clone()].into_iter().chain(advice).collect();
        // A cancelled run has not failed.
        let (severity, outcome) = match result.status {
            FinalStatus::Cancelled => (Severity::Warning, "stopped"),
            FinalStatus::Succeeded | FinalStatus::Planned | FinalStatus::Failed => {
                (Severity::Error, "failed")
            }
        };
        let title = format!("{} {outcome}", problem.phase);
        annotations.push(Annotation { severity, title, text, place: None });
    }
    annotations.extend(result.warnings.iter().map(|warning| Annotation {
        severity: Severity::Warning,
        title: "butler-runner".to_owned(),
        text: warning.clone(),
        place: None,
    }));
    let (errors, warnings) = annotations.into_iter().partition(|it| it.severity == Severity::Error);
    let limited = [errors, warnings].into_iter().flat_map(limit_number);
    limited.map(|annotation| line(&shortened(annotation))).collect()
}

/// At most as many as the system shows. The last one contains the number of the others.
fn limit_number(mut annotations: Vec<Annotation>) -> Vec<Annotation> {
    if annotations.len() > MAX_PER_SEVERITY {
        let more = annotations.split_off(MAX_PER_SEVERITY - 1);
        annotations.push(Annotation {
            severity: more[0].severity,
            title: format!("{} more", more.len()),
            text: "They are in the log.".to_owned(),
            place: None,
        });
    }
    annotations
}

fn annotation_of(diagnostic: &Diagnostic, result: &RunResult, job: &Job) -> Annotation {
    let Diagnostic { severity, summary, detail, subject, place } = diagnostic;
    let found = place.as_ref().and_then(|place| {
        Some(SourceLocation { file: repository_file(&place.file, result, job)?, line: place.line })
    });
    let mut text = if detail.is_empty() { summary.clone() } else { detail.clone() };
    if let (None, Some(SourceLocation { file, line })) = (&found, place) {
        let _ = write!(text, "\n\non {file} line {line}");
    }
    if let Some(subject) = subject {
        let _ = write!(text, "\n\nin {subject}");
    }
    Annotation { severity: *severity, title: summary.clone(), text, place: found }
}

fn shortened(mut annotation: Annotation) -> Annotation {
    let Annotation { title, text, .. } = &mut annotation;
    title.truncate(title.floor_char_boundary(MAX_TITLE));
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    annotation
}

/// The path from the root of the job's repository, if `file` of the module is in it.
fn repository_file(file: &str, result: &RunResult, job: &Job) -> Option<String> {
    // Terragrunt runs the tool in a copy, in which files have other paths.
    if result.tool.as_ref().is_some_and(|tool| tool.starts_with("terragrunt")) {
        return None;
    }
    let directory = Path::new(result.source_directory.as_deref()?);
    let directory = if let Some(repository) = &result.source_repository {
        let of_job = |name: &String| is_repository(repository, name);
        if !job.repository.as_ref().is_none_or(of_job)
            || !job.address.as_ref().is_none_or(|address| is_same_host(repository, address))
        {
            return None;
        }
        // In another commit, the line may contain something else.
        if let (Some(own), Some(of_job)) = (&result.source_commit, &job.commit)
            && own != of_job
        {
            return None;
        }
        directory
    } else {
        directory.strip_prefix(job.workspace.as_ref()?).ok()?
    };
    let mut path: Vec<&str> = Vec::new();
    let whole = directory.join(file);
    for component in whole.components() {
        match component {
            Component::Normal(name) => path.push(name.to_str()?),
            Component::CurDir => {}
            Component::ParentDir => drop(path.pop()?),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    // The directory of modules from other repositories.
    (!path.contains(&".terraform")).then(|| path.join("/"))
}

/// Whether a git URL, or `host:path`, is that of `owner/name`.
fn is_repository(url: &str, name: &str) -> bool {
    let url = url.trim_end_matches('/');
    let url = url.strip_suffix(".git").unwrap_or(url);
    let Some(at) = url.len().checked_sub(name.len()) else { return false };
    let (before, end) = url.as_bytes().split_at(at);
    let is_whole = before.ends_with(b"/") || before.ends_with(b":");
    is_whole && end.eq_ignore_ascii_case(name.as_bytes())
}

/// Whether two addresses have the same host. Some systems have another host name for SSH.
fn is_same_host(one: &str, other: &str) -> bool {
    let plain = |host: &str| {
        let host = host.to_ascii_lowercase();
        host.strip_prefix("ssh.").unwrap_or(&host).to_owned()
    };
    match (host(one), host(other)) {
        (Some(one), Some(other)) => plain(&one) == plain(&other),
        _ => false,
    }
}

/// The host of a URL or of `user@host:path`.
fn host(address: &str) -> Option<String> {
    if address.contains("://") {
        return Url::parse(address).ok()?.host_str().map(str::to_owned);
    }
    let (login, _) = address.split_once(':')?;
    Some(login.rsplit_once('@').map_or(login, |(_, host)| host).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ci::System;
    use butler_base::event::Phase;
    use butler_result::{Problem, Timings};

    fn result() -> RunResult {
        let timings = Timings {
            started: std::time::SystemTime::UNIX_EPOCH,
            total: std::time::Duration::ZERO,
            phases: Vec::new(),
        };
        let mut result = RunResult::of(FinalStatus::Failed, 1, timings);
        result.source_repository = Some("https://git.example/Org/infra.git".to_owned());
        result.source_directory = Some("modules/a, b".to_owned());
        result.diagnostics.push(Diagnostic {
            severity: Severity::Error,
            summary: "No, 100%: ]x' | y".to_owned(),
            detail: "One;\ntwo: 100% ]".to_owned(),
            subject: None,
            place: Some(SourceLocation { file: "main.tf".to_owned(), line: 3 }),
        });
        result
    }

    fn job(system: System) -> Job {
        Job { system, repository: Some("org/infra".to_owned()), ..Job::default() }
    }

    #[test]
    fn annotations_are_escaped_for_each_system() {
        let result = result();
        let line = |system| annotations(&result, &job(system)).join("\n");
        expect_test::expect![[
            "::error file=modules/a%2C b/main.tf,line=3,title=No%2C 100%25%3A ]x' | y::One;%0Atwo: 100%25 ]"
        ]]
        .assert_eq(&line(System::GitHubActions));
        expect_test::expect![[
            "##vso[task.logissue type=error;sourcepath=modules/a, b/main.tf;linenumber=3;]No, 100%AZP25: %5Dx' | y: One%3B%0Atwo: 100%AZP25 %5D"
        ]]
        .assert_eq(&line(System::AzurePipelines));
        expect_test::expect![[
            "##teamcity[message text='modules/a, b/main.tf:3: No, 100%: |]x|' || y: One;|ntwo: 100% |]' status='ERROR']"
        ]]
        .assert_eq(&line(System::TeamCity));
        assert_eq!(line(System::GitLabCi), "");
    }

    #[test]
    fn file_is_named_only_if_it_is_in_the_repository_of_the_job() {
        let file = |change: &dyn Fn(&mut RunResult, &mut Job), name: &str| {
            let (mut result, mut job) = (result(), job(System::GitHubActions));
            change(&mut result, &mut job);
            repository_file(name, &result, &job)
        };
        let as_it_is = |_: &mut RunResult, _: &mut Job| {};
        assert_eq!(file(&as_it_is, "../c/main.tf").as_deref(), Some("modules/c/main.tf"));
        assert_eq!(file(&as_it_is, "../../../main.tf"), None);
        assert_eq!(file(&as_it_is, ".terraform/modules/x/main.tf"), None);
        assert_eq!(file(&as_it_is, "/etc/main.tf"), None);
        let elsewhere = |_: &mut RunResult, job: &mut Job| job.repository = Some("g/infra".into());
        assert_eq!(file(&elsewhere, "main.tf"), None);
        for (address, found) in [
            ("https://git.example", true),
            ("https://name@ssh.git.example/Org/infra", true),
            ("https://other.example", false),
            ("nonsense", false),
        ] {
            let on = |_: &mut RunResult, job: &mut Job| job.address = Some(address.to_owned());
            assert_eq!(file(&on, "main.tf").is_some(), found, "{address}");
        }
        let scp = |result: &mut RunResult, job: &mut Job| {
            result.source_repository = Some("git@Git.example:org/infra.git".to_owned());
            job.address = Some("https://git.example".to_owned());
        };
        assert!(file(&scp, "main.tf").is_some());
        for (commit, found) in [("a1", true), ("b2", false)] {
            let of = |result: &mut RunResult, job: &mut Job| {
                result.source_commit = Some("a1".to_owned());
                job.commit = Some(commit.to_owned());
            };
            assert_eq!(file(&of, "main.tf").is_some(), found, "{commit}");
        }
        let unknown = |_: &mut RunResult, job: &mut Job| job.repository = None;
        assert_eq!(file(&unknown, "main.tf").as_deref(), Some("modules/a, b/main.tf"));
        let local = |result: &mut RunResult, job: &mut Job| {
            result.source_repository = None;
            result.source_directory = Some("/builds/repository/module".to_owned());
            job.workspace = Some("/builds/repository".into());
        };
        assert_eq!(file(&local, "main.tf").as_deref(), Some("module/main.tf"));
        let wrapped =
            |result: &mut RunResult, _: &mut Job| result.tool = Some("terragrunt 1.0.0".to_owned());
        assert_eq!(file(&wrapped, "main.tf"), None);
        for (url, is) in [
            ("git@git.example:org/infra.git", true),
            ("ssh://git.example/ORG/Infra/", true),
            ("https://git.example/other-org/infra", false),
            ("infra", false),
        ] {
            assert_eq!(is_repository(url, "org/infra"), is, "{url}");
        }
    }

    #[test]
    fn annotations_are_limited_and_a_failure_of_the_runner_is_one() {
        let mut result = result();
        let one = result.diagnostics[0].clone();
        result.diagnostics = vec![one; MAX_PER_SEVERITY + 5];
        result.warnings.push("odd".to_owned());
        let lines = annotations(&result, &job(System::GitHubActions));
        assert_eq!(lines.len(), MAX_PER_SEVERITY + 1);
        assert_eq!(lines[MAX_PER_SEVERITY - 1], "::error title=6 more::They are in the log.");
        assert_eq!(lines[MAX_PER_SEVERITY], "::warning title=butler-runner::odd");
        result.diagnostics.clear();
        result.error = Some(Problem {
            phase: Phase::Source,
            message: "cannot clone".to_owned(),
            advice: Some("log in".to_owned()),
            class: None,
            lock: None,
        });
        let lines = annotations(&result, &job(System::GitHubActions));
        assert_eq!(lines[0], "::error title=source failed::cannot clone%0Ahint: log in");
        result.status = FinalStatus::Cancelled;
        let lines = annotations(&result, &job(System::GitHubActions));
        assert_eq!(lines[0], "::warning title=source stopped::cannot clone%0Ahint: log in");
    }

    #[test]
    fn long_texts_are_shortened() {
        let mut result = result();
        let long = "ä".repeat(MAX_TEXT);
        result.diagnostics[0].summary.clone_from(&long);
        result.warnings.push(long.clone());
        let problem =
            Problem { phase: Phase::Source, message: long, advice: None, class: None, lock: None };
        for (error, count) in [(None, 2), (Some(problem), 2)] {
            result.error = error;
            let lines = annotations(&result, &job(System::GitHubActions));
            assert_eq!(lines.len(), count);
            assert!(lines.iter().all(|line| line.len() < MAX_TITLE + MAX_TEXT + 100));
            result.diagnostics.clear();
        }
    }
}
