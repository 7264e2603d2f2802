//! `--summary` and `--report`, rendered by GitHub's rules and by a real browser.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use butler_testing::browser::Browser;
use butler_testing::world::{Fault, RunEnd, World};

/// A module whose texts contain markup and scripts, with secrets.
const HOSTILE: &str = r#"
variable "given" {
  type      = string
  sensitive = true
}
variable "step" {
  type    = number
  default = 1
}
locals {
  script = "</script></pre><script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\"> `|` ```"
  text   = <<-EOT
    first
    second ${var.step}
    ```
    </details><h1>broken out</h1>
    fifth
  EOT
}
resource "terraform_data" "kept" {
  input = { "</summary>${local.script}" = "${local.script} ${var.step}", text = local.text, given = var.given, made = sensitive("secret-of-the-module-${var.step}") }
  provisioner "local-exec" {
    command = "printf '%s\\n' \"$SAID\" \"given: $GIVEN\"; printf '\\033[31mred\\033[0m \\033]0;owned\\007 a\\342\\200\\256b\\n' >&2"
    environment = {
      SAID  = local.script
      GIVEN = nonsensitive(var.given)
    }
  }
}
resource "terraform_data" "keyed" {
  for_each         = toset([local.script])
  input            = each.key
  triggers_replace = [var.step]
}
resource "terraform_data" "policy" {
  input = jsonencode({ Statement = [{ Action = "s3:Get${var.step}", Effect = "Allow" }] })
}
resource "terraform_data" "first" {
  count = var.step == 1 ? 1 : 0
}
resource "terraform_data" "second" {
  count = var.step == 2 ? 1 : 0
}
output "open" {
  value = "open ${var.step}"
}
output "secret" {
  value     = "secret-of-the-output-${var.step}"
  sensitive = true
}
"#;

/// Texts that must not be visible anywhere.
const SECRETS: [&str; 3] = ["hidden-given", "secret-of-the-module", "secret-of-the-output"];

/// A module in a local directory.
struct ModuleRun {
    world: World,
}

impl ModuleRun {
    async fn new(module: &str) -> Self {
        let world = World::new(&[]).await;
        std::fs::create_dir(world.path("module")).unwrap();
        std::fs::write(world.path("module/main.tf"), module).unwrap();
        Self { world }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.world.path(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    async fn run(&self, operation: &str, step: u8, arguments: &[&str]) -> RunEnd {
        let module = self.path("module");
        let words = ["execute", "--local", "--operation", operation, "--module-dir"];
        let words = [&words, &[module.to_str().unwrap()][..], arguments].concat();
        let mut command = self.world.command(&words);
        command.env("TF_VAR_given", "hidden-given").env("TF_VAR_step", step.to_string());
        self.world.end(&command.output().await.unwrap())
    }
}

/// The page and the summary of a plan of the second step.
async fn hostile() -> (ModuleRun, PathBuf) {
    let place = ModuleRun::new(HOSTILE).await;
    let applied = place.path("applied.html");
    let end = place.run("apply", 1, &["--report", applied.to_str().unwrap()]).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let (page, summary) = (place.path("page.html"), place.path("summary.md"));
    let arguments = ["--report", page.to_str().unwrap(), "--summary", summary.to_str().unwrap()];
    let end = place.run("plan", 2, &arguments).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    (place, page)
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

#[tokio::test]
async fn output_of_a_hostile_module_is_escaped_and_masked_on_the_page() {
    let (place, page) = hostile().await;
    let browser = Browser::start(&[]).await;
    for page in [&place.path("applied.html"), &page] {
        browser.open(page).await;
        assert_ne!(browser.run("return document.title").await, "owned");
        let strange = "return document.querySelectorAll('main img, main script, main h1').length";
        assert_eq!(browser.run(strange).await, 0);
        let document = browser.run("return document.documentElement.outerHTML").await;
        for secret in SECRETS {
            assert!(!document.as_str().unwrap().contains(secret), "{secret}");
            assert!(!std::fs::read_to_string(page).unwrap().contains(secret), "{secret}");
        }
    }
    assert_eq!(browser.console().await, [json!(null); 0]);
    let asked = browser.requests().await;
    // The browser's initial tab has its own console.
    let within = ["file:///", "data:", "chrome://"];
    let is_elsewhere = |url: &&String| !within.iter().any(|begin| url.starts_with(begin));
    let elsewhere: Vec<_> = asked.iter().filter(is_elsewhere).collect();
    assert!(!asked.is_empty() && elsewhere.is_empty(), "{elsewhere:?}");
    // The output is there as text, without terminal sequences and bidirectional overrides.
    browser.open(&place.path("applied.html")).await;
    let log = browser.run("return document.getElementById('lines').textContent").await;
    let log = log.as_str().unwrap();
    assert!(log.contains("</script></pre><script>document.title = 'owned'</script><img"), "{log}");
    assert!(log.contains("red  a⟨U+202E⟩b") && !log.contains('\u{202e}'), "{log}");
    assert!(log.contains("given: ***"), "{log}");
    assert!(!log.contains('\u{1b}'));
}

#[tokio::test]
async fn copy_of_a_secret_that_only_the_state_marks_is_masked_in_the_log_and_on_the_page() {
    let module = r#"
variable "step" {}
resource "terraform_data" "made" {
  input = sensitive("secret-of-the-module-${var.step}")
}
"#;
    let place = ModuleRun::new(module).await;
    let end = place.run("apply", 1, &[]).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let page = place.path("page.html");
    let end = place.run("plan", 2, &["--report", page.to_str().unwrap()]).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    // The provider's copy is not marked.
    assert!(!end.stdout.contains("secret-of-the-module"), "{}", end.stdout);
    let page = place.read("page.html");
    assert!(!page.contains("secret-of-the-module"), "{page}");
    let copy = page.lines().find(|line| line.contains(" output ") && line.contains("***"));
    assert!(copy.is_some_and(|line| line.contains("(known after apply)")), "{page}");
}

#[tokio::test]
async fn page_shows_changes_that_can_be_filtered_folded_and_searched() {
    let (_place, page) = hostile().await;
    let browser = Browser::start(&[]).await;
    browser.open(&page).await;
    let facts = browser
        .run("return [document.querySelector('h1').textContent.trim(), document.querySelector('.tiles').innerText.replace(/\\s+/g, ' ')]")
        .await;
    assert_eq!(
        facts,
        json!([
            "Plan succeeded: module",
            "2 to add 2 to change 2 to destroy 1 to replace 2 outputs to change"
        ])
    );

    // The difference, attribute by attribute.
    let of = |address: &str| {
        format!(
            "const change = [...document.querySelectorAll('#changes details.change')].find((change) => change.querySelector('.address').textContent === '{address}');"
        )
    };
    let policy = format!(
        "{} return [...change.querySelectorAll('tr')].map((row) => [...row.cells].map((cell) => cell.textContent.trim()).join(' '))",
        of("terraform_data.policy")
    );
    let policy = browser.run(&policy).await;
    assert_eq!(policy[0], "~ jsondecode(input).Statement[0].Action \"s3:Get1\" → \"s3:Get2\"");
    let kept = format!("{} return change.textContent", of("terraform_data.kept"));
    let kept = browser.run(&kept).await;
    let kept = kept.as_str().unwrap();
    assert!(kept.contains("(sensitive) → (sensitive)"), "{kept}");
    let lines = format!(
        "{} return [...change.querySelectorAll('pre > del, pre > ins')].map((line) => line.textContent)",
        of("terraform_data.kept")
    );
    assert_eq!(browser.run(&lines).await, json!(["second 1", "second 2"]));
    let forced = "return document.querySelectorAll('.change.replace .forces').length";
    assert_eq!(browser.run(forced).await, 1);

    // Folding, with the keyboard and all at once.
    let open = "return document.querySelectorAll('#changes details.change[open]').length";
    let all = count(
        &browser.run("return document.querySelectorAll('#changes details.change').length").await,
    );
    assert_eq!(all, 5);
    assert_eq!(count(&browser.run(open).await), all);
    browser.run("document.getElementById('close-all').click()").await;
    assert_eq!(browser.run(open).await, 0);
    browser.run("document.querySelector('#changes details.change > summary').click()").await;
    assert_eq!(browser.run(open).await, 1);
    browser.run("document.getElementById('open-all').click()").await;
    assert_eq!(count(&browser.run(open).await), all);

    // Filters by action and by text.
    let shown = "return [...document.querySelectorAll('#changes details.change')].filter((change) => change.checkVisibility()).map((change) => change.querySelector('.verb').textContent).sort().join(' ')";
    assert_eq!(browser.run(shown).await, "create destroy replace update update");
    browser.run("document.getElementById('show-update').click()").await;
    assert_eq!(browser.run(shown).await, "create destroy replace");
    browser.run("document.getElementById('show-update').click()").await;
    let found = |place: &str, text: &str, told: &str| {
        format!(
            "const [input, told] = ['{place}', '{told}'].map((id) => document.getElementById(id));
             input.value = '{text}';
             input.dispatchEvent(new Event('input'));
             return new Promise((resolve) => {{
               const look = () => /^[^…]+$/.test(told.textContent) ? resolve(told.textContent) : setTimeout(look, 20);
               look();
             }})"
        )
    };
    let told = browser.run(&found("find-change", "POLICY", "shown-changes")).await;
    assert_eq!(told, "1 of 5 resources match");
    assert_eq!(browser.run(shown).await, "update");

    // The log.
    let told = browser.run(&found("find-line", "terraform_data.first", "found-lines")).await;
    let told = told.as_str().unwrap();
    assert!(told.starts_with("1 of ") && told.ends_with(" found"), "{told}");
    let hits = "return [...document.querySelectorAll('.chunk > .hit')].every((line) => line.textContent.includes('terraform_data.first')) && document.querySelectorAll('.chunk > .hit.current').length";
    assert_eq!(browser.run(hits).await, 1);
    browser.run("document.getElementById('only-found').click()").await;
    let others = "return [...document.querySelectorAll('.chunk > :not(.hit)')].filter((line) => line.checkVisibility()).length";
    assert_eq!(browser.run(others).await, 0);
    assert_eq!(browser.console().await, [json!(null); 0]);
}

#[tokio::test]
async fn page_is_readable_without_scripts_and_at_any_width() {
    let (_place, page) = hostile().await;
    let without = std::fs::read_to_string(&page).unwrap();
    // Without scripts: the policy rejects a script with another hash.
    let without = without.replacen("\"use strict\";", "\"use strict\"; ", 1);
    std::fs::write(&page, without).unwrap();
    let browser = Browser::start(&["--window-size=360,800"]).await;
    browser.open(&page).await;
    let tools = "return [...document.querySelectorAll('.script')].filter((part) => part.checkVisibility()).length";
    assert_eq!(browser.run(tools).await, 0, "nothing is shown that does nothing");
    browser.run("document.getElementById('show-create').click()").await;
    let created = "return [...document.querySelectorAll('#changes .create')].filter((change) => change.checkVisibility()).length";
    assert_eq!(browser.run(created).await, 0, "the style sheet filters");
    let wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
    assert_eq!(browser.run(wide).await, 0, "nothing is wider than the window");
    let console = browser.console().await;
    assert_eq!(console.len(), 1, "{console:?}");
    assert!(console[0]["message"].as_str().unwrap().contains("Content Security Policy"));
}

#[tokio::test]
async fn values_in_a_summary_are_escaped_for_markdown_and_html() {
    let (place, _) = hostile().await;
    let summary = place.read("summary.md");
    for secret in SECRETS {
        assert!(!summary.contains(secret), "{summary}");
    }
    assert!(summary.starts_with("## ✅ Plan succeeded: `module`\n"), "{summary}");
    assert!(summary.contains("| ± | replace | <code>terraform&#95;data.keyed&#91;"), "{summary}");
    assert!(summary.contains("!     output "), "{summary}");
    // All foreign text is in fences or references; other tags are the report's own.
    let mut outside = String::new();
    let mut fence: Option<&str> = None;
    for line in summary.lines() {
        let run = line.len() - line.trim_start_matches('`').len();
        match fence {
            Some(open) if line == open => fence = None,
            Some(_) => {}
            None if run >= 3 => fence = Some(&line[..run]),
            None => outside.extend([line, "\n"]),
        }
    }
    assert_eq!(fence, None);
    for tag in outside.split('<').skip(1) {
        let ours = ["details>", "/details>", "summary>", "/summary>", "code>", "/code>"];
        assert!(ours.iter().any(|our| tag.starts_with(our)), "{tag}");
    }
    assert!(!outside.contains("broken out"), "{outside}");
    assert!(summary.contains("| **total** |"));
}

#[tokio::test]
async fn github_step_summary_equals_the_summary() {
    let mut place = ModuleRun::new(HOSTILE).await;
    let (step, summary) = (place.path("step"), place.path("summary.md"));
    std::fs::write(&step, "").unwrap();
    place.world.set("GITHUB_ACTIONS", "true");
    place.world.set("GITHUB_STEP_SUMMARY", step);
    let end = place.run("plan", 1, &["--summary", summary.to_str().unwrap()]).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let summary = place.read("summary.md");
    assert!(summary.contains("| **total** |"), "{summary}");
    assert_eq!(place.read("step").trim_end(), summary.trim_end());
}

#[tokio::test]
async fn failed_run_has_a_page_and_an_unwritable_page_does_not_change_the_result() {
    let place =
        ModuleRun::new("resource \"terraform_data\" \"x\" {\n  input = file(\"missing\")\n}\n")
            .await;
    let (page, summary) = (place.path("page.html"), place.path("summary.md"));
    let arguments = ["--report", page.to_str().unwrap(), "--summary", summary.to_str().unwrap()];
    let end = place.run("plan", 1, &arguments).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let (page, summary) = (place.read("page.html"), place.read("summary.md"));
    for text in ["Plan failed", "Error in plan", "class=\"bad\""] {
        assert!(page.contains(text), "{text}");
    }
    assert!(
        summary.contains("## ❌ Plan failed") && summary.contains("### Error in plan"),
        "{summary}"
    );

    // Its directory is removed during the run.
    let gone = place.path("gone");
    std::fs::create_dir(&gone).unwrap();
    std::fs::write(
        place.path("module/main.tf"),
        format!("resource \"terraform_data\" \"x\" {{\n  provisioner \"local-exec\" {{\n    command = \"rmdir {}\"\n  }}\n}}\n", gone.display()),
    )
    .unwrap();
    let [page, summary] = ["page.html", "summary.md"].map(|name| gone.join(name));
    let arguments = ["--report", page.to_str().unwrap(), "--summary", summary.to_str().unwrap()];
    let end = place.run("apply", 1, &arguments).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    for document in ["cannot write the summary", "cannot write the report"] {
        assert!(end.stderr.contains(document), "{}", end.stderr);
    }
}

#[tokio::test]
async fn page_mentions_an_unreachable_registry() {
    let world = World::new(&[]).await;
    world.add_run(world.config("plan"));
    world.faults.lock().unwrap().push(Fault {
        method: "GET",
        endpoint: "config",
        status: 403,
        times: usize::MAX,
    });
    let page = world.path("page.html");
    let output = world.execute().arg("--report").arg(&page).output().await.unwrap();
    assert_eq!(output.status.code(), Some(4));
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("Run failed") && page.contains("403"), "{page}");
}

#[tokio::test]
async fn unwritable_report_path_is_refused_before_the_run() {
    let place = ModuleRun::new(HOSTILE).await;
    std::fs::write(place.path("file"), "").unwrap();
    for (path, problem) in [
        (place.path("missing/page.html"), "No such file or directory"),
        (place.path("module"), "is a directory"),
        (place.path("file/page.html"), "ot a directory"),
        (Path::new("/dev/null").to_owned(), "not a regular file"),
    ] {
        for flag in ["--report", "--summary"] {
            let end = place.run("plan", 1, &[flag, path.to_str().unwrap()]).await;
            assert_eq!(end.code, Some(2), "{}", end.stderr);
            assert!(end.stderr.contains(problem) && end.stderr.contains(flag), "{}", end.stderr);
        }
    }
    assert!(!place.path("module/.terraform").exists());
    // The report directory is made by the run.
    let page = place.path("reports/page.html");
    let reports = place.path("reports");
    let arguments = ["--report", page.to_str().unwrap(), "--report-dir", reports.to_str().unwrap()];
    let end = place.run("validate", 1, &arguments).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(page.exists());
    assert!(place.read("reports/timings.txt").contains("validate"));
    // No other file may be there.
    let own = reports.join("result.json");
    let both = place.path("both");
    for (arguments, said) in [
        (
            ["--report", own.to_str().unwrap(), "--report-dir", reports.to_str().unwrap()],
            "of its own",
        ),
        (
            ["--report", both.to_str().unwrap(), "--summary", both.to_str().unwrap()],
            "the file of --summary",
        ),
    ] {
        let end = place.run("validate", 1, &arguments).await;
        assert_eq!(end.code, Some(2), "{}", end.stderr);
        assert!(end.stderr.contains(said), "{}", end.stderr);
    }
}

#[tokio::test]
async fn standard_output_as_report_is_refused_and_a_symbolic_link_is_kept() {
    use std::os::unix::fs::symlink;

    let place = ModuleRun::new("").await;
    // Symbolic links as in `/dev`; a failing test breaks only those in its own world.
    symlink("/proc/self/fd/1", place.path("stdout")).unwrap();
    symlink(place.path("stdout"), place.path("behind")).unwrap();
    for link in ["stdout", "behind"] {
        for flag in ["--report", "--summary"] {
            let written = place.path("written");
            let words = ["execute", "--local", "--operation", "validate", "--module-dir"];
            let mut command = place.world.command(&words);
            command.arg(place.path("module")).arg(flag).arg(place.path(link));
            command.stdout(std::fs::File::create(&written).unwrap());
            let end = place.world.end(&command.output().await.unwrap());
            assert_eq!(end.code, Some(2), "{}", end.stderr);
            assert!(end.stderr.contains("not a regular file"), "{}", end.stderr);
            assert!(place.path(link).is_symlink());
        }
    }

    std::fs::create_dir(place.path("pages")).unwrap();
    for (link, target, content) in [("old", "old.html", Some("old")), ("new", "new.html", None)] {
        let target = Path::new("pages").join(target);
        if let Some(content) = content {
            std::fs::write(place.path(target.to_str().unwrap()), content).unwrap();
        }
        symlink(&target, place.path(link)).unwrap();
        let path = place.path(link);
        let end = place.run("validate", 1, &["--report", path.to_str().unwrap()]).await;
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        assert!(path.is_symlink());
        assert!(place.read(target.to_str().unwrap()).contains("Validate succeeded"));
    }
}
