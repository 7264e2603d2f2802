//! Gets one commit from a server into a repository: shallow where that is possible, in full where
//! the server refuses, and without a copy where the server is a directory ([`local`]).
//!
//! libgit2 does not report a reference that the server does not have. So the server's references
//! are looked at first, and what they promised is looked up afterwards.

use std::cell::{Cell, RefCell};

use git2::{
    AutotagOption, Direction, FetchOptions, Object, Oid, ProxyOptions, RemoteConnection,
    RemoteRedirect, Repository,
};

use super::super::failure::FetchError;
use super::super::task::Task;
use super::super::url::{RepositoryUrl, Scheme};
use super::authenticate::Authenticator;
use super::certificates::trust;
use super::explain::{Circumstances, Step, explain};
use super::progress::Progress;
use super::reference::{Meaning, meaning, similar};
use super::{host_keys, local};

/// Where a commit that has no name of its own is kept.
const NAMELESS: &str = "refs/butler/fetched";

/// Everything that a commit can be reachable from.
const EVERYTHING: [&str; 2] = ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"];

/// What the transfers of one clone have in common.
pub(super) struct Transfer<'task> {
    task: &'task Task,
    progress: &'task Progress,
    pub(super) authenticator: Authenticator<'task>,
    /// Whether certificates are known, which is only done where a server may show some.
    trusts: Cell<bool>,
}

/// One server, and the repository that is filled from it.
struct Server<'repository, 'connection> {
    repository: &'repository Repository,
    url: &'connection RepositoryUrl,
    host_known: bool,
    heads: Vec<(String, Oid)>,
    /// Whether the repository reads the server's objects where they are: nothing has to be fetched.
    shares_objects: bool,
    /// The connection that the references came over, until something else was fetched by it.
    connection: RefCell<Option<RemoteConnection<'repository, 'connection, 'connection>>>,
}

/// How much of the history is wanted.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Depth {
    One,
    All,
}

impl<'task> Transfer<'task> {
    pub(super) const fn new(task: &'task Task, progress: &'task Progress) -> Self {
        Self { task, progress, authenticator: Authenticator::new(task), trusts: Cell::new(false) }
    }

    /// Brings the commit that `reference` means into `repository` and returns its id.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses, or the commit does not exist.
    pub(super) fn get(
        &self,
        repository: &Repository,
        url: &RepositoryUrl,
        reference: &str,
    ) -> Result<Oid, FetchError> {
        let host_known = url.scheme != Scheme::Ssh || host_keys::prepare(self.task, url)?;
        self.authenticator.begin();
        // Credentials must not follow a redirect to another host; libgit2 asks the configuration
        // whether the first request may.
        let settings = |error| FetchError::git("configure the clone", &error);
        let mut config = repository.config().map_err(settings)?;
        config.set_str("http.followRedirects", "false").map_err(settings)?;

        let failed = |error| self.explain(url, host_known, Step::Connect, &error);
        let mut remote = repository.remote_anonymous(url.as_str()).map_err(failed)?;
        // As the user's configuration may have rewritten it.
        let address = remote.url().unwrap_or_default().to_owned();
        if address.starts_with("http") && !self.trusts.replace(true) {
            trust(self.task)?;
        }
        let callbacks = self.authenticator.callbacks(url);
        let connection = remote
            .connect_auth(Direction::Fetch, Some(callbacks), Some(proxy()))
            .map_err(failed)?;
        let heads = connection.list().map_err(failed)?;
        let heads = heads.iter().map(|head| (head.name().to_owned(), head.oid())).collect();
        let connection = RefCell::new(Some(connection));
        let shares_objects = local::share_objects(repository, &address)?;
        let server = Server { repository, url, host_known, heads, shares_objects, connection };
        let id = self.get_from(&server, reference)?;
        config.remove("http.followRedirects").map_err(settings)?;
        Ok(id)
    }

    fn get_from(&self, server: &Server<'_, '_>, reference: &str) -> Result<Oid, FetchError> {
        let repository = server.repository;
        let unknown =
            |similar| FetchError::ReferenceNotFound { reference: reference.to_owned(), similar };
        match meaning(reference, &server.heads) {
            Meaning::Reference { name, hides } => {
                if let Some(hidden) = hides {
                    self.progress.say(&format!("`{name}` is used; `{hidden}` has the same name"));
                }
                let local = self.get_reference(server, &name)?;
                let found = repository
                    .find_reference(&local)
                    .and_then(|found| found.peel(git2::ObjectType::Any));
                // One that was deleted a moment ago is fetched as nothing at all.
                commit_of(&found.map_err(|_| unknown(Vec::new()))?, reference)
            }
            Meaning::Tip { name, id } => {
                self.get_reference(server, &name)?;
                // The reference may have moved on; the id that was asked for counts.
                let found = repository.find_object(id, None);
                commit_of(&found.map_err(|_| unknown(Vec::new()))?, reference)
            }
            Meaning::Commit(id) => {
                let spec = format!("+{id}:{NAMELESS}");
                if !server.shares_objects && self.is_refused(server, &spec)? {
                    self.progress.say(
                        "The server does not give out single commits: fetching the whole history",
                    );
                    self.fetch(server, &EVERYTHING, Depth::All)?;
                }
                repository
                    .find_commit(id)
                    .map(|commit| commit.id())
                    .map_err(|_| unknown(Vec::new()))
            }
            Meaning::Abbreviation(prefix) => {
                if !server.shares_objects {
                    let why = "An abbreviated commit id needs the whole history: fetching it";
                    self.progress.say(why);
                    self.fetch(server, &EVERYTHING, Depth::All)?;
                }
                let found = repository.find_commit_by_prefix(&prefix);
                found.map(|commit| commit.id()).map_err(|error| match error.code() {
                    git2::ErrorCode::Ambiguous => FetchError::AmbiguousCommit { prefix },
                    _ => unknown(similar(reference, &server.heads)),
                })
            }
            Meaning::Ambiguous => Err(FetchError::AmbiguousCommit { prefix: reference.to_owned() }),
            Meaning::Unknown { similar } => Err(unknown(similar)),
        }
    }

    /// Fetches one of the server's references; returns under which name it is kept.
    fn get_reference(&self, server: &Server<'_, '_>, name: &str) -> Result<String, FetchError> {
        let local = local_name(name);
        if server.shares_objects {
            let failed =
                |error| self.explain(server.url, server.host_known, Step::Transfer, &error);
            for (_, id) in server.heads.iter().filter(|(head, _)| head == name) {
                server.repository.reference(&local, *id, true, "fetch").map_err(failed)?;
            }
            return Ok(local);
        }
        let spec = format!("+{name}:{local}");
        if self.is_refused(server, &spec)? {
            if server.url.scheme != Scheme::File {
                self.progress.say("The server refuses a shallow fetch: fetching the whole history");
            }
            self.fetch(server, &[&spec], Depth::All)?;
        }
        Ok(local)
    }

    /// Fetches `spec` with one commit, and says whether that must be done in another way.
    fn is_refused(&self, server: &Server<'_, '_>, spec: &str) -> Result<bool, FetchError> {
        // libgit2 has no shallow fetch from a directory.
        if server.url.scheme == Scheme::File {
            return Ok(true);
        }
        match self.fetch(server, &[spec], Depth::One) {
            Ok(()) => Ok(false),
            Err(error) if error.may_be_a_refusal() => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn fetch(
        &self,
        server: &Server<'_, '_>,
        specs: &[&str],
        depth: Depth,
    ) -> Result<(), FetchError> {
        let mut options = FetchOptions::new();
        options
            .remote_callbacks(self.authenticator.callbacks(server.url))
            .proxy_options(proxy())
            .follow_redirects(RemoteRedirect::None)
            .download_tags(AutotagOption::None)
            .update_fetchhead(false);
        if depth == Depth::One {
            options.depth(1);
        }
        let connection = server.connection.borrow_mut().take();
        let fetched = match connection {
            Some(mut connection) => connection.remote().fetch(specs, Some(&mut options), None),
            None => server
                .repository
                .remote_anonymous(server.url.as_str())
                .and_then(|mut remote| remote.fetch(specs, Some(&mut options), None)),
        };
        fetched.map_err(|error| self.explain(server.url, server.host_known, Step::Transfer, &error))
    }

    fn explain(
        &self,
        url: &RepositoryUrl,
        host_known: bool,
        step: Step,
        error: &git2::Error,
    ) -> FetchError {
        let attempts = &self.authenticator.attempts();
        explain(&Circumstances { url, host_known, attempts, step }, error)
    }
}

fn commit_of(object: &Object<'_>, reference: &str) -> Result<Oid, FetchError> {
    object.peel_to_commit().map(|commit| commit.id()).map_err(|error| FetchError::NotACommit {
        reference: reference.to_owned(),
        reason: error.message().to_owned(),
    })
}

/// Under which name a reference of the server's is kept: where git keeps it.
fn local_name(name: &str) -> String {
    match name.strip_prefix("refs/heads/") {
        Some(branch) => format!("refs/remotes/origin/{branch}"),
        None if name.starts_with("refs/tags/") => name.to_owned(),
        None => NAMELESS.to_owned(),
    }
}

/// The proxy that the environment or the user's git configuration names.
fn proxy<'proxy>() -> ProxyOptions<'proxy> {
    let mut options = ProxyOptions::new();
    options.auto();
    options
}
