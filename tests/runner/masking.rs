//! A module that prints its secrets in every way, and that none of them is published.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use butler_base::secret::Redactor;
use butler_runner::run::SECRET_VARIABLES;
use secrecy::SecretString;
use serde_json::{Value, json};

use butler_testing::documented::assert_documented;
use butler_testing::world::{RunEnd, TOKEN, World};

/// Declares no variable as sensitive, so that Terraform prints all values, in every way.
const NASTY: &str = r#"
variable "key" {}
variable "quoted" {}
variable "percent" {}
variable "phrase" {}
variable "settings" { type = object({ password = string, list = list(string) }) }
variable "upstream" {}
variable "broken" { default = false }

locals {
  all = {
    key      = var.key
    quoted   = var.quoted
    percent  = var.percent
    phrase   = var.phrase
    settings = var.settings.password
    listed   = var.settings.list[0]
    upstream = var.upstream
  }
}

resource "terraform_data" "values" {
  input = {
    plain  = local.all
    json   = jsonencode(local.all)
    twice  = jsonencode(jsonencode(local.all))
    base64 = [for value in values(local.all) : [
      base64encode(value), base64encode("a${value}"), base64encode("ab${value}z"),
    ]]
    url = [for value in values(local.all) : "https://user:${urlencode(value)}@example.com/"]
  }
  lifecycle {
    precondition {
      condition     = !var.broken
      error_message = "This is quite a long error message that quotes the value ${var.phrase} and ${var.quoted} and ${jsonencode(local.all)} and then goes on."
    }
  }
  provisioner "local-exec" {
    environment = { for name, value in local.all : upper(name) => value }
    command     = <<-EOT
      env
      for value in "$KEY" "$QUOTED" "$PERCENT" "$PHRASE" "$SETTINGS" "$LISTED" "$UPSTREAM" "$RUN_SECRET" "$AWS_SECRET_ACCESS_KEY"; do
        printf '%s' "$value" | base64
        printf '%s' "$value" | base64 -w 0; echo
        printf 'a%s' "$value" | base64 -w 0; echo
        printf 'ab%sz' "$value" | base64 -w 0; echo
        printf '%s' "$value" | base64 -w 0 | tr '+/' '-_'; echo
        printf 'value: %s\n' "$value" >&2
      done
    EOT
  }
  provisioner "local-exec" {
    command = ": <<'END'\n${var.key} ${jsonencode(local.all)}\nEND\necho end of the provisioner"
  }
}

check "quotes" {
  assert {
    condition     = terraform_data.values.input.plain.phrase == ""
    error_message = "A check that fails quotes the value, which has several words: ${var.phrase}."
  }
}

output "all" { value = local.all }
"#;

/// The inputs of the runs, by name.
struct Secrets(Vec<(&'static str, String)>);

impl Secrets {
    fn new() -> Self {
        let lines: Vec<String> = (0..20u8)
            .map(|line| {
                STANDARD.encode(
                    (0..48)
                        .map(|byte| u8::wrapping_mul(byte, 37) ^ u8::wrapping_mul(line, 91))
                        .collect::<Vec<u8>>(),
                )
            })
            .collect();
        let key =
            format!("-----BEGIN NASTY KEY-----\n{}\n-----END NASTY KEY-----\n", lines.join("\n"));
        let secrets = [
            ("key", key.as_str()),
            ("quoted", "p\"a's\\s <w>&or/d ${not} %{either} ünï\u{2028}€"),
            ("percent", "50%+off=yes&x/y?z~%41"),
            (
                "phrase",
                "correct horse battery staple in many more words than fit upon one single line of it",
            ),
            ("settings", "hunter2 \"in\" settings"),
            ("listed", "hunter2-in-a-list"),
            ("upstream", "hunter2-from-upstream"),
            ("run", "hunter2+run/environment=="),
            ("job", "hunter2+job/environment/AKIA+x"),
            ("proxy", "hunter2-proxy-password"),
            ("mirror", "hunter2-mirror-password"),
            ("git", "hunter2-git-token"),
            ("token", TOKEN),
        ];
        Self(secrets.map(|(name, value)| (name, value.to_owned())).into())
    }

    fn value(&self, name: &str) -> &str {
        &self.0.iter().find(|(known, _)| *known == name).unwrap().1
    }

    /// Every text that must not be published.
    fn needles(&self) -> Vec<(String, String)> {
        let mut needles = Vec::new();
        for (name, value) in &self.0 {
            let lines = value.lines().filter(|line| line.len() > 8);
            for text in [value.trim()].into_iter().chain(lines) {
                needles.extend(
                    forms(text).into_iter().map(|(form, it)| (format!("{name}, {form}"), it)),
                );
            }
        }
        needles.sort_unstable();
        needles.dedup();
        needles
    }
}

/// `text` in the encodings of other programs. No code of the runner is used here.
fn forms(text: &str) -> Vec<(&'static str, String)> {
    let json = |text: &str| {
        let json = serde_json::to_string(text).unwrap();
        json[1..json.len() - 1].to_owned()
    };
    let go = json(text)
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028");
    let percent = |space: &str, upper: bool| -> String {
        let escape = |byte: u8| match byte {
            b' ' => space.to_owned(),
            byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                char::from(byte).to_string()
            }
            byte if upper => format!("%{byte:02X}"),
            byte => format!("%{byte:02x}"),
        };
        text.bytes().map(escape).collect()
    };
    let mut forms = vec![
        ("as it is", text.to_owned()),
        ("JSON", json(text)),
        ("Go's JSON", go.clone()),
        ("JSON in JSON", json(&json(text))),
        ("Go's JSON in JSON", json(&go)),
        ("Go's JSON in JSON in JSON", json(&json(&go))),
        ("JSON with slashes", json(text).replace('/', "\\/")),
        ("HCL", json(text).replace("${", "$${").replace("%{", "%%{")),
        ("URL", percent("%20", true)),
        ("URL in lower case", percent("%20", false)),
        ("query", percent("+", true)),
        ("query in lower case", percent("+", false)),
    ];
    for before in ["", "a", "ab"] {
        let encoded = STANDARD.encode(format!("{before}{text}\0\0"));
        let certain = (before.len() * 8).div_ceil(6)..(before.len() + text.len()) * 8 / 6;
        forms.push(("base64", encoded[certain].to_owned()));
    }
    let url_safe: Vec<_> = forms
        .iter()
        .filter(|(form, _)| form.ends_with("base64"))
        .map(|(form, text)| (*form, text.replace('+', "-").replace('/', "_")))
        .collect();
    forms.extend(url_safe);
    // The lines of `base64`, each of which can be decoded on its own.
    let encoded = STANDARD.encode(text);
    let lines = encoded.as_bytes().chunks(76).filter(|line| line.len() >= 8);
    forms.extend(lines.map(|line| ("wrapped base64", String::from_utf8(line.to_vec()).unwrap())));
    forms
}

/// All data that left the runner, by place: reports except outputs, standard streams, and all files
/// of the world except the state and the outputs.
fn places(world: &World, end: &RunEnd) -> Vec<(String, String)> {
    let received = world.received();
    let mut places = vec![
        ("the log".to_owned(), received.log_text()),
        ("standard output".to_owned(), end.stdout.clone()),
        ("standard error".to_owned(), end.stderr.clone()),
    ];
    for body in received.statuses.iter().chain(&received.plans) {
        places.push(("a status or plan".to_owned(), body.to_string()));
        texts(body, &mut places);
    }
    files(world.directory.path(), &mut places);
    places
}

/// The strings in `json` after decoding.
fn texts(json: &Value, places: &mut Vec<(String, String)>) {
    match json {
        Value::String(text) => places.push(("a text of a status or plan".to_owned(), text.clone())),
        Value::Array(values) => values.iter().for_each(|value| texts(value, places)),
        Value::Object(fields) => fields.values().for_each(|value| texts(value, places)),
        _ => {}
    }
}

fn files(directory: &Path, places: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !path.is_symlink() {
            files(&path, places);
        } else if !name.starts_with("terraform.tfstate") && name != "outputs.json" {
            let content = std::fs::read(&path).unwrap_or_default();
            places
                .push((path.display().to_string(), String::from_utf8_lossy(&content).into_owned()));
        }
    }
}

/// The secrets and the places in which they are found.
fn hits(needles: &[(String, String)], places: &[(String, String)]) -> Vec<String> {
    let mut hits = Vec::new();
    for (place, text) in places {
        for (what, needle) in needles {
            if text.contains(needle) {
                hits.push(format!("{what} in {place}: {needle}"));
            }
        }
    }
    hits
}

fn assert_clean(secrets: &Secrets, places: &[(String, String)]) {
    let hits = hits(&secrets.needles(), places);
    assert!(hits.is_empty(), "{} hits:\n{:#?}", hits.len(), &hits[..hits.len().min(20)]);
}

/// A world in which the hostile module gets all secrets.
async fn world(secrets: &Secrets) -> World {
    let mut world = World::new(&[("main.tf", NASTY)]).await;
    world.set("BUTLER_SENSITIVE_VALUES", "literal");
    world.set("BUTLER_REPORT_DIR", world.path("report"));
    world.set("BUTLER_LOG", "trace");
    world.set("BUTLER_GIT_TOKEN", secrets.value("git"));
    let login = |name: &str| format!("http://user:{}@127.0.0.1:9/", secrets.value(name));
    world.set("BUTLER_MIRROR", login("mirror"));
    world.set("HTTPS_PROXY", login("proxy"));
    world.set("AWS_SECRET_ACCESS_KEY", secrets.value("job"));
    world
}

fn config(world: &World, secrets: &Secrets, operation: &str) -> Value {
    let secret = |value: Value| json!({"value": value, "sensitive": true});
    let settings = format!(
        "{{ password = {:?}, list = [\"{}\"] }}",
        secrets.value("settings"),
        secrets.value("listed")
    );
    let mut config = world.config(operation);
    config["variables"] = json!({
        "key": secret(secrets.value("key").into()),
        "quoted": secret(secrets.value("quoted").into()),
        "percent": secret(secrets.value("percent").into()),
        "phrase": secret(secrets.value("phrase").into()),
        "settings": secret(settings.into()),
        "upstream": secret("replaced".into()),
    });
    config["upstreamOutputs"] = json!({"upstream": secrets.value("upstream")});
    config["envVars"] = json!({"RUN_SECRET": {"value": secrets.value("run"), "sensitive": true}});
    config
}

#[test]
fn secret_quoted_by_bash_is_masked() {
    let secret = "p\"a's\\s <w>&or/d $(x) `y` ünï{}[]~#;!^*?";
    let json = serde_json::to_string(secret).unwrap();
    let redactor = Redactor::new();
    redactor.register(&[SecretString::from(secret)]);
    for script in [
        r#"set -x; : "$SECRET""#,
        r#"set -x; : --data "{\"password\": $JSON}""#,
        r#"set -x; password=$SECRET; [ "$password" = "$SECRET" ]"#,
        r#"printf '%q\n' "$SECRET""#,
        r#"printf '%s\n' "${SECRET@Q}""#,
        "declare -p SECRET JSON",
        "export -p",
        "set",
    ] {
        for locale in ["C", "C.UTF-8"] {
            let output = std::process::Command::new("bash")
                .args(["--norc", "-c", script])
                .env_clear()
                .envs([("SECRET", secret), ("JSON", &json), ("LC_ALL", locale)])
                .output()
                .unwrap();
            let text = [output.stdout, output.stderr].concat();
            let shown = redactor.redact(&text);
            let left = ["or/d", "ünï", "303\\274", "$(x)"].map(|part| shown.contains(part));
            assert_eq!((shown.contains("***"), left), (true, [false; 4]), "{script}: {shown}");
        }
    }
}

#[test]
fn scan_finds_planted_secrets_in_every_encoding() {
    let secrets = Secrets::new();
    let needles = secrets.needles();
    for (name, value) in &secrets.0 {
        for (form, text) in forms(value.trim()) {
            let places = [("a place".to_owned(), format!("before {text} behind"))];
            assert!(!hits(&needles, &places).is_empty(), "{form} of {name}");
        }
    }
    let url_safe = URL_SAFE.encode(format!("ab{}z", secrets.value("quoted")));
    assert!(!hits(&needles, &[("base64".to_owned(), url_safe)]).is_empty());

    let directory = tempfile::tempdir().unwrap();
    let deep = directory.path().join("a/b");
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("c"), secrets.value("percent")).unwrap();
    let mut places = Vec::new();
    files(directory.path(), &mut places);
    let hits = hits(&needles, &places);
    assert!(hits.iter().any(|hit| hit.starts_with("percent, as it is in ")), "{hits:?}");
}

#[tokio::test]
async fn no_output_of_a_hostile_modules_plan_or_apply_contains_a_secret() {
    let secrets = Secrets::new();
    let world = world(&secrets).await;
    for operation in ["plan", "apply"] {
        let end = world.run(config(&world, &secrets, operation)).await;
        assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, end.stdout);
        let places = places(&world, &end);
        assert_clean(&secrets, &places);
        // The module did print its secrets: the log has the text with masks.
        let log = world.received().log_text();
        assert!(
            log.contains("A check that fails quotes the value") && log.contains("***"),
            "{log}"
        );
        let report = places.iter().filter(|(place, _)| place.contains("/report/")).count();
        assert!(report >= 4, "log, plan in both forms, status: {report}");
        if operation == "apply" {
            for line in ["RUN_SECRET=***", "AWS_SECRET_ACCESS_KEY=***", "value: ***", "end of the"]
            {
                assert!(log.contains(line), "{line}: {log}");
            }
            let outputs = world.received().outputs[0]["outputs"]["all"]["value"].clone();
            for name in ["key", "quoted", "percent", "phrase", "settings", "listed", "upstream"] {
                assert_eq!(outputs[name], secrets.value(name), "outputs go in full");
            }
        }
    }
}

#[tokio::test]
async fn secrets_quoted_in_an_error_are_masked() {
    let secrets = Secrets::new();
    let world = world(&secrets).await;
    let mut config = config(&world, &secrets, "apply");
    config["variables"]["broken"] = json!({"value": true});
    let end = world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_clean(&secrets, &places(&world, &end));
    let log = world.received().log_text();
    assert!(log.contains("This is quite a long error message"), "{log}");
}

#[tokio::test]
async fn github_masks_are_registered_before_any_other_output() {
    let secrets = Secrets::new();
    let mut world = world(&secrets).await;
    world.set("GITHUB_ACTIONS", "true");
    let mut end = world.run(config(&world, &secrets, "apply")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let (masks, shown): (Vec<&str>, Vec<&str>) =
        end.stderr.lines().partition(|line| line.starts_with("::add-mask::"));
    for (name, value) in &secrets.0 {
        for line in value.trim().lines() {
            let command = format!("::add-mask::{}", line.replace('%', "%25"));
            assert!(masks.contains(&command.as_str()), "{name}: {masks:#?}");
        }
    }
    assert!(end.stderr.starts_with("::add-mask::"), "{}", end.stderr);
    end.stderr = shown.join("\n");
    let places = places(&world, &end);
    assert_clean(&secrets, &places);
    let elsewhere = places.iter().find(|(_, text)| text.contains("::add-mask::"));
    assert_eq!(elsewhere.map(|(place, _)| place), None);
}

#[tokio::test]
async fn mask_commands_are_sent_to_the_ci_system_only() {
    let secrets = Secrets::new();
    let mut world = world(&secrets).await;
    world.set("GITLAB_CI", "true");
    let end = world.run(config(&world, &secrets, "plan")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_clean(&secrets, &places(&world, &end));

    world.set("GITHUB_ACTIONS", "true");
    for (script, masks) in [
        (r#""$0" "$@" | cat > "$HOME/../stdout""#, true),
        (r#"out=$("$0" "$@"); echo "$out" > "$HOME/../stdout""#, true),
        (r#""$0" "$@" > "$HOME/../stdout" 2>&1"#, false),
        (r#""$0" "$@" 2>&1 | cat > "$HOME/../stdout""#, false),
    ] {
        world.add_run(config(&world, &secrets, "plan"));
        let mut shell = world.execute_in_shell(script);
        let mut end = world.end(&shell.output().await.unwrap());
        assert_eq!(end.stderr.contains("::add-mask::"), masks, "{script}: {}", end.stderr);
        end.stderr = end.stderr.lines().filter(|line| !line.starts_with("::add-mask::")).collect();
        let written = std::fs::read_to_string(world.path("stdout")).unwrap();
        assert!(written.contains("Terraform will perform"), "{script}: {written}");
        assert!(!written.contains("::add-mask::"), "{script}: {written}");
        assert_clean(&secrets, &places(&world, &end));
    }
}

#[test]
fn documentation_lists_the_variables_that_count_as_secret() {
    let rows: Vec<_> =
        SECRET_VARIABLES.iter().map(|(name, use_)| format!("| `{name}` | {use_} |")).collect();
    assert_documented("docs/masking.md", "secret variables", &rows);
}
