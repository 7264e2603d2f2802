//! GitLab: sections, and the files that it collects as reports.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use butler_runner::report::{PICKED_UP, REPORTS};
use serde_json::{Value, json};

use super::{HOSTILE, read};
use butler_testing::stand_in::StandIn;
use butler_testing::terraform::machine_terraform;
use butler_testing::world::{MODULE, World};

async fn job(files: &[(&str, &str)]) -> (World, PathBuf) {
    let mut world = World::new(files).await;
    let project = world.path("project");
    std::fs::create_dir(&project).unwrap();
    world.set("GITLAB_CI", "true");
    world.set("CI_PROJECT_DIR", &project);
    (world, project.join("butler-report"))
}

fn names(directory: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn apply_writes_counts_and_public_outputs_for_later_jobs() {
    let more = r#"
variable "password" {
  type = string
}
output "password" {
  value     = "marked"
  sensitive = true
}
output "derived" { value = "x-${var.password}-y" }
output "list-of" { value = ["a", "b"] }
output "lines" { value = "one\ntwo" }
"#;
    let (world, reports) = job(&[("main.tf", MODULE), ("more.tf", more)]).await;
    let mut config = world.config("apply");
    config["variables"] = json!({"password": {"value": "hunter22-hidden", "sensitive": true}});
    let end = world.run(config).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(names(&reports), ["outputs.env", "result.json", "terraform.json", "timings.txt"]);
    for name in names(&reports) {
        let file = reports.join(&name);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644, "{name}");
        assert!(!read(&file).contains("hunter22"), "{name}");
    }
    let counts: Value = serde_json::from_str(&read(&reports.join("terraform.json"))).unwrap();
    assert_eq!(counts, json!({"create": 1, "update": 0, "delete": 0}));
    let variables = read(&reports.join("outputs.env"));
    let expected = "TF_OUTPUT_greeting=hello world\nTF_OUTPUT_list_of=[\"a\",\"b\"]\n";
    assert_eq!(variables, expected);
    let result: Value = serde_json::from_str(&read(&reports.join("result.json"))).unwrap();
    let warnings = result["warnings"].to_string();
    for left_out in ["`derived` (it is sensitive)", "`lines` (it has several lines)"] {
        assert!(end.stderr.contains(left_out), "{}", end.stderr);
        assert!(warnings.contains(left_out), "{warnings}");
    }
}

#[tokio::test]
async fn files_of_an_earlier_run_are_removed() {
    let (mut world, reports) = job(&[("main.tf", MODULE)]).await;
    let all = world.path("reports");
    let own = |directory: &std::path::Path| -> Vec<String> {
        names(directory).into_iter().filter(|name| !name.starts_with("kept")).collect()
    };
    for directory in [&reports, &all] {
        // Other files there remain, and a symbolic link is not followed.
        std::fs::create_dir_all(directory.join("kept")).unwrap();
        std::fs::write(directory.join("kept.json"), "kept").unwrap();
        std::os::unix::fs::symlink("kept.json", directory.join("terraform.json")).unwrap();
        std::fs::write(directory.join("junit.xml"), "old").unwrap();
    }
    let end = world.run(world.config("apply")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(own(&reports), ["outputs.env", "result.json", "terraform.json", "timings.txt"]);
    let mut broken = world.config("plan");
    broken["source"]["gitRef"] = json!("missing");
    let end = world.run(broken.clone()).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(own(&reports), ["result.json", "timings.txt"]);

    world.set("BUTLER_REPORT_DIR", &all);
    let end = world.run(world.config("apply")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(own(&all).contains(&"outputs.json".to_owned()), "{:?}", own(&all));
    let is_known = |name: &String| PICKED_UP.iter().chain(&REPORTS).any(|known| known == name);
    assert!(own(&all).iter().all(is_known), "{:?}", own(&all));
    let end = world.run(broken).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(own(&all), ["log.txt", "result.json", "status.json", "timings.txt"]);
    for directory in [&reports, &all] {
        assert_eq!(read(&directory.join("kept.json")), "kept");
        assert!(directory.join("kept").is_dir());
    }
}

#[tokio::test]
async fn control_characters_in_a_test_name_keep_report_and_counts() {
    let test = "run \"good\" {\n  command = plan\n}\nrun \"bad\" {\n  command = plan\n  assert {\n    condition     = var.name == \"y\"\n    error_message = \"not \\u0001 \\u001b[31mred\"\n  }\n}\n";
    let (world, reports) = job(&[("main.tf", MODULE), ("a.tftest.hcl", test)]).await;
    let end = world.run(world.config("test")).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let result: Value = serde_json::from_str(&read(&reports.join("result.json"))).unwrap();
    assert_eq!(result["tests"], json!({"passed": 1, "failed": 1, "skipped": 0}));
    let junit = read(&reports.join("junit.xml"));
    roxmltree::Document::parse(&junit).unwrap();
    assert!(junit.contains("not \u{fffd} \u{fffd}[31mred"), "{junit}");
}

#[tokio::test]
async fn malformed_junit_file_is_reported() {
    let (mut world, reports) = job(&[("main.tf", MODULE)]).await;
    let act = r#"for argument; do case "$argument" in -junit-xml=*) echo '<testsuites' > "${argument#*=}" ;; esac; done"#;
    StandIn::doing(&mut world, &[("test", act)]);
    let end = world.run(world.config("test")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let result: Value = serde_json::from_str(&read(&reports.join("result.json"))).unwrap();
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("cannot parse the JUnit file"), "{warnings}");
}

#[tokio::test]
async fn plan_sections_cannot_be_closed_by_their_content() {
    let (world, reports) = job(&[("main.tf", HOSTILE)]).await;
    let mut config = world.config("apply");
    config["variables"] = json!({"exit": {"value": "1"}});
    let end = world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert!(end.stdout.contains("section_end :1:hacked"), "{}", end.stdout);
    let marks: Vec<(&str, &str)> = end
        .stdout
        .lines()
        .filter_map(|line| {
            let line = line.strip_prefix("\u{1b}[0K")?;
            let (kind, rest) = line.split_once(':')?;
            let (name, _) = rest.split_once(':')?.1.split_once("\r\u{1b}[0K")?;
            kind.strip_prefix("section_").filter(|it| !it.ends_with(' ')).map(|kind| (kind, name))
        })
        .collect();
    for pair in marks.chunks(2) {
        assert_eq!((pair[0].0, pair[1].0, pair[0].1), ("start", "end", pair[1].1));
    }
    let phases = ["source", "init", "plan", "apply", "timings"];
    assert_eq!(marks.len(), 2 * phases.len());
    for (phase, pair) in phases.iter().zip(marks.chunks(2)) {
        assert!(pair[0].1.starts_with(&format!("butler_{phase}_")), "{marks:?}");
    }
    assert_eq!(names(&reports), ["result.json", "terraform.json", "timings.txt"]);
}

#[tokio::test]
async fn test_run_of_an_older_terraform_writes_a_junit_file() {
    let test = "run \"good\" {\n  command = plan\n}\nrun \"bad\" {\n  command = plan\n  assert {\n    condition     = var.name == \"y\"\n    error_message = \"it is <${var.name}>\"\n  }\n}\n";
    let (mut world, reports) = job(&[("main.tf", MODULE), ("a.tftest.hcl", test)]).await;
    let (terraform, version) = machine_terraform();
    let older = format!(
        "#!/bin/sh\n[ \"$1\" = version ] && {{ '{0}' \"$@\" | sed 's/{version}/1.9.8/g'; exit; }}\nexec '{0}' \"$@\"\n",
        terraform.display()
    );
    let bin = world.use_bare_path();
    let program = bin.join("terraform");
    std::fs::write(&program, older).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    for name in ["sed", "cat"] {
        let found = butler_testing::environment::find_program(name).unwrap();
        std::os::unix::fs::symlink(found, bin.join(name)).unwrap();
    }
    let mut config = world.config("test");
    config["terraformVersion"] = json!("1.9.8");
    config["variables"] = json!({"name": {"value": "hunter22-hidden", "sensitive": true}});
    let end = world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(names(&reports), ["junit.xml", "result.json", "timings.txt"]);
    let junit = read(&reports.join("junit.xml"));
    let xml = roxmltree::Document::parse(&junit).unwrap();
    let cases: Vec<_> = xml
        .descendants()
        .filter(|node| node.has_tag_name("testcase"))
        .map(|case| {
            let wrong = case.children().find(|child| child.has_tag_name("failure"));
            let said = wrong.and_then(|failure| failure.text()).unwrap_or_default();
            (case.attribute("name").unwrap(), said.contains("it is <***>"))
        })
        .collect();
    assert_eq!(cases, [("good", false), ("bad", true)], "{junit}");
    assert!(!junit.contains("hunter22"), "{junit}");
    let result: Value = serde_json::from_str(&read(&reports.join("result.json"))).unwrap();
    assert_eq!(result["tests"], json!({"passed": 1, "failed": 1, "skipped": 0}));
}
