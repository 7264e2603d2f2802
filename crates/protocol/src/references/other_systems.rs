//! References of other systems: how Vault, cloud providers, password managers, CI systems and encryption tools name a
//! secret in a text. The runner cannot read them, and none of them is the secret itself.

use super::words::{is_upper_snake_case, is_word, names_a_secret};

/// Beginnings that only references have.
const BEGINNINGS: [&str; 32] = [
    "op://",
    "vault://",
    "vault+",
    "ref+",
    "secretref+",
    "env://",
    "keyring://",
    "k8s://",
    "kubernetes://",
    "secret://",
    "secrets://",
    "aws-sm://",
    "awssm://",
    "aws-ssm://",
    "awsssm://",
    "awssecretsmanager://",
    "awsparamstore://",
    "secretsmanager://",
    "ssm://",
    "gcp-sm://",
    "gcpsm://",
    "gcpsecrets://",
    "gsm://",
    "sm://",
    "azurekv://",
    "azurekeyvault://",
    "akv://",
    "doppler://",
    "infisical://",
    "bws://",
    "lastpass://",
    "ENC[",
];

/// The delimiters of placeholders in templates. A value with them was not filled in.
const TEMPLATES: [(&str, &str); 6] =
    [("${", "}"), ("$(", ")"), ("$[", "]"), ("{{", "}}"), ("((", "))"), ("<path:", ">")];

/// Whether the text is a reference of another system.
pub(super) fn is_reference(text: &str) -> bool {
    BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))
        || is_template(text)
        || is_shell_variable(text)
        || is_vault_path(text)
        || is_cloud_resource(text)
}

/// `${DB_PASSWORD}`, `${{ secrets.X }}`, `$(db-password)`, `{{ .Password }}`: one placeholder and nothing around it.
fn is_template(text: &str) -> bool {
    TEMPLATES.iter().any(|(start, end)| {
        let inner = text.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
        inner.is_some_and(|inner| !inner.is_empty() && !inner.contains(['\n', '"']))
    })
}

/// `$DB_PASSWORD`, `$env:DB_PASSWORD`, `%DB_PASSWORD%`, `$token`. A password can begin with `$`, but the rest of it is
/// then hardly the name of a secret.
fn is_shell_variable(text: &str) -> bool {
    let name = text
        .strip_prefix("$env:")
        .or_else(|| text.strip_prefix('$'))
        .or_else(|| text.strip_prefix('%').and_then(|rest| rest.strip_suffix('%')));
    name.is_some_and(|name| is_word(name) && (is_upper_snake_case(name) || names_a_secret(name)))
}

/// `vault:secret/data/db#password`, `secret/data/db#password`. The ciphertext `vault:v1:…` is none: a module can be made
/// to decrypt it.
fn is_vault_path(text: &str) -> bool {
    let (prefixed, rest) = match text.strip_prefix("vault:") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (path, field) = rest.split_once('#').map_or((rest, None), |(path, it)| (path, Some(it)));
    let is_plain = |text: &str, others: &[u8]| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || others.contains(&byte))
    };
    let is_path = path.contains('/') && is_plain(path, b"/-_.");
    let is_field = field.is_none_or(|field| is_plain(field, b"-_."));
    is_path && is_field && (prefixed || field.is_some() && names_a_secret(text))
}

/// Names of secrets in AWS, Google Cloud and Azure.
fn is_cloud_resource(text: &str) -> bool {
    let resource = text.strip_prefix("//secretmanager.googleapis.com/").unwrap_or(text);
    let of_google = resource.starts_with("projects/") && resource.contains("/secrets/");
    let mut parts = text.split(':');
    let of_amazon = parts.next() == Some("arn")
        && parts.nth(1).is_some_and(|service| matches!(service, "secretsmanager" | "ssm"));
    let of_azure = text.starts_with("@Microsoft.KeyVault(")
        || text.starts_with("https://")
            && text.contains(".vault.azure.net/")
            && text.contains("/secrets/");
    let has_no_login = !text.contains('@') || text.starts_with('@');
    of_google || of_amazon || of_azure && has_no_login
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_other_systems_are_recognised() {
        for text in [
            "vault:secret/data/db#password",
            "vault:kv/prod/db",
            "secret/data/prod/db#password",
            "projects/p-1/secrets/db-password/versions/latest",
            "projects/123456789012/secrets/db",
            "//secretmanager.googleapis.com/projects/p/secrets/db",
            "op://vault/item/field",
            "arn:aws:secretsmanager:eu-west-1:123456789012:secret:db-Ab12",
            "arn:aws-us-gov:secretsmanager:us-gov-west-1:123456789012:secret:db",
            "arn:aws:ssm:eu-west-1:123456789012:parameter/prod/db",
            "https://prod.vault.azure.net/secrets/db-password",
            "@Microsoft.KeyVault(SecretUri=https://prod.vault.azure.net/secrets/db/)",
            "$DB_PASSWORD",
            "${DB_PASSWORD}",
            "$PASSWORD",
            "$api_token",
            "$env:DB_PASSWORD",
            "%DB_PASSWORD%",
            "$(db-password)",
            "${{ secrets.DB_PASSWORD }}",
            "$[variables.password]",
            "{{resolve:secretsmanager:db:SecretString:password}}",
            "{{ .Values.password }}",
            "((db-password))",
            "<path:secret/data/db#password>",
            "ref+vault://secret/db#/password",
            "gcp-sm://p/db",
            "ENC[AES256_GCM,data:abc=,iv:abc=,tag:abc=,type:str]",
        ] {
            assert!(is_reference(text), "{text}");
        }
        for text in [
            "",
            "$",
            "$ecret",
            "$2y$10$abcdefghijklmnopqrstuv",
            "$1$salt$hash",
            "$tr0ng",
            "pa$$WORD",
            "${}",
            "x${DB_PASSWORD}",
            "{\"a\": \"${b}\"}",
            "{{\n}}",
            "vault:v1:8SDd3WHDOjf7mq69CyCqYjBXAiQQAVZRkFM13ok481zoCmHnSeDX9vyf7w==",
            "vaulted/door",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "aB3/x#yZ",
            "postgres://user:pw@host/db",
            "https://user:pw@prod.vault.azure.net/secrets/db",
            "https://example.com/secrets/x",
            "arn:aws:iam::123456789012:role/deploy",
            "projects/p/topics/t",
            "-----BEGIN PRIVATE KEY-----",
        ] {
            assert!(!is_reference(text), "{text}");
        }
    }
}
