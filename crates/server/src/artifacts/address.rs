//! The address of an object store: `s3://BUCKET/PREFIX`, `gs://…`, `az://…` or `file:///DIRECTORY`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use secrecy::SecretString;
use url::Url;

/// The address of an object store. It has no credentials.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ArtifactsAddress {
    pub(super) provider: Provider,
    /// What is in front of the names of all objects, without a slash at its ends.
    pub(super) prefix: String,
    shown: String,
}

/// An object store, and how it is reached.
#[derive(Clone, Debug)]
pub struct ArtifactsSettings {
    /// Its address.
    pub address: ArtifactsAddress,
    /// The variables of the environment that the tools of its provider read, for example `AWS_REGION` and
    /// `AWS_SECRET_ACCESS_KEY`.
    pub variables: Vec<(String, SecretString)>,
}

/// Who keeps the objects.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Provider {
    /// A bucket of S3, or of a service that has its interface.
    S3(String),
    /// A bucket of Google Cloud.
    Google(String),
    /// A container of Azure.
    Azure(String),
    /// A directory.
    Directory(PathBuf),
}

impl fmt::Display for ArtifactsAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.shown)
    }
}

/// The text is not the address of an object store. The message does not contain it.
#[derive(Debug, thiserror::Error)]
#[error(
    "not an address of an object store ({0}); write `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, \
     `az://CONTAINER/PREFIX` or `file:///DIRECTORY`"
)]
pub struct AddressError(String);

impl FromStr for ArtifactsAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let failed = |why: &str| AddressError(why.to_owned());
        let url = Url::parse(text).map_err(|error| AddressError(error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(failed("credentials are read from the environment"));
        }
        if url.query().is_some() || url.fragment().is_some() || url.port().is_some() {
            return Err(failed("it has more than a bucket and a prefix"));
        }
        let host = url.host_str().unwrap_or_default().to_owned();
        let is_file = url.scheme() == "file";
        if host.is_empty() != is_file {
            return Err(failed(if is_file {
                "a directory has no host"
            } else {
                "it has no bucket"
            }));
        }
        let provider = match url.scheme() {
            "s3" => Provider::S3(host),
            "gs" => Provider::Google(host),
            "az" => Provider::Azure(host),
            "file" => {
                Provider::Directory(url.to_file_path().map_err(|()| failed("it is not a path"))?)
            }
            other => return Err(AddressError(format!("its scheme is `{other}`"))),
        };
        let prefix = if is_file { "" } else { url.path().trim_matches('/') };
        let has_odd_part = prefix.split('/').any(|part| matches!(part, "." | ".."));
        if prefix.contains("//") || has_odd_part || prefix.contains('%') {
            return Err(failed("its prefix must be plain names with `/` between them"));
        }
        Ok(Self { provider, prefix: prefix.to_owned(), shown: url.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_and_directories_are_addresses() {
        let parsed = |text: &str| text.parse::<ArtifactsAddress>().unwrap();
        let s3 = parsed("s3://logs/butler/prod/");
        assert_eq!((s3.provider, s3.prefix.as_str()), (Provider::S3("logs".into()), "butler/prod"));
        assert_eq!(parsed("gs://logs").provider, Provider::Google("logs".into()));
        assert_eq!(parsed("gs://logs").prefix, "");
        assert_eq!(parsed("az://logs/x").provider, Provider::Azure("logs".into()));
        let directory = parsed("file:///srv/butler%20files");
        assert_eq!(directory.provider, Provider::Directory("/srv/butler files".into()));
        assert_eq!(directory.prefix, "");
        assert_eq!(directory.to_string(), "file:///srv/butler%20files");
    }

    #[test]
    fn other_texts_are_refused_and_not_repeated() {
        for (text, why) in [
            ("s3:///prefix", "it has no bucket"),
            ("https://bucket.example/hunter22", "its scheme is `https`"),
            ("s3://AKIA:hunter22@bucket", "credentials are read from the environment"),
            ("s3://bucket?secret=hunter22", "more than a bucket and a prefix"),
            ("file://host/hunter22", "a directory has no host"),
            ("s3://bucket/a//hunter22", "plain names"),
            ("s3://bucket/%20/hunter22", "plain names"),
            ("hunter22", "relative URL"),
        ] {
            let error = text.parse::<ArtifactsAddress>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
            assert!(!error.contains("hunter22"), "{error}");
        }
    }
}
