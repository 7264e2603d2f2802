//! Jenkins.

use std::time::Duration;

use crate::ci::description::{CiSystem, Recognition, StopTimes};

pub(in crate::ci) const SYSTEM: CiSystem = CiSystem {
    id: "jenkins",
    title: "Jenkins",
    recognition: Recognition::Variable("JENKINS_URL"),
    secret_place: Some(
        "add a secret text under Manage Jenkins > Credentials and bind it in the Jenkinsfile (`generate jenkins --secret NAME=CREDENTIAL`)",
    ),
    // An aborted step may continue for 10 s (workflow-durable-task-step, `DurableTaskStep.stop`).
    stop_times: Some(StopTimes { grace: Duration::from_secs(5), report: Duration::from_secs(4) }),
    ..CiSystem::PLAIN
};
