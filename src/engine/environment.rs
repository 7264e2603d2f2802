//! The environment of Terraform.

use butler_base::process::Environment;

/// Sets the variables that the runner needs, after the inherited variables and those of the run.
///
/// If `own_directory` is set, the runner decides on the data directory. It must be `.terraform`, because an
/// absolute path would appear in `path.module` and so in plans.
pub fn prepare(environment: &mut Environment, own_directory: bool) {
    environment.set("TF_INPUT", "0");
    environment.set("TF_IN_AUTOMATION", "1");
    // Terraform would contact HashiCorp for new versions in every run.
    environment.set_default("CHECKPOINT_DISABLE", "1");
    // In CI no user can answer git, and at a terminal it must fail instead of waiting.
    environment.set_default("GIT_TERMINAL_PROMPT", "0");
    if own_directory {
        environment.remove("TF_DATA_DIR");
    }
}
