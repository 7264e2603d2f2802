//! Plans that import, move and forget.

use super::*;

/// A module with two resources, and what becomes of them: one is moved, one is forgotten, and a third one is imported.
const BEFORE: &str = "resource \"terraform_data\" \"a\" {}\nresource \"terraform_data\" \"b\" {}\n";
const AFTER: &str = "resource \"terraform_data\" \"c\" {}
resource \"terraform_data\" \"d\" {}

moved {
  from = terraform_data.a
  to   = terraform_data.c
}

removed {
  from = terraform_data.b
  lifecycle {
    destroy = false
  }
}

import {
  to = terraform_data.d
  id = \"known\"
}
";

/// A module that only forgets.
const FORGETS: &str = "removed {
  from = terraform_data.a
  lifecycle {
    destroy = false
  }
}
";

#[tokio::test]
async fn imports_moves_and_forgotten_resources_are_shown_to_those_who_approve() {
    let repository = Repository::create(&[("envs/a/main.tf", BEFORE), ("envs/b/main.tf", BEFORE)]);
    let mut installation = Installation::new();
    let layer = |name: &str, more: &str| {
        format!(
            "  {name}: {{repository: infra, path: envs/{name}, backend: {{type: local}}, {more}}}\n"
        )
    };
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}\nlayers:\n{}{}",
        repository.url(),
        layer("a", "strategy: approve"),
        layer("b", "strategy: auto, destroy-limit: 0"),
    ));
    installation.serve(&[]).await;
    installation.until("a", "Succeeded", 1).await;
    let applied = installation.ask(&["layer", "apply", "a", "--wait"]);
    assert!(applied.status.success(), "{}", text(&applied));
    installation.until("b", "Succeeded", 2).await;

    let forgets = FORGETS.to_owned() + &FORGETS.replace(".a", ".b");
    repository.commit("Change", &[("envs/a/main.tf", AFTER), ("envs/b/main.tf", &forgets)]);
    for layer in ["a", "b"] {
        assert!(installation.ask(&["layer", "sync", layer, "--wait"]).status.success());
    }
    let reason = |layer: &str| installation.layer(layer)["reasons"][0]["text"].clone();
    let of_a = "waiting for approval: 1 to import, 0 to add, 0 to change, 0 to destroy, 1 moved, 1 forgotten";
    eventually("a layer that waits", || reason("a") == of_a).await;
    // What is forgotten is not managed any more, as what is destroyed.
    let of_b = "waiting for approval: 0 to add, 0 to change, 0 to destroy, 2 forgotten; `destroy-limit` is 0";
    eventually("a layer over its limit", || reason("b") == of_b).await;
    let run = installation.runs("a")[0].clone();
    let counts = &run["counts"];
    for (action, count) in [("add", 0), ("destroy", 0), ("import", 1), ("move", 1), ("forget", 1)] {
        assert_eq!(counts[action], count, "{counts}");
    }
    let short = "+0 ~0 -0, 1 import, 1 move, 1 forget";
    for command in
        [&["layer", "list"][..], &["run", "list"], &["run", "show", run["id"].as_str().unwrap()]]
    {
        let shown = text(&installation.ask(command));
        assert!(shown.contains(short), "{command:?}: {shown}");
    }
    let applied = installation.ask(&["layer", "apply", "a", "--wait"]);
    assert!(applied.status.success(), "{}", text(&applied));
    let counts = installation.runs("a")[0]["counts"].clone();
    for (action, count) in [("add", 0), ("import", 1), ("move", 1), ("forget", 1)] {
        assert_eq!(counts[action], count, "{counts}");
    }
}
