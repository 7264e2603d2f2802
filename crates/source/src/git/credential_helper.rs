//! The credential helper that git starts (gitcredentials(7)).
//!
//! It answers `get` only, and only for servers that match a login in its file. It ignores `store` and
//! `erase`.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::ExitCode;

use super::login::{Login, LoginSecret, login_for};
use super::url::{RepositoryUrl, Scheme};

/// The largest accepted request, in bytes. It has a few short lines.
const MAX_REQUEST: u64 = 64 * 1024;

/// Executes `internal-git-credential FILE get|store|erase`: reads git's request from `input` and
/// writes the credentials, if any match, to `output`.
pub fn answer_git(
    mut arguments: impl Iterator<Item = OsString>,
    input: impl Read,
    mut output: impl Write,
) -> ExitCode {
    let (Some(file), Some(operation)) = (arguments.next(), arguments.next()) else {
        return ExitCode::FAILURE;
    };
    if operation != "get" {
        return ExitCode::SUCCESS;
    }
    let mut request = String::new();
    let read = input.take(MAX_REQUEST).read_to_string(&mut request);
    let logins: Option<Vec<Login>> =
        std::fs::read(file).ok().and_then(|json| serde_json::from_slice(&json).ok());
    let (Ok(_), Some(logins)) = (read, logins) else { return ExitCode::FAILURE };
    let Some(credentials) = credentials_for(&request, &logins) else { return ExitCode::SUCCESS };
    match output.write_all(credentials.as_bytes()).and_then(|()| output.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn credentials_for(request: &str, logins: &[Login]) -> Option<String> {
    let value = |name: &str| {
        request
            .lines()
            .take_while(|line| !line.is_empty())
            .filter_map(|line| line.split_once('='))
            .find_map(|(key, value)| (key == name).then_some(value))
    };
    let address = format!("{}://{}/", value("protocol")?, value("host")?);
    let (url, _) = RepositoryUrl::parse(&address).ok()?;
    if !matches!(url.scheme, Scheme::Https | Scheme::Http) {
        return None;
    }
    let login = login_for(logins, &url)?;
    let (username, password) = login.basic()?;
    // The URL of a module may contain a user name. With a token, each user name is valid, unless the run
    // has one.
    let username = match (value("username"), &login.secret) {
        (Some(requested), LoginSecret::Token { username: None, .. }) => requested,
        (Some(requested), _) if requested != username => return None,
        _ => username,
    };
    if [username, password].iter().any(|text| text.contains(['\n', '\r', '\0'])) {
        return None;
    }
    Some(format!("username={username}\npassword={password}\n"))
}

#[cfg(test)]
mod tests {
    use super::super::login::{Audience, AudiencePort};
    use super::*;

    fn login(username: Option<&str>) -> Vec<Login> {
        vec![Login {
            audience: Audience {
                host: "git.example.com".to_owned(),
                port: AudiencePort::OfScheme(Scheme::Https, 443),
                in_clear: false,
            },
            secret: LoginSecret::Token {
                username: username.map(str::to_owned),
                token: "hunter22".to_owned().into(),
            },
            variable: None,
        }]
    }

    fn credentials_of(request: &str, username: Option<&str>) -> Option<String> {
        credentials_for(request, &login(username))
    }

    #[test]
    fn git_gets_credentials_only_for_the_right_server() {
        let right = "protocol=https\nhost=git.example.com\n";
        let answer = "username=x-access-token\npassword=hunter22\n".to_owned();
        assert_eq!(credentials_of(right, None), Some(answer.clone()));
        assert_eq!(
            credentials_of("protocol=https\nhost=git.example.com:443\n", None),
            Some(answer)
        );
        for wrong in [
            "protocol=http\nhost=git.example.com\n",
            "protocol=https\nhost=git.example.com:8443\n",
            "protocol=https\nhost=git.example.com.evil.org\n",
            "protocol=https\nhost=evil.org/git.example.com\n",
            "protocol=https\nhost=me@evil.org\n",
            "protocol=https\n\nhost=git.example.com\n",
            "",
        ] {
            assert_eq!(credentials_of(wrong, None), None, "{wrong}");
        }
    }

    #[test]
    fn user_name_in_the_request_of_git_must_match() {
        let request = "protocol=https\nhost=git.example.com\nusername=oauth2\n";
        let answer = "username=oauth2\npassword=hunter22\n".to_owned();
        assert_eq!(credentials_of(request, None), Some(answer.clone()));
        assert_eq!(credentials_of(request, Some("oauth2")), Some(answer));
        assert_eq!(credentials_of(request, Some("deploy")), None);
    }
}
