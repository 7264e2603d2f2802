//! A panic of the runner: the run ends with a final status, shows no secret, and leaves no files.

use std::sync::Arc;

use butler_base::secret::Redactor;
use butler_protocol::spec::{LocalOptions, Operation};
use butler_runner::exit::Exit;
use butler_runner::run::{Terminal, execute};
use butler_runner::settings::{Arguments, Environment, LocalRequest, Settings};
use serde_json::Value;

use butler_testing::world::World;

/// The default of the module's sensitive variable.
const SECRET: &str = "hunter22-of-the-module";

/// The settings of a plan of `module` in the world's directory, with a report directory.
fn settings_of_plan(world: &World, module: &str) -> Settings {
    let directory = world.path("module");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("main.tf"), module).unwrap();
    let set = |name: &str, path: &str| (name.into(), world.path(path).into_os_string());
    let variables = [
        set("HOME", "home"),
        set("TMPDIR", "tmp"),
        set("BUTLER_CACHE_DIR", "cache"),
        set("BUTLER_TMPFS_DIR", "shm"),
        set("BUTLER_REPORT_DIR", "reports"),
        ("PATH".into(), std::env::var_os("PATH").unwrap()),
    ];
    let runner = env!("CARGO_BIN_EXE_butler-runner").into();
    let environment = Environment::new(variables.into(), runner);
    let options = LocalOptions::default();
    let request = LocalRequest { directory, operation: Operation::Plan, tool: None, options };
    Settings::resolve_local(request, &Arguments::default(), &environment).unwrap()
}

#[tokio::test]
async fn panic_in_a_phase_fails_the_run_with_a_status_and_wipes_its_files() {
    let world = World::new(&[]).await;
    let module =
        format!("variable \"password\" {{\n  default = \"{SECRET}\"\n  sensitive = true\n}}\n");
    let settings = settings_of_plan(&world, &module);
    let redactor = Arc::new(Redactor::new());
    // The redactor calls its observer in the phase that registers the secrets of the module.
    redactor.observe(|value| assert!(value != SECRET, "injected panic that quotes {value}"));
    let exit = Box::pin(execute(settings, redactor, Terminal::default())).await;
    assert_eq!(exit, Exit::Failed);
    let status = std::fs::read_to_string(world.path("reports/status.json")).unwrap();
    assert!(!status.contains(SECRET), "{status}");
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["status"], "failed");
    let message = status["error"]["message"].as_str().unwrap();
    assert_eq!(message, "the runner failed (a bug): injected panic that quotes ***");
    for directory in ["tmp", "shm"] {
        assert!(world.left_in(directory).is_empty(), "{:?}", world.left_in(directory));
    }
}
