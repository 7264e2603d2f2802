//! Mirrors and their credentials, redirects, certificates and proxies.

use super::*;

#[test]
fn redirects_to_another_host_are_followed_without_the_mirrors_credentials() {
    let (mirror, store) = (site(), site());
    mirror.redirect_all_to(&store.url());
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
fn endless_redirects_are_an_error() {
    let site = site();
    site.inject_fault("_SHA256SUMS", Fault::Looping);
    let machine = quiet(&site);
    let said = machine.run(&INSTALL);
    refused(
        &said,
        &expect![[r"
        exit 1
        error: `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS` is redirected more than 10 times
        hint: the redirects form a loop: check the configuration of the site, and that --mirror is its address
    "]],
        &machine,
    );
}

#[test]
fn redirect_from_https_to_http_is_refused() {
    let (authority, store) = (Authority::create(), site());
    let mirror = ReleaseSite::start_with_tls(&authority, "1.9.8");
    mirror.redirect_all_to(&store.url());
    let mut machine = quiet(&mirror);
    machine.replace_in_output(store.url().as_str().trim_end_matches('/'), "<store>");
    machine.set("BUTLER_CA_BUNDLE", authority.bundle());
    let said = machine.run(&INSTALL);
    refused(
        &said,
        &expect![[r"
        exit 1
        error: `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS` is redirected to `<store>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS`, which is not followed
        hint: check the redirects of the --mirror site: from https, only redirects to https are followed; from http, both
    "]],
        &machine,
    );
    assert!(store.requests().is_empty());
}

#[test]
fn unauthorized_mirror_error_names_the_credential_settings() {
    let site = site();
    site.require_authorization(BASIC);
    let mut machine = quiet(&site);
    let said = machine.run(&INSTALL);
    refused(
        &said,
        &expect![[r"
        exit 1
        error: `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS` returned 401 Unauthorized to a request without a login
        hint: give a login with BUTLER_MIRROR_USER and BUTLER_MIRROR_PASSWORD, BUTLER_MIRROR_TOKEN, or an entry for the host in ~/.netrc; it is not sent to vendors' sites
    "]],
        &machine,
    );
    machine.set("BUTLER_MIRROR_TOKEN", "hunter2");
    let said = machine.run(&INSTALL);
    refused(
        &said,
        &expect![[r"
        exit 1
        error: `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS` returned 401 Unauthorized to a request with BUTLER_MIRROR_TOKEN
        hint: check that this login has read access, and that it has not expired
    "]],
        &machine,
    );
}

#[test]
fn mirror_credentials_are_accepted_from_each_source() {
    let site = site();
    site.require_authorization(BASIC);
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
fn mirror_credentials_are_not_sent_to_a_url_of_another_origin() {
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
    // The mirror itself gets the credentials with every URL on it.
    let mut machine = Machine::with_site(&mirror);
    machine.set("BUTLER_MIRROR_TOKEN", "hunter2");
    let url = mirror.url();
    installed(machine.run(&[&INSTALL[..], &["--url", url.as_str()]].concat()), &machine);
    assert_eq!(authorizations(&mirror), vec![Some("Bearer hunter2".to_owned()); 3]);
}

#[test]
fn mirror_with_a_private_authority_needs_a_ca_bundle() {
    let authority = Authority::create();
    let site = ReleaseSite::start_with_tls(&authority, "1.9.8");
    let machine = quiet(&site);
    let said = machine.run(&INSTALL);
    refused(
        &said,
        &expect![[r"
        exit 1
        error: cannot fetch `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS`: error sending request: client error (Connect): the server's certificate was issued by an untrusted authority
        hint: if a private certificate authority issued the site's certificate, name the certificate of that authority with --ca-bundle
    "]],
        &machine,
    );
    let bundle = authority.bundle();
    let directory = bundle.parent().unwrap();
    for (variable, value) in [
        ("BUTLER_CA_BUNDLE", bundle.as_path()),
        ("SSL_CERT_FILE", &bundle),
        ("SSL_CERT_DIR", directory),
    ] {
        let mut machine = Machine::with_site(&site);
        machine.set(variable, value);
        installed(machine.run(&INSTALL), &machine);
    }
}

#[test]
fn unreadable_system_certificate_is_skipped() {
    let authority = Authority::create();
    let site = ReleaseSite::start_with_tls(&authority, "1.9.8");
    let mut machine = Machine::with_site(&site);
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let good = std::fs::read_to_string(authority.bundle()).unwrap();
    let file = machine.path("system.pem");
    std::fs::write(&file, format!("{broken}{good}{broken}")).unwrap();
    machine.set("SSL_CERT_FILE", file);
    installed(machine.run(&INSTALL), &machine);
}

#[test]
fn error_tells_that_the_system_has_no_trusted_certificates() {
    let site = ReleaseSite::start_with_tls(&Authority::create(), "1.9.8");
    let mut machine = quiet(&site);
    machine.set("SSL_CERT_FILE", "/proc/nonexistent");
    machine.set("BUTLER_LOG", "warn");
    refused(
        &machine.run(&INSTALL),
        &expect![[r"
        exit 1
        WARN cannot read a certificate of SSL_CERT_FILE or SSL_CERT_DIR error=failed to read PEM from file: No such file or directory (os error 2) at '/proc/nonexistent'
        error: cannot fetch `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS`: error sending request: client error (Connect): the server's certificate is not accepted: the system has no trusted certificates to verify it with
        hint: if a private certificate authority issued the site's certificate, name the certificate of that authority with --ca-bundle
    "]],
        &machine,
    );
}

#[test]
fn self_signed_server_is_accepted_if_its_certificate_is_in_the_bundle() {
    let server = Authority::for_itself();
    let site = ReleaseSite::start_with_tls(&server, "1.9.8");
    let mut machine = Machine::with_site(&site);
    let said = machine.run(&INSTALL);
    assert!(said.stderr.contains("issued by an untrusted authority"), "{}", said.stderr);
    machine.set("BUTLER_CA_BUNDLE", server.bundle());
    installed(machine.run(&INSTALL), &machine);
}

/// Opening this pipe blocks forever, because nothing writes to it.
#[test]
fn system_certificates_are_not_read_without_tls() {
    let site = site();
    let mut machine = Machine::with_site(&site);
    let pipe = machine.path("pipe.pem");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    machine.set("SSL_CERT_FILE", pipe);
    installed(machine.run(&INSTALL), &machine);
}

#[test]
fn proxy_is_used_with_credentials_and_bypassed_by_no_proxy() {
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
        assert!(
            proxy.request_lines().iter().all(|line| line.starts_with(way)),
            "{:?}",
            proxy.request_lines()
        );
        let asked = proxy.request_lines().len();
        assert!(asked > 0);

        let mut machine = quiet(site);
        machine.set("BUTLER_CA_BUNDLE", authority.bundle());
        machine.set("ALL_PROXY", proxy.url("user:hunter2@"));
        machine.set("NO_PROXY", "127.0.0.1");
        installed(machine.run(&INSTALL), &machine);
        assert_eq!(proxy.request_lines().len(), asked);
    }
}

#[test]
fn refusal_by_the_proxy_names_the_proxy() {
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
            hint: check HTTPS_PROXY and HTTP_PROXY, with user and password in the URL if the proxy requires them, or exempt the site with NO_PROXY
        "]],
        ),
        (
            &plain,
            "HTTP_PROXY",
            expect![[r"
            exit 1
            error: the proxy refused to fetch `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS`: 407 Proxy Authentication Required
            hint: check HTTPS_PROXY and HTTP_PROXY, with user and password in the URL if the proxy requires them, or exempt the site with NO_PROXY
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
fn documentation_lists_the_variables_of_other_tools() {
    let rows: Vec<_> = MIRRORS_OF_OTHER_TOOLS.iter().map(OtherToolMirror::row).collect();
    assert_documented("docs/air-gap.md", "mirror-variables", &rows);
    let rows = KEYS_OF_OTHER_TOOLS
        .map(|(variable, product)| format!("| `{}` | {product} |", variable.name));
    assert_documented("docs/air-gap.md", "key-variables", &rows);
}
