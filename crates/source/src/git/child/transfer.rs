//! Fetches one commit into a repository: shallow if possible, with its history if the server refuses,
//! and without a copy if the repository is in a directory ([`local`]).
//!
//! libgit2 does not report a missing reference. So the server's references are read first, and the
//! fetched object is looked up afterwards.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::Path;

use git2::{
    AutotagOption, Direction, FetchOptions, Object, Oid, ProxyOptions, Remote, RemoteConnection,
    RemoteRedirect, Repository,
};

use super::super::failure::FetchError;
use super::super::login::login_for;
use super::super::task::Access;
use super::super::url::{RepositoryUrl, Scheme};
use super::authenticate::Authenticator;
use super::certificates::trust;
use super::depth::Depth;
use super::explain::{ErrorContext, FetchStep, explain};
use super::host_keys::KnownHost;
use super::progress::Progress;
use super::reference::{ResolvedReference, hidden_sentence, resolve_reference, similar};
use super::{host_keys, local};

/// The local reference of a commit without a name.
const UNNAMED_REFERENCE: &str = "refs/butler/fetched";

/// The setting of git for redirects.
pub(super) const FOLLOW_REDIRECTS: &str = "http.followRedirects";

/// The settings of git for programs and headers with credentials.
const SETTINGS_OF_LOGINS: &str = "^(credential\\..*helper|http\\..*extraheader)$";

/// libgit2's depth for the history that an earlier fetch left out.
const UNSHALLOW: i32 = i32::MAX;

/// All branches and tags.
pub(super) const ALL_REFERENCES: [&str; 2] =
    ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"];

/// Fetches the commits of one clone and its submodules.
pub(super) struct Transfer<'task> {
    access: &'task Access,
    pub(super) progress: &'task Progress,
    pub(super) authenticator: Authenticator<'task>,
    /// Whether the certificates are loaded, which is done before the first HTTPS connection: libgit2 uses no proxy for plain HTTP.
    has_certificates: Cell<bool>,
}

/// A connection to a server, and the local repository.
pub(super) struct Server<'repository, 'connection> {
    pub(super) repository: &'repository Repository,
    url: &'connection RepositoryUrl,
    /// The URL that libgit2 uses: the user's configuration (`insteadOf`) may have changed it.
    pub(super) address: String,
    known: KnownHost,
    /// The references of the server.
    pub(super) heads: Vec<(String, Oid)>,
    /// Whether the local repository shares the server's objects, so that nothing has to be fetched.
    shares_objects: bool,
    /// The connection of the references, until the first fetch uses it.
    connection: RefCell<Option<RemoteConnection<'repository, 'connection, 'connection>>>,
}

impl<'task> Transfer<'task> {
    pub(super) const fn new(access: &'task Access, progress: &'task Progress) -> Self {
        Self {
            access,
            progress,
            authenticator: Authenticator::new(access),
            has_certificates: Cell::new(false),
        }
    }

    /// Fetches the commit of `reference` into `repository` and returns its id.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses, or the commit does not exist.
    pub(super) fn fetch_commit(
        &self,
        repository: &Repository,
        url: &RepositoryUrl,
        reference: &str,
    ) -> Result<Oid, FetchError> {
        // Credentials must not follow a redirect to another host. For the first request, libgit2 reads the
        // configuration.
        let settings = |error| FetchError::git("configure the clone", &error);
        let mut config = repository.config().map_err(settings)?;
        config.set_str(FOLLOW_REDIRECTS, "false").map_err(settings)?;

        let mut remote = self.remote(repository, url)?;
        let mut server = self.connect(repository, &mut remote, url)?;
        server.shares_objects = local::share_objects(repository, &server.address)?;
        let id = self.fetch_reference_from(&server, reference)?;
        config.remove(FOLLOW_REDIRECTS).map_err(settings)?;
        Ok(id)
    }

    /// The repository at `url`, for [`Self::connect`].
    pub(super) fn remote<'repository>(
        &self,
        repository: &'repository Repository,
        url: &RepositoryUrl,
    ) -> Result<Remote<'repository>, FetchError> {
        repository
            .remote_anonymous(url.as_str())
            .map_err(|error| self.explain(url, &KnownHost::default(), FetchStep::Connect, &error))
    }

    /// Connects to the server of `url` and reads its references. `repository` must have
    /// [`FOLLOW_REDIRECTS`] set to `false`.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    pub(super) fn connect<'repository, 'connection>(
        &'connection self,
        repository: &'repository Repository,
        remote: &'connection mut Remote<'repository>,
        url: &'connection RepositoryUrl,
    ) -> Result<Server<'repository, 'connection>, FetchError> {
        let known = match url.scheme {
            Scheme::Ssh => host_keys::write_known_hosts(self.access, url)?,
            _ => KnownHost::default(),
        };
        self.authenticator.clear_attempts();
        let address = remote.url().unwrap_or_default().to_owned();
        if address.starts_with("https:") && !self.has_certificates.replace(true) {
            trust(self.access)?;
        }
        let failed = |error| self.explain(url, &known, FetchStep::Connect, &error);
        let callbacks = self.authenticator.callbacks(url);
        let connection = remote
            .connect_auth(Direction::Fetch, Some(callbacks), Some(proxy()))
            .map_err(failed)?;
        let heads = connection.list().map_err(failed)?;
        let heads = heads.iter().map(|head| (head.name().to_owned(), head.oid())).collect();
        let connection = RefCell::new(Some(connection));
        let shares_objects = false;
        Ok(Server { repository, url, address, known, heads, shares_objects, connection })
    }

    fn fetch_reference_from(
        &self,
        server: &Server<'_, '_>,
        reference: &str,
    ) -> Result<Oid, FetchError> {
        let repository = server.repository;
        let unknown =
            |similar| FetchError::ReferenceNotFound { reference: reference.to_owned(), similar };
        match resolve_reference(reference, &server.heads) {
            ResolvedReference::Reference { name, hides } => {
                if let Some(hidden) = hides {
                    self.progress.print(&hidden_sentence(&name, &hidden));
                }
                let local = self.fetch_named(server, &name)?;
                let found = repository
                    .find_reference(&local)
                    .and_then(|found| found.peel(git2::ObjectType::Any));
                // A fetch of a reference that was just deleted succeeds without an object.
                commit_of(&found.map_err(|_| unknown(Vec::new()))?, reference)
            }
            ResolvedReference::Tip { name, id } => {
                self.fetch_named(server, &name)?;
                // The reference may have moved: the requested id decides.
                let found = repository.find_object(id, None);
                commit_of(&found.map_err(|_| unknown(Vec::new()))?, reference)
            }
            ResolvedReference::Commit(id) => {
                let spec = format!("+{id}:{UNNAMED_REFERENCE}");
                if !server.shares_objects && self.is_refused(server, &[&spec], Depth::ONE)? {
                    self.progress.print(
                        "The server does not give out single commits: fetching the whole history",
                    );
                    self.fetch(server, &ALL_REFERENCES, Depth::All)?;
                }
                repository
                    .find_commit(id)
                    .map(|commit| commit.id())
                    .map_err(|_| unknown(Vec::new()))
            }
            ResolvedReference::Abbreviation(prefix) => {
                if !server.shares_objects {
                    let why = "An abbreviated commit id needs the whole history: fetching it";
                    self.progress.print(why);
                    self.fetch(server, &ALL_REFERENCES, Depth::All)?;
                }
                let found = repository.find_commit_by_prefix(&prefix);
                found.map(|commit| commit.id()).map_err(|error| match error.code() {
                    git2::ErrorCode::Ambiguous => FetchError::AmbiguousCommit { prefix },
                    _ => unknown(similar(reference, &server.heads)),
                })
            }
            ResolvedReference::Ambiguous => {
                Err(FetchError::AmbiguousCommit { prefix: reference.to_owned() })
            }
            ResolvedReference::Unknown { similar } => Err(unknown(similar)),
        }
    }

    /// Fetches a reference of the server. Returns its local name.
    fn fetch_named(&self, server: &Server<'_, '_>, name: &str) -> Result<String, FetchError> {
        let local = local_name(name);
        if server.shares_objects {
            let failed =
                |error| self.explain(server.url, &server.known, FetchStep::Transfer, &error);
            for (_, id) in server.heads.iter().filter(|(head, _)| head == name) {
                server.repository.reference(&local, *id, true, "fetch").map_err(failed)?;
            }
            return Ok(local);
        }
        let spec = format!("+{name}:{local}");
        if self.is_refused(server, &[&spec], Depth::ONE)? {
            if server.url.scheme != Scheme::File {
                self.progress
                    .print("The server refuses a shallow fetch: fetching the whole history");
            }
            self.fetch(server, &[&spec], Depth::All)?;
        }
        Ok(local)
    }

    /// Fetches `specs` with this much history. Returns whether the server refused that.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub(super) fn is_refused(
        &self,
        server: &Server<'_, '_>,
        specs: &[&str],
        depth: Depth,
    ) -> Result<bool, FetchError> {
        // libgit2 has no shallow fetch from a directory.
        if server.url.scheme == Scheme::File {
            return Ok(true);
        }
        match self.fetch(server, specs, depth) {
            Ok(()) => Ok(false),
            Err(error) if error.may_be_a_refusal() => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Fetches `specs` into the local repository.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    pub(super) fn fetch(
        &self,
        server: &Server<'_, '_>,
        specs: &[&str],
        depth: Depth,
    ) -> Result<(), FetchError> {
        let has_begun = Cell::new(false);
        let mut callbacks = self.authenticator.callbacks(server.url);
        callbacks.transfer_progress(|progress| {
            has_begun.set(progress.total_objects() > 0);
            true
        });
        let mut options = FetchOptions::new();
        options
            .remote_callbacks(callbacks)
            .proxy_options(proxy())
            .follow_redirects(RemoteRedirect::None)
            .download_tags(AutotagOption::None)
            .update_fetchhead(false);
        match depth {
            Depth::Commits(count) => drop(options.depth(i32::try_from(count).unwrap_or(UNSHALLOW))),
            Depth::All if server.repository.is_shallow() => drop(options.depth(UNSHALLOW)),
            Depth::All => {}
        }
        let connection = server.connection.borrow_mut().take();
        let fetched = match connection {
            Some(mut connection) => connection.remote().fetch(specs, Some(&mut options), None),
            None => server
                .repository
                .remote_anonymous(server.url.as_str())
                .and_then(|mut remote| remote.fetch(specs, Some(&mut options), None)),
        };
        drop(options);
        fetched.map_err(|error| {
            match self.explain(server.url, &server.known, FetchStep::Transfer, &error) {
                // A server that sends objects does not refuse to.
                FetchError::Git { reason, .. } if has_begun.get() => {
                    FetchError::Incomplete { server: server.url.server(), reason }
                }
                error => error,
            }
        })
    }

    fn explain(
        &self,
        url: &RepositoryUrl,
        known: &KnownHost,
        step: FetchStep,
        error: &git2::Error,
    ) -> FetchError {
        let attempts = &self.authenticator.attempts();
        let has_login = login_for(&self.access.logins, url).is_some();
        match explain(&ErrorContext { url, known, attempts, has_login, step }, error) {
            FetchError::CredentialsMissing { server, scheme, .. } if url.scheme.is_http() => {
                let unused = unused_logins(self.access.home.as_deref(), &url.host);
                FetchError::CredentialsMissing { server, scheme, unused }
            }
            error => error,
        }
    }
}

fn commit_of(object: &Object<'_>, reference: &str) -> Result<Oid, FetchError> {
    object.peel_to_commit().map(|commit| commit.id()).map_err(|error| FetchError::NotACommit {
        reference: reference.to_owned(),
        reason: error.message().to_owned(),
    })
}

/// The settings and files with which git would log in to `host` over HTTP. They are not used, because credentials must
/// be given for this repository.
fn unused_logins(home: Option<&Path>, host: &str) -> Vec<String> {
    let mut unused = BTreeSet::new();
    if let Ok(config) = git2::Config::open_default()
        && let Ok(mut entries) = config.entries(Some(SETTINGS_OF_LOGINS))
    {
        while let Some(Ok(entry)) = entries.next() {
            // The name can contain the URL that the setting is for.
            let name =
                entry.name().ok().filter(|name| !name.contains("://") || name.contains(host));
            unused.extend(name.map(|name| format!("`{}`", name.escape_debug())));
        }
    }
    let netrc = home.is_some_and(|home| home.join(".netrc").is_file());
    unused.into_iter().chain(netrc.then(|| "`~/.netrc`".to_owned())).collect()
}

/// The local name of a reference of the server, as git uses it.
fn local_name(name: &str) -> String {
    match name.strip_prefix("refs/heads/") {
        Some(branch) => format!("refs/remotes/origin/{branch}"),
        None if name.starts_with("refs/tags/") => name.to_owned(),
        None => UNNAMED_REFERENCE.to_owned(),
    }
}

/// The proxy that the environment or the user's git configuration names.
fn proxy<'proxy>() -> ProxyOptions<'proxy> {
    let mut options = ProxyOptions::new();
    options.auto();
    options
}
