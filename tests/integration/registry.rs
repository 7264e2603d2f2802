//! What the runner makes of answers that are not the registry's own.

use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect};
use butler_runner::devregistry::Server;
use butler_runner::error::Advice;
use butler_runner::http::{self, Redirects};
use butler_runner::registry::{Address, Callback, Client, Limits, Patience};

use crate::support::world::{End, MODULE, RUN_ID, TOKEN, World};

/// Has the world's runner ask `endpoint` for its run.
async fn run_at(world: &World, endpoint: &str) -> End {
    let output = world
        .command(&["execute"])
        .env("BUTLER_ENDPOINT", endpoint)
        .env("BUTLER_RUN_ID", RUN_ID)
        .env("BUTLER_TOKEN", TOKEN)
        .env("BUTLER_REGISTRY_TIMEOUT", "20s")
        .output()
        .await
        .unwrap();
    world.end(&output)
}

#[tokio::test]
async fn a_redirect_is_a_refusal_that_names_where_it_leads() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    world.add_run(world.config("validate"));
    let real = world.endpoint();
    let redirecting = Router::new().fallback(move |request: Request| {
        let path = request.uri().path().trim_start_matches("/api/registry/").to_owned();
        let target = format!("{}/{path}", real.trim_end_matches('/'));
        async move { Redirect::permanent(&target) }
    });
    let server = Server::start(redirecting).await.unwrap();
    let end = run_at(&world, server.endpoint().as_str()).await;
    assert_eq!(end.code, Some(4), "{}", end.stderr);
    let origin = world.endpoint().replace("/api/registry", "");
    assert!(
        end.stderr.contains(&format!("redirects to {origin}: set --endpoint")),
        "{}",
        end.stderr
    );
    assert_eq!(world.received().request_names(), [""; 0], "nobody followed");
}

#[tokio::test]
async fn a_report_that_is_redirected_to_a_sign_in_page_is_not_delivered() {
    let sign_in = Router::new().fallback(|request: Request| async move {
        if request.method() == Method::POST {
            (StatusCode::FOUND, [(header::LOCATION, "/login")]).into_response()
        } else {
            Html("<h1>Sign in</h1>").into_response()
        }
    });
    let server = Server::start(sign_in).await.unwrap();
    let client = Client::new(
        http::client(None, Redirects::Refuse).unwrap(),
        Address::new(server.endpoint(), RUN_ID.parse().unwrap()),
        TOKEN.into(),
        Limits { attempt: Duration::from_secs(10), long: Duration::from_secs(10) },
    );
    let callbacks = client.callbacks().unwrap();
    let error = client
        .post(Callback::Status, &callbacks, "{}".into(), Patience::Once)
        .await
        .expect_err("a sign-in page keeps no report");
    assert!(error.advice().unwrap().contains("sign-in page"), "{error}");
}
