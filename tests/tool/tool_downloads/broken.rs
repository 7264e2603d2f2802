//! Interrupted, slow and modified downloads, and how progress is shown.

use super::*;
use butler_testing::terminal::{INTERRUPT, Terminal};

#[test]
fn truncated_and_modified_archives_are_refused() {
    for (fault, message) in [
        (
            Fault::Halved,
            expect![[r"
        exit 1
        error: `<site>/terraform/1.9.8/terraform_1.9.8_<platform>.zip` is not the archive that was signed: its SHA-256 is <came>, not <signed>
        hint: do not use this download; check that the --mirror site and proxies do not modify files
    "]],
        ),
        (
            Fault::Changed,
            expect![[r"
        exit 1
        error: `<site>/terraform/1.9.8/terraform_1.9.8_<platform>.zip` is not the archive that was signed: its SHA-256 is <came>, not <signed>
        hint: do not use this download; check that the --mirror site and proxies do not modify files
    "]],
        ),
    ] {
        let site = site();
        site.inject_fault(".zip", fault);
        let machine = quiet(&site);
        let said = machine.run(&INSTALL);
        let sums = said.stderr.split_whitespace().map(|word| word.trim_end_matches(','));
        let sums: Vec<_> = sums.filter(|word| word.len() == 64).collect();
        let mut named = quiet(&site);
        named.replace_in_output(sums[0], "<came>");
        named.replace_in_output(sums[1], "<signed>");
        refused(&named.run(&INSTALL), &message, &named);
    }
}

#[test]
fn download_from_a_silent_site_times_out() {
    let site = site();
    site.inject_fault(".zip", Fault::Hanging);
    let mut machine = quiet(&site);
    machine.set("BUTLER_TOOL_TIMEOUT", "4s");
    let said = machine.run(&INSTALL);
    refused(
        &said,
        &expect![[r"
        exit 1
        error: timed out after 4 s while downloading `<site>/terraform/1.9.8/terraform_1.9.8_<platform>.zip`
        hint: check the network and HTTPS_PROXY, increase --tool-timeout, or name a reachable site with --mirror
    "]],
        &machine,
    );
}

#[test]
fn install_timeout_includes_the_choice_of_the_version() {
    let site = site();
    site.inject_fault("/index.json", Fault::Hanging);
    let machine = quiet(&site);
    let said = machine.run(&["tool", "install", "latest", "--timeout", "1s"]);
    refused(
        &said,
        &expect![[r"
        exit 1
        error: cannot list the released versions of terraform: timed out after 1 s while downloading `<site>/terraform/index.json`
        hint: check the network and HTTPS_PROXY, increase --tool-timeout, or name a reachable site with --mirror
    "]],
        &machine,
    );
}

#[test]
fn download_fails_if_every_attempt_is_interrupted() {
    let site = site();
    site.inject_fault("_SHA256SUMS", Fault::Breaking(usize::MAX));
    let machine = quiet(&site);
    let said = machine.run(&INSTALL);
    refused(
        &said,
        &expect![[r"
            exit 1
            error: the connection was lost after 49 of 98 bytes of `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS`: error decoding response body: error reading a body from connection: end of file before message length reached
            hint: check the network, HTTPS_PROXY and --ca-bundle, or name a reachable site with --mirror
        "]],
        &machine,
    );
}

/// An archive larger than one chunk, with an executable that prints `binary`.
fn large() -> Vec<u8> {
    let noise: Vec<u8> = (0..600_000).map(|_| fastrand::u8(..)).collect();
    archive(&[("noise", &noise), ("terraform", b"binary")])
}

#[test]
fn interrupted_download_resumes_at_the_last_byte() {
    let site = ReleaseSite::start_with_archives(vec![("1.9.8", large())]);
    site.inject_fault(".zip", Fault::Breaking(2));
    let machine = Machine::with_site(&site);
    installed(machine.run(&INSTALL), &machine);
    let ranges = site.seen(".zip").into_iter().map(|seen| seen.range);
    let from = ranges.map(|range| {
        let range = range.unwrap_or_else(|| "bytes=0-".to_owned());
        range.trim_start_matches("bytes=").trim_end_matches('-').parse::<usize>().unwrap()
    });
    let from: Vec<_> = from.collect();
    assert!(from.len() == 3 && from[0] == 0 && from.is_sorted(), "{from:?}");
    assert!(from[1] > 0 && from[2] < site.file(".zip").1.len(), "{from:?}");
}

#[test]
fn download_resumes_until_all_partial_responses_arrived() {
    let site = ReleaseSite::start_with_archives(vec![("1.9.8", large())]);
    site.inject_fault(".zip", Fault::Piecemeal);
    let machine = quiet(&site);
    installed(machine.run(&INSTALL), &machine);
    let ranges = site.seen(".zip").into_iter().filter(|seen| seen.range.is_some()).count();
    assert!(ranges > 3, "{ranges}");
}

#[test]
fn content_encoding_of_a_proxy_is_reported() {
    for name in ["_SHA256SUMS", ".zip"] {
        let site = site();
        site.inject_fault(name, Fault::Packed);
        let machine = quiet(&site);
        let said = machine.run(&INSTALL);
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.stderr.contains("with gzip"), "{said:?}");
        assert!(said.stderr.contains("without `Content-Encoding`"), "{said:?}");
    }
}

#[test]
fn content_length_above_the_limit_fails_without_a_download() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n";
    let mirror = format!("http://{}/", canned(answer.to_owned(), None));
    let mut machine = Machine::new();
    machine.set("BUTLER_LOG", "error");
    machine.replace_in_output(mirror.trim_end_matches('/').to_owned(), "<site>");
    refused(
        &machine.run(&[&INSTALL[..], &["--mirror", &mirror]].concat()),
        &expect![[r"
        exit 1
        error: `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS` is larger than 1048576 bytes
        hint: check that the --mirror site uses the same paths as the vendor's site
    "]],
        &machine,
    );
}

#[test]
fn rate_limit_is_distinguished_from_missing_credentials() {
    for (status, limit) in [
        ("403 Forbidden", "x-ratelimit-remaining: 0\r\nx-ratelimit-reset: 4102444800"),
        ("403 Forbidden", "retry-after: 3600"),
        ("429 Too Many Requests", "retry-after: 3600"),
    ] {
        let date = "date: Thu, 31 Dec 2099 23:00:00 GMT";
        let answer = format!(
            "HTTP/1.1 {status}\r\n{date}\r\n{limit}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
        let mirror = format!("http://{}/", canned(answer, None));
        let machine = Machine::new();
        let words = ["tool", "--product", "terragrunt", "list", "--available", "--mirror", &mirror];
        let said = machine.run(&words);
        assert_eq!(said.code, Some(1), "{said:?}");
        let message = "the rate limit of the site is exceeded; it accepts requests again in 1h\n";
        assert!(said.stderr.contains(message), "{said:?}");
        assert!(said.stderr.contains("request an exact version"), "{said:?}");
        assert!(!said.stderr.contains("retrying"), "{said:?}");
    }
}

#[test]
fn retry_after_of_the_site_delays_the_retry() {
    let answer = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let mirror = format!("http://{}/", canned(answer.to_owned(), None));
    let mut machine = Machine::new();
    machine.set("BUTLER_TOOL_TIMEOUT", "5s");
    let said = machine.run(&[
        "tool",
        "--product",
        "terragrunt",
        "list",
        "--available",
        "--mirror",
        &mirror,
    ]);
    assert!(
        said.stderr.contains("retrying error=") && said.stderr.contains("pause=1s"),
        "{said:?}"
    );
}

#[test]
fn interrupted_download_restarts_if_the_site_does_not_support_ranges() {
    let site = ReleaseSite::start_with_archives(vec![("1.9.8", large())]);
    site.disable_ranges();
    site.inject_fault(".zip", Fault::Breaking(2));
    let machine = Machine::with_site(&site);
    installed(machine.run(&INSTALL), &machine);
    let ranges = site.seen(".zip").into_iter().map(|seen| seen.range.is_some());
    assert_eq!(ranges.collect::<Vec<_>>(), [false, true, true]);
}

#[tokio::test]
async fn terminal_shows_a_temporary_progress_bar_and_a_pipe_gets_lines() {
    let noise: Vec<u8> = (0..3_000_000).map(|_| fastrand::u8(..)).collect();
    let large = archive(&[("noise", &noise), ("terraform", b"binary")]);
    let site = ReleaseSite::start_with_archives(vec![("1.9.8", large)]);
    let typed = |variables: &[(&str, &str)]| {
        let mut machine = Machine::with_site(&site);
        machine.set("PATH", search_path());
        for (name, value) in variables {
            machine.set(name, *value);
        }
        let command = tokio::process::Command::from(machine.command(&INSTALL));
        (machine, command)
    };
    let bar = "-] 1.5 of ";
    site.inject_fault(".zip", Fault::Hanging);
    for variables in [&[][..], &[("NO_COLOR", "1")]] {
        let (_machine, command) = typed(variables);
        let terminal = Terminal::new(24, 120);
        let child = terminal.start(&command);
        terminal.wait_until("half a bar", |text| text.contains(bar)).await;
        terminal.press(INTERRUPT);
        assert!(!terminal.finish(child).await.status.success());
        assert!(!terminal.text().contains("MB ("), "{}", terminal.text());
    }
    site.remove_faults();
    for variables in [("TERM", "dumb"), ("CI", "true")] {
        let (machine, command) = typed(&[variables, ("NO_COLOR", "1")]);
        let terminal = Terminal::new(24, 300);
        let output = terminal.finish(terminal.start(&command)).await;
        assert!(output.status.success(), "{}", terminal.text());
        assert!(!terminal.raw().contains("\u{1b}["), "{:?}", terminal.raw());
        let path = machine.installation("terraform", "1.9.8").join("terraform");
        assert!(terminal.text().contains(path.to_str().unwrap()), "{}", terminal.text());
    }

    let mut machine = Machine::with_site(&site);
    machine.set("TERM", "xterm");
    let said = machine.run(&INSTALL).expect_success();
    assert!(!said.stderr.contains("MB (") && !said.stderr.contains('\r'), "{said:?}");
    assert!(said.stderr.contains("downloading http://127.0.0.1"), "{said:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn disk_full_error_names_the_cache_and_not_the_mirror_directory() {
    use std::process::Command;

    use butler_testing::environment::search_path;
    use butler_testing::world::unshare;

    let binary: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(1 << 20).collect();
    let site = ReleaseSite::start(&[("1.9.8", &binary)]);
    let machine = Machine::with_site(&site);
    site.write_to(&machine.path("media"));
    std::fs::create_dir(machine.path("cache")).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=512k none '{}'; exec \"$0\" \"$@\"",
        machine.path("cache").display()
    );
    let words = unshare(&["--mount", "/bin/sh", "-e", "-c", script.as_str()]);
    let url = url::Url::from_file_path(machine.path("media")).unwrap();
    let install = machine.command(&["tool", "install", "1.9.8", "--mirror", url.as_str()]);
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(install.get_program()).args(install.get_args()).env_clear();
    command.envs(install.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let said = machine.output_of(&command.env("PATH", search_path()).output().unwrap());
    assert_eq!(said.code, Some(1), "{said:?}");
    let error = said.stderr.lines().find(|line| line.starts_with("error: ")).unwrap();
    assert!(error.contains("cannot store a download in `"), "{error}");
    assert!(error.contains("/cache/terraform`: No space left on device"), "{error}");
}
