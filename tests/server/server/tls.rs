//! A server that speaks TLS, and one behind a proxy.

use butler_base::http::{self, Redirects};

use super::*;
use butler_testing::authority::Authority;

/// Writes the certificate of an authority's server. Returns the arguments of `serve`.
fn write(installation: &Installation, authority: &Authority) -> Vec<String> {
    let (certificate, key) = authority.server_pem();
    let files = [("tls.crt", certificate), ("tls.key", key)];
    let [certificate, key] = files.map(|(name, content)| {
        std::fs::write(installation.path(name), content).unwrap();
        installation.path(name).to_str().unwrap().to_owned()
    });
    ["--tls-cert", &certificate, "--tls-key", &key].map(str::to_owned).to_vec()
}

/// The list of layers, over TLS.
fn ask(installation: &Installation, authority: &Authority) -> Output {
    let bundle = authority.bundle();
    installation.ask(&["layer", "list", "--ca-bundle", bundle.to_str().unwrap()])
}

#[tokio::test]
async fn commands_ask_a_server_over_tls_and_a_renewed_certificate_needs_no_restart() {
    let (mut installation, repository) = (Installation::new(), repository());
    let (first, second) = (Authority::create(), Authority::create());
    let mut arguments = Installation::quick_start(&repository);
    arguments.extend(write(&installation, &first));
    installation.serve(&arguments).await;
    assert!(installation.server.as_ref().unwrap().address.starts_with("https://127.0.0.1:"));
    eventually("layers", || {
        let list = ask(&installation, &first);
        assert!(list.status.success(), "{}", text(&list));
        text(&list).contains("envs.dns")
    })
    .await;
    let unknown = ask(&installation, &second);
    assert_eq!(unknown.status.code(), Some(4), "{}", text(&unknown));
    // The report of a plan needs no TLS.
    eventually("a plan", || text(&ask(&installation, &first)).contains("plan Succeeded")).await;
    write(&installation, &second);
    eventually("the other certificate", || ask(&installation, &second).status.success()).await;
}

#[tokio::test]
async fn certificate_and_key_are_given_both_or_not_at_all() {
    let (installation, repository) = (Installation::new(), repository());
    let tls = write(&installation, &Authority::create());
    let quick_start = Installation::quick_start(&repository);
    let refused = async |given: &[String]| {
        let mut command = installation.command(&["serve"]);
        let output = command.args(&quick_start).args(given).output().await.unwrap();
        (output.status.code(), text(&output))
    };
    for (given, missing) in [(&tls[..2], "--tls-key"), (&tls[2..], "--tls-cert")] {
        let (code, error) = refused(given).await;
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains(missing), "{error}");
    }
    // A key that does not belong to the certificate.
    let (_, key) = Authority::create().server_pem();
    std::fs::write(installation.path("tls.key"), key).unwrap();
    let (code, error) = refused(&tls).await;
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("tls.key") && error.contains("tls.crt"), "{error}");
    assert!(!installation.data().exists());
}

#[tokio::test]
async fn server_with_tls_listens_beyond_loopback() {
    let (mut installation, repository) = (Installation::new(), repository());
    let mut arguments = Installation::quick_start(&repository);
    arguments.extend(["--listen", "0.0.0.0:0"].map(str::to_owned));
    let mut command = installation.command(&["serve"]);
    let output = command.args(&arguments).output().await.unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("--tls-cert"), "{}", text(&output));
    let tls = write(&installation, &Authority::create());
    arguments.extend(tls);
    installation.serve(&arguments).await;
    assert!(installation.server.as_ref().unwrap().address.starts_with("https://0.0.0.0:"));
}

#[tokio::test]
async fn forwarded_host_counts_only_from_a_trusted_proxy() {
    let (mut installation, repository) = (Installation::new(), repository());
    let public = ["--public-url", "https://butler.example.com"];
    for (proxy, expected) in [(Some("127.0.0.0/8"), 421), (Some("192.0.2.1"), 200), (None, 200)] {
        let mut arguments = Installation::quick_start(&repository);
        arguments.extend(public.map(str::to_owned));
        arguments
            .extend(proxy.iter().flat_map(|it| ["--trusted-proxy".to_owned(), (*it).to_owned()]));
        installation.serve(&arguments).await;
        let address = installation.server.as_ref().unwrap().address.clone();
        let ask = async |host: &str| {
            let client = http::client(None, Redirects::Refuse).unwrap();
            let request = client.get(format!("{address}/healthz")).header("x-forwarded-host", host);
            request.send().await.unwrap().status().as_u16()
        };
        assert_eq!(ask("evil.test").await, expected, "{proxy:?}");
        assert_eq!(ask("butler.example.com").await, 200, "{proxy:?}");
        installation.kill().await;
    }
    let mut wrong = Installation::quick_start(&repository);
    wrong.extend(["--trusted-proxy", "10.0.0.0/33"].map(str::to_owned));
    let output = installation.command(&["serve"]).args(&wrong).output().await.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("`10.0.0.0/33` is not an address or a network"));
}
