//! The settings that select a cluster: kubeconfig files, a context, the pod's own account, and proxies.

use std::path::{Path, PathBuf};

use hyper_util::client::proxy::matcher::Matcher;

/// The settings that select a cluster.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Files with contexts.
    pub kubeconfig: Files,
    /// The context; the current one where none is given.
    pub context: Option<String>,
    /// Whether this process runs in a pod; its account is used if no kubeconfig exists.
    pub in_pod: bool,
    /// The proxy for everything but the hosts that are asked directly, where no context names one.
    pub proxies: Proxies,
    /// Variables that a login's helper program does not inherit: the runner's own, which are secret.
    pub kept_back: Vec<String>,
}

/// How this process gets out, as the environment says it.
#[derive(Clone, Default)]
pub struct Proxies {
    /// The proxy for HTTPS; may hold a login.
    pub https: Option<String>,
    /// Hosts that are asked directly.
    pub not_for: Option<String>,
}

/// Without the proxy, whose URL may hold a password.
impl std::fmt::Debug for Proxies {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Proxies").field("not_for", &self.not_for).finish_non_exhaustive()
    }
}

impl Proxies {
    /// The proxy that stands before `server`.
    pub(super) fn before(&self, server: &http::Uri) -> Option<http::Uri> {
        let proxy = self.https.as_ref()?;
        let matcher = Matcher::builder()
            .https(proxy.clone())
            .no(self.not_for.clone().unwrap_or_default())
            .build();
        matcher.intercept(server).and_then(|_| proxy.parse().ok())
    }
}

/// Where clusters are described.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Files {
    /// In this one and no other, which has to be there.
    Named(PathBuf),
    /// In those of these that are there, merged as `kubectl` merges them; `KUBECONFIG` says so.
    Variable(Vec<PathBuf>),
    /// In this one of the home directory, if it is there.
    Home(PathBuf),
    /// Nowhere.
    #[default]
    Nowhere,
}

impl Files {
    /// Those that are to be read.
    pub(super) fn there(&self) -> Vec<&Path> {
        let is_there = |path: &&PathBuf| path.exists();
        match self {
            Self::Named(path) => vec![path],
            Self::Variable(paths) => paths.iter().filter(is_there).map(PathBuf::as_path).collect(),
            Self::Home(path) => {
                Some(path).filter(is_there).into_iter().map(PathBuf::as_path).collect()
            }
            Self::Nowhere => Vec::new(),
        }
    }

    /// Why no file can be read.
    pub(super) fn missing(&self) -> String {
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
