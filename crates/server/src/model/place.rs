//! The place of an attempt, as it is stored and shown: the server that has started it, and whether it is a Job.

/// The server of a store that no other one uses.
pub(crate) const THIS_MACHINE: &str = "this machine";

/// The place of the Jobs of such a server.
const CLUSTER: &str = "the cluster";

/// The end of the places of Jobs.
const AS_JOB: &str = ", as a Job";

/// The place of the Jobs that a server starts.
#[must_use]
pub(crate) fn as_job(server: &str) -> String {
    let place = if server == THIS_MACHINE { CLUSTER } else { server };
    format!("{place}{AS_JOB}")
}

/// The server that has started an attempt at this place, and looks after it.
#[must_use]
pub(crate) fn server_of(place: &str) -> &str {
    match place.strip_suffix(AS_JOB) {
        Some(CLUSTER) => THIS_MACHINE,
        Some(server) => server,
        None => place,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_of_a_job_names_its_server_and_not_its_machine() {
        for server in [THIS_MACHINE, "butler-0"] {
            assert_eq!(server_of(&as_job(server)), server);
            assert_eq!(server_of(server), server);
        }
        assert_eq!(as_job(THIS_MACHINE), "the cluster, as a Job");
    }
}
