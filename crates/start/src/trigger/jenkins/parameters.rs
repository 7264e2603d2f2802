//! Checks the parameters of a job before it is started.
//!
//! Jenkins silently drops undeclared parameters, and older versions answer with a server error if the job
//! declares none.

use serde::Deserialize;

use super::client::{CALLBACK_TOKEN, Jenkins, RUN_ID};
use crate::trigger::{StartRequest, TriggerError};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Job {
    #[serde(default)]
    property: Vec<Property>,
    #[serde(default)]
    next_build_number: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Property {
    #[serde(default)]
    parameter_definitions: Vec<Parameter>,
}

#[derive(Deserialize)]
struct Parameter {
    name: String,
    r#type: Option<String>,
}

impl Jenkins {
    /// Checks that the job declares all parameters. Returns the number of its next build.
    pub(super) async fn check_parameters(&self, start: &StartRequest) -> Result<u64, TriggerError> {
        let what = "read the job's parameters";
        let mut url = self.job_url(&["api", "json"]);
        url.set_query(Some("tree=nextBuildNumber,property[parameterDefinitions[name,type]]"));
        let response = self.get(what, &url).await?;
        let job: Job = self.server.parse(what, &response)?;
        let declared: Vec<_> =
            job.property.into_iter().flat_map(|it| it.parameter_definitions).collect();
        let named = |name: &str| declared.iter().find(|it| it.name == name);
        let of_runner = start.runner.as_ref().map(|_| CALLBACK_TOKEN);
        let wanted = std::iter::once(RUN_ID).chain(of_runner);
        let wanted = wanted.chain(start.inputs.keys().map(String::as_str));
        let missing: Vec<_> = wanted.filter(|name| named(name).is_none()).collect();
        if !missing.is_empty() {
            let missing = missing.join("`, `");
            return Err(TriggerError::UnusableJob {
                server: "Jenkins",
                problem: format!("the job `{}` has no parameter `{missing}`", self.job),
                advice: "`butler-runner generate jenkins` writes a pipeline with RUN_ID and CALLBACK_TOKEN; Jenkins reads the parameters of a pipeline in its first build: build it once manually".to_owned(),
            });
        }
        let kind = of_runner.and_then(&named).and_then(|it| it.r#type.as_deref());
        if kind.is_some_and(|kind| kind != "PasswordParameterDefinition") {
            tracing::warn!(
                "CALLBACK_TOKEN is not a password parameter: users who can see the build can see the token"
            );
        }
        Ok(job.next_build_number)
    }
}
