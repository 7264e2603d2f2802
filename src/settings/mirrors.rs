//! Where releases come from: our own settings, or else what users of other tools have set already.
//!
//! Per product the first variable that is set counts, and none where `--mirror` is given. Each is
//! read as the tool that it belongs to reads it. A key that is named by a URL is not fetched: what
//! decides about trust does not come over the network.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use secrecy::SecretString;
use url::Url;
use zeroize::Zeroizing;

use super::reader::Reader;
use super::setting::MIRROR;
use super::variable::{
    ATLANTIS_TF_DOWNLOAD_URL, HOME, MIRROR_PASSWORD, MIRROR_TOKEN, MIRROR_USER, NETRC,
    TFENV_HASHICORP_PGP_KEY, TFENV_REMOTE, TFENV_REMOTE_PASSWORD, TFENV_REMOTE_USER, TG_REMOTE,
    TG_REMOTE_PASSWORD, TG_REMOTE_USER, TOFUENV_OPENTOFU_PGP_KEY, TOFUENV_REMOTE,
    TOFUENV_REMOTE_PASSWORD, TOFUENV_REMOTE_USER, TOFUENV_URL_TEMPLATE,
};
use super::{SettingsError, Variable, parse, proxies};
use crate::tool::{GivenLogin, Login, Mirror, Netrc, Sites, Template};
use butler_protocol::spec::Product;

/// A variable of another tool that names a mirror.
#[derive(Debug)]
pub struct ForeignMirror {
    /// The variable.
    pub variable: &'static Variable,
    /// The product whose mirror it names.
    pub product: Product,
    /// The tools that read it.
    pub tools: &'static str,
    /// What a file of a release is fetched from.
    pub place: &'static str,
    kind: Kind,
    /// Values that mean the vendor's site.
    vendor: &'static [&'static str],
    login: Option<[&'static Variable; 2]>,
}

#[derive(Debug)]
enum Kind {
    Base,
    BaseOrReleases,
    Template,
}

impl ForeignMirror {
    /// Its row in the documentation.
    #[must_use]
    pub fn row(&self) -> String {
        let Self { variable, product, tools, place, login, .. } = self;
        let login = login.map_or_else(
            || "in the URL".to_owned(),
            |names| {
                format!("in the URL, or {}", names.map(|it| format!("`{}`", it.name)).join(" and "))
            },
        );
        format!("| `{}` | {product} | {tools} | {place} | {login} |", variable.name)
    }
}

/// All of them; what stands earlier counts first.
pub const FOREIGN_MIRRORS: [ForeignMirror; 5] = [
    ForeignMirror {
        variable: &TFENV_REMOTE,
        product: Product::Terraform,
        tools: "tfenv, tenv",
        place: "`URL/terraform/VERSION/FILE`",
        kind: Kind::Base,
        vendor: &["https://releases.hashicorp.com"],
        login: Some([&TFENV_REMOTE_USER, &TFENV_REMOTE_PASSWORD]),
    },
    ForeignMirror {
        variable: &ATLANTIS_TF_DOWNLOAD_URL,
        product: Product::Terraform,
        tools: "Atlantis",
        place: "`URL/terraform/VERSION/FILE`",
        kind: Kind::Base,
        vendor: &["https://releases.hashicorp.com"],
        login: None,
    },
    ForeignMirror {
        variable: &TOFUENV_URL_TEMPLATE,
        product: Product::OpenTofu,
        tools: "tenv, TofuDL",
        place: "the URL with `{{ .Version }}` and `{{ .Artifact }}` replaced",
        kind: Kind::Template,
        vendor: &[],
        login: Some([&TOFUENV_REMOTE_USER, &TOFUENV_REMOTE_PASSWORD]),
    },
    ForeignMirror {
        variable: &TOFUENV_REMOTE,
        product: Product::OpenTofu,
        tools: "tofuenv, tenv",
        place: "`URL/opentofu/opentofu/releases/download/vVERSION/FILE`, or `URL/download/vVERSION/FILE` where the URL ends in `/releases`",
        kind: Kind::BaseOrReleases,
        vendor: &[
            "https://api.github.com/repos/opentofu/opentofu/releases",
            "https://github.com/opentofu/opentofu/releases",
        ],
        login: Some([&TOFUENV_REMOTE_USER, &TOFUENV_REMOTE_PASSWORD]),
    },
    ForeignMirror {
        variable: &TG_REMOTE,
        product: Product::Terragrunt,
        tools: "tenv",
        place: "`URL/gruntwork-io/terragrunt/releases/download/vVERSION/FILE`, or `URL/download/vVERSION/FILE` where the URL ends in `/releases`",
        kind: Kind::BaseOrReleases,
        vendor: &[
            "https://api.github.com/repos/gruntwork-io/terragrunt/releases",
            "https://github.com/gruntwork-io/terragrunt/releases",
        ],
        login: Some([&TG_REMOTE_USER, &TG_REMOTE_PASSWORD]),
    },
];

/// Variables of other tools that name a file with a further signing key.
pub const FOREIGN_KEYS: [(&Variable, Product); 2] = [
    (&TFENV_HASHICORP_PGP_KEY, Product::Terraform),
    (&TOFUENV_OPENTOFU_PGP_KEY, Product::OpenTofu),
];

/// Decides where releases come from, and adds to `warnings` what was not done.
pub(super) fn sites(
    reader: &Reader<'_>,
    warnings: &mut Vec<String>,
) -> Result<Sites, SettingsError> {
    let common = reader.parsed(&MIRROR, parse::site_url)?;
    let is_common = common.is_some();
    let mut sites =
        Sites::mirrored(common).with_login(own_login(reader)?).with_netrc(netrc(reader, warnings));
    warnings.extend(proxies::doubts(reader.environment));
    for foreign in FOREIGN_MIRRORS.iter().filter(|_| !is_common) {
        let is_decided = sites.mirror(foreign.product).is_some();
        let value = text(reader, foreign.variable)?.map(str::trim);
        let Some(value) = value.filter(|_| !is_decided) else { continue };
        if foreign.vendor.contains(&value.trim_end_matches('/')) {
            continue;
        }
        let login = foreign.login.map(|[user, password]| basic(reader, user, password));
        sites =
            sites.with_own(foreign.product, mirror(foreign, value)?, login.transpose()?.flatten());
    }
    for (variable, product) in FOREIGN_KEYS {
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

/// Whether a variable of another tool's holds a login for a mirror: its own, or the one in its URL.
pub(super) fn is_login(name: &OsStr, value: &OsStr) -> bool {
    FOREIGN_MIRRORS.iter().any(|foreign| {
        let is_own = foreign.login.is_some_and(|names| names.iter().any(|it| name == it.name));
        // What is no URL may be a template, or one with a mistake in it.
        let in_url = || {
            let text = value.to_string_lossy();
            Url::parse(&text).map_or(text.contains('@'), |url| {
                !url.username().is_empty() || url.password().is_some()
            })
        };
        is_own || name == foreign.variable.name && in_url()
    })
}

fn is_web(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

fn mirror(foreign: &ForeignMirror, value: &str) -> Result<Mirror, SettingsError> {
    let impossible = |problem| SettingsError::Foreign { variable: foreign.variable, problem };
    match foreign.kind {
        Kind::Base => parse::site_url(value).map(Mirror::Base),
        Kind::BaseOrReleases => parse::site_url(value).map(|url: Url| {
            let is_releases = url.path().trim_end_matches('/').ends_with("/releases");
            if is_releases { Mirror::Releases(url) } else { Mirror::Base(url) }
        }),
        Kind::Template => Template::parse(value).map(Mirror::Template).ok_or_else(|| {
            "the template is not a URL with `{{ .Version }}` and `{{ .Artifact }}`".to_owned()
        }),
    }
    .map_err(impossible)
}

/// The login for our own mirror.
fn own_login(reader: &Reader<'_>) -> Result<Option<GivenLogin>, SettingsError> {
    let token = text(reader, &MIRROR_TOKEN)?;
    match (token, basic(reader, &MIRROR_USER, &MIRROR_PASSWORD)?) {
        (Some(_), Some(_)) => Err(SettingsError::Foreign {
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

fn basic(
    reader: &Reader<'_>,
    user: &'static Variable,
    password: &'static Variable,
) -> Result<Option<GivenLogin>, SettingsError> {
    match (text(reader, user)?, text(reader, password)?) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(SettingsError::Foreign {
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
            value.to_str().ok_or_else(|| SettingsError::Foreign { variable, problem: problem() })
        })
        .transpose()
}

/// The user's netrc file, if there is one that can be read.
fn netrc(reader: &Reader<'_>, warnings: &mut Vec<String>) -> Option<Netrc> {
    let named = reader.environment.value(NETRC.name).map(PathBuf::from);
    let home = || Some(Path::new(reader.environment.value(HOME.name)?).join(".netrc"));
    let path = named.clone().or_else(home)?;
    match std::fs::read(&path).map(Zeroizing::new) {
        // What is no text may be in a comment; an entry with it is not used.
        Ok(bytes) => {
            let text = Zeroizing::new(String::from_utf8_lossy(&bytes).into_owned());
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

    /// Where a checksum file of each product would come from, with these variables.
    fn places(variables: &[(&str, &str)], flag: Option<&str>) -> [String; 3] {
        let (sites, _) = resolve(variables, flag).unwrap();
        Product::ALL.map(|product| crate::tool::checksums_directory(&sites, product))
    }

    #[test]
    fn each_variable_is_read_as_its_own_tool_reads_it() {
        let nothing = places(&[], None);
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
            assert_eq!(places(&[(variable, value)], None), expected, "{variable}");
            let common = places(&[(variable, value)], Some("file:///m"));
            assert!(common.iter().all(|place| place.starts_with("file:///m/")), "{common:?}");
        }
    }

    #[test]
    fn what_other_tools_take_for_the_vendors_site_is_the_vendors_site() {
        let nothing = places(&[], None);
        for foreign in &FOREIGN_MIRRORS {
            for vendor in foreign.vendor {
                assert_eq!(
                    places(&[(foreign.variable.name, &format!("{vendor}/"))], None),
                    nothing
                );
            }
        }
    }

    #[test]
    fn earlier_variable_counts_first() {
        let both = [
            ("ATLANTIS_TF_DOWNLOAD_URL", "https://two.example"),
            ("TFENV_REMOTE", "https://one.example"),
            ("TOFUENV_REMOTE", "https://two.example"),
            ("TOFUENV_URL_TEMPLATE", "https://one.example/{{.Artifact}}"),
        ];
        let places = places(&both, None);
        assert!(places[..2].iter().all(|place| place.starts_with("https://one.example")));
    }

    #[test]
    fn what_cannot_be_is_named_by_its_variable_and_shows_no_secret() {
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
    fn keys_are_files_and_what_is_not_fetched_is_said() {
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
