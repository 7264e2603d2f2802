//! An S3 server for one test, with `DynamoDB` for locks: moto, which verifies every signature.
//!
//! `.ci/setup test` installs it from `PyPI`. It accepts any signature only while a test creates a
//! bucket or credentials, or reads a bucket.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use butler_base::http::{Redirects, client};
use serde_json::{Value, json};

use super::environment::search_path;
use super::project::project_path;

/// The directory into which `.ci/setup test` installs it.
const PYTHON: &str = "target/tools/moto/bin/python";

/// The bucket that exists from the start.
pub const BUCKET: &str = "states";

/// The lock table that exists from the start.
pub const TABLE: &str = "locks";

/// A running server; dropping it ends it.
pub struct ObjectStore {
    process: Child,
    endpoint: String,
    client: reqwest::Client,
    /// The id of the credentials.
    pub access_key: String,
    /// The secret of the credentials.
    pub secret_key: String,
}

impl ObjectStore {
    /// Starts it with [`BUCKET`], [`TABLE`] and one pair of credentials for both.
    ///
    /// # Panics
    /// When moto is not installed.
    pub async fn start() -> Self {
        let mut process = Command::new(project_path(PYTHON))
            .args(["-m", "moto.server", "--host", "127.0.0.1", "--port", "0"])
            .env_clear()
            .env("PATH", search_path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("moto is installed by `.ci/setup test`");
        let mut lines =
            BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let endpoint = lines
            .find_map(|line| Some(line[line.find("http://127.0.0.1:")?..].trim().to_owned()))
            .expect("moto says where it listens");
        // Its request log needs a destination.
        std::thread::spawn(move || lines.for_each(drop));
        let client = client(None, Redirects::Refuse).unwrap();
        let (access_key, secret_key) = (String::new(), String::new());
        let mut store = Self { process, endpoint, client, access_key, secret_key };
        store.create_bucket(BUCKET).await;
        store.create_table().await;
        store.create_credentials().await;
        store.check_signatures(true).await;
        store
    }

    /// The settings of an s3 backend in the form of a registry: no flags, and a flat endpoint.
    pub fn config(&self) -> Value {
        json!({
            "bucket": BUCKET,
            "key": "network/terraform.tfstate",
            "region": "us-east-1",
            "endpoint": self.endpoint,
            "access_key": self.access_key,
            "secret_key": self.secret_key,
        })
    }

    /// Its URL.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The object in the bucket with this key.
    pub async fn object(&self, key: &str) -> Option<Value> {
        self.check_signatures(false).await;
        let url = format!("{}/{BUCKET}/{key}", self.endpoint);
        let answer = as_user("s3", self.client.get(url)).send().await.unwrap();
        let found = answer.status().is_success();
        let text = answer.text().await.unwrap();
        self.check_signatures(true).await;
        found.then(|| serde_json::from_str(&text).unwrap())
    }

    /// Creates a bucket.
    async fn create_bucket(&self, name: &str) {
        let url = format!("{}/{name}", self.endpoint);
        let answer = self.client.put(url).send().await.unwrap();
        assert!(answer.status().is_success(), "{answer:?}");
    }

    async fn create_table(&self) {
        let table = json!({
            "TableName": TABLE,
            "KeySchema": [{"AttributeName": "LockID", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "LockID", "AttributeType": "S"}],
            "BillingMode": "PAY_PER_REQUEST",
        });
        let request = self.client.post(&self.endpoint).body(table.to_string());
        let request = request.header("x-amz-target", "DynamoDB_20120810.CreateTable");
        self.answered("dynamodb", request.header("content-type", "application/x-amz-json-1.0"))
            .await;
    }

    async fn create_credentials(&mut self) {
        let act = |action: &str, more: &str| {
            let body = format!("Version=2010-05-08&UserName=terraform&Action={action}{more}");
            let kind = "application/x-www-form-urlencoded";
            self.client.post(&self.endpoint).header("content-type", kind).body(body)
        };
        let policy = json!({
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Action": ["s3:*", "dynamodb:*"], "Resource": "*"}],
        });
        let policy: String =
            url::form_urlencoded::byte_serialize(policy.to_string().as_bytes()).collect();
        let policy = format!("&PolicyName=states&PolicyDocument={policy}");
        self.answered("iam", act("CreateUser", "")).await;
        self.answered("iam", act("PutUserPolicy", &policy)).await;
        let answer = self.answered("iam", act("CreateAccessKey", "")).await;
        let answer = roxmltree::Document::parse(&answer).unwrap();
        let text = |name: &str| {
            let node = answer.descendants().find(|node| node.has_tag_name(name)).unwrap();
            node.text().unwrap().to_owned()
        };
        (self.access_key, self.secret_key) = (text("AccessKeyId"), text("SecretAccessKey"));
    }

    /// Sends a request to one of its services.
    async fn answered(&self, service: &str, request: reqwest::RequestBuilder) -> String {
        let answer = as_user(service, request).send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(status.is_success(), "{status}: {text}");
        text
    }

    async fn check_signatures(&self, check: bool) {
        // The number of following requests that need no valid signature.
        let unchecked = if check { "0" } else { "inf" };
        let url = format!("{}/moto-api/reset-auth", self.endpoint);
        let request = self.client.post(url).header("content-type", "text/plain").body(unchecked);
        assert!(request.send().await.unwrap().status().is_success());
    }
}

/// A request whose signature is not verified; it names the service.
fn as_user(service: &str, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
    let scope = format!("x/20260101/us-east-1/{service}/aws4_request");
    let login = format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=x");
    request.header("authorization", login)
}

impl Drop for ObjectStore {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
