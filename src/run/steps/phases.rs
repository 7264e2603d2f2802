//! The phases of a run between its configuration and its result, in their order.
//!
//! A phase begins only if all earlier ones have succeeded. Whatever a phase finds is stored in `Findings`
//! at once, so that the teardown can report it if a later phase fails.

use std::path::{Path, PathBuf};

use secrecy::SecretString;

use super::after_plan::AfterPlanProgram;
use super::approval::Approver;
use super::command_input::{CommandInput, ProviderCacheOptions};
use super::engine_setup::{
    child_environment, killed_lock, warn_of_missing_cli_configuration, write_backend,
};
use super::isolation::isolation;
use super::isolation_level::isolation_level;
use super::module_files::{ModuleLocation, fetch_source, prepare_for_server};
use super::operations::run_operation;
use super::piped_variables::without_pipes;
use super::remote_runs::RemoteAccess;
use super::run_inputs::{
    given_in_arguments, plan_options, resolve_declared, resolve_inputs, warn_of_short_secrets,
    write_variables,
};
use super::saved_plan::fetch_plan;
use super::state_location;
use super::tools::{
    Tools, check_operation, check_options, choose, choose_named, make_ready, ready_for_plan,
    run_options,
};
use crate::engine::{Engine, GivenAssignments, RemoteRuns, Wrapper};
use crate::run::context::{Context, run_id};
use crate::run::failure::Failure;
use crate::run::findings::Findings;
use crate::run::masking::secrets::{
    register_assigned, register_declared, register_spec, register_typed,
};
use crate::settings::Settings;
use crate::tool::ToolOptions;
use crate::workspace;
use butler_base::event::Phase;
use butler_protocol::spec::{
    Approval, FIRST_WITH_TOFU_FILES, Operation, PlanningOptions, Product, RequestedVersion,
    RunSpec, ToolRequest, VersionSelector,
};
use butler_source::module::{Module, ModuleError, unread_tests};

/// Runs all phases of `spec`. Results are stored in `findings`, also those of a run that fails.
pub(in crate::run) async fn run_phases(
    context: &Context<'_>,
    spec: &RunSpec,
    findings: &mut Findings,
) -> Result<(), Failure> {
    // Before anything is logged about the run, because every later line may contain its secrets.
    register_spec(context.log.redactor(), spec);

    // Before the clone: what writes into a pipe waits for its reader.
    let options = without_pipes(context).await?;
    let context = &Context { options: &options, ..*context };

    let level = isolation_level(context, spec)?;

    // Before the clone: a missing secret is reported without waiting for the network.
    let mut inputs = resolve_inputs(context, spec)?;
    state_location::check_run(context, spec, &inputs)?;

    // Before the tool: only the tool that made a saved plan can apply it.
    let fetched = Box::pin(fetch_plan(context)).await?;
    let made_with = fetched.as_ref().and_then(|fetched| fetched.tool.as_ref());

    // The source and the tool, at the same time if possible: both wait for the network.
    let options = run_options(context);
    let (location, tools) = Box::pin(prepare(context, spec, made_with, &options, findings)).await?;
    check_operation(spec.operation, &tools.tool.request)?;
    check_options(&context.options.planning, &tools.tool.request)?;

    // The module decides which inputs become variables and which ones are missing, so its files must
    // be here. It must not keep its state in a clone that is removed at the end.
    let through_terragrunt = tools.terragrunt.is_some();
    let preparing = context.notices.timeline.begin(Phase::Variables);
    let module = read_module(context, spec, &location.directory, &tools)?;
    let is_sent = prepare_for_server(spec, &module, &location.directory, through_terragrunt)?;
    resolve_declared(context, spec, &mut inputs, &module)?;
    let directory = &location.directory;
    state_location::check_module(context, spec, &inputs, &module, directory, through_terragrunt)?;

    // All secrets must be registered before the first child that can print them starts.
    let (ambient, redactor) = (&context.settings.environment, context.log.redactor());
    let GivenAssignments { assignments, texts } = given_in_arguments(&inputs, ambient);
    let mut planning = context.options.planning.clone();
    planning.assignments.extend(assignments);
    register_declared(redactor, &inputs, &module, ambient);
    register_typed(redactor, &planning, &module);
    register_assignments(context, &location.directory, &planning, &module, texts);
    warn_of_short_secrets(context);
    // From here on the module can print. If it prints half a line, or the CI system's command that turns
    // commands off, a mask command after it would show the secret.
    redactor.end_observation();

    // After the environment is complete: an executable on PATH can be the shim of a version manager, and
    // its version depends on directory and environment.
    let mut environment =
        child_environment(context, spec, &location.used_tokens, &inputs, level.is_some())?;
    warn_of_missing_cli_configuration(context, &environment, &location.directory);
    let ensured = tools.ensure_wanted_versions(context, &options, directory, &environment);
    let tools = Box::pin(ensured).await?;
    let isolated = level.map(|level| isolation(context, spec, &tools, &location.directory, level));
    let (isolation, handover) = isolated.transpose()?.unzip();
    let Tools { tool, terragrunt } = tools;
    let in_place = spec.source.is_in_place();
    // `tool` and `terragrunt` must outlive the engine: they keep the executables from being
    // uninstalled until the last command has ended.
    let wrapper = terragrunt.as_ref().map(|terragrunt| Wrapper {
        version: terragrunt.request.version.clone(),
        program: terragrunt.path.clone(),
        downloads: (!in_place).then(|| context.directory.downloads()),
    });
    if let Some(wrapper) = &wrapper {
        wrapper.prepare(&mut environment, &tool.path);
    }

    // The files depend on the tool's version, so they are written only now.
    let variables = write_variables(context, &inputs, &module, &tool.request)?;
    let backend = write_backend(context, spec, &module, &location.directory, &tool.request)?;
    if !in_place {
        workspace::write_provider_features(&module, &environment, &location.directory)
            .map_err(|error| Failure::new(Phase::Variables, &error))?;
    }
    let killed_lock = killed_lock(context, spec, &module, &environment);
    drop(preparing);

    let tool_files = context.directory.tool_files();
    let mut engine = Engine {
        tool: &tool.request,
        program: &tool.path,
        wrapper,
        isolation,
        directory: &location.directory,
        private: context.directory.private().path(),
        tool_files: &tool_files,
        variables: variables.plan.clone(),
        environment,
        input: context.directory.tool_input(),
        log: context.log,
        redactor: context.log.redactor(),
        stop: context.stop,
        grace: context.grace,
        lock_timeout: context.settings.lock_timeout,
        killed_lock,
        remote_runs: RemoteRuns::new(is_sent),
    };
    let input = CommandInput {
        variables,
        options: context.options.clone(),
        backend,
        in_place,
        plan: plan_options(context, &inputs, &module),
        after_plan: after_plan_program(context, spec),
        allow_ephemeral_state: context.settings.allow_ephemeral_state,
        providers: ProviderCacheOptions {
            cache: context.settings.tool.provider_cache.clone(),
            patience: context.settings.tool.timeout,
        },
        timeline: context.notices.timeline.clone(),
        approver: approver(context),
        reports: report_paths(context, spec),
        remote: RemoteAccess { ca_bundle: context.settings.tool.ca_bundle.clone() },
        secrets: context.directory.secrets(),
        recovery: context.settings.recovery_dir.clone(),
        registry: context.registry,
        fetched: fetched.map(|fetched| fetched.path),
        restored: None,
        handover: handover.flatten(),
        local_states: module.local_states,
    };
    run_operation(&mut engine, spec.operation, input, findings).await
}

/// Warns of files that only later versions of `OpenTofu` read: for this version, their resources are removed from the
/// configuration.
///
/// # Errors
/// If the run executes tests, and all of them are in such files.
fn check_unread_files(
    context: &Context<'_>,
    spec: &RunSpec,
    directory: &Path,
    module: &Module,
    tool: &ToolRequest,
) -> Result<(), Failure> {
    let mut unread = module.files_of_other_tool.clone();
    if spec.operation == Operation::Test {
        let tests = unread_tests(directory, tool);
        unread.extend(tests.map_err(|error| Failure::new(Phase::Source, &error))?);
    }
    // Files for OpenTofu beside those for Terraform are usual in a module for both.
    if tool.product == Product::OpenTofu && !unread.is_empty() {
        let files: Vec<_> = unread.iter().map(|file| format!("`{file}`")).collect();
        context.log.warn(&format!(
            "{tool} does not read {}, only {FIRST_WITH_TOFU_FILES} and later do: what is only there counts as removed from \
             the configuration",
            files.join(", ")
        ));
    }
    Ok(())
}

/// Registers the secrets that files of the module and `texts` assign, and warns of files that cannot be read.
fn register_assignments(
    context: &Context<'_>,
    directory: &Path,
    planning: &PlanningOptions,
    module: &Module,
    texts: Vec<SecretString>,
) {
    let var_files: Vec<_> = planning.files().cloned().collect();
    let mut assigned = workspace::assigned_secrets(directory, &var_files, module);
    assigned.texts.extend(texts);
    for warning in assigned.warnings(module) {
        context.log.warn(&warning);
    }
    register_assigned(context.log.redactor(), &assigned);
}

/// The files and directories that the run itself writes.
fn report_paths(context: &Context<'_>, spec: &RunSpec) -> Vec<PathBuf> {
    let Settings { report_dir, summary, report, work_dir, .. } = context.settings;
    let named = [report_dir, summary, report, &spec.setup.log_path];
    named.into_iter().flatten().chain([work_dir]).cloned().collect()
}

/// The approver, if the user must approve the plan at the terminal.
fn approver(context: &Context<'_>) -> Option<Approver> {
    let asks = context.options.approval == Approval::Ask;
    asks.then(|| Approver { live: context.notices.live_control() })
}

/// The program that checks the plan before an apply (`--after-plan`), if one is named.
fn after_plan_program<'run>(
    context: &'run Context<'_>,
    spec: &RunSpec,
) -> Option<AfterPlanProgram<'run>> {
    Some(AfterPlanProgram {
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

/// Fetches the source and installs the tool, at the same time if the run names the tool's version. A run that applies a
/// saved plan uses `made_with`, the tool that made the plan, if it is available.
async fn prepare(
    context: &Context<'_>,
    spec: &RunSpec,
    made_with: Option<&ToolRequest>,
    options: &ToolOptions,
    findings: &mut Findings,
) -> Result<(ModuleLocation, Tools), Failure> {
    let planned = match made_with {
        Some(made_with) => ready_for_plan(context, spec.tool.as_ref(), made_with, options).await?,
        None => None,
    };
    let (location, first) = if let Some(tool) = planned {
        (fetch_source(context, spec, &mut findings.commit).await?, tool)
    } else if let Some(wanted) = spec.tool.as_ref().filter(|wanted| !is_of_module(wanted)) {
        // The first failure ends the other future, and with it its child.
        tokio::try_join!(fetch_source(context, spec, &mut findings.commit), async {
            let _span = context.notices.timeline.begin(Phase::Tool);
            let request = choose_named(context, wanted, options).await?;
            make_ready(context, &request, options).await
        })?
    } else {
        let location = fetch_source(context, spec, &mut findings.commit).await?;
        let _span = context.notices.timeline.begin(Phase::Tool);
        let default = context.settings.tool.default_version.clone();
        let product = spec.tool.as_ref().map(|wanted| wanted.product);
        let request = choose(context, &location.directory, default, product, options).await?;
        (location, make_ready(context, &request, options).await?)
    };
    let tools = Tools::complete(context, first, &location.directory, options).await?;
    tools.announce(context);
    findings.tool = Some(tools.describe(|tool| tool.request.to_string()));
    Ok((location, tools))
}

/// Whether the run names only a product.
fn is_of_module(wanted: &RequestedVersion) -> bool {
    wanted.selector == VersionSelector::OfModule
}

/// Reads the files of the module that the tool of the run reads, and warns of others. Terragrunt can add further files,
/// so a module that it starts is incomplete, and may not contain a file for the tool.
fn read_module(
    context: &Context<'_>,
    spec: &RunSpec,
    directory: &Path,
    tools: &Tools,
) -> Result<Module, Failure> {
    let (tool, wrapped) = (&tools.tool.request, tools.terragrunt.is_some());
    let read = match Module::read_for(directory, tool) {
        Err(ModuleError::OtherTool { .. }) if wrapped => Module::read(directory),
        read => read,
    };
    let module = read.map_err(|error| Failure::new(Phase::Source, &error))?;
    if module.is_terragrunt_only && !wrapped {
        let error = ModuleError::TerragruntOnly { path: directory.to_owned() };
        return Err(Failure::new(Phase::Source, &error));
    }
    let module = Module { is_incomplete: module.is_incomplete || wrapped, ..module };
    check_unread_files(context, spec, directory, &module, tool)?;
    Ok(module)
}
