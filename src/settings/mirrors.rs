//! The sites that releases come from: the runner's own settings, or the variables of other version managers.
//!
//! Without `--mirror`, the first variable of a product that is set counts. Its value has the same meaning as for the
//! tool that it belongs to. A signing key at a URL is not downloaded, because a key must not come from the network.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use secrecy::SecretString;
use url::Url;

use super::reader::Reader;
use super::setting::MIRROR;
use super::variable::{
    ATLANTIS_TF_DOWNLOAD_URL, GITHUB_SERVER_URL, GITHUB_TOKEN, HOME, MIRROR_PASSWORD, MIRROR_TOKEN,
    MIRROR_USER, NETRC, TENV_GITHUB_TOKEN, TFENV_HASHICORP_PGP_KEY, TFENV_REMOTE,
    TFENV_REMOTE_PASSWORD, TFENV_REMOTE_USER, TG_REMOTE, TG_REMOTE_PASSWORD, TG_REMOTE_USER,
    TOFUENV_OPENTOFU_PGP_KEY, TOFUENV_REMOTE, TOFUENV_REMOTE_PASSWORD, TOFUENV_REMOTE_USER,
    TOFUENV_URL_TEMPLATE,
};
use super::{SettingsError, Variable, parse, proxies};
use crate::tool::{GivenLogin, Login, Mirror, Netrc, Sites, Template};
use butler_protocol::spec::Product;

/// A variable of another tool that names a mirror.
#[derive(Debug)]
pub struct OtherToolMirror {
    /// The variable.
    pub variable: &'static Variable,
    /// The product whose mirror it names.
    pub product: Product,
    /// The tools that read it.
    pub tools: &'static str,
    /// The address of a file of a release, for the documentation.
    pub address: &'static str,
    kind: AddressKind,
    /// Values that mean the vendor's site.
    vendor: &'static [&'static str],
    login: Option<[&'static Variable; 2]>,
}

#[derive(Debug)]
enum AddressKind {
    Base,
    BaseOrReleases,
    Template,
}

impl OtherToolMirror {
    /// The row in the documentation.
    #[must_use]
    pub fn row(&self) -> String {
        let Self { variable, product, tools, address, login, .. } = self;
        let login = login.map_or_else(
            || "in the URL".to_owned(),
            |names| {
                format!("in the URL, or {}", names.map(|it| format!("`{}`", it.name)).join(" and "))
            },
        );
        format!("| `{}` | {product} | {tools} | {address} | {login} |", variable.name)
    }
}

/// All of them. An earlier one wins over a later one.
pub const MIRRORS_OF_OTHER_TOOLS: [OtherToolMirror; 5] = [
    OtherToolMirror {
        variable: &TFENV_REMOTE,
        product: Product::Terraform,
        tools: "tfenv, tenv",
        address: "`URL/terraform/VERSION/FILE`",
        kind: AddressKind::Base,
        vendor: &["https://releases.hashicorp.com"],
        login: Some([&TFENV_REMOTE_USER, &TFENV_REMOTE_PASSWORD]),
    },
    OtherToolMirror {
        variable: &ATLANTIS_TF_DOWNLOAD_URL,
        product: Product::Terraform,
        tools: "Atlantis",
        address: "`URL/terraform/VERSION/FILE`",
        kind: AddressKind::Base,
        vendor: &["https://releases.hashicorp.com"],
        login: None,
    },
    OtherToolMirror {
        variable: &TOFUENV_URL_TEMPLATE,
        product: Product::OpenTofu,
        tools: "tenv, TofuDL",
        address: "the URL with `{{ .Version }}` and `{{ .Artifact }}` replaced",
        kind: AddressKind::Template,
        vendor: &[],
        login: Some([&TOFUENV_REMOTE_USER, &TOFUENV_REMOTE_PASSWORD]),
    },
    OtherToolMirror {
        variable: &TOFUENV_REMOTE,
        product: Product::OpenTofu,
        tools: "tofuenv, tenv",
        address: "`URL/opentofu/opentofu/releases/download/vVERSION/FILE`, or `URL/download/vVERSION/FILE` if the URL ends in `/releases`",
        kind: AddressKind::BaseOrReleases,
        vendor: &[
            "https://api.github.com/repos/opentofu/opentofu/releases",
            "https://github.com/opentofu/opentofu/releases",
        ],
        login: Some([&TOFUENV_REMOTE_USER, &TOFUENV_REMOTE_PASSWORD]),
    },
    OtherToolMirror {
        variable: &TG_REMOTE,
        product: Product::Terragrunt,
        tools: "tenv",
        address: "`URL/gruntwork-io/terragrunt/releases/download/vVERSION/FILE`, or `URL/download/vVERSION/FILE` if the URL ends in `/releases`",
        kind: AddressKind::BaseOrReleases,
        vendor: &[
            "https://api.github.com/repos/gruntwork-io/terragrunt/releases",
            "https://github.com/gruntwork-io/terragrunt/releases",
        ],
        login: Some([&TG_REMOTE_USER, &TG_REMOTE_PASSWORD]),
    },
];

/// Variables of other tools that name a file with a further signing key.
pub const KEYS_OF_OTHER_TOOLS: [(&Variable, Product); 2] = [
    (&TFENV_HASHICORP_PGP_KEY, Product::Terraform),
    (&TOFUENV_OPENTOFU_PGP_KEY, Product::OpenTofu),
];

/// The sites that releases come from. Adds a warning for each setting that has no effect.
pub(super) fn sites(
    reader: &Reader<'_>,
    warnings: &mut Vec<String>,
) -> Result<Sites, SettingsError> {
    let common = reader.parsed(&MIRROR, parse::site_url)?;
    let is_common = common.is_some();
    let mut sites = Sites::mirrored(common)
        .with_login(own_login(reader)?)
        .with_netrc(netrc(reader, warnings))
        .with_github_token(github_token(reader));
    warnings.extend(proxies::proxy_warnings(reader.environment));
    for other in MIRRORS_OF_OTHER_TOOLS.iter().filter(|_| !is_common) {
        let is_decided = sites.mirror(other.product).is_some();
        let value = text(reader, other.variable)?.map(str::trim);
        let Some(value) = value.filter(|_| !is_decided) else { continue };
        if other.vendor.contains(&value.trim_end_matches('/')) {
            continue;
        }
        let login = other.login.map(|[user, password]| basic_login(reader, user, password));
        sites = sites.with_own(other.product, mirror(other, value)?, login.transpose()?.flatten());
    }
    for (variable, product) in KEYS_OF_OTHER_TOOLS {
        match reader.environment.value(variable.name).map(Path::new) {
            Some(key) if key.to_str().is_some_and(is_web) => warnings.push(format!(
                "the runner does not download the signing key at the URL in {}; download it, and name the file with --signing-key",
                variable.name
            )),
            Some(key) => {
                let key = std::path::absolute(key).unwrap_or_else(|_| key.to_owned());
                sites = sites.with_key(product, key);
            }
            None => {}
        }
    }
    Ok(sites)
}

/// Whether a variable of another tool contains a login for a mirror: a user name, a password, or a URL with both.
pub(super) fn is_mirror_login(name: &OsStr, value: &OsStr) -> bool {
    if name == TENV_GITHUB_TOKEN.name {
        return true;
    }
    MIRRORS_OF_OTHER_TOOLS.iter().any(|other| {
        let is_own = other.login.is_some_and(|names| names.iter().any(|it| name == it.name));
        // A text that is not a URL can be a template, or a URL with a mistake.
        let in_url = || {
            let text = value.to_string_lossy();
            Url::parse(&text).map_or(text.contains('@'), |url| {
                !url.username().is_empty() || url.password().is_some()
            })
        };
        is_own || name == other.variable.name && in_url()
    })
}

/// The token for the API of github.com. The token of a job on another GitHub server is not valid there.
fn github_token(reader: &Reader<'_>) -> Option<GivenLogin> {
    let value = |variable: &Variable| {
        let text = reader.environment.value(variable.name)?.to_str()?.trim();
        Some(text).filter(|text| !text.is_empty())
    };
    let is_elsewhere = value(&GITHUB_SERVER_URL)
        .is_some_and(|url| url.trim_end_matches('/') != "https://github.com");
    let of_job = || value(&GITHUB_TOKEN).filter(|_| !is_elsewhere).map(|it| (it, &GITHUB_TOKEN));
    let given = value(&TENV_GITHUB_TOKEN).map(|token| (token, &TENV_GITHUB_TOKEN));
    let (token, variable) = given.or_else(of_job)?;
    let login = Login::Bearer(SecretString::from(token));
    Some(GivenLogin { login, by: variable.name.to_owned() })
}

fn is_web(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

fn mirror(other: &OtherToolMirror, value: &str) -> Result<Mirror, SettingsError> {
    let unusable = |problem| SettingsError::InVariable { variable: other.variable, problem };
    match other.kind {
        AddressKind::Base => parse::site_url(value).map(Mirror::Base),
        AddressKind::BaseOrReleases => parse::site_url(value).map(|url: Url| {
            let is_releases = url.path().trim_end_matches('/').ends_with("/releases");
            if is_releases { Mirror::Releases(url) } else { Mirror::Base(url) }
        }),
        AddressKind::Template => Template::parse(value).map(Mirror::Template).ok_or_else(|| {
            "the template is not a URL with `{{ .Version }}` and `{{ .Artifact }}`".to_owned()
        }),
    }
    .map_err(unusable)
}

/// The login for the mirror of `--mirror`.
fn own_login(reader: &Reader<'_>) -> Result<Option<GivenLogin>, SettingsError> {
    let token = text(reader, &MIRROR_TOKEN)?;
    match (token, basic_login(reader, &MIRROR_USER, &MIRROR_PASSWORD)?) {
        (Some(_), Some(_)) => Err(SettingsError::InVariable {
            variable: &MIRROR_TOKEN,
            problem: format!(
                "{} is set too: use either a token or a user name and password",
                MIRROR_USER.name
            ),
        }),
        (Some(token), None) => {
            let login = Login::Bearer(SecretString::from(token.trim()));
            Ok(Some(GivenLogin { login, by: MIRROR_TOKEN.name.to_owned() }))
        }
        (None, login) => Ok(login),
    }
}

fn basic_login(
    reader: &Reader<'_>,
    user: &'static Variable,
    password: &'static Variable,
) -> Result<Option<GivenLogin>, SettingsError> {
    match (text(reader, user)?, text(reader, password)?) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(SettingsError::InVariable {
            variable: user,
            problem: format!("{} is missing", password.name),
        }),
        (name, Some(secret)) => {
            let login =
                Login::Basic { user: name.unwrap_or_default().to_owned(), password: secret.into() };
            Ok(Some(GivenLogin { login, by: password.name.to_owned() }))
        }
    }
}

fn text<'a>(
    reader: &Reader<'a>,
    variable: &'static Variable,
) -> Result<Option<&'a str>, SettingsError> {
    let value = reader.environment.value(variable.name);
    value
        .map(|value| {
            let problem = || "the value is not valid UTF-8".to_owned();
            value.to_str().ok_or_else(|| SettingsError::InVariable { variable, problem: problem() })
        })
        .transpose()
}

/// The user's netrc file, if there is one that can be read.
fn netrc(reader: &Reader<'_>, warnings: &mut Vec<String>) -> Option<Netrc> {
    let named = reader.environment.value(NETRC.name).map(PathBuf::from);
    let home = || Some(Path::new(reader.environment.value(HOME.name)?).join(".netrc"));
    let path = named.clone().or_else(home)?;
    match std::fs::read(&path) {
        // Other characters can be in a comment. An entry that contains them is not used.
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if std::str::from_utf8(&bytes).is_err() {
                let path = path.display();
                warnings.push(format!(
                    "`{path}` is not valid UTF-8: logins with other characters are ignored"
                ));
            }
            Some(Netrc::parse(&path, &text))
        }
        Err(error) => {
            if named.is_some() || error.kind() != std::io::ErrorKind::NotFound {
                warnings.push(format!(
                    "cannot read `{}` ({}): {error}",
                    path.display(),
                    NETRC.name
                ));
            }
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::settings::{Arguments, Environment};

    fn resolve(
        variables: &[(&str, &str)],
        flag: Option<&str>,
    ) -> Result<(Sites, Vec<String>), SettingsError> {
        let variables: BTreeMap<_, _> =
            variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let environment = &Environment::new(variables, PathBuf::new());
        let mut arguments = Arguments::default();
        if let Some(flag) = flag {
            arguments.add(&MIRROR, flag);
        }
        let mut warnings = Vec::new();
        let sites = sites(&Reader { arguments: &arguments, environment }, &mut warnings)?;
        Ok((sites, warnings))
    }

    #[test]
    fn token_for_github_is_that_of_its_own_server() {
        for (variables, expected) in [
            (vec![], None),
            (vec![("GITHUB_TOKEN", "a")], Some("GITHUB_TOKEN")),
            (
                vec![("GITHUB_TOKEN", "a"), ("GITHUB_SERVER_URL", "https://github.com")],
                Some("GITHUB_TOKEN"),
            ),
            (vec![("GITHUB_TOKEN", "a"), ("GITHUB_SERVER_URL", "https://git.example.com")], None),
            (vec![("GITHUB_TOKEN", "a"), ("TENV_GITHUB_TOKEN", "b")], Some("TENV_GITHUB_TOKEN")),
            (
                vec![("TENV_GITHUB_TOKEN", "b"), ("GITHUB_SERVER_URL", "https://git.example.com")],
                Some("TENV_GITHUB_TOKEN"),
            ),
            (vec![("TENV_GITHUB_TOKEN", "  ")], None),
        ] {
            let variables: BTreeMap<_, _> =
                variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
            let environment = &Environment::new(variables, PathBuf::new());
            let arguments = Arguments::default();
            let token = github_token(&Reader { arguments: &arguments, environment });
            assert_eq!(token.map(|token| token.by).as_deref(), expected);
        }
    }

    /// The addresses of a checksum file of each product, with these variables.
    fn addresses(variables: &[(&str, &str)], flag: Option<&str>) -> [String; 3] {
        let (sites, _) = resolve(variables, flag).unwrap();
        Product::ALL.map(|product| crate::tool::checksums_directory(&sites, product))
    }

    #[test]
    fn variable_has_the_same_meaning_as_for_its_own_tool() {
        let nothing = addresses(&[], None);
        assert_eq!(
            nothing,
            [
                "https://releases.hashicorp.com/terraform/1.0.0/terraform_1.0.0_SHA256SUMS",
                "https://github.com/opentofu/opentofu/releases/download/v1.0.0/tofu_1.0.0_SHA256SUMS",
                "https://github.com/gruntwork-io/terragrunt/releases/download/v1.0.0/",
            ]
        );
        let own = "https://mirror.example/x";
        let releases = "https://mirror.example/x/releases";
        let template = "https://mirror.example/{{ .Version }}/{{ .Artifact }}";
        for (variable, value, product, place) in [
            (
                "TFENV_REMOTE",
                own,
                0,
                "https://mirror.example/x/terraform/1.0.0/terraform_1.0.0_SHA256SUMS",
            ),
            (
                "ATLANTIS_TF_DOWNLOAD_URL",
                own,
                0,
                "https://mirror.example/x/terraform/1.0.0/terraform_1.0.0_SHA256SUMS",
            ),
            (
                "TOFUENV_REMOTE",
                own,
                1,
                "https://mirror.example/x/opentofu/opentofu/releases/download/v1.0.0/tofu_1.0.0_SHA256SUMS",
            ),
            (
                "TOFUENV_REMOTE",
                releases,
                1,
                "https://mirror.example/x/releases/download/v1.0.0/tofu_1.0.0_SHA256SUMS",
            ),
            (
                "TOFUENV_URL_TEMPLATE",
                template,
                1,
                "https://mirror.example/1.0.0/tofu_1.0.0_SHA256SUMS",
            ),
            (
                "TG_REMOTE",
                own,
                2,
                "https://mirror.example/x/gruntwork-io/terragrunt/releases/download/v1.0.0/",
            ),
            ("TG_REMOTE", releases, 2, "https://mirror.example/x/releases/download/v1.0.0/"),
        ] {
            let mut expected = nothing.clone();
            expected[product] = place.to_owned();
            assert_eq!(addresses(&[(variable, value)], None), expected, "{variable}");
            let common = addresses(&[(variable, value)], Some("file:///m"));
            assert!(common.iter().all(|place| place.starts_with("file:///m/")), "{common:?}");
        }
    }

    #[test]
    fn defaults_of_other_tools_mean_the_site_of_the_vendor() {
        let nothing = addresses(&[], None);
        for other in &MIRRORS_OF_OTHER_TOOLS {
            for vendor in other.vendor {
                assert_eq!(
                    addresses(&[(other.variable.name, &format!("{vendor}/"))], None),
                    nothing
                );
            }
        }
    }

    #[test]
    fn earlier_variable_wins_over_a_later_one() {
        let both = [
            ("ATLANTIS_TF_DOWNLOAD_URL", "https://two.example"),
            ("TFENV_REMOTE", "https://one.example"),
            ("TOFUENV_REMOTE", "https://two.example"),
            ("TOFUENV_URL_TEMPLATE", "https://one.example/{{.Artifact}}"),
        ];
        let addresses = addresses(&both, None);
        assert!(addresses[..2].iter().all(|place| place.starts_with("https://one.example")));
    }

    #[test]
    fn error_names_the_variable_and_contains_no_secret() {
        for variables in [
            &[("TFENV_REMOTE", "hunter2.example")][..],
            &[("TOFUENV_URL_TEMPLATE", "https://hunter2.example/file")],
            &[("TG_REMOTE", "ftp://user:hunter2@a.example")],
            &[("BUTLER_MIRROR_TOKEN", "hunter2"), ("BUTLER_MIRROR_PASSWORD", "hunter2")],
            &[("BUTLER_MIRROR_USER", "hunter2")],
            &[("TFENV_REMOTE", "https://a.example"), ("TFENV_REMOTE_USER", "hunter2")],
        ] {
            let error = resolve(variables, None).map(|_| ()).unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(
                text.contains("_REMOTE")
                    || text.contains("BUTLER_MIRROR")
                    || text.contains("TEMPLATE"),
                "{text}"
            );
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn key_at_a_url_and_unreadable_netrc_lead_to_warnings() {
        let url = "https://www.hashicorp.com/.well-known/pgp-key.txt";
        let (_, warnings) = resolve(&[("TFENV_HASHICORP_PGP_KEY", url)], None).unwrap();
        assert!(warnings[0].contains("TFENV_HASHICORP_PGP_KEY"), "{warnings:?}");
        let (_, warnings) = resolve(&[("TFENV_HASHICORP_PGP_KEY", "/k")], None).unwrap();
        assert!(warnings.is_empty());
        let (_, warnings) = resolve(&[("NETRC", "/proc/nonexistent/netrc")], None).unwrap();
        assert!(warnings[0].contains("/proc/nonexistent/netrc` (NETRC)"), "{warnings:?}");
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = b"# K\xf6ln\nmachine a.example login u password hunter2\n";
        std::fs::write(file.path(), text).unwrap();
        let mirror = ("TFENV_REMOTE", "https://a.example");
        let (sites, warnings) =
            resolve(&[mirror, ("NETRC", file.path().to_str().unwrap())], None).unwrap();
        assert!(warnings[0].contains("is not valid UTF-8"), "{warnings:?}");
        assert!(sites.secrets().next().is_some());
    }
}
