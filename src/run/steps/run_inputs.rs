//! The inputs of a run: variables, environment variables and secrets, from the configuration to the
//! arguments of commands.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use secrecy::ExposeSecret;

use super::command_input::CommandVariables;
use super::fixed_variables::fixed_variables;
use super::terraform_settings::secret_sources;
use crate::engine::{GivenAssignments, given_assignments};
use crate::run::context::Context;
use crate::run::failure::Failure;
use crate::run::masking::secrets::register_inputs;
use crate::run::plan::plan_report::PlanOptions;
use crate::settings::RunSource;
use crate::workspace::{self, Inputs, VariableError};
use butler_base::event::Phase;
use butler_protocol::spec::{Assignment, PlanFile, RunSpec, ToolRequest};
use butler_source::module::Module;

/// Resolves references to secrets and registers the values with the redactor.
///
/// # Errors
/// If a reference cannot be resolved.
pub(in crate::run) fn resolve_inputs(
    context: &Context<'_>,
    spec: &RunSpec,
) -> Result<Inputs, Failure> {
    let inputs = workspace::resolve(spec, &secret_sources(context.settings))
        .map_err(|error| variables_failure(context, &error))?;
    register_inputs(context.log.redactor(), &inputs);
    for message in &inputs.messages {
        context.log.announce(message);
    }
    for warning in &inputs.warnings {
        context.log.warn(warning);
    }
    Ok(inputs)
}

/// Assigns the inputs to the variables that the module declares.
///
/// # Errors
/// If a sensitive variable has neither a value nor a default.
pub(in crate::run) fn resolve_declared(
    context: &Context<'_>,
    spec: &RunSpec,
    inputs: &mut Inputs,
    module: &Module,
) -> Result<(), Failure> {
    let before = inputs.environment.len();
    let messages = workspace::apply_declarations(inputs, spec, module)
        .map_err(|error| variables_failure(context, &error))?;
    if inputs.environment.len() > before {
        // An input that has become an environment variable may be secret by its name.
        register_inputs(context.log.redactor(), inputs);
    }
    for message in &messages {
        context.log.announce(message);
    }
    Ok(())
}

/// The failure. If a secret is missing, its hint names where the current CI system stores secrets.
fn variables_failure(context: &Context<'_>, error: &VariableError) -> Failure {
    let failure = Failure::new(Phase::Variables, error);
    let system = context.settings.job.system;
    let secret_store = match error {
        VariableError::Unresolved(_) => system.secret_place(),
        _ => None,
    };
    let secret_store = secret_store.map(|store| format!("in {}, {store}", system.title()));
    let advice: Vec<_> = secret_store.into_iter().chain(failure.advice.clone()).collect();
    if advice.is_empty() { failure } else { failure.advise(advice.join("; ")) }
}

/// The variables that are assigned in arguments of the tool, by the run or by the environment of the job.
pub(in crate::run) fn given_in_arguments(
    inputs: &Inputs,
    ambient: &BTreeMap<OsString, OsString>,
) -> GivenAssignments {
    let given = inputs.environment.iter();
    let given = given.map(|(name, value, _)| (name.as_str(), value.expose_secret()));
    let ambient =
        ambient.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    given_assignments(given.chain(ambient))
}

/// Logs the names of secrets that are too short to be redacted.
pub(in crate::run) fn warn_of_short_secrets(context: &Context<'_>) {
    let short = context.log.redactor().too_short();
    if !short.is_empty() {
        context.log.warn(&format!("Too short to be masked in the log: {}", short.join(", ")));
    }
}

/// How the plan is reported: which variables are sensitive, and the size limit of the registry.
pub(in crate::run) fn plan_options(
    context: &Context<'_>,
    inputs: &Inputs,
    module: &Module,
) -> PlanOptions {
    let is_secret = |name: &str, marked: bool| marked || module.is_secret(name);
    let given = inputs.variables.iter().filter(|(name, _, marked)| is_secret(name, *marked));
    let given = given.map(|(name, ..)| name);
    let ambient = inputs.environment.iter().filter_map(|(name, _, marked)| {
        name.strip_prefix("TF_VAR_").filter(|name| is_secret(name, *marked))
    });
    let declared = module.variables.keys().filter(|name| module.is_secret(name));
    let declared = declared.map(String::as_str);
    let planning = &context.options.planning;
    let typed = planning.values().map(|(name, _)| name).filter(|name| module.is_secret(name));
    let has_registry = matches!(context.settings.source, RunSource::Registry { .. });
    let given = given.map(String::as_str).chain(ambient).chain(typed);
    let given_secrets: BTreeSet<_> = given.map(str::to_owned).collect();
    PlanOptions {
        sensitive: declared.map(str::to_owned).chain(given_secrets.iter().cloned()).collect(),
        given_secrets,
        json: context.settings.plan_json,
        limit: has_registry.then_some(context.settings.body_limit as u64),
    }
}

/// Writes the variable files. Returns the arguments for `plan` and `apply`.
pub(in crate::run) fn write_variables(
    context: &Context<'_>,
    inputs: &Inputs,
    module: &Module,
    tool: &ToolRequest,
) -> Result<CommandVariables, Failure> {
    let private = context.directory.secrets();
    let files = workspace::write_variable_files(inputs, module, &tool.version, private)
        .map_err(|error| Failure::new(Phase::Variables, &error))?;
    let mut variables = CommandVariables::from(files);
    let assignments = &context.options.planning.assignments;
    variables.plan.extend_from_slice(assignments);
    if matches!(context.options.plan_file, PlanFile::Apply(_)) {
        variables.fixed = fixed_variables(assignments, module)?;
    }
    if module.has_encryption && workspace::saved_plan_takes_all_variables(tool) {
        // The encryption of the state needs them, and is not part of the plan.
        variables.apply.clone_from(&variables.plan);
        return Ok(variables);
    }
    let is_ephemeral =
        |name: &str| module.variables.get(name).is_some_and(|declared| declared.ephemeral);
    if module.variables.keys().any(|name| is_ephemeral(name))
        && workspace::saved_plan_takes_variables(&tool.version)
    {
        // All other variables are in the plan: Terraform refuses some of them even with the plan's value.
        variables.apply.extend(
            assignments
                .iter()
                .filter(|assignment| match assignment {
                    Assignment::Value { name, .. } => is_ephemeral(name),
                    Assignment::File(_) => true,
                })
                .cloned(),
        );
    }
    Ok(variables)
}
