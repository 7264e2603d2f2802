//! Runs whose end the registry did not accept: all other reports contain the reason.

use serde_json::Value;

use super::github::{outputs, step};
use super::{read, run};
use butler_testing::world::{Fault, MODULE, RUN_ID, RunEnd, World};

/// A step whose registry responds to status reports with `statuses`, in order.
async fn refusing(statuses: &[(u16, usize)]) -> World {
    let world = step(&[("main.tf", MODULE)]).await;
    let faults = statuses.iter().map(|&(status, times)| Fault {
        method: "POST",
        endpoint: "status",
        status,
        times,
    });
    world.faults.lock().unwrap().extend(faults);
    world
}

/// Asserts that all reports contain the same reason.
fn assert_same_reason_everywhere(
    world: &World,
    end: &RunEnd,
    result: &Value,
    status: &str,
    said: &str,
) {
    assert_eq!(result["status"], status, "{result:#}");
    assert_eq!(Some(result["exit_code"].as_i64().unwrap()), end.code.map(i64::from));
    assert_eq!(result["run_id"], RUN_ID);
    let message = result["error"]["message"].as_str().unwrap();
    assert!(message.contains(said), "{message}");
    let (summary, outputs) = (read(&world.path("summary")), outputs(world));
    let (icon, kind) = match status {
        "failed" => ("❌", "::error title="),
        _ => ("🚫", "::warning title="),
    };
    assert!(summary.starts_with(&format!("## {icon} ")) && summary.contains(said), "{summary}");
    assert_eq!((&*outputs["status"], &*outputs["run-id"]), (status, RUN_ID));
    assert_eq!(Some(outputs["exit-code"].parse().unwrap()), end.code);
    let mut notes = end.stdout.lines().filter(|line| line.starts_with(kind));
    assert!(notes.any(|line| line.contains(said)), "{}", end.stdout);
    assert!(end.stderr.contains(said), "{}", end.stderr);
}

#[tokio::test]
async fn run_with_an_undelivered_final_status_has_not_succeeded() {
    for (answer, code, status, said) in [
        (400, 4, "failed", "the final status was not delivered: "),
        (409, 3, "cancelled", "the registry had ended the run (409) before its end was reported"),
    ] {
        // The first response is to the status `running`.
        let world = refusing(&[(200, 1), (answer, usize::MAX)]).await;
        let (end, result) = run(&world, "plan").await;
        assert_eq!(end.code, Some(code), "{}", end.stderr);
        assert_same_reason_everywhere(&world, &end, &result, status, said);
        assert_eq!(result["error"]["phase"], "report");
        assert_eq!(result["counts"]["add"], 1, "what it did is told all the same");
        let kept: Value = serde_json::from_str(&read(&world.path("reports/status.json"))).unwrap();
        // What this registry would have got: it does not say that it knows `cancelled`.
        assert_eq!(kept["status"], "failed", "{kept:#}");
        assert_eq!(kept["error"]["message"], result["error"]["message"]);
    }
}

#[tokio::test]
async fn error_before_a_failed_report_stays_the_reason() {
    let world = refusing(&[(200, 1), (400, usize::MAX)]).await;
    world.commit(&[("main.tf", "output \"z\" {\n  value = file(\"missing\")\n}\n")]);
    let (end, result) = run(&world, "plan").await;
    assert_eq!(end.code, Some(4), "{}", end.stderr);
    assert_eq!((&result["status"], &result["error"]["phase"]), (&"failed".into(), &"plan".into()));
    let warned = result["warnings"].to_string();
    assert!(warned.contains("the final status was not delivered"), "{warned}");
}

#[tokio::test]
async fn run_without_a_configuration_reports_its_id_and_the_reason() {
    let refused: fn(&World) = |world| world.fault("GET", "status", 401);
    let over: fn(&World) = |world| world.registry.set_status(RUN_ID, "cancelled");
    let known: fn(&World) = |world| world.registry.set_status(RUN_ID, "succeeded");
    for (prepare, code, status, said) in [
        (refused, 4, "failed", "401"),
        (over, 3, "cancelled", "the registry ended the run (cancelled)"),
        (known, 4, "failed", "the run has a result already (succeeded)"),
    ] {
        let world = step(&[("main.tf", MODULE)]).await;
        world.add_run(world.config("plan"));
        prepare(&world);
        let mut command = world.execute();
        command.env("BUTLER_REPORT_DIR", world.path("reports"));
        let end = world.end(&command.output().await.unwrap());
        assert_eq!(end.code, Some(code), "{}", end.stderr);
        let result: Value =
            serde_json::from_str(&read(&world.path("reports/result.json"))).unwrap();
        let message = result["error"]["message"].as_str().unwrap();
        assert!(message.contains(said), "{message}");
        assert_eq!(result["error"]["phase"], "config");
        assert_eq!(result["error"]["advice"].is_string(), code == 4, "{result:#}");
        if code == 4 {
            assert_same_reason_everywhere(&world, &end, &result, status, said);
        } else {
            assert_eq!(result["status"], status);
        }
    }
}
