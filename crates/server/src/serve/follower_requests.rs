//! What people ask of followers, on its way to the tasks that look at them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use butler_follower::{Decision, Request};
use tokio::sync::{mpsc, oneshot};

use crate::store::StoreResult;

/// How many requests for one follower can wait.
const WAITING: usize = 16;

/// A request of a person, and where its answer goes.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) request: Request,
    pub(super) answer: oneshot::Sender<StoreResult<Option<Decision>>>,
}

/// How a request was answered.
#[derive(Debug)]
pub enum FollowerAnswer {
    /// The follower was looked at.
    Looked(Box<Decision>),
    /// Another server has decided at the same moment.
    Overtaken,
    /// The server does not look at the follower.
    Missing,
    /// Too many requests wait.
    Busy,
}

/// Hands on requests to the tasks of followers.
#[derive(Debug, Default)]
pub struct FollowerRequests(Mutex<HashMap<String, mpsc::Sender<Ask>>>);

impl FollowerRequests {
    /// Looks at a follower now, for a person.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn ask(&self, follower: &str, request: Request) -> StoreResult<FollowerAnswer> {
        let Some(sender) = self.senders().get(follower).cloned() else {
            return Ok(FollowerAnswer::Missing);
        };
        let (answer, answered) = oneshot::channel();
        if sender.try_send(Ask { request, answer }).is_err() {
            let is_gone = sender.is_closed();
            return Ok(if is_gone { FollowerAnswer::Missing } else { FollowerAnswer::Busy });
        }
        match answered.await {
            Ok(Ok(Some(decision))) => Ok(FollowerAnswer::Looked(Box::new(decision))),
            Ok(Ok(None)) => Ok(FollowerAnswer::Overtaken),
            Ok(Err(error)) => Err(error),
            Err(_) => Ok(FollowerAnswer::Missing),
        }
    }

    /// The requests for a follower from now on.
    pub(super) fn of(&self, follower: &str) -> mpsc::Receiver<Ask> {
        let (sender, requests) = mpsc::channel(WAITING);
        self.senders().insert(follower.to_owned(), sender);
        requests
    }

    fn senders(&self) -> MutexGuard<'_, HashMap<String, mpsc::Sender<Ask>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
