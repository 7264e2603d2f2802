//! GitHub Apps: a token signed with the App's key, a token of the installation with minimal
//! permissions, and its renewal after expiry.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use base64::Engine;
use expect_test::expect;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::sign::Verifier;
use serde_json::{Value, json};

use super::github::{GitHubServer, START, not_found, printed};
use super::{error_text, machine, run_with_server};
use butler_testing::ci_server::{CiServer, Received, Reply};
use butler_testing::machine::Machine;

/// An App with one installation, in front of a [`GitHubServer`].
struct Apps {
    hub: GitHubServer,
    key: PKey<Private>,
    /// Lifetime of tokens in seconds.
    lifetime: u64,
    /// The valid token.
    token: Option<String>,
    given: usize,
}

impl Apps {
    fn new(hub: GitHubServer) -> Self {
        let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
        Self { hub, key, lifetime: 3600, token: None, given: 0 }
    }

    fn start(self) -> (CiServer, Arc<Mutex<Self>>) {
        let apps = Arc::new(Mutex::new(self));
        let shared = apps.clone();
        let server = CiServer::start(move |request| {
            let mut apps = shared.lock().unwrap();
            let reply = apps.reply(request);
            reply.with("date", httpdate::fmt_http_date(apps.hub.now()))
        });
        (server, apps)
    }

    fn reply(&mut self, request: &Received) -> Reply {
        let bearer = request.header("authorization").strip_prefix("Bearer ").unwrap().to_owned();
        match request.line().strip_prefix("GET /api/v3/repos/octo/infra/installation") {
            Some("") => {
                return self.as_app(&bearer, |_| Reply::json(200, &json!({"id": 42, "app_id": 7})));
            }
            _ if request.line() == "POST /api/v3/app/installations/42/access_tokens" => {
                return self.as_app(&bearer, |apps| apps.exchange(request));
            }
            _ => {}
        }
        if self.token.as_ref() != Some(&bearer) {
            return Reply::json(401, &json!({"message": "Bad credentials"}));
        }
        self.hub.reply(request)
    }

    fn exchange(&mut self, request: &Received) -> Reply {
        let body = request.json();
        assert_eq!(body["repositories"], json!(["infra"]));
        self.given += 1;
        let token = format!("ghs_installation{}", self.given);
        self.token = Some(token.clone());
        let until = self.hub.now() + Duration::from_secs(self.lifetime);
        let until = humantime::format_rfc3339_seconds(until).to_string();
        let permissions = &body["permissions"];
        Reply::json(201, &json!({"token": token, "expires_at": until, "permissions": permissions}))
    }

    /// Continues if the App's JWT is valid by the clock of the server.
    fn as_app(&mut self, token: &str, then: impl FnOnce(&mut Self) -> Reply) -> Reply {
        let parts: Vec<&str> = token.split('.').collect();
        let [header, claims, signature] = parts[..] else {
            return Reply::json(401, &json!({"message": "A JSON web token could not be decoded"}));
        };
        let decode =
            |part: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(part).unwrap();
        let signed = format!("{header}.{claims}");
        let is_signed = {
            let mut verifier = Verifier::new(MessageDigest::sha256(), &self.key).unwrap();
            verifier.verify_oneshot(&decode(signature), signed.as_bytes()).unwrap_or_default()
        };
        if !is_signed {
            return Reply::json(401, &json!({"message": "A JSON web token could not be decoded"}));
        }
        let header: Value = serde_json::from_slice(&decode(header)).unwrap();
        assert_eq!(header, json!({"alg": "RS256", "typ": "JWT"}));
        let claims: Value = serde_json::from_slice(&decode(claims)).unwrap();
        assert_eq!(claims["iss"], "7");
        let (iat, exp) = (claims["iat"].as_u64().unwrap(), claims["exp"].as_u64().unwrap());
        assert_eq!(exp - iat, 600);
        let now = self.hub.now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        if iat > now {
            return Reply::json(
                401,
                &json!({"message": "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"}),
            );
        }
        if exp > now + 600 || exp < now {
            return Reply::json(
                401,
                &json!({"message": "'Expiration time' claim ('exp') is too far in the future"}),
            );
        }
        then(self)
    }
}

/// A machine with the App's key.
fn machine_of(server: &CiServer, key: &[u8]) -> Machine {
    let mut machine = machine(server);
    machine.set("BUTLER_CI_TOKEN", std::str::from_utf8(key).unwrap());
    machine
}

fn words() -> Vec<&'static str> {
    [START, &["--app-id", "7"]].concat()
}

#[test]
fn app_accepts_both_key_formats_and_requests_minimal_permissions() {
    let apps = Apps::new(GitHubServer { says_details: true, ..GitHubServer::default() });
    let rsa = apps.key.rsa().unwrap();
    let keys = [
        rsa.private_key_to_pem().unwrap(),
        apps.key.private_key_to_pem_pkcs8().unwrap(),
        // The key in the form of a one-line variable.
        String::from_utf8(rsa.private_key_to_pem().unwrap())
            .unwrap()
            .replace('\n', "\\n")
            .into_bytes(),
    ];
    assert!(keys[0].starts_with(b"-----BEGIN RSA PRIVATE KEY-----"));
    let (server, _) = apps.start();
    for key in keys {
        printed(run_with_server(&machine_of(&server, &key), &server, &words()));
    }
    let mut exchanges = server.received_by("POST");
    exchanges.retain(|it| it.path.ends_with("/access_tokens"));
    assert_eq!(exchanges[0].json()["permissions"], json!({"actions": "write"}));
}

#[test]
fn named_installation_is_not_looked_up_and_repository_dispatch_requests_contents_permission() {
    let apps = Apps::new(GitHubServer::default());
    let key = apps.key.private_key_to_pem_pkcs8().unwrap();
    let (server, _) = apps.start();
    let machine = machine_of(&server, &key);
    let words =
        [&words()[..], &["--installation-id", "42", "--event", "repository_dispatch"]].concat();
    printed(run_with_server(&machine, &server, &words));
    assert!(server.received().iter().all(|it| !it.path.ends_with("/installation")));
    let exchange = &server.received_by("POST")[0].json();
    assert_eq!(exchange["permissions"], json!({"actions": "read", "contents": "write"}));
}

#[test]
fn app_logs_in_despite_clock_skew() {
    for ahead in [-3000, 3000] {
        let apps = Apps::new(GitHubServer { says_details: true, ahead, ..GitHubServer::default() });
        let key = apps.key.private_key_to_pem_pkcs8().unwrap();
        let (server, _) = apps.start();
        printed(run_with_server(&machine_of(&server, &key), &server, &words()));
    }
}

#[test]
fn expired_or_revoked_app_token_is_renewed_while_a_run_is_followed() {
    let mut apps = Apps::new(GitHubServer::default());
    apps.hub.add("x", "workflow_dispatch", 0);
    let id = apps.hub.runs[0]["id"].as_u64().unwrap().to_string();
    let key = apps.key.private_key_to_pem_pkcs8().unwrap();
    // Below the minimum remaining lifetime: each request gets a new token.
    apps.lifetime = 60;
    let apps = Arc::new(Mutex::new(apps));
    let (shared, mut asked) = (apps.clone(), 0);
    let server = CiServer::start(move |request| {
        let mut apps = shared.lock().unwrap();
        if request.path.contains("/actions/runs/") {
            asked += 1;
            if asked == 2 {
                apps.token = None;
            }
            if asked == 3 {
                apps.hub.runs[0]["status"] = json!("completed");
                apps.hub.runs[0]["conclusion"] = json!("success");
            }
        }
        apps.reply(request)
    });
    let words = ["ci-status", "github", "--repository", "octo/infra", "--app-id", "7", "--wait"];
    let words = [&words[..], &["--external-run-id", &id]].concat();
    let said = run_with_server(&machine_of(&server, &key), &server, &words).expect_success();
    assert_eq!(said.json()["status"], "succeeded");
    assert_eq!(
        apps.lock().unwrap().given,
        3,
        "one to begin with, one for the old, one for the revoked"
    );
}

#[test]
fn dispatch_is_repeated_with_a_new_token_after_expiry() {
    let mut apps = Apps::new(GitHubServer { says_details: true, ..GitHubServer::default() });
    let key = apps.key.private_key_to_pem_pkcs8().unwrap();
    let mut orders = 0;
    let server = CiServer::start(move |request| {
        if request.path.ends_with("/dispatches") {
            orders += 1;
            if orders == 1 {
                apps.token = None;
            }
        }
        apps.reply(request)
    });
    printed(run_with_server(&machine_of(&server, &key), &server, &words()));
    let mut sent = server.received_by("POST");
    sent.retain(|it| it.path.ends_with("/dispatches"));
    let tokens: Vec<_> = sent.iter().map(|it| it.header("authorization")).collect();
    assert_eq!(tokens, ["Bearer ghs_installation1", "Bearer ghs_installation2"]);
}

#[test]
fn missing_installation_or_permission_of_an_app_is_reported() {
    let key = || {
        PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap().private_key_to_pem_pkcs8().unwrap()
    };
    let server = CiServer::start(|_| not_found());
    let machine = machine_of(&server, &key());
    expect![[r"
        error: GitHub refused to find the App's installation: 404 Not Found: Not Found
        hint: install the App on `octo` with access to `octo/infra`, or name another with --installation-id
    "]].assert_eq(&error_text(&run_with_server(&machine, &server, &words()), 4));
    let refusal = "The permissions requested are not granted to this installation.";
    let server = CiServer::start(move |request| match request.method.as_str() {
        "GET" => Reply::json(200, &json!({"id": 42})),
        _ => Reply::json(422, &json!({"message": refusal})),
    });
    let machine = machine_of(&server, &key());
    expect![[r#"
        error: GitHub refused to get a token for the App's installation: 422 Unprocessable Entity: The permissions requested are not granted to this installation.
        hint: the installation has to have the repository and the permissions {"actions":"write"}; new permissions of an App have to be accepted by the owner of the installation
    "#]].assert_eq(&error_text(&run_with_server(&machine, &server, &words()), 4));
    // The key of another App.
    let (server, _) = Apps::new(GitHubServer::default()).start();
    let machine = machine_of(&server, &key());
    expect![[r"
        error: GitHub refused to find the App's installation: 401 Unauthorized: A JSON web token could not be decoded
        hint: check that the private key belongs to the App of --app-id and was not deleted there
    "]].assert_eq(&error_text(&run_with_server(&machine, &server, &words()), 4));
}

#[test]
fn unusable_app_key_is_reported_without_its_content() {
    let server = CiServer::start(|_| not_found());
    let rsa = Rsa::generate(2048).unwrap();
    let cipher = openssl::symm::Cipher::aes_256_cbc();
    let locked = rsa.private_key_to_pem_passphrase(cipher, b"hunter2").unwrap();
    let group = openssl::ec::EcGroup::from_curve_name(openssl::nid::Nid::X9_62_PRIME256V1).unwrap();
    let other = openssl::ec::EcKey::generate(&group).unwrap().private_key_to_pem().unwrap();
    for (key, message) in [
        (locked, "are not a private key in PEM format, or the key has a passphrase"),
        (other, "are a private key, but not an RSA key, as Apps have"),
        (b"-----BEGIN RSA PRIVATE KEY-----\nMII".to_vec(), "are not a private key in PEM"),
    ] {
        let text = error_text(&run_with_server(&machine_of(&server, &key), &server, &words()), 2);
        assert!(text.contains(message) && !text.contains("MII"), "{text}");
    }
    let key = rsa.private_key_to_pem().unwrap();
    let text = error_text(&run_with_server(&machine_of(&server, &key), &server, START), 2);
    assert!(text.contains("add --app-id ID"), "{text}");
    assert!(server.received().is_empty());
}
