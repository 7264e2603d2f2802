//! A browser on the pages of a server.

use super::*;
use butler_testing::browser::Browser;

/// A browser on the pages of a server.
pub(super) struct Visit {
    pub(super) browser: Browser,
    pub(super) address: String,
}

impl Visit {
    /// Opens the pages, and signs in as the administrator.
    pub(super) async fn signed_in(installation: &Installation) -> Self {
        let address = installation.server.as_ref().unwrap().address.clone();
        let visit = Self { browser: Browser::start(&[]).await, address };
        visit.open("/").await;
        let token = std::fs::read_to_string(installation.data().join("admin.token")).unwrap();
        let fill = format!("document.getElementById('access-token').value = '{}'", token.trim());
        visit.browser.run(&fill).await;
        visit.click(".sign-in button").await;
        visit.until("the overview", "document.title.startsWith('Layers')").await;
        visit
    }

    pub(super) async fn open(&self, path: &str) {
        self.browser.open_url(&format!("{}{path}", self.address)).await;
    }

    pub(super) async fn click(&self, selector: &str) {
        let found = format!("document.querySelector(\"{selector}\") !== null");
        self.until(selector, &found).await;
        self.browser.run(&format!("document.querySelector(\"{selector}\").click()")).await;
    }

    /// Waits until an expression is true in the page.
    pub(super) async fn until(&self, what: &str, expression: &str) {
        let held = async {
            // The page can change while it is asked.
            while self.browser.try_run(&format!("return {expression}")).await != Some(true.into()) {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        let held = tokio::time::timeout(std::time::Duration::from_mins(1), held).await;
        if held.is_err() {
            let page = self.browser.run("return document.body.innerText").await;
            panic!("there never was {what}: {}", page.as_str().unwrap());
        }
    }

    pub(super) async fn until_text(&self, text: &str) {
        self.until(text, &format!("document.body.textContent.includes(\"{text}\")")).await;
    }

    pub(super) async fn text(&self, selector: &str) -> String {
        let script = format!("return document.querySelector(\"{selector}\").innerText");
        self.browser.run(&script).await.as_str().unwrap().to_owned()
    }

    /// The numbers and texts of the lines of the log.
    pub(super) async fn log(&self) -> Vec<(u64, String)> {
        let script = "return [...document.querySelectorAll('#lines .chunk > span')].map((line) => [Number(line.id), line.textContent])";
        serde_json::from_value(self.browser.run(script).await).unwrap()
    }

    /// No policy was violated, also if the server was away meanwhile.
    pub(super) async fn was_free_of_violations(&self) {
        let console = self.browser.console().await.into_iter();
        let text = |message: &Value| message["message"].as_str().unwrap().to_owned();
        let violations: Vec<String> = console
            .map(|it| text(&it))
            .filter(|it| it.contains("Content Security Policy"))
            .collect();
        assert_eq!(violations, [""; 0]);
    }

    /// Nothing was loaded from another server, and nothing was refused or failed in a page.
    pub(super) async fn was_quiet(&self) {
        let requests = self.browser.requests().await;
        let strange: Vec<_> = requests
            .iter()
            .filter(|url| !url.starts_with(&self.address) && !url.starts_with("data:"))
            .filter(|url| !url.starts_with("chrome:") && *url != "about:blank")
            .collect();
        assert!(strange.is_empty(), "{strange:?}");
        let console = self.browser.console().await.into_iter();
        let problems: Vec<Value> = console.filter(|message| message["level"] == "SEVERE").collect();
        assert_eq!(problems, [Value::Null; 0]);
    }
}
