//! Who may do what.

use std::io;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use butler_base::platform::fs::OpenOptionsExt;
use butler_registry::TokenHash;
use fs_err as fs;
use secrecy::{ExposeSecret, SecretString};

use super::access_file::AccessFile;
use super::user::{Role, User};
use crate::config::ConfigError;

/// The time between two looks at the access file.
const INTERVAL: Duration = Duration::from_secs(1);

/// A new random token of a user.
///
/// # Errors
/// If the system has no random numbers.
pub fn new_token() -> io::Result<SecretString> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(format!("breg_{}", hex::encode(bytes)).into())
}

/// The fewest letters of a token of Jobs behind its prefix. Shorter ones can be guessed.
const SHORTEST: usize = 20;

/// The name of the Jobs of `butler-runner follower`, in the log and in errors.
const FOLLOWER_JOB: &str = "follower-job";

/// All users.
#[derive(Debug)]
pub struct Access {
    users: Mutex<Users>,
    /// The token of Jobs that ask about followers.
    follower_token: Option<FollowerToken>,
    /// The time between two looks at the file.
    interval: Duration,
}

/// The users in force, and where they come from.
#[derive(Debug)]
struct Users {
    known: Arc<[User]>,
    file: Option<AccessFile>,
    looked: Instant,
}

impl Access {
    /// These users.
    #[must_use]
    pub fn new(users: Vec<User>) -> Self {
        Self::with(users, None, INTERVAL)
    }

    fn with(users: Vec<User>, file: Option<AccessFile>, interval: Duration) -> Self {
        let users = Users { known: users.into(), file, looked: Instant::now() };
        Self { users: Mutex::new(users), follower_token: None, interval }
    }

    /// Also lets those who have the token in `file` read and trigger followers. The server works without the file.
    #[must_use]
    pub fn with_follower_token(self, file: Option<PathBuf>) -> Self {
        let of_jobs = file.map(|file| FollowerToken { file, is_reported: AtomicBool::new(false) });
        if let Some(of_jobs) = &of_jobs {
            of_jobs.read();
        }
        Self { follower_token: of_jobs, ..self }
    }

    /// The users of an access file, which is read again when it has changed. A file that is not
    /// valid then changes nothing, and its errors are logged.
    ///
    /// # Errors
    /// All that is wrong in the file.
    pub fn of_file(path: &Path) -> Result<Self, Vec<ConfigError>> {
        Self::looking(path, INTERVAL)
    }

    /// The users of an access file, at which it looks at most once in `interval`.
    pub(crate) fn looking(path: &Path, interval: Duration) -> Result<Self, Vec<ConfigError>> {
        let (file, users) = AccessFile::open(path)?;
        Ok(Self::with(users, Some(file), interval))
    }

    /// The administrator, whose token is in `file`. The file is made if it does not exist.
    ///
    /// # Errors
    /// If the file cannot be read or written, or contains no token.
    pub fn administrator(file: &Path) -> io::Result<Self> {
        if !file.exists() {
            let token = new_token()?;
            let mut options = std::fs::OpenOptions::new();
            options.write(true).create_new(true).mode(0o600);
            writeln!(options.open(file)?, "{}", token.expose_secret())?;
        }
        let token = read_token(file, 1, "remove the file, and start the server again")?;
        let (name, role) = ("administrator".to_owned(), Role::Administrator);
        Ok(Self::new(vec![User { name, role, layers: None, token }]))
    }

    /// The administrator that exists if there is no access file.
    pub(crate) fn only_administrator(&self) -> Option<TokenHash> {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        match (&users.file, &users.known[..]) {
            (None, [only]) if only.role == Role::Administrator => Some(only.token),
            _ => None,
        }
    }

    /// The user whose token this is. All hashes are compared, each in constant time.
    pub(crate) fn user(&self, token: &str) -> Option<User> {
        // Tokens of attempts are for the registry's API only.
        let token = token.starts_with("breg_").then(|| TokenHash::of(token))?;
        let users = self.known();
        let found =
            users.iter().fold(None, |found, it| if it.token == token { Some(it) } else { found });
        found.cloned()
    }

    /// The Job that asks about followers, if this is its token. It may not send any other request.
    pub(super) fn follower_job(&self, token: &str) -> Option<User> {
        let given = token.starts_with("breg_").then(|| TokenHash::of(token))?;
        let own = self.follower_token.as_ref()?.read()?;
        let (name, role) = (FOLLOWER_JOB.to_owned(), Role::Operator);
        (given == own).then_some(User { name, role, layers: None, token: own })
    }

    /// Whether the access file still has this user.
    pub(super) fn has(&self, user: &User) -> bool {
        self.known().iter().any(|known| known.token == user.token)
    }

    /// Waits until the access file no longer has this user. Without a file, it never ends.
    pub(super) async fn removed(&self, user: &User) {
        while self.has(user) {
            // Timers have a resolution of one millisecond.
            tokio::time::sleep(self.interval.max(Duration::from_millis(1))).await;
        }
    }

    /// The users in force.
    pub(crate) fn known(&self) -> Arc<[User]> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let Users { known, file: Some(file), looked } = &mut *users else {
            return Arc::clone(&users.known);
        };
        if looked.elapsed() >= self.interval {
            *looked = Instant::now();
            match file.changed() {
                Ok(Some(changed)) => {
                    tracing::info!(users = changed.len(), "the access file has changed");
                    *known = changed.into();
                }
                Ok(None) => {}
                Err(errors) => {
                    for error in errors {
                        tracing::error!("the users stay as they are: {error}");
                    }
                }
            }
        }
        Arc::clone(known)
    }
}

/// The file with the token of Jobs. It is read at each use, because the cluster replaces its content.
#[derive(Debug)]
struct FollowerToken {
    file: PathBuf,
    /// Whether the log has why it cannot be read.
    is_reported: AtomicBool,
}

impl FollowerToken {
    /// The hash of the token; `None` if there is none.
    fn read(&self) -> Option<TokenHash> {
        match read_token(&self.file, SHORTEST, "write one of `butler-runner access token`") {
            Ok(token) => {
                self.is_reported.store(false, Ordering::Relaxed);
                Some(token)
            }
            Err(error) => {
                if !self.is_reported.swap(true, Ordering::Relaxed) {
                    tracing::warn!("cannot read the token of Jobs of followers: {error}");
                }
                None
            }
        }
    }
}

/// The hash of the token in a file, which has at least `shortest` letters behind its prefix.
///
/// # Errors
/// If the file cannot be read, or contains no token.
fn read_token(file: &Path, shortest: usize, advice: &str) -> io::Result<TokenHash> {
    let text = SecretString::from(fs::read_to_string(file)?);
    let token = text.expose_secret().trim();
    if token.strip_prefix("breg_").is_none_or(|rest| rest.len() < shortest) {
        let file = file.display();
        let message = format!(
            "`{file}` contains no token, which begins with `breg_` and is long enough; {advice}"
        );
        return Err(io::Error::other(message));
    }
    Ok(TokenHash::of(token))
}
