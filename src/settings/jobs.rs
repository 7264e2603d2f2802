//! The settings of `serve --executor kubernetes`.

use butler_cluster::{CaBundle, object_name};
use butler_server::attempts::JobSettings;
use butler_start::generate::IMAGE;
use url::Url;

use super::attempts::HANDED_ON;
use super::cluster::cluster_access;
use super::reader::Reader;
use super::server_address::ServerAddress;
use super::setting::{
    ATTEMPT_CA_CONFIG_MAP, ATTEMPT_URL, EXECUTOR, ISOLATION_USERS, JOB_IMAGE, JOB_NAMESPACE,
    JOB_PULL_SECRET, PUBLIC_URL,
};
use super::{Setting, SettingsError, parse};

/// The settings that only the Kubernetes executor has.
const OF_JOBS: [&Setting; 5] =
    [&ATTEMPT_URL, &ATTEMPT_CA_CONFIG_MAP, &JOB_NAMESPACE, &JOB_IMAGE, &JOB_PULL_SECRET];

/// What the server starts Jobs with; `None` if it starts processes.
///
/// # Errors
/// If a setting is not usable, or attempts could not reach the server over TLS.
pub(super) fn jobs(
    reader: &Reader<'_>,
    address: &ServerAddress,
) -> Result<Option<JobSettings>, SettingsError> {
    let executor = reader.parsed(&EXECUTOR, |text| match text {
        "process" => Ok(false),
        "kubernetes" => Ok(true),
        _ => Err(format!("{} is neither `process` nor `kubernetes`", parse::shown(text))),
    })?;
    if executor != Some(true) {
        return match OF_JOBS.iter().find(|setting| reader.is_given(setting)) {
            None => Ok(None),
            Some(setting) => Err(SettingsError::Unusable {
                setting,
                problem: "it has an effect only with `--executor kubernetes`".to_owned(),
            }),
        };
    }
    let endpoint = endpoint(reader, address)?;
    let text = |name: &str| Some(reader.environment.value(name)?.to_str()?.to_owned());
    let either = |name: &str| text(name).or_else(|| text(&name.to_ascii_lowercase()));
    // The ids of `--isolation-users` are those of this machine.
    let variables = HANDED_ON.into_iter().filter(|setting| **setting != ISOLATION_USERS);
    let variables = variables.filter_map(|setting| {
        let given = reader.arguments.value(setting).or_else(|| reader.variable(setting))?;
        Some(((*setting.variables.first()?).to_owned(), given.to_str()?.to_owned()))
    });
    let default_image = || format!("{IMAGE}:{}", env!("CARGO_PKG_VERSION"));
    Ok(Some(JobSettings {
        access: cluster_access(None, None, reader.environment),
        namespace: reader.parsed(&JOB_NAMESPACE, object_name)?,
        image: reader.parsed(&JOB_IMAGE, image)?.unwrap_or_else(default_image),
        pull_secrets: reader.values(&JOB_PULL_SECRET, object_name)?,
        endpoint: endpoint.as_str().trim_end_matches('/').to_owned(),
        ca: reader.parsed(&ATTEMPT_CA_CONFIG_MAP, ca_config_map)?,
        proxy: either("HTTPS_PROXY"),
        no_proxy: either("NO_PROXY"),
        variables: variables.collect(),
    }))
}

/// The https URL under which attempts reach the server.
fn endpoint(reader: &Reader<'_>, address: &ServerAddress) -> Result<Url, SettingsError> {
    let given = reader.parsed(&ATTEMPT_URL, parse::endpoint)?;
    let (setting, url) = match given {
        Some(url) => (&ATTEMPT_URL, url),
        None => match address.public_url.clone() {
            Some(url) => (&PUBLIC_URL, url),
            None => return Err(SettingsError::Missing { setting: &ATTEMPT_URL }),
        },
    };
    let public = address.public_url.as_ref().map_or("/", Url::path).trim_end_matches('/');
    let path = url.path().trim_end_matches('/');
    if !path.is_empty() && path != public {
        let problem = format!("the server does not answer below `{path}`: remove the path");
        return Err(SettingsError::Unusable { setting, problem });
    }
    if url.scheme() == "https" {
        return Ok(url);
    }
    let problem = "attempts that are Jobs reach the server over TLS only, because they get secrets from it: give an \
                   https URL with `--attempt-url`, and a certificate with `--tls-cert` and `--tls-key`";
    Err(SettingsError::Unusable { setting, problem: problem.to_owned() })
}

/// An image with a tag or a digest: without one, attempts would use different versions.
fn image(text: &str) -> Result<String, String> {
    let name = text.rsplit_once('/').map_or(text, |(_, name)| name);
    let is_word = !text.is_empty() && text.chars().all(|it| it.is_ascii_graphic());
    if is_word && (name.contains('@') || name.contains(':')) {
        return Ok(text.to_owned());
    }
    Err(format!("{} is not an image with a tag or a digest", parse::shown(text)))
}

fn ca_config_map(text: &str) -> Result<CaBundle, String> {
    let bundle: CaBundle = text.parse()?;
    object_name(&bundle.config_map)?;
    Ok(bundle)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::{Arguments, Environment};
    use super::*;

    fn read(
        arguments: &[(&'static Setting, &str)],
        variables: &[(&str, &str)],
    ) -> Result<Option<JobSettings>, String> {
        let arguments =
            arguments.iter().fold(Arguments::default(), |arguments, (setting, value)| {
                arguments.with(setting, value)
            });
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        let environment = Environment::new(variables.collect(), PathBuf::new());
        let reader = Reader { arguments: &arguments, environment: &environment };
        let read = ServerAddress::resolve(&reader, false).and_then(|it| jobs(&reader, &it));
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn jobs_reach_the_server_over_tls_only() {
        let kubernetes = (&EXECUTOR, "kubernetes");
        let refused = read(&[kubernetes], &[]).unwrap_err();
        assert!(refused.contains("no address for attempts is given (--attempt-url"), "{refused}");
        for setting in [&ATTEMPT_URL, &PUBLIC_URL] {
            let refused = read(&[kubernetes, (setting, "http://butler:7373")], &[]).unwrap_err();
            assert!(refused.contains("over TLS only"), "{refused}");
            let accepted = read(&[kubernetes, (setting, "https://butler:7373/")], &[]).unwrap();
            assert_eq!(accepted.unwrap().endpoint, "https://butler:7373");
        }
        let at =
            |url| [kubernetes, (&ATTEMPT_URL, url), (&PUBLIC_URL, "https://b.example.com/tf/")];
        assert!(read(&at("https://butler:7373/tf"), &[]).is_ok());
        let refused = read(&at("https://butler:7373/other"), &[]).unwrap_err();
        assert!(refused.contains("below `/other`"), "{refused}");
    }

    #[test]
    fn settings_of_jobs_have_no_effect_on_processes_and_say_so() {
        assert!(read(&[], &[]).unwrap().is_none());
        assert!(read(&[(&EXECUTOR, "process")], &[]).unwrap().is_none());
        for setting in OF_JOBS {
            let refused = read(&[(setting, "x")], &[]).unwrap_err();
            assert!(refused.contains("only with `--executor kubernetes`"), "{refused}");
        }
        let refused = read(&[(&EXECUTOR, "docker")], &[]).unwrap_err();
        assert!(refused.contains("`docker` is neither"), "{refused}");
    }

    #[test]
    fn jobs_get_the_proxy_and_the_mirror_of_the_server_and_an_image_of_one_version() {
        let base = [(&EXECUTOR, "kubernetes"), (&ATTEMPT_URL, "https://butler:7373")];
        let variables = [
            ("https_proxy", "http://proxy:3128"),
            ("NO_PROXY", "10.0.0.0/8"),
            ("BUTLER_MIRROR", "https://mirror.example.com"),
            ("BUTLER_ISOLATION_USERS", "1000-2000"),
            ("BUTLER_CACHE_DIR", "/cache"),
        ];
        let jobs = read(&base, &variables).unwrap().unwrap();
        assert_eq!(jobs.proxy.as_deref(), Some("http://proxy:3128"));
        assert_eq!(jobs.no_proxy.as_deref(), Some("10.0.0.0/8"));
        let mirror = ("BUTLER_MIRROR".to_owned(), "https://mirror.example.com".to_owned());
        assert_eq!(jobs.variables, [mirror]);
        assert_eq!(jobs.image, format!("{IMAGE}:{}", env!("CARGO_PKG_VERSION")));
        let with = |setting, value| {
            let given = [base[0], base[1], (setting, value)];
            read(&given, &[]).map(|jobs| jobs.unwrap())
        };
        for image in ["r.example.com:5000/butler:1.2", "butler@sha256:00"] {
            assert_eq!(with(&JOB_IMAGE, image).unwrap().image, image);
        }
        for image in ["butler", "r.example.com:5000/butler", "", "butler:1 --privileged"] {
            assert!(with(&JOB_IMAGE, image).is_err(), "{image}");
        }
        let ca = with(&ATTEMPT_CA_CONFIG_MAP, "butler-ca").unwrap().ca.unwrap();
        assert_eq!((&*ca.config_map, &*ca.key), ("butler-ca", "ca.crt"));
        assert!(with(&ATTEMPT_CA_CONFIG_MAP, "Butler").is_err());
        assert!(with(&JOB_NAMESPACE, "a/b").is_err());
    }
}
