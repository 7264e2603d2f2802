//! A login whose token is in a file that another process renews: a service account's, or `tokenFile` of a
//! kubeconfig.
//!
//! The library does not trim the file's content, so a newline at its end would make the header value invalid.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request};
use kube::config::AuthInfo;

/// The age after which the file is read again. The kubelet renews tokens long before they expire.
const RENEW_AFTER: Duration = Duration::from_mins(1);

/// Errors of a token file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenFileError {
    #[error("the token file `{}` cannot be read", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the token file `{}` is empty", path.display())]
    Empty { path: PathBuf },
    #[error("the token file `{}` contains more than one line, or characters that a token cannot contain", path.display())]
    Unusable { path: PathBuf },
}

/// A token file, its last content, and the time of the last read.
#[derive(Clone)]
pub(crate) struct TokenFile {
    path: PathBuf,
    read: Arc<Mutex<(HeaderValue, Instant)>>,
}

impl TokenFile {
    /// Removes the token file from a login and reads it; `None` if the login uses another method.
    ///
    /// # Errors
    /// If the file cannot be read or does not contain a token.
    pub(crate) fn take(login: &mut AuthInfo) -> Result<Option<Self>, TokenFileError> {
        let is_other = login.token.is_some() || login.username.is_some();
        if is_other || login.auth_provider.is_some() {
            return Ok(None);
        }
        let Some(path) = login.token_file.take().map(PathBuf::from) else { return Ok(None) };
        let read = Arc::new(Mutex::new((read(&path)?, Instant::now())));
        Ok(Some(Self { path, read }))
    }

    /// Adds the login to the request. If the file cannot be read any more, the last token is used, as `kubectl`
    /// does: some tools remove the file after the first read.
    pub(crate) fn authorize<B>(&self, mut request: Request<B>) -> Request<B> {
        let mut last = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if last.1.elapsed() > RENEW_AFTER {
            match read(&self.path) {
                Ok(value) => *last = (value, Instant::now()),
                Err(error) => {
                    tracing::debug!(
                        "{}; the last token stays in use",
                        butler_base::error::chain(&error)
                    );
                    last.1 = Instant::now();
                }
            }
        }
        request.headers_mut().insert(AUTHORIZATION, last.0.clone());
        request
    }
}

/// The header with the file's token.
fn read(path: &std::path::Path) -> Result<HeaderValue, TokenFileError> {
    let content = std::fs::read_to_string(path)
        .map_err(|source| TokenFileError::Read { path: path.to_owned(), source })?;
    let token = content.trim();
    if token.is_empty() {
        return Err(TokenFileError::Empty { path: path.to_owned() });
    }
    let mut header = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| TokenFileError::Unusable { path: path.to_owned() })?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(path: &std::path::Path) -> AuthInfo {
        AuthInfo { token_file: Some(path.to_str().unwrap().to_owned()), ..AuthInfo::default() }
    }

    #[test]
    fn token_is_read_again_when_it_may_have_changed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        std::fs::write(&path, "one\n").unwrap();
        let file = TokenFile::take(&mut login(&path)).unwrap().unwrap();
        let sent = || file.authorize(Request::new(())).headers()[AUTHORIZATION].clone();
        std::fs::write(&path, "two\r\n").unwrap();
        assert_eq!(sent(), "Bearer one");
        let long_ago = Instant::now().checked_sub(RENEW_AFTER * 2).unwrap();
        file.read.lock().unwrap().1 = long_ago;
        assert_eq!(sent(), "Bearer two");
        std::fs::remove_file(&path).unwrap();
        file.read.lock().unwrap().1 = long_ago;
        assert_eq!(sent(), "Bearer two", "the last one counts");
    }

    #[test]
    fn error_names_the_file_without_a_token() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        for (content, message) in [(" \n", "is empty"), ("a\nb", "contains more than one line")] {
            std::fs::write(&path, content).unwrap();
            let error = TokenFile::take(&mut login(&path)).err().unwrap();
            assert!(error.to_string().contains(message), "{error}");
        }
    }
}
