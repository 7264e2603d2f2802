//! Chooses and installs the tools of a run: Terraform or `OpenTofu`, with or without Terragrunt.
//!
//! While a [`Tools`] lives, no other process can uninstall its tools.

use std::ffi::OsStr;
use std::path::Path;

use super::tool_options::{
    module_wish, required_version_warnings, tool_options, variable_warnings, warnings,
};
use crate::engine::{OLDEST_WRAPPER, can_wrap, missing_option, required_version};
use crate::run::context::Context;
use crate::run::failure::Failure;
use crate::tool::{self, InstalledTool, Reach, RunLocation, ToolOptions, VersionSources};
use butler_base::error::FailureClass;
use butler_base::event::Phase;
use butler_base::http::LazyClient;
use butler_base::process::Environment;
use butler_protocol::spec::{
    Operation, PlanningOptions, Product, RequestedVersion, ToolRequest, VersionFile,
};
use butler_source::module::Module;

/// The options of a run, which can also use tools on PATH.
pub(in crate::run) fn run_options(context: &Context<'_>) -> ToolOptions {
    ToolOptions {
        search_path: context.settings.environment.get(OsStr::new("PATH")).cloned(),
        ..tool_options(
            &context.settings.tool,
            LazyClient::new(context.settings.tool.ca_bundle.clone())
                .observed(context.notices.observed()),
            context.settings.owner(),
        )
    }
}

/// The tools of a run.
pub(in crate::run) struct Tools {
    /// Terraform or `OpenTofu`.
    pub(in crate::run) tool: InstalledTool,
    /// The wrapper that starts it, if the run uses one.
    pub(in crate::run) terragrunt: Option<InstalledTool>,
}

impl Tools {
    /// Adds the tool that the wrapper runs, if `first` is a wrapper.
    ///
    /// # Errors
    /// If the module does not name a version, or the tool cannot be installed.
    pub(in crate::run) async fn complete(
        context: &Context<'_>,
        first: InstalledTool,
        directory: &Path,
        options: &ToolOptions,
    ) -> Result<Self, Failure> {
        if first.request.product != Product::Terragrunt {
            return Ok(Self { tool: first, terragrunt: None });
        }
        let default = context.settings.tool.default_version.clone();
        let default = default.filter(|default| default.product != Product::Terragrunt);
        let request = choose(context, directory, default, None, options).await?;
        if request.product == Product::Terragrunt {
            return Err(Failure::because(Phase::Tool, format!("it is not known which tool {} must run", first.request))
                .advise("name a version of Terraform or OpenTofu in a version file of the module or with --default-tool-version"));
        }
        let tool = make_ready(context, &request, options).await?;
        Ok(Self { tool, terragrunt: Some(first) })
    }

    pub(in crate::run) fn announce(&self, context: &Context<'_>) {
        context.log.announce(&format!("Using {}", self.describe(with_path)));
    }

    /// Names all tools, each as `name` returns it.
    pub(in crate::run) fn describe(&self, name: impl Fn(&InstalledTool) -> String) -> String {
        let wrapper = self.terragrunt.as_ref().map(|it| format!("{} with ", name(it)));
        format!("{}{}", wrapper.unwrap_or_default(), name(&self.tool))
    }

    /// Checks the versions of the tools in the directory and environment of the run, because an executable on
    /// PATH can be the shim of a version manager. A tool with another version is replaced.
    pub(in crate::run) async fn ensure_wanted_versions(
        self,
        context: &Context<'_>,
        options: &ToolOptions,
        directory: &Path,
        environment: &Environment,
    ) -> Result<Self, Failure> {
        let progress = |line: &str| context.log.announce(line);
        let at = Some(RunLocation { directory, environment });
        let before = self.describe(with_path);
        let checking = async {
            Ok(match self.terragrunt {
                // Terragrunt runs the tool in its own directories, which do not exist yet.
                Some(terragrunt) => Self {
                    terragrunt: Some(
                        tool::ensure_wanted_version(terragrunt, at, options, &progress).await?,
                    ),
                    tool: tool::ensure_wanted_version(self.tool, None, options, &progress).await?,
                },
                None => Self {
                    tool: tool::ensure_wanted_version(self.tool, at, options, &progress).await?,
                    terragrunt: None,
                },
            })
        };
        let checked = Box::pin(unless_stopped(context, checking)).await?;
        if checked.describe(with_path) != before {
            checked.announce(context);
        }
        Ok(checked)
    }
}

/// A tool with its path.
fn with_path(tool: &InstalledTool) -> String {
    format!("{} ({})", tool.request, tool.path.display())
}

/// The version that the run names: an exact one, or the best one that matches its constraint.
pub(in crate::run) async fn choose_named(
    context: &Context<'_>,
    wanted: &RequestedVersion,
    options: &ToolOptions,
) -> Result<ToolRequest, Failure> {
    let wish = VersionSources {
        named: Some(wanted.clone()),
        default: context.settings.tool.default_version.clone(),
        ..VersionSources::default()
    };
    unless_stopped(context, async {
        if wanted.exact().is_err() {
            context.version.wait().await;
        }
        tool::choose(&wish, Reach::InstalledFirst, options).await
    })
    .await
}

/// The version that the module in `directory` requires: of this product if one is named, else of Terraform or `OpenTofu`.
pub(in crate::run) async fn choose(
    context: &Context<'_>,
    directory: &Path,
    default: Option<ToolRequest>,
    product: Option<Product>,
    options: &ToolOptions,
) -> Result<ToolRequest, Failure> {
    let module = Module::read(directory).map_err(|error| Failure::new(Phase::Source, &error))?;
    let mut found = warnings(&module.version_files);
    found.extend(required_version_warnings(&module));
    let wish = VersionSources { product, ..module_wish(module, default) };
    let request = unless_stopped(context, async {
        context.version.wait().await;
        tool::choose(&wish, Reach::InstalledFirst, options).await
    })
    .await?;
    let source = deciding_source(&wish, &request);
    let is_named = source.is_some();
    found.extend(variable_warnings(&context.settings.environment, Some(&request), is_named));
    for warning in found {
        context.log.warn(&warning);
    }
    let source = source.unwrap_or_else(|| "the default, or what is on PATH".to_owned());
    tracing::info!(%request, source, "chose the version of the tool");
    Ok(request)
}

/// The version file or the constraint of the module that has decided about the version.
fn deciding_source(wish: &VersionSources, request: &ToolRequest) -> Option<String> {
    let names = |file: &VersionFile, product: Product| {
        RequestedVersion::of_file(file, product).is_ok_and(|versions| !versions.is_empty())
    };
    let file = wish.version_files.iter().find(|file| names(file, request.product));
    if let Some(file) = file {
        let other = Product::ENGINES.into_iter().find(|product| *product != request.product);
        let both = other.filter(|other| wish.product.is_none() && names(file, *other));
        let rest = both.map(|it| format!(", whose line for {it} is not used")).unwrap_or_default();
        return Some(format!("`{}`{rest}", file.place));
    }
    let limit = wish.required.limit(request.product).ok().flatten()?;
    Some(format!("`required_version` ({limit})"))
}

/// Finds or installs a version.
pub(in crate::run) async fn make_ready(
    context: &Context<'_>,
    request: &ToolRequest,
    options: &ToolOptions,
) -> Result<InstalledTool, Failure> {
    if request.product == Product::Terragrunt && !can_wrap(request) {
        let reason = format!("{request} is too old to execute a run");
        return Err(Failure::because(Phase::Tool, reason)
            .advise(format!("set the run's version to {OLDEST_WRAPPER} or later")));
    }
    let progress = |line: &str| context.log.announce(line);
    unless_stopped(context, async {
        context.version.wait().await;
        tool::ready(request, options, &progress).await
    })
    .await
}

/// Finds or installs the tool that made a saved plan, if the run allows its version: an approved plan must not become
/// stale because a newer tool is on the machine. Returns none if the tool is not allowed or not available. The run then
/// chooses a tool as usual, and rejects the plan as stale.
///
/// # Errors
/// If the run is stopped.
pub(in crate::run) async fn ready_for_plan(
    context: &Context<'_>,
    wanted: Option<&RequestedVersion>,
    made_with: &ToolRequest,
    options: &ToolOptions,
) -> Result<Option<InstalledTool>, Failure> {
    if wanted.is_some_and(|wanted| !wanted.allows(made_with)) {
        return Ok(None);
    }
    let _span = context.notices.timeline.begin(Phase::Tool);
    match make_ready(context, made_with, options).await {
        Ok(tool) => Ok(Some(tool)),
        Err(failure) if context.stop.reason().is_some() => Err(failure),
        Err(failure) => {
            let why = failure.reason;
            context.log.warn(&format!(
                "the plan was made with {made_with}, which is not available: {why}"
            ));
            Ok(None)
        }
    }
}

/// Waits for `work` of the tool phase, or for the stop of the run.
async fn unless_stopped<T>(
    context: &Context<'_>,
    work: impl Future<Output = Result<T, tool::ToolError>>,
) -> Result<T, Failure> {
    tokio::select! {
        result = work => result.map_err(|error| Failure::new(Phase::Tool, &error)),
        reason = context.stop.requested() => Err(Failure::stopped(Phase::Tool, &reason)),
    }
}

/// Fails if the version does not have the operation.
pub(in crate::run) fn check_operation(
    operation: Operation,
    tool: &ToolRequest,
) -> Result<(), Failure> {
    match required_version(operation) {
        Some(needed) if tool.version < needed => Err(Failure::because(
            Phase::Tool,
            format!("{tool} does not support `{operation}`, which needs {needed} or later"),
        )
        .advise(format!("set the module's version to {needed} or later"))),
        _ => Ok(()),
    }
}

/// Fails if the tool does not have one of the options for a plan.
pub(in crate::run) fn check_options(
    options: &PlanningOptions,
    tool: &ToolRequest,
) -> Result<(), Failure> {
    match missing_option(options, tool) {
        Some((option, needed)) => Err(Failure::because(
            Phase::Tool,
            format!("{tool} does not have `{option}`, which {needed} and later have"),
        )
        .advise(format!("leave {option} out, or use such a version"))
        .classed(FailureClass::Configuration)),
        None => Ok(()),
    }
}
