//! The port to which attempts report.

use std::net::TcpListener;

use super::faults::HeldBackend;
use super::*;
use butler_testing::forward_proxy::ForwardProxy;

#[tokio::test]
async fn server_does_not_start_if_another_program_has_the_port_of_attempts_that_run() {
    let mut installation = Installation::new();
    let backend = HeldBackend::start().await;
    let repository = Repository::create(&[("envs/a/main.tf", &backend.reading_module())]);
    let arguments = Installation::quick_start(&repository);
    installation.serve(&arguments).await;
    backend.wait_for_request().await;
    installation.kill().await;
    let port = std::fs::read_to_string(installation.data().join("attempts.port")).unwrap();
    let taken = TcpListener::bind(("127.0.0.1", port.parse().unwrap())).unwrap();
    let refused = installation.once(&arguments).await;
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    let expected = format!("cannot listen on port {port} of 127.0.0.1, to which attempts");
    assert!(text(&refused).contains(&expected), "{}", text(&refused));
    // The attempt goes on, and reports when it can.
    assert_eq!(running(&installation.data()).len(), 1);
    drop(taken);
    backend.release();
    installation.serve(&arguments).await;
    installation.until("envs.a", "Failed", 1).await;
    let runs = installation.runs("envs.a");
    assert_ne!(runs[0]["attempts"][0]["outcome"], "its process ended without a report", "{runs:?}");
}

#[tokio::test]
async fn proxy_is_not_asked_for_requests_to_a_server_on_this_machine() {
    let mut installation = Installation::new();
    let proxy = ForwardProxy::start(None);
    let repository = Repository::create(&[("envs/a/main.tf", LAYER)]);
    for (proxies, bypassed) in [
        (["HTTP_PROXY", "ALL_PROXY"], ("NO_PROXY", "internal.example")),
        (["http_proxy", "all_proxy"], ("no_proxy", "internal.example")),
    ] {
        let proxied = |command: &mut Command| {
            let url = proxy.url("");
            command.envs(proxies.map(|name| (name, url.clone()))).env(bypassed.0, bypassed.1);
        };
        let mut pass = installation.command(&["serve", "--once"]);
        pass.args(Installation::quick_start(&repository));
        proxied(&mut pass);
        let pass = pass.output().await.unwrap();
        assert!(pass.status.success(), "{}", text(&pass));
        assert_eq!(proxy.request_lines(), Vec::<String>::new());
        repository.commit("Change", &[("envs/a/more.tf", "output \"o\" { value = 1 }\n")]);

        installation.serve(&Installation::quick_start(&repository)).await;
        let address = installation.server.as_ref().unwrap().address.clone();
        for address in [address.clone(), address.replace("127.0.0.1", "localhost")] {
            let mut list = installation.command(&["layer", "list", "--server", &address]);
            proxied(&mut list);
            let list = list.output().await.unwrap();
            assert!(list.status.success(), "{}", text(&list));
        }
        installation.terminate().await;
        assert_eq!(proxy.request_lines(), Vec::<String>::new());
    }
}
