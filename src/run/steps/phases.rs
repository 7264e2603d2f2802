//! The phases of a run between its configuration and its result, in their order.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use secrecy::ExposeSecret;

use super::after_plan::Judge;
use super::approval::Approver;
use super::command_input::{Files, Providers, Variables};
use super::operations::operate;
use super::state_place;
use super::terraform_settings::{self, secret_sources};
use super::tools::{Tools, check_operation, choose, choose_named, make_ready, run_options};
use super::workspace_choice;
use crate::engine::{Engine, KilledLock, Wrapper, prepare_environment};
use crate::run::context::{Context, run_id};
use crate::run::findings::Findings;
use crate::run::masking::secrets::{
    register_declared, register_inputs, register_spec, register_typed, register_values,
};
use crate::run::plan::plan_report::PlanOptions;
use crate::run::reporting::outcome::Failure;
use crate::settings::{RunSource, Settings};
use crate::tool::ToolOptions;
use crate::workspace::{self, Inputs, VariableError};
use butler_base::event::Phase;
use butler_base::process::Environment;
use butler_protocol::backend;
use butler_protocol::spec::{Approval, RunSpec, Source, ToolRequest};
use butler_source::git;
use butler_source::module::{Module, ModuleError};

/// Where the module is, and what is known about its source.
struct Place {
    directory: PathBuf,
    used_tokens: Vec<&'static str>,
}

/// Carries out `spec`. What was found until a failure is in `findings`.
pub(in crate::run) async fn perform(
    context: &Context<'_>,
    spec: &RunSpec,
    findings: &mut Findings,
) -> Result<(), Failure> {
    register_spec(context.log.redactor(), spec);
    // Before the clone: who has to supply a secret should not wait for one.
    let mut inputs = resolve_inputs(context, spec)?;
    state_place::check_run(context, spec, &inputs)?;
    let options = run_options(context);
    let (place, tools) = Box::pin(prepare(context, spec, &options, findings)).await?;
    check_operation(spec.operation, &tools.tool.request)?;
    let through_terragrunt = tools.terragrunt.is_some();
    let preparing = context.notices.timeline.begin(Phase::Variables);
    let module = read_module(&place.directory, through_terragrunt)?;
    settle_declared(context, spec, &mut inputs, &module)?;
    // What Terragrunt makes of the module is seen after `init`.
    if !through_terragrunt || spec.backend.is_some() || module.backend.is_some() {
        state_place::check_module(context, spec, &inputs, &module, &place.directory)?;
    }
    let ambient = &context.settings.environment;
    let redactor = context.log.redactor();
    let planning = &context.options.planning;
    register_declared(redactor, &inputs, &module, ambient);
    register_typed(redactor, planning, &module);
    let var_files: Vec<_> = planning.files().cloned().collect();
    register_values(redactor, &workspace::assigned_secrets(&place.directory, &var_files, &module));
    warn_of_short_secrets(context);
    // From here on the module can print: half a line, or that commands count no more, in front of a
    // mask, which would then be shown.
    redactor.end_observation();
    let mut environment = environment(context, spec, &place, &inputs)?;
    let Tools { tool, terragrunt } =
        Box::pin(tools.settle(context, &options, &place.directory, &environment)).await?;
    let in_place = matches!(spec.source, Source::Directory(_));
    // Both stay in use, and so cannot be uninstalled, until the last command has ended: `tool` and
    // `terragrunt` must outlive the engine.
    let wrapper = terragrunt.as_ref().map(|terragrunt| Wrapper {
        version: terragrunt.request.version.clone(),
        program: terragrunt.path.clone(),
        downloads: (!in_place).then(|| context.directory.downloads()),
    });
    if let Some(wrapper) = &wrapper {
        wrapper.prepare(&mut environment, &tool.path);
    }
    let variables = write_variables(context, &inputs, &module, &tool.request)?;
    let backend = write_backend(context, spec, &module, &place.directory, &tool.request)?;
    let plan = plan_options(context, &inputs, &module);
    if let Source::Git(_) = spec.source {
        workspace::write_provider_features(&module, &environment, &place.directory)
            .map_err(|error| Failure::new(Phase::Variables, &error))?;
    }
    let killed_lock = killed_lock(context, spec, &module, &environment);
    drop(preparing);
    let mut engine = Engine {
        tool: &tool.request,
        program: &tool.path,
        wrapper,
        directory: &place.directory,
        private: context.directory.private().path(),
        environment,
        input: context.directory.tool_input(),
        log: context.log,
        stop: context.stop,
        grace: context.grace,
        lock_timeout: context.settings.lock_timeout,
        killed_lock,
    };
    let providers = Providers {
        cache: context.settings.tool.provider_cache.clone(),
        patience: context.settings.tool.timeout,
    };
    let allow_ephemeral_state = context.settings.allow_ephemeral_state;
    let timeline = context.notices.timeline.clone();
    let judge = judge(context, spec);
    let mut files = Files {
        variables,
        options: context.options.clone(),
        backend,
        in_place,
        plan,
        judge,
        allow_ephemeral_state,
        providers,
        timeline,
        approver: approver(context),
        reports: reports(context, spec),
        restored: None,
    };
    operate(&mut engine, spec.operation, &mut files, findings).await
}

/// The files and directories that the run itself writes.
fn reports(context: &Context<'_>, spec: &RunSpec) -> Vec<PathBuf> {
    let Settings { report_dir, summary, report, work_dir, .. } = context.settings;
    let named = [report_dir, summary, report, &spec.setup.log_path];
    named.into_iter().flatten().chain([work_dir]).cloned().collect()
}

/// Who says whether a plan is applied, where somebody is to be asked.
fn approver(context: &Context<'_>) -> Option<Approver> {
    let asks = context.options.approval == Approval::Ask;
    asks.then(|| Approver { live: context.notices.live_control() })
}

/// What judges a plan before anything is applied, if anything does.
fn judge<'run>(context: &'run Context<'_>, spec: &RunSpec) -> Option<Judge<'run>> {
    Some(Judge {
        command: spec.setup.after_plan.clone()?,
        environment: &context.settings.environment,
        operation: spec.operation,
        run_id: run_id(context.settings),
        log: context.log,
        stop: context.stop,
        grace: context.grace,
        private: context.directory.private().path().to_owned(),
    })
}

/// What becomes of the lock of a tool that is killed, in the backend that counts.
fn killed_lock(
    context: &Context<'_>,
    spec: &RunSpec,
    module: &Module,
    environment: &Environment,
) -> KilledLock {
    let of_run = spec.backend.as_ref().map(|backend| backend.kind.as_str());
    let of_module = module.backend.as_ref().map(|block| block.kind.as_str());
    // A file that was passed over may name another.
    let otherwise = if module.is_incomplete { backend::UNKNOWN.name } else { backend::LOCAL.name };
    let backend = of_run.or(of_module).unwrap_or(otherwise);
    KilledLock::of(backend, surely_locks(environment), context.settings.force_unlock_own)
}

/// Whether no `-lock=...` in the environment can keep the tool from locking.
fn surely_locks(environment: &Environment) -> bool {
    !environment.iter().any(|(name, value)| {
        let is_plain = |byte: &u8| !matches!(byte, b'"' | b'\'' | b'\\');
        let value: Vec<u8> = value.as_encoded_bytes().iter().copied().filter(is_plain).collect();
        name.as_encoded_bytes().starts_with(b"TF_CLI_ARGS")
            && memchr::memmem::find(&value, b"-lock=").is_some()
    })
}

fn resolve_inputs(context: &Context<'_>, spec: &RunSpec) -> Result<Inputs, Failure> {
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

/// Settles what depends on the variables that the module declares.
fn settle_declared(
    context: &Context<'_>,
    spec: &RunSpec,
    inputs: &mut Inputs,
    module: &Module,
) -> Result<(), Failure> {
    let before = inputs.environment.len();
    let messages = workspace::apply_declarations(inputs, spec, module)
        .map_err(|error| variables_failure(context, &error))?;
    if inputs.environment.len() > before {
        // What has become an environment variable may be secret by its name.
        register_inputs(context.log.redactor(), inputs);
    }
    for message in &messages {
        context.log.announce(message);
    }
    Ok(())
}

/// The failure, with the place where the CI system at hand keeps secrets if one is missing.
fn variables_failure(context: &Context<'_>, error: &VariableError) -> Failure {
    let failure = Failure::new(Phase::Variables, error);
    let system = context.settings.job.system;
    let place = match error {
        VariableError::Unresolved(_) => system.secret_place(),
        _ => None,
    };
    let place = place.map(|place| format!("in {}, {place}", system.title()));
    let advice: Vec<_> = place.into_iter().chain(failure.advice).collect();
    Failure { advice: (!advice.is_empty()).then(|| advice.join("; ")), ..failure }
}

/// Says which secrets cannot be masked.
fn warn_of_short_secrets(context: &Context<'_>) {
    let short = context.log.redactor().too_short();
    if !short.is_empty() {
        context.log.warn(&format!("Too short to be masked in the log: {}", short.join(", ")));
    }
}

/// How the plan is reported: which variables are sensitive, and how much the registry takes.
fn plan_options(context: &Context<'_>, inputs: &Inputs, module: &Module) -> PlanOptions {
    let given = inputs.variables.iter().filter(|(.., sensitive)| *sensitive).map(|(name, ..)| name);
    let ambient = inputs.environment.iter().filter(|(.., sensitive)| *sensitive);
    let ambient = ambient.filter_map(|(name, ..)| name.strip_prefix("TF_VAR_"));
    let declared = module.variables.iter().filter(|(_, declared)| declared.sensitive);
    let declared = declared.map(|(name, _)| name.as_str());
    let has_registry = matches!(context.settings.source, RunSource::Registry { .. });
    PlanOptions {
        sensitive: given
            .map(String::as_str)
            .chain(ambient)
            .chain(declared)
            .map(str::to_owned)
            .collect(),
        json: context.settings.plan_json,
        limit: has_registry.then_some(context.settings.body_limit as u64),
    }
}

/// Fetches the source and makes the tool ready, at the same time where the version is known.
async fn prepare(
    context: &Context<'_>,
    spec: &RunSpec,
    options: &ToolOptions,
    findings: &mut Findings,
) -> Result<(Place, Tools), Failure> {
    let (place, first) = if let Some(wanted) = &spec.tool {
        // The first to fail ends the other: its future is dropped, and with it its child.
        tokio::try_join!(place(context, spec, &mut findings.commit), async {
            let _span = context.notices.timeline.begin(Phase::Tool);
            let request = choose_named(context, wanted, options).await?;
            make_ready(context, &request, options).await
        })?
    } else {
        let place = place(context, spec, &mut findings.commit).await?;
        let _span = context.notices.timeline.begin(Phase::Tool);
        let default = context.settings.tool.default_version.clone();
        let request = choose(context, &place.directory, default, options).await?;
        (place, make_ready(context, &request, options).await?)
    };
    let tools = Tools::complete(context, first, &place.directory, options).await?;
    tools.announce(context);
    findings.tool = Some(tools.said(|tool| tool.request.to_string()));
    Ok((place, tools))
}

/// Reads the module; of what Terragrunt adds to it nothing is known.
fn read_module(directory: &Path, wrapped: bool) -> Result<Module, Failure> {
    let module = Module::read(directory).map_err(|error| Failure::new(Phase::Source, &error))?;
    if module.is_terragrunt_only && !wrapped {
        let error = ModuleError::TerragruntOnly { path: directory.to_owned() };
        return Err(Failure::new(Phase::Source, &error));
    }
    Ok(Module { is_incomplete: module.is_incomplete || wrapped, ..module })
}

async fn place(
    context: &Context<'_>,
    spec: &RunSpec,
    commit: &mut Option<String>,
) -> Result<Place, Failure> {
    let _span = context.notices.timeline.begin(Phase::Source);
    match &spec.source {
        Source::Directory(directory) => {
            Ok(Place { directory: directory.clone(), used_tokens: Vec::new() })
        }
        Source::Git(git) => {
            let destination = context.directory.source();
            let checkout =
                git::fetch(git, &context.settings.git, &destination, context.log, context.stop)
                    .await
                    .map_err(|error| {
                        stopped_or(context, Phase::Source, Failure::new(Phase::Source, &error))
                    })?;
            *commit = Some(checkout.commit);
            context.directory.prepare_module(&checkout.directory).map_err(|error| {
                Failure::because(Phase::Source, butler_base::error::chain(&error))
            })?;
            Ok(Place { directory: checkout.directory, used_tokens: checkout.used_tokens })
        }
    }
}

/// What failed while the run was being stopped failed because of that.
fn stopped_or(context: &Context<'_>, phase: Phase, failure: Failure) -> Failure {
    context.stop.reason().map_or(failure, |reason| Failure::stopped(phase, &reason))
}

fn environment(
    context: &Context<'_>,
    spec: &RunSpec,
    place: &Place,
    inputs: &Inputs,
) -> Result<Environment, Failure> {
    let mut environment = context.settings.child_environment(&place.used_tokens);
    for name in &spec.setup.overruled {
        environment.remove(name);
    }
    if let Some(traceparent) = context.notices.traceparent() {
        environment.set("TRACEPARENT", traceparent);
    }
    for (name, value, _) in &inputs.environment {
        environment.set(name, value.expose_secret());
    }
    let own_directory = matches!(spec.source, Source::Git(_));
    prepare_environment(&mut environment, own_directory);
    if context.options.workspace.is_some() {
        // Until it is known that there is one of this name.
        environment.remove(OsStr::new(workspace_choice::VARIABLE));
    }
    terraform_settings::hand_over(context, spec, &mut environment)?;
    if let Source::Git(git) = &spec.source {
        let private = context.directory.secrets();
        git::share_credentials(git, &context.settings.git, private, &mut environment)
            .map_err(|error| Failure::new(Phase::Source, &error))?;
    }
    Ok(environment)
}

fn write_variables(
    context: &Context<'_>,
    inputs: &Inputs,
    module: &Module,
    tool: &ToolRequest,
) -> Result<Variables, Failure> {
    let private = context.directory.secrets();
    let files = workspace::write_variable_files(inputs, module, &tool.version, private)
        .map_err(|error| Failure::new(Phase::Variables, &error))?;
    let mut variables = Variables::from(files);
    variables.plan.extend_from_slice(&context.options.planning.assignments);
    let ephemeral = module.variables.values().any(|declared| declared.ephemeral);
    if ephemeral && workspace::saved_plan_takes_variables(&tool.version) {
        // Which of the user's own has their values is the user's affair; the others do no harm.
        variables.apply.extend_from_slice(&context.options.planning.assignments);
    }
    Ok(variables)
}

/// Writes the run's backend; only into a clone, never into a directory of the user's.
fn write_backend(
    context: &Context<'_>,
    spec: &RunSpec,
    module: &Module,
    directory: &Path,
    tool: &ToolRequest,
) -> Result<Option<PathBuf>, Failure> {
    let (Source::Git(_), Some(backend)) = (&spec.source, &spec.backend) else { return Ok(None) };
    if let Some(block) = &module.backend {
        // Of the same type too, and then nobody would see it from where the state is.
        let (ours, theirs) = (&backend.kind, &block.kind);
        context.log.say(&format!("Using the run's backend `{ours}`, not the module's `{theirs}`"));
    }
    let files = workspace::write_backend(backend, tool, directory, context.directory.secrets())
        .map_err(|error| Failure::new(Phase::Variables, &error))?;
    Ok(Some(files.config_file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_environment_that_says_nothing_of_locks_surely_locks() {
        for (name, value, locks) in [
            ("TF_CLI_ARGS", "-parallelism=3 -lock-timeout=5s", true),
            ("OTHER", "-lock=false", true),
            ("TF_CLI_ARGS", "-parallelism=3 -lock=false", false),
            ("TF_CLI_ARGS_apply", "--lock=false", false),
            ("TF_CLI_ARGS_plan", "\"-lo\"ck=false", false),
        ] {
            let environment = Environment::from_iter([(name.into(), value.into())]);
            assert_eq!(surely_locks(&environment), locks, "{name}={value}");
        }
    }
}
