//! Backend files with the real Terraform and a real PostgreSQL.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};

use butler_base::secret::PrivateDirectory;
use butler_protocol::spec::Backend;
use butler_runner::workspace::{BackendFiles, write_backend};
use nix::sys::stat::Mode;

use butler_testing::terraform::{TestModule, flag};
use butler_testing::{PASSWORD, Postgres};

/// A module with its own backend, which must be ignored.
const MODULE: &str = r#"
terraform {
  backend "local" {
    path = "own.tfstate"
  }
}
variable "value" { default = "" }
variable "pipe" { default = "" }
resource "terraform_data" "value" {
  input = var.value
  provisioner "local-exec" {
    command = var.pipe == "" ? "true" : "echo ready; read line < '${var.pipe}'"
  }
}
output "value" { value = terraform_data.value.output }
"#;

struct Configured {
    module: TestModule,
    files: BackendFiles,
    _private: PrivateDirectory,
}

/// A module with the backend's files, on which `init` has succeeded.
fn configured(files: &[(&str, &str)], kind: &str, config: &[(&str, &str)]) -> Configured {
    let module = TestModule::new(files);
    let json = |value: &str| serde_json::to_string(value).unwrap().into();
    let config = config.iter().map(|(name, value)| ((*name).to_owned(), json(value))).collect();
    let backend = Backend { kind: kind.to_owned(), config };
    let private = PrivateDirectory::create(module.base(), "private-").unwrap();
    let tool = "1.11.4".parse().unwrap();
    let files = write_backend(&backend, &tool, &module.directory(), &private).unwrap();
    module.succeed(&["init".to_owned(), flag("backend-config", &files.config_file)]);
    Configured { module, files, _private: private }
}

fn in_schema(server: &Postgres, schema: &str) -> Configured {
    let connection = server.connection_string();
    let config = [("conn_str", connection.as_str()), ("schema_name", schema)];
    configured(&[("main.tf", MODULE)], "pg", &config)
}

#[test]
fn two_schemas_in_one_database_keep_their_states_apart() {
    let server = Postgres::start();
    let first = in_schema(&server, "Team-A");
    let second = in_schema(&server, "team_b");
    first.module.succeed(&["apply", "-auto-approve", "-var=value=one"]);
    second.module.succeed(&["apply", "-auto-approve", "-var=value=two"]);
    assert_eq!(first.module.succeed(&["output", "-raw", "value"]), "one");
    assert_eq!(second.module.succeed(&["output", "-raw", "value"]), "two");
    for (schema, value) in [("Team-A", "one"), ("team_b", "two")] {
        let states = server.query(&format!(
            "SELECT data::json->'outputs'->'value'->>'value' FROM \"{schema}\".states"
        ));
        assert_eq!(states, [value]);
    }
    // A later run of the same module finds the state of the first.
    let again = in_schema(&server, "Team-A");
    let plan = again.module.succeed(&["plan", "-detailed-exitcode", "-var=value=one"]);
    assert!(plan.contains("No changes."), "{plan}");
    assert!(!first.module.directory().join("own.tfstate").exists());
    let clone = std::fs::read_to_string(&first.files.override_file).unwrap();
    assert!(!clone.contains(PASSWORD) && !clone.contains("conn_str"), "{clone}");
}

/// An apply that blocks in a provisioner and holds the lock, until it is dropped.
struct BlockingApply {
    apply: Child,
    pipe: std::fs::File,
}

impl BlockingApply {
    fn start(module: &TestModule) -> Self {
        let path = module.base().join("pipe");
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
        let arguments = [
            "apply",
            "-auto-approve",
            "-replace=terraform_data.value",
            &format!("-var=pipe={}", path.display()),
        ];
        let mut apply = module.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
        // Opened for reading and writing, so that neither opening nor writing can block.
        let pipe = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let output = BufReader::new(apply.stdout.take().unwrap());
        let standing = Self { apply, pipe };
        let mut lines = output.lines().map_while(Result::ok);
        assert!(lines.any(|line| line.ends_with("(local-exec): ready")), "apply has ended");
        standing.drain(lines)
    }

    /// Keeps reading: Terraform dies when its output is closed.
    fn drain(self, lines: impl Iterator<Item = String> + Send + 'static) -> Self {
        std::thread::spawn(move || lines.for_each(drop));
        self
    }

    fn finish(mut self) -> bool {
        self.pipe.write_all(b"go\n").unwrap();
        self.apply.wait().unwrap().success()
    }
}

impl Drop for BlockingApply {
    fn drop(&mut self) {
        let _ = self.pipe.write_all(b"go\n");
        let _ = self.apply.wait();
    }
}

#[test]
fn locked_state_blocks_runs_of_the_same_schema_only() {
    let server = Postgres::start();
    let first = in_schema(&server, "team_a");
    let same = in_schema(&server, "team_a");
    let other = in_schema(&server, "team_b");
    // While the database has no row for a state, Terraform locks all schemas.
    first.module.succeed(&["apply", "-auto-approve"]);
    other.module.succeed(&["apply", "-auto-approve"]);
    let standing = BlockingApply::start(&first.module);
    let error = same.module.fail(&["plan"]);
    assert!(error.contains("Error acquiring the state lock"), "{error}");
    other.module.succeed(&["apply", "-auto-approve", "-var=value=other"]);
    assert!(standing.finish());
    same.module.succeed(&["plan"]);
}

#[test]
fn backend_settings_are_passed_unchanged() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("a${b}%{c}$${d}\"é\\\t\n.tfstate");
    let config = [("path", path.to_str().unwrap())];
    let configured = configured(&[("main.tf", MODULE)], "local", &config);
    configured.module.succeed(&["apply", "-auto-approve"]);
    assert!(path.is_file());
}

#[test]
fn backend_of_the_run_replaces_the_backend_of_the_module() {
    let cloud = "terraform {\n  cloud {\n    organization = \"o\"\n    workspaces {\n      name = \"w\"\n    }\n  }\n}\n";
    let http = "terraform {\n  backend \"http\" {\n    address = \"http://127.0.0.1:1/\"\n  }\n}\n";
    let nothing = "output \"a\" {\n  value = 1\n}\n";
    for files in [
        [("main.tf", nothing), ("b.tf", "")],
        [("main.tf", nothing), ("b.tf", cloud)],
        [("main.tf", http), ("z_override.tf", http)],
        [("main.tf", nothing), ("override.tf", cloud)],
    ] {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("state");
        let configured = configured(&files, "local", &[("path", path.to_str().unwrap())]);
        configured.module.succeed(&["apply", "-auto-approve"]);
        assert!(Path::new(&path).is_file());
    }
}
