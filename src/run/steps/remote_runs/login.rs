//! Finds the token that the tool uses for a server, in the same places as the tool.

use std::path::Path;

use hcl_edit::expr::Expression;
use hcl_edit::structure::{Body, Structure};
use secrecy::SecretString;
use serde_json::Value;

use crate::providers::{configuration_text, configuration_texts};
use butler_base::process::Environment;
use butler_protocol::spec::{Product, RegistryHost};

/// The file that `login` writes, in the home directory.
const WRITTEN_BY_LOGIN: &str = ".terraform.d/credentials.tfrc.json";

/// The token for `host` of a tool in `directory`: from a variable, or from a configuration file. A program that keeps
/// tokens (`credentials_helper`) is not started.
pub(super) fn token(
    host: &RegistryHost,
    environment: &Environment,
    directory: &Path,
    product: Product,
) -> Option<SecretString> {
    let variable = environment.iter().find_map(|(name, value)| {
        let named = RegistryHost::of_variable(name.to_str()?)?;
        (named == *host).then(|| value.to_str().map(SecretString::from)).flatten()
    });
    let files = configuration_texts(environment, directory, product);
    let home = environment.value("HOME").map(|home| Path::new(home).join(WRITTEN_BY_LOGIN));
    let mut texts = files.chain(home.and_then(|path| configuration_text(&path)));
    variable.or_else(|| texts.find_map(|text| token_in(&text, host)))
}

/// The token for `host` in a configuration file, in HCL or JSON.
fn token_in(text: &str, host: &RegistryHost) -> Option<SecretString> {
    let is_host = |name: &str| RegistryHost::parse(name).as_ref() == Some(host);
    if let Ok(json) = serde_json::from_str::<Value>(text) {
        let hosts = json.get("credentials")?.as_object()?;
        let (_, found) = hosts.iter().find(|(name, _)| is_host(name))?;
        return found.get("token")?.as_str().map(SecretString::from);
    }
    let body: Body = text.parse().ok()?;
    body.iter().find_map(|structure| {
        let Structure::Block(block) = structure else { return None };
        let is_named = block.ident.as_str() == "credentials"
            && block.labels.first().is_some_and(|label| is_host(label.as_str()));
        match &block.body.get_attribute("token").filter(|_| is_named)?.value {
            Expression::String(token) => Some(SecretString::from(token.as_str())),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn token_is_found_where_the_tool_finds_it() {
        let home = tempfile::tempdir().unwrap();
        let host = RegistryHost::parse("tfe.acme.com").unwrap();
        let found = |variables: &[(&str, &str)], host: &RegistryHost| {
            let mut environment = Environment::default();
            environment.set("HOME", home.path());
            for (name, value) in variables {
                environment.set(name, value);
            }
            let token = token(host, &environment, home.path(), Product::Terraform);
            token.map(|token| token.expose_secret().to_owned())
        };
        assert_eq!(found(&[], &host), None);
        let login = home.path().join(WRITTEN_BY_LOGIN);
        std::fs::create_dir_all(login.parent().unwrap()).unwrap();
        std::fs::write(&login, r#"{"credentials": {"tfe.acme.com": {"token": "login"}}}"#).unwrap();
        assert_eq!(found(&[], &host).as_deref(), Some("login"));
        let file = "disable_checkpoint = true\ncredentials \"other.io\" {\n  token = \"other\"\n}\n\
                    credentials \"tfe.acme.com:443\" {\n  token = \"file\"\n}\n";
        std::fs::write(home.path().join(".terraformrc"), file).unwrap();
        assert_eq!(found(&[], &host).as_deref(), Some("file"));
        let variable = [("TF_TOKEN_tfe_acme_com", "variable")];
        assert_eq!(found(&variable, &host).as_deref(), Some("variable"));
        let port = RegistryHost::parse("tfe.acme.com:8443").unwrap();
        assert_eq!(found(&variable, &port), None, "the token is for another server");
        let named = home.path().join("named.tfrc");
        std::fs::write(&named, "credentials \"tfe.acme.com:8443\" {\n  token = \"named\"\n}\n")
            .unwrap();
        let named = [("TF_CLI_CONFIG_FILE", named.to_str().unwrap())];
        assert_eq!(found(&named, &port).as_deref(), Some("named"));
    }
}
