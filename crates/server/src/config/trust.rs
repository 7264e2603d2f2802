//! What a configuration may say that comes from outside of the server: from git, or from custom
//! resources. A person who can write it must not be able to read the server's secrets or files.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Component, Path, PathBuf};

use url::{Host, Url};

use super::document::{LayerEntry, NotificationEntry, RepositoryEntry, SecretSource};
use super::entries::Placed;
use super::error::ConfigError;
use super::isolation;
use super::secrets::{NamedSecret, of_layer, of_repository};
use super::sources::IncludeEntry;
use crate::mirror::globs;

/// Who can write a configuration.
#[derive(Clone, Debug)]
pub enum Trust {
    /// The administrator of the server: everything is allowed, except for what would let a module use
    /// the data directory.
    Local {
        /// The data directory, if a server reads the configuration.
        data: Option<PathBuf>,
    },
    /// Other people, who can write a repository.
    Remote {
        /// What they may use.
        limits: RemoteLimits,
        /// The repository of the server's own configuration that the files come from.
        from: String,
    },
    /// Other people, who can write custom resources in a namespace.
    Namespace {
        /// What they may use.
        limits: RemoteLimits,
        /// The namespace.
        namespace: String,
    },
}

/// What a configuration of other people may use.
#[derive(Clone, Debug, Default)]
pub struct RemoteLimits {
    /// The directory with the secrets that it can name. Without it, it can name none.
    pub secrets: Option<PathBuf>,
    /// The data directory of the server, whose files are never secrets of a layer. Without it, the
    /// configuration is checked elsewhere, where the files of secrets need not exist.
    pub data: Option<PathBuf>,
    /// Globs of the hosts that repositories can be on.
    pub git_hosts: Vec<String>,
}

impl Trust {
    /// What other people may use.
    pub(crate) const fn limits(&self) -> Option<&RemoteLimits> {
        match self {
            Self::Local { .. } => None,
            Self::Remote { limits, .. } | Self::Namespace { limits, .. } => Some(limits),
        }
    }

    /// What secrets must not be.
    fn secrets(&self, secrets: Vec<NamedSecret>) -> Vec<ConfigError> {
        let problem = |secret: NamedSecret| {
            let problem = self.secret_problem(&secret.source)?;
            Some(secret.error(format!("`{}` {problem}", secret.key)))
        };
        secrets.into_iter().filter_map(problem).collect()
    }

    /// Why a secret cannot be used, as the end of a sentence.
    pub(crate) fn secret_problem(&self, source: &SecretSource) -> Option<String> {
        let SecretSource::Secret(secret) = source else {
            return self.limits().and_then(|limits| limits.secret_problem(source));
        };
        let is_own =
            matches!(self, Self::Namespace { namespace, .. } if *namespace == secret.namespace);
        (!is_own).then(|| {
            "cannot be a Secret of a cluster: only custom resources can name one, of their own namespace".to_owned()
        })
    }

    /// What a repository must not say.
    pub(super) fn repository(&self, repository: &Placed<RepositoryEntry>) -> Vec<ConfigError> {
        let mut errors = self.secrets(of_repository(repository));
        let Some(limits) = self.limits() else { return errors };
        let url = &repository.entry.url;
        errors.extend(
            limits.url_problem(&url.value).map(|problem| repository.error_in(url, problem)),
        );
        errors
    }

    /// What a layer, or the defaults, must not say. `name` is that of the layer.
    pub(super) fn layer(&self, layer: &Placed<LayerEntry>, name: Option<&str>) -> Vec<ConfigError> {
        let mut errors = self.secrets(of_layer(layer));
        let limits = match self {
            Self::Local { data } => {
                errors.extend(data.iter().flat_map(|data| isolation::layer(layer, name, data)));
                return errors;
            }
            Self::Remote { limits, .. } | Self::Namespace { limits, .. } => limits,
        };
        if let Some(credentials) = &layer.entry.module_credentials {
            let problem = limits.url_problem(&credentials.value.url());
            errors.extend(problem.map(|problem| layer.error_in(credentials, problem)));
        }
        if layer.entry.isolation.is_some() {
            errors.push(layer.error("only the server's own configuration can have `isolation`"));
        }
        if layer.entry.job.is_some() {
            errors.push(layer.error("only the server's own configuration can have `job`"));
        }
        if let Some(name) = layer.entry.pass_env.first() {
            let message = "only the server's own configuration can have `pass-env`";
            errors.push(layer.error_in(name, message));
        }
        if let Some(command) = &layer.entry.after_plan {
            let message = "only the server's own configuration can have `after-plan`";
            errors.push(layer.error_in(command, message));
        }
        // It would get the state of a layer of another owner.
        if let Some(formerly) = &layer.entry.formerly {
            let message = "only the server's own configuration can have `formerly`";
            errors.push(layer.error_in(formerly, message));
        }
        // Its states are files of the server, which a layer that left the configuration can have had before.
        if let Some(backend) = &layer.entry.backend
            && backend.kind.value == "local"
        {
            let message = "only the server's own configuration can have a `local` backend";
            errors.push(layer.error_in(&backend.kind, message));
        }
        errors
    }

    /// What a receiver of notifications must not say.
    pub(super) fn notification(
        &self,
        notification: &Placed<NotificationEntry>,
    ) -> Option<ConfigError> {
        let message = "only the server's own configuration can have notifications";
        self.limits().map(|_| notification.error(message))
    }

    /// What an include must not say.
    pub(super) fn include(&self, include: &Placed<IncludeEntry>) -> Option<ConfigError> {
        let message = "only the server's own configuration can have `include`; an included file cannot \
                       include others";
        self.limits().map(|_| include.error(message))
    }

    /// The repository that layers can use although the files do not define it.
    pub(super) fn repository_of_files(&self) -> Option<&str> {
        match self {
            Self::Local { .. } | Self::Namespace { .. } => None,
            Self::Remote { from, .. } => Some(from),
        }
    }
}

impl RemoteLimits {
    /// The limits of people who can write custom resources in a namespace: their secrets are in the directory
    /// with its name.
    #[must_use]
    pub fn of_namespace(&self, namespace: &str) -> Self {
        let secrets = self.secrets.as_ref().map(|directory| directory.join(namespace));
        Self { secrets, ..self.clone() }
    }

    /// Why a secret in a file cannot be used, as the end of a sentence. It never tells whether a file outside of
    /// the directory exists.
    fn secret_problem(&self, source: &SecretSource) -> Option<String> {
        let path = match source {
            SecretSource::Secret(_) => return None,
            SecretSource::File(path) => path,
            SecretSource::Env(_) => {
                return Some(
                    "cannot be a variable of the server; only the server's own configuration can \
                     name one"
                        .to_owned(),
                );
            }
        };
        let Some(directory) = &self.secrets else {
            return Some("cannot be a file: the server has no `--secrets-dir`".to_owned());
        };
        let is_there =
            |data: &Path| canonical_below(path, directory) && !canonical_below(path, data);
        let is_allowed =
            is_plainly_below(path, directory) && self.data.as_deref().is_none_or(is_there);
        (!is_allowed).then(|| {
            format!("must be an existing file below `{}` (`--secrets-dir`)", directory.display())
        })
    }

    /// Why the address of a repository cannot be used.
    pub(crate) fn url_problem(&self, text: &str) -> Option<String> {
        let host = Url::parse(text).ok().filter(|url| url.scheme() != "file");
        let host = host.as_ref().and_then(Url::host_str);
        // The address of an ssh URL is not parsed yet, and `2852039166` is an address too.
        let Some(host) = host.and_then(|host| Host::parse(host).ok()) else {
            return Some(
                "the address must name a host: only the server's own configuration can use \
                         files"
                    .to_owned(),
            );
        };
        let is_link_local = match &host {
            Host::Domain(_) => false,
            Host::Ipv4(address) => is_link_local((*address).into()),
            Host::Ipv6(address) => is_link_local((*address).into()),
        };
        if is_link_local {
            return Some(format!("the host `{host}` is a link-local address, or leads to one"));
        }
        let allowed = globs(self.git_hosts.iter().map(String::as_str)).unwrap_or_default();
        (!allowed.is_match(&host.to_string()))
            .then(|| format!("the host `{host}` is not allowed by `--allowed-git-host`"))
    }
}

/// A glob of `--allowed-git-host`, as [`RemoteLimits::git_hosts`] has it.
///
/// # Errors
/// If it cannot match a host.
pub fn git_host(glob: &str) -> Result<String, String> {
    if glob.is_empty() || glob.contains(['/', ':', '@']) {
        return Err(format!("`{glob}` is not a host; give it without scheme, port and path"));
    }
    // Hosts are compared in lower case.
    let glob = glob.to_ascii_lowercase();
    globs([&*glob]).map_err(|error| error.to_string())?;
    Ok(glob)
}

/// Whether `path` is written as a path below `directory`.
fn is_plainly_below(path: &Path, directory: &Path) -> bool {
    path.starts_with(directory)
        && path.components().all(|part| !matches!(part, Component::ParentDir))
}

/// Whether both exist, and `path` is below `directory` when links are followed.
fn canonical_below(path: &Path, directory: &Path) -> bool {
    match (path.canonicalize(), directory.canonicalize()) {
        (Ok(path), Ok(directory)) => path != directory && path.starts_with(directory),
        _ => false,
    }
}

/// Whether only machines on the same link, and the metadata services of clouds, have this address, or one of IPv4 to
/// which this address of IPv6 leads.
fn is_link_local(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => {
            address.is_unicast_link_local()
                || METADATA.contains(&address)
                || translated(address).iter().any(Ipv4Addr::is_link_local)
        }
    }
}

/// The metadata services of AWS and Google Cloud that have addresses of private networks of IPv6.
const METADATA: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

/// The addresses of IPv4 to which a translator or tunnel would send what is meant for `address`.
fn translated(address: Ipv6Addr) -> [Ipv4Addr; 7] {
    let bytes = address.octets();
    let at = |places: [usize; 4]| Ipv4Addr::from(places.map(|place| bytes[place]));
    let only =
        |is_prefix: bool, found: Ipv4Addr| if is_prefix { found } else { Ipv4Addr::BROADCAST };
    let segments = address.segments();
    // NAT64 for local use can have each length of a prefix (RFC 8215, RFC 6052).
    let is_local_nat64 = segments[..3] == [0x64, 0xff9b, 1];
    let is_teredo = segments[..2] == [0x2001, 0];
    [
        // The prefix of NAT64 can be any one of 96 bits, as that of ISATAP; the last 32 bits of other
        // addresses are rarely like this.
        at([12, 13, 14, 15]),
        only(is_local_nat64, at([6, 7, 9, 10])),
        only(is_local_nat64, at([7, 9, 10, 11])),
        only(is_local_nat64, at([9, 10, 11, 12])),
        // 6to4 (RFC 3056).
        only(segments[0] == 0x2002, at([2, 3, 4, 5])),
        // Teredo has the address of the client inverted (RFC 4380).
        only(is_teredo, at([4, 5, 6, 7])),
        only(is_teredo, Ipv4Addr::from_bits(!at([12, 13, 14, 15]).to_bits())),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::load::parse_from;
    use super::*;

    fn errors(trust: &Trust, text: &str) -> Vec<String> {
        let parsed = parse_from(&[(PathBuf::from("a.yaml"), text.to_owned())], trust);
        parsed.err().unwrap_or_default().iter().map(ToString::to_string).collect()
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn configuration_of_other_people_reaches_only_what_it_may() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        for directory in ["secrets/data", "other"] {
            std::fs::create_dir_all(base.join(directory)).unwrap();
        }
        for file in ["secrets/db", "secrets/data/plan.key", "other/key"] {
            std::fs::write(base.join(file), "hunter22").unwrap();
        }
        std::os::unix::fs::symlink(base.join("other/key"), base.join("secrets/link")).unwrap();
        let limits = RemoteLimits {
            secrets: Some(base.join("secrets")),
            data: Some(base.join("secrets/data")),
            git_hosts: ["*.example.com", "10.0.0.1", "169.254.*", "fe80*"]
                .map(str::to_owned)
                .to_vec(),
        };
        let trust = Trust::Remote { limits, from: "infra".to_owned() };
        let shown = base.display();
        let layer = |keys: &str| {
            format!(
                "repositories: {{r: {{url: 'https://git.example.com/a'}}}}\nlayers: {{l: {{repository: r, path: a, \
                 {keys}}}}}\n"
            )
        };
        let repository = |keys: &str| format!("repositories: {{r: {{{keys}}}}}\n");
        let url = |url: &str| repository(&format!("url: '{url}'"));
        let file = |name: &str| layer(&format!("secrets: {{s: {{file: '{shown}/{name}'}}}}"));
        let below = "`secrets.s` must be an existing file below";
        for (text, expected) in [
            (file("secrets/db"), ""),
            (file("secrets/missing"), below),
            (file("other/key"), below),
            (file("secrets/../other/key"), below),
            (file("secrets/../secrets/db"), below),
            (file("secrets/link"), below),
            (file("secrets/data/plan.key"), below),
            (layer("secrets: {s: {env: A}}"), "`secrets.s` cannot be a variable of the server"),
            (layer("env: {A: {env: A}}"), "`env.A` cannot be a variable of the server"),
            (layer("backend: {type: s3, config: {k: {env: A}}}"), "`backend.config.k` cannot be"),
            (layer("backend: {type: local, config: {path: /a}}"), "can have a `local` backend"),
            (layer("isolation: {read: [/etc]}"), "can have `isolation`"),
            (layer("job: {service-account: admin}"), "can have `job`"),
            (layer("formerly: network"), "can have `formerly`"),
            (layer("after-plan: /bin/true"), "can have `after-plan`"),
            (
                layer(&format!(
                    "module-credentials: {{host: git.example.com, token-file: {shown}/secrets/db}}"
                )),
                "",
            ),
            (
                layer(&format!(
                    "module-credentials: {{host: example.org, token-file: {shown}/secrets/db}}"
                )),
                "the host `example.org` is not allowed by",
            ),
            (
                layer("module-credentials: {host: git.example.com, token-env: A}"),
                "`module-credentials.token-env` cannot be a variable of the server",
            ),
            (layer("pass-env: [A, B]"), "can have `pass-env`"),
            (layer("env: {A: b}, variables: {a: b}"), ""),
            ("defaults: {env: {A: {env: A}}}".to_owned(), "a.yaml:1:11: `env.A` cannot be"),
            (url("ssh://git@git.example.com/a"), ""),
            (url("https://10.0.0.1/a"), ""),
            (url("https://GIT.Example.com:8443/a"), ""),
            (url("https://example.org/a"), "the host `example.org` is not allowed by"),
            (url("https://git.example.com.evil.org/a"), "is not allowed by"),
            (url("https://git.example.com@evil.org/a"), "the host `evil.org` is not allowed by"),
            (url("file:///srv/a"), "the address must name a host"),
            (url("https://169.254.169.254/a"), "is a link-local address"),
            (url("ssh://169.254.169.254/a"), "is a link-local address"),
            (url("ssh://2852039166/a"), "is a link-local address"),
            (url("https://[fe80::1]/a"), "is a link-local address"),
            (url("https://[::ffff:a9fe:101]/a"), "is a link-local address"),
            (url("https://[64:ff9b::a9fe:a9fe]/a"), "is a link-local address"),
            (
                repository("url: 'https://git.example.com/a', credentials: {token-env: A}"),
                "`token-env` cannot be a variable of the server",
            ),
            (
                repository(
                    "url: 'https://git.example.com/a', credentials: {token-file: /etc/passwd}",
                ),
                "`token-file` must be an existing file below",
            ),
            (
                format!(
                    "notifications: [{{url-file: {shown}/secrets/db, format: slack, on: [failed]}}]"
                ),
                "only the server's own configuration can have notifications",
            ),
        ] {
            assert_eq!(errors(&Trust::Local { data: None }, &text), Vec::<String>::new(), "{text}");
            let found = errors(&trust, &text);
            let is_expected = match expected {
                "" => found.is_empty(),
                _ => found.len() == 1 && found[0].contains(expected),
            };
            assert!(is_expected, "{text}: {found:#?}");
        }
    }

    #[test]
    fn addresses_that_lead_to_link_local_ones_are_known() {
        for (address, expected) in [
            ("169.254.169.254", true),
            ("::ffff:169.254.169.254", true),
            ("fe80::1", true),
            ("::169.254.169.254", true),
            ("::ffff:0:169.254.169.254", true),
            ("64:ff9b::169.254.169.254", true),
            ("64:ff9b:1::169.254.169.254", true),
            ("64:ff9b:1:a9fe:a9:fe00::", true),
            ("64:ff9b:1:5a9:fe:a9fe::", true),
            ("64:ff9b:1:5:a9:fea9:fe00:0", true),
            ("2001:db8:64::169.254.169.254", true),
            ("fe80::5efe:169.254.169.254", true),
            ("2001:db8::5efe:169.254.169.254", true),
            ("2002:a9fe:a9fe::1", true),
            ("2001:0:a9fe:a9fe::1", true),
            ("2001:0:102:304:0:0:5601:5601", true),
            ("fd00:ec2::254", true),
            ("fd20:ce::254", true),
            ("192.0.2.1", false),
            ("64:ff9b::192.0.2.1", false),
            ("2001:db8::1", false),
            ("2002:c000:201::a9fe", false),
            ("2001:db8:a9fe:a9fe::1", false),
            ("fd00::7", false),
        ] {
            assert_eq!(is_link_local(address.parse().unwrap()), expected, "{address}");
        }
    }
}
