//! Objects of any kind, as followers read and create them: Jobs, `PipelineRun`s, Applications, Deployments.
//!
//! A kind is looked up in the API server, because the path of a custom resource has its plural. Everything is read
//! as JSON; no command is started, and no text of one is parsed.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use butler_base::error::chain;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{GroupVersion, Status};
use kube::discovery::{ApiResource, Scope, pinned_kind};
use kube::error::DiscoveryError;
use serde_json::Value;

use crate::classify::classify_request_error;
use crate::client::Cluster;
use crate::unreadable::Unreadable;

/// The name under which the cluster remembers which fields are set here.
const FIELD_MANAGER: &str = "butler-runner";

/// The code of a refusal because of a kind that is not there: not implemented.
const NO_KIND: u16 = 501;

/// How long one request may take.
const ANSWER: Duration = Duration::from_secs(10);

/// Which object is meant.
#[derive(Clone, Copy, Debug)]
pub struct NativeObject<'a> {
    /// The group and version, such as `batch/v1`.
    pub api_version: &'a str,
    /// The kind, such as `Job`.
    pub kind: &'a str,
    /// The namespace. `None`: that of the login, for a kind that has one.
    pub namespace: Option<&'a str>,
    /// The name.
    pub name: &'a str,
}

impl<'a> NativeObject<'a> {
    /// The object that this JSON is.
    #[must_use]
    pub fn of(object: &'a Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        Self {
            api_version: text("/apiVersion").unwrap_or_default(),
            kind: text("/kind").unwrap_or_default(),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name").unwrap_or_default(),
        }
    }
}

/// What is known of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// It exists.
    Found(Value),
    /// It does not exist.
    Absent,
    /// The cluster refuses it, or does not have the kind. A retry alone does not help.
    Denied {
        /// Why.
        why: String,
    },
    /// It could not be read.
    Unknown {
        /// Why.
        why: String,
    },
}

/// How a creation ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Creation {
    /// The object exists: it was created now, or before.
    Exists,
    /// The cluster refuses it, and a repetition cannot help.
    Refused {
        /// Why.
        why: String,
    },
    /// It may exist. The request can be repeated, because the name of the object is fixed.
    Unknown {
        /// Why.
        why: String,
    },
}

/// Why a request has no result.
pub(crate) enum Problem {
    /// The cluster answered that it does not want it.
    Refusal { code: u16, why: String },
    /// It may be another time.
    Temporary(String),
}

impl Problem {
    pub(crate) fn into_why(self) -> String {
        match self {
            Self::Refusal { why, .. } | Self::Temporary(why) => why,
        }
    }
}

/// Reads and creates objects of a cluster.
pub struct NativeObjects {
    cluster: Cluster,
    /// The kinds that were looked up, with whether they have namespaces.
    kinds: Mutex<HashMap<(String, String), (ApiResource, bool)>>,
}

impl std::fmt::Debug for NativeObjects {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("NativeObjects").finish_non_exhaustive()
    }
}

impl NativeObjects {
    /// The objects of `cluster`.
    #[must_use]
    pub fn new(cluster: Cluster) -> Self {
        Self { cluster, kinds: Mutex::default() }
    }

    /// Reads an object, without the list of those who manage its fields.
    pub async fn read(&self, object: NativeObject<'_>) -> Reading {
        let reading = async {
            let api = self.api(object).await?;
            match api.get(object.name).await {
                Ok(found) => Ok(Some(found)),
                Err(kube::Error::Api(status)) if is_absence(&status, object.name) => Ok(None),
                Err(error) => Err(self.problem(object, &error)),
            }
        };
        match in_time(reading).await {
            Ok(Some(mut found)) => {
                found.metadata.managed_fields = None;
                match serde_json::to_value(found) {
                    Ok(found) => Reading::Found(found),
                    Err(error) => Reading::Unknown { why: chain(&error) },
                }
            }
            Ok(None) => Reading::Absent,
            // It is about something else, such as the namespace.
            Err(Problem::Refusal { code: 404, why } | Problem::Temporary(why)) => {
                Reading::Unknown { why }
            }
            Err(Problem::Refusal { why, .. }) => Reading::Denied { why },
        }
    }

    /// Creates an object, which has its name and its namespace. One of that name that exists is not changed.
    pub async fn create(&self, object: &Value) -> Creation {
        let creating = async {
            let invalid = |why: String| Problem::Refusal { code: 422, why };
            let meant = NativeObject::of(object);
            let api = self.api(meant).await?;
            let body: DynamicObject = serde_json::from_value(object.clone())
                .map_err(|error| invalid(format!("its fields cannot be used: {error}")))?;
            let created = api.create(&PostParams::default(), &body).await;
            created.map_err(|error| self.problem(meant, &error))
        };
        match in_time(creating).await {
            Ok(_) | Err(Problem::Refusal { code: 409, .. }) => Creation::Exists,
            Err(Problem::Refusal { why, .. }) => Creation::Refused { why },
            Err(Problem::Temporary(why)) => Creation::Unknown { why },
        }
    }

    /// Puts an object into this form, which has its name and its namespace: creates it, or changes what differs.
    /// With `dry_run`, the cluster only says what would come of it.
    ///
    /// # Errors
    /// If the cluster refuses it, or does not answer.
    pub async fn apply(&self, object: &Value, dry_run: bool) -> Result<Value, String> {
        let applying = async {
            let meant = NativeObject::of(object);
            let api = self.api(meant).await?;
            let parameters = PatchParams { dry_run, ..PatchParams::apply(FIELD_MANAGER).force() };
            let applied = api.patch(meant.name, &parameters, &Patch::Apply(object)).await;
            let mut applied = applied.map_err(|error| self.problem(meant, &error))?;
            applied.metadata.managed_fields = None;
            serde_json::to_value(applied).map_err(|error| Problem::Temporary(chain(&error)))
        };
        in_time(applying).await.map_err(Problem::into_why)
    }

    /// The cluster.
    pub(crate) const fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The client, and the namespace that is meant.
    pub(crate) fn place<'a>(&'a self, namespace: Option<&'a str>) -> (Client, &'a str) {
        (self.cluster.client.clone(), namespace.unwrap_or(&self.cluster.namespace))
    }

    /// The answer to a request, or why there is none.
    pub(crate) async fn answer<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, String> {
        let answer = async { request.await.map_err(|error| self.described(&error)) };
        in_time(answer).await.map_err(Problem::into_why)
    }

    /// The answer to a request, or why there is none, with what a repetition needs.
    pub(crate) async fn readable<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Unreadable> {
        match tokio::time::timeout(ANSWER, request).await {
            Ok(answer) => answer.map_err(|error| self.cluster.unreadable(&error)),
            Err(_) => Err(Unreadable { code: None, why: no_answer(), retry_after: None }),
        }
    }

    /// The requests for objects of this kind.
    pub(crate) async fn api(
        &self,
        object: NativeObject<'_>,
    ) -> Result<Api<DynamicObject>, Problem> {
        let (resource, has_namespace) = self.kind(object).await?;
        let (client, namespace) = self.place(object.namespace);
        Ok(if has_namespace {
            Api::namespaced_with(client, namespace, &resource)
        } else {
            Api::all_with(client, &resource)
        })
    }

    pub(crate) async fn kind(
        &self,
        object: NativeObject<'_>,
    ) -> Result<(ApiResource, bool), Problem> {
        let key = (object.api_version.to_owned(), object.kind.to_owned());
        let known = self.kinds.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let (version, kind) = (object.api_version, object.kind);
        let parsed: GroupVersion =
            version.parse().map_err(|error| Problem::Refusal { code: 422, why: chain(&error) })?;
        let found = pinned_kind(&self.cluster.client, &parsed.with_kind(kind)).await;
        let (resource, capabilities) = found.map_err(|error| {
            let is_missing = match &error {
                kube::Error::Discovery(error) => matches!(error, DiscoveryError::MissingKind(_)),
                kube::Error::Api(status) => status.code == 404,
                _ => false,
            };
            if is_missing {
                let why = format!("the cluster has no kind `{kind}` in `{version}`; install it, or correct the template");
                Problem::Refusal { code: NO_KIND, why }
            } else {
                self.problem(object, &error)
            }
        })?;
        let known = (resource, capabilities.scope == Scope::Namespaced);
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.insert(key, known.clone());
        Ok(known)
    }

    /// What an error means for a repetition. An object that exists is told apart from another conflict by its reason.
    pub(crate) fn problem(&self, object: NativeObject<'_>, error: &kube::Error) -> Problem {
        match error {
            // The answer is not about an object: the path of the kind is not served any more. It is looked up again.
            kube::Error::Api(status) if status.code == 404 && status.reason != "NotFound" => {
                let (version, kind) = (object.api_version, object.kind);
                let key = (version.to_owned(), kind.to_owned());
                self.kinds.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
                Problem::Temporary(format!(
                    "the cluster does not serve `{kind}` of `{version}` now"
                ))
            }
            error => self.described(error),
        }
    }

    /// What an error means that is not about a kind.
    fn described(&self, error: &kube::Error) -> Problem {
        match error {
            kube::Error::Api(status) => match (status.code, status.reason.as_str()) {
                (409, "AlreadyExists") | (400 | 403 | 404 | 405 | 413 | 415 | 422, _) => {
                    Problem::Refusal { code: status.code, why: status.message.clone() }
                }
                (code, _) => Problem::Temporary(format!("{} ({code})", status.message)),
            },
            // Its own text can quote what a login's helper program printed.
            other => {
                let classified = classify_request_error(other, &self.cluster.server);
                Problem::Temporary(chain(&classified))
            }
        }
    }
}

/// Whether an answer says that the object does not exist. One about something else has another name, or none.
pub(crate) fn is_absence(status: &Status, name: &str) -> bool {
    let names = status.details.as_ref().is_some_and(|details| details.name == name);
    status.code == 404 && status.reason == "NotFound" && names
}

pub(crate) async fn in_time<T>(
    request: impl Future<Output = Result<T, Problem>>,
) -> Result<T, Problem> {
    let answer = tokio::time::timeout(ANSWER, request).await;
    answer.unwrap_or_else(|_| Err(Problem::Temporary(no_answer())))
}

fn no_answer() -> String {
    format!("no answer within {} s", ANSWER.as_secs())
}

#[cfg(test)]
#[path = "native_tests.rs"]
mod tests;
