//! Azure Blob Storage for one test: Azurite, which verifies every signature.
//!
//! `.ci/setup test` installs it from the registry of npm packages.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use butler_base::http::{Redirects, client};
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::sign::Signer;

use super::environment::search_path;
use super::project::project_path;

const PROGRAM: &str = "target/tools/azurite/node_modules/azurite/dist/src/blob/main.js";

/// The account that Azurite has.
const ACCOUNT: &str = "devstoreaccount1";

/// Its key, which the documentation of Azurite names.
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// The container that exists from the start.
pub const CONTAINER: &str = "copies";

/// A running server; dropping it ends it.
pub struct Azure {
    process: Child,
    endpoint: String,
}

impl Azure {
    /// Starts it with [`CONTAINER`].
    ///
    /// # Panics
    /// When Azurite is not installed.
    pub async fn start() -> Self {
        let mut process = Command::new("node")
            .arg(project_path(PROGRAM))
            .args(["--blobPort", "0", "--inMemoryPersistence", "--disableTelemetry"])
            .arg("--skipApiVersionCheck")
            .env_clear()
            .env("PATH", search_path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Azurite is installed by `.ci/setup test`");
        let mut lines =
            BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        let address = lines
            .find_map(|line| Some(line.split_once("listens on ")?.1.trim().to_owned()))
            .expect("Azurite says where it listens");
        // Its request log needs a destination.
        std::thread::spawn(move || lines.for_each(drop));
        let azure = Self { process, endpoint: format!("{address}/{ACCOUNT}") };
        azure.create_container().await;
        azure
    }

    /// The variables of a client.
    pub fn variables(&self) -> Vec<String> {
        vec![
            format!("AZURE_STORAGE_ACCOUNT_NAME={ACCOUNT}"),
            format!("AZURE_STORAGE_ACCOUNT_KEY={KEY}"),
            format!("AZURE_STORAGE_ENDPOINT={}", self.endpoint),
        ]
    }

    async fn create_container(&self) {
        let date = httpdate::fmt_http_date(SystemTime::now());
        let version = "2021-08-06";
        // The headers that are signed, each in a line, and the resource.
        let text = format!(
            "PUT{}x-ms-date:{date}\nx-ms-version:{version}\n/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\n\
             restype:container",
            "\n".repeat(12)
        );
        let key = PKey::hmac(&STANDARD.decode(KEY).unwrap()).unwrap();
        let mut signer = Signer::new(MessageDigest::sha256(), &key).unwrap();
        let signature = STANDARD.encode(signer.sign_oneshot_to_vec(text.as_bytes()).unwrap());
        let answer = client(None, Redirects::Refuse)
            .unwrap()
            .put(format!("{}/{CONTAINER}?restype=container", self.endpoint))
            .header("x-ms-date", date)
            .header("x-ms-version", version)
            .header("authorization", format!("SharedKey {ACCOUNT}:{signature}"))
            .send()
            .await
            .unwrap();
        assert!(answer.status().is_success(), "{answer:?}");
    }
}

impl Drop for Azure {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
