//! What Terraform finds in its environment.

use butler_base::process::Environment;

/// Sets what the runner needs on top of what was inherited and what the run asks for.
///
/// `own_directory` says that the data directory is the runner's to decide: it must then be
/// `.terraform`, because an absolute one shows up in `path.module` and so in users' plans.
pub fn prepare(environment: &mut Environment, own_directory: bool) {
    environment.set("TF_INPUT", "0");
    environment.set("TF_IN_AUTOMATION", "1");
    // Terraform would ask its maker for news on every run.
    environment.set_default("CHECKPOINT_DISABLE", "1");
    // Nobody is there to answer git; where somebody is, it must fail rather than wait.
    environment.set_default("GIT_TERMINAL_PROMPT", "0");
    if own_directory {
        environment.remove("TF_DATA_DIR");
    }
}
