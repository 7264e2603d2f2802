//! Objects: chunks of files, each of which is written once.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use butler_base::error::chain;
use butler_base::http::{self, HttpError, Redirects};
use butler_base::platform::fs::{DirBuilderExt, PermissionsExt};
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::{ClientOptions, HttpClient, HttpConnector};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::{
    Error, GetOptions, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, RetryConfig,
};
use secrecy::ExposeSecret as _;

use super::address::{ArtifactsSettings, Provider};

/// How long a request is repeated before it counts as failed. The copier repeats it after that.
const RETRIES: Duration = Duration::from_secs(15);

/// How long a request may take with all its repetitions: a chunk has at most 8 MiB.
const DEADLINE: Duration = Duration::from_mins(1);

/// The digits of the offset in the name of a chunk, so that names are listed in the order of chunks.
const DIGITS: usize = 12;

type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// The objects of one installation.
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    prefix: Key,
    shown: String,
}

impl std::fmt::Debug for Bucket {
    /// Without the store, which has credentials.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Bucket({})", self.shown)
    }
}

/// The object store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// Its settings are wrong or incomplete.
    #[error("cannot use the object store `{shown}`")]
    Settings {
        /// Its address.
        shown: String,
        /// The cause.
        #[source]
        source: BoxedError,
    },
    /// A request failed, also when it was repeated.
    #[error("the object store `{shown}` does not answer: {why}")]
    Unavailable {
        /// Its address.
        shown: String,
        /// The cause, without the queries of URLs.
        why: String,
    },
    /// The data directory.
    #[error("cannot copy the files of an attempt")]
    Io(#[from] std::io::Error),
}

/// Builds the one HTTP client there is, with our roots and proxies.
#[derive(Debug)]
struct Connector(reqwest::Client);

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.0.clone()))
    }
}

impl Bucket {
    /// The objects in an object store. `ca_bundle` has certificates that are trusted beside those of the system.
    /// Sends no request.
    ///
    /// # Errors
    /// If the settings cannot be used.
    pub fn open(
        settings: &ArtifactsSettings,
        ca_bundle: Option<&Path>,
    ) -> Result<Self, BucketError> {
        let address = &settings.address;
        let failed =
            |source: BoxedError| BucketError::Settings { shown: address.to_string(), source };
        let store = open(settings, ca_bundle).map_err(failed)?;
        let prefix = Key::parse(&address.prefix).map_err(|error| failed(Box::new(error)))?;
        Ok(Self { store, prefix, shown: address.to_string() })
    }

    /// Objects in this store.
    #[cfg(test)]
    pub(crate) fn of(store: Arc<dyn ObjectStore>) -> Self {
        Self { store, prefix: Key::default(), shown: "test".to_owned() }
    }

    /// Writes a chunk of a file, unless there is one. Returns the length of the one that is there.
    ///
    /// # Errors
    /// If the object store does not answer.
    pub(crate) async fn put(
        &self,
        file: &str,
        offset: u64,
        content: Vec<u8>,
    ) -> Result<u64, BucketError> {
        let (key, length) = (self.chunk(file, offset), content.len() as u64);
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.in_time(self.store.put_opts(&key, content.into(), options)).await? {
            Ok(_) => Ok(length),
            // An earlier request whose answer was lost, perhaps when the file was shorter.
            Err(Error::AlreadyExists { .. }) => {
                let known = self.in_time(self.store.head(&key)).await?;
                known.map(|known| known.size).map_err(|error| self.failed(&error))
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// The lengths of the chunks of all files below a directory, by their offsets and files.
    ///
    /// # Errors
    /// If the object store does not answer.
    pub(crate) async fn chunks(
        &self,
        directory: &str,
    ) -> Result<BTreeMap<String, BTreeMap<u64, u64>>, BucketError> {
        let below = self.key(directory);
        let mut found = BTreeMap::<_, BTreeMap<_, _>>::new();
        let mut objects = self.store.list(Some(&below));
        while let Some(object) = self.in_time(objects.next()).await? {
            let object = object.map_err(|error| self.failed(&error))?;
            let parts = object.location.prefix_match(&below);
            let mut parts: Vec<_> =
                parts.into_iter().flatten().map(|it| it.as_ref().to_owned()).collect();
            // Objects that others have put there are not read.
            let Some(offset) = parts.pop().and_then(|name| name.parse::<u64>().ok()) else {
                continue;
            };
            found.entry(parts.join("/")).or_default().insert(offset, object.size);
        }
        Ok(found)
    }

    /// A chunk; `None` if it does not exist.
    ///
    /// # Errors
    /// If the object store does not answer.
    pub(super) async fn get(
        &self,
        file: &str,
        offset: u64,
    ) -> Result<Option<Vec<u8>>, BucketError> {
        let key = self.chunk(file, offset);
        let content = async {
            let found = self.store.get_opts(&key, GetOptions::default()).await?;
            found.bytes().await
        };
        match self.in_time(content).await? {
            Ok(content) => Ok(Some(content.into())),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Deletes everything below a directory.
    ///
    /// # Errors
    /// If the object store does not answer. A part may be deleted.
    pub(crate) async fn delete(&self, directory: &str) -> Result<(), BucketError> {
        let below = self.key(directory);
        let keys = self.store.list(Some(&below)).map_ok(|object| object.location).boxed();
        let mut deleted = self.store.delete_stream(keys);
        while let Some(deleted) = self.in_time(deleted.next()).await? {
            match deleted {
                Ok(_) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
        Ok(())
    }

    /// The answer to a request, or an error if there is none in time.
    async fn in_time<T>(&self, request: impl Future<Output = T>) -> Result<T, BucketError> {
        let answer = tokio::time::timeout(DEADLINE, request).await;
        answer.map_err(|_| BucketError::Unavailable {
            shown: self.shown.clone(),
            why: format!("no answer within {} s", DEADLINE.as_secs()),
        })
    }

    fn key(&self, path: &str) -> Key {
        path.split('/').fold(self.prefix.clone(), Key::join)
    }

    fn chunk(&self, file: &str, offset: u64) -> Key {
        self.key(&format!("{file}/{offset:0DIGITS$}"))
    }

    fn failed(&self, error: &Error) -> BucketError {
        BucketError::Unavailable { shown: self.shown.clone(), why: without_queries(&chain(error)) }
    }
}

fn open(
    settings: &ArtifactsSettings,
    ca_bundle: Option<&Path>,
) -> Result<Arc<dyn ObjectStore>, BoxedError> {
    let retries = RetryConfig { retry_timeout: RETRIES, ..RetryConfig::default() };
    let client = || -> Result<Connector, HttpError> {
        http::client(ca_bundle, Redirects::Refuse).map(Connector)
    };
    // The names of settings are those of variables in small letters.
    let variables = settings.variables.iter();
    let all: Vec<_> =
        variables.map(|(name, value)| (name.to_ascii_lowercase(), value.expose_secret())).collect();
    let of = |prefix: &'static str| settings_of(&all, prefix);
    Ok(match &settings.address.provider {
        Provider::S3(bucket) => {
            let builder = of("aws_")?.fold(AmazonS3Builder::new(), |builder, (name, value)| {
                match name.parse() {
                    Ok(key) => builder.with_config(key, value),
                    Err(_) => builder,
                }
            });
            let builder = builder.with_bucket_name(bucket).with_retry(retries);
            Arc::new(builder.with_http_connector(client()?).build()?)
        }
        Provider::Google(bucket) => {
            let builder = GoogleCloudStorageBuilder::new();
            let builder =
                of("google_")?.fold(builder, |builder, (name, value)| match name.parse() {
                    Ok(key) => builder.with_config(key, value),
                    Err(_) => builder,
                });
            let builder = builder.with_bucket_name(bucket).with_retry(retries);
            Arc::new(builder.with_http_connector(client()?).build()?)
        }
        Provider::Azure(container) => {
            let builder = MicrosoftAzureBuilder::new();
            let builder =
                of("azure_")?.fold(builder, |builder, (name, value)| match name.parse() {
                    Ok(key) => builder.with_config(key, value),
                    Err(_) => builder,
                });
            let builder = builder.with_container_name(container).with_retry(retries);
            Arc::new(builder.with_http_connector(client()?).build()?)
        }
        Provider::Directory(directory) => {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            // What is in it has no mode of its own.
            std::fs::set_permissions(directory, PermissionsExt::from_mode(0o700))?;
            Arc::new(LocalFileSystem::new_with_prefix(directory)?)
        }
    })
}

/// The settings of one provider.
fn settings_of<'a>(
    all: &'a [(String, &'a str)],
    prefix: &'static str,
) -> Result<impl Iterator<Item = (&'a str, &'a str)>, BoxedError> {
    let of_provider = all.iter().filter(move |(name, _)| name.starts_with(prefix));
    let of_provider = of_provider.map(|(name, value)| (name.as_str(), *value));
    let allows_http = of_provider.clone().any(|(name, value)| {
        name.strip_prefix(prefix) == Some("allow_http") && value.eq_ignore_ascii_case("true")
    });
    for (name, value) in of_provider.clone() {
        let is_plain =
            url::Url::parse(value).is_ok_and(|url| url.scheme() == "http" && !is_local(&url));
        let is_endpoint = name.contains("endpoint") || name.contains("base_url");
        if is_plain && is_endpoint && !allows_http {
            let (name, prefix) = (name.to_ascii_uppercase(), prefix.to_ascii_uppercase());
            let why = format!("{name} has no TLS; use `https://`, or set {prefix}ALLOW_HTTP=true");
            return Err(why.into());
        }
    }
    Ok(of_provider)
}

/// A text whose URLs have no query: with a shared access signature of Azure, it is the login.
fn without_queries(text: &str) -> String {
    let words = text.split(' ').map(|word| match word.split_once('?') {
        Some((url, _)) if url.contains("://") => url,
        _ => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

fn is_local(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_do_not_contain_the_queries_of_urls() {
        let text = "Error performing GET https://a.example/c?sig=hunter22&list in 2s: why? no";
        let shown = without_queries(text);
        assert_eq!(shown, "Error performing GET https://a.example/c in 2s: why? no");
    }

    #[test]
    fn bucket_prints_no_credentials() {
        let secret = "hunter22".into();
        let settings = ArtifactsSettings {
            address: "s3://bucket".parse().unwrap(),
            variables: vec![
                ("AWS_SECRET_ACCESS_KEY".into(), secret),
                ("AWS_ACCESS_KEY_ID".into(), "AKIA".into()),
                ("AWS_REGION".into(), "us-east-1".into()),
            ],
        };
        let bucket = Bucket::open(&settings, None).unwrap();
        let shown = format!("{bucket:?} {settings:?}");
        assert!(shown.contains("s3://bucket") && !shown.contains("hunter22"), "{shown}");
    }
}
