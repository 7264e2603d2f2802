//! The release sites of each product: the vendor's site, a mirror, or the URL of one archive; and their
//! logins.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use secrecy::SecretString;
use url::{Origin, Url};

use crate::tool::digest::Sha256Sum;
use crate::tool::fetch::login::{Credentials, GivenLogin, Login, redacted};
use crate::tool::fetch::netrc::Netrc;
use butler_protocol::spec::Product;

/// The path segment between repository and release in the URLs of GitHub.
const RELEASES: &str = "/releases/";

/// The only origin that gets a token for GitHub.
const GITHUB_API: &str = "https://api.github.com";

/// A replacement for the vendor's site.
#[derive(Clone)]
pub enum Mirror {
    /// Scheme, host and leading path: the path of the vendor's URL is appended.
    Base(Url),
    /// Replaces the vendor's URL up to `/releases`.
    Releases(Url),
    /// A URL with placeholders for the version and for the file name.
    Template(Template),
}

impl Mirror {
    /// The URL on the mirror of the vendor's file `official`. A query of the mirror is kept,
    /// because some object stores put the access token in it. A URL that the mirror cannot express
    /// stays the vendor's.
    pub(in crate::tool) fn locate(&self, official: Url) -> Url {
        let below = |base: &Url, path: &str| {
            let mut url = base.clone();
            url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
            url
        };
        match self {
            Self::Base(base) => below(base, official.path()),
            Self::Releases(base) => match official.path().split_once(RELEASES) {
                Some((_, rest)) => below(base, &format!("/{rest}")),
                None => official,
            },
            Self::Template(template) => {
                let rest = official.path().split_once("/releases/download/v");
                let parts = rest.and_then(|(_, rest)| rest.split_once('/'));
                parts.and_then(|(version, file)| template.fill(version, file)).unwrap_or(official)
            }
        }
    }

    /// A URL of the mirror, for its origin and its login.
    fn url(&self) -> &Url {
        match self {
            Self::Base(url) | Self::Releases(url) => url,
            Self::Template(template) => &template.example,
        }
    }
}

/// A URL with `{{ .Version }}` and `{{ .Artifact }}` in it, as `OpenTofu`'s installers read it.
#[derive(Clone)]
pub struct Template {
    text: String,
    example: Url,
}

impl Template {
    /// Parses a template. `None` if it has no file name, has other actions, or does not make a URL.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let filled = Self::filled(text, "1.0.0", "file");
        let example = filled.as_ref()?.parse().ok()?;
        (filled != Self::filled(text, "1.0.0", "other"))
            .then(|| Self { text: text.to_owned(), example })
    }

    fn fill(&self, version: &str, file: &str) -> Option<Url> {
        Self::filled(&self.text, version, file)?.parse().ok()
    }

    fn filled(text: &str, version: &str, file: &str) -> Option<String> {
        let mut parts = text.split("{{");
        let mut filled = parts.next()?.to_owned();
        for part in parts {
            let (action, rest) = part.split_once("}}")?;
            filled.push_str(match action.trim() {
                ".Version" => version,
                ".Artifact" => file,
                _ => return None,
            });
            filled.push_str(rest);
        }
        Some(filled)
    }
}

/// The release sites. A URL may contain a password, so `Debug` output leaves it out.
#[derive(Clone, Default)]
pub struct Sites {
    common: Option<Mirror>,
    /// For the common mirror.
    login: Option<GivenLogin>,
    own: BTreeMap<Product, (Mirror, Option<GivenLogin>)>,
    keys: BTreeMap<Product, Vec<PathBuf>>,
    netrc: Option<Netrc>,
    /// For the list of versions at GitHub.
    github: Option<GivenLogin>,
    /// Replaces all mirrors.
    bundle: Option<Mirror>,
    archive: Option<Url>,
    checksum: Option<Sha256Sum>,
}

impl Sites {
    /// One mirror for all products (`--mirror`), or none.
    #[must_use]
    pub fn mirrored(mirror: Option<Url>) -> Self {
        Self { common: mirror.map(Mirror::Base), ..Self::default() }
    }

    /// Adds a login for the common mirror.
    #[must_use]
    pub fn with_login(self, login: Option<GivenLogin>) -> Self {
        Self { login, ..self }
    }

    /// Adds a mirror for one product, which is used if there is no common mirror.
    #[must_use]
    pub fn with_own(mut self, product: Product, mirror: Mirror, login: Option<GivenLogin>) -> Self {
        self.own.insert(product, (mirror, login));
        self
    }

    /// Adds a key that may sign the releases of one product.
    #[must_use]
    pub fn with_key(mut self, product: Product, key: PathBuf) -> Self {
        self.keys.entry(product).or_default().push(key);
        self
    }

    /// Adds logins by host, for mirrors without a login.
    #[must_use]
    pub fn with_netrc(self, netrc: Option<Netrc>) -> Self {
        Self { netrc, ..self }
    }

    /// Adds a token for the lists of versions in GitHub's API, which limits requests without one.
    #[must_use]
    pub fn with_github_token(self, github: Option<GivenLogin>) -> Self {
        Self { github, ..self }
    }

    /// Adds the URL of an archive or a bundle and the checksum of the archive, for one version.
    #[must_use]
    pub fn with_given(mut self, url: Option<Url>, checksum: Option<Sha256Sum>) -> Self {
        self.checksum = checksum;
        match url {
            Some(url) if is_bundle(&url) => self.bundle = Some(Mirror::Base(url)),
            url => self.archive = url,
        }
        self
    }

    /// The mirror for `product`; `None` for the vendor's site.
    #[must_use]
    pub fn mirror(&self, product: Product) -> Option<&Mirror> {
        self.bundle.as_ref().or_else(|| self.configured(product).map(|(mirror, _)| mirror))
    }

    /// The mirror from the settings, and the login that was given for it.
    fn configured(&self, product: Product) -> Option<(&Mirror, Option<&GivenLogin>)> {
        let own = || self.own.get(&product).map(|(mirror, login)| (mirror, login.as_ref()));
        self.common.as_ref().map(|mirror| (mirror, self.login.as_ref())).or_else(own)
    }

    /// The URL of the archive, if it was given.
    pub(in crate::tool) fn archive(&self) -> Option<&Url> {
        self.archive.as_ref()
    }

    /// The checksum of the archive, if it was given.
    pub(in crate::tool) fn checksum(&self) -> Option<Sha256Sum> {
        self.checksum
    }

    /// Files with further keys for `product`.
    pub(in crate::tool) fn keys(&self, product: Product) -> &[PathBuf] {
        self.keys.get(&product).map_or(&[], Vec::as_slice)
    }

    /// The credentials for releases of `product`; for the vendor's site, only a token for GitHub's API.
    pub(in crate::tool) fn credentials(&self, product: Product) -> Option<Credentials> {
        if self.archive.is_none() && self.mirror(product).is_none() {
            let origin = Url::parse(GITHUB_API).ok()?.origin();
            return Some(Credentials { given: self.github.clone()?, origin });
        }
        let url = self.archive.as_ref().or(self.mirror(product).map(Mirror::url))?;
        // The login of the mirror must not be sent to another origin.
        let mirror = self.configured(product);
        let mirror = mirror.filter(|(mirror, _)| mirror.url().origin() == url.origin());
        let in_url = || Login::of_url(url).or_else(|| Login::of_url(mirror?.0.url()));
        let in_url = in_url().map(|login| GivenLogin { login, by: "the URL's login".to_owned() });
        let by_host = || self.netrc.as_ref()?.login(url.host_str()?);
        let given = in_url.or_else(|| mirror?.1.cloned()).or_else(by_host)?;
        match url.origin() {
            Origin::Opaque(_) => None,
            origin @ Origin::Tuple(..) => Some(Credentials { given, origin }),
        }
    }

    /// All URLs, so that the caller can redact their logins.
    pub fn urls(&self) -> impl Iterator<Item = &Url> {
        let mirrors = self.bundle.iter().chain(&self.common);
        let mirrors = mirrors.chain(self.own.values().map(|(mirror, _)| mirror));
        mirrors.map(Mirror::url).chain(&self.archive)
    }

    /// All secrets of logins, so that the caller can redact them.
    pub fn secrets(&self) -> impl Iterator<Item = SecretString> {
        let given = self.own.values().filter_map(|(_, login)| login.as_ref()).chain(&self.login);
        let by_host = Product::ALL.into_iter().filter_map(|product| self.credentials(product));
        let by_host = by_host.map(|credentials| credentials.given);
        given.cloned().chain(by_host).map(|given| given.login.secret().clone())
    }
}

/// Whether `url` is a bundle with the layout of the vendors' sites (a directory or a tar of one) and not
/// a single archive.
fn is_bundle(url: &Url) -> bool {
    if url.scheme() != "file" {
        return url.path().ends_with('/');
    }
    // A compressed tar is not supported; reading it fails with that message.
    let is = |path: &Path, ending: &str| path.extension().is_some_and(|it| it == ending);
    url.to_file_path().is_ok_and(|path| {
        let is_packed = || path.file_stem().is_some_and(|stem| is(Path::new(stem), "tar"));
        path.is_dir() || is(&path, "tar") || is(&path, "tgz") || is_packed()
    })
}

/// Shows the URLs without credentials.
impl std::fmt::Debug for Sites {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.urls().map(redacted)).finish()
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    fn given(token: &str, by: &str) -> GivenLogin {
        GivenLogin { login: Login::Bearer(token.into()), by: by.to_owned() }
    }

    #[test]
    fn template_inserts_version_and_file() {
        let template = "https://mirror.example/{{.Version}}/{{ .Artifact }}?a=b";
        let mirror = Mirror::Template(Template::parse(template).unwrap());
        let official = "https://github.com/opentofu/opentofu/releases/download/v1.8.5/tofu_x.zip";
        assert_eq!(
            mirror.locate(url(official)).as_str(),
            "https://mirror.example/1.8.5/tofu_x.zip?a=b"
        );
        let index = "https://get.opentofu.org/tofu/api.json";
        assert_eq!(mirror.locate(url(index)).as_str(), index);
        for wrong in [
            "https://mirror.example/a",
            "https://mirror.example/{{ .Artifact",
            "https://mirror.example/{{ .OS }}/{{ .Artifact }}",
            "{{ .Artifact }}",
        ] {
            assert!(Template::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn token_for_github_is_sent_only_to_its_api() {
        let sites = Sites::default().with_github_token(Some(given("t", "GITHUB_TOKEN")));
        let credentials = sites.credentials(Product::Terragrunt).unwrap();
        assert_eq!(credentials.origin, url("https://api.github.com/repos/x").origin());
        let mirrored = Sites::mirrored(Some(url("https://mirror.example/x")))
            .with_github_token(Some(given("t", "GITHUB_TOKEN")));
        assert!(mirrored.credentials(Product::Terragrunt).is_none());
        let archive = sites.clone().with_given(Some(url("https://other.example/a.zip")), None);
        assert!(archive.credentials(Product::Terragrunt).is_none());
        assert!(sites.secrets().next().is_some());
    }

    #[test]
    fn credentials_are_sent_only_to_the_mirror_and_its_url_takes_precedence() {
        let of = |sites: &Sites, product| {
            sites.credentials(product).map(|found| (found.given.by, found.origin))
        };
        let terraform = Product::Terraform;
        assert!(
            Sites::default().with_login(Some(given("a", "A"))).credentials(terraform).is_none()
        );

        let sites = Sites::mirrored(Some(url("https://mirror.example/x")))
            .with_login(Some(given("a", "A")));
        let origin = url("https://mirror.example").origin();
        assert_eq!(of(&sites, terraform), Some(("A".to_owned(), origin.clone())));
        let archive = |text: &str| sites.clone().with_given(Some(url(text)), None);
        assert_eq!(of(&archive("https://other.example/a.zip"), terraform), None);
        assert_eq!(
            of(&archive("https://mirror.example/a.zip"), terraform),
            Some(("A".to_owned(), origin.clone()))
        );

        // A bundle takes the mirror's place, but is not the mirror.
        for elsewhere in ["https://other.example/", "http://mirror.example/"] {
            let bundle = archive(elsewhere);
            assert_eq!(bundle.mirror(terraform).unwrap().url().as_str(), elsewhere);
            assert_eq!(of(&bundle, terraform), None);
        }
        assert!(of(&archive("https://mirror.example/b/"), terraform).is_some());
        let alone = Sites::default().with_login(Some(given("a", "A")));
        for url in ["https://own.example/", "https://own.example/a.zip"] {
            assert!(of(&alone.clone().with_given(Some(self::url(url)), None), terraform).is_none());
        }

        let netrc = Netrc::parse("/n".as_ref(), "machine own.example login u password hunter2");
        let own = Mirror::Base(url("https://own.example"));
        let sites = Sites::default().with_netrc(Some(netrc)).with_own(terraform, own, None);
        assert_eq!(of(&sites, terraform).unwrap().0, "`/n`");
        assert!(of(&sites, Product::OpenTofu).is_none());
        let secrets: Vec<_> = sites.secrets().map(|it| it.expose_secret().to_owned()).collect();
        assert_eq!(secrets, ["hunter2"]);
        let url = Some(url("https://u:p@own.example"));
        assert_eq!(of(&sites.with_given(url, None), terraform).unwrap().0, "the URL's login");
    }

    #[test]
    fn debug_output_has_no_login() {
        let mirror = Some(url("https://user:hunter2@mirror.example/"));
        let sites = Sites::mirrored(mirror).with_login(Some(given("hunter3", "A")));
        let shown = format!("{sites:?}");
        assert!(shown.contains("mirror.example") && !shown.contains("hunter"), "{shown}");
    }
}
