//! Errors in settings are reported before anything starts, with line, field and hint.

use expect_test::expect;
use serde_json::json;

use super::write_settings;
use butler_testing::world::{MODULE, World};

/// Files with one error each.
const BROKEN: &[&str] = &[
    "terraformrc:\n  providerInstallation:\n    networkMiror:\n      url: https://a\n",
    "# nothing yet\nterraformRC: {}\nlogging:\n  level: loud\n  colour: blue\n",
    "terraformrc:\n  networkMirror: {url: 'https://a/'}\n",
    "terraformrc:\n  credentials:\n    app.terraform.io:\n      token: hunter22\n",
    "terraformrc:\n  credentials:\n    https://app.terraform.io: {token: {secretId: a}}\n",
    "terraformrc:\n  providerInstallation:\n    networkMirror: {url: 'http://a/', include: azurerm}\n    filesystemMirror: {path: ./mirror}\n",
    "env:\n  LD_PRELOAD: /tmp/x\n  TF_CLI_CONFIG_FILE: /tmp/x\n  TF_TOKEN_app_terraform_io: hunter22\n  A: [1]\n  'B=': x\n",
    "backend:\n  config: {secretSuffix: x}\n",
    "backend:\n  type: s3\n  config:\n    accessKey: a\n    access_key: b\n    assumeRole: {externalId: {secretId: hunter22}}\n",
    "backend: s3\nlogging: [trace]\n",
    "env: {A: 1}\nenv: {B: 1}\n",
    "a: &a [x]\nenv: *a\n",
    "env: {A: 1}\n---\nenv: {B: 1}\n",
    "env: {A: 'hunter22\n",
    "logging: {level: info, path: terraform.log}\n",
    "- env\n",
    "{\"env\": {\"A\": 1},\n \"loging\": {}}",
];

#[tokio::test]
async fn settings_file_errors_are_reported_with_their_line_before_any_request() {
    let mut shown = String::new();
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.add_run(world.config("plan"));
    for text in BROKEN {
        let path = write_settings(&mut world, text).display().to_string();
        let output = world.execute().output().await.unwrap();
        let end = world.end(&output);
        assert_eq!(end.code, Some(2), "{text}: {}", end.stderr);
        let stderr = end.stderr.replace(&path, "FILE");
        for line in stderr.lines() {
            let (_, line) = line.split_once(' ').unwrap();
            shown += line.trim_start();
            shown += "\n";
        }
    }
    assert_eq!(world.received().request_names(), [""; 0]);
    assert!(!shown.contains("hunter22"), "{shown}");
    expect![[r"
        ERROR the settings file `FILE` cannot be used: line 3: unknown key `networkMiror` in `terraformrc.providerInstallation`, did you mean `networkMirror`?; `butler-runner schema settings` prints what there is
        ERROR the settings file `FILE` cannot be used: line 2: unknown key `terraformRC`, did you mean `terraformrc`?; line 4: `logging.level` must be one of TRACE, DEBUG, INFO, WARN, ERROR, OFF, JSON; line 5: unknown key `colour` in `logging`, there are level, path; `butler-runner schema settings` prints what there is
        ERROR the settings file `FILE` cannot be used: line 2: unknown key `networkMirror` in `terraformrc`, it belongs to `terraformrc.providerInstallation`; `butler-runner schema settings` prints what there is
        ERROR the settings file `FILE` cannot be used: line 4: `terraformrc.credentials.app.terraform.io.token` must be a reference such as {secretId: tfc-token, key: token}, and is text; `butler-runner schema settings` prints what there is
        ERROR the settings file `FILE` cannot be used: line 3: `terraformrc.credentials.https://app.terraform.io` is not a host such as `app.terraform.io`; `butler-runner schema settings` prints what there is
        ERROR the settings file `FILE` cannot be used: line 3: `terraformrc.providerInstallation.networkMirror.include` must be a list of patterns such as `hashicorp/*` or `registry.example.com/*/*`; line 3: `terraformrc.providerInstallation.networkMirror.url` must be an https URL; line 4: `terraformrc.providerInstallation.filesystemMirror.path` must be an absolute path; `butler-runner schema settings` prints what there is
        ERROR the settings file `FILE` cannot be used: line 2: `env.LD_PRELOAD` cannot be set here: it loads other code into the verified tool, git, and ssh; line 3: `env.TF_CLI_CONFIG_FILE` cannot be set here: it decides where providers come from, and how they are checked; line 4: `env.TF_TOKEN_app_terraform_io` is a secret; give `terraformrc.credentials` a reference to it; line 5: `env.A` must be text, a number, true or false, and is a list; line 6: `env.B=` is not a valid name of an environment variable; `butler-runner schema settings` prints what there is
        ERROR the settings file `FILE` cannot be used: line 2: `backend.type` is missing; `butler-runner schema settings` prints what there is
        ERROR the settings file `FILE` cannot be used: line 5: `backend.config.access_key` is Terraform's `access_key`, which is given twice; line 6: `backend.config.assumeRole.externalId` is a reference inside of a value; only the whole value of a setting can be one; `butler-runner schema settings` prints what there is
        ERROR the settings file `FILE` cannot be used: line 1: `backend` must be a map, and is text; line 2: `logging` must be a map, and is a list; `butler-runner schema settings` prints what there is
        ERROR the settings file `FILE` cannot be used: line 2: `env` is given twice; `butler-runner schema settings` prints what there is
        ERROR the settings file `FILE` cannot be used: line 1: has an anchor or an alias; write the value out; `butler-runner schema settings` prints what there is
        ERROR the settings file `FILE` cannot be used: line 2: begins a second document; one is taken; `butler-runner schema settings` prints what there is
        ERROR the settings file `FILE` cannot be used: line 1: no YAML (column 10: while scanning a quoted scalar, found unexpected end of stream); `butler-runner schema settings` prints what there is
        ERROR `logging.path` of the settings file is relative, but no report directory is set; make it absolute, or give --report-dir (BUTLER_REPORT_DIR)
        ERROR the settings file `FILE` cannot be used: line 1: the whole must be a map, and is a list; `butler-runner schema settings` prints what there is
        ERROR the settings file `FILE` cannot be used: line 2: unknown key `loging`, did you mean `logging`?; `butler-runner schema settings` prints what there is
    "]].assert_eq(&shown);
}

#[tokio::test]
async fn oversized_and_non_utf8_settings_files_are_refused() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.add_run(world.config("plan"));
    let path = write_settings(&mut world, "");
    for (content, expected) in [
        (vec![b'#'; 1024 * 1024 + 1], "is larger than 1 MiB"),
        (b"env: {A: \xff}".to_vec(), "is not UTF-8"),
    ] {
        std::fs::write(&path, content).unwrap();
        let output = world.execute().output().await.unwrap();
        let end = world.end(&output);
        assert_eq!(end.code, Some(2), "{}", end.stderr);
        assert!(end.stderr.contains(expected), "{}", end.stderr);
    }
    std::fs::write(&path, vec![b'#'; 1024 * 1024]).unwrap();
    let output = world.execute().output().await.unwrap();
    assert_eq!(world.end(&output).code, Some(0));
}

#[tokio::test]
async fn unsupported_settings_in_a_run_fail_the_run() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let mut shown = String::new();
    for settings in [
        json!({"terraformrc": {"credentials": {"app.terraform.io": {"token": "hunter22"}}}}),
        json!({"terraformrc": {"credentials": {"app.terraform.io": {"token": {"secretId": "tfc-token", "key": "token"}}}},
            "backend": {"type": "s3", "config": {"secretKey": {"secretId": "prod/keys", "key": "secretKey"}}}}),
        json!({"terraformrc": {"credentials": {"app.terraform.io": {"token": {"secretId": "tfc", "key": "../../x"}}}}}),
        json!([]),
    ] {
        let mut config = world.config("plan");
        config.as_object_mut().unwrap().remove("stateBackend");
        config["terraformSettings"] = settings;
        let end = world.run(config).await;
        assert_eq!(end.code, Some(1), "{}", end.stderr);
        let error = world.last_status()["error"].clone();
        let [phase, message] = ["phase", "message"].map(|part| error[part].as_str().unwrap());
        shown.extend([phase, ": ", message, "\n"]);
    }
    assert!(!shown.contains("hunter22"), "{shown}");
    expect![[r"
        config: `terraformSettings` of the run cannot be used: `terraformrc.credentials.app.terraform.io.token` must be a reference such as {secretId: tfc-token, key: token}, and is text
        variables: cannot resolve 2 secrets: `backend.config.secret_key` (set `PROD_KEYS_SECRET_KEY` or mount `<secrets-dir>/prod/keys/secretKey` for --secrets-dir), `terraformrc.credentials.app.terraform.io` (set `TFC_TOKEN_TOKEN` or mount `<secrets-dir>/tfc-token/token` for --secrets-dir)
        variables: cannot resolve the secret of `terraformrc.credentials.app.terraform.io`: a part of the reference cannot be the name of a secret
        config: `terraformSettings` of the run cannot be used: the whole must be a map, and is a list
    "]].assert_eq(&shown);
}
