//! The path of a job with its folders, as users write it and as it appears in addresses.

use std::fmt::{Display, Formatter};

use percent_encoding::percent_decode_str;

/// The names of the folders and the job.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct JobPath(Vec<String>);

impl JobPath {
    /// Parses `folder/name`, or `job/folder/job/name` as in the address of the job's page. The name of a
    /// multibranch job's branch has `%2F` for each `/`, its address `%252F`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.trim_matches('/').split('/').collect();
        let is_address = words.len() >= 2
            && words.len().is_multiple_of(2)
            && words.iter().step_by(2).all(|it| *it == "job");
        let names: Vec<String> = if is_address {
            words.iter().skip(1).step_by(2).map(|it| decoded(it)).collect()
        } else {
            words.into_iter().map(str::to_owned).collect()
        };
        let is_name = |name: &String| !matches!(name.as_str(), "" | "." | "..");
        names.iter().all(is_name).then_some(Self(names))
    }

    /// The segments of the job's path below the server's address.
    pub(super) fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|name| ["job", name])
    }

    /// Whether `address` is this job's address, on any host name. A job of the same name in a folder does
    /// not match. Like Jenkins, the comparison ignores case.
    pub(super) fn is_at(&self, address: &str) -> bool {
        let address = percent_decode_str(address.trim_end_matches('/')).decode_utf8_lossy();
        let own: String = self.segments().flat_map(|it| ["/", it]).collect();
        let (address, own) = (address.to_lowercase(), own.to_lowercase());
        address.strip_suffix(&own).is_some_and(|before| !format!("{before}/").contains("/job/"))
    }
}

/// `folder/name`.
impl Display for JobPath {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0.join("/"))
    }
}

/// Decodes a name from an address. A decoded name with a `/` was not encoded: it is kept as it is.
fn decoded(name: &str) -> String {
    let decoded = percent_decode_str(name).decode_utf8_lossy();
    if decoded.contains('/') { name.to_owned() } else { decoded.into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job_names(job: &str) -> Option<Vec<String>> {
        JobPath::parse(job).map(|path| path.0)
    }

    #[test]
    fn job_path_is_parsed_from_folders_or_from_an_address() {
        for job in [
            "team/infra run",
            "/team/infra run/",
            "job/team/job/infra run",
            "job/team/job/infra%20run/",
        ] {
            assert_eq!(job_names(job).unwrap(), ["team", "infra run"], "{job}");
        }
        for branch in
            ["infra/feature%2Fx", "job/infra/job/feature%252Fx", "job/infra/job/feature%2Fx"]
        {
            assert_eq!(job_names(branch).unwrap(), ["infra", "feature%2Fx"], "{branch}");
        }
        assert_eq!(job_names("job").unwrap(), ["job"]);
        assert_eq!(job_names("job/job").unwrap(), ["job"]);
        for job in ["", "/", "a//b", "../x", "a/./b", "job/%2E%2E"] {
            assert_eq!(job_names(job), None, "{job}");
        }
    }

    #[test]
    fn address_of_a_job_with_the_same_name_in_a_folder_does_not_match() {
        let job = JobPath::parse("infra/feature%2Fx y").unwrap();
        for address in [
            "http://inside:8080/jenkins/job/infra/job/feature%252Fx%20y/",
            "/job/Infra/job/feature%252fX%20y",
        ] {
            assert!(job.is_at(address), "{address}");
        }
        for address in [
            "",
            "http://inside/job/team/job/infra/job/feature%252Fx%20y/",
            "http://inside/job/infra/",
            "http://inside/job/infra/job/feature/",
        ] {
            assert!(!job.is_at(address), "{address}");
        }
    }
}
