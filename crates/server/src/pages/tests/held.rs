//! Layers that the breaker holds.

use super::*;
use crate::model::{Gate, Phase, Reason};
use crate::serve::LayerView;

/// The names of the layers in a group of the first page.
fn group(page: &str, title: &str) -> Vec<String> {
    let Some(group) = page.split(&format!("<h2>{title} ")).nth(1) else { return Vec::new() };
    let group = group.split("</section>").next().unwrap();
    let names = group.split("class=\"name\"").skip(1);
    names.map(|name| name.split(['>', '<']).nth(1).unwrap().to_owned()).collect()
}

/// The names of the layers in the list of a page.
fn list(page: &str) -> Vec<String> {
    let names = page.split("<th scope=\"row\"><a href=\"/layers/").skip(1);
    names.map(|name| name.split('"').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn layer_that_the_breaker_holds_is_held_and_not_failed() {
    let tested = tested().await;
    let mut viewer = Visitor::signed_in(&tested, &token(Role::Viewer)).await;
    for (layer, gate) in [("a", Gate::Breaker), ("b", Gate::Source)] {
        let view = tested.state.views.layer(&layer.parse().unwrap()).unwrap();
        let reasons = vec![Reason::new(gate, "it waits for a person")];
        let view = LayerView { phase: Phase::Blocked, reasons, ..(*view).clone() };
        tested.state.views.set(view);
    }
    let page = viewer.get("/").await.body;
    assert_eq!(group(&page, "Held"), ["a"], "{page}");
    assert_eq!(group(&page, "Failed"), ["b"], "{page}");
    assert!(page.contains("<span class=\"state planned\">Held</span>"), "{page}");
    for (state, layers) in [("held", ["a"]), ("failed", ["b"])] {
        assert_eq!(list(&viewer.get(&format!("/?state={state}")).await.body), layers, "{state}");
    }
}

#[tokio::test]
async fn page_names_the_layers_that_have_opened_the_breaker() {
    let tested = tested().await;
    for layer in crate::api::tests::breaker::BROKEN {
        crate::api::tests::breaker::fail(&tested, layer, 0).await;
    }
    let page = Visitor::signed_in(&tested, &token(Role::Viewer)).await.get("/").await.body;
    assert!(page.contains("those of 3 layers in a row have failed (x, y, z)"), "{page}");
}
