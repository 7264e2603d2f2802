//! The cluster of followers.

use std::sync::Arc;
use std::time::Duration;

use butler_base::error::chain;
use butler_cluster::{Cluster, ClusterAccess, NativeObjects};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

/// How long a login may take, which can start a program.
const LOGIN: Duration = Duration::from_secs(30);

/// How long a login that has failed is not tried again. Each object of each look needs it.
const AGAIN: Duration = Duration::from_secs(10);

/// The cluster of followers. The login begins with the first request: most servers have no such follower.
#[derive(Debug, Default)]
pub struct FollowerCluster {
    access: ClusterAccess,
    login: Mutex<Login>,
}

#[derive(Debug, Default)]
enum Login {
    #[default]
    None,
    Done(Arc<NativeObjects>),
    Failed {
        error: LoginError,
        at: Instant,
    },
}

/// The cluster cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{why}")]
pub struct LoginError {
    /// Why.
    pub why: String,
    /// Whether only another configuration can help.
    pub is_permanent: bool,
}

impl LoginError {
    const fn temporary(why: String) -> Self {
        Self { why, is_permanent: false }
    }
}

impl FollowerCluster {
    /// The cluster that `access` selects.
    #[must_use]
    pub fn new(access: ClusterAccess) -> Self {
        Self { access, login: Mutex::default() }
    }

    /// The objects of the cluster.
    ///
    /// # Errors
    /// If it cannot be used, in a sentence. The login is tried again after ten seconds.
    pub async fn objects(&self) -> Result<Arc<NativeObjects>, String> {
        self.login().await.map_err(|error| error.why)
    }

    /// The objects of the cluster.
    ///
    /// # Errors
    /// If it cannot be used. The login is tried again after ten seconds.
    pub async fn login(&self) -> Result<Arc<NativeObjects>, LoginError> {
        let mut login = self.login.lock().await;
        match &*login {
            Login::Done(objects) => return Ok(Arc::clone(objects)),
            Login::Failed { error, at } if at.elapsed() < AGAIN => return Err(error.clone()),
            Login::Failed { .. } | Login::None => {}
        }
        match log_in(&self.access, None).await {
            Ok(cluster) => {
                let objects = Arc::new(NativeObjects::new(cluster));
                *login = Login::Done(Arc::clone(&objects));
                Ok(objects)
            }
            Err(error) => {
                *login = Login::Failed { error: error.clone(), at: Instant::now() };
                Err(error)
            }
        }
    }
}

/// Logs in to a cluster on a thread of its own, because a program that a login needs blocks its thread.
///
/// # Errors
/// If the cluster cannot be used.
pub(crate) async fn log_in(
    access: &ClusterAccess,
    namespace: Option<&str>,
) -> Result<Cluster, LoginError> {
    let (access, namespace) = (access.clone(), namespace.map(str::to_owned));
    let runtime = Handle::current();
    let connecting = spawn_blocking(move || {
        runtime.block_on(Box::pin(Cluster::connect(&access, namespace.as_deref())))
    });
    match timeout(LOGIN, connecting).await {
        Ok(Ok(connected)) => connected.map_err(|error| LoginError {
            why: chain(&error),
            is_permanent: error.is_of_configuration(),
        }),
        Ok(Err(error)) => {
            Err(LoginError::temporary(format!("cannot log in to the cluster: {error}")))
        }
        Err(_) => {
            let limit = LOGIN.as_secs();
            let why = format!("the login to the cluster did not end within {limit} s");
            Err(LoginError::temporary(why))
        }
    }
}
