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
        why: String,
        at: Instant,
    },
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
        let mut login = self.login.lock().await;
        match &*login {
            Login::Done(objects) => return Ok(Arc::clone(objects)),
            Login::Failed { why, at } if at.elapsed() < AGAIN => return Err(why.clone()),
            Login::Failed { .. } | Login::None => {}
        }
        match self.connect().await {
            Ok(cluster) => {
                let objects = Arc::new(NativeObjects::new(cluster));
                *login = Login::Done(Arc::clone(&objects));
                Ok(objects)
            }
            Err(why) => {
                *login = Login::Failed { why: why.clone(), at: Instant::now() };
                Err(why)
            }
        }
    }

    /// Logs in on a thread of its own, because a program that a login needs blocks its thread.
    async fn connect(&self) -> Result<Cluster, String> {
        let (access, runtime) = (self.access.clone(), Handle::current());
        let connecting =
            spawn_blocking(move || runtime.block_on(Box::pin(Cluster::connect(&access, None))));
        match timeout(LOGIN, connecting).await {
            Ok(Ok(connected)) => connected.map_err(|error| chain(&error)),
            Ok(Err(error)) => Err(format!("cannot log in to the cluster: {error}")),
            Err(_) => {
                Err(format!("the login to the cluster did not end within {} s", LOGIN.as_secs()))
            }
        }
    }
}
