//! The state of a cluster that its parts share, and the faults that a test adds to it.

use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use axum::http::Method;
use tokio::sync::watch;

use super::store::Store;

/// The only valid token.
pub const TOKEN: &str = "eyJhbGciOi.cluster-token.x1";
/// The namespace of the kubeconfig.
pub const NAMESPACE: &str = "runs";

/// A fault at a request.
#[derive(Clone, Debug)]
pub struct Fault {
    /// `POST`.
    pub method: &'static str,
    /// The end of the path, with `?watch` for a watch.
    pub path: &'static str,
    /// The effect, in place of the response.
    pub what: FaultEffect,
    /// How often. Afterwards the server responds itself.
    pub times: usize,
}

/// The effect of a fault.
#[derive(Clone, Debug)]
pub enum FaultEffect {
    /// A `Status` with this code, reason and message.
    Status(u16, &'static str, &'static str),
    /// 429 with `Retry-After: 1`.
    Later,
    /// The request is executed, and the response is a 500.
    AnswerLost,
    /// The watch returns 410.
    Gone,
    /// The log stream ends in the middle of a line, after this many lines.
    LogAfter(usize),
    /// The log stream never sends anything.
    Silence,
}

/// The course of the pod.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PodCourse {
    /// The pod runs.
    Run,
    /// The pod runs, but its node cannot tell that to the API server.
    Unseen,
    /// The pod fits on no node.
    Unschedulable,
    /// The image cannot be pulled.
    NoImage,
    /// A Secret whose keys become variables is missing.
    NoSecret,
    /// The controller is not allowed to create it.
    Quota,
    /// The disk of the node is full: the kubelet evicts it.
    Evicted,
    /// The container exceeds its memory limit: the kernel kills it.
    OutOfMemory,
    /// The same, and the container's runtime does not notice that it was the memory.
    Killed,
    /// The container exceeds its memory limit: the kernel kills Terraform, and the runner ends by itself.
    ChildOutOfMemory,
    /// The Job's deadline has passed.
    Deadline,
    /// The node and its pod are lost.
    NodeLost,
}

/// How watches behave. Counters are compared with their value at the last look.
#[derive(Clone, Copy, Default)]
pub(super) struct Watching {
    /// Each event is sent twice.
    pub(super) repeats: bool,
    /// No event is sent: the cache of the API server is behind.
    pub(super) holds: bool,
    /// How often all open watches have got a bookmark.
    pub(super) bookmarks: u64,
    /// How often all open watches have ended in the middle of an event.
    pub(super) breaks: u64,
}

/// Requests that are answered only when so many of them wait at the same time.
pub(super) struct Gathering {
    pub(super) method: &'static str,
    /// The end of the path.
    pub(super) path: &'static str,
    pub(super) number: usize,
    /// How many wait now; `None` after there were enough.
    pub(super) waiting: watch::Sender<Option<usize>>,
}

/// One request that waits. One whose client has given up does not count.
struct Waiting<'a>(&'a Gathering);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let leave = |waiting: &mut Option<usize>| *waiting = waiting.map(|number| number - 1);
        self.0.waiting.send_modify(leave);
    }
}

/// The state that the parts of the cluster share.
pub(super) struct Shared {
    pub(super) store: Mutex<Store>,
    /// Version of the store, incremented by each change.
    pub(super) changes: watch::Sender<u64>,
    pub(super) faults: Mutex<Vec<Fault>>,
    pub(super) gathering: Mutex<Option<Arc<Gathering>>>,
    pub(super) watching: watch::Sender<Watching>,
    pub(super) course: watch::Sender<PodCourse>,
    /// How many changes named an earlier version of their object.
    pub(super) conflicts: AtomicUsize,
    /// The requests: `POST /path?query`.
    pub(super) requests: Mutex<Vec<String>>,
    /// The directory of volumes, and the variables of the node.
    pub(super) node: PathBuf,
    pub(super) variables: Vec<(String, String)>,
    /// The addresses of Services, and where they are on this machine.
    pub(super) services: Mutex<Vec<(String, String)>>,
    /// Whether clients must authenticate with a certificate instead of a token.
    pub(super) by_certificate: bool,
}

impl Shared {
    /// A text with the places of Services instead of their addresses.
    pub(super) fn reachable(&self, text: &str) -> String {
        let services = self.services.lock().unwrap();
        services.iter().fold(text.to_owned(), |text, (address, place)| text.replace(address, place))
    }

    /// Waits until as many such requests wait as a test wants.
    pub(super) async fn gather(&self, method: &Method, path: &str) {
        let gathering = self.gathering.lock().unwrap().clone();
        let Some(gathering) = gathering else { return };
        if method != gathering.method || !path.ends_with(gathering.path) {
            return;
        }
        gathering.waiting.send_modify(|waiting| {
            *waiting = waiting.map(|number| number + 1).filter(|now| *now < gathering.number);
        });
        let _waiting = Waiting(&gathering);
        let mut changes = gathering.waiting.subscribe();
        let _ = changes.wait_for(Option::is_none).await;
    }

    /// The fault for this request; each is used a limited number of times.
    pub(super) fn broken(
        &self,
        method: &Method,
        path: &str,
        is_watch: bool,
    ) -> Option<FaultEffect> {
        let mut faults = self.faults.lock().unwrap();
        let fault = faults.iter_mut().find(|fault| {
            let (wanted, of_watch) = match fault.path.strip_suffix("?watch") {
                Some(path) => (path, true),
                None => (fault.path, false),
            };
            fault.times > 0
                && method == fault.method
                && path.ends_with(wanted)
                && of_watch == is_watch
        })?;
        fault.times -= 1;
        Some(fault.what.clone())
    }

    /// Changes the store and notifies watchers.
    pub(super) fn update<T>(&self, update: impl FnOnce(&mut Store) -> T) -> T {
        let value = update(&mut self.store.lock().unwrap());
        self.changes.send_modify(|count| *count += 1);
        value
    }
}
