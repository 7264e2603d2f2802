//! The pages in a real browser.

use butler_server::api::{self, Role};
use butler_server::pages::PAGES;
use butler_server::store::MemoryStore;

use super::files::Files;
use super::visit::Visit;
use super::*;
use butler_testing::documented::assert_documented;
use butler_testing::files_provider::FilesProvider;

/// A server with two layers whose plans wait for an approval.
async fn waiting() -> (Installation, Repository) {
    let (mut installation, repository) = (Installation::new(), repository());
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}', poll: 1s}}}}
layers:
  app: {{repository: infra, path: envs/app, backend: {{type: local}}, strategy: approve}}
  dns: {{repository: infra, path: envs/dns, backend: {{type: local}}, strategy: approve}}
",
        repository.url(),
    ));
    installation.serve(&[]).await;
    for layer in ["app", "dns"] {
        installation.until(layer, "Succeeded", 1).await;
    }
    (installation, repository)
}

/// Five files, each of which is written after the one before. The third one waits for the file `gate`.
fn chain(managed: &Path) -> String {
    let file = |number: u32| (managed.join(number.to_string()), number.to_string());
    FilesProvider::chain(&[0, 1, 2, 3, 4].map(file), 2, &managed.join("gate"))
}

#[tokio::test]
async fn person_signs_in_sees_what_waits_approves_a_plan_and_watches_its_apply() {
    let (installation, _repository) = waiting().await;
    let visit = Visit::signed_in(&installation).await;
    visit.until_text("Waiting for approval").await;
    assert_eq!(visit.text(".urgent .count").await, "2");
    visit.click(".urgent a[href*='/runs/']").await;
    visit.until("the plan", "document.querySelector('#changes .change') !== null").await;
    let address = visit.text("#changes .address").await;
    assert_eq!(address, "module.shared.terraform_data.one");
    visit.click("form[action$='/approve'] button").await;
    // The page of the apply changes by itself.
    visit.until_text("Apply complete").await;
    visit.until("its end", "document.querySelector('h1 .state').textContent === 'Succeeded'").await;
    let app = installation.runs("app");
    assert_eq!(
        (&app[0]["action"], &app[0]["approvedBy"]),
        (&"apply".into(), &"administrator".into())
    );
    assert_eq!(visit.text("h1 .state").await, "Succeeded");
    visit.until("timings", "document.querySelector('table.timings') !== null").await;
    visit.was_quiet().await;
}

#[tokio::test]
async fn approval_that_comes_too_late_is_explained() {
    let (installation, repository) = waiting().await;
    let visit = Visit::signed_in(&installation).await;
    let run = installation.runs("dns")[0]["id"].as_str().unwrap().to_owned();
    visit.open(&format!("/runs/{run}")).await;
    visit.until("the form", "document.querySelector(\"form[action$='/approve']\") !== null").await;
    // A form that the page cannot take away: that of a browser which has not heard of the commit yet.
    let keep = "document.querySelector('footer').append(document.querySelector(\"form[action$='/approve']\").cloneNode(true))";
    visit.browser.run(keep).await;
    // What a person has typed stays.
    visit.browser.run("document.getElementById('find-change').value = 'one'").await;
    repository.commit("Change", &[("envs/dns/main.tf", &LAYER.replace("\"a\"", "\"b\""))]);
    installation.until("dns", "Succeeded", 2).await;
    // The page has noticed it.
    visit.until_text("This plan cannot be approved").await;
    let typed = visit.browser.run("return document.getElementById('find-change').value").await;
    assert_eq!(typed, "one");
    visit.click("footer form button").await;
    visit.until_text("Nothing was done").await;
    visit.until_text("a newer commit has changed the layer").await;
    // The address is that of the run, not of the form.
    let address = visit.browser.run("return location.pathname").await;
    assert_eq!(address, format!("/runs/{run}"));
    assert!(installation.runs("dns").iter().all(|run| run["action"] == "plan"));
}

#[tokio::test]
async fn log_continues_without_a_gap_after_the_server_was_killed_and_the_run_is_cancelled() {
    let mut files = Files::serve("a", "retries: {max: 5}", chain).await;
    eventually("the second file", || files.content("1") == "1").await;
    let id = files.installation.runs("a")[0]["id"].as_str().unwrap().to_owned();
    let visit = Visit::signed_in(&files.installation).await;
    visit.until_text("Running now").await;
    visit.open(&format!("/runs/{id}")).await;
    visit.until_text("files_file.f1: Creation complete").await;
    files.installation.kill().await;
    visit
        .until("the lost connection", "document.getElementById('connection').textContent !== ''")
        .await;
    let port = visit.address.rsplit(':').next().unwrap();
    let settings = files.installation.path("settings.yaml").display().to_string();
    let arguments = ["--settings", &settings, "--listen", &format!("127.0.0.1:{port}")];
    files.installation.serve(&arguments.map(str::to_owned)).await;
    visit.until("a connection", "document.getElementById('connection').textContent === ''").await;
    // A hidden page reads nothing.
    let hide = "Object.defineProperty(document, 'hidden', {value: true, configurable: true}); document.dispatchEvent(new Event('visibilitychange'))";
    visit.browser.run(hide).await;
    let cancelled = files.installation.ask(&["run", "cancel", &id]);
    assert!(cancelled.status.success(), "{}", text(&cancelled));
    let logged =
        || String::from_utf8(files.installation.ask(&["run", "logs", &id]).stdout).unwrap();
    eventually("an interrupt", || logged().contains("Interrupt received")).await;
    files.write("gate", "open");
    files.installation.until("a", "Skipped", 2).await;
    assert_eq!(visit.text("h1 .state").await, "Running");
    assert!(visit.log().await.iter().all(|(_, line)| !line.contains("Interrupt received")));
    visit.browser.run(&hide.replace("true, c", "false, c")).await;
    visit.until("its end", "document.querySelector('h1 .state').textContent === 'Cancelled'").await;
    let page = files.installation.ask(&["run", "logs", &id]);
    let expected = String::from_utf8(page.stdout).unwrap();
    let count = expected.lines().count();
    let complete = format!("document.querySelectorAll('#lines .chunk > span').length >= {count}");
    visit.until("all lines", &complete).await;
    let shown = visit.log().await;
    let numbers: Vec<u64> = shown.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (1..=u64::try_from(count).unwrap()).collect::<Vec<_>>());
    let parts =
        "return [...document.querySelectorAll('.part > summary')].map((it) => it.textContent)";
    let parts = visit.browser.run(parts).await;
    assert_eq!(parts, serde_json::json!(["Prepare", "Init", "Plan", "Apply"]));
    visit.was_free_of_violations().await;
}

#[tokio::test]
async fn page_of_a_run_shows_the_log_of_its_next_attempt_from_the_first_line() {
    let repository = Repository::create(&[("module/main.tf", LAYER)]);
    let mut installation = Installation::new();
    let (check, gate) = (installation.path("check"), installation.path("gate"));
    let wait = format!("while ! [ -e '{}' ]; do sleep 0.05; done", gate.display());
    super::after_plan::program(&check, &wait);
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
layers:
  a: {{repository: infra, path: module, strategy: plan-only, after-plan: {}}}
",
        repository.url(),
        check.display(),
    ));
    installation.serve(&[]).await;
    eventually("a run", || installation.runs("a").len() == 1).await;
    let id = installation.runs("a")[0]["id"].as_str().unwrap().to_owned();
    let visit = Visit::signed_in(&installation).await;
    visit.open(&format!("/runs/{id}")).await;
    visit.until_text("Terraform will perform the following actions").await;
    for pid in running(&installation.data()) {
        butler_base::platform::kill_child(Pid::from_raw(pid)).unwrap();
    }
    // The program ends too, and so does the attempt.
    std::fs::write(gate, "").unwrap();
    visit.until_text("Its process ended without a report").await;
    visit.until("attempt 2", "document.getElementById('lines').dataset.attempt === '2'").await;
    visit.until("its end", "document.querySelector('h1 .state').textContent === 'Succeeded'").await;
    let lines = String::from_utf8(installation.ask(&["run", "logs", &id]).stdout).unwrap();
    let count = u64::try_from(lines.lines().count()).unwrap();
    let complete = format!("document.querySelectorAll('#lines .chunk > span').length >= {count}");
    visit.until("all lines", &complete).await;
    let numbers: Vec<u64> = visit.log().await.into_iter().map(|(number, _)| number).collect();
    assert_eq!(numbers, (1..=count).collect::<Vec<_>>());
}

#[tokio::test]
async fn pages_work_without_a_script() {
    let (installation, _repository) = waiting().await;
    let visit = Visit::signed_in(&installation).await;
    let off = serde_json::json!({"value": true});
    visit.browser.command("Emulation.setScriptExecutionDisabled", off).await;
    visit.open("/?q=dns").await;
    visit.until_text("1 of 2 layers").await;
    visit.click("table a[href*='/runs/']").await;
    visit.until_text("Terraform will perform the following actions").await;
    assert_eq!(
        visit.browser.run("return document.querySelector('.tools .script').hidden").await,
        true
    );
    visit.click("form[action$='/approve'] button").await;
    installation.until("dns", "Succeeded", 2).await;
    let id = installation.runs("dns")[0]["id"].as_str().unwrap().to_owned();
    visit.open(&format!("/runs/{id}")).await;
    visit.until_text("Apply complete").await;
    visit.click(".user button").await;
    visit.until("the form", "document.querySelector('.sign-in') !== null").await;
    visit.open("/").await;
    visit.until("the form", "document.querySelector('.sign-in') !== null").await;
}

#[tokio::test]
async fn pages_are_accessible_and_fit_narrow_and_wide_windows_light_and_dark() {
    let (installation, _repository) = waiting().await;
    let visit = Visit::signed_in(&installation).await;
    let run = installation.runs("app")[0]["id"].as_str().unwrap().to_owned();
    let axe = Path::new(env!("CARGO_MANIFEST_DIR"));
    let axe = axe.join("target/tools/lint-node/node_modules/axe-core/axe.min.js");
    let axe = std::fs::read_to_string(axe).unwrap();
    let run = format!("/runs/{run}");
    let pages = [
        "/",
        "/?q=none",
        "/layers/app",
        &*run,
        "/events",
        "/repositories",
        "/access",
        "/sign-in",
        "/none",
    ];
    for scheme in ["light", "dark"] {
        let feature = serde_json::json!({"name": "prefers-color-scheme", "value": scheme});
        let media = serde_json::json!({"features": [feature]});
        visit.browser.command("Emulation.setEmulatedMedia", media).await;
        for page in pages {
            visit.open(page).await;
            // Through the protocol: the pages do not allow other scripts.
            let expression = serde_json::json!({"expression": axe});
            visit.browser.command("Runtime.evaluate", expression).await;
            let check = "return axe.run().then((found) => found.violations.filter((it) => ['moderate', 'serious', 'critical'].includes(it.impact)).map((it) => [it.id, it.nodes.map((node) => node.html + node.failureSummary)]))";
            let found = visit.browser.run(check).await;
            assert_eq!(found, serde_json::json!([]), "{scheme} {page}");
        }
    }
    for width in [360, 768, 2560] {
        let size = serde_json::json!({
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false,
        });
        visit.browser.command("Emulation.setDeviceMetricsOverride", size).await;
        for page in pages {
            visit.open(page).await;
            let wide = "return document.documentElement.scrollWidth - window.innerWidth";
            let wide = visit.browser.run(wide).await.as_i64().unwrap();
            assert!(wide <= 0, "{page} at {width} is {wide} too wide");
        }
    }
    // One of the pages does not exist.
    visit.was_free_of_violations().await;
}

#[tokio::test]
async fn thousand_layers_are_filtered() {
    let names: Vec<String> = (0..1000).map(|number| format!("envs/l{number:03}/main.tf")).collect();
    let all: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), LAYER)).collect();
    let (mut installation, repository) = (Installation::new(), Repository::create(&all));
    // Nothing is started, so that the test is about the page.
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
layers:
  all: {{repository: infra, paths: ['envs/*'], strategy: plan-only}}
windows: [{{deny: [plan], layers: ['*'], schedule: '* * * * *', for: 1h}}]
",
        repository.url(),
    ));
    installation.serve(&[]).await;
    let visit = Visit::signed_in(&installation).await;
    visit.until_text("1000 layers").await;
    let rows = "document.querySelectorAll('table tbody tr').length";
    visit.until("200 rows", &format!("{rows} === 200")).await;
    visit.click("a.next").await;
    visit
        .until("the next rows", "document.querySelector('tbody a').textContent === 'all.envs.l200'")
        .await;
    visit.open("/").await;
    visit.browser.run("document.querySelector('input[name=q]').value = 'l99'").await;
    visit.click(".filters button").await;
    visit.until_text("10 of 1000 layers").await;
    assert_eq!(visit.browser.run(&format!("return {rows}")).await, 10);
    visit.was_quiet().await;
}

/// A request as a row of the table of roles.
fn role_row(request: &str, role: Role, summary: &str) -> String {
    format!("| {request} | {} | {summary} |", role.name())
}

#[test]
fn documented_roles_are_those_of_all_requests() {
    let requests = api::routes::<MemoryStore>();
    let pages = PAGES.into_iter();
    let pages = pages.map(|(path, role, what)| role_row(&format!("page `{path}`"), role, what));
    let requests = requests.iter().map(|route| {
        let form = if route.method.is_safe() { "" } else { ", form" };
        let request = format!("`{} {}`{form}", route.method, route.path);
        role_row(&request, route.role, route.summary)
    });
    let rows: Vec<String> = pages.chain(requests).collect();
    assert_documented("docs/threat-model.md", "roles", &rows);
}
