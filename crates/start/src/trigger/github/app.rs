//! Logs in as a GitHub App: a token that is signed with the App's key is exchanged for a token of the
//! installation. That token is valid for an hour and limited to one repository and the permissions that a
//! start request needs.

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

use super::headers::with_headers;
use crate::trigger::response::ApiResponse;
use crate::trigger::server::Server;
use crate::trigger::{CredentialsError, Event, TriggerError};
use butler_base::http::now;

/// How far the issue time of a signed token lies in the past, because clocks differ (GitHub, "Generating a
/// JSON Web Token").
const BACKDATED: Duration = Duration::from_mins(1);

/// The lifetime of a signed token. With [`BACKDATED`] it is the ten minutes that GitHub allows.
const LIFETIME: Duration = Duration::from_mins(9);

/// A token with less time left is renewed.
const RENEWAL_MARGIN: Duration = Duration::from_mins(2);

/// The lifetime of an installation's token if the response does not state one.
const DEFAULT_LIFETIME: Duration = Duration::from_hours(1);

/// An App and the token of its installation.
pub(super) struct App {
    id: String,
    installation: Option<String>,
    key: PKey<Private>,
    token: Mutex<Option<(SecretString, SystemTime)>>,
}

/// Hides the key and the token.
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
        let unusable = |problem| CredentialsError::Unusable { server: "GitHub", problem };
        // CI systems that limit variables to one line need `\n` written out.
        let pem = key.expose_secret().replace("\\n", "\n");
        // An empty passphrase prevents a prompt.
        let key = PKey::private_key_from_pem_passphrase(pem.as_bytes(), b"").map_err(|_| {
            unusable("are not a private key in PEM format, or the key has a passphrase")
        })?;
        if key.id() != Id::RSA {
            return Err(unusable("are a private key, but not an RSA key, as Apps have"));
        }
        Ok(Self { id, installation, key, token: Mutex::default() })
    }

    /// Returns the installation's token; requests a new one if the kept one expires soon.
    pub(super) async fn token(
        &self,
        server: &Server,
        owner: &str,
        name: &str,
        event: Event,
    ) -> Result<SecretString, TriggerError> {
        if let Some((token, until)) = &*self.kept_token()
            && SystemTime::now() + RENEWAL_MARGIN < *until
        {
            return Ok(token.clone());
        }
        let installation = match &self.installation {
            Some(id) => id.clone(),
            None => self.find_installation(server, owner, name).await?,
        };
        let (token, until) = self.exchange(server, &installation, name, event).await?;
        server.redactor().register([&token]);
        *self.kept_token() = Some((token.clone(), until));
        Ok(token)
    }

    /// Discards the kept token. Returns whether there was one.
    pub(super) fn discard_token(&self) -> bool {
        self.kept_token().take().is_some()
    }

    fn kept_token(&self) -> std::sync::MutexGuard<'_, Option<(SecretString, SystemTime)>> {
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
        let response = self.request_as_app(server, what, &Method::GET, &url, None).await?;
        if response.status.is_success() {
            return Ok(server.parse::<Installation>(what, &response)?.id.to_string());
        }
        let advice = match response.status {
            StatusCode::NOT_FOUND => format!(
                "install the App on `{owner}` with access to `{owner}/{name}`, or name another with --installation-id"
            ),
            _ => advice_on_status(response.status),
        };
        Err(server.refused(what, &response, Some(advice)))
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
        let response = self.request_as_app(server, what, &Method::POST, &url, Some(&body)).await?;
        if !response.status.is_success() {
            let advice = match response.status {
                StatusCode::NOT_FOUND => {
                    "check --installation-id: the App has no such installation".to_owned()
                }
                StatusCode::UNPROCESSABLE_ENTITY => format!(
                    "the installation has to have the repository and the permissions {permissions}; new permissions of an App have to be accepted by the owner of the installation"
                ),
                status => advice_on_status(status),
            };
            return Err(server.refused(what, &response, Some(advice)));
        }
        let token: Token = server.parse(what, &response)?;
        // `expires_at` is by the server's clock; only the remaining time can be compared with the local clock.
        let server_time = now(&response.headers);
        let until = token.expires_at.as_deref().and_then(|it| humantime::parse_rfc3339(it).ok());
        let left = until.map_or(DEFAULT_LIFETIME, |until| {
            until.duration_since(server_time).unwrap_or_default()
        });
        Ok((token.token, SystemTime::now() + left))
    }

    /// Sends a request as the App itself. If GitHub rejects the signed token, the local clock may be wrong:
    /// signs once more with the server's time.
    async fn request_as_app(
        &self,
        server: &Server,
        what: &str,
        method: &Method,
        url: &url::Url,
        body: Option<&serde_json::Value>,
    ) -> Result<ApiResponse, TriggerError> {
        let mut time = SystemTime::now();
        let mut corrected = false;
        loop {
            let token = self.sign_token(time)?;
            server.redactor().register([&token]);
            let request = || {
                let request = server.http().request(method.clone(), url.clone());
                let request = with_headers(request, &token);
                match body {
                    Some(body) => request.json(body),
                    None => request,
                }
            };
            // A repeated request only creates an additional token, so it is safe to retry.
            let response = server.send_read(what, request).await?;
            if response.status == StatusCode::UNAUTHORIZED && !corrected {
                corrected = true;
                time = now(&response.headers);
                continue;
            }
            return Ok(response);
        }
    }

    /// A JSON Web Token for the App (RFC 7519, RS256).
    fn sign_token(&self, time: SystemTime) -> Result<SecretString, TriggerError> {
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
            CredentialsError::Unusable { server: "GitHub", problem }
        })?;
        Ok(SecretString::from(format!("{content}.{}", URL_SAFE_NO_PAD.encode(signature))))
    }
}

fn advice_on_status(status: StatusCode) -> String {
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
