//! A headless Chromium with its own profile, driven over `WebDriver` (W3C) by chromedriver.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use butler_base::http::{Redirects, client};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::environment::find_program;

/// A browser with one window. It ends with this value.
pub struct Browser {
    driver: Child,
    process: Option<i32>,
    session: String,
    client: reqwest::Client,
    profile: TempDir,
    /// Kept open, because the driver may print more.
    _said: BufReader<ChildStdout>,
}

impl Browser {
    /// Starts a browser; `arguments` are Chromium's.
    ///
    /// # Panics
    /// When Chromium or its driver is missing or does not start.
    pub async fn start(arguments: &[&str]) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let driver = find_program("chromedriver").expect("chromedriver is installed");
        let chromium = find_program("chromium").expect("chromium is installed");
        let mut driver = Command::new(driver)
            .arg("--port=0")
            .env("HOME", profile.path())
            .env("TMPDIR", profile.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut said = BufReader::new(driver.stdout.take().unwrap());
        let port: u16 = (&mut said)
            .lines()
            .map_while(Result::ok)
            .find_map(|line| {
                line.split_once("successfully on port ")?.1.strip_suffix('.')?.parse().ok()
            })
            .expect("the driver says its port");
        let mut browser = Self {
            driver,
            process: None,
            session: format!("http://127.0.0.1:{port}/session"),
            client: client(None, Redirects::Refuse).unwrap(),
            profile,
            _said: said,
        };
        let data = format!("--user-data-dir={}", browser.profile.path().join("profile").display());
        let quiet = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            &data,
        ];
        let arguments = [&quiet, arguments].concat();
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"binary": chromium, "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }}});
        let answer = browser.post("", capabilities).await;
        browser.session = format!("{}/{}", browser.session, answer["sessionId"].as_str().unwrap());
        let process = answer["capabilities"]["goog:processID"].as_i64();
        browser.process = process.and_then(|process| i32::try_from(process).ok());
        browser
    }

    /// Opens a file.
    pub async fn open(&self, page: &Path) {
        self.post("/url", json!({"url": format!("file://{}", page.display())})).await;
    }

    /// Opens a page of a server.
    pub async fn open_url(&self, url: &str) {
        self.post("/url", json!({"url": url})).await;
    }

    /// Sends a command of the browser's own protocol.
    pub async fn command(&self, name: &str, parameters: Value) -> Value {
        self.post("/goog/cdp/execute", json!({"cmd": name, "params": parameters})).await
    }

    /// The result of a function body in the page, or `None` if the page changes meanwhile.
    pub async fn try_run(&self, script: &str) -> Option<Value> {
        let answer = self.ask("/execute/sync", json!({"script": script, "args": []})).await;
        answer.get("error").is_none().then_some(answer)
    }

    /// The result of a function body in the page; promises are awaited.
    pub async fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", json!({"script": script, "args": []})).await
    }

    /// The messages on its console.
    pub async fn console(&self) -> Vec<Value> {
        self.log("browser").await
    }

    /// The URLs that it requested.
    pub async fn requests(&self) -> Vec<String> {
        let events = self.log("performance").await;
        let events = events.iter().filter_map(|event| {
            let event: Value = serde_json::from_str(event["message"].as_str()?).ok()?;
            let is_request = event["message"]["method"] == "Network.requestWillBeSent";
            let url = event["message"]["params"]["request"]["url"].as_str()?.to_owned();
            is_request.then_some(url)
        });
        events.collect()
    }

    async fn log(&self, kind: &str) -> Vec<Value> {
        let log = self.post("/se/log", json!({"type": kind})).await;
        log.as_array().unwrap().clone()
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let value = self.ask(path, body).await;
        assert!(value.get("error").is_none(), "{path}: {value}");
        value
    }

    async fn ask(&self, path: &str, body: Value) -> Value {
        let request = self.client.post(format!("{}{path}", self.session)).json(&body);
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        answer["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(browser) = self.process {
            let _ = kill(Pid::from_raw(browser), Signal::SIGKILL);
        }
        let driver = i32::try_from(self.driver.id()).unwrap();
        let _ = killpg(Pid::from_raw(driver), Signal::SIGKILL);
        let _ = self.driver.wait();
    }
}
