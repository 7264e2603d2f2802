//! The settings that select a cluster: kubeconfig files, a context, the pod's own account, and proxies.

use std::path::{Path, PathBuf};

use hyper_util::client::proxy::matcher::Matcher;

/// The settings that select a cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterAccess {
    /// The kubeconfig files.
    pub kubeconfig: KubeconfigFiles,
    /// The context; the default is the current one.
    pub context: Option<String>,
    /// Whether this process runs in a pod; its account is used if no kubeconfig exists.
    pub in_pod: bool,
    /// The proxy, unless the context names one.
    pub proxies: Proxies,
    /// Variables that a login's helper program does not inherit: those with the runner's own secrets.
    pub kept_back: Vec<String>,
}

/// The proxy settings of the environment.
#[derive(Clone, Default)]
pub struct Proxies {
    /// The proxy for HTTPS; may contain a login.
    pub https: Option<String>,
    /// Hosts that are contacted without the proxy.
    pub not_for: Option<String>,
}

/// Hides the proxy, whose URL may contain a password.
impl std::fmt::Debug for Proxies {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Proxies").field("not_for", &self.not_for).finish_non_exhaustive()
    }
}

impl Proxies {
    /// The proxy for requests to `server`, unless the host is exempt.
    pub(crate) fn for_server(&self, server: &http::Uri) -> Option<http::Uri> {
        let proxy = self.https.as_ref()?;
        let matcher = Matcher::builder()
            .https(proxy.clone())
            .no(self.not_for.clone().unwrap_or_default())
            .build();
        matcher.intercept(server).and_then(|_| proxy.parse().ok())
    }
}

/// The kubeconfig files, by the setting that names them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum KubeconfigFiles {
    /// The file of `--kubeconfig`, which must exist.
    Named(PathBuf),
    /// The files in `KUBECONFIG`. The existing ones are merged as `kubectl` merges them.
    Variable(Vec<PathBuf>),
    /// The file in the home directory, if it exists.
    Home(PathBuf),
    /// No setting and no home directory.
    #[default]
    Nowhere,
}

impl KubeconfigFiles {
    /// The files to read.
    pub(crate) fn existing(&self) -> Vec<&Path> {
        let exists = |path: &&PathBuf| path.exists();
        match self {
            Self::Named(path) => vec![path],
            Self::Variable(paths) => paths.iter().filter(exists).map(PathBuf::as_path).collect(),
            Self::Home(path) => {
                Some(path).filter(exists).into_iter().map(PathBuf::as_path).collect()
            }
            Self::Nowhere => Vec::new(),
        }
    }

    /// The reason why there is no file to read, for messages.
    pub(crate) fn missing_reason(&self) -> String {
        match self {
            Self::Variable(paths) => {
                let names: Vec<_> =
                    paths.iter().map(|path| format!("`{}`", path.display())).collect();
                let which = if names.len() == 1 { "which does" } else { "none of which does" };
                format!("KUBECONFIG names {}, {which} not exist", names.join(", "))
            }
            Self::Named(path) | Self::Home(path) => format!("`{}` does not exist", path.display()),
            Self::Nowhere => "neither KUBECONFIG nor HOME is set".to_owned(),
        }
    }
}
