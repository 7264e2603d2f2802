//! What carries a run out: which Terraform or `OpenTofu`, through Terragrunt or not, and from where.
//!
//! A run holds its tools from here to its end: as long as a [`Tools`] lives, nobody can remove them.

use std::ffi::OsStr;
use std::path::Path;

use super::tool_options::{tool_options, wish};
use crate::engine::{OLDEST_WRAPPER, can_wrap, required_version};
use crate::run::context::Context;
use crate::run::reporting::outcome::Failure;
use crate::tool::{self, InstalledTool, Reach, RunLocation, ToolOptions, VersionSources};
use butler_base::event::Phase;
use butler_base::http::LazyClient;
use butler_base::process::Environment;
use butler_protocol::spec::{Operation, Product, ToolRequest, Wanted};
use butler_source::module::Module;

/// The options of a run: what is on PATH counts.
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

/// What carries a run out.
pub(in crate::run) struct Tools {
    /// Terraform or `OpenTofu`.
    pub(in crate::run) tool: InstalledTool,
    /// What it runs through, if it does.
    pub(in crate::run) terragrunt: Option<InstalledTool>,
}

impl Tools {
    /// Adds to what the run names what that runs, if it is a wrapper.
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
        let request = choose(context, directory, default, options).await?;
        if request.product == Product::Terragrunt {
            return Err(Failure {
                advice: Some("name a version of Terraform or OpenTofu in a version file of the module or with --default-tool-version".to_owned()),
                ..Failure::because(Phase::Tool, format!("nothing says what {} is to run", first.request))
            });
        }
        let tool = make_ready(context, &request, options).await?;
        Ok(Self { tool, terragrunt: Some(first) })
    }

    pub(in crate::run) fn announce(&self, context: &Context<'_>) {
        context.log.announce(&format!("Using {}", self.said(shown)));
    }

    /// Both, each as `said`.
    pub(in crate::run) fn said(&self, said: impl Fn(&InstalledTool) -> String) -> String {
        let through = self.terragrunt.as_ref().map(|it| format!("{} with ", said(it)));
        format!("{}{}", through.unwrap_or_default(), said(&self.tool))
    }

    /// Makes sure that the tools are what they are said to be where they run.
    pub(in crate::run) async fn settle(
        self,
        context: &Context<'_>,
        options: &ToolOptions,
        directory: &Path,
        environment: &Environment,
    ) -> Result<Self, Failure> {
        let progress = |line: &str| context.log.announce(line);
        let at = Some(RunLocation { directory, environment });
        let before = self.said(shown);
        let settling = async {
            Ok(match self.terragrunt {
                // Terragrunt runs it in directories of its own, with files that nobody has seen yet.
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
        let settled = Box::pin(unless_stopped(context, settling)).await?;
        if settled.said(shown) != before {
            settled.announce(context);
        }
        Ok(settled)
    }
}

/// A tool with its path.
fn shown(tool: &InstalledTool) -> String {
    format!("{} ({})", tool.request, tool.path.display())
}

/// The version that the run names: an exact one, or the best one that is as it says.
pub(in crate::run) async fn choose_named(
    context: &Context<'_>,
    wanted: &Wanted,
    options: &ToolOptions,
) -> Result<ToolRequest, Failure> {
    let wish = VersionSources {
        named: Some(wanted.clone()),
        default: context.settings.tool.default_version.clone(),
        ..VersionSources::default()
    };
    unless_stopped(context, async {
        if wanted.exact().is_err() {
            context.version.answered().await;
        }
        tool::choose(&wish, Reach::InstalledFirst, options).await
    })
    .await
}

/// The version that the module in `directory` asks for.
pub(in crate::run) async fn choose(
    context: &Context<'_>,
    directory: &Path,
    default: Option<ToolRequest>,
    options: &ToolOptions,
) -> Result<ToolRequest, Failure> {
    let module = Module::read(directory).map_err(|error| Failure::new(Phase::Source, &error))?;
    let wish = wish(module, default);
    unless_stopped(context, async {
        context.version.answered().await;
        tool::choose(&wish, Reach::InstalledFirst, options).await
    })
    .await
}

/// Makes the version ready that the run names or the module asks for.
pub(in crate::run) async fn make_ready(
    context: &Context<'_>,
    request: &ToolRequest,
    options: &ToolOptions,
) -> Result<InstalledTool, Failure> {
    if request.product == Product::Terragrunt && !can_wrap(request) {
        return Err(Failure {
            advice: Some(format!("set the run's version to {OLDEST_WRAPPER} or later")),
            ..Failure::because(Phase::Tool, format!("{request} is too old to carry out a run"))
        });
    }
    let progress = |line: &str| context.log.announce(line);
    unless_stopped(context, async {
        context.version.answered().await;
        tool::ready(request, options, &progress).await
    })
    .await
}

/// Waits for `work` of the tool phase, or for the stop.
async fn unless_stopped<T>(
    context: &Context<'_>,
    work: impl Future<Output = Result<T, tool::ToolError>>,
) -> Result<T, Failure> {
    tokio::select! {
        result = work => result.map_err(|error| Failure::new(Phase::Tool, &error)),
        reason = context.stop.requested() => Err(Failure::stopped(Phase::Tool, &reason)),
    }
}

/// Fails where the version does not have the operation.
pub(in crate::run) fn check_operation(
    operation: Operation,
    tool: &ToolRequest,
) -> Result<(), Failure> {
    match required_version(operation) {
        Some(needed) if tool.version < needed => Err(Failure {
            advice: Some(format!("set the module's version to {needed} or later")),
            ..Failure::because(
                Phase::Tool,
                format!("{tool} has no {operation}: it came with {needed}"),
            )
        }),
        _ => Ok(()),
    }
}
