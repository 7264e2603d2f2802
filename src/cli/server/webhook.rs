//! `config webhook`: the settings of a repository's webhook at its git host.

use butler_server::config::{
    Config, ConfigError, WebhookEntry, WebhookProvider, load, of_repository,
};
use url::Url;

use crate::cli::columns::columns;
use crate::cli::output::{complain, print, refuse};
use crate::exit::Exit;
use crate::settings::{Arguments, Environment, ServerConfig, WebhookSettings};

/// Prints the settings of the webhook of `repository`.
pub(super) fn webhook(repository: &str, arguments: &Arguments, environment: &Environment) -> u8 {
    let settings = match WebhookSettings::resolve(arguments, environment) {
        Ok(settings) => settings,
        Err(error) => return refuse(&error),
    };
    let config = match loaded(&settings.config) {
        Ok(config) => config,
        Err(errors) => {
            for error in errors {
                complain(&error.to_string(), None);
            }
            return Exit::Usage.code();
        }
    };
    let Some(entry) = config.repositories.get(repository).map(|it| &it.entry) else {
        let message = format!("the configuration has no repository `{repository}`");
        let names = config.repositories.keys().map(|name| format!("`{name}`"));
        let names = names.collect::<Vec<_>>().join(", ");
        complain(&message, Some(&format!("it has {names}")));
        return Exit::Failed.code();
    };
    let Some(webhook) = &entry.webhook else {
        let hint = "add `webhook: {provider: github, secret-file: PATH}` to it";
        complain(&format!("the repository `{repository}` has no `webhook`"), Some(hint));
        return Exit::Failed.code();
    };
    print(description(webhook, &address(settings.public_url, repository)).as_bytes())
}

fn loaded(config: &ServerConfig) -> Result<Config, Vec<ConfigError>> {
    match config {
        ServerConfig::Resources => Ok(Config::default()),
        ServerConfig::Path(path) => load(path, None),
        ServerConfig::Repository { url, glob, reference } => {
            of_repository(url, glob, reference.as_deref())
        }
    }
}

/// The address to which the git host delivers; `server` can have a path.
fn address(mut server: Url, repository: &str) -> Url {
    if let Ok(mut path) = server.path_segments_mut() {
        path.pop_if_empty().extend(["webhooks", repository]);
    }
    server
}

/// Where the settings are at the git host, and the settings.
fn description(webhook: &WebhookEntry, address: &Url) -> String {
    let file = webhook.secret_file.as_ref().map(|path| path.display().to_string());
    let secret = format!("the content of {}", file.unwrap_or_default());
    let address = address.to_string();
    let is_encrypted = address.starts_with("https");
    let verification = if is_encrypted { "enabled" } else { "not possible without https" };
    let (place, rows): (&str, &[(&str, &str)]) = match webhook.provider {
        WebhookProvider::Github => (
            "GitHub: Settings of the repository > Webhooks > Add webhook",
            &[
                ("Payload URL", &address),
                ("Content type", "application/json"),
                ("Secret", &secret),
                ("SSL verification", verification),
                ("Which events", "Just the push event"),
            ],
        ),
        WebhookProvider::Gitlab => (
            "GitLab: Settings of the project > Webhooks > Add new webhook",
            &[
                ("URL", &address),
                ("Secret token", &secret),
                ("Trigger", "Push events, Tag push events"),
                ("SSL verification", verification),
            ],
        ),
        WebhookProvider::Bitbucket => (
            "Bitbucket: Repository settings > Webhooks > Add webhook",
            &[
                ("URL", &address),
                ("Secret", &secret),
                ("Certificate verification", verification),
                ("Triggers", "Repository > Push"),
            ],
        ),
        WebhookProvider::Gitea => (
            "Gitea or Forgejo: Settings of the repository > Webhooks > Add webhook",
            &[
                ("Target URL", &address),
                ("HTTP method", "POST"),
                ("POST content type", "application/json"),
                ("Secret", &secret),
                ("Trigger on", "Push events"),
            ],
        ),
        WebhookProvider::Generic => (
            "Any sender: a POST request with any body",
            &[
                ("URL", &address),
                ("Header", "X-Butler-Signature-256: sha256=HMAC"),
                ("HMAC", "HMAC-SHA256 of the body, as hexadecimal digits"),
                ("Key of the HMAC", &secret),
            ],
        ),
    };
    let rows = rows.iter().map(|(name, value)| vec![format!("{name}:"), (*value).to_owned()]);
    format!("{place}\n{}\n", columns(&rows.collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_a_webhook_follows_the_public_url() {
        for (server, expected) in [
            ("https://butler.example.com", "https://butler.example.com/webhooks/infra"),
            ("https://example.com/butler", "https://example.com/butler/webhooks/infra"),
            ("https://example.com/butler/", "https://example.com/butler/webhooks/infra"),
        ] {
            let server = server.parse().unwrap();
            assert_eq!(address(server, "infra").as_str(), expected);
        }
    }
}
