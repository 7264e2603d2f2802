//! Settings for runs in a Kubernetes cluster: the access to the cluster, and a run with placeholders.

use std::path::PathBuf;

use super::reader::Reader;
use super::setting::{ENDPOINT, RUN_ID, TOKEN_FILE};
use super::variable::OWN_PREFIX;
use super::{Arguments, Environment, SettingsError, parse, variable};
use butler_cluster::{ClusterAccess, KubeconfigFiles, Proxies, Run};

/// The default of `kubectl`, relative to HOME.
const KUBECONFIG_BELOW_HOME: &str = ".kube/config";

/// A run for a manifest that is printed: values of flags, and placeholders for the others. It does not depend on the
/// environment and contains no secret.
///
/// # Errors
/// If a flag has an unusable value, or if one names a token.
pub fn cluster_template(arguments: &Arguments) -> Result<Run, SettingsError> {
    if arguments.value(&TOKEN_FILE).is_some() {
        let mode = "a file that is printed: add --apply";
        return Err(SettingsError::OutOfPlace { flag: TOKEN_FILE.flags[0], mode });
    }
    let environment = &Environment::new(std::collections::BTreeMap::new(), PathBuf::new());
    let reader = Reader { arguments, environment };
    let endpoint = reader.parsed(&ENDPOINT, parse::endpoint)?;
    let mut run = Run::placeholder(endpoint.as_ref().map(url::Url::as_str));
    if let Some(id) = reader.parsed(&RUN_ID, parse::run_id)? {
        run.id = id.to_string();
    }
    Ok(run)
}

/// The access to a cluster: `kubeconfig`, else the files in `KUBECONFIG`, else the file in HOME, else the cluster of
/// the pod that this process is in.
#[must_use]
pub fn cluster_access(
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
    environment: &Environment,
) -> ClusterAccess {
    let named = |name: &str| environment.value(name);
    let of_variable = || {
        let paths = std::env::split_paths(named(variable::KUBECONFIG.name)?);
        let paths: Vec<_> = paths.filter(|path| !path.as_os_str().is_empty()).collect();
        (!paths.is_empty()).then_some(KubeconfigFiles::Variable(paths))
    };
    let below_home = || {
        let home = named(variable::HOME.name)?;
        Some(KubeconfigFiles::Home(PathBuf::from(home).join(KUBECONFIG_BELOW_HOME)))
    };
    let files = kubeconfig.map(KubeconfigFiles::Named).or_else(of_variable).or_else(below_home);
    let files = files.unwrap_or_default();
    let text = |name: &str| named(name).and_then(|value| value.to_str()).map(ToOwned::to_owned);
    let own = environment.variables().keys().filter_map(|name| name.to_str());
    let own = own.filter(|name| name.as_bytes().starts_with(OWN_PREFIX));
    ClusterAccess {
        kubeconfig: files,
        context,
        in_pod: named(variable::KUBERNETES_SERVICE_HOST.name).is_some(),
        proxies: Proxies {
            https: text("HTTPS_PROXY").or_else(|| text("https_proxy")),
            not_for: text("NO_PROXY").or_else(|| text("no_proxy")),
        },
        kept_back: own.map(ToOwned::to_owned).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        Environment::new(variables.collect(), PathBuf::new())
    }

    #[test]
    fn cluster_is_the_one_of_kubectl() {
        let files = |given: Option<&str>, variables: &[(&str, &str)]| {
            cluster_access(given.map(PathBuf::from), None, &environment(variables)).kubeconfig
        };
        let variables = [("HOME", "/h"), ("KUBECONFIG", "/a::/b")];
        let variable = KubeconfigFiles::Variable(vec!["/a".into(), "/b".into()]);
        assert_eq!(files(Some("/c"), &variables), KubeconfigFiles::Named("/c".into()));
        assert_eq!(files(None, &variables), variable);
        assert_eq!(files(None, &variables[..1]), KubeconfigFiles::Home("/h/.kube/config".into()));
        assert_eq!(files(None, &[("KUBECONFIG", ":")]), KubeconfigFiles::Nowhere);
        assert_eq!(files(None, &[]), KubeconfigFiles::Nowhere);
    }

    #[test]
    fn credential_plugin_does_not_get_the_variables_of_the_runner() {
        let variables =
            [("BUTLER_TOKEN", "brce_x"), ("BUTLER_GIT_TOKEN", "y"), ("AWS_PROFILE", "z")];
        let access = cluster_access(None, None, &environment(&variables));
        assert_eq!(access.kept_back, ["BUTLER_GIT_TOKEN", "BUTLER_TOKEN"]);
    }

    #[test]
    fn template_contains_flags_but_no_variables_and_no_token() {
        let run = cluster_template(&Arguments::default().with(&RUN_ID, "7")).unwrap();
        assert_eq!((&*run.endpoint, &*run.id), ("${BUTLER_ENDPOINT}", "7"));
        let error = cluster_template(&Arguments::default().with(&TOKEN_FILE, "/x")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--token-file cannot be used with a file that is printed: add --apply"
        );
    }
}
