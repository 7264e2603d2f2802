//! Where releases come from: mirrors, credentials, proxies, certificates, what breaks on the way,
//! and machines without network.

use std::path::Path;

use butler_runner::settings::{FOREIGN_KEYS, FOREIGN_MIRRORS, ForeignMirror};
use expect_test::{Expect, expect};

use crate::support::authority::Authority;
use crate::support::canned::canned;
use crate::support::documented::assert_documented;
use crate::support::environment::{find_program, search_path};
use crate::support::forward_proxy::ForwardProxy;
use crate::support::machine::{Machine, Said};
use crate::support::release_site::{Fault, ReleaseSite, archive, platform, stand_in};

const INSTALL: [&str; 3] = ["tool", "install", "1.9.8"];

/// `user` and `hunter2` as `Authorization` has them.
const BASIC: &str = "Basic dXNlcjpodW50ZXIy";

fn site() -> ReleaseSite {
    ReleaseSite::start(&[("1.9.8", b"binary")])
}

/// A machine that says nothing but errors.
fn quiet(site: &ReleaseSite) -> Machine {
    let mut machine = Machine::with_site(site);
    machine.set("BUTLER_LOG", "error");
    machine
}

fn installed(said: Said, machine: &Machine) {
    let said = said.well();
    assert_eq!(said.printed_path(), machine.kept("terraform", "1.9.8").join("terraform"));
    assert_eq!(std::fs::read(said.printed_path()).unwrap(), b"binary");
}

fn refused(said: &Said, message: &Expect, machine: &Machine) {
    assert_eq!(said.code, Some(1), "{said:?}");
    message.assert_eq(&said.shown().replace(&platform(), "<platform>"));
    assert!(!machine.kept("terraform", "1.9.8").exists());
    assert!(!said.stderr.contains("hunter2"), "{said:?}");
}

fn record(machine: &Machine, version: &str) -> serde_json::Value {
    let path = machine.kept("terraform", version).join("install.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn redirects_are_followed_without_the_mirrors_credentials() {
    let (mirror, store) = (site(), site());
    mirror.lead_to(&store.url());
    let mut machine = Machine::with_site(&mirror);
    machine.set("BUTLER_SIGNING_KEY", store.key_file());
    machine.set("BUTLER_MIRROR_TOKEN", "hunter2");
    installed(machine.run(&INSTALL), &machine);
    let authorizations = |site: &ReleaseSite| -> Vec<_> {
        site.seen("").into_iter().map(|seen| seen.authorization).collect()
    };
    assert_eq!(authorizations(&mirror), vec![Some("Bearer hunter2".to_owned()); 3]);
    assert_eq!(authorizations(&store), vec![None; 3]);
}

#[test]
fn redirects_without_an_end_are_given_up() {
    let site = site();
    site.misbehave("_SHA256SUMS", Fault::Looping);
    let machine = quiet(&site);
    let said = machine.run(&INSTALL);
    refused(
        &said,
        &expect![[r"
        exit 1
        error: `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS` is redirected more than 10 times
        hint: the site leads in a circle: check its configuration, and that --mirror is its address
    "]],
        &machine,
    );
}

#[test]
fn redirect_from_https_to_http_is_refused() {
    let (authority, store) = (Authority::create(), site());
    let mirror = ReleaseSite::start_with_tls(&authority, "1.9.8");
    mirror.lead_to(&store.url());
    let mut machine = quiet(&mirror);
    machine.call(store.url().as_str().trim_end_matches('/'), "<store>");
    machine.set("BUTLER_CA_BUNDLE", authority.bundle());
    let said = machine.run(&INSTALL);
    refused(
        &said,
        &expect![[r"
        exit 1
        error: `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS` is redirected to `<store>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS`, which is not followed
        hint: check where --mirror leads: from https only https is followed, from http both are
    "]],
        &machine,
    );
    assert!(store.requests().is_empty());
}

#[test]
fn mirror_that_wants_a_login_says_how_to_give_one() {
    let site = site();
    site.demand(BASIC);
    let mut machine = quiet(&site);
    let said = machine.run(&INSTALL);
    refused(
        &said,
        &expect![[r"
        exit 1
        error: `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS` was answered with 401 Unauthorized: asked without a login
        hint: say who asks with BUTLER_MIRROR_USER and BUTLER_MIRROR_PASSWORD, BUTLER_MIRROR_TOKEN, or an entry for the host in ~/.netrc; vendors' sites are never told
    "]],
        &machine,
    );
    machine.set("BUTLER_MIRROR_TOKEN", "hunter2");
    let said = machine.run(&INSTALL);
    refused(
        &said,
        &expect![[r"
        exit 1
        error: `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS` was answered with 401 Unauthorized: asked with BUTLER_MIRROR_TOKEN
        hint: check that this login may read there, and that it has not expired
    "]],
        &machine,
    );
}

#[test]
fn each_way_to_give_a_login_is_taken() {
    let site = site();
    site.demand(BASIC);
    let url = site.url();
    let with_login = url.as_str().replace("http://", "http://user:hunter2@");
    let ways: [&dyn Fn(&mut Machine); 5] = [
        &|machine| machine.set("BUTLER_MIRROR", &with_login),
        &|machine| {
            machine.set("BUTLER_MIRROR_USER", "user");
            machine.set("BUTLER_MIRROR_PASSWORD", "hunter2");
        },
        &|machine| {
            let text = "machine 127.0.0.1 login user password hunter2";
            std::fs::write(machine.path("home/.netrc"), text).unwrap();
        },
        &|machine| {
            std::fs::write(machine.path("logins"), "default login user password hunter2").unwrap();
            machine.set("NETRC", machine.path("logins"));
        },
        &|machine| {
            machine.set("BUTLER_MIRROR", "");
            machine.set("TFENV_REMOTE", url.as_str());
            machine.set("TFENV_REMOTE_USER", "user");
            machine.set("TFENV_REMOTE_PASSWORD", "hunter2");
        },
    ];
    for way in ways {
        let mut machine = Machine::with_site(&site);
        machine.set("BUTLER_LOG", "trace");
        way(&mut machine);
        let said = machine.run(&INSTALL);
        assert!(!said.stderr.contains("hunter2"), "{said:?}");
        installed(said, &machine);
        assert!(!record(&machine, "1.9.8").to_string().contains("hunter2"));
    }
}

#[test]
fn url_of_another_origin_is_not_told_the_mirrors_login() {
    let (mirror, other) = (site(), site());
    let authorizations = |site: &ReleaseSite| -> Vec<_> {
        site.seen("").into_iter().map(|seen| seen.authorization).collect()
    };
    for variable in ["BUTLER_MIRROR", "TFENV_REMOTE", "UNUSED"] {
        let archive = other.file(".zip").0;
        for url in [other.url(), other.url().join(&archive).unwrap()] {
            let mut machine = Machine::new();
            machine.set("BUTLER_SIGNING_KEY", other.key_file());
            machine.set(variable, mirror.url().as_str());
            machine.set("BUTLER_MIRROR_TOKEN", "hunter2");
            let before = other.seen("").len();
            installed(machine.run(&[&INSTALL[..], &["--url", url.as_str()]].concat()), &machine);
            assert_eq!(authorizations(&other)[before..], [None, None, None], "{variable} {url}");
        }
    }
    assert!(mirror.requests().is_empty());
    // The mirror itself is told, whatever of it is asked for.
    let mut machine = Machine::with_site(&mirror);
    machine.set("BUTLER_MIRROR_TOKEN", "hunter2");
    let url = mirror.url();
    installed(machine.run(&[&INSTALL[..], &["--url", url.as_str()]].concat()), &machine);
    assert_eq!(authorizations(&mirror), vec![Some("Bearer hunter2".to_owned()); 3]);
}

#[test]
fn mirror_with_a_certificate_of_an_own_authority_needs_it_named() {
    let authority = Authority::create();
    let site = ReleaseSite::start_with_tls(&authority, "1.9.8");
    let mut machine = quiet(&site);
    let said = machine.run(&INSTALL);
    let place = said.stderr.split("certificate verify failed:").nth(1).unwrap();
    machine.call(place.split(": (").next().unwrap(), "<place>");
    let said = machine.run(&INSTALL);
    refused(
        &said,
        &expect![[r"
        exit 1
        error: cannot fetch `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS`: error sending request: client error (Connect): error:0A000086:SSL routines:tls_post_process_server_certificate:certificate verify failed:<place>: (unable to get local issuer certificate)
        hint: if the site's certificate is by an authority of your own, name that authority's certificate with --ca-bundle
    "]],
        &machine,
    );
    for variable in ["BUTLER_CA_BUNDLE", "SSL_CERT_FILE"] {
        let mut machine = Machine::with_site(&site);
        machine.set(variable, authority.bundle());
        installed(machine.run(&INSTALL), &machine);
    }
}

#[test]
fn proxy_is_used_with_its_login_and_spared_where_it_is_not_wanted() {
    let authority = Authority::create();
    let secure = ReleaseSite::start_with_tls(&authority, "1.9.8");
    let plain = site();
    for (site, variable, way) in
        [(&secure, "HTTPS_PROXY", "CONNECT 127.0.0.1:"), (&plain, "HTTP_PROXY", "GET http://127.")]
    {
        let proxy = ForwardProxy::start(Some(BASIC));
        let mut machine = quiet(site);
        machine.set("BUTLER_CA_BUNDLE", authority.bundle());
        machine.set(variable, proxy.url("user:hunter2@"));
        installed(machine.run(&INSTALL), &machine);
        assert!(proxy.asked().iter().all(|line| line.starts_with(way)), "{:?}", proxy.asked());
        let asked = proxy.asked().len();
        assert!(asked > 0);

        let mut machine = quiet(site);
        machine.set("BUTLER_CA_BUNDLE", authority.bundle());
        machine.set("ALL_PROXY", proxy.url("user:hunter2@"));
        machine.set("NO_PROXY", "127.0.0.1");
        installed(machine.run(&INSTALL), &machine);
        assert_eq!(proxy.asked().len(), asked);
    }
}

#[test]
fn proxy_that_refuses_is_named_as_what_refuses() {
    let authority = Authority::create();
    let secure = ReleaseSite::start_with_tls(&authority, "1.9.8");
    let plain = site();
    for (site, variable, message) in [
        (
            &secure,
            "HTTPS_PROXY",
            expect![[r"
            exit 1
            error: cannot fetch `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS`: error sending request: client error (Connect): tunnel error: proxy authorization required
            hint: check HTTPS_PROXY and HTTP_PROXY, with user and password in the URL where the proxy wants them, or exempt the site with NO_PROXY
        "]],
        ),
        (
            &plain,
            "HTTP_PROXY",
            expect![[r"
            exit 1
            error: the proxy refused to hand `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS` on: 407 Proxy Authentication Required
            hint: check HTTPS_PROXY and HTTP_PROXY, with user and password in the URL where the proxy wants them, or exempt the site with NO_PROXY
        "]],
        ),
    ] {
        let proxy = ForwardProxy::start(Some(BASIC));
        let mut machine = quiet(site);
        machine.set("BUTLER_CA_BUNDLE", authority.bundle());
        machine.set(variable, proxy.url("user:hunter3@"));
        let said = machine.run(&INSTALL);
        refused(&said, &message, &machine);
        assert!(!said.stderr.contains("hunter3"));
    }
}

#[test]
fn truncated_and_tampered_archives_are_refused() {
    for (fault, message) in [
        (
            Fault::Halved,
            expect![[r"
        exit 1
        error: `<site>/terraform/1.9.8/terraform_1.9.8_<platform>.zip` is not the archive that was signed: its SHA-256 is <came>, not <signed>
        hint: do not use this download; check that --mirror and proxies hand files on unchanged
    "]],
        ),
        (
            Fault::Changed,
            expect![[r"
        exit 1
        error: `<site>/terraform/1.9.8/terraform_1.9.8_<platform>.zip` is not the archive that was signed: its SHA-256 is <came>, not <signed>
        hint: do not use this download; check that --mirror and proxies hand files on unchanged
    "]],
        ),
    ] {
        let site = site();
        site.misbehave(".zip", fault);
        let machine = quiet(&site);
        let said = machine.run(&INSTALL);
        let sums = said.stderr.split_whitespace().map(|word| word.trim_end_matches(','));
        let sums: Vec<_> = sums.filter(|word| word.len() == 64).collect();
        let mut named = quiet(&site);
        named.call(sums[0], "<came>");
        named.call(sums[1], "<signed>");
        refused(&named.run(&INSTALL), &message, &named);
    }
}

#[test]
fn site_that_goes_silent_is_given_up_in_time() {
    let site = site();
    site.misbehave(".zip", Fault::Hanging);
    let mut machine = quiet(&site);
    machine.set("BUTLER_TOOL_TIMEOUT", "1s");
    let said = machine.run(&INSTALL);
    refused(
        &said,
        &expect![[r"
        exit 1
        error: gave up on `<site>/terraform/1.9.8/terraform_1.9.8_<platform>.zip` after 1 s
        hint: check the network and HTTPS_PROXY, give it longer with --tool-timeout, or name a site that can be reached with --mirror
    "]],
        &machine,
    );
}

#[test]
fn choice_of_a_version_is_part_of_the_time_that_an_install_has() {
    let site = site();
    site.misbehave("/index.json", Fault::Hanging);
    let machine = quiet(&site);
    let said = machine.run(&["tool", "install", "latest", "--timeout", "1s"]);
    refused(
        &said,
        &expect![[r"
        exit 1
        error: cannot find out which versions of terraform are released: gave up on `<site>/terraform/index.json` after 1 s
        hint: check the network and HTTPS_PROXY, give it longer with --tool-timeout, or name a site that can be reached with --mirror
    "]],
        &machine,
    );
}

#[test]
fn site_that_breaks_off_every_time_is_given_up() {
    let site = site();
    site.misbehave("_SHA256SUMS", Fault::Breaking(usize::MAX));
    let machine = quiet(&site);
    let said = machine.run(&INSTALL);
    refused(
        &said,
        &expect![[r"
            exit 1
            error: `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS` broke off after 49 of 98 bytes: error decoding response body: error reading a body from connection: end of file before message length reached
            hint: check the network, HTTPS_PROXY and --ca-bundle, or name a site that can be reached with --mirror
        "]],
        &machine,
    );
}

/// An archive that does not fit into one piece, with an executable that says `binary` in it.
fn large() -> Vec<u8> {
    let noise: Vec<u8> = (0..600_000).map(|_| fastrand::u8(..)).collect();
    archive(&[("noise", &noise), ("terraform", b"binary")])
}

#[test]
fn broken_download_goes_on_where_it_broke_off() {
    let site = ReleaseSite::start_with_archives(vec![("1.9.8", large())]);
    site.misbehave(".zip", Fault::Breaking(2));
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
fn rest_that_comes_in_parts_is_asked_for_until_all_is_there() {
    let site = ReleaseSite::start_with_archives(vec![("1.9.8", large())]);
    site.misbehave(".zip", Fault::Piecemeal);
    let machine = quiet(&site);
    installed(machine.run(&INSTALL), &machine);
    let ranges = site.seen(".zip").into_iter().filter(|seen| seen.range.is_some()).count();
    assert!(ranges > 3, "{ranges}");
}

#[test]
fn file_that_is_packed_on_the_way_is_called_that() {
    for name in ["_SHA256SUMS", ".zip"] {
        let site = site();
        site.misbehave(name, Fault::Packed);
        let machine = quiet(&site);
        let said = machine.run(&INSTALL);
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.stderr.contains("was answered with the gzip of it"), "{said:?}");
        assert!(said.stderr.contains("without `Content-Encoding`"), "{said:?}");
    }
}

#[test]
fn file_that_is_said_to_be_too_large_is_not_waited_for() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n";
    let mirror = format!("http://{}/", canned(answer.to_owned(), None));
    let mut machine = Machine::new();
    machine.set("BUTLER_LOG", "error");
    machine.call(mirror.trim_end_matches('/').to_owned(), "<site>");
    refused(
        &machine.run(&[&INSTALL[..], &["--mirror", &mirror]].concat()),
        &expect![[r"
        exit 1
        error: `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS` is larger than 1048576 bytes
        hint: check that --mirror keeps the paths of the vendor's site
    "]],
        &machine,
    );
}

#[test]
fn limit_of_requests_is_told_from_a_login_that_is_missing() {
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
        let words = ["terragrunt", "list", "--available", "--mirror", &mirror];
        let said = machine.run(&words);
        assert_eq!(said.code, Some(1), "{said:?}");
        let message = "limits how often it is asked, and wants to be left alone for 1h\n";
        assert!(said.stderr.contains(message), "{said:?}");
        assert!(said.stderr.contains("name an exact version"), "{said:?}");
        assert!(!said.stderr.contains("trying again"), "{said:?}");
    }
}

#[test]
fn site_that_asks_for_a_rest_gets_it_and_is_asked_again() {
    let answer = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let mirror = format!("http://{}/", canned(answer.to_owned(), None));
    let mut machine = Machine::new();
    machine.set("BUTLER_TOOL_TIMEOUT", "2s");
    let said = machine.run(&["terragrunt", "list", "--available", "--mirror", &mirror]);
    assert!(
        said.stderr.contains("trying again error=") && said.stderr.contains("pause=1s"),
        "{said:?}"
    );
}

#[test]
fn broken_download_begins_anew_where_the_site_hands_out_whole_files_only() {
    let site = ReleaseSite::start_with_archives(vec![("1.9.8", large())]);
    site.forget_ranges();
    site.misbehave(".zip", Fault::Breaking(2));
    let machine = Machine::with_site(&site);
    installed(machine.run(&INSTALL), &machine);
    let ranges = site.seen(".zip").into_iter().map(|seen| seen.range.is_some());
    assert_eq!(ranges.collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn directory_and_tar_of_it_serve_as_mirrors_and_as_urls() {
    let site = site();
    let machine = Machine::new();
    site.write_to(&machine.path("media/bundle"));
    let mut tar = tar::Builder::new(std::fs::File::create(machine.path("media/b.tar")).unwrap());
    tar.append_dir_all(".", machine.path("media/bundle")).unwrap();
    tar.into_inner().unwrap();
    let media = url::Url::from_file_path(machine.path("media")).unwrap();
    for place in ["bundle", "bundle/", "b.tar"] {
        let url = format!("{media}/{place}");
        for flag in ["--mirror", "--url"] {
            let mut machine = Machine::new();
            machine.set("BUTLER_SIGNING_KEY", site.key_file());
            installed(machine.run(&[&INSTALL[..], &[flag, &url]].concat()), &machine);
            // The keys of others are not trusted for being on a disk.
            let machine = Machine::new();
            let said = machine.run(&[&INSTALL[..], &[flag, &url]].concat());
            assert!(said.stderr.contains("unknown key"), "{said:?}");
        }
    }
    assert!(site.requests().is_empty());
}

#[test]
fn version_that_a_directory_does_not_have_is_named() {
    let site = site();
    let mut machine = Machine::new();
    machine.set("BUTLER_LOG", "error");
    site.write_to(&machine.path("media"));
    let url = url::Url::from_file_path(machine.path("media")).unwrap();
    let said = machine.run(&["tool", "install", "1.9.9", "--mirror", url.as_str()]);
    refused(
        &said,
        &expect![[r"
        exit 1
        error: terraform 1.9.9 was not found at `file://<machine>/media/terraform/1.9.9/terraform_1.9.9_SHA256SUMS`: `file://<machine>/media/terraform/1.9.9/terraform_1.9.9_SHA256SUMS` does not exist
        hint: check that version 1.9.9 exists, and that --mirror has it
    "]],
        &machine,
    );
}

/// A server with nothing but the archive, under a name of its own.
fn bare_archive(place: &Path, executable: &str) -> (url::Url, String) {
    use sha2::Digest;
    let archive = archive(&[("terraform", executable.as_bytes())]);
    let path = place.join("ours.zip");
    std::fs::write(&path, &archive).unwrap();
    let sum = format!("sha256:{}", hex::encode(sha2::Sha256::digest(&archive)));
    (url::Url::from_file_path(path).unwrap(), sum)
}

#[test]
fn url_with_its_checksum_is_trusted_without_a_signature_and_the_record_says_so() {
    let machine = Machine::new();
    let (url, sum) = bare_archive(&machine.path("tmp"), &stand_in("1.9.8"));
    let words = [&INSTALL[..], &["--url", url.as_str(), "--checksum", &sum]].concat();
    let said = machine.run(&words).well();
    assert_eq!(std::fs::read_to_string(said.printed_path()).unwrap(), stand_in("1.9.8"));
    let record = record(&machine, "1.9.8");
    assert_eq!(record["signer"], "none, checksum given by the user");
    assert_eq!(record["archiveUrl"], url.as_str());
    assert_eq!(format!("sha256:{}", record["archiveSha256"].as_str().unwrap()), sum);
    // It is there now; who gives another sum does not get it for the one that was meant.
    machine.run(&words).well();
    let other = format!("sha256:{}", "0".repeat(64));
    let said = machine.run(&[&INSTALL[..], &["--checksum", &other]].concat());
    assert!(said.stderr.contains("is installed from another archive"), "{said:?}");
    assert_eq!(said.code, Some(1));
}

#[test]
fn archive_of_another_version_is_not_installed_for_its_sum() {
    let mut machine = Machine::new();
    machine.set("BUTLER_LOG", "error");
    let (url, sum) = bare_archive(&machine.path("tmp"), &stand_in("1.5.7"));
    let words = [&INSTALL[..], &["--url", url.as_str(), "--checksum", &sum]].concat();
    refused(
        &machine.run(&words),
        &expect![[r"
        exit 1
        error: what `file://<machine>/tmp/ours.zip` holds as terraform 1.9.8 is version 1.5.7
        hint: do not use this download; check --url, and that --mirror and proxies hand files on unchanged
    "]],
        &machine,
    );
}

#[test]
fn url_without_a_checksum_needs_the_signed_one_beside_it() {
    let mut machine = Machine::new();
    machine.set("BUTLER_LOG", "error");
    let (url, _) = bare_archive(&machine.path("tmp"), "binary");
    let words = [&INSTALL[..], &["--url", url.as_str()]].concat();
    let said = machine.run(&words);
    refused(
        &said,
        &expect![[r"
        exit 1
        error: there is no checksum file beside the archive of terraform 1.9.8: `file://<machine>/tmp/terraform_1.9.8_SHA256SUMS` does not exist
        hint: give the archive's sum with --checksum sha256:HEX, or put the vendor's checksum file and its signature beside it
    "]],
        &machine,
    );

    let site = site();
    machine.set("BUTLER_SIGNING_KEY", site.key_file());
    for name in ["_SHA256SUMS", "_SHA256SUMS.sig"] {
        let (path, content) = site.file(name);
        let name = path.rsplit('/').next().unwrap();
        std::fs::write(machine.path("tmp").join(name), content).unwrap();
    }
    // What is signed is the site's archive and not ours, which has other files in it.
    let said = machine.run(&words);
    assert!(said.stderr.contains("is not the archive that was signed"), "{said:?}");
    std::fs::write(machine.path("tmp/ours.zip"), site.file(".zip").1).unwrap();
    installed(machine.run(&words), &machine);
    assert!(record(&machine, "1.9.8")["signer"].as_str().unwrap().len() == 40);
}

#[test]
fn checksum_without_a_url_is_checked_in_addition_to_the_signature() {
    use sha2::Digest;
    let site = site();
    let sum = hex::encode(sha2::Sha256::digest(site.file(".zip").1));
    let mut machine = quiet(&site);
    machine.call(sum.clone(), "<signed>");
    let with = |sum: &str| {
        let sum = format!("sha256:{sum}");
        machine.run(&[&INSTALL[..], &["--checksum", &sum]].concat())
    };
    let said = with(&"0".repeat(64));
    refused(
        &said,
        &expect![[r"
        exit 1
        error: `<site>/terraform/1.9.8/terraform_1.9.8_<platform>.zip` is not the archive that was asked for with --checksum: its SHA-256 is <signed>, not 0000000000000000000000000000000000000000000000000000000000000000
        hint: do not use this download; check the URL and the sum, which is that of the archive and not of the executable in it
    "]],
        &machine,
    );
    assert!(site.seen(".zip").is_empty(), "what was signed is known before");
    site.misbehave("SHA256SUMS.72D7468F.sig", Fault::ByAnother);
    assert!(with(&sum).stderr.contains("unknown key"));
    site.behave();
    installed(with(&sum), &machine);
}

#[test]
fn what_is_no_url_and_no_checksum_is_a_mistake_that_shows_nothing() {
    let machine = Machine::new();
    for words in [
        ["--url", "hunter2"],
        ["--url", "ftp://user:hunter2@mirror.example/a.zip"],
        ["--url", "file://hunter2/a.zip"],
        ["--url", "https://user:hunter2@mirror.example/a.zip#sha256"],
        ["--checksum", "hunter2"],
        ["--checksum", "sha256:hunter2"],
    ] {
        let said = machine.run(&[&INSTALL[..], &words].concat());
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.contains(words[0]), "{said:?}");
        assert!(!said.stderr.contains("user:hunter2"), "{said:?}");
    }
}

#[test]
fn bundle_installs_on_a_machine_without_network() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary"), ("opentofu-1.8.5", b"tofu")]);
    let machine = Machine::with_site(&site);
    for output in ["carried.tar", "carried"] {
        let words = ["tool", "bundle", "1.9.8", "opentofu-1.8.5", "--json", "--output", output];
        let said = machine.run(&words).well();
        assert_eq!(said.json()["output"], machine.path(output).display().to_string());
        assert_eq!(said.json()["platforms"], serde_json::json!([platform()]));

        let url = url::Url::from_file_path(machine.path(output)).unwrap();
        let mut there = Machine::new();
        there.set("BUTLER_SIGNING_KEY", site.key_file());
        there.set("HTTP_PROXY", "http://127.0.0.1:1");
        installed(there.run(&[&INSTALL[..], &["--url", url.as_str()]].concat()), &there);
        let words = ["tool", "install", "opentofu-1.8.5", "--mirror", url.as_str()];
        assert_eq!(std::fs::read(there.run(&words).well().printed_path()).unwrap(), b"tofu");
        let said = there.run(&["tool", "install", "1.9.9", "--url", url.as_str()]);
        assert!(said.stderr.contains("terraform 1.9.9 was not found"), "{said:?}");
    }
}

#[test]
fn bundle_grows_and_fetches_nothing_twice() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary"), ("1.9.9", b"another")]);
    let machine = Machine::with_site(&site);
    machine.run(&["tool", "bundle", "1.9.8", "--output", "carried"]).well();
    machine.run(&["tool", "bundle", "1.9.8", "1.9.9", "--output", "carried"]).well();
    let of = |version: &str| site.seen(&format!("terraform_{version}_{}.zip", platform())).len();
    assert_eq!((of("1.9.8"), of("1.9.9")), (1, 1));
    let index = std::fs::read(machine.path("carried/terraform/index.json")).unwrap();
    let index: serde_json::Value = serde_json::from_slice(&index).unwrap();
    let versions: Vec<_> = index["versions"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(versions, ["1.9.8", "1.9.9"]);
    let build = &index["versions"]["1.9.8"]["builds"][0];
    assert_eq!(build["filename"], format!("terraform_1.9.8_{}.zip", platform()));
}

#[test]
fn bundle_is_the_same_for_the_same_releases() {
    let site = ReleaseSite::start(&[
        ("1.9.8", b"binary"),
        ("1.10.0", b"another"),
        ("opentofu-1.8.5", b"tofu"),
    ]);
    let machine = Machine::with_site(&site);
    let tar = |words: &[&str], name: &str| {
        machine.run(&[&["tool", "bundle", "--output", name], words].concat()).well();
        std::fs::read(machine.path(name)).unwrap()
    };
    let one = tar(&["1.9.8", "opentofu-1.8.5", "1.10.0"], "one.tar");
    assert!(one == tar(&["opentofu-1.8.5", "1.10.0", "1.9.8", "1.9.8"], "other.tar"));
    let mut one = tar::Archive::new(one.as_slice());
    let names = one.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().into_owned());
    let names: Vec<_> = names.collect();
    assert!(names.is_sorted(), "{names:?}");
}

/// What is being made or was left in the directory of the machine.
fn half_made(machine: &Machine) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(machine.path("")).unwrap().map(|entry| entry.unwrap().path());
    let is_hidden =
        |path: &std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with('.');
    entries.filter(is_hidden).collect()
}

#[tokio::test]
async fn bundle_that_is_interrupted_leaves_nothing_and_one_that_is_killed_nothing_for_long() {
    use nix::sys::signal::{Signal, kill};
    let site = ReleaseSite::start(&[("1.9.8", b"binary"), ("1.9.9", b"another")]);
    let held = &*format!("terraform_1.9.9_{}.zip", platform());
    site.misbehave(held, Fault::Held);
    let machine = Machine::with_site(&site);
    for (count, signal) in
        [Signal::SIGTERM, Signal::SIGINT, Signal::SIGKILL].into_iter().enumerate()
    {
        let mut child = machine.command(&["tool", "bundle", "1.9.9"]).spawn().unwrap();
        site.asked_for_times(held, count + 1).await;
        assert_eq!(half_made(&machine).len(), 1);
        kill(nix::unistd::Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
        let status = child.wait().unwrap();
        if signal == Signal::SIGKILL {
            assert_eq!(half_made(&machine).len(), 1);
        } else {
            assert_eq!(status.code(), Some(128 + signal as i32));
            assert!(half_made(&machine).is_empty());
        }
    }
    // Who comes next tidies up, but takes nothing from somebody who is still at work.
    let child = machine.command(&["tool", "bundle", "1.9.9"]).spawn().unwrap();
    site.asked_for_times(held, 4).await;
    assert_eq!(half_made(&machine).len(), 1);
    machine.run(&["tool", "bundle", "1.9.8", "--output", "other.tar"]).well();
    assert_eq!(half_made(&machine).len(), 1);
    site.behave();
    machine.said(&child.wait_with_output().unwrap()).well();
    assert!(half_made(&machine).is_empty());
    assert!(machine.path("bundle.tar").exists());
}

#[tokio::test]
async fn bundles_that_are_written_to_one_directory_lose_nothing() {
    use std::io::BufRead;
    let site = ReleaseSite::start(&[("1.9.8", b"binary"), ("1.9.9", b"another")]);
    let held = &*format!("terraform_1.9.9_{}.zip", platform());
    site.misbehave(held, Fault::Held);
    let machine = Machine::with_site(&site);
    let first = machine.command(&["tool", "bundle", "1.9.9", "--output", "carried"]).spawn();
    site.asked_for(held).await;
    let second = machine.command(&["tool", "bundle", "1.9.8", "--output", "carried"]).spawn();
    let mut second = second.unwrap();
    let mut lines = std::io::BufReader::new(second.stderr.take().unwrap()).lines();
    let waits = lines.any(|line| line.unwrap().contains("waiting for another process that writes"));
    assert!(waits);
    site.behave();
    machine.said(&first.unwrap().wait_with_output().unwrap()).well();
    assert!(lines.all(|line| line.is_ok()) && second.wait().unwrap().success());
    let list = std::fs::read(machine.path("carried/terraform/index.json")).unwrap();
    let list: serde_json::Value = serde_json::from_slice(&list).unwrap();
    let versions: Vec<_> = list["versions"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(versions, ["1.9.8", "1.9.9"]);
}

#[test]
fn list_that_is_none_is_not_replaced() {
    let site = site();
    let mut machine = quiet(&site);
    machine.call(platform(), "<platform>");
    let list = machine.path("carried/terraform/index.json");
    std::fs::create_dir_all(list.parent().unwrap()).unwrap();
    for text in ["{\"versions\": []}", "{"] {
        std::fs::write(&list, text).unwrap();
        let said = machine.run(&["tool", "bundle", "1.9.8", "--output", "carried"]);
        assert_eq!(said.code, Some(1), "{said:?}");
        let message = "carried/terraform/index.json` is not the list of versions of a bundle";
        assert!(said.stderr.contains(message), "{said:?}");
        assert_eq!(std::fs::read_to_string(&list).unwrap(), text);
    }
    assert!(site.requests().is_empty());
}

#[test]
fn compressed_bundle_is_neither_written_nor_read() {
    let site = site();
    let machine = quiet(&site);
    for name in ["b.tar.gz", "b.tgz", "b.zip"] {
        let said = machine.run(&["tool", "bundle", "1.9.8", "--output", name]);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.contains("a tar that is not compressed"), "{said:?}");
        assert!(!machine.path(name).exists());
    }
    std::fs::write(machine.path("b.tar.gz"), b"\x1f\x8b\x08\0\0\0").unwrap();
    let url = url::Url::from_file_path(machine.path("b.tar.gz")).unwrap();
    for flag in ["--mirror", "--url"] {
        let said = machine.run(&[&INSTALL[..], &[flag, url.as_str()]].concat());
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.stderr.contains("only a plain tar is read"), "{said:?}");
    }
}

#[test]
fn bundle_is_refused_what_an_installation_is_refused() {
    let site = site();
    site.misbehave(".zip", Fault::Changed);
    let mut machine = Machine::with_site(&site);
    let said = machine.run(&["tool", "bundle", "1.9.8"]);
    assert!(said.stderr.contains("is not the archive that was signed"), "{said:?}");
    assert!(!machine.path("bundle.tar").exists());
    site.behave();
    let said = machine.run(&["tool", "bundle", "1.9.8", "--platform", "plan9_mips"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    let said = machine.run(&["tool", "bundle", "1.9.8", "--platform", "windows_386"]);
    assert!(said.stderr.contains("does not name `terraform_1.9.8_windows_386.zip`"), "{said:?}");
    machine.set("BUTLER_SIGNING_KEY", "");
    let said = machine.run(&["tool", "bundle", "1.9.8"]);
    assert!(said.stderr.contains("unknown key"), "{said:?}");
    assert!(!machine.path("bundle.tar").exists());
}

#[test]
fn terminal_gets_a_bar_and_a_pipe_gets_lines() {
    let noise: Vec<u8> = (0..3_000_000).map(|_| fastrand::u8(..)).collect();
    let large = archive(&[("noise", &noise), ("terraform", b"binary")]);
    let site = ReleaseSite::start_with_archives(vec![("1.9.8", large)]);
    let on_terminal = |variables: &[(&str, &str)]| {
        let mut machine = Machine::with_site(&site);
        machine.set("PATH", search_path());
        for (name, value) in variables {
            machine.set(name, *value);
        }
        // Python lends the command a terminal, and hands on what it shows there.
        let lend = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
        let mut command = std::process::Command::new(find_program("python3").unwrap());
        let typed = machine.command(&INSTALL);
        command.args(["-c", lend]).arg(typed.get_program()).args(typed.get_args()).env_clear();
        command.envs(typed.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = command.stdin(std::process::Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let bar = "MB (";
    let shown = on_terminal(&[("TERM", "xterm")]);
    assert!(shown.contains(bar) && shown.contains("\r\u{1b}[K["), "{shown:?}");
    // What is left is the line of the log and the path.
    let (_, after) = shown.rsplit_once("\r\u{1b}[K").unwrap();
    assert!(!after.contains(bar) && after.contains("/terraform/1.9.8/terraform"), "{shown:?}");
    assert!(on_terminal(&[("TERM", "xterm"), ("NO_COLOR", "1")]).contains(bar));
    assert!(!on_terminal(&[("TERM", "dumb")]).contains(bar));
    assert!(!on_terminal(&[]).contains(bar));

    let mut machine = Machine::with_site(&site);
    machine.set("TERM", "xterm");
    let said = machine.run(&INSTALL).well();
    assert!(!said.stderr.contains(bar) && !said.stderr.contains('\r'), "{said:?}");
    assert!(said.stderr.contains("downloading http://127.0.0.1"), "{said:?}");
}

#[test]
fn tables_of_other_tools_variables_are_those_of_the_documentation() {
    let rows: Vec<_> = FOREIGN_MIRRORS.iter().map(ForeignMirror::row).collect();
    assert_documented("docs/air-gap.md", "mirror-variables", &rows);
    let rows =
        FOREIGN_KEYS.map(|(variable, product)| format!("| `{}` | {product} |", variable.name));
    assert_documented("docs/air-gap.md", "key-variables", &rows);
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_is_no_fault_of_the_directory_that_it_is_fetched_from() {
    use std::process::Command;

    use crate::support::environment::search_path;
    use crate::support::world::unshare;

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
    let said = machine.said(&command.env("PATH", search_path()).output().unwrap());
    assert_eq!(said.code, Some(1), "{said:?}");
    let error = said.stderr.lines().find(|line| line.starts_with("error: ")).unwrap();
    assert!(error.contains("cannot store a download in `"), "{error}");
    assert!(error.contains("/cache/terraform`: No space left on device"), "{error}");
}
