//! Logs in as a GitHub App: a token signed with the App's key gets one for the installation, which
//! holds for an hour, for one repository, and for what an order needs and no more.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use openssl::hash::MessageDigest;
use openssl::pkey::{Id, PKey, Private};
use openssl::sign::Signer;
use reqwest::{Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;
use zeroize::Zeroizing;

use super::super::answer::Answer;
use super::super::server::Server;
use super::super::{CredentialsError, Event, TriggerError};
use super::headers::with_headers;
use butler_base::http::now;

/// The token says that it is this old, against clocks that are apart (GitHub, "Generating a JSON Web
/// Token").
const BACKDATED: Duration = Duration::from_mins(1);

/// How long it holds; with the above the ten minutes that GitHub allows.
const LIFETIME: Duration = Duration::from_mins(9);

/// A token with less time left is renewed.
const SPARE: Duration = Duration::from_mins(2);

/// How long a token of an installation holds, where its answer does not say.
const HOUR: Duration = Duration::from_hours(1);

/// An App and the token of its installation.
pub(super) struct App {
    id: String,
    installation: Option<String>,
    key: PKey<Private>,
    token: Mutex<Option<(SecretString, SystemTime)>>,
}

/// Without the key.
impl std::fmt::Debug for App {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("App").field("id", &self.id).finish_non_exhaustive()
    }
}

impl App {
    /// The App with this number or client id, and its key in PEM (PKCS#1 or PKCS#8).
    pub(super) fn new(
        id: String,
        installation: Option<String>,
        key: &SecretString,
    ) -> Result<Self, CredentialsError> {
        let impossible = |problem| CredentialsError::Impossible { server: "GitHub", problem };
        // Where a variable can have one line only, the ends of lines are written out.
        let pem = Zeroizing::new(key.expose_secret().replace("\\n", "\n"));
        // An empty passphrase prevents a prompt.
        let key = PKey::private_key_from_pem_passphrase(pem.as_bytes(), b"").map_err(|_| {
            impossible("are not a private key in PEM format, or the key has a passphrase")
        })?;
        if key.id() != Id::RSA {
            return Err(impossible("are a private key, but not an RSA key, as Apps have"));
        }
        Ok(Self { id, installation, key, token: Mutex::default() })
    }

    /// A token of the installation that has the repository.
    pub(super) async fn token(
        &self,
        server: &Server,
        owner: &str,
        name: &str,
        event: Event,
    ) -> Result<SecretString, TriggerError> {
        if let Some((token, until)) = &*self.kept()
            && SystemTime::now() + SPARE < *until
        {
            return Ok(token.clone());
        }
        let installation = match &self.installation {
            Some(id) => id.clone(),
            None => self.find_installation(server, owner, name).await?,
        };
        let (token, until) = self.exchange(server, &installation, name, event).await?;
        server.redactor().register([&token]);
        *self.kept() = Some((token.clone(), until));
        Ok(token)
    }

    /// Forgets the token; whether there was one.
    pub(super) fn forget(&self) -> bool {
        self.kept().take().is_some()
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Option<(SecretString, SystemTime)>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn find_installation(
        &self,
        server: &Server,
        owner: &str,
        name: &str,
    ) -> Result<String, TriggerError> {
        #[derive(Deserialize)]
        struct Installation {
            id: u64,
        }
        let what = "find the App's installation";
        let url = server.url(["repos", owner, name, "installation"]);
        let answer = self.as_app(server, what, &Method::GET, &url, None).await?;
        if answer.status.is_success() {
            return Ok(server.parse::<Installation>(what, &answer)?.id.to_string());
        }
        let advice = match answer.status {
            StatusCode::NOT_FOUND => format!(
                "install the App on `{owner}` with access to `{owner}/{name}`, or name another with --installation-id"
            ),
            _ => advice(answer.status),
        };
        Err(server.refused(what, &answer, Some(advice)))
    }

    async fn exchange(
        &self,
        server: &Server,
        installation: &str,
        name: &str,
        event: Event,
    ) -> Result<(SecretString, SystemTime), TriggerError> {
        #[derive(Deserialize)]
        struct Token {
            token: SecretString,
            expires_at: Option<String>,
        }
        let what = "get a token for the App's installation";
        let permissions = match event {
            Event::WorkflowDispatch => json!({"actions": "write"}),
            Event::RepositoryDispatch => json!({"actions": "read", "contents": "write"}),
        };
        let body = json!({"repositories": [name], "permissions": permissions});
        let url = server.url(["app", "installations", installation, "access_tokens"]);
        let answer = self.as_app(server, what, &Method::POST, &url, Some(&body)).await?;
        if !answer.status.is_success() {
            let advice = match answer.status {
                StatusCode::NOT_FOUND => {
                    "check --installation-id: the App has no such installation".to_owned()
                }
                StatusCode::UNPROCESSABLE_ENTITY => format!(
                    "the installation has to have the repository and the permissions {permissions}; new permissions of an App have to be accepted by the owner of the installation"
                ),
                status => advice(status),
            };
            return Err(server.refused(what, &answer, Some(advice)));
        }
        let token: Token = server.parse(what, &answer)?;
        // By our clock: what counts is how long it holds from now on.
        let there = now(&answer.headers);
        let until = token.expires_at.as_deref().and_then(|it| humantime::parse_rfc3339(it).ok());
        let left = until.map_or(HOUR, |until| until.duration_since(there).unwrap_or_default());
        Ok((token.token, SystemTime::now() + left))
    }

    /// Asks as the App itself; with the server's time where ours is not believed.
    async fn as_app(
        &self,
        server: &Server,
        what: &str,
        method: &Method,
        url: &url::Url,
        body: Option<&serde_json::Value>,
    ) -> Result<Answer, TriggerError> {
        let mut time = SystemTime::now();
        let mut corrected = false;
        loop {
            let token = self.sign(time)?;
            server.redactor().register([&token]);
            let request = || {
                let request = server.http().request(method.clone(), url.clone());
                let request = with_headers(request, &token);
                match body {
                    Some(body) => request.json(body),
                    None => request,
                }
            };
            // A token too many does no harm, so that it can be asked for again.
            let answer = server.ask(what, request).await?;
            if answer.status == StatusCode::UNAUTHORIZED && !corrected {
                corrected = true;
                time = now(&answer.headers);
                continue;
            }
            return Ok(answer);
        }
    }

    /// A JSON Web Token for the App (RFC 7519, RS256).
    fn sign(&self, time: SystemTime) -> Result<SecretString, TriggerError> {
        let seconds = |time: SystemTime| {
            time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
        };
        let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let claims = json!({
            "iat": seconds(time - BACKDATED),
            "exp": seconds(time + LIFETIME),
            "iss": self.id,
        });
        let content = format!("{}.{}", part(json!({"alg": "RS256", "typ": "JWT"})), part(claims));
        let sign = || {
            let mut signer = Signer::new(MessageDigest::sha256(), &self.key)?;
            signer.sign_oneshot_to_vec(content.as_bytes())
        };
        let signature = sign().map_err(|_: openssl::error::ErrorStack| {
            let problem = "are a private key that cannot sign";
            CredentialsError::Impossible { server: "GitHub", problem }
        })?;
        Ok(SecretString::from(format!("{content}.{}", URL_SAFE_NO_PAD.encode(signature))))
    }
}

fn advice(status: StatusCode) -> String {
    match status {
        StatusCode::UNAUTHORIZED => {
            "check that the private key belongs to the App of --app-id and was not deleted there"
                .to_owned()
        }
        StatusCode::FORBIDDEN => {
            "the App is suspended, or may not be used from this address".to_owned()
        }
        _ => "check --app-id and --installation-id".to_owned(),
    }
}
